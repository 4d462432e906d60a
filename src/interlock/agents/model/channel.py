"""The rendezvous between the loop and whoever reads it.

Laws:
1. `tell` returns only after the reader has asked for the next observation: by then it has dealt with this one. So a
   tool runs only after its call was persisted.
2. What was told is read exactly once and in order, also where the teller was cancelled while it waited.
3. `tell_now` does not wait. It is for what is told last, after which nothing runs that would have to wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from interlock.agents.observations import Exited, Observation
from interlock.vocabulary.errors import ContractError


class LoopChannel:
    """Observations of one handle, from many tasks to one reader."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Observation | Exception, asyncio.Future[None] | None]] = asyncio.Queue()
        self._has_reader = False

    async def tell(self, seen: Observation) -> None:
        """Tell, and wait until it was dealt with."""
        dealt_with: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((seen, dealt_with))
        await dealt_with

    def tell_now(self, seen: Observation) -> None:
        """Tell, and do not wait."""
        self._queue.put_nowait((seen, None))

    def fail(self, error: Exception) -> None:
        """Nobody tells any more: the reader is given the error, behind what was told before."""
        self._queue.put_nowait((error, None))

    async def read(self) -> AsyncIterator[Observation]:
        """Everything that is told, up to `Exited`. Raises what the loop failed on."""
        if self._has_reader:
            raise ContractError("observations are read once, by one task")
        self._has_reader = True
        while True:
            seen, dealt_with = await self._queue.get()
            if isinstance(seen, Exception):
                raise seen
            yield seen
            if dealt_with is not None and not dealt_with.done():
                dealt_with.set_result(None)
            if isinstance(seen, Exited):
                return
