"""Where an agent in a terminal is found again after our death."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, structs

from interlock.agents.port import ProcessIdentity
from interlock.agents.tmux.panes import PaneIdentity
from interlock.agents.tmux.server import Absent, TmuxServer
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.registry import Json


class AgentGone(Absent, PeerFault):
    """The very process that was to be adopted is not there any more."""


class Where(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pane, the process in it, and the agent itself, each with its start time.

    Only `socket` and `pane_id` are needed: a pane that somebody else started is adopted with whatever runs in it now.
    `status_socket` is where its shim reports; blank where there is none. `cli` and `version` say how its screen is
    read; the program on the disk may be a newer one by the time it is adopted. `home` is where it keeps its own files.
    """

    socket: str
    pane_id: str
    is_own: bool = False
    pane_pid: int = 0
    pane_started: str | None = None
    pid: int = 0
    started: str = ""
    status_socket: str = ""
    cli: str = ""
    version: str = ""
    home: str = ""

    def moved_to(self, own: TmuxServer, run_folder: Path) -> Where:
        """The same agent, in a home that was moved with its sockets: a socket of ours that is gone is `own` now."""
        is_gone = self.is_own and "/" in self.socket and not Path(self.socket).exists()
        if not is_gone:
            return self
        status = str(run_folder / Path(self.status_socket).name) if self.status_socket else ""
        return structs.replace(self, socket=own.socket, status_socket=status)

    @property
    def server(self) -> TmuxServer:
        return TmuxServer(self.socket, is_own=self.is_own)

    @property
    def pane(self) -> PaneIdentity | None:
        """The pane with its process; None where anything in that pane will do."""
        return PaneIdentity(self.socket, self.pane_id, self.pane_pid, self.pane_started) if self.pane_pid else None

    @property
    def process(self) -> ProcessIdentity | None:
        return ProcessIdentity(self.pid, self.started) if self.pid else None

    def as_json(self) -> Json:
        told: Json = msgspec.to_builtins(self)
        return told


def read_where(told: Json) -> Where:
    """Read what `as_json` gave, or the little that names a pane of somebody else."""
    try:
        return msgspec.convert(told, Where)
    except msgspec.ValidationError as error:
        raise UsageError(f"this does not say where an agent is: {error}", remedy="name its socket and pane") from error
