"""Installed as a user would, in an empty home: by uv, by pipx, by pip from the built wheel, and by `make install`.

uv and pipx are installed by name into a folder of the test. Each way walks the first steps with a scripted agent in
tmux, then uninstalls, and nothing is left.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import ROOT
from tests.e2e.test_fresh_clone import environment

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1100)]
INSTALL_SECONDS = 500
SHARED = (
    "man/man1/interlock.1",
    "bash-completion/completions/interlock",
    "fish/vendor_completions.d/interlock.fish",
    "zsh/site-functions/_interlock",
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs `uv` and `pipx`."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run((sys.executable, "-m", "venv", folder), check=True, timeout=INSTALL_SECONDS)
    wanted = (folder / "bin" / "python", "-m", "pip", "install", "-qq", "uv", "pipx")
    subprocess.run(wanted, check=True, timeout=INSTALL_SECONDS)
    return folder / "bin"


class Person:
    """A user with an empty home, and a copy of the sources."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**environment(home), "INTERLOCK_CONFIG": str(home / "config.toml")}
        self.env["PATH"] = f"{home / '.local' / 'bin'}:{self.env['PATH']}"
        tracked = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, tracked.decode().split("\0")):
            if name.startswith(("src/", "share/")) or "/" not in name:
                (home / "source" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, home / "source" / name)

    def run(self, *words: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            words,
            env=self.env,
            cwd=self.home / "source",
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def person() -> Iterator[Person]:
    with tempfile.TemporaryDirectory(prefix="il-") as home:
        yield Person(Path(home))


def install(person: Person, way: str, tools: Path) -> Path:
    """Install it; the program."""
    python = person.env["PYTHON"]
    program = person.home / ".local" / "bin" / "interlock"
    match way:
        case "uv":
            person.run(tools / "uv", "tool", "install", "--python", python, ".")
        case "pipx":
            person.run(tools / "pipx", "install", "--python", python, ".")
        case "make":
            person.run("make", "install")
        case _:
            person.run(tools / "uv", "build", "--wheel", "--out-dir", person.home / "built", "--python", python)
            person.run(python, "-m", "venv", person.home / "venv")
            (wheel,) = (person.home / "built").glob("*.whl")
            person.run(person.home / "venv" / "bin" / "python", "-m", "pip", "install", "-qq", wheel)
            program = person.home / "venv" / "bin" / "interlock"
    return program


def remove(person: Person, way: str, tools: Path) -> None:
    match way:
        case "uv":
            person.run(tools / "uv", "tool", "uninstall", "interlock")
        case "pipx":
            person.run(tools / "pipx", "uninstall", "interlock")
        case "make":
            person.run("make", "uninstall")
        case _:
            person.run(person.home / "venv" / "bin" / "python", "-m", "pip", "uninstall", "-qq", "--yes", "interlock")


@pytest.mark.parametrize("way", ["uv", "pipx", "pip", "make"])
def test_it_is_installed_used_and_uninstalled(way: str, person: Person, tools: Path) -> None:
    program = install(person, way, tools)
    prefix = program.resolve().parent.parent
    assert [name for name in SHARED if not (prefix / "share" / name).is_file()] == []
    assert "Welcome to Interlock" in person.run(program)
    assert person.run(program, "version").strip()
    agent = [str(prefix / "bin" / "python"), "-m", "interlock.testing.scripted_agent"]
    Path(person.env["INTERLOCK_CONFIG"]).write_text(
        f"[agents.scripted]\nargv = {json.dumps(agent)}\ndriver = 'terminal'\n"
    )
    try:
        person.run(program, "run", "scripted", "say hello", "--wait", "--timeout", "120")
        assert "scripted" in person.run(program, "ps")
        assert "KillMode=process" in written_unit(person, program)
    finally:
        person.run(program, "down", "--stop-agents")
    told = person.run(program, "uninstall", "--yes")
    assert {"pip": "pip uninstall"}.get(way, {"make": "pip uninstall"}.get(way, f"{way} ")) in told
    remove(person, way, tools)
    assert not program.exists()
    assert not (person.home / ".local" / "state" / "interlock").exists()
    found = {path for path in person.home.glob(".local/**/*interlock*") if path.is_file() or path.is_symlink()}
    # A lock that pipx itself leaves beside its environments.
    assert found - {person.home / ".local" / "share" / "pipx" / "venvs" / ".interlock.lock"} == set()


def written_unit(person: Person, program: Path) -> str:
    person.run(program, "service", "install", "--no-start", "--manager", "systemd")
    base = Path(person.env.get("XDG_CONFIG_HOME") or person.home / ".config")
    unit = base / "systemd" / "user" / "interlock.service"
    assert os.access(unit, os.R_OK)
    return unit.read_text()
