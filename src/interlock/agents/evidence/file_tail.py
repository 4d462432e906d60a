"""A growing file, read as far as it goes.

Laws:
1. Each line is given once, whole, in order. A last line without its end waits until it has one.
2. A file that was cut, or in which something else stands before our place, begins anew, and the caller is told. One
   that was replaced by a copy of itself goes on.
3. Only a plain file is read, and one call reads no more than a bound.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.processes.lines import Line, LineSplitter

READ_BYTES: Final = 4 * 1024 * 1024
# What stood before our place is compared with what stands there now: another file shows by it, and a rewrite too.
_MARK_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Tailed:
    """What a look at the file gave. `is_anew`: these lines are of another file than those before.

    `has_more`: the bound was reached, and another look gives more at once.
    """

    lines: tuple[Line, ...] = ()
    is_anew: bool = False
    has_more: bool = False


class FileTail:
    """The lines of one file, from its beginning. A file that is not there yet has none."""

    def __init__(self, path: Path, read_bytes: int = READ_BYTES) -> None:
        self.path = path
        self._read_bytes = read_bytes
        self._seen: tuple[int, int, int] | None = None
        self._restart()

    def look(self) -> Tailed:
        """What came since the last look; nothing while the file cannot be read. It costs a `stat` if none did."""
        try:
            found = self.path.stat()
        except OSError:
            return Tailed()
        now = (found.st_ino, found.st_size, found.st_mtime_ns)
        if now == self._seen:
            return Tailed()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                tailed = self._read(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            return Tailed()
        self._seen = None if tailed.has_more else now
        return tailed

    def _restart(self) -> None:
        self._offset, self._mark, self._lines = 0, b"", LineSplitter()

    def _read(self, descriptor: int) -> Tailed:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return Tailed()
        is_anew = not self._continues(descriptor, found.st_size)
        if is_anew:
            self._restart()
        data = os.pread(descriptor, self._read_bytes, self._offset)
        self._offset += len(data)
        self._mark = (self._mark + data)[-_MARK_BYTES:]
        return Tailed(tuple(self._lines.feed(data)), is_anew, bool(data) and self._offset < found.st_size)

    def _continues(self, descriptor: int, size: int) -> bool:
        if size < self._offset:
            return False
        return os.pread(descriptor, len(self._mark), self._offset - len(self._mark)) == self._mark
