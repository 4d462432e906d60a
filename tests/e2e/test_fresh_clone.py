"""A newcomer: a fresh clone in an empty home, with nothing of ours around it, and what the README says to type.

Packages come from where this machine gets them; that is all that is passed on of its environment.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from pathlib import Path

import pytest

from tests.docs.running import blocks
from tests.e2e.shell import ROOT, Shell, empty_environment, empty_home, processes_of, shell

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1100)]
SETUP_SECONDS = 500.0
# Of the second command: the whole suite is what runs this test.
PART_OF_THE_SUITE = "tests/vocabulary"
_PASSED_ON = re.compile(r"PIP_|SSL_CERT|REQUESTS_CA|(?i:https?|no|all)_(?i:proxy)")


def environment(home: Path) -> dict[str, str]:
    """As after a first login: our own `.venv` is not on the path."""
    ours = str(Path(sys.executable).parent)
    path = [str(home / "bin"), *(one for one in os.environ["PATH"].split(os.pathsep) if one != ours)]
    passed_on = {name: value for name, value in os.environ.items() if _PASSED_ON.match(name)}
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    return {**passed_on, **empty_environment(home), "PATH": os.pathsep.join(path), "PYTHON": str(python)}


def pretend_to_have_claude(home: Path) -> None:
    """A program of that name, which sits in its terminal: what is asked is whether the README's next line runs one."""
    program = home / "bin" / "claude"
    program.parent.mkdir()
    agent = shlex.join((sys.executable, "-m", "interlock.testing.scripted_agent"))
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo "2.1.0 (Claude Code)"\nexec {agent}\n')
    program.chmod(0o700)


def agents_in_tmux(home: Path) -> list[str]:
    return [one for one in processes_of(home) if "interlock.testing.scripted_agent" in one and "tmux" not in one]


def check_the_two_commands(opened: Shell, home: Path) -> None:
    demo, suite = (line.partition("#")[0].strip() for line in blocks(readme(home), "sh")[0].splitlines())
    keys = (("a", "approved"), ("n", "PostgreSQL"), ("2", "answered with"))
    began = time.monotonic()
    told, code = opened.play(demo, "Allow Bash?", *keys, last="q", seconds=SETUP_SECONDS)
    sys.stdout.write(f"{demo}, with the setup and four keys: {time.monotonic() - began:.0f} s\n")  # -rP shows it
    assert code == 0, told
    assert "To go on" in told
    assert processes_of(home, but_for=opened.pid) == []
    assert list((home / "tmp").iterdir()) == []
    told, code = opened.run(f"PYTEST_ADDOPTS={PART_OF_THE_SUITE} {suite}", SETUP_SECONDS)
    assert code == 0, told
    assert " passed" in told


def check_the_next_lines(opened: Shell, home: Path) -> None:
    """With an agent CLI: it is run, watched, and goes on in tmux when the server ends."""
    lines = [line.partition("  #")[0].strip() for line in blocks(readme(home), "sh")[1].splitlines()]
    activate, run, top, down = lines
    assert opened.run(activate)[1] == 0
    told, code = opened.run(run)
    assert code == 0, told
    assert re.search(r"^ses_\w+$", told, re.MULTILINE), told
    told, code = opened.play(top, "claude", last="q")
    assert code == 0, told
    assert opened.run(down)[1] == 0
    assert len(agents_in_tmux(home)) == 1
    opened.run("interlock up")
    assert "claude" in opened.run("interlock ps")[0]
    assert opened.run("interlock down --stop-agents")[1] == 0
    assert processes_of(home, but_for=opened.pid) == []


def readme(home: Path) -> str:
    return (home / "interlock" / "README.md").read_text(encoding="utf-8")


def test_a_newcomer_follows_the_readme() -> None:
    """README.md, from its first command to its last, on a real terminal."""
    with empty_home() as home:
        pretend_to_have_claude(home)
        with shell(home, cwd=home, environment=environment(home)) as opened:
            try:
                told, code = opened.run(f"git clone -q {shlex.quote(str(ROOT))} interlock && cd interlock")
                assert code == 0, told
                check_the_two_commands(opened, home)
                check_the_next_lines(opened, home)
                assert processes_of(home, but_for=opened.pid) == []
            finally:
                opened.run("cd ~/interlock && .venv/bin/interlock down --stop-agents")
