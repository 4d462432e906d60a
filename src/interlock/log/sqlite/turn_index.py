"""The index of turns: where each turn of a session begins, and where its last process started and exited.

Laws:
1. A cache, written in the transaction of the events that it points to. Where it is missing, damaged or does not reach
   to the head of the session, the whole session is read instead: no state of the index changes an answer.
2. Each row has a digest over itself and the row before; the head of the index has one over itself, the last row, and
   the digest with which the session ends. A changed, lost or moved row is seen before it is believed.
3. A session is held from its first event on, or not at all. One that is known to be damaged is not held, so that each
   reader meets the damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import apsw

from interlock.lifecycle.turns import TURN_PAYLOADS
from interlock.log.chain import Decoder, Head, Inspector
from interlock.log.port import LogDamage, Slice, TurnSlice
from interlock.log.sqlite.faults import UNREADABLE, rows_of
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import IMPORTED_TURN_PREFIX, SessionId, SpawnId, TurnId

TABLES: Final = """
CREATE TABLE turns (                           -- a cache, with sessions.turns
  session_id TEXT NOT NULL,
  number INTEGER NOT NULL,                     -- 1: the turn that began first
  first_seq INTEGER NOT NULL,
  turn_id TEXT NOT NULL,
  prompts INTEGER NOT NULL,                    -- without a turn id, before it
  digest BLOB NOT NULL,
  PRIMARY KEY (session_id, number)
) STRICT, WITHOUT ROWID;
ALTER TABLE sessions ADD COLUMN turns BLOB;    -- TurnIndex.seal: where its index ends; NULL: it has none
"""
BROKEN: Final = (apsw.SQLError, apsw.ConstraintError, TypeError, ValueError, *UNREADABLE)
"""What reading the index may meet: another schema, another type, a lost page."""

_PUT_ROW: Final = (
    "INSERT OR REPLACE INTO turns (session_id, number, first_seq, turn_id, prompts, digest) VALUES (?, ?, ?, ?, ?, ?)"
)
_PUT_SEAL: Final = "UPDATE sessions SET turns = ? WHERE session_id = ?"
_SEAL: Final = "SELECT turns FROM sessions WHERE session_id = ? AND turns IS NOT NULL"
_ROWS: Final = """
SELECT number, first_seq, turn_id, prompts, digest FROM turns WHERE session_id = ? AND number > ? ORDER BY number
"""
_PAGE: Final = 2000
_DIGEST_BYTES: Final = 32
_STARTS: Final = frozenset({ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED})


class TurnRow(NamedTuple):
    """Where one turn begins. `prompts` counts the prompts without a turn id before its first event."""

    number: int
    first_seq: int
    turn_id: TurnId
    prompts: int
    digest: bytes


class IndexHead(NamedTuple):
    """The end of a session's index. `started` and `exited` are of the process that started last; 0: none."""

    turns: int = 0
    prompts: int = 0
    last: bytes = b""
    started: int = 0
    spawn_id: SpawnId | None = None
    exited: int = 0


