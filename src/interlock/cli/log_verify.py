"""`interlock log verify`: is everything there, and unchanged? Prints the heads, to be noted elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, SessionArgument, read_log
from interlock.cli.sessions import find_session
from interlock.log.port import LogDamage
from interlock.log.sqlite import SqliteLog
from interlock.log.verify import Anchor, VerifyReport, check_file, parse_anchor, session_ids
from interlock.log.verify import verify as verified
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId


def verify(
    session: SessionArgument | None = None,
    /,
    *,
    anchor: Annotated[str, Parameter(help="VERSION:HEAD as an earlier verify printed it.")] = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Check the chain of one session, or of all sessions and the file itself. Exit code 9 if anything is damaged.

    A cut tail with a matching head, or a rewrite of the whole chain, looks sound by itself. An anchor that was noted
    where nobody who writes to the log can change it shows both.
    """
    if anchor and session is None:
        raise UsageError("an anchor belongs to one session", remedy="name the session as well")
    noted = parse_anchor(anchor) if anchor else None

    async def work(log: SqliteLog) -> int:
        session_id = None if session is None else await find_stored(log, session)
        faults = await check_file(log) if session_id is None else ()
        anchors = {session_id: noted} if session_id is not None and noted is not None else {}
        reports = [report async for report in verified(log, session_id, anchors=anchors)]
        is_sound = not faults and all(report.sound for report in reports)
        if json:
            output.print_json({"sound": is_sound, "file": faults, "sessions": reports})
        else:
            _print_reports(reports, faults)
        return ExitCode.COMPLETED if is_sound else ExitCode.DAMAGED_LOG

    return read_log(home, work)


async def find_stored(log: SqliteLog, named: str) -> SessionId:
    """As `find_session`, but also a tombstone, and a session of which only events are left."""
    try:
        return (await find_session(log, named, with_purged=True)).session_id
    except UsageError:
        if named in await log.query(session_ids):
            return SessionId(named)
        raise


def _print_reports(reports: Sequence[VerifyReport], faults: tuple[str, ...]) -> None:
    rows = [(one.session_id, _verdict(one), str(one.events_checked), _anchor(one.anchor)) for one in reports]
    if rows:
        output.print_table(("SESSION", "CHAIN", "EVENTS", "ANCHOR"), rows)
    for fault in faults:
        output.print_text(f"the file itself: {output.escape(fault)}")
    damage = [damage for report in reports for damage in report.damage]
    if damage:
        output.print_text("")
        print_damage(damage)
    for report in reports:
        if report.index_problem:
            output.note(
                f"{output.escape(report.session_id)}: {report.index_problem}; run `interlock log repair --apply`"
            )


def _verdict(report: VerifyReport) -> str:
    verdict = "sound" if report.sound else "damaged"
    if report.is_purged:
        verdict += ", purged"
    return {True: f"{verdict}, anchored", False: f"{verdict}, not as anchored", None: verdict}[report.is_anchored]


def _anchor(anchor: Anchor) -> str:
    return str(anchor) if anchor.head else "unknown"


def print_damage(damage: Iterable[LogDamage]) -> None:
    """A table of what cannot be trusted; nothing where nothing is."""
    rows = [(one.session_id, _span(one), one.kind.value, one.message) for one in damage]
    if rows:
        output.print_table(("SESSION", "EVENT", "DAMAGE", "FOUND"), rows)


def _span(damage: LogDamage) -> str:
    if damage.first_seq is None:
        return ""
    is_one = damage.last_seq in (None, damage.first_seq)
    return str(damage.first_seq) if is_one else f"{damage.first_seq}..{damage.last_seq}"
