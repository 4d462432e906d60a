"""What comes out of a child's pipes, and what of it waits to be taken.

Laws:
1. Nothing that the child wrote is dropped; beyond a bound of lines or bytes the child is left to wait.
2. Once the child is over, only its last words are read: what a grandchild writes into the same pipe, or that it keeps
   the pipe open, holds nobody up. The time that a slow taker needs is not counted.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from io import FileIO
from typing import Final

from interlock.agents.processes.lines import Line, LineSplitter

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


class OutputPipe(asyncio.ReadTransport):
    """A pipe that a child writes to, read as soon as the event loop sees bytes in it.

    The transport of asyncio asks for 256 KB with each read: an allocation that costs ten times as much as the read of a
    short line, and then takes another turn of the loop. The other end is `writing`: give it to the child, and close it.
    """

    def __init__(self) -> None:
        super().__init__()
        reading, self.writing = os.pipe()
        os.set_blocking(reading, False)
        self._file = FileIO(reading)
        self._loop = asyncio.get_running_loop()
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[], None] | None = None

    def read_into(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Begin to read. `on_end` is called where the pipe ends by itself."""
        self._on_data, self._on_end = on_data, on_end
        self.resume_reading()

    def pause_reading(self) -> None:
        if not self._file.closed:
            self._loop.remove_reader(self._file)

    def resume_reading(self) -> None:
        if not self._file.closed:
            self._loop.add_reader(self._file, self._read)

    def close(self) -> None:
        """Read no more. Safe to call twice."""
        self.pause_reading()
        self._file.close()

    def close_writing(self) -> None:
        """Let go of the end that the child has now: the pipe ends when nobody holds it any more."""
        os.close(self.writing)

    def _read(self) -> None:
        assert self._on_data is not None
        assert self._on_end is not None
        data = b""
        try:
            data = os.read(self._file.fileno(), _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass  # nothing more can be read: its end
        if data:
            self._on_data(data)
        else:
            self.close()
            self._on_end()


class WaitingLines:
    """The lines of one pipe, between its bytes as they come and the one task that takes them.

    Bytes are pushed (`feed`) by the event loop itself, without a task that would have to be woken for each of them.
    """

    def __init__(self, pipe: asyncio.ReadTransport) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pipe = pipe
        self._splitter = LineSplitter()
        self._lines: deque[Line] = deque()
        self._bytes = 0
        self._taker: asyncio.Future[None] | None = None
        self._is_held = False
        self._timer: asyncio.TimerHandle | None = None
        self._seconds_left: float | None = None
        self._bytes_left = _LAST_WORDS_BYTES

    def feed(self, data: bytes) -> None:
        """Bytes that came. Once too much waits to be taken the pipe is left alone until there is room."""
        if self.ended.done():
            return
        self._add(self._splitter.feed(data))
        if self._seconds_left is not None:
            self._bytes_left -= len(data)
            if self._bytes_left <= 0:
                self.end()
                return
        if len(self._lines) >= _MAX_WAITING_LINES or self._bytes >= _MAX_WAITING_BYTES:
            self._hold()

    def child_is_over(self) -> None:
        """From now on only last words are read."""
        if not self.ended.done():
            self._seconds_left = _LAST_WORDS_SECONDS
            self._count_down()

    def end(self) -> None:
        """No more will come, or none is wanted. Lines that wait can still be taken."""
        if self.ended.done():
            return
        self.ended.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        self._pipe.pause_reading()  # somebody else may hold its other end, and write on
        rest = self._splitter.end()
        self._add([] if rest is None else [rest])

    async def take(self) -> Line | None:
        """The next line; None once there will be no more."""
        while not self._lines:
            if self.ended.done():
                return None
            self._taker = asyncio.get_running_loop().create_future()
            try:
                await self._taker
            finally:
                self._taker = None
        line = self._lines.popleft()
        self._bytes -= len(line.data)
        if self._is_held and len(self._lines) <= _MAX_WAITING_LINES // 2 and self._bytes <= _MAX_WAITING_BYTES // 2:
            self._go_on()
        return line

    def _add(self, lines: list[Line]) -> None:
        for line in lines:
            self._lines.append(line)
            self._bytes += len(line.data)
        if self._taker is not None and not self._taker.done() and (lines or self.ended.done()):
            self._taker.set_result(None)

    def _hold(self) -> None:
        self._is_held = True
        self._pipe.pause_reading()
        if self._timer is not None and self._seconds_left is not None:
            self._seconds_left = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self._timer.cancel()

    def _go_on(self) -> None:
        self._is_held = False
        if not self.ended.done():
            self._pipe.resume_reading()
            self._count_down()

    def _count_down(self) -> None:
        if self._seconds_left is not None and not self._is_held:
            self._timer = asyncio.get_running_loop().call_later(self._seconds_left, self.end)
