"""Waiting for a slot of the pool. Cancelled at any moment, it leaves neither a slot nor a place behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from interlock.agents.pool.pool import Pool, PoolLimits, SlotRequest
from interlock.vocabulary.errors import ContractError


class Slots:
    """The pool for tasks: `acquire` waits for its turn, `release` lets the next one go."""

    def __init__(self, limits: PoolLimits | None = None) -> None:
        self.pool = Pool(limits)
        self._turns: dict[str, asyncio.Future[None]] = {}

    async def acquire(self, key: str, agent: str) -> None:
        """Return once the key has a slot. One that has it already returns at once; one key waits once."""
        if key in self._turns:
            raise ContractError(f"{key} waits for a slot already")
        if self.pool.ask(key, agent) is SlotRequest.GRANTED:
            return
        turn = self._turns[key] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            if not self.pool.withdraw(key):
                self.release(key)  # the slot came in the same moment
            raise
        finally:
            del self._turns[key]

    def release(self, key: str) -> None:
        """Give a slot back. Harmless for a key that has none."""
        self._wake(self.pool.release(key))

    def _wake(self, granted: Iterable[str]) -> None:
        for key in granted:
            turn = self._turns[key]
            if not turn.done():
                turn.set_result(None)
