"""A terminal around a shim: a real pseudo-terminal whose outer side the test holds, as a terminal emulator would."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

DEADLINE_SECONDS = 100.0
INTERLOCK = (sys.executable, "-m", "interlock.cli")
# Makes the terminal whose descriptor is given its own, then becomes the command: what a terminal emulator does.
_LOGIN = "import os, sys; os.login_tty(int(sys.argv[1])); os.execvp(sys.argv[2], sys.argv[2:])"
# What most children of these tests begin with.
RAW_CHILD = """
import os, select, signal, sys, tty
def say(text): os.write(1, text if isinstance(text, bytes) else text.encode())
def hear(size):
    got = b""
    while len(got) < size: got += os.read(0, size - len(got))
    return got
tty.setraw(0)
"""


def child(code: str) -> tuple[str, ...]:
    """A Python program that has put its terminal into raw mode, and can `say` and `hear`."""
    return (sys.executable, "-c", RAW_CHILD + code)


class Around:
    """`interlock debug shim OPTIONS -- COMMAND` in a terminal of its own. Ends what it started."""

    def __init__(self, *command: str, options: tuple[str, ...] = (), rows: int = 24, columns: int = 80) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.modes_before = self.modes()
        self.process = subprocess.Popen(
            (sys.executable, "-c", _LOGIN, str(self.slave), *INTERLOCK, "shim", *options, "--", *command),
            pass_fds=[self.slave],
        )
        self.seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close_window()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_SECONDS)
        os.close(self.slave)

    def close_window(self) -> None:
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.slave)

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read_until(self, marker: bytes, *, within_seconds: float = DEADLINE_SECONDS) -> bytes:
        """Read until the marker has come; return all that came before it since the last marker."""
        deadline = time.monotonic() + within_seconds
        while marker not in self.seen:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{marker!r} did not come; seen so far: {self.seen[-2000:]!r}")
            if select.select([self.master], [], [], left)[0]:
                self.seen += os.read(self.master, 65536)
        before, _, self.seen = self.seen.partition(marker)
        return before

    def wait(self) -> int:
        """The exit code of the shim, or minus the signal that it died by. Reads on meanwhile, as a terminal does."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"the shim did not end; seen so far: {self.seen!r}"
            if self.master >= 0 and select.select([self.master], [], [], 0.01)[0]:
                self.seen += os.read(self.master, 65536)
        return self.process.returncode

    def wait_until_stopped(self) -> int:
        """Wait until the shim is stopped, and return the signal that stopped it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.process.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return os.WSTOPSIG(status)
            assert not pid, "the shim ended"
            select.select([], [], [], 0.01)
        raise AssertionError("the shim did not stop")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def peak_megabytes(self) -> float:
        """The most memory that the shim has had so far (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def wait_for_text(text: str, look: Callable[[], str]) -> str:
    """Look until the text is there; return all that was seen then."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    held = ""
    while time.monotonic() < deadline:
        held = look()
        if text in held:
            return held
        select.select([], [], [], 0.01)
    raise AssertionError(f"{text!r} never came; the last look gave {held!r}")


def text_of(path: Path) -> Callable[[], str]:
    """Look into a file that may not be there yet."""
    return lambda: path.read_text() if path.exists() else ""