class TurnIndex:
    """The index of one session as its writer keeps it: in memory, from rows that were checked once."""

    def __init__(self, session_id: SessionId, head: IndexHead | None = None, ids: Iterable[TurnId] = ()) -> None:
        self.session_id = session_id
        known = head or IndexHead(last=_begin(session_id))
        self._turns, self._prompts, self._last, self._started, self._spawn_id, self._exited = known
        self._ids = set(ids)
        self._current: TurnId | None = None
        self._spelled = b""  # the head as `seal` has it; blank: it changed since

    @property
    def turns(self) -> int:
        """How many turns it holds."""
        return self._turns

    def seal(self, end: Head) -> bytes:
        """The head, with a digest that fits this end of the session alone."""
        if not self._spelled:
            counts = f"{self._turns}\n{self._prompts}\n{self._started}\n{self._exited}\n{self._spawn_id or ''}"
            self._spelled = self._last + counts.encode()
        return _seal_digest(end, self._spelled) + self._spelled

    def add(self, event: Event, seq: int) -> TurnRow | None:
        """Take the next event, and return the row of the turn that begins with it, if one does."""
        data, turn_id = event.data, event.turn_id
        if isinstance(data, ProcessEvent):
            self._follow_process(data, event.spawn_id, seq)
            return None
        if (turn_id is not None and turn_id == self._current) or type(data) not in TURN_PAYLOADS:
            return None
        before = self._prompts
        if turn_id is None:
            if not isinstance(data, UserMessage):
                return None
            self._prompts += 1
            self._spelled = b""
            turn_id = TurnId(f"{IMPORTED_TURN_PREFIX}{self._prompts}")
        self._current = turn_id
        if turn_id in self._ids:
            return None
        self._ids.add(turn_id)
        self._turns += 1
        self._spelled = b""
        self._last = _row_digest(self.session_id, self._last, self._turns, seq, turn_id, before)
        return TurnRow(self._turns, seq, turn_id, before, self._last)

    def _follow_process(self, data: ProcessEvent, spawn_id: SpawnId | None, seq: int) -> None:
        self._spelled = b""
        if data.kind in _STARTS:
            self._started, self._spawn_id, self._exited = seq, spawn_id, 0
        elif data.kind is ProcessEventKind.EXITED and self._started and spawn_id == self._spawn_id:
            self._exited = seq


def write(connection: apsw.Connection, rows: Iterable[tuple[SessionId, TurnRow]]) -> None:
    """Write the rows of turns that began. The seal goes with the session's own summary."""
    connection.executemany(_PUT_ROW, [(session_id, *row) for session_id, row in rows])


def forget(connection: apsw.Connection, session_id: SessionId) -> None:
    """Hold a session no more."""
    connection.execute("DELETE FROM turns WHERE session_id = ?", (session_id,))
    connection.execute(_PUT_SEAL, (None, session_id))


def load_head(connection: apsw.Connection, session_id: SessionId, end: Head) -> IndexHead | None:
    """The head of a session's index, if it is there, sound, and reaches to this end of the session."""
    for (seal,) in connection.execute(_SEAL, (session_id,)):
        digest, spelled = _bytes(seal)[:_DIGEST_BYTES], _bytes(seal)[_DIGEST_BYTES:]
        if digest != _seal_digest(end, spelled):
            return None
        turns, prompts, started, exited, spawn_id = spelled[_DIGEST_BYTES:].decode().split("\n")
        last = spelled[:_DIGEST_BYTES]
        return IndexHead(int(turns), int(prompts), last, int(started), SpawnId(spawn_id) or None, int(exited))
    return None


def last_rows(connection: apsw.Connection, session_id: SessionId, head: IndexHead, count: int) -> list[TurnRow] | None:
    """The last `count` rows in order, all if there are fewer; None if they do not lead to the head."""
    before = max(head.turns - count, 0)
    rows = [_row(columns) for columns in connection.execute(_ROWS, (session_id, before))]
    if not rows or len(rows) != head.turns - before or rows[-1].digest != head.last:
        return None
    previous = _begin(session_id) if before == 0 else None
    for number, row in enumerate(rows, start=before + 1):
        if previous is None:  # a row covers the one before it, which is read for its digest alone
            previous = _digest_of(connection, session_id, before)
        if row.number != number or row.digest != _row_digest(session_id, previous, *row[:4]):
            return None
        previous = row.digest
    return rows


def load(connection: apsw.Connection, session_id: SessionId, end: Head) -> TurnIndex | None:
    """The whole index of a session, every row checked; None if it cannot be believed."""
    if end.version == 0:
        return TurnIndex(session_id)
    try:
        head = load_head(connection, session_id, end)
        if head is None:
            return None
        rows = last_rows(connection, session_id, head, head.turns) if head.turns else []
    except BROKEN:
        return None
    return None if rows is None else TurnIndex(session_id, head, (row.turn_id for row in rows))


def rebuild(connection: apsw.Connection, session_id: SessionId, decode: Decoder) -> bool:
    """Make the index of a session anew from its events. Returns False, and holds none, where events are damaged."""
    forget(connection, session_id)
    try:
        found = connection.execute(
            "SELECT version, head FROM sessions WHERE session_id = ? AND NOT is_purged", (session_id,)
        ).fetchall()
        ends = [Head(_whole(version), _bytes(head)) for version, head in found]
        rows = None if not ends else _index_events(connection, session_id, ends[0], decode)
    except BROKEN:
        return False
    if rows is None:
        return False
    index, begun = rows
    write(connection, [(session_id, row) for row in begun])
    connection.execute(_PUT_SEAL, (index.seal(ends[0]), session_id))
    return True


