"""Ends the agents that a server left behind when it was killed, with everything that they started.

Laws:
1. The log names them: every spawn of this home that has no end there, by process number and start time, and by the
   spawn id that all it started carries in its environment. No other process gets a signal: not those of the original
   where this home is a copy, not one whose pane another living process holds, and not one that was adopted from a
   person's own terminal.
2. Nothing is written. The next server finds that they are gone and closes their turns.
3. What could not be ended, or not be looked at, is told by its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.identity import is_alive
from interlock.agents.processes.stopping import stop_tree
from interlock.agents.terminal.launch import is_foreign, read_where
from interlock.agents.tmux.ownership import refuse_foreign
from interlock.agents.tmux.panes import find_pane
from interlock.agents.tmux.server import SOCKET_NAME, Absent, NoServer, TmuxServer, run_folder
from interlock.log.home_identity import HomeStanding, NotOurs, look_at_home
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, SpawnId

_BEGINS = (ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Sessions whose agents were ended, and why those of others were not."""

    stopped: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


async def stop_leftovers(home: Path) -> Leftovers:
    """End what is left of every session of a home that no server runs. `LogUnavailable` where it cannot be read."""
    found, standing = Leftovers(), look_at_home(home)
    async with await SqliteLog.open(home, readonly=True) as log:
        after: SessionId | None = None
        while True:
            page = await log.sessions(after=after)
            for one in page.sessions:
                if not one.is_purged:
                    await _stop_one(one.session_id, (await log.read(one.session_id)).events, found, standing, home)
            after = page.next_after
            if after is None:
                return found


def end_empty_terminals(home: Path) -> None:
    """End the tmux server of a home, by its own socket, if no process lives in it and nobody looks at it."""
    if not (run_folder(home) / SOCKET_NAME).exists():
        return
    with suppress(InterlockError, OSError):  # one that does not answer stays
        asyncio.run(TmuxServer.of_home(home).end_if_empty())


async def _stop_one(
    session_id: SessionId, events: Iterable[Event], found: Leftovers, standing: HomeStanding, home: Path
) -> None:
    spawns = {one: begun for one, begun in unended_spawns(events).items() if not is_foreign(begun.where)}
    try:
        for begun in spawns.values():
            await _refuse_foreign(begun, standing, home)
        reports = [await stop_tree(_process(begun), spawn_id) for spawn_id, begun in spawns.items()]
    except (InterlockError, OSError) as error:
        found.problems[session_id] = str(error) or type(error).__name__
        return
    living = [one for report in reports for one in report.survivors]
    if living:
        named = ", ".join(f"process {one.pid} ({one.command})" for one in living)
        found.problems[session_id] = f"{named} could not be ended"
    elif any(report.ended for report in reports):
        found.stopped.append(session_id)


async def _refuse_foreign(begun: ProcessEvent, standing: HomeStanding, home: Path) -> None:
    """`NotOurs` for a process that may live and belongs to another home, or whose pane another process holds."""
    process = _process(begun)
    if not standing.owns(begun.owner) and (process is None or is_alive(process)):
        raise NotOurs(standing.refusal)
    if begun.where is None:
        return
    place = read_where(begun.where).moved_to(TmuxServer.of_home(home), run_folder(home))
    with suppress(Absent, NoServer):
        info = await find_pane(place.server, place.pane_id)
        if info.identity.pid == place.pane_pid:
            refuse_foreign(info.pane_id, info.owner, standing)


def _process(begun: ProcessEvent) -> ProcessIdentity | None:
    return None if begun.pid is None else ProcessIdentity(begun.pid, begun.start_time)


def unended_spawns(events: Iterable[Event]) -> dict[SpawnId, ProcessEvent]:
    """Every spawn whose end is not in the log, with the event of its beginning."""
    spawns: dict[SpawnId, ProcessEvent] = {}
    for event in events:
        data = event.data
        if not isinstance(data, ProcessEvent) or event.spawn_id is None:
            continue
        if data.kind in _BEGINS:
            spawns[event.spawn_id] = data
        elif data.kind is ProcessEventKind.EXITED:
            spawns.pop(event.spawn_id, None)
    return spawns
