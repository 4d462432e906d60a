"""A log to damage, the same every time, and the ways to damage it from outside."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

import apsw

from interlock.log.chain import link, start
from interlock.log.paths import DATABASE_NAME
from interlock.log.port import LogDamage
from interlock.log.repair import RepairPlan, plan_repair
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import Anchor, VerifyReport, verify
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import A, B, event, run

T = TypeVar("T")
EVENTS: Final = 9
Lines = dict[SessionId, list[bytes]]


async def write(home: Path, sizes: dict[SessionId, list[str]]) -> None:
    async with await SqliteLog.open(home) as log:
        for session_id, texts in sizes.items():
            await log.append(session_id, [event(session_id, text) for text in texts])


def make_home(home: Path) -> Path:
    """Session A with nine events and session B with four."""
    run(write(home, {A: [f"a{n}" for n in range(EVENTS)], B: [f"b{n}" for n in range(4)]}))
    return home


def edit(home: Path, work: Callable[[apsw.Connection], T]) -> T:
    """Change the database behind the log's back, in one transaction."""
    with closing(apsw.Connection(str(home / DATABASE_NAME))) as connection:
        connection.execute("BEGIN")
        result = work(connection)
        connection.execute("COMMIT")
    return result


def sql(home: Path, *statements: str) -> None:
    edit(home, lambda connection: [connection.execute(statement).fetchall() for statement in statements])


def relink(connection: apsw.Connection, session_id: SessionId = A) -> None:
    """Make the chain and the head fit whatever the rows hold now: the work of a careful forger."""
    digest, version = start(session_id), 0
    rows = connection.execute("SELECT position, seq, line FROM events WHERE session_id = ? ORDER BY seq", (session_id,))
    for position, seq, line in rows.fetchall():
        assert isinstance(line, bytes)
        assert isinstance(seq, int)
        digest, version = link(digest, line), seq
        connection.execute("UPDATE events SET digest = ? WHERE position = ?", (digest, position))
    values = (digest, version, session_id)
    connection.execute("UPDATE sessions SET head = ?, version = ? WHERE session_id = ?", values)


def copy_home(home: Path, to: Path) -> Path:
    """A copy as a crash would leave it: the database and its WAL, without the index of the WAL."""
    to.mkdir(mode=0o700)
    for name in (DATABASE_NAME, f"{DATABASE_NAME}-wal"):
        if (home / name).exists():
            shutil.copy(home / name, to / name)
    return to


def reports(home: Path, session_id: SessionId | None = None, anchor: Anchor | None = None) -> list[VerifyReport]:
    async def main() -> list[VerifyReport]:
        anchors = {A: anchor} if anchor is not None else {}
        async with await SqliteLog.open(home, readonly=True) as log:
            return [report async for report in verify(log, session_id, anchors=anchors)]

    return run(main())


def report_of(home: Path, session_id: SessionId = A, anchor: Anchor | None = None) -> VerifyReport:
    (report,) = reports(home, session_id, anchor)
    return report


def plan_of(home: Path, session_id: SessionId | None = None) -> RepairPlan:
    async def main() -> RepairPlan:
        async with await SqliteLog.open(home, readonly=True) as log:
            return await plan_repair(log, session_id)

    return run(main())


def lines_of(home: Path) -> Lines:
    """Every sound event as its line, by session."""

    async def main() -> Lines:
        async with await SqliteLog.open(home, readonly=True) as log:
            page = await log.sessions()
            return {
                one.session_id: [encode_event(each) for each in (await log.read(one.session_id)).events]
                for one in page.sessions
            }

    return run(main())


def found(damage: Iterable[LogDamage]) -> set[tuple[str, int | None, int | None]]:
    return {(one.kind.value, one.first_seq, one.last_seq) for one in damage}
