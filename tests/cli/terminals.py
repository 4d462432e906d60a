"""A command line at a terminal of its own, whose Ctrl-C is a Ctrl-C: the terminal sends it, to whom it belongs."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from struct import pack
from typing import Final

from tests.cli.births import Birth, bear
from tests.cli.harness import COMMAND

WAIT_SECONDS: Final = 100.0
CTRL_C: Final = b"\x03"
_MODES: Final = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
# What a program may switch on, and has to switch off: the alternate screen, mouse and focus reports, pasting.
_OF_A_BOARD: Final = frozenset({b"1049", b"1000", b"1002", b"1003", b"1004", b"1006", b"1015", b"2004"})
_CURSOR: Final = b"25"


class Terminal:
    """A process at a terminal, and everything that it wrote there."""

    def __init__(
        self, ours: int, theirs: int, process: Birth | subprocess.Popen[bytes], modes_before: list[object]
    ) -> None:
        """`modes_before`: those of the terminal before the process was started, which may have changed them since."""
        self._ours = ours
        self._theirs = theirs
        self.process = process
        self._before = modes_before
        self.written = b""

    @property
    def text(self) -> str:
        return self.written.decode(errors="replace").replace("\r\n", "\n")

    @property
    def _told(self) -> str:
        """As much as helps who reads of a failure."""
        return repr(self.text[-800:])

    def says(self, text: str, *, times: int = 1) -> None:
        """Wait until that was written to the terminal, so many times."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.text.count(text) < times:
            assert time.monotonic() < deadline, f"it does not say {text!r}:\n{self._told}"
            assert self._read(0.05) or self.process.poll() is None, f"it ended without {text!r}:\n{self.text}"

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def leaves_by(self, *keys: bytes) -> None:
        """Type these keys one by one until it ends. Who reads a terminal may need more than one try."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            for one in keys:
                self.type(one)
                self._read(0.1)

    def ends(self) -> int:
        """Wait for its end, which is bounded; the exit code. Everything that it wrote is read."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self._told}"
            self._read(0.02)
        while self._read(0.0):
            pass
        return self.process.wait()

    def is_sane(self) -> bool:
        """As a shell wants it back: echo, lines and signals as they were, no mode left on, and a cursor."""
        modes = {name: value == b"h" for names, value in _MODES.findall(self.written) for name in names.split(b";")}
        is_left_on = any(modes.get(name, False) for name in _OF_A_BOARD)
        return termios.tcgetattr(self._theirs) == self._before and not is_left_on and modes.get(_CURSOR, True)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if ready:
            self.written += os.read(self._ours, 65536)
        return bool(ready)


@contextmanager
def at_a_terminal(
    args: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: Path | None = None,
    is_cold: bool = False,
    columns: int = 100,
    prepare: str = "",
) -> Iterator[Terminal]:
    """`interlock ARGS` at a terminal of its own. Our end of it stays open, so that its state can be looked at."""
    ours, theirs = pty.openpty()
    _keep_what_is_unread(theirs)
    ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 30, columns, 0, 0))
    settings = {"TERM": "xterm-256color", "INTERLOCK_PAGER": "cat", **env}  # nobody is here to leave a pager
    before = termios.tcgetattr(theirs)
    process = _start_cold(args, settings, theirs) if is_cold else _start(args, settings, theirs, cwd, prepare)
    try:
        yield Terminal(ours, theirs, process, before)
    finally:
        process.kill()
        process.wait()
        os.close(theirs)
        os.close(ours)


def _keep_what_is_unread(theirs: int) -> None:
    """As terminals are set up, each Ctrl-C throws away what was written and has not reached the reader yet: of two, the
    second one the words that were said of the first. What was said is to be read here."""
    modes = termios.tcgetattr(theirs)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(theirs, termios.TCSANOW, modes)


def _start(args: Sequence[str], env: Mapping[str, str], theirs: int, cwd: Path | None, prepare: str) -> Birth:
    return bear(args, env, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, new_session=True, prepare=prepare)


def _start_cold(args: Sequence[str], env: Mapping[str, str], theirs: int) -> subprocess.Popen[bytes]:
    """From a cold start. `setsid --ctty` gives it the terminal, as a login does."""
    command = ("setsid", "--ctty", *COMMAND, *args)
    return subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(env))
