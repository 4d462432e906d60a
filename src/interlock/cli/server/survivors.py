"""Agents that outlive their server, such as those in tmux: the next server finds them again and goes on with them.

Law: an agent is called alive only while the very process that the log names is there, by number and start time, and
the log says where it is found again. One that ends with its server is no survivor, whatever the log lacks. Where this
home is a copy, the agents of its original are not found again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.identity import is_alive
from interlock.cli import output
from interlock.log.home_identity import HomeStanding, look_at_home
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SpawnId

_BEGINS = (ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED)


@dataclass(slots=True)
class Survivor:
    """Feed it the events of a session, in order: it knows the newest agent that could outlive its server."""

    _spawn_id: SpawnId | None = None
    _process: ProcessIdentity | None = None
    owner: str = ""

    def add(self, event: Event) -> None:
        data = event.data
        if not isinstance(data, ProcessEvent):
            return
        if data.kind in _BEGINS:
            is_found_again = data.where is not None and data.pid is not None
            self._spawn_id, self.owner = event.spawn_id, data.owner
            self._process = ProcessIdentity(data.pid or 0, data.start_time) if is_found_again else None
        elif data.kind is ProcessEventKind.EXITED and event.spawn_id == self._spawn_id:
            self._process = None

    def living_pid(self) -> int | None:
        """The process that lives, if one does. One that is hidden may live."""
        process = self._process
        try:
            return process.pid if process is not None and is_alive(process) else None
        except Unreachable:
            return None if process is None else process.pid


def living_agent(events: Iterable[Event], standing: HomeStanding | None = None) -> int | None:
    """The process of a session's agent that lives on without a server, if one does: of any home, or of that one."""
    survivor = Survivor()
    for event in events:
        survivor.add(event)
    return survivor.living_pid() if standing is None or standing.owns(survivor.owner) else None


def tell_survivor(pid: int, home: Path) -> None:
    """Say why an open turn that no server runs is not lost."""
    standing = look_at_home(home)
    if standing.is_copy:
        output.note(f"its agent lives (process {pid}); {standing.refusal}, unless it was started here")
    else:
        output.note(f"no server runs, and its agent lives (process {pid}): `interlock up` goes on with it")
