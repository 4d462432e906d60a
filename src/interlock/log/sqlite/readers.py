"""Reading the database, in threads: pages of sound events and findings, and summaries of sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final, TypeVar

import apsw

from interlock.log.archive.reading import ArchiveFault, archived_files
from interlock.log.chain import Decoder, Head, Inspector, damage, start
from interlock.log.port import (
    Committed,
    DamageKind,
    Followed,
    LogDamage,
    SessionSummary,
    Slice,
    TurnSlice,
    without_damaged,
)
from interlock.log.sqlite import turn_index
from interlock.log.sqlite.faults import UNREADABLE, rows_after, rows_of, scan, top_position, unavailable
from interlock.log.sqlite.schema import Work, disconnect, is_cut
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, is_valid_id

T = TypeVar("T")
THREADS: Final = 4
READ_PAGE: Final = 2000
MAX_INSPECTORS: Final = 1024

_SUMMARY: Final = "SELECT CAST(session_id AS BLOB), version, head, first_at, last_at, is_purged FROM sessions"


class Readers:
    """A few threads, each with a connection of its own while it reads."""

    def __init__(self, connect: Callable[[], apsw.Connection], path: str) -> None:
        self._connect = connect
        self._path = path
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="interlock-log-reader")
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._is_closed = False

    async def run(self, work: Work[T]) -> T:
        """Do `work` in one snapshot of the database. A fault of the database is a `LogUnavailable`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._use, work)

    def close(self) -> None:
        """Let go of every connection; one that is in use goes when its read ends."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            disconnect(connection)
        self._threads.shutdown(wait=False)

    def _use(self, work: Work[T]) -> T:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._connect()
            with _snapshot(connection):
                result = work(connection)
        except apsw.Error as error:
            if connection is not None:
                disconnect(connection)
            raise unavailable(error, self._path) from error
        except BaseException:
            self._give_back(connection)
            raise
        self._give_back(connection)
        return result

    def _give_back(self, connection: apsw.Connection | None) -> None:
        if connection is None:
            return
        with self._lock:
            if not self._is_closed:
                self._idle.append(connection)
                return
        disconnect(connection)


@contextmanager
def _snapshot(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class Walk:
    """A walk over one session, page by page, from after a `seq`."""

    def __init__(self, session_id: SessionId, decode: Decoder, after: int) -> None:
        self.session_id = session_id
        self.version = 0
        self._decode = decode
        self._cursor = after
        self._inspector: Inspector | None = None
        self._is_head_told = False

    def page(self, connection: apsw.Connection, limit: int) -> tuple[list[Followed], bool]:
        """What the next `limit` rows hold, and whether these were the last for now."""
        inspector = self._inspector = self._inspector or anchored(
            connection, self.session_id, self._decode, self._cursor
        )
        found: list[Followed] = []
        try:
            head, is_purged = head_of(connection, self.session_id)
        except UNREADABLE:
            return self._page_without_head(connection, inspector, limit)
        try:
            rows = [] if is_purged else rows_of(connection, self.session_id, self._cursor, limit)
        except ArchiveFault as fault:
            return self._page_of_lost_file(inspector, fault, head)
        for row in rows:
            if head is None or row.seq <= head.version:
                found += inspector.see(row)
                self._cursor = max(self._cursor, row.seq)
        is_last = len(rows) < limit or (head is not None and rows[-1].seq > head.version)
        # Rows and summary are of one snapshot: what stands beyond the head was committed, and the head set back.
        if head is not None and rows and rows[-1].seq > head.version and not self._is_head_told:
            self._is_head_told = True
            message = f"its head says version {head.version}, and there are events beyond it"
            found.append(damage(DamageKind.HEAD_MISMATCH, self.session_id, message, head.version + 1, rows[-1].seq))
        if is_last and not is_purged:
            found += inspector.end(head or Head(0, start(self.session_id)))
        self._cursor = max(self._cursor, inspector.last_seq)
        self.version = inspector.seen_seq if head is None else head.version
        return found, is_last

    def _page_of_lost_file(
        self, inspector: Inspector, fault: ArchiveFault, head: Head | None
    ) -> tuple[list[Followed], bool]:
        """What an archive file should hold and does not give, as one finding."""
        found = [item for row in fault.rows for item in inspector.see(row)]
        first = max(fault.first_seq, self._cursor + 1)
        list(inspector.skip_to(fault.last_seq))
        self._cursor = fault.last_seq
        self.version = fault.last_seq if head is None else head.version
        found.append(damage(DamageKind.UNREADABLE, self.session_id, str(fault), first, fault.last_seq))
        return found, fault.last_seq >= self.version

    def _page_without_head(
        self, connection: apsw.Connection, inspector: Inspector, limit: int
    ) -> tuple[list[Followed], bool]:
        """The rows that are there, and once the finding that there may be more: what cannot be read is not empty."""
        rows = rows_of(connection, self.session_id, self._cursor, limit)
        found = [item for row in rows for item in inspector.see(row)]
        self._cursor = max(self._cursor, inspector.last_seq, *(row.seq for row in rows))
        self.version = inspector.seen_seq
        is_last = len(rows) < limit
        if is_last and not self._is_head_told:
            self._is_head_told = True
            message = "its summary cannot be read, so it is not known where it ends"
            found.append(damage(DamageKind.UNREADABLE, self.session_id, message))
        return found, is_last


class WalkAll:
    """A walk over all sessions in the order of their commits, page by page, from after a position."""

    def __init__(self, decode: Decoder, after: int) -> None:
        self._decode = decode
        self._cursor = after
        self._inspectors: dict[SessionId, Inspector] = {}

    def page(self, connection: apsw.Connection, limit: int) -> list[Committed | LogDamage]:
        """What the next `limit` rows hold; nothing if there are none for now."""
        top = top_position(connection)
        found: list[Committed | LogDamage] = []
        while not found:
            rows = [row for row in rows_after(connection, self._cursor, limit) if self._cursor < row.position <= top]
            if not rows:
                break
            for row in rows:
                self._cursor = max(self._cursor, row.position)
                if is_valid_id(row.session_id):
                    seen = self._inspector(connection, row.session_id, row.seq - 1).see(row)
                    found += (Committed(row.position, item) if isinstance(item, Event) else item for item in seen)
        return found

    def _inspector(self, connection: apsw.Connection, session_id: SessionId, after: int) -> Inspector:
        if session_id not in self._inspectors:
            if len(self._inspectors) == MAX_INSPECTORS:
                self._inspectors.clear()
            self._inspectors[session_id] = anchored(connection, session_id, self._decode, after)
        return self._inspectors[session_id]


def anchored(connection: apsw.Connection, session_id: SessionId, decode: Decoder, after: int) -> Inspector:
    """An inspector that stands after a `seq`, and knows what the next digest must follow from."""
    inspector = Inspector(session_id, decode, after=max(after - 2, 0))
    if after > 0:
        with suppress(ArchiveFault):  # who reads on is told
            for row in rows_of(connection, session_id, inspector.last_seq, 2):
                if row.seq <= after:
                    list(inspector.see(row))
        list(inspector.skip_to(after))
    return inspector


def read_slice(
    connection: apsw.Connection,
    session_id: SessionId,
    decode: Decoder,
    after: int,
    limit: int | None,
    count: Callable[[int], None] | None = None,
) -> Slice:
    """Sound events until there are `limit` of them, and the damage that was passed on the way. `count` is told of each
    page how much it held."""
    walk = Walk(session_id, decode, after)
    events: list[Event] = []
    damages: list[LogDamage] = []
    is_last = False
    while not is_last and (limit is None or len(events) < limit):
        found, is_last = walk.page(connection, READ_PAGE if limit is None else min(READ_PAGE, limit - len(events)))
        if count is not None:
            count(len(found))
        for item in found:
            (damages if isinstance(item, LogDamage) else events).append(item)  # type: ignore[arg-type]
    return Slice(events=without_damaged(events[:limit], damages), version=walk.version, damage=tuple(damages))


def read_turns(connection: apsw.Connection, session_id: SessionId, decode: Decoder, last: int) -> TurnSlice:
    """The last turns by the index. The whole session where the index or what it points to is in any doubt."""
    try:
        by_index = _read_by_index(connection, session_id, decode, last)
    except turn_index.BROKEN:
        by_index = None
    return by_index or turn_index.whole_slice(read_slice(connection, session_id, decode, 0, None))


def _read_by_index(connection: apsw.Connection, session_id: SessionId, decode: Decoder, last: int) -> TurnSlice | None:
    end, is_purged = head_of(connection, session_id)
    head = None if end is None or is_purged else turn_index.load_head(connection, session_id, end)
    known = None if head is None else turn_index.last_rows(connection, session_id, head, last + 1)
    if head is None or not known:
        return None
    rows = known[-last:]
    found = read_slice(connection, session_id, decode, rows[0].first_seq - 1, None)
    process = [read_slice(connection, session_id, decode, seq - 1, 1) for seq in (head.started, head.exited) if seq]
    if any(part.damage or not part.events for part in (found, *process)):
        return None
    if not isinstance(found.events[0].data, UserMessage):
        # Without its prompt a turn is unknown where events are lost between the turn before it and its own.
        before = known[0].first_seq - 1 if len(known) > last else 0
        count = rows[0].first_seq - 1 - before
        if count and read_slice(connection, session_id, decode, before, count).damage:
            return None
    return turn_index.turn_slice(rows, found, tuple(part.events[0] for part in process))


def head_of(connection: apsw.Connection, session_id: SessionId) -> tuple[Head | None, bool]:
    """Where a session ends by its summary, if it has one, and whether it was purged."""
    sql = "SELECT version, head, is_purged FROM sessions WHERE session_id = ?"
    try:
        found = connection.execute(sql, (session_id,)).fetchall()
    except UnicodeDecodeError as error:  # a value whose type was changed
        raise apsw.CorruptError(f"the summary of session {session_id} is mangled") from error
    for version, head, is_purged in found:
        if not (isinstance(version, int) and isinstance(head, bytes)):
            raise apsw.CorruptError(f"the summary of session {session_id} is mangled")
        return Head(version, head), bool(is_purged)
    if is_cut(connection):
        raise apsw.CorruptError("the file was cut, and this session may have been in what is lost")
    return None, False


def count_events(connection: apsw.Connection) -> int:
    """By the summaries; 0 where they cannot be read."""
    try:
        ((count,),) = connection.execute("SELECT sum(version) FROM sessions WHERE is_purged = 0").fetchall()
    except UNREADABLE:
        return 0
    return count if isinstance(count, int) else 0


def summaries(connection: apsw.Connection, prefix: str, after: str, limit: int) -> list[SessionSummary]:
    """The next `limit` sessions by id. Where their table is damaged, what is lost is told from the events instead."""
    bounds = (after, prefix, f"{prefix}\x7f")  # ids are ASCII, so DEL ends every prefix
    where = "WHERE session_id > ? AND session_id >= ? AND session_id < ?"
    try:
        found = connection.execute(f"{_SUMMARY} {where} ORDER BY session_id LIMIT ?", (*bounds, limit)).fetchall()
        ids = [_text(columns[0]) for columns in found]
        files = archived_files(connection, ids[0], ids[-1]) if ids else {}
        return [_summary(files, *columns) for columns in found]
    except UNREADABLE:
        ids = sorted({row.session_id for row in scan(connection)})
        wanted = (key for key in ids if is_valid_id(key) and key > after and key.startswith(prefix))
        return [summary_of(connection, session_id) for session_id in list(wanted)[:limit]]


def summary_of(connection: apsw.Connection, session_id: SessionId) -> SessionSummary:
    try:
        for columns in connection.execute(f"{_SUMMARY} WHERE session_id = ?", (session_id,)):
            return _summary(archived_files(connection, session_id, session_id), *columns)
    except UNREADABLE:
        pass
    rows = rows_of(connection, session_id, 0, -1)
    return SessionSummary(session_id=session_id, version=rows[-1].seq, head=rows[-1].digest.hex())


def _summary(
    files: Mapping[str, str],
    key: object,
    version: object,
    head: object,
    first_at: object,
    last_at: object,
    is_purged: object,
) -> SessionSummary:
    session_id = _text(key)
    return SessionSummary(
        session_id=session_id,
        version=version if isinstance(version, int) else 0,
        head=head.hex() if isinstance(head, bytes) else "",
        first_at=_moment(first_at),
        last_at=_moment(last_at),
        is_purged=bool(is_purged),
        archive=files.get(session_id, ""),
    )


def _text(key: object) -> SessionId:
    return SessionId(key.decode("utf-8", "replace") if isinstance(key, bytes) else "")


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
