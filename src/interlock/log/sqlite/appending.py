"""Appends of one group, stamped one by one and written together.

Laws:
1. An append that is refused leaves nothing behind: it is judged before anything of it is kept.
2. The index of turns is written with the events. It is a cache: where it cannot be written, appends go on without it.
3. Heads are remembered only as long as nobody else can have moved them: the writer forgets them after a failure and
   after any other work on the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import apsw

from interlock.log.archive.reading import archived
from interlock.log.chain import Head, Stamped, stamp, start
from interlock.log.sqlite import turn_index
from interlock.log.sqlite.readers import head_of
from interlock.log.sqlite.turn_index import TurnIndex, TurnRow
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId

MAX_HEADS: Final = 10_000
MAX_TURNS_KNOWN: Final = 500_000

INSERT: Final = "INSERT INTO events (session_id, seq, line, digest, schema_version) VALUES (?, ?, ?, ?, ?)"
_ADVANCE: Final = """
INSERT INTO sessions (session_id, version, head, first_at, last_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (session_id) DO UPDATE SET version = ?2, head = ?3, last_at = ?5
"""
ADVANCE_WITH_INDEX: Final = """
INSERT INTO sessions (session_id, version, head, first_at, last_at, turns) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (session_id) DO UPDATE SET version = ?2, head = ?3, last_at = ?5, turns = ?6
"""

_Summary: TypeAlias = tuple[SessionId, int, bytes, str, str]


class PendingAppend(NamedTuple):
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
        self._summaries: dict[SessionId, _Summary] = {}
        self._indexes: dict[SessionId, TurnIndex] = {}
        self._turns: list[tuple[SessionId, TurnRow]] = []
        self._turns_known = 0

    def take(self, connection: apsw.Connection, asked: PendingAppend) -> int:
        """Stamp an append and return the version that it leads to, or raise; `flush` writes it."""
        session_id = asked.session_id
        head = self._heads.get(session_id) or self._load(connection, session_id)
        stamped = stamp(session_id, asked.events, head, expected_version=asked.expected_version)
        first, last = stamped[0], stamped[-1]
        version = head.version + len(stamped)
        before = self._summaries.get(session_id)
        ended = last.event.ts.isoformat()
        began = before[3] if before else ended if first is last else first.event.ts.isoformat()
        self._rows += ((session_id, one.event.seq, one.line, one.digest, asked.schema_version) for one in stamped)
        self._summaries[session_id] = (session_id, version, last.digest, began, ended)
        self._heads[session_id] = Head(version, last.digest)
        self._index(session_id, stamped)
        return version

    def flush(self, connection: apsw.Connection) -> None:
        """Write what was taken, in the transaction that is open."""
        rows, self._rows = self._rows, []
        summaries, self._summaries = self._summaries, {}
        if rows:
            connection.executemany(INSERT, rows)
            self._write_index(connection, summaries)
            connection.executemany(_ADVANCE, [one for key, one in summaries.items() if key not in self._indexes])
        if len(self._heads) > MAX_HEADS or self._turns_known > MAX_TURNS_KNOWN:
            self.forget()

    def forget(self) -> None:
        """Drop what was taken and not written, and all that is remembered."""
        self._heads.clear()
        self._rows.clear()
        self._summaries.clear()
        self._indexes.clear()
        self._turns.clear()
        self._turns_known = 0

    def _load(self, connection: apsw.Connection, session_id: SessionId) -> Head:
        head = _load(connection, session_id)
        index = turn_index.load(connection, session_id, head)
        if index is not None:
            self._indexes[session_id] = index
            self._turns_known += index.turns
        return head

    def _index(self, session_id: SessionId, stamped: Sequence[Stamped]) -> None:
        index = self._indexes.get(session_id)
        if index is None:
            return
        for seq, one in enumerate(stamped, start=stamped[0].event.seq or 0):
            begun = index.add(one.event, seq)
            if begun is not None:
                self._turns.append((session_id, begun))
                self._turns_known += 1

    def _write_index(self, connection: apsw.Connection, summaries: Mapping[SessionId, _Summary]) -> None:
        """Turns that began, and the summaries of the sessions that have an index. One whose index is left behind, here
        or by an older writer, is not held any more: its seal does not fit the session's new end."""
        turns, self._turns = self._turns, []
        sealed = [
            (*summary, self._indexes[key].seal(self._heads[key]))
            for key, summary in summaries.items()
            if key in self._indexes
        ]
        try:
            if turns:
                turn_index.write(connection, turns)
            connection.executemany(ADVANCE_WITH_INDEX, sealed)
        except (apsw.CorruptError, apsw.SQLError, apsw.ConstraintError):
            if not connection.in_transaction:
                raise
            self._indexes.clear()


def _load(connection: apsw.Connection, session_id: SessionId) -> Head:
    head, is_purged = head_of(connection, session_id)
    if is_purged:
        raise UsageError(f"session {session_id} was purged", remedy="begin a new session")
    if head is not None:
        if archived(connection, session_id) is not None:
            raise UsageError(
                f"session {session_id} is in an archive file, and takes no events",
                remedy=f"bring it back with `interlock log restore {session_id}`",
            )
        return head
    if connection.execute("SELECT 1 FROM events WHERE session_id = ? LIMIT 1", (session_id,)).fetchall():
        raise apsw.CorruptError(f"session {session_id} has events and no summary")
    return Head(0, start(session_id))
