"""`interlock session fork`, `compact` and `rm`: what writes to a session. Each takes the writer lease, or refuses."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import (
    DryRunFlag,
    ForceFlag,
    HomeOption,
    JsonFlag,
    SessionArgument,
    Work,
    YesFlag,
    read_log,
    tell_damage,
    write_log,
)
from interlock.cli.log.stored_sessions import as_number, find_session
from interlock.lifecycle.turns import fold_turns
from interlock.log.port import Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.replay.compaction import NothingToCompact, NothingToDo, plan_compaction, summarise
from interlock.projections.replay.fork import ForkPlan, fork_points, plan_fork
from interlock.projections.replay.provider_input import provider_items
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.ids import EventId, new_event_id, new_session_id


def fork(
    session: SessionArgument,
    /,
    *,
    at: str = "",
    summarize: Annotated[bool, Parameter(negative="")] = False,
    dry_run: DryRunFlag = False,
    force: ForceFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Begin a new session that a model reads as the old one up to the end of a turn. The old one is left as it is.

    Parameters
    ----------
    at
        The turn after which to cut, by its id, or the sequence number of the last event to copy. Default: the last
        place where it can be cut.
    summarize
        Tell the model in the new session, by a summary, what the old one did after the cut.
    """

    async def work(log: SqliteLog) -> int:
        found = await log.read((await find_session(log, session)).session_id)
        at_seq = _place(found, at)
        if tell_damage(one for one in found.damage if (one.first_seq or 0) <= at_seq):
            return _refuse_damaged(found)
        plan = plan_fork(
            found.events,
            at_seq=at_seq,
            child_session_id=new_session_id(_unix_ms(), secrets.token_bytes(10)),
            ids=_event_ids(),
            at=datetime.now(UTC),
            branch_summary=_branch_summary(found, at_seq) if summarize else "",
        )
        child = plan.events[0].session_id
        if not dry_run:
            await log.append(child, plan.events, expected_version=0)
        _print_fork(plan, dry_run=dry_run, json=json)
        return ExitCode.COMPLETED

    return _reads_or_writes(home, work, dry_run=dry_run, force=force)


def _place(found: Slice, at: str) -> int:
    if not at:
        points = fork_points(found.events)
        if not points:
            raise UsageError("no turn of this session has ended", remedy="fork it once its first turn has")
        return points[-1]
    turns = {turn_id: turn for (_, turn_id), turn in fold_turns(found.events).turns.items()}
    named = next((turn for turn_id, turn in turns.items() if turn_id == at), None)
    if named is not None:
        return named.last_seq or 0
    number = as_number(at)
    if number is not None:
        return number
    remedy = "`interlock debug turns SESSION` lists them; a sequence number is taken as well"
    raise UsageError(f"the session has no turn {at!r}", remedy=remedy)


def _branch_summary(found: Slice, at_seq: int) -> str:
    later = [event for event in found.events if (event.seq or 0) > at_seq]
    text, _ = summarise(provider_items(later))
    if not text:
        raise UsageError(f"there is nothing to tell of what follows event {at_seq}", remedy="fork without --summarize")
    return text


def _print_fork(plan: ForkPlan, *, dry_run: bool, json: bool) -> None:
    child = plan.events[0].session_id
    if json:
        answer = {"parent_session_id": plan.parent_session_id, "at_seq": plan.at_seq, "copied": plan.copied}
        output.print_json({**answer, "left_out": plan.left_out, "session_id": None if dry_run else child})
        return
    what = f"{plan.parent_session_id} after event {plan.at_seq}: {plan.copied} events copied, {plan.left_out} left out"
    output.print_text(f"would fork {what}" if dry_run else f"{child}\nforked from {what}")


def compact(
    session: SessionArgument,
    /,
    *,
    keep_turns: int = 4,
    dry_run: DryRunFlag = False,
    force: ForceFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Append a summary that stands for older turns when a model is given the session. No event is taken away.

    Exit code 0 also if there is nothing to do; 1 if an open turn is in the way.

    Parameters
    ----------
    keep_turns
        How many turns, counted from the last, stay as they are.
    """
    if keep_turns < 1:
        raise UsageError(f"--keep-turns {keep_turns} keeps no turn", remedy="give 1 or more")

    async def work(log: SqliteLog) -> int:
        found = await log.read((await find_session(log, session)).session_id)
        if tell_damage(found.damage):
            return _refuse_damaged(found)
        plan = plan_compaction(found.events, keep_turns=keep_turns)
        if isinstance(plan, NothingToCompact):
            output.note(f"nothing to compact: {plan.message}")
            return ExitCode.FAILED if plan.why is NothingToDo.OPEN_TURN else ExitCode.COMPLETED
        session_id = found.events[0].session_id
        if not dry_run:
            ids = _event_ids()
            event = new_event(plan.payload, id=next(ids), session_id=session_id, ts=datetime.now(UTC))
            await log.append(session_id, [event], expected_version=found.version)
        if json:
            output.print_json({"session_id": session_id, "is_written": not dry_run, "compaction": plan.payload})
            return ExitCode.COMPLETED
        what = f"{plan.compacted_turns} turns ({plan.compacted_items} items), kept the last {plan.kept_turns}"
        output.print_text(f"{session_id}: {'would compact' if dry_run else 'compacted'} {what}\n")
        # Set in, so that nothing in it can be taken for a line of ours.
        output.print_text("\n".join(f"  {line}" for line in plan.payload.summary.split("\n")))
        return ExitCode.COMPLETED

    return _reads_or_writes(home, work, dry_run=dry_run, force=force)


def rm(
    session: SessionArgument,
    /,
    *,
    yes: YesFlag = False,
    force: ForceFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Delete the events of one session for good. Its id, version and chain head stay, and no event can be added.

    With --yes the id must be given whole, for then nobody sees which session an abbreviation meant.
    """

    async def work(log: SqliteLog) -> int:
        found = await find_session(log, session)
        if yes and found.session_id != session:
            raise UsageError(f"{session!r} is short for {found.session_id}", remedy="with --yes, give the whole id")
        if not yes and not confirmed(f"purge {found.session_id} with its {found.version} events?"):
            return ExitCode.INTERRUPTED
        summary = await log.purge(found.session_id)
        if json:
            output.print_json(summary)
        else:
            output.print_text(f"purged {summary.session_id}: {summary.version} events, head {summary.head}")
        return ExitCode.COMPLETED

    return write_log(home, work, force=force)


def confirmed(question: str) -> bool:
    """Ask a person at a terminal. Raises `UsageError` where there is nobody to ask."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation here", remedy="use --yes")
    output.note(f"{question} Events that are purged cannot be brought back. Type yes to continue:")
    if sys.stdin.readline().strip() == "yes":
        return True
    output.note("cancelled")
    return False


def _reads_or_writes(home: Path | None, work: Work, *, dry_run: bool, force: bool) -> int:
    """A dry run needs no lease, so that it can be made while an agent works."""
    return read_log(home, work) if dry_run else write_log(home, work, force=force)


def _refuse_damaged(found: Slice) -> int:
    first = min(one.first_seq or 0 for one in found.damage)
    output.error(
        f"nothing was written on the strength of a damaged log; a fork --at a turn before event {first} may go"
    )
    return ExitCode.DAMAGED_LOG


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


def _event_ids() -> Iterator[EventId]:
    while True:
        yield new_event_id(_unix_ms(), secrets.token_bytes(10))
