"""`interlock why` by the log itself: for another turn than the last, an earlier moment, JSON, or without a server."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode, exit_code_for_turn
from interlock.cli.home import may_have_owner, read_log, tell_damage
from interlock.cli.log.stored_sessions import as_number, find_session
from interlock.cli.server.survivors import living_agent, tell_survivor
from interlock.lifecycle.turns import fold_turns
from interlock.log.port import Slice, TurnSlice
from interlock.log.sqlite.store import SqliteLog
from interlock.log.sqlite.turn_index import whole_slice
from interlock.projections.why import Explanation, why_last
from interlock.projections.why import why as why_at
from interlock.projections.why_lines import told_lines
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import TurnId


def why_by_log(session: str, *, turn: str = "", at: str = "", home: Path | None = None, json: bool = False) -> int:
    """Explain a turn from the log alone."""
    moment = parse_moment(at) if at else None

    async def work(log: SqliteLog) -> int:
        session_id = (await find_session(log, session)).session_id
        is_last = not turn and moment is None
        part = await log.read_turns(session_id) if is_last else whole_slice(await log.read(session_id))
        is_owned = moment is not None or await may_have_owner(log)
        pid = None if is_owned else living_agent(part.process)
        explanation = _explain(part, turn, moment, is_last=is_last, owner_alive=is_owned or pid is not None)
        if pid is not None and explanation.record is not None and not explanation.record.state.is_terminal:
            tell_survivor(pid, log.path.parent)
        if json:
            output.print_json(explanation)
        else:
            output.print_text("\n".join(output.escape(line) for line in told_lines(explanation)))
        if tell_damage(part.found.damage):
            return ExitCode.DAMAGED_LOG
        return exit_code_for_turn(None if explanation.record is None else explanation.record.state)

    return read_log(home, work)


def _explain(
    part: TurnSlice, turn: str, moment: datetime | int | None, *, is_last: bool, owner_alive: bool
) -> Explanation:
    if is_last:
        return why_last(part, owner_alive=owner_alive)
    return why_at(
        part.found.events,
        part.found.damage,
        turn_id=_turn_id(part.found, turn),
        at=moment,
        owner_alive=owner_alive,
    )


def parse_moment(text: str) -> datetime | int:
    """A sequence number or an ISO 8601 time."""
    number = as_number(text)
    if number is not None:
        return number
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        remedy = "give a sequence number, or a time such as 2026-01-31T12:00:00Z"
        raise UsageError(f"{text!r} is neither a sequence number nor a time", remedy=remedy) from None


def _turn_id(found: Slice, named: str) -> TurnId | None:
    """The turn that is meant. A number is the place of a turn, unless a turn bears it as its id."""
    if not named:
        return None
    known = [turn_id for _, turn_id in fold_turns(found.events).turns]
    place = None if named in known else as_number(named)
    return known[place - 1] if place is not None and 0 < place <= len(known) else TurnId(named)
