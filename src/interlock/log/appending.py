"""Appends of one group, stamped one by one and written together.

Laws:
1. An append that is refused leaves nothing behind: it is judged before anything of it is kept.
2. Heads are remembered only as long as nobody else can have moved them: the writer forgets them after a failure and
   after any other work on the database.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import apsw

from interlock.log.chain import Head, stamp, start
from interlock.log.readers import head_of
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events import Event
from interlock.vocabulary.ids import SessionId

MAX_HEADS: Final = 10_000

_INSERT: Final = "INSERT INTO events (session_id, seq, line, digest, schema_version) VALUES (?, ?, ?, ?, ?)"
_ADVANCE: Final = """
INSERT INTO sessions (session_id, version, head, first_at, last_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (session_id) DO UPDATE SET version = ?2, head = ?3, last_at = ?5
"""


class Append(NamedTuple):
    """What a caller asked for."""

    session_id: SessionId
    events: tuple[Event, ...]
    expected_version: int | None
    schema_version: int


class Appender:
    """Belongs to the writer's thread."""

    def __init__(self) -> None:
        self._heads: dict[SessionId, Head] = {}
        self._rows: list[tuple[SessionId, int | None, bytes, bytes, int]] = []
        self._summaries: dict[SessionId, tuple[SessionId, int, bytes, str, str]] = {}

    def take(self, connection: apsw.Connection, asked: Append) -> int:
        """Stamp an append and return the version that it leads to, or raise; `flush` writes it."""
        session_id = asked.session_id
        head = self._heads.get(session_id) or _load(connection, session_id)
        stamped = stamp(session_id, asked.events, head, expected_version=asked.expected_version)
        first, last = stamped[0], stamped[-1]
        version = head.version + len(stamped)
        before = self._summaries.get(session_id)
        began = before[3] if before else first.event.ts.isoformat()
        self._rows += ((session_id, one.event.seq, one.line, one.digest, asked.schema_version) for one in stamped)
        self._summaries[session_id] = (session_id, version, last.digest, began, last.event.ts.isoformat())
        self._heads[session_id] = Head(version, last.digest)
        return version

    def flush(self, connection: apsw.Connection) -> None:
        """Write what was taken, in the transaction that is open."""
        rows, self._rows = self._rows, []
        summaries, self._summaries = self._summaries, {}
        if rows:
            connection.executemany(_INSERT, rows)
            connection.executemany(_ADVANCE, summaries.values())
        if len(self._heads) > MAX_HEADS:
            self._heads.clear()

    def forget(self) -> None:
        """Drop what was taken and not written, and all that is remembered."""
        self._heads.clear()
        self._rows.clear()
        self._summaries.clear()


def _load(connection: apsw.Connection, session_id: SessionId) -> Head:
    head, is_purged = head_of(connection, session_id)
    if is_purged:
        raise UsageError(f"session {session_id} was purged", remedy="begin a new session")
    if head is not None:
        return head
    if connection.execute("SELECT 1 FROM events WHERE session_id = ? LIMIT 1", (session_id,)).fetchall():
        raise apsw.CorruptError(f"session {session_id} has events and no summary")
    return Head(0, start(session_id))
