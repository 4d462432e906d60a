"""Snapshots of folds in the database. The laws are those of `log.snapshots`.

They are written by the log's one writer, between appends, which they do not make slower: nothing that the writer
remembers of sessions is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import apsw

from interlock.log.chain import link, start
from interlock.log.snapshots import FoldName, FoldSnapshot, seal
from interlock.log.sqlite.faults import UNREADABLE, rows_of
from interlock.vocabulary.ids import SessionId

if TYPE_CHECKING:
    from interlock.log.sqlite.store import SqliteLog

# Spelled shortly: the file keeps this text in its first page, and that page must hold the spelling of every table, or
# salvage could not put another in its place. `version` and `head` are the session's: what a snapshot stands on.
TABLES: Final = """
CREATE TABLE snapshots (
session_id TEXT NOT NULL, fold TEXT NOT NULL, fold_version TEXT NOT NULL, version INTEGER NOT NULL,
head BLOB NOT NULL, last_at TEXT NOT NULL, payload BLOB NOT NULL, digest BLOB NOT NULL,
PRIMARY KEY (session_id, fold)) STRICT, WITHOUT ROWID;
CREATE INDEX snapshots_by_head ON snapshots (fold, session_id, fold_version, version, head);
CREATE INDEX snapshots_by_time ON snapshots (fold, last_at);
"""
_BROKEN: Final = (apsw.SQLError, apsw.ConstraintError, TypeError, *UNREADABLE)
_END: Final = "SELECT head, last_at FROM sessions WHERE session_id = ? AND version = ? AND NOT is_purged"
_PUT: Final = (
    "INSERT OR REPLACE INTO snapshots (session_id, fold, fold_version, version, head, last_at, payload, digest)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_MISSING: Final = """
SELECT s.session_id FROM sessions s WHERE NOT s.is_purged AND NOT EXISTS (
  SELECT 1 FROM snapshots p INDEXED BY snapshots_by_head
  WHERE p.fold = ? AND p.session_id = s.session_id AND p.fold_version = ? AND p.version = s.version AND p.head = s.head
)"""
_FITTING: Final = """
SELECT p.session_id, p.version, p.head, p.payload, p.digest FROM snapshots p JOIN sessions s USING (session_id)
WHERE p.fold = ? AND p.fold_version = ? AND p.version = s.version AND p.head = s.head AND NOT s.is_purged
"""
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class CacheWork:
    """Work of the writer that touches no event and no session: what it remembers of them stays true."""

    fold: FoldName
    snapshots: tuple[FoldSnapshot, ...]

    def __call__(self, connection: apsw.Connection) -> int:
        """Write what fits now. Where the table is broken nothing is kept, and nobody is the worse for it."""
        kept = 0
        try:
            for one in self.snapshots:
                for head, last_at in connection.execute(_END, (one.session_id, one.version)).fetchall():
                    assert isinstance(head, bytes), "a table that is STRICT"
                    digest = seal(self.fold, one, head)
                    values = (one.session_id, self.fold.name, self.fold.version, one.version, head, last_at)
                    connection.execute(_PUT, (*values, one.payload, digest))
                    kept += 1
        except _BROKEN:
            if not connection.in_transaction:
                raise
        return kept


class SqliteSnapshots:
    """The snapshots of one `SqliteLog`."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self.is_broken = False
        self._changed: set[SessionId] = set()

    async def keep(self, fold: FoldName, snapshots: Sequence[FoldSnapshot]) -> int:
        return await self._log.cache(CacheWork(fold, tuple(snapshots))) if snapshots else 0

    async def missing(self, fold: FoldName) -> tuple[SessionId, ...]:
        """Every session where the table cannot be read, now or before: nothing is hidden by a broken cache."""
        found = None if self.is_broken else await self._log.query(lambda connection: _missing(connection, fold))
        if found is not None:
            return found
        ids: list[SessionId] = []
        after: SessionId | None = None
        while True:
            page = await self._log.sessions(after=after, limit=_PAGE)
            ids += (one.session_id for one in page.sessions if not one.is_purged)
            if (after := page.next_after) is None:
                return tuple(ids)

    async def get(self, fold: FoldName, session_id: SessionId) -> FoldSnapshot | None:
        found = await self._fitting(fold, "AND p.session_id = ?", session_id)
        return found[0] if found else None

    async def page(self, fold: FoldName, *, after: SessionId | None = None, limit: int = 100) -> list[FoldSnapshot]:
        return await self._fitting(fold, "AND p.session_id > ? ORDER BY p.session_id LIMIT ?", after or "", limit)

    async def newest(self, fold: FoldName, *, limit: int) -> list[FoldSnapshot]:
        return await self._fitting(fold, "ORDER BY p.last_at DESC, p.session_id DESC LIMIT ?", limit)

    async def forget(self, session_id: SessionId | None = None) -> None:
        await self._log.maintain(
            "forget_snapshots", {"session_id": session_id}, lambda connection: forget(connection, session_id)
        )

    async def proves_chain(self, session_id: SessionId) -> bool:
        return await self._log.query(lambda connection: proves_chain(connection, session_id))

    async def _fitting(self, fold: FoldName, where: str, *values: str | int) -> list[FoldSnapshot]:
        def work(connection: apsw.Connection) -> list[tuple[SessionId, FoldSnapshot | None]] | None:
            try:
                rows = connection.execute(f"{_FITTING} {where}", (fold.name, fold.version, *values)).fetchall()
            except _BROKEN:
                return None
            return [(SessionId(str(row[0])), _sound(fold, row)) for row in rows]

        found = None if self.is_broken else await self._log.query(work)
        self.is_broken = found is None
        self._changed |= {session_id for session_id, one in found or () if one is None}
        return [one for _, one in found or () if one is not None]

    def take_changed(self) -> frozenset[SessionId]:
        changed, self._changed = frozenset(self._changed), set()
        return changed


def forget(connection: apsw.Connection, session_id: SessionId | None = None) -> None:
    """Drop the snapshots of a session, or all. A file of an older schema has none."""
    try:
        if session_id is None:
            connection.execute("DELETE FROM snapshots")
        else:
            connection.execute("DELETE FROM snapshots WHERE session_id = ?", (session_id,))
    except _BROKEN:
        if not connection.in_transaction:
            raise


def proves_chain(connection: apsw.Connection, session_id: SessionId) -> bool:
    """Whether the digests of a session lead from its first event to its head, over the lines that are there,
    in the database or in an archive file."""
    try:
        heads = connection.execute("SELECT version, head FROM sessions WHERE session_id = ?", (session_id,)).fetchall()
        digest, last = start(session_id), 0
        while rows := rows_of(connection, session_id, last, _PAGE):
            for row in rows:
                digest, last = link(digest, row.line), last + 1
                if row.seq != last or row.digest != digest:
                    return False
    except _BROKEN:
        return False
    return heads == [(last, digest)]


def _missing(connection: apsw.Connection, fold: FoldName) -> tuple[SessionId, ...] | None:
    try:
        rows = connection.execute(_MISSING, (fold.name, fold.version)).fetchall()
    except _BROKEN:
        return None
    return tuple(SessionId(str(key)) for (key,) in rows)


def _sound(fold: FoldName, row: Sequence[object]) -> FoldSnapshot | None:
    """Law 4."""
    session_id, version, head, payload, digest = row
    if not (isinstance(version, int) and isinstance(head, bytes) and isinstance(payload, bytes)):
        return None
    found = FoldSnapshot(session_id=SessionId(str(session_id)), version=version, payload=payload)
    return found if digest == seal(fold, found, head) else None
