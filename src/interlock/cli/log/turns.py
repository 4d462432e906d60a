"""`interlock debug turns`: how each turn of a session stands, by the one classifier."""

from __future__ import annotations

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, SessionArgument, may_have_owner, read_log, slices, tell_damage
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.server.survivors import Survivor, living_agent, tell_survivor
from interlock.cli.tables import Column, Line, TableRow, Tone, table
from interlock.lifecycle.turns import TurnRecord
from interlock.log.port import LogDamage
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.turn_evidence import dossiers_in
from interlock.projections.turns import TurnsView
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import ending_detail
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import TurnState

_COLUMNS = (
    Column("TURN", 14, gives=2, wraps=True),
    Column("STATE"),
    Column("BASIS", 10, gives=3, wraps=True),
    Column("KIND", 8, gives=1, wraps=True),
    Column("EVIDENCE", 18, wraps=True),
    Column("EVENTS"),
)
_TONES = {
    TurnState.COMPLETED: Tone.CALM,
    TurnState.RUNNING: Tone.ACTIVE,
    TurnState.WAITING: Tone.URGENT,
    TurnState.INTERRUPTED: Tone.PLAIN,
}


def turns(
    session: SessionArgument,
    /,
    *,
    last: int | None = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Print every turn with its state, in the order in which the turns began. Exit code 0, or 9 for a damaged log.

    A turn that is open is `abandoned` if it is proven that no process holds the log, and no agent lives that a server
    would find again; `running` or `waiting` else. A turn is `unknown` if the log is damaged and the lost events leave
    open how it stands.

    Parameters
    ----------
    last
        Only the turns that began last, so many of them.
    """
    if last is not None and last < 1:
        raise UsageError(f"--last {last} is no number of turns", remedy="give 1 or more")

    async def work(log: SqliteLog) -> int:
        session_id = (await find_session(log, session)).session_id
        is_owned = await may_have_owner(log)
        if last is None:
            records, damage, pid = await _every_turn(log, session_id, is_owned=is_owned)
        else:
            records, damage, pid = await _last_turns(log, session_id, last, is_owned=is_owned)
        if pid is not None and any(not one.state.is_terminal for one in records):
            tell_survivor(pid, log.path.parent)
        if json:
            output.print_json(records)
        elif records:
            output.print_painted([*table(_COLUMNS, [_row(one) for one in records]), *_next_lines(records[-1])])
        else:
            output.note("the session has no turn yet")
        return ExitCode.DAMAGED_LOG if tell_damage(damage) else ExitCode.COMPLETED

    return read_log(home, work)


_Read = tuple[list[TurnRecord], tuple[LogDamage, ...], int | None]


async def _every_turn(log: SqliteLog, session_id: SessionId, *, is_owned: bool) -> _Read:
    """The turns, the damage, and the process that lives on without a server."""
    view, survivor = TurnsView(), Survivor()
    async for found in slices(log, session_id):
        view.feed(found)
        for event in found.events:
            survivor.add(event)
    pid = None if is_owned else survivor.living_pid()
    return view.records(owner_alive=is_owned or pid is not None), view.damage, pid


async def _last_turns(log: SqliteLog, session_id: SessionId, last: int, *, is_owned: bool) -> _Read:
    """As `_every_turn`, of the turns that began last. Only their part of the log is read, and its damage told."""
    part = await log.read_turns(session_id, last=last)
    pid = None if is_owned else living_agent(part.process)
    found = dossiers_in(part, owner_alive=is_owned or pid is not None)
    return [one.record for one in found[-last:]], part.found.damage, pid


def _next_lines(turn: TurnRecord) -> list[Line]:
    """What to do about the last turn, where it has ended and did not complete."""
    if not turn.state.is_terminal:
        return []
    actions = ((one.kind.value, one.command) for one in turn.next_actions)
    return [[("next: ", Tone.FAINT), (line, "")] for line in advice_lines(actions, turn.session_id)]


def _row(turn: TurnRecord) -> TableRow:
    settles = "" if turn.settles_as is None else f"recovery writes {turn.settles_as.value}"
    cells = (
        turn.turn_id,
        turn.state.value,
        turn.basis.value,
        ending_detail(turn.state.value, turn.error_kind, turn.error_message) or settles,
        ", ".join(f"{proof.where} #{proof.seq}" for proof in turn.evidence) or "none",
        f"{turn.first_seq}..{turn.last_seq}",
    )
    return TableRow(cells, (Tone.PLAIN, _TONES.get(turn.state, Tone.DOUBTFUL), *[Tone.PLAIN] * (len(cells) - 2)))
