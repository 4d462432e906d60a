"""The table of all processes, read at once: from /proc, or from `ps` where there is no /proc.

`ps` shows neither sessions nor environments, and start times to the second: there a process that left its group and was
re-parented before anybody looked is not found. Reading blocks; 500 processes take some 30 ms of one core.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from interlock.agents.port import ProcessIdentity
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, SpawnId

_PROC: Final = Path("/proc")
# Zombies and processes that are just going away run no more.
_GONE_STATES: Final = "ZXx"
_CHUNK_BYTES: Final = 1 << 16
_PS_COLUMNS: Final = "pid=,ppid=,pgid=,stat=,lstart=,command="
_PS_LINE: Final = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S.{23})\s?(.*)")  # a start time is 24 characters
_PS_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One living process. `session` is 0 where the system does not show it."""

    identity: ProcessIdentity
    parent: int
    group: int
    session: int = 0
    is_tagged: bool = False
    command: str = ""


Table: TypeAlias = Mapping[int, Seen]
TableReader: TypeAlias = Callable[[SpawnId], Table]


def read_table(spawn_id: SpawnId) -> Table:
    """Every living process that can be seen, by number. Those with `spawn_id` in their environment are tagged."""
    return _from_proc(spawn_id) if (_PROC / "self" / "stat").exists() else from_ps(spawn_id)


def now_ticks() -> int | None:
    """Now, in the unit of the start times in /proc; None where there is no such clock."""
    if sys.platform != "linux":
        return None
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _from_proc(spawn_id: SpawnId) -> Table:
    tag = f"\0{SPAWN_ID_VARIABLE}={spawn_id}\0".encode() if spawn_id else b""
    numbers = (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdecimal())
    return _by_number(_see(pid, tag) for pid in numbers)


def _see(pid: int, tag: bytes) -> Seen | None:
    try:
        # The name of the program, in parentheses, may itself hold blanks and parentheses.
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        state, parent, group, session, started = fields[0], *map(int, fields[1:4]), fields[19].decode()
    except (OSError, IndexError):
        return None  # it ended while we looked
    if state.decode() in _GONE_STATES:
        return None
    return Seen(ProcessIdentity(pid, started), parent, group, session, is_tagged=_is_tagged(pid, tag))


def _is_tagged(pid: int, tag: bytes) -> bool:
    try:
        return bool(tag) and tag in b"\0" + _read(pid, "environ") + b"\0"
    except OSError:
        return False  # somebody else's process, or one that just ended


def _read(pid: int, name: str) -> bytes:
    # Without the objects of `open` and `Path` the whole table takes a third of the time.
    file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks: list[bytes] = []
        while chunk := os.read(file, _CHUNK_BYTES):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(file)


def command_of(seen: Seen) -> str:
    """The command line of a process, as much as can be seen of it; not masked."""
    if seen.command:
        return seen.command
    try:
        words = _read(seen.identity.pid, "cmdline").rstrip(b"\0").replace(b"\0", b" ")
        return (words or _read(seen.identity.pid, "comm").strip()).decode("utf-8", "replace")
    except OSError:
        return ""


def from_ps(_: SpawnId) -> Table:
    """The table as `ps` tells it. `Unreachable` if it does not."""
    words = ["ps", "-A", "-ww", "-o", _PS_COLUMNS]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}  # as the lease spells it
    try:
        done = subprocess.run(words, capture_output=True, env=environment, timeout=_PS_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unreachable(f"the processes cannot be seen: ps failed ({error})") from error
    return _by_number(_from_line(line) for line in done.stdout.decode("utf-8", "replace").splitlines())


def _from_line(line: str) -> Seen | None:
    found = _PS_LINE.match(line)
    if found is None or found[4][0] in _GONE_STATES:
        return None
    pid, parent, group = map(int, found.group(1, 2, 3))
    return Seen(ProcessIdentity(pid, found[5].strip()), parent, group, command=found[6])


def _by_number(seen: Iterable[Seen | None]) -> Table:
    return {process.identity.pid: process for process in seen if process is not None}
