"""Who a process is: its number with its start time."""

from __future__ import annotations

from interlock.agents.port import ProcessIdentity
from interlock.log.lease import process_start
from interlock.vocabulary.errors import Unreachable


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
