"""The processes of one run: found by descent from the pane's own process and by its session, ended by their ids."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from typing import Final

_GRACE_SECONDS: Final = 3.0


def family(root: int) -> list[int]:
    """The process, all that descend from it and all of its session, also when it is gone itself. A zombie is gone."""
    command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    listing = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    rows = [line.split() for line in listing.stdout.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
    found = [pid for pid in parents if pid == root or _session(pid) == root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def end_all(pids: Iterable[int]) -> None:
    """Ask each to end, and make those end that do not."""
    left = list(pids)
    for how in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        deadline = time.monotonic() + _GRACE_SECONDS
        while (left := [pid for pid in left if is_alive(pid)]) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not left:
            return


def is_alive(pid: int) -> bool:
    run = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, timeout=20, check=False)
    return run.returncode == 0 and not run.stdout.startswith("Z")
