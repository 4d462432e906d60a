"""`interlock top` as a process: on a terminal, without one, and what is left of the terminal afterwards."""

from __future__ import annotations

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

    def _read(self) -> None:
        if select.select([self._ours], [], [], 0.05)[0]:
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

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_SECONDS)
        os.close(self._ours)
        os.close(self._theirs)


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


def test_without_a_server_there_is_nothing_to_draw(tmp_path: Path) -> None:
    terminal = Terminal("top", home=tmp_path)
    try:
        assert terminal.ends() == 8
        assert b"interlock up" in terminal.output
        assert b"\x1b[?1049h" not in terminal.output
    finally:
        terminal.close()


def test_without_a_terminal_the_remedy_is_ps(tmp_path: Path) -> None:
    done = interlock("top", env={"INTERLOCK_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "interlock ps" in done.stderr
    assert done.stdout == ""


def test_only_the_board_itself_loads_what_is_heavy() -> None:
    code = "import sys\nfrom interlock.cli import main\nassert main(['top']) == 2\nassert 'textual' not in sys.modules"
    done = python(code)
    assert done.returncode == 0, done.stderr
