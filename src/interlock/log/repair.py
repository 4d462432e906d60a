"""Make a damaged log usable again without hiding what was lost: rows are moved to `quarantine`, never deleted.

Laws:
1. A plan comes first and changes nothing. Applying it is one transaction with a note in `maintenance`; twice is once.
2. No event and no digest is rewritten. A quarantined event stays missing for every reader and for `verify`.
3. The head stays, so new events link on from it. It moves only over rows that provably follow from it; where the
   summary that keeps it is lost, it is made from the last event, and `verify` tells that for ever too.

What SQLite itself cannot read is no matter of rows: `salvage` copies what is left of such a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, TypeAlias, assert_never

import apsw
from msgspec import Struct

from interlock.log.chain import ChainRow, Decoder, link, start
from interlock.log.port import DamageKind, LogDamage
from interlock.log.sqlite import snapshot_table, turn_index
from interlock.log.sqlite.faults import UNREADABLE, rows_of, scan
from interlock.log.sqlite.readers import head_of
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import VerifyReport, check_file, find_hidden, verify
from interlock.vocabulary.errors import MalformedEvent, UsageError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId, is_valid_id

_MOVE: Final = """
INSERT INTO quarantine (at_unix_ms, position, session_id, seq, line, digest, reason)
SELECT (SELECT at_unix_ms FROM maintenance ORDER BY id DESC LIMIT 1), position, session_id, seq, line, digest, ?2
FROM events WHERE position = ?1
"""


class Quarantine(Struct, frozen=True, kw_only=True, tag="quarantine"):
    """Move a row out of the log. Its place stays empty."""

    session_id: SessionId
    seq: int
    position: int
    reason: str


class MoveHead(Struct, frozen=True, kw_only=True, tag="move_head"):
    """Let a head that was left behind catch up with the rows that follow from it."""

    session_id: SessionId
    from_version: int
    version: int
    head: str


class MakeSummary(Struct, frozen=True, kw_only=True, tag="make_summary"):
    """Make the lost summary of a session from its events."""

    session_id: SessionId
    version: int
    head: str
    first_at: str
    last_at: str


class RebuildIndex(Struct, frozen=True, kw_only=True, tag="rebuild_index"):
    """Make the index of turns of a session anew from its events."""

    session_id: SessionId
    reason: str


RepairStep: TypeAlias = Quarantine | MoveHead | MakeSummary | RebuildIndex


class RepairPlan(Struct, frozen=True, kw_only=True):
    """What repair would do, and for which damage. Empty steps with damage: nothing more can be done, the loss stays.

    With `needs_salvage` the file itself is broken (`file_findings`, in SQLite's words), and nothing is done row by row.
    """

    steps: tuple[RepairStep, ...]
    damage: tuple[LogDamage, ...]
    file_findings: tuple[str, ...] = ()

    @property
    def needs_salvage(self) -> bool:
        return bool(self.file_findings)

    @property
    def next_action(self) -> str:
        """The one thing to do now."""
        if self.needs_salvage:
            return "run `interlock log repair --salvage`: it copies what can be read to a new file and keeps this one"
        if self.steps:
            return "run `interlock log repair --apply` to do this; nothing is deleted"
        if self.damage:
            return "nothing more can be repaired here; what is missing may be in an export or a backup"
        return "nothing to do"


async def plan_repair(log: SqliteLog, session_id: SessionId | None = None) -> RepairPlan:
    """Say what would be done to one session or to all. Reads only."""
    findings = await check_file(log)
    checked = [report async for report in verify(log, session_id) if report.damage or report.index_problem]
    reports = [report for report in checked if report.damage]
    indexes = tuple(
        RebuildIndex(session_id=report.session_id, reason=report.index_problem)
        for report in checked
        if report.index_problem
    )
    damage = tuple(found for report in reports for found in report.damage)
    hidden = await log.query(find_hidden) if damage else {}
    if hidden:
        findings = (*findings, f"the index does not lead to {sum(map(len, hidden.values()))} rows of events")
    if findings or not reports:
        return RepairPlan(steps=() if findings else indexes, damage=damage, file_findings=findings)
    steps = await log.query(partial(_plan, reports=reports, decode=log.schema.decode))
    if steps is None:
        return RepairPlan(steps=(), damage=damage, file_findings=("the summary of a session cannot be read",))
    return RepairPlan(steps=(*steps, *indexes), damage=damage)


async def apply_repair(log: SqliteLog, plan: RepairPlan) -> int:
    """Do what is planned, all or nothing, and return how many rows were changed. Needs a log that is open to write."""
    if plan.needs_salvage:
        raise UsageError("the database file itself is damaged", remedy=plan.next_action)
    if not plan.steps:
        return 0
    details: dict[str, Json] = {
        "quarantined": sum(isinstance(step, Quarantine) for step in plan.steps),
        "heads_moved": [step.session_id for step in plan.steps if isinstance(step, MoveHead)],
        "summaries": [step.session_id for step in plan.steps if isinstance(step, MakeSummary)],
    }
    indexes: list[Json] = [step.session_id for step in plan.steps if isinstance(step, RebuildIndex)]
    if indexes:
        details["indexes"] = indexes

    def work(connection: apsw.Connection) -> int:
        changed = sum(_do(connection, step) for step in plan.steps)
        for session_id in {step.session_id: None for step in plan.steps if is_valid_id(step.session_id)}:
            turn_index.rebuild(connection, session_id, log.schema.decode)
            snapshot_table.forget(connection, session_id)
        return changed

    return await log.maintain("repair", details, work)


def _do(connection: apsw.Connection, step: RepairStep) -> int:
    match step:
        case Quarantine():
            connection.execute(_MOVE, (step.position, step.reason))
            connection.execute("DELETE FROM events WHERE position = ?", (step.position,))
        case MoveHead():
            connection.execute(
                "UPDATE sessions SET version = ?, head = ? WHERE session_id = ? AND version = ?",
                (step.version, bytes.fromhex(step.head), step.session_id, step.from_version),
            )
        case MakeSummary():
            connection.execute(
                "INSERT OR IGNORE INTO sessions (session_id, version, head, first_at, last_at) VALUES (?, ?, ?, ?, ?)",
                (step.session_id, step.version, bytes.fromhex(step.head), step.first_at, step.last_at),
            )
        case RebuildIndex():
            return 0  # of every session that is touched, the index is made anew
        case _:
            assert_never(step)
    return connection.changes()


def _plan(connection: apsw.Connection, reports: list[VerifyReport], decode: Decoder) -> tuple[RepairStep, ...] | None:
    """The steps; None where they cannot be told, because a summary that they rest on cannot be read."""
    found: list[RepairStep] = list(_condemn(connection, {report.session_id: report for report in reports}, decode))
    for report in reports:
        if is_valid_id(report.session_id) and not report.archive:  # a file is mended by its backup, and by nothing else
            try:
                found += _mend_head(connection, report, decode)
            except UNREADABLE:
                return None
    steps: dict[int | SessionId, RepairStep] = {}
    for step in found:  # a row may be condemned for two reasons, and is moved once
        steps.setdefault(step.position if isinstance(step, Quarantine) else step.session_id, step)
    return tuple(steps.values())


def _condemn(
    connection: apsw.Connection, reports: dict[SessionId, VerifyReport], decode: Decoder
) -> Iterator[Quarantine]:
    """Rows in the damaged ranges that are not the event that belongs there, and rows of what is no session at all."""
    kept: set[tuple[SessionId, int]] = set()
    for row in scan(connection):
        report = reports.get(row.session_id)
        if report is None:
            continue
        if not is_valid_id(row.session_id):
            yield _quarantine(row, "its session id was changed")
            continue
        reason = _reason(report, row.seq)
        if not reason:
            continue
        place = (row.session_id, row.seq)
        if place in kept or not _belongs(connection, row, decode):
            yield _quarantine(row, reason)
        else:
            kept.add(place)


def _reason(report: VerifyReport, seq: int) -> str:
    for found in report.damage:
        is_there = found.first_seq is not None and found.first_seq <= seq <= (found.last_seq or found.first_seq)
        if is_there and found.kind is not DamageKind.HEAD_MISMATCH:
            return f"{found.kind.value}: {found.message}"
    return ""


def _belongs(connection: apsw.Connection, row: ChainRow, decode: Decoder) -> bool:
    """Whether a row is the event of its place, by its own words and by the digest before it, if that is there."""
    before = [each for each in rows_of(connection, row.session_id, row.seq - 2, 1) if each.seq == row.seq - 1]
    previous = start(row.session_id) if row.seq == 1 else before[0].digest if before else None
    return _event_of(row, decode) is not None and (previous is None or link(previous, row.line) == row.digest)


def _event_of(row: ChainRow, decode: Decoder) -> Event | None:
    try:
        event = decode(row.line, row.schema_version)
    except MalformedEvent:
        return None
    return event if (event.session_id, event.seq) == (row.session_id, row.seq) else None


def _mend_head(connection: apsw.Connection, report: VerifyReport, decode: Decoder) -> Iterator[RepairStep]:
    head, is_purged = head_of(connection, report.session_id)
    if head is None:
        yield from _make_summary(connection, report, decode)
        return
    version, digest = head
    for row in rows_of(connection, report.session_id, 0 if is_purged else version, -1):
        follows = row.seq == version + 1 and link(digest, row.line) == row.digest
        if follows and not is_purged and _event_of(row, decode) is not None:
            version, digest = row.seq, row.digest
        else:
            yield _quarantine(row, "it stands beyond the end of the session")
    if version > head.version:
        yield MoveHead(session_id=report.session_id, from_version=head.version, version=version, head=digest.hex())
    elif not is_purged:
        for row in rows_of(connection, report.session_id, head.version - 1, 1):
            if row.seq == head.version and row.digest != head.digest:
                # Which of the two was changed cannot be told. Both are kept, and new events link on from the head.
                yield _quarantine(row, "it does not match the head of the session: one of them was changed")


def _make_summary(connection: apsw.Connection, report: VerifyReport, decode: Decoder) -> Iterator[MakeSummary]:
    rows = [
        *rows_of(connection, report.session_id, 0, 1),
        *rows_of(connection, report.session_id, report.version - 1, 1),
    ]
    if not rows:
        return
    times = [event.ts.isoformat() for event in (_event_of(row, decode) for row in rows) if event is not None] or [""]
    yield MakeSummary(
        session_id=report.session_id,
        version=report.version,
        head=rows[-1].digest.hex(),
        first_at=times[0],
        last_at=times[-1],
    )


def _quarantine(row: ChainRow, reason: str) -> Quarantine:
    return Quarantine(session_id=row.session_id, seq=row.seq, position=row.position, reason=reason)
