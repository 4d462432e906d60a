"""When a process began, which tells it apart from a later one with its number. Imports nothing heavy."""

from __future__ import annotations

import os

from interlock.log.host import GONE_STATES, host


def process_start(pid: int) -> str | None:
    """When a process began, as its system spells it; None if there is none. Raises `Unreachable` if it is hidden."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass  # somebody else's, but there
    state, started = host().state_and_start(pid)
    return None if state[0] in GONE_STATES else started


def boot_id() -> str:
    """Which boot of the machine this is; blank where it does not say."""
    return host().boot_id()
