"""Look at everything that is stored of a session, and say what is sound and what is not, by sequence number.

The chain shows a changed, missing, doubled or moved event and a head that does not fit. A cut tail with a matching
head, or a rewrite of the whole chain, looks whole by itself: only an `Anchor`, noted elsewhere earlier, shows that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import apsw
from msgspec import Struct, structs

from interlock.log.archive.reading import ArchiveFault, archived, file_problem, folder_of
from interlock.log.chain import ChainRow, Decoder, Head, Inspector, damage, link
from interlock.log.port import DamageKind, LogDamage
from interlock.log.sqlite import turn_index
from interlock.log.sqlite.faults import UNREADABLE, rows_of, scan
from interlock.log.sqlite.readers import head_of
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.errors import MalformedEvent, UsageError
from interlock.vocabulary.ids import SessionId, is_valid_id

PAGE: Final = 200
_FIRST: Final = -(2**63)
_REPAIR: Final = NextAction(NextActionKind.INSPECT_LOG, "interlock log repair")

_IDS: Final = (
    "SELECT CAST(session_id AS BLOB) FROM sessions",
    "SELECT DISTINCT CAST(session_id AS BLOB) FROM events",
)
_TWICE: Final = "SELECT seq, count(*) FROM events WHERE session_id = ? GROUP BY seq HAVING count(*) > 1"
_QUARANTINED: Final = "SELECT count(DISTINCT seq) FROM quarantine WHERE session_id = ? AND seq BETWEEN ? AND ?"
_QUARANTINED_DIGESTS: Final = "SELECT digest FROM quarantine WHERE session_id = ? AND seq = ?"
# Summaries that repair had to make from the events alone; `repair` says so in its note.
_REMADE: Final = """
SELECT count(*) FROM maintenance, json_each(maintenance.details, '$.summaries') AS made
WHERE action = 'repair' AND made.value = ?
"""
# Rows that stand in the table but that its index does not lead to: no read finds them.
_HIDDEN: Final = """
SELECT CAST(e.session_id AS BLOB), e.seq FROM events AS e NOT INDEXED WHERE NOT EXISTS (
  SELECT 1 FROM events AS i INDEXED BY sqlite_autoindex_events_1
  WHERE i.session_id = e.session_id AND i.seq = e.seq AND i.position = e.position)
"""


class Anchor(NamedTuple):
    """The version and the head that a session had once, noted where whoever can write to the log cannot."""

    version: int
    head: str

    def __str__(self) -> str:
        return f"{self.version}:{self.head}"


def parse_anchor(text: str) -> Anchor:
    """Read `VERSION:HEAD` as a report prints it."""
    version, _, head = text.strip().partition(":")
    try:
        if int(version) < 1 or len(bytes.fromhex(head)) != len(link(b"", b"")):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"{text!r} is not an anchor", remedy="give VERSION:HEAD as `interlock log verify` printed it"
        ) from None
    return Anchor(int(version), head.lower())


class VerifyReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is true of one session. Sound: everything up to its head is there, and every event follows from the last.

    `is_anchored` tells whether the given anchor is a state that this log passed through; None: no anchor was given, or
    it cannot be told, because events up to it were purged or are damaged. A hole that repair left stays a damage.
    `archive` is the file that its events were moved to.
    `index_problem` is why its index of turns cannot be used. It is a cache: reading is slower, and no less sound.
    """

    session_id: SessionId
    version: int
    head: str
    sound: bool
    events_checked: int
    damage: tuple[LogDamage, ...] = ()
    is_purged: bool = False
    is_anchored: bool | None = None
    index_problem: str = ""
    archive: str = ""

    @property
    def anchor(self) -> Anchor:
        """What to note elsewhere, so that a later verify can tell a cut tail or a rewrite."""
        return Anchor(self.version, self.head)


