"""The packages: they build, hold what is needed and nothing else, and run where nothing of this folder is."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.e2e.shell import ROOT, empty_environment, empty_home, processes_of

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]
# Data beside the code, without which something would not work.
NEEDED = ("interlock/py.typed", "interlock/cli/top/styles.tcss", "interlock/screen/profiles/scripted.toml")


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env=env,
        timeout=200,
        check=False,
    )


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist. Nothing is fetched: the backend is one of our own dependencies."""
    done = run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    assert done.returncode == 0, done.stderr
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def install(package: Path, place: Path) -> Path:
    """A new environment that has the package, and by a path file what it depends on; its folder of programs.

    A folder that is named in a path file is searched, but its own path files are not: this checkout stays unknown.
    """
    assert run(sys.executable, "-m", "venv", "--without-pip", place).returncode == 0
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", place / "bin/python", "install", "--no-deps", "--no-index")
    done = run(*pip, "--ignore-installed", "--no-build-isolation", package)
    assert done.returncode == 0, done.stderr
    return place / "bin"


def check_contents(wheel: Path, sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in NEEDED if name not in names] == []
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"interlock"}
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml", "examples/ask.py"} <= files
    assert {f"src/{name}" for name in NEEDED} <= files
    assert [name for name in files if ".venv" in name or "__pycache__" in name] == []


def test_the_packages_build_and_the_wheel_runs_in_an_environment_of_its_own(tmp_path: Path) -> None:
    wheel, sdist = build(tmp_path / "dist")
    check_contents(wheel, sdist)
    programs = install(wheel, tmp_path / "venv")
    with empty_home() as home:
        env = {**empty_environment(home), "PATH": f"{programs}:/usr/bin:/bin"}
        check_that_it_is_the_package(programs, version_of(wheel), home, env)
        nobody = run(programs / "interlock", "ps", cwd=home, env=env)
        assert (nobody.returncode, nobody.stdout) == (8, ""), nobody.stderr
        demo = run(programs / "interlock", "demo", cwd=home, env=env)
        assert demo.returncode == 0, demo.stderr
        assert "the task is CANCELLED" in demo.stdout
        assert [*processes_of(home), *(home / "tmp").iterdir()] == []


def check_that_it_is_the_package(programs: Path, version: str, home: Path, env: dict[str, str]) -> None:
    where = run(programs / "python", "-c", "import interlock; print(interlock.__file__)", cwd=home, env=env)
    assert where.stdout.startswith(str(programs.parent)), where.stdout + where.stderr
    told = run(programs / "interlock", "--version", cwd=home, env=env)
    assert told.stdout.strip().endswith(version), told.stderr


def test_the_sdist_installs_and_runs_as_well(tmp_path: Path) -> None:
    wheel, sdist = build(tmp_path / "dist")
    programs = install(sdist, tmp_path / "venv")
    with empty_home() as home:
        env = {**empty_environment(home), "PATH": f"{programs}:/usr/bin:/bin"}
        check_that_it_is_the_package(programs, version_of(wheel), home, env)
        told = run(programs / "interlock", "demo", "--log", cwd=home, env=env)
        assert told.returncode == 0, told.stderr
        assert "partial_failed" in told.stdout


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]
