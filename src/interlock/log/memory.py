"""The log in memory, for tests and simulations, and the waiting that the followers of every local store share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from msgspec import structs

from interlock.log.chain import Head, Stamped, check_session_id, stamp, start
from interlock.log.port import (
    Committed,
    Followed,
    LogDamage,
    LogUnavailable,
    SessionPage,
    SessionSummary,
    Slice,
    TurnSlice,
)
from interlock.log.snapshots import MemorySnapshots
from interlock.log.sqlite.turn_index import TurnIndex, process_of, turn_slice, whole_slice
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId

FOLLOW_PAGE = 256


class Followers:
    """Who waits for news, and of which session (None: of all). A follower clears its bell, looks, and then waits."""

    def __init__(self) -> None:
        self._bells: dict[SessionId | None, set[asyncio.Event]] = {}

    @contextmanager
    def listen(self, session_id: SessionId | None) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells.setdefault(session_id, set()).add(bell)
        try:
            yield bell
        finally:
            self._bells[session_id].discard(bell)
            if not self._bells[session_id]:
                del self._bells[session_id]

    def ring(self, session_id: SessionId | None) -> None:
        """Tell the followers of a session and those of all; None tells everybody."""
        keys = list(self._bells) if session_id is None else [session_id, None]
        for key in keys:
            for bell in self._bells.get(key, ()):
                bell.set()

    def __bool__(self) -> bool:
        return bool(self._bells)


def check_page(after: int, limit: int | None) -> None:
    if after < 0 or (limit is not None and limit < 1):
        raise ContractError(f"cannot read {limit} events after {after}; count from 0, and ask for at least one")


def closed() -> LogUnavailable:
    return LogUnavailable("the log is closed", next_action="open it again", may_pass=False)


class MemoryLog:
    """Keeps every promise of the port but durability. Belongs to one event loop."""

    def __init__(self) -> None:
        self._sessions: dict[SessionId, list[Stamped]] = {}
        self._order: list[Event] = []
        self._followers = Followers()
        self.snapshots = MemorySnapshots(self.sessions)
        self._is_closed = False

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        await asyncio.sleep(0)  # a place to be cancelled at, as in a store that really waits; after it nothing waits
        check_session_id(session_id)
        if self._is_closed:
            raise closed()
        kept = self._sessions.get(session_id, [])
        head = Head(len(kept), kept[-1].digest if kept else start(session_id))
        new = stamp(session_id, events, head, expected_version=expected_version)
        self._sessions.setdefault(session_id, kept).extend(new)
        self._order += [stamped.event for stamped in new]
        self._followers.ring(session_id)
        return len(kept)

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        check_session_id(session_id)
        check_page(after, limit)
        if self._is_closed:
            raise closed()
        return self._slice(session_id, after, limit)

    async def read_turns(self, session_id: SessionId, *, last: int = 1) -> TurnSlice:
        check_page(0, last)
        found = await self.read(session_id)
        index = TurnIndex(session_id)
        begun = (index.add(event, event.seq or 0) for event in found.events)
        rows = [row for row in begun if row is not None][-last:]
        if not rows:
            return whole_slice(found)
        part = structs.replace(found, events=found.events[rows[0].first_seq - 1 :])
        return turn_slice(rows, part, process_of(found.events))

    def _slice(self, session_id: SessionId, after: int, limit: int | None) -> Slice:
        kept = self._sessions.get(session_id, [])
        end = len(kept) if limit is None else after + limit
        return Slice(events=tuple(stamped.event for stamped in kept[after:end]), version=len(kept))

    async def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        check_session_id(session_id)
        check_page(after, None)
        with self._followers.listen(session_id) as bell:
            while True:
                bell.clear()
                found = self._slice(session_id, after, FOLLOW_PAGE).events
                for event in found:
                    yield event
                after += len(found)
                if not found:
                    if self._is_closed:
                        return
                    await bell.wait()

    async def follow_all(self, *, after: int = 0) -> AsyncGenerator[Committed | LogDamage, None]:
        check_page(after, None)
        with self._followers.listen(None) as bell:
            while True:
                bell.clear()
                found = self._order[after : after + FOLLOW_PAGE]
                for event in found:
                    after += 1
                    yield Committed(after, event)
                if not found:
                    if self._is_closed:
                        return
                    await bell.wait()

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
        check_page(0, limit)
        if self._is_closed:
            raise closed()
        ids = (key for key in sorted(self._sessions) if key.startswith(prefix) and (after is None or key > after))
        found = [self._summary(session_id) for session_id in islice(ids, limit + 1)]
        return page_of(found, limit)

    def _summary(self, session_id: SessionId) -> SessionSummary:
        kept = self._sessions[session_id]
        return SessionSummary(
            session_id=session_id,
            version=len(kept),
            head=kept[-1].digest.hex(),
            first_at=kept[0].event.ts,
            last_at=kept[-1].event.ts,
        )

    async def close(self) -> None:
        """Followers are first given what was appended, then end. What was read or appended before is kept nowhere."""
        self._is_closed = True
        self._followers.ring(None)


def page_of(found: list[SessionSummary], limit: int) -> SessionPage:
    """A page from one summary more than it may hold, if there is one more."""
    page = tuple(found[:limit])
    return SessionPage(sessions=page, next_after=page[-1].session_id if len(found) > limit else None)
