"""The programs of `examples/` do what their first lines say, against a real server and scripted agents."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.cli.births import Birth
from tests.cli.serving import WAIT_SECONDS, Following, Served, serving, until
from tests.docs.running import blocks

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.timeout(120)


def environment(folder: Path, home: Path) -> dict[str, str]:
    """As for a person: a configuration with one agent, and the home of the server."""
    face = [sys.executable, "-m", "interlock.testing.scripted_agent", "--stream-json", "--gates", str(folder / "gates")]
    config = folder / "config.toml"
    config.write_text(f'[agents.scripted]\ndriver = "claude-stream"\nargv = {json.dumps(face)}\n', encoding="utf-8")
    return {**os.environ, "INTERLOCK_HOME": str(home), "INTERLOCK_CONFIG": str(config), "PYTHONUNBUFFERED": "1"}


def run(name: str, *args: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-W", "error", str(EXAMPLES / name), *args),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env=env,
        timeout=100,
        check=False,
    )


@contextmanager
def running(name: str, cwd: Path, env: dict[str, str]) -> Iterator[Following]:
    """A program while it goes on."""
    out, err = cwd / f"{name}.out", cwd / f"{name}.err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            (sys.executable, "-W", "error", str(EXAMPLES / name)),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
        )
    try:
        yield Following(cast("Birth", process), out, err)  # to its callers, a birth is as a Popen
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)


def test_the_examples_that_need_a_server(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        env = environment(tmp_path, served.home)
        check_ask(tmp_path, env)
        check_readme(tmp_path, env)
        check_fleet(tmp_path, env)
        with running("pager.py", tmp_path, env) as pager, running("gatekeeper.py", tmp_path, env) as keeper:
            check_gatekeeper(served, keeper)
            check_pager(served, pager)
            assert keeper.interrupted() == 0
            assert pager.interrupted() == 0
            assert pager.stderr + keeper.stderr == ""


def check_ask(folder: Path, env: dict[str, str]) -> None:
    done = run("ask.py", "scripted", "say These two.", cwd=folder, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "These two.\n", "")
    partial = run("ask.py", "scripted", "say Half of; fail 500", cwd=folder, env=env)
    assert (partial.returncode, partial.stdout) == (1, ""), "half of an answer is none"
    assert partial.stderr.startswith("the turn failed part of the way")
    asking = run("ask.py", "scripted", "ask Which one? | this | that", cwd=folder, env=env)
    assert (asking.returncode, asking.stdout) == (1, "")
    assert re.search(r"waits for a person: Which one\?; `interlock why ses_\w+`", asking.stderr)
    alone = run("ask.py", "scripted", "say x", cwd=folder, env={**env, "INTERLOCK_HOME": str(folder / "nowhere")})
    assert (
        alone.stderr == f"no server runs in {folder}/nowhere; start one with `interlock up --home {folder}/nowhere`\n"
    )


def check_readme(folder: Path, env: dict[str, str]) -> None:
    (program,) = blocks((EXAMPLES.parent / "README.md").read_text(encoding="utf-8"), "py")
    assert '"claude", "Which tests are slow?"' in program
    (folder / "readme.py").write_text(program.replace('"claude", "Which tests are slow?"', '"scripted", "say None."'))
    done = subprocess.run(
        (sys.executable, "readme.py"), cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "None.\n", "")


def check_fleet(folder: Path, env: dict[str, str]) -> None:
    for name in ("api", "web"):
        (folder / name).mkdir()
    done = run("fleet.py", "scripted", "say Updated.", "api", "web", "missing", cwd=folder, env=env)
    assert done.returncode == 1
    assert re.match(r"api +completed +ses_\w+ .*\nweb +completed +ses_\w+ .*\nmissing +(?!completed)", done.stdout), (
        done.stderr
    )


def check_gatekeeper(served: Served, keeper: Following) -> None:
    reads = served.open('request Read {"path": "README.md"} -> text; say Read.', title="reader")
    keeper.says(f"{reads}  allowed: ")
    served.shows(reads, status="COMPLETED")
    pushes = served.open('request Bash {"command": "git push"} -> pushed; say Went on.', title="pusher")
    keeper.says(f"{pushes}  refused: ")
    other = served.open('request Bash {"command": "make"} -> made', title="maker")
    served.shows(other, attention="approval")
    assert other not in keeper.stdout  # that one is for a person


def check_pager(served: Served, pager: Following) -> None:
    pager.says("maker needs you: approval: ")
    asker = served.open("ask Which one? | this | that", title="asker")
    pager.says("asker needs you: question: Which one?\n")
    served.send(asker, "say Later.")  # its line changes, and what it needs does not
    until(lambda: served.task(asker)["summary"].get("queued") == 1, "a prompt waits")
    served.open("ask And this? | yes | no", title="last")
    pager.says("last needs you: question: And this?\n")
    assert pager.stdout.count("asker needs you") == 1


def test_the_example_that_needs_none(tmp_path: Path) -> None:
    env = {**os.environ, "INTERLOCK_HOME": str(tmp_path / "home")}
    first = run("embedded.py", "state", "say Hello; call Bash -> ok; say Done.", cwd=tmp_path, env=env)
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[-2:] == ["agent: Done.", "turn 1: completed"]
    second = run("embedded.py", "state", "say Half; crash", cwd=tmp_path, env=env)
    assert second.returncode == 1
    assert "turn 2: partial_failed" in second.stdout


@pytest.mark.parametrize("name", ["ask.py", "fleet.py", "embedded.py", "watch_pane.py"])
def test_an_example_without_arguments_says_what_it_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit, match=f"python examples/{name}"):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_every_example_is_run_here_or_by_its_page() -> None:
    runners = (Path(__file__), Path(__file__).parents[1] / "docs/test_watching_page.py")
    text = "".join(runner.read_text(encoding="utf-8") for runner in runners)
    programs = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert len(programs) == 8
    assert [name for name in programs if len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) > 60] == []
    assert [name for name in programs if f'"{name}"' not in text] == []
