"""Observations between the task that makes them and the one that reads them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Final

from interlock.agents.observations import Observation

MAX_WAITING: Final = 1024


class ObservationQueue:
    """A bounded line of observations. A maker waits when it is full; the last ones are always taken.

    After `open_wide` nobody waits any more: the agent is being stopped, and what it still says is little. An error of
    the maker (`fail`) is raised where the observations are read, behind those that came before it.
    """

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._limit = limit
        self._waiting: deque[Observation] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._is_wide = False
        self._is_closed = False
        self._failure: Exception | None = None

    async def put(self, seen: Iterable[Observation]) -> None:
        """Add observations, once there is room. After the end nothing is added."""
        while len(self._waiting) >= self._limit and not self._is_wide:
            self._room.clear()
            await self._room.wait()
        if not self._is_closed:
            self._waiting.extend(seen)
            self._news.set()

    def open_wide(self) -> None:
        self._is_wide = True
        self._room.set()

    def close(self, last: Iterable[Observation]) -> None:
        """Add the last observations. A second call adds nothing."""
        if not self._is_closed:
            self._waiting.extend(last)
            self._is_closed = True
            self.open_wide()
            self._news.set()

    def fail(self, error: Exception) -> None:
        """End with an error: nobody will make more of them. After the end this does nothing."""
        if not self._is_closed:
            self._failure = error
            self.close(())

    async def read(self) -> AsyncIterator[Observation]:
        """Everything, in order, until the outlet is closed. Raises what the maker failed on."""
        while True:
            while self._waiting:
                seen = self._waiting.popleft()
                self._room.set()
                yield seen
            if self._is_closed:
                if self._failure is not None:
                    raise self._failure
                return
            self._news.clear()
            await self._news.wait()
