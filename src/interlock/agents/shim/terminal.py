"""The terminal around the shim: where keys come from and output goes, what size it is, and its modes put back."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

Attributes: TypeAlias = list[int | list[bytes | int]]  # as termios has them

STDIN: Final = 0
STDOUT: Final = 1
USUAL_SIZE: Final = struct.pack("HHHH", 24, 80, 0, 0)  # of a terminal that nobody sees
# Not more than a pipe that is said to be writable takes without blocking.
_PIPE_BYTES: Final = 4096


def open_standard_streams() -> None:
    """Point standard streams that are closed at nothing, lest a descriptor of ours becomes one of them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class OuterTerminal:
    """Standard input and output of the shim: usually a terminal, but pipes and files do as well."""

    __slots__ = ("_is_private", "_saved", "is_terminal", "output")

    def __init__(self) -> None:
        self.is_terminal = os.isatty(STDIN)
        self._saved: Attributes | None = None
        self.output, self._is_private = _private_output()

    def attributes(self) -> Attributes | None:
        """The modes as they are now, for the program's terminal to begin with. None without a terminal."""
        return termios.tcgetattr(STDIN) if self.is_terminal else None

    def size(self) -> bytes | None:
        """The window size, as the kernel packs it. None without a terminal, or when it is gone."""
        for descriptor in (STDOUT, STDIN):
            try:
                return fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(len(USUAL_SIZE)))
            except OSError:
                continue
        return None

    def read(self, limit: int) -> bytes:
        """Read what was typed. Empty at the end: of the input, or of the terminal itself."""
        try:
            return os.read(STDIN, limit)
        except OSError:
            return b""

    def write(self, data: bytes) -> int:
        """Write what the terminal takes now and return how much that was. Raises OSError when nobody reads it."""
        try:
            return os.write(self.output, data if self._is_private else data[:_PIPE_BYTES])
        except BlockingIOError:
            return 0

    def make_raw(self) -> None:
        """Every key is a byte from now on, none a signal. The first call since `restore` keeps the modes it found."""
        if not self.is_terminal:
            return
        try:
            self._saved = self._saved or termios.tcgetattr(STDIN)
            tty.setraw(STDIN, termios.TCSANOW)
        except termios.error:
            return  # The terminal is gone; the next read of it says so.

    def restore(self) -> None:
        """Put back the modes that the first `make_raw` found. Does nothing if they are back."""
        saved, self._saved = self._saved, None
        if saved is None:
            return
        try:
            termios.tcsetattr(STDIN, termios.TCSANOW, saved)
        except termios.error:
            return  # The terminal is gone, and its modes with it.

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Raw inside, restored on every way out."""
        try:
            self.make_raw()
            yield
        finally:
            self.restore()


def _private_output() -> tuple[int, bool]:
    """A descriptor that never blocks, if that can be had for us alone, and whether it was.

    Whoever started us shares our standard output with us, so that its own flags are not ours to change; a terminal
    can be opened once more by its name.
    """
    try:
        return os.open(os.ttyname(STDOUT), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK), True
    except OSError:
        return STDOUT, False
