"""Standard input, or a named pipe, for a thread to read, which ends when whoever waits for it leaves.

A thread that reads from a terminal or a pipe cannot be interrupted, and a program that ends waits for its threads:
after Ctrl-C it would hang until somebody types. Here the reader looks up now and then, and finds the end.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from interlock.vocabulary.errors import UsageError

_LOOK_SECONDS: Final = 0.1


@contextmanager
def readable_input(pipe: Path | None = None) -> Iterator[BinaryIO]:
    """Standard input, or a named pipe, for the block. Afterwards it is at its end, whatever else would come."""
    if pipe is None and sys.stdin is None:
        raise UsageError("standard input is closed", remedy="name a file")
    # Not to block: a pipe that nobody writes to could not be opened otherwise, and not be left.
    descriptor = sys.stdin.fileno() if pipe is None else os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    over = threading.Event()
    try:
        yield io.BufferedReader(_Until(descriptor, over))
    finally:
        over.set()
        if pipe is not None:
            os.close(descriptor)


class _Until(io.RawIOBase):
    def __init__(self, descriptor: int, over: threading.Event) -> None:
        self._descriptor = descriptor
        self._over = over

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as `BufferedReader` calls it
        while not self._over.is_set():
            ready, _, _ = select.select([self._descriptor], [], [], _LOOK_SECONDS)
            if ready and not self._over.is_set():
                return os.readv(self._descriptor, [buffer])
        return 0
