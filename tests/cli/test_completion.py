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


def test_run_offers_the_agents_of_the_configuration(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = script.with_name("interlock.toml")
    config.write_text('[agents.mine]\ndriver = "terminal"\nargv = ["mine"]\n')
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    assert {"claude", "codex", "mine"} <= set(offered(script, "interlock", "run", ""))
    assert offered(script, "interlock", "run", "mi") == ["mine"]
    config.write_text("this is [no configuration")
    assert offered(script, "interlock", "run", "") == []


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


@pytest.mark.parametrize("has_run", [False, True])
def test_installed_for_zsh_it_is_found_by_a_compinit_behind_it(tmp_path: Path, *, has_run: bool) -> None:
    start_up = tmp_path / ".zshrc"
    start_up.write_text("autoload -Uz compinit && compinit\n" if has_run else "# mine\n")
    where = {"HOME": str(tmp_path), "ZSH": "", "ZSH_CUSTOM": ""}
    for _ in range(2):
        assert interlock("completion", "zsh", "--install", env=where).returncode == 0
    (path,) = (tmp_path / ".zsh").rglob("*interlock*")
    assert path.read_text() == interlock("completion", "zsh").stdout.removesuffix("\n")
    lines = start_up.read_text().splitlines()
    assert lines.index(f"fpath=({path.parent} $fpath)") < len(lines) - 1
    assert lines.count("autoload -Uz compinit && compinit") == 1


def test_a_start_up_file_of_a_framework_and_one_without_a_last_newline_stay_whole(tmp_path: Path) -> None:
    start_up = tmp_path / ".zshrc"
    start_up.write_bytes(b"source $ZSH/oh-my-zsh.sh\n")
    framework = tmp_path / "omz"
    framework.mkdir()
    where = {"HOME": str(tmp_path), "ZSH": str(framework), "ZSH_CUSTOM": ""}
    assert interlock("completion", "zsh", "--install", env=where).returncode == 0
    assert start_up.read_bytes() == b"source $ZSH/oh-my-zsh.sh\n"
    start_up.write_bytes(b"alias x='caf\xe9'")
    assert interlock("completion", "zsh", "--install", env={**where, "ZSH": ""}).returncode == 0
    assert start_up.read_bytes().splitlines()[2:] == [
        b"alias x='caf\xe9'",
        b"# interlock completions: read the path above",
        b"autoload -Uz compinit && compinit",
    ]


def test_a_file_of_any_name_completes_in_zsh_and_fish_offers_no_files() -> None:
    zsh = interlock("completion", "zsh").stdout
    assert zsh.startswith("#compdef interlock\n")
    assert '\n  _cyclopts_interlock "$@"\n' in zsh
    assert interlock("completion", "fish").stdout.startswith("complete -c interlock -f\n")
