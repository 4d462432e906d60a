"""Snapshots of folds: what a fold of a session came to, kept beside the events so that a start need not read them.

Laws:
1. A snapshot is a cache. Without it the events are folded again, and every answer is the same.
2. It stands at one version and one chain head of its session, and counts only while the session ends there. The head
   covers every event before it, so it fits no other history.
3. It names the fold that made it, and its version. Another version of the fold never reads it.
4. It has a digest over itself: one that was changed is as one that is not there.
5. It proves nothing about the events that lie on the disk now: `proves_chain` does, and so does every reading of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from typing import Protocol

from msgspec import Struct

from interlock.log.port import SessionPage, SessionSummary
from interlock.vocabulary.ids import SessionId


class FoldName(Struct, frozen=True):
    """A fold, and the version of it that makes and reads snapshots."""

    name: str
    version: str


class FoldSnapshot(Struct, frozen=True, kw_only=True):
    """What a fold of one session came to at a version of it."""

    session_id: SessionId
    version: int
    payload: bytes


class Snapshots(Protocol):
    """The snapshots of one store. What cannot be read of them is as what is not there.

    `is_broken`: they cannot be read at all, which was found out after some were used. Then every session is missing.
    """

    @property
    def is_broken(self) -> bool: ...

    def take_changed(self) -> frozenset[SessionId]:
        """The sessions whose snapshot was found to be changed, since this was last asked: to be folded anew."""
        ...

    async def keep(self, fold: FoldName, snapshots: Sequence[FoldSnapshot]) -> int:
        """Keep those whose session ends at their version now, in place of older ones. How many that were."""
        ...

    async def missing(self, fold: FoldName) -> tuple[SessionId, ...]:
        """Every session, unless it was purged, that has no snapshot which fits it."""
        ...

    async def get(self, fold: FoldName, session_id: SessionId) -> FoldSnapshot | None:
        """The snapshot of a session, if there is one that fits it."""
        ...

    async def page(self, fold: FoldName, *, after: SessionId | None = None, limit: int = 100) -> list[FoldSnapshot]:
        """Snapshots that fit, in the order of their sessions' ids."""
        ...

    async def newest(self, fold: FoldName, *, limit: int) -> list[FoldSnapshot]:
        """Snapshots that fit, of the sessions whose last event is the newest."""
        ...

    async def forget(self, session_id: SessionId | None = None) -> None:
        """Drop the snapshots of a session, or all."""
        ...

    async def proves_chain(self, session_id: SessionId) -> bool:
        """Whether every event of a session is there as it was written, by its digests up to its head. It reads all of
        them, and decodes none."""
        ...


def seal(fold: FoldName, snapshot: FoldSnapshot, head: bytes) -> bytes:
    """The digest of law 4."""
    spelled = f"{fold.name}\n{fold.version}\n{snapshot.session_id}\n{snapshot.version}\n"
    return sha256(b"interlock-snapshot-1\n" + spelled.encode() + head + snapshot.payload).digest()


class SessionLister(Protocol):
    """What lists the sessions of a log, a page at a time."""

    async def __call__(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage: ...


class MemorySnapshots:
    """The snapshots of a log in memory, whose sessions are listed by the log itself."""

    is_broken = False

    def __init__(self, sessions: SessionLister) -> None:
        self._sessions = sessions
        self._kept: dict[tuple[FoldName, SessionId], tuple[str, FoldSnapshot]] = {}

    def take_changed(self) -> frozenset[SessionId]:
        return frozenset()

    async def keep(self, fold: FoldName, snapshots: Sequence[FoldSnapshot]) -> int:
        kept = 0
        for one in snapshots:
            known = await self._summary(one.session_id)
            if known is not None and known.version == one.version:
                self._kept[fold, one.session_id] = (known.head, one)
                kept += 1
        return kept

    async def missing(self, fold: FoldName) -> tuple[SessionId, ...]:
        return tuple([one.session_id async for one in self._all() if self._fitting(fold, one) is None])

    async def get(self, fold: FoldName, session_id: SessionId) -> FoldSnapshot | None:
        known = await self._summary(session_id)
        return None if known is None else self._fitting(fold, known)

    async def page(self, fold: FoldName, *, after: SessionId | None = None, limit: int = 100) -> list[FoldSnapshot]:
        found = [self._fitting(fold, one) async for one in self._all(after)]
        return [one for one in found if one is not None][:limit]

    async def newest(self, fold: FoldName, *, limit: int) -> list[FoldSnapshot]:
        sessions = [one async for one in self._all()]
        by_time = sorted(sessions, key=lambda one: (one.last_at, one.session_id), reverse=True)
        found = [self._fitting(fold, one) for one in by_time]
        return [one for one in found if one is not None][:limit]

    async def forget(self, session_id: SessionId | None = None) -> None:
        self._kept = {key: one for key, one in self._kept.items() if session_id is not None and key[1] != session_id}

    async def proves_chain(self, session_id: SessionId) -> bool:
        return await self._summary(session_id) is not None

    async def _all(self, after: SessionId | None = None) -> AsyncIterator[SessionSummary]:
        while True:
            page = await self._sessions(after=after)
            for one in page.sessions:
                yield one
            if (after := page.next_after) is None:
                return

    async def _summary(self, session_id: SessionId) -> SessionSummary | None:
        page = await self._sessions(prefix=session_id, limit=1)
        return next((one for one in page.sessions if one.session_id == session_id), None)

    def _fitting(self, fold: FoldName, known: SessionSummary) -> FoldSnapshot | None:
        head, kept = self._kept.get((fold, known.session_id), ("", None))
        return kept if kept is not None and (known.version, known.head) == (kept.version, head) else None
