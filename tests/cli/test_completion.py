"""Completion as a shell does it: the real script in a real bash, with the sessions of a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli.look.session_names import offer_sessions
from tests.cli.harness import interlock
from tests.cli.homes import HOSTILE
from tests.cli.serving import Served

BASH = shutil.which("bash")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The completion script, and beside it an `interlock` that it can call."""
    folder = tmp_path_factory.mktemp("completion")
    path = folder / "completion.bash"
    path.write_text(interlock("completion", "bash").stdout)
    program = folder / "interlock"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m interlock.cli "$@"\n')
    program.chmod(0o700)
    return path


def offered(script: Path, *words: str, home: Path | None = None) -> list[str]:
    """What bash offers behind these words."""
    assert BASH is not None, "bash is needed, and is there wherever tmux is"
    said = (
        f'source "{script}"\nCOMP_WORDS=("$@")\nCOMP_CWORD=$(($# - 1))\nCOMPREPLY=()\n'
        '_interlock\n((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"\ntrue'
    )
    done = subprocess.run(
        (BASH, "--norc", "-c", said, "bash", *words),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={
            **os.environ,
            "PATH": f"{script.parent}:{os.environ['PATH']}",
            "INTERLOCK_HOME": str(home or script.parent),
        },
    )
    assert done.stderr == ""
    return [line.strip() for line in done.stdout.splitlines()]


def test_commands_families_options_and_words(script: Path) -> None:
    assert {"show", "send", "status", "session"} <= set(offered(script, "interlock", "s"))
    assert offered(script, "interlock", "queue", "") == ["ls", "edit", "rm", "pause", "resume"]
    assert offered(script, "interlock", "log", "sh") == ["show"]
    assert "--reply-json" in offered(script, "interlock", "send", "x", "--re")
    assert offered(script, "interlock", "completion", "") == ["bash", "fish", "zsh"]


def test_without_a_server_there_is_no_session_and_no_noise(script: Path) -> None:
    assert offered(script, "interlock", "show", "") == []


def test_sessions_are_offered_wherever_one_is_meant(script: Path, acting_server: Served) -> None:
    ids = {acting_server.open(title="One"), acting_server.open(title="Other")}
    for words in (("show", ""), ("why", "ses_"), ("queue", "ls", ""), ("wait", "x", "")):
        assert ids <= set(offered(script, "interlock", *words, home=acting_server.home)), words
    first = min(ids)
    assert offered(script, "interlock", "show", first[:-1], home=acting_server.home) == [first]


def test_what_is_said_of_a_session_cannot_harm_a_terminal(
    acting_server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task_id = acting_server.open(title=f"Hostile {HOSTILE}")
    monkeypatch.setenv("INTERLOCK_HOME", str(acting_server.home))
    said = dict(offer_sessions(None))[task_id]
    assert said.startswith("scripted, Hostile ")
    assert said.isprintable()
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))
    assert offer_sessions(None) == []


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_the_other_shells_ask_for_sessions_too(shell: str) -> None:
    assert "interlock __complete" in interlock("completion", shell).stdout.replace("$_cyc_cmd", "interlock")
