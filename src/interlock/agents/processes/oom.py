"""Whether the system killed a process for want of memory, by the accounts that the kernel keeps for its control group.

A code or a signal alone proves nothing: anybody may send KILL. The account is of the whole group, so that a neighbour's
death while ours was killed by somebody else is read as ours; an agent in a control group of its own has no neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final

_PROC: Final = Path("/proc")
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
# A shell that ran the agent tells the signal of its child so.
_CODE_AFTER_KILL: Final = 128 + SIGKILL


@dataclass(frozen=True, slots=True)
class MemoryAccount:
    """The account of one control group, and how many it had killed when we first looked. None: there is no account."""

    path: Path | None
    kills_before: int | None

    @classmethod
    def of(cls, pid: int, *, proc: Path = _PROC, control_groups: Path = _CONTROL_GROUPS) -> MemoryAccount:
        """The account of the group in which a process is now."""
        path = _account_path(pid, proc, control_groups)
        return cls(path, None if path is None else _kills(path))

    def explains(self, code: int | None, signal: int | None) -> bool:
        """Whether a process that ended so was killed for want of memory."""
        is_killed = signal == SIGKILL or code == _CODE_AFTER_KILL
        if not is_killed or self.path is None or self.kills_before is None:
            return False
        kills = _kills(self.path)
        return kills is not None and kills > self.kills_before


def _account_path(pid: int, proc: Path, control_groups: Path) -> Path | None:
    try:
        lines = (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for _, controllers, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        inside = group.lstrip("/")
        if not controllers:
            path = control_groups / inside / "memory.events"
        elif "memory" in controllers.split(","):
            path = control_groups / "memory" / inside / "memory.oom_control"
        else:
            continue
        if path.exists():
            return path
    return None


def _kills(path: Path) -> int | None:
    try:
        words = path.read_text("utf-8", "replace").split()
    except OSError:
        return None
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    count = pairs.get("oom_kill", "")
    return int(count) if count.isdecimal() else None
