"""`interlock log repair`: make a damaged log usable again. Rows are moved to quarantine, and none is deleted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, assert_never

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import ForceFlag, HomeOption, JsonFlag, SessionArgument, read_log, use_home, write_log
from interlock.cli.log_verify import find_stored, print_damage
from interlock.log.port import LogUnavailable
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
from interlock.log.salvage import salvage as salvaged
from interlock.log.sqlite import SqliteLog
from interlock.vocabulary.errors import UsageError


def repair(
    session: SessionArgument | None = None,
    /,
    *,
    apply: Annotated[bool, Parameter(negative="", help="Do it. Without this the plan is printed.")] = False,
    salvage: Annotated[bool, Parameter(negative="", help="Copy what a broken file still holds to a new one.")] = False,
    force: ForceFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Plan, and with --apply carry out, what can be mended in one session or in all.

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
