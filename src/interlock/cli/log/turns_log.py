"""The turns of a session by the log itself: the last ones, those of a damaged log, and without a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import may_have_owner, read_log, slices, tell_damage
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.server.survivors import Survivor, living_agent, tell_survivor
from interlock.lifecycle.turns import TurnRecord
from interlock.log.port import LogDamage
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.turn_evidence import dossiers_in
from interlock.projections.turns import TurnsView
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.encoding import fill

if TYPE_CHECKING:
    from interlock.cli.log.turns import TurnsPrinter
    from interlock.vocabulary.wire.json_types import TurnRecordJson

_Read = tuple[list[TurnRecord], tuple[LogDamage, ...], int | None]


def turns_by_log(session: str, printer: TurnsPrinter, *, last: int | None, home: Path | None) -> int:
    """Print the turns from the log alone."""

    async def work(log: SqliteLog) -> int:
        session_id = (await find_session(log, session)).session_id
        is_owned = await may_have_owner(log)
        if last is None:
            records, damage, pid = await _every_turn(log, session_id, is_owned=is_owned)
        else:
            records, damage, pid = await _last_turns(log, session_id, last, is_owned=is_owned)
        if pid is not None and any(not one.state.is_terminal for one in records):
            tell_survivor(pid, log.path.parent)
        for record in records:
            printer.add(cast("TurnRecordJson", msgspec.to_builtins(fill(record))))
        printer.print(session_id)
        return ExitCode.DAMAGED_LOG if tell_damage(damage) else ExitCode.COMPLETED

    return read_log(home, work)


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
