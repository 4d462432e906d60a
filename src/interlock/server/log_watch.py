"""The log of a server, with an eye on whether it takes what it is given.

Laws:
1. It does what the log does, and no more: nothing is kept back, repeated or changed.
2. From an append that the store could not take until one that it took, there is a problem, and it says why. Who asks
   for the board is told then: what happens meanwhile is neither recorded nor shown.
3. Each such time is said once in the server's own log, when it begins and when it ends.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from interlock.log.port import Committed, Followed, Log, LogDamage, LogUnavailable, SessionPage, Slice, TurnSlice
from interlock.log.snapshots import Snapshots
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId

_logger: Final = logging.getLogger("interlock.server")


class WatchedLog:
    """A log. `problem` is why it takes nothing now; blank: nothing is known against it."""

    def __init__(self, log: Log) -> None:
        self.store = self._log = log
        self.problem = ""

    @property
    def snapshots(self) -> Snapshots:
        return self._log.snapshots

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        try:
            version = await self._log.append(session_id, events, expected_version=expected_version)
        except LogUnavailable as error:
            if not self.problem:
                _logger.error("the log takes nothing: %s", error)
            self.problem = str(error)
            raise
        if self.problem:
            _logger.error("the log takes events again")
            self.problem = ""
        return version

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        return await self._log.read(session_id, after=after, limit=limit)

    async def read_turns(self, session_id: SessionId, *, last: int = 1) -> TurnSlice:
        return await self._log.read_turns(session_id, last=last)

    def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        return self._log.follow(session_id, after=after)

    def follow_all(self, *, after: int = 0) -> AsyncGenerator[Committed | LogDamage, None]:
        return self._log.follow_all(after=after)

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
        return await self._log.sessions(prefix=prefix, after=after, limit=limit)

    async def close(self) -> None:
        await self._log.close()


def store_of(log: Log) -> Log:
    """The store itself."""
    return log.store if isinstance(log, WatchedLog) else log


def problem_of(log: Log) -> str:
    """Why a log takes nothing now, if that is known."""
    return log.problem if isinstance(log, WatchedLog) else ""
