"""Processes by `ps`, `sysctl` and `lsof`, for systems without /proc, such as macOS. See `Host`.

What it cannot tell: environments and sessions, so that a process that left its group and whose parent ended before
anybody looked is not found; who is at the other end of a socket; the end of a process other than by looking again.
Start times are to the second.
"""

from __future__ import annotations

import calendar
import os
import re
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from signal import Signals
from typing import Final

from interlock.log.host import GONE_STATES, ProcessRow
from interlock.vocabulary.errors import Unreachable

_COLUMNS: Final = "pid=,ppid=,pgid=,stat=,lstart=,command="
_LINE: Final = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S.{23})\s?(.*)")  # a start time is 24 characters
_START: Final = re.compile(r"\w{3} (\w{3}) +(\d+) (\d\d):(\d\d):(\d\d) (\d{4})")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UUID: Final = re.compile(r'"IOPlatformUUID" = "([^"]+)"')
_SECONDS: Final = 10.0
_FIRST_PROCESS: Final = 1


def state_and_start(pid: int) -> tuple[str, str]:
    state, _, started = _printed("ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    if not started:
        raise Unreachable(f"process {pid} is there, but ps does not show it")
    return state, started.strip()


def boot_id() -> str:
    """macOS has an id for each boot. Elsewhere it is told by when the first process began."""
    told = _printed("sysctl", "-n", "kern.bootsessionuuid")
    return told or _printed("ps", "-o", "lstart=", "-p", str(_FIRST_PROCESS))


def machine_id() -> str:
    found = _UUID.search(_printed("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))
    if found is not None:
        return found[1]
    try:
        with open("/etc/machine-id", encoding="utf-8") as file:  # noqa: PTH123  # without the import of pathlib
            return file.read().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    return ""


def rows(variable: str) -> Iterator[ProcessRow]:
    """`Unreachable` if `ps` does not tell. No environment is shown."""
    del variable
    told = _printed("ps", "-A", "-ww", "-o", _COLUMNS)
    if not told:
        raise Unreachable("the processes cannot be seen: ps failed")
    yield from filter(None, map(_row, told.splitlines()))


def _row(line: str) -> ProcessRow | None:
    found = _LINE.match(line)
    if found is None or found[4][0] in GONE_STATES:
        return None
    pid, parent, group = map(int, found.group(1, 2, 3))
    return ProcessRow(pid, found[5].strip(), parent, group, 0, values=(), command=found[6])


def now_ticks() -> int | None:
    return int(time.time()) - 1  # start times are to the second: of one that began in this second nothing is known


def ticks_of(started: str) -> int | None:
    found = _START.match(started)
    if found is None or found[1] not in _MONTHS:
        return None
    day, hour, minute, second, year = map(int, found.group(2, 3, 4, 5, 6))
    return calendar.timegm((year, _MONTHS.index(found[1]) + 1, day, hour, minute, second))


def command_line(pid: int) -> str:
    return _printed("ps", "-ww", "-o", "command=", "-p", str(pid))


def argv(pid: int) -> tuple[str, ...] | None:
    return tuple(command_line(pid).split()) or None


def foreground_group(pid: int) -> int | None:
    told = _printed("ps", "-o", "tpgid=", "-p", str(pid))
    return int(told) if told.isdecimal() and told != "0" else None


def child_lookup() -> Callable[[int], list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for line in _printed("ps", "-A", "-o", "pid=,ppid=").splitlines():
        pid, _, parent = line.strip().partition(" ")
        children[int(parent)].append(int(pid))
    return lambda pid: children.get(pid, [])


def running_name(pid: int) -> str | None:
    state, _, name = _printed("ps", "-o", "stat=,comm=", "-p", str(pid)).partition(" ")
    return None if not state or state[0] in GONE_STATES else os.path.basename(name.strip())  # noqa: PTH119


def open_names(pid: int) -> Iterator[str]:
    """By `lsof`, where it is installed, as on macOS; else nothing is known."""
    for line in _printed("lsof", "-n", "-P", "-w", "-p", str(pid), "-F", "n").splitlines():
        if line.startswith("n"):
            yield line[1:]


def bound_sockets(pid: int) -> Iterator[str]:
    """By `lsof`, which tells their type behind their path on some systems."""
    for name in open_names(pid):
        if name.startswith("/"):
            yield name.partition(" type=")[0]


def tcp_tables() -> Iterator[str]:
    return iter(())


def hold(pid: int) -> int | None:
    del pid  # nothing here can hold a number
    return None


def signal_held(descriptor: int, number: Signals) -> None:
    raise Unreachable(f"signal {number.name} cannot be sent by descriptor {descriptor} here")


def peer_of(connection: socket.socket) -> tuple[int, int] | None:
    del connection  # the system does not say
    return None


def control_groups() -> tuple[str, str] | None:
    return None


def folder_address(descriptor: int) -> str | None:
    del descriptor  # an open folder has no path of its own
    return None


def _printed(*command: str) -> str:
    """What a program of the system prints; blank where it does not."""
    # A start time must be spelled the same for every reader, whatever their language and time zone.
    plain = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, env=plain)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()
