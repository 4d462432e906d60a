"""`interlock log repair`: make a damaged log usable again. Rows are moved to quarantine, and none is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, assert_never

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import ForceFlag, HomeOption, JsonFlag, SessionArgument, read_log, use_home, write_log
from interlock.cli.log.stored_sessions import find_session
from interlock.log.port import LogDamage, LogUnavailable
from interlock.log.repair import (
    MakeSummary,
    MoveHead,
    Quarantine,
    RebuildIndex,
    RepairPlan,
    RepairStep,
    apply_repair,
    plan_repair,
)
from interlock.log.sqlite.salvage import salvage as salvaged
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import Anchor, VerifyReport, check_file, parse_anchor, session_ids
from interlock.log.verify import verify as verified
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId

# `interlock log verify`: is everything there, and unchanged? Prints the heads, to be noted elsewhere.


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


def repair(
    session: SessionArgument | None = None,
    /,
    *,
    apply: Annotated[bool, Parameter(negative="", help="Apply the plan. Default: print it.")] = False,
    salvage: Annotated[bool, Parameter(negative="", help="Copy what can still be read to a new file.")] = False,
    force: ForceFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Plan, and with --apply carry out, what can be repaired in one session or in all.

    Exit code 0: nothing is damaged, or all that was planned is done. 9: damage, and nothing was changed. What was lost
    stays lost: `log verify` goes on to say so after a repair. The file that --salvage replaces is kept.
    """
    if salvage:
        if session is not None or apply:
            raise UsageError("--salvage takes the whole file", remedy="run it alone, then `interlock log repair`")
        return use_home(home, partial(_salvage, force=force, json=json))

    async def work(log: SqliteLog) -> int:
        session_id = None if session is None else await find_stored(log, session)
        plan = await plan_repair(log, session_id)
        is_applied = apply and bool(plan.steps) and not plan.needs_salvage
        if is_applied:
            await apply_repair(log, plan)
        if json:
            findings = {"damage": plan.damage, "file": plan.file_findings}
            output.print_json({"is_applied": is_applied, "steps": plan.steps, **findings})
        else:
            _print_plan(plan, is_applied=is_applied)
        is_damaged = bool(plan.damage or plan.needs_salvage)
        return ExitCode.DAMAGED_LOG if is_damaged and not is_applied else ExitCode.COMPLETED

    return write_log(home, work, force=force) if apply else read_log(home, work)


async def _salvage(folder: Path, *, force: bool, json: bool) -> int:
    if not await _is_broken(folder):
        raise UsageError(
            "SQLite can read this file, so there is nothing to salvage", remedy="run `interlock log repair`"
        )
    found = await salvaged(folder, force=force)
    if json:
        output.print_json(found)
    else:
        output.print_text(
            f"salvaged {found.events} events of {found.sessions} sessions; {found.quarantined} rows aside"
        )
        output.note(found.next_action)
    return ExitCode.COMPLETED


async def _is_broken(folder: Path) -> bool:
    try:
        async with await SqliteLog.open(folder, readonly=True) as log:
            return (await plan_repair(log)).needs_salvage
    except LogUnavailable:
        return True


def _print_plan(plan: RepairPlan, *, is_applied: bool) -> None:
    for finding in plan.file_findings:
        output.print_text(f"the file itself: {output.escape(finding)}")
    print_damage(plan.damage)
    if plan.steps:
        output.print_text("\ndone:" if is_applied else "\nthe plan:")
        for step in plan.steps:
            output.print_text(f"  {output.escape(_step(step))}")
    if not is_applied:
        output.note("add --apply to do this; nothing is deleted" if plan.steps else plan.next_action)


def _step(step: RepairStep) -> str:
    match step:
        case Quarantine():
            return f"{step.session_id}: move event {step.seq} to quarantine ({step.reason})"
        case MoveHead():
            return f"{step.session_id}: move the head from event {step.from_version} to {step.version}, which follow"
        case MakeSummary():
            return f"{step.session_id}: make its lost summary anew, up to event {step.version}"
        case RebuildIndex():
            return f"{step.session_id}: rebuild its index of turns ({step.reason})"
        case _:
            assert_never(step)
