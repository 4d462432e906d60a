"""Who a process is (its number with its start time), and the table of all processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from interlock.agents.port import ProcessIdentity
from interlock.log.host import host
from interlock.log.lease import process_start
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE


def identity_of(pid: int) -> ProcessIdentity | None:
    """The process that has this number now; None if there is none, or a zombie. `Unreachable` if it is hidden."""
    if pid <= 0:
        return None
    try:
        started = process_start(pid)
    except Unreachable:
        started = process_start(pid)  # it may have ended while we looked; a second look then finds nothing
    return None if started is None else ProcessIdentity(pid, started)


def is_alive(process: ProcessIdentity) -> bool:
    """Whether that very process is still there."""
    return identity_of(process.pid) == process


# The table of all processes, read at once, as the system tells it (`log/host`).
#
# Reading blocks; 500 processes take some 30 ms of one core.


@dataclass(frozen=True, slots=True)
class Seen:
    """One living process. `session` is 0 where the system does not show it; `spawn_ids` are those that its environment
    names."""

    identity: ProcessIdentity
    parent: int
    group: int
    session: int = 0
    spawn_ids: tuple[str, ...] = ()
    command: str = ""


Table: TypeAlias = Mapping[int, Seen]
TableReader: TypeAlias = Callable[[], Table]


def read_table() -> Table:
    """Every living process that can be seen, by number, with the spawns that its environment names."""
    return {
        row.pid: Seen(
            ProcessIdentity(row.pid, row.started), row.parent, row.group, row.session, row.values, row.command
        )
        for row in host().rows(SPAWN_ID_VARIABLE)
    }


def now_ticks() -> int | None:
    """Now, in the unit of `ticks_of`; None where there is no such clock."""
    return host().now_ticks()


def ticks_of(process: ProcessIdentity) -> int | None:
    """When a process began, as a number; None where it cannot be told."""
    return host().ticks_of(process.start_time)


def command_of(seen: Seen) -> str:
    """The command line of a process, as much as can be seen of it; not masked."""
    return seen.command or host().command_line(seen.identity.pid)
