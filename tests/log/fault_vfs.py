"""A file layer for SQLite that breaks on command: a full disk, a failing fsync, a write that fails half way."""

from __future__ import annotations

from itertools import count
from typing import Final

import apsw

FULL: Final = apsw.SQLITE_FULL
FSYNC: Final = apsw.SQLITE_IOERR_FSYNC
WRITE: Final = apsw.SQLITE_IOERR_WRITE

_numbers: Final = count()


class FaultVfs(apsw.VFS):
    """Counts writes and fsyncs, and fails those from number `fail_at` on (None: none) with `code`."""

    def __init__(self) -> None:
        self.name = f"fault-{next(_numbers)}"
        super().__init__(self.name, "")
        self.code = FULL
        self.fail_at: int | None = None
        self.is_once = False
        self.calls = 0
        self.syncs = 0
        self.failed = 0

    def break_down(self, code: int, *, at: int = 0, once: bool = False) -> None:
        self.code, self.is_once, self.calls, self.failed, self.fail_at = code, once, 0, 0, at

    def mend(self) -> None:
        self.fail_at = None

    def pass_or_fail(self, *, is_sync: bool) -> None:
        if self.fail_at is not None and (self.code != FSYNC or is_sync):
            self.calls += 1
            if self.calls > self.fail_at and not (self.is_once and self.failed):
                self.failed += 1
                raise apsw.exception_for(self.code)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return FaultFile(self, name, flags)


class FaultFile(apsw.VFSFile):
    def __init__(self, vfs: FaultVfs, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.vfs = vfs

    def xWrite(self, data: bytes, offset: int) -> None:
        try:
            self.vfs.pass_or_fail(is_sync=False)
        except apsw.Error:
            super().xWrite(data[: len(data) // 2], offset)  # a real disk stops in the middle
            raise
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.vfs.syncs += 1
        self.vfs.pass_or_fail(is_sync=True)
        super().xSync(flags)
