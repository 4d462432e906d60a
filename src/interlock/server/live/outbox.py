"""What waits to be sent to one client, bounded.

Laws:
1. Frames of rooms wait up to a bound of frames and bytes. Beyond it they are refused, and the client falls back to its
   cursor; when half of what waited is gone, it is told so.
2. Answers are never dropped. A client that lets them pile up to twice the bound reads nothing: its connection ends.
3. What a client is sent, it is sent in the order in which it was put here.
4. A burst is one write, and needs no writer where there is a wire that takes it at once. Otherwise it wakes the writer
   once. Outboxes of one round are flushed by one call of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from interlock.server.live.rooms import Member, RoomName

TRY_AGAIN_LATER: Final = 1013
LOGIN_OVER: Final = 4001
BATCH_BYTES: Final = 64 * 1024
_HARD: Final = 2


class CatchingUp(Protocol):
    """What an outbox tells its rooms: there is place again."""

    def catch_up(self, member: Member) -> None: ...


class Direct(Protocol):
    """A wire that can be written to without waiting, while it is free."""

    @property
    def is_free(self) -> bool: ...

    def write_texts(self, texts: Iterable[bytes]) -> None: ...


@dataclass(slots=True)
class Traffic:
    """What went out to all clients, counted."""

    frames_sent: int = 0
    bytes_sent: int = 0
    frames_refused: int = 0
    overflows: int = 0


class FlushRound:
    """The outboxes that got something for a free wire. All are flushed together, once what is being done is done: a
    call of the loop for each of them would cost as much as the frame."""

    def __init__(self) -> None:
        self._rung: deque[Outbox] = deque()

    def ring(self, outbox: Outbox) -> None:
        """Flush an outbox with the others, soon."""
        if not self._rung:
            asyncio.get_running_loop().call_soon(self._flush)
        self._rung.append(outbox)

    def _flush(self) -> None:
        rung, self._rung = self._rung, deque()
        try:
            while rung:
                rung.popleft().flush()
        finally:
            for outbox in rung:  # one of them failed: the loop is told, and the others go on
                self.ring(outbox)


@dataclass(frozen=True, slots=True)
class Closing:
    """How a connection is to end."""

    code: int
    reason: str


class Outbox:
    """A member of rooms. For one writer: `take` until there is no more, then end as `closing` says."""

    def __init__(
        self,
        rooms: CatchingUp,
        *,
        max_frames: int,
        max_bytes: int,
        traffic: Traffic | None = None,
        flushing: FlushRound | None = None,
    ) -> None:
        self._rooms = rooms
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._traffic = traffic or Traffic()
        self._flushing = flushing or FlushRound()
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._is_behind = False
        self._waiter: asyncio.Future[None] | None = None
        self._wire: Direct | None = None
        self._is_rung = False
        self.closing: Closing | None = None

    def __len__(self) -> int:
        return len(self._frames)

    def offer(self, frame: bytes, room: RoomName) -> bool:
        """Take a frame of a room, if there is place. One that is too large for any outbox goes into an empty one."""
        waiting = len(self._frames)
        if self.closing is not None or (
            waiting and (waiting >= self._max_frames or self._bytes + len(frame) > self._max_bytes)
        ):
            self._is_behind = True
            self._traffic.frames_refused += 1
            return False
        self._put(frame)
        return True

    def answer(self, frame: bytes) -> None:
        """Take an answer. What waits before it decides whether the client reads at all, so any one answer fits."""
        if self.closing is not None:
            return
        if len(self._frames) >= _HARD * self._max_frames or self._bytes >= _HARD * self._max_bytes:
            self._traffic.overflows += 1
            self._frames.clear()
            self._bytes = 0
            self.close(TRY_AGAIN_LATER, "answers are not read")
            return
        self._put(frame)

    def attach(self, wire: Direct) -> None:
        """From now on what waits goes straight to a wire, whenever it is free."""
        self._wire = wire

    def close(self, code: int, reason: str) -> None:
        """Nothing more is taken. What waits is still sent. The first reason holds."""
        if self.closing is None:
            self.closing = Closing(code, reason)
            self._wake()

    def flush(self) -> None:
        """Send what waits if the wire is free, and wake the writer for what is left."""
        self._is_rung = False
        if self._frames and self._wire is not None and self._wire.is_free:
            self._wire.write_texts(self._pop_batch())
        if self._frames:
            self._wake()

    async def take(self) -> bytes | None:
        """The next frame; None when there will be none."""
        return self._pop() if await self._has_more() else None

    async def take_batch(self) -> list[bytes]:
        """What waits, in order, as much of it as is sent at once; nothing when there will be nothing."""
        return self._pop_batch() if await self._has_more() else []

    async def _has_more(self) -> bool:
        """Wait for a frame, or for the end."""
        while not self._frames:
            if self.closing is not None:
                return False
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return True

    def _pop_batch(self) -> list[bytes]:
        frames, size = self._frames, 0
        batch: list[bytes] = []
        while frames and size < BATCH_BYTES:
            frame = frames.popleft()
            size += len(frame)
            batch.append(frame)
        self._note_sent(len(batch), size)
        return batch

    def _pop(self) -> bytes:
        frame = self._frames.popleft()
        self._note_sent(1, len(frame))
        return frame

    def _note_sent(self, frames: int, size: int) -> None:
        self._bytes -= size
        self._traffic.frames_sent += frames
        self._traffic.bytes_sent += size
        if self._is_behind and self.closing is None and self._is_half_empty():
            self._is_behind = False
            self._rooms.catch_up(self)

    def _is_half_empty(self) -> bool:
        return 2 * len(self._frames) <= self._max_frames and 2 * self._bytes <= self._max_bytes

    def _put(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._bytes += len(frame)
        if self._is_rung:  # a task that is woken for each frame costs more than the frame
            return
        if self._wire is None:
            self._wake()
        else:
            self._is_rung = True
            self._flushing.ring(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
