"""What a session is told, in order, between those who tell it and the one task that takes it.

Laws:
1. Nothing is lost, and what one giver puts stays in order: whoever finds it full waits for room.
2. One timer. It is moved only where the next deadline is earlier than it: one that moves further away with each piece
   of text costs nothing, and the taker looks again when the timer rang too early.
3. Once it is closed no timer is left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Mailbox(Generic[ItemT]):
    """A bounded queue for one taker, which also waits for a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[ItemT] = deque()
        self._taker: asyncio.Future[None] | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_awaited(self) -> bool:
        """Whether the taker waits, and nothing has told it to look: neither an item nor its timer."""
        return self._taker is not None and not self._taker.done()

    async def put(self, item: ItemT) -> None:
        """Add an item, as soon as there is room."""
        while len(self._items) >= self._limit:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(room)
            try:
                await room
            except BaseException:
                if room in self._waiting:
                    self._waiting.remove(room)
                elif not room.cancelled():
                    self._tell_room()  # the room that it was told of is another's
                raise
        self.put_nowait(item)

    def put_nowait(self, item: ItemT) -> None:
        """Add an item, whether or not there is room."""
        self._items.append(item)
        self.wake()

    def take(self, most: int) -> list[ItemT]:
        """What waits, the oldest first; nothing where nothing does."""
        items = self._items
        if len(items) <= most:
            taken = list(items)
            items.clear()
        else:
            taken = [items.popleft() for _ in range(most)]
        for _ in taken:
            if not self._waiting:
                break
            self._tell_room()
        return taken

    async def wait(self, seconds: float | None) -> None:
        """Wait for an item, or so long (None: for ever). It may return early with neither: look again."""
        if self._items:
            return
        loop = asyncio.get_running_loop()
        if seconds is not None:
            due = loop.time() + seconds
            if self._timer is None or self._timer.when() > due:
                self.close()
                self._timer = loop.call_at(due, self._ring)
        self._taker = loop.create_future()
        try:
            await self._taker
        finally:
            self._taker = None

    def close(self) -> None:
        """Leave no timer behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self.wake()

    def wake(self) -> None:
        """Have the taker look again."""
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    def _tell_room(self) -> None:
        while self._waiting:
            room = self._waiting.popleft()
            if not room.done():
                room.set_result(None)
                return
