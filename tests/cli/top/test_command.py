"""`interlock top` as a process: on a terminal, without one, and what is left of the terminal afterwards."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from interlock.testing.scripted_agent import command
from tests.agents.git.repositories import new_repository
from tests.cli.harness import COMMAND, interlock, python
from tests.cli.serving import Served, serving

WAIT_SECONDS = 100.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("top")) as one:
        yield one


class Terminal:
    """`interlock ARGS` on a pseudo-terminal."""

    def __init__(self, *args: str, home: Path) -> None:
        self._ours, self._theirs = pty.openpty()
        ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._before = termios.tcgetattr(self._theirs)
        environment = {**os.environ, "INTERLOCK_HOME": str(home), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            (*COMMAND, *args),
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=environment,
            start_new_session=True,
        )
        self.output = b""

    def read_until(self, word: bytes) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while word not in self.output:
            assert time.monotonic() < deadline, self.output[-2_000:]
            self._read()

    def leaves_by(self, *keys: bytes, until: bytes) -> None:
        """Type these keys one by one until it shows so. tmux takes keys that it reads within 1 ms for a paste; a
        late tmux reads at once what was typed apart.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while until not in self.output:
            assert time.monotonic() < deadline, self.output[-2_000:]
            for one in keys:
                self.type(one)
                self._read(0.1)
            self._read_for(2.0, until)

    def _read_for(self, seconds: float, word: bytes) -> None:
        until = time.monotonic() + seconds
        while word not in self.output and time.monotonic() < until:
            self._read()

    def _read(self, seconds: float = 0.05) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            self.output += os.read(self._ours, 65_536)

    def ends(self) -> int:
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.output[-2_000:]
            self._read()
        while select.select([self._ours], [], [], 0)[0]:
            self.output += os.read(self._ours, 65_536)
        return self.process.returncode

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was: its modes, its cursor, its first screen."""
        left = self.output.rindex(b"\x1b[?1049l")
        has_cursor = self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l")
        return (
            termios.tcgetattr(self._theirs) == self._before and left > self.output.rindex(b"\x1b[?1049h") and has_cursor
        )

    def hang_up(self) -> int:
        """Close the terminal, as a window that is closed does; the code that the process ends with."""
        for end in (self._ours, self._theirs):
            os.close(end)
        self._ours = self._theirs = -1
        return self.process.wait(WAIT_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_SECONDS)
        for end in (self._ours, self._theirs):
            if end >= 0:
                os.close(end)


@pytest.mark.parametrize("how", ["SIGTERM", *(pytest.param(how, marks=pytest.mark.deep) for how in ("q", "ctrl-c"))])
def test_leaving_restores_the_terminal(served: Served, how: str) -> None:
    terminal = Terminal("top", home=served.home)
    try:
        terminal.read_until(b"There is no session yet.")
        match how:
            case "q":
                terminal.type(b"q")
            case "ctrl-c":
                terminal.type(b"\x03")
            case _:
                terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ends() == 0
        assert terminal.is_restored
        assert b"Traceback" not in terminal.output
    finally:
        terminal.close()


def test_a_board_whose_terminal_is_gone_ends(served: Served) -> None:
    terminal = Terminal("top", home=served.home)
    try:
        terminal.read_until(b"There is no session yet.")
        assert terminal.hang_up() == 128 + signal.SIGHUP
    finally:
        terminal.close()


def test_alone_on_an_empty_home_it_greets_begins_a_session_and_goes_to_its_terminal_and_back(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("alone")
    config, home = folder / "config.toml", folder / "h"
    config.write_text(f"[agents.scripted]\nargv = {json.dumps(command('tui'))}\ndriver = 'terminal'\n")
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    new_repository(folder / "project", a_txt="one\n")
    monkeypatch.chdir(folder / "project")
    terminal = Terminal(home=home)
    try:
        terminal.read_until(b"There is no session yet.")
        terminal.read_until(b"scripted")
        terminal.type(b"N")
        terminal.read_until(b"left and right choose")
        terminal.type(b"\r")
        terminal.read_until(b"enter next, shift")
        terminal.type(b"\r")
        terminal.read_until(b"space chooses")
        terminal.type(b" ")
        terminal.read_until("‹in a git worktree".encode())
        terminal.type(b"\r")
        terminal.read_until(b"enter starts it")
        terminal.type(b"say hello to you\r")
        terminal.read_until(b"was started in a worktree of")
        terminal.read_until(b"ready for a")
        terminal.output = b""
        terminal.type(b"\r")
        terminal.read_until(b"[agents]")  # the status line of tmux
        terminal.output = b""
        terminal.leaves_by(b"\x02", b"d", until=b"back from its terminal")
        terminal.type(b"q")
        assert terminal.ends() == 0
        assert b"Traceback" not in terminal.output
        (line,) = json.loads(interlock("ps", "--json", env={"INTERLOCK_HOME": str(home)}).stdout)["sessions"]
        assert (line["badge"]["is_seen"], line["branch"].partition("/")[0]) == (True, "interlock")
        assert Path(line["folder"]) != folder / "project"
        terminal.close()
        unknown = interlock("top", "--session", "no-such", env={"INTERLOCK_HOME": str(home)})
        assert unknown.returncode == 2
        terminal = Terminal("top", "--session", "hello", home=home)
        terminal.type(b"sdo it at once")  # before anything is drawn
        terminal.read_until(b"your prompt")
        terminal.read_until(b"do it at once")
        terminal.type(b"\x03")
        assert terminal.ends() == 0
    finally:
        terminal.close()
        interlock("down", "--stop-agents", "--now", env={"INTERLOCK_HOME": str(home)})


def test_without_a_terminal_interlock_alone_on_an_empty_home_greets(tmp_path: Path) -> None:
    done = interlock(env={"INTERLOCK_HOME": str(tmp_path)})
    assert done.returncode == 0
    assert done.stdout.startswith("Welcome to Interlock.")
    assert not list(tmp_path.iterdir())


def test_without_a_terminal_the_remedy_is_ps(tmp_path: Path) -> None:
    done = interlock("top", env={"INTERLOCK_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "interlock ps" in done.stderr
    assert done.stdout == ""


def test_only_the_board_itself_loads_what_is_heavy() -> None:
    code = "import sys\nfrom interlock.cli import main\nassert main(['top']) == 2\nassert 'textual' not in sys.modules"
    done = python(code)
    assert done.returncode == 0, done.stderr
