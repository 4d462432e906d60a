"""Completion in real interactive shells, as a person installs it and presses Tab: bash, zsh and fish.

zsh and fish are installed from the system's packages where they are missing, like the agent CLIs of these tests.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.harness import interlock
from tests.cli.serving import Served, serving, until
from tests.cli.test_adopt import Person, person

pytestmark = [pytest.mark.real]


def program(shell: str) -> str:
    """The shell's program, installed first where it is missing."""
    found = shutil.which(shell)
    if found is None:
        for words in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", shell)):
            done = subprocess.run(("apt-get", *words), check=False, capture_output=True, text=True, timeout=400)
            assert done.returncode == 0, f"install {shell} for this test: {done.stderr}"
        found = shutil.which(shell)
    assert found is not None
    return found


@dataclass(frozen=True)
class Shell:
    """A shell in a terminal, whose start-up files are those that `completion --install` left."""

    somebody: Person

    @property
    def text(self) -> str:
        return self.somebody.tmux("default", "capture-pane", "-p", "-t", "work")

    def types(self, words: str) -> None:
        """These words, in a shell that was started for them: no key of another line is on its way to it."""
        self.somebody.tmux("default", "respawn-pane", "-k", "-t", "work")
        until(lambda: self.text.rstrip()[-1:] in ("$", "#", "%", ">"), "a prompt", lambda: self.text)
        self.somebody.tmux("default", "send-keys", "-t", "work", "-l", words)
        until(lambda: words.rstrip() in self.text, f"{words!r} stands there", lambda: self.text)

    def shows(self, *wanted: str) -> bool:
        """Press Tab; whether all of these stand there by now."""
        self.somebody.tmux("default", "send-keys", "-t", "work", "Tab")
        return all(one in self.text for one in wanted)

    def completes(self, words: str, whole: str) -> None:
        """Tab makes of these words that line."""
        self.types(words)
        until(lambda: self.shows(whole), f"{words!r} becomes {whole!r}", lambda: self.text)

    def offers(self, words: str, *offered: str) -> None:
        """Tab lists all of these."""
        self.types(words)
        until(lambda: self.shows(*offered), f"{words!r} offers {offered}", lambda: self.text)


@contextmanager
def shell_of(name: str, folder: Path, served: Served) -> Iterator[Shell]:
    home, work, programs = folder / "person", folder / "work", folder / "bin"
    for one in (home, work, programs):
        one.mkdir()
    (work / "zz-a-file").touch()
    (programs / "interlock").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m interlock.cli "$@"\n')
    (programs / "interlock").chmod(0o700)
    config = folder / "mine.toml"
    config.write_text(f"[agents.mine]\ndriver = 'terminal'\nargv = {json.dumps([sys.executable])}\n")
    own = {"HOME": str(home), "ZSH": "", "ZSH_CUSTOM": "", "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}
    done = interlock("completion", name, "--install", env=own)
    assert done.returncode == 0, done.stderr
    settings = {
        "HOME": str(home),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "INTERLOCK_HOME": str(served.home),
        "INTERLOCK_CONFIG": str(config),
        "LC_ALL": "C.UTF-8",
        "TERM": "screen-256color",
    }
    with person() as somebody:
        words = ["-i", *(f"{key}={value}" for key, value in settings.items()), program(name), "-i"]
        size = ("-x", "240", "-y", "30", "-c", str(work))
        somebody.tmux("default", "-u", "new-session", "-d", "-s", "work", *size, "--", "env", *words)
        yield Shell(somebody)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_real_shell_completes_commands_agents_options_and_sessions_and_no_files(tmp_path: Path, name: str) -> None:
    with serving(tmp_path) as served:
        sessions = [served.open(title=title) for title in ("One", "Other")]
        with shell_of(name, tmp_path, served) as shell:
            shell.completes("interlock log sh", "interlock log show")
            shell.completes("interlock run mi", "interlock run mine")
            shell.completes("interlock send x --reply-j", "interlock send x --reply-json")
            shell.completes(f"interlock show {sessions[0][:-1]}", f"interlock show {sessions[0]}")
            shell.offers("interlock queue ", "edit", "pause", "resume")
            shell.offers("interlock why ", *(one[-6:] for one in sessions))
            shell.offers("interlock completion ", "bash", "fish", "zsh")
            shell.types("interlock show zz-a")
            for _ in range(3):
                shell.shows()
            shell.somebody.tmux("default", "send-keys", "-t", "work", "-l", "more")  # by then Tab has been answered
            until(lambda: "zz-amore" in shell.text, "no file is offered", lambda: shell.text)