async def verify(
    log: SqliteLog, session_id: SessionId | None = None, *, anchors: Mapping[SessionId, Anchor] | None = None
) -> AsyncGenerator[VerifyReport, None]:
    """Check one session, or all of them in the order of their ids. Rows are read in pages; nothing is changed.

    Also sessions that have events but no summary, or a summary but no events, are found. One that the log does not know
    at all is a `UsageError`, unless an anchor says that it was there.
    """
    anchors = anchors or {}
    hidden: Hidden = {}
    if session_id is None:
        hidden = await log.query(find_hidden)
        ids = sorted({*await log.query(session_ids), *anchors})
    else:
        ids = [session_id]
    for each in ids:
        report = await _verify_one(log, each, anchors.get(each), hidden.get(each, []) if session_id is None else None)
        if report.version or report.damage:
            yield report
        elif session_id is None:
            yield _misnamed(report)
        else:
            raise UsageError(f"there is no session {each!r}", remedy="list them with `interlock log ls`")


def _misnamed(report: VerifyReport) -> VerifyReport:
    """Something stands under a name by which it cannot be asked for: the name itself is damaged."""
    found = damage(DamageKind.UNREADABLE, report.session_id, "the name of the session was changed in some of its rows")
    return structs.replace(report, sound=False, damage=(structs.replace(found, next_actions=(_REPAIR,)),))


async def check_file(log: SqliteLog) -> tuple[str, ...]:
    """What SQLite itself finds wrong with the file, in its own words; nothing if it is well formed."""
    return await log.query(_check_file)


def _check_file(connection: apsw.Connection) -> tuple[str, ...]:
    try:
        found = tuple(str(text) for (text,) in connection.execute("PRAGMA integrity_check"))
    except UNREADABLE as error:
        return (str(error),)
    return () if found == ("ok",) else found


Hidden = dict[SessionId, list[int]]


def find_hidden(connection: apsw.Connection) -> Hidden:
    """The sequence numbers, by session, of rows that the index does not lead to."""
    found: Hidden = defaultdict(list)
    try:
        for key, seq in connection.execute(_HIDDEN):
            if isinstance(seq, int):
                found[_text(key)].append(seq)
    except (*UNREADABLE, apsw.SQLError):  # a lost page is told elsewhere; without an index nothing is hidden by it
        pass
    return found


def session_ids(connection: apsw.Connection) -> set[SessionId]:
    """Every session that has a summary or an event, also where tables are damaged."""
    found: set[SessionId] = set()
    for sql in _IDS:
        try:
            found.update(_text(key) for (key,) in connection.execute(sql))
        except UNREADABLE:
            found.update(row.session_id for row in scan(connection))
    return found


def _text(key: object) -> SessionId:
    return SessionId(key.decode("utf-8", "replace") if isinstance(key, bytes) else "")


async def _verify_one(
    log: SqliteLog, session_id: SessionId, anchor: Anchor | None, hidden: list[int] | None
) -> VerifyReport:
    examination = Examination(session_id, log.schema.decode, anchor)
    while not await log.query(examination.page):
        pass
    if hidden is None and examination.damage:
        hidden = (await log.query(find_hidden)).get(session_id)
    return await log.query(partial(examination.report, hidden=hidden or []))


