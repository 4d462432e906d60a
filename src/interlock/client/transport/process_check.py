"""Whether a process is there. Imports nothing heavy: commands ask this before they connect."""

from __future__ import annotations

import os


def is_alive(pid: int) -> bool:
    """Whether a process has that number. Whether it is the same one, it does not tell."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
