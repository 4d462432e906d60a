"""What comes out of a child's pipes, and what of it waits to be taken.

Laws:
1. Nothing that the child wrote is dropped; beyond a bound of lines or bytes the child is left to wait.
2. Once the child is over, only its last words are read: what a grandchild writes into the same pipe, or that it keeps
   the pipe open, holds nobody up. The time that a slow taker needs is not counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from interlock.agents.processes.lines import Line

_READ_BYTES: Final = 1 << 16
# Time to wait for bytes after the end, and how many are taken then: more than a pipe and our own buffer can hold.
_LAST_WORDS_SECONDS: Final = 1.0
_LAST_WORDS_BYTES: Final = 2 << 20
_MAX_WAITING_LINES: Final = 1024
_MAX_WAITING_BYTES: Final = 8 << 20


class PipeReader:
    """Reads one pipe to its end, or to the last words of a child that is over."""

    def __init__(self, pipe: asyncio.StreamReader) -> None:
        self._pipe = pipe
        self._reading: asyncio.Timeout | None = None
        self._seconds_left: float | None = None
        self._bytes_left = _LAST_WORDS_BYTES

    def child_is_over(self) -> None:
        """From now on only last words are read."""
        self._seconds_left = _LAST_WORDS_SECONDS
        if self._reading is not None:
            self._reading.reschedule(asyncio.get_running_loop().time() + _LAST_WORDS_SECONDS)

    async def read(self) -> bytes:
        """The next bytes; none at the end."""
        is_over, loop = self._seconds_left is not None, asyncio.get_running_loop()
        if is_over and self._bytes_left <= 0:
            return b""
        began = loop.time()
        try:
            async with asyncio.timeout(self._seconds_left) as self._reading:
                data = await self._pipe.read(_READ_BYTES)
        except TimeoutError:
            return b""
        finally:
            self._reading = None
        if is_over and self._seconds_left is not None:
            self._seconds_left = max(0.0, self._seconds_left - (loop.time() - began))
            self._bytes_left -= len(data)
        return data


class WaitingLines:
    """Lines between one task that reads and one that takes them. `put` waits for room, `take` for a line."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._bytes = 0
        self._is_closed = False
        self._changed = asyncio.Event()

    async def put(self, line: Line) -> None:
        """Add a line once there is room. One line always has room, however long it is."""
        while len(self._lines) >= _MAX_WAITING_LINES or self._bytes >= _MAX_WAITING_BYTES:
            await self._change()
        self._lines.append(line)
        self._bytes += len(line.data)
        self._changed.set()

    async def take(self) -> Line | None:
        """The next line; None once the lines are closed and all were taken."""
        while not self._lines and not self._is_closed:
            await self._change()
        if not self._lines:
            return None
        line = self._lines.popleft()
        self._bytes -= len(line.data)
        self._changed.set()
        return line

    def close(self) -> None:
        """No more lines will come. Those that wait can still be taken."""
        self._is_closed = True
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