def rebuild_all(connection: apsw.Connection, decode: Decoder) -> None:
    """Make the index of every session that has a summary."""
    try:
        ids = [SessionId(str(key)) for (key,) in connection.execute("SELECT session_id FROM sessions").fetchall()]
    except BROKEN:
        return
    for session_id in ids:
        rebuild(connection, session_id, decode)


def turn_slice(rows: Sequence[TurnRow], found: Slice, process: tuple[Event, ...]) -> TurnSlice:
    """What was read from the beginning of the first of these turns on."""
    return TurnSlice(
        found=found,
        after=rows[0].first_seq - 1,
        turns=frozenset(row.turn_id for row in rows),
        prompts_before=rows[0].prompts,
        process=process,
    )


def whole_slice(found: Slice) -> TurnSlice:
    """A session that was read from its first event on."""
    return TurnSlice(found=found, process=process_of(found.events))


def process_of(events: Iterable[Event]) -> tuple[Event, ...]:
    """The event with which the last process started, and its exit if there is one."""
    found: tuple[Event, ...] = ()
    for event in events:
        if isinstance(event.data, ProcessEvent):
            if event.data.kind in _STARTS:
                found = (event,)
            elif event.data.kind is ProcessEventKind.EXITED and found and event.spawn_id == found[0].spawn_id:
                found = (found[0], event)
    return found


def problem_of(connection: apsw.Connection, session_id: SessionId, end: Head) -> str:
    """Why the index cannot be used for a session, every row of it checked; blank if it can."""
    try:
        if not connection.execute(_SEAL, (session_id,)).fetchall():
            return "its index of turns is missing, so all of it is read"
    except apsw.SQLError:  # a file of an older schema, which has none
        return ""
    except BROKEN:
        pass
    if load(connection, session_id, end) is None:
        return "its index of turns does not fit its events, so all of it is read"
    return ""


def _index_events(
    connection: apsw.Connection, session_id: SessionId, end: Head, decode: Decoder
) -> tuple[TurnIndex, list[TurnRow]] | None:
    index, begun, inspector = TurnIndex(session_id), [], Inspector(session_id, decode)
    while rows := rows_of(connection, session_id, inspector.last_seq, _PAGE):
        for row in rows:
            for found in inspector.see(row):
                if isinstance(found, LogDamage):
                    return None
                opened = index.add(found, row.seq)
                if opened is not None:
                    begun.append(opened)
        if len(rows) < _PAGE:
            break
    return None if list(inspector.end(end)) else (index, begun)


def _begin(session_id: SessionId) -> bytes:
    return sha256(b"interlock-turns-1 session\n" + session_id.encode()).digest()


def _row_digest(
    session_id: SessionId, previous: bytes, number: int, first_seq: int, turn_id: TurnId, prompts: int
) -> bytes:
    spelled = f"{session_id}\n{number}\n{first_seq}\n{prompts}\n{turn_id}"
    return sha256(b"interlock-turns-1\n" + previous + spelled.encode()).digest()


def _seal_digest(end: Head, spelled: bytes) -> bytes:
    """The digest of an event covers its session and its number (`chain.link`)."""
    return sha256(b"interlock-turns-1 head\n" + end.digest + spelled).digest()


def _digest_of(connection: apsw.Connection, session_id: SessionId, number: int) -> bytes:
    found = connection.execute("SELECT digest FROM turns WHERE session_id = ? AND number = ?", (session_id, number))
    return next((_bytes(digest) for (digest,) in found), b"")


def _row(columns: Sequence[object]) -> TurnRow:
    number, first_seq, turn_id, prompts, digest = columns
    return TurnRow(_whole(number), _whole(first_seq), TurnId(str(turn_id)), _whole(prompts), _bytes(digest))


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("no number")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("no bytes")
    return value