class Examination:
    """A walk over one session, page by page, that collects what is damaged. Neighbours of one kind become a range."""

    def __init__(self, session_id: SessionId, decode: Decoder, anchor: Anchor | None = None) -> None:
        self.session_id = session_id
        self.damage: list[LogDamage] = []
        self._decode = decode
        self._anchor = anchor
        self._anchored: str | None = None
        self._inspector = Inspector(session_id, decode)
        self._head: Head | None = None
        self._is_purged = False
        self._cursor = _FIRST
        self._beyond: list[int] = []
        self._checked = 0

    def page(self, connection: apsw.Connection) -> bool:
        """Look at the next rows; return whether these were the last."""
        try:
            self._head, self._is_purged = head_of(connection, self.session_id)
        except UNREADABLE:
            self._head, self._is_purged = None, False
        try:
            rows = rows_of(connection, self.session_id, self._cursor, PAGE)
        except ArchiveFault as fault:
            for row in fault.rows:
                self._see(connection, row)
            self._add(DamageKind.UNREADABLE, str(fault), max(fault.first_seq, self._cursor + 1), fault.last_seq)
            list(self._inspector.skip_to(fault.last_seq))
            self._cursor = fault.last_seq
            return self._head is None or fault.last_seq >= self._head.version
        for row in rows:
            self._cursor = max(self._cursor, row.seq)
            if self._head is None or (row.seq <= self._head.version and not self._is_purged):
                self._see(connection, row)
            elif moved := self._moved(connection, row):
                self._keep(moved)
            else:
                self._beyond = [*self._beyond[:1], row.seq]
        return len(rows) < PAGE

    def report(self, connection: apsw.Connection, hidden: list[int]) -> VerifyReport:
        """Say what was found, once the last page was seen."""
        self._end(connection)
        tombstone = archived(connection, self.session_id)
        if tombstone is not None and self._is_purged:
            self._add(DamageKind.HEAD_MISMATCH, "it was purged, and its archive file may be left; purge it again")
        if tombstone is not None and not self.damage and (problem := file_problem(folder_of(connection), tombstone)):
            self._add(DamageKind.CHANGED, problem)
        for seq in self._twice(connection):
            self._add(DamageKind.DUPLICATED, "more than one row has this number", seq)
        for seq in sorted(hidden):
            is_known = any(row.seq == seq for row in rows_of(connection, self.session_id, seq - 1, 1))
            kind = DamageKind.DUPLICATED if is_known else DamageKind.MISSING
            self._add(kind, "there is a row to which the index does not lead", seq)
        if self._was_remade(connection):
            message = "repair made its summary anew from its events; whether more came after them then is not known"
            self._add(DamageKind.HEAD_MISMATCH, message)
        is_anchored = self._check_anchor()
        head = self._head or Head(self._inspector.last_seq, b"")
        return VerifyReport(
            session_id=self.session_id,
            version=head.version,
            head=head.digest.hex(),
            sound=not self.damage,
            events_checked=self._checked,
            damage=tuple(self.damage),
            is_purged=self._is_purged,
            is_anchored=is_anchored,
            index_problem=self._index_problem(connection),
            archive="" if tombstone is None else tombstone.file,
        )

    def _index_problem(self, connection: apsw.Connection) -> str:
        """A session that is damaged has no index, and that is as it should be."""
        if self.damage or self._is_purged or self._head is None or not is_valid_id(self.session_id):
            return ""
        return turn_index.problem_of(connection, self.session_id, self._head)

    def _see(self, connection: apsw.Connection, row: ChainRow) -> None:
        if row.seq < 1:
            self._add(DamageKind.CHANGED, "sequence numbers count from 1", row.seq)
        if self._anchor is not None and row.seq == self._anchor.version:
            self._anchored = row.digest.hex()
        for found in self._inspector.see(row):
            if not isinstance(found, LogDamage):
                self._checked += 1
            elif found.kind is DamageKind.MISSING:
                self._keep(self._explained(connection, found, row))
            else:
                self._keep(self._moved(connection, row) or found)

    def _end(self, connection: apsw.Connection) -> None:
        if self._beyond:
            first, last = self._beyond[0], self._beyond[-1]
            what = "was purged" if self._is_purged else f"has a head that says version {self._head and self._head[0]}"
            self._add(DamageKind.HEAD_MISMATCH, f"the session {what}, and there are events beyond it", first, last)
        if self._is_purged:
            return
        if self._head is not None:
            for found in self._inspector.end(self._head):
                self._keep(self._explained(connection, found, None) if found.kind is DamageKind.MISSING else found)
        elif self._inspector.last_seq:
            self._add(DamageKind.HEAD_MISMATCH, "it has events, and no summary that keeps its head")

    def _explained(self, connection: apsw.Connection, hole: LogDamage, after: ChainRow | None) -> LogDamage:
        """A hole, with how much of it is in quarantine, and whether the event after it can be proven all the same."""
        message = hole.message
        try:
            values = (self.session_id, hole.first_seq, hole.last_seq)
            ((count,),) = connection.execute(_QUARANTINED, values)
            digests = connection.execute(_QUARANTINED_DIGESTS, (self.session_id, hole.last_seq)).fetchall()
        except UNREADABLE:
            count, digests = 0, []
        if count:
            message += f"; {count} of them in quarantine"
        if after is not None and not any(
            isinstance(digest, bytes) and link(digest, after.line) == after.digest for (digest,) in digests
        ):
            message += f"; event {after.seq} after it cannot be proven unchanged"
        return structs.replace(hole, message=message)

    def _moved(self, connection: apsw.Connection, row: ChainRow) -> LogDamage | None:
        """Whether a damaged row holds an event of this session that belongs elsewhere, or that stands there as well."""
        try:
            event = self._decode(row.line, row.schema_version)
        except MalformedEvent:
            return None
        if event.session_id != self.session_id or event.seq is None or event.seq == row.seq:
            return None
        there = rows_of(connection, self.session_id, event.seq - 1, 1)
        is_copy = any(other.seq == event.seq and other.line == row.line for other in there)
        kind = DamageKind.DUPLICATED if is_copy else DamageKind.REORDERED
        message = f"row {row.seq} holds event {event.seq}{', which stands in its place as well' if is_copy else ''}"
        return damage(kind, self.session_id, message, row.seq)

    def _twice(self, connection: apsw.Connection) -> Iterator[int]:
        try:
            for seq, _ in connection.execute(_TWICE, (self.session_id,)):
                if isinstance(seq, int):
                    yield seq
        except UNREADABLE:  # the rows around a lost page were searched one by one
            return

    def _was_remade(self, connection: apsw.Connection) -> bool:
        try:
            return connection.execute(_REMADE, (self.session_id,)).fetchall() != [(0,)]
        except (*UNREADABLE, apsw.SQLError):
            return False

    def _check_anchor(self) -> bool | None:
        """Whether the log passed through the anchored state; if not, what became of it is a damage."""
        if self._anchor is None:
            return None
        version, head = self._anchor
        last = self._head.version if self._head is not None else self._inspector.last_seq
        digest = self._anchored
        if self._head is not None and version == last and (self._is_purged or digest is None):
            digest = self._head.digest.hex()
        if digest is None and version <= last:
            return None
        if digest == head:
            # A digest vouches for what it follows from, and for nothing on the other side of a break.
            is_broken = any(one.first_seq is not None and one.first_seq <= version for one in self.damage)
            return None if is_broken else True
        became = f"the log ends at {last}" if version > last else "another digest stands there"
        what = "its tail was cut" if version > last else "it was rewritten at or before that event"
        self._add(DamageKind.HEAD_MISMATCH, f"the anchor is version {version}, and {became}: {what}", version)
        return False

    def _add(self, kind: DamageKind, message: str, first: int | None = None, last: int | None = None) -> None:
        self._keep(damage(kind, self.session_id, message, first, last))

    def _keep(self, found: LogDamage) -> None:
        if not is_valid_id(self.session_id):  # nothing that a shell could misread
            found = structs.replace(found, next_actions=(_REPAIR,))
        last = self.damage[-1] if self.damage else None
        if (
            last is not None
            and last.kind is found.kind
            and last.last_seq is not None
            and found.first_seq == last.last_seq + 1
        ):
            self.damage[-1] = structs.replace(last, last_seq=found.last_seq)
        else:
            self.damage.append(found)
