"""Processes by /proc, pidfd and SO_PEERCRED. See `Host` for what each function says."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from interlock.log.host import GONE_STATES, ProcessRow
from interlock.vocabulary.errors import Unreachable

_CHUNK_BYTES: Final = 1 << 16
_CREDENTIALS: Final = "3i"


def state_and_start(pid: int) -> tuple[str, str]:
    try:
        fields = _stat(pid)
        return fields[0], fields[19]
    except (OSError, IndexError) as error:
        raise Unreachable(f"process {pid} is there, but cannot be looked at") from error


def boot_id() -> str:
    return _text("/proc/sys/kernel/random/boot_id")


def machine_id() -> str:
    return _text("/etc/machine-id")


def pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # without the import of pathlib
    except OSError:
        return ""


def rows(variable: str) -> Iterator[ProcessRow]:
    wanted = f"{variable}=".encode()
    with os.scandir("/proc") as entries:
        numbers = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    for pid in numbers:
        try:
            fields = _stat(pid)
            if fields[0] not in GONE_STATES:
                parent, group, session = map(int, fields[1:4])
                yield ProcessRow(pid, fields[19], parent, group, session, _values(pid, wanted), "")
        except (OSError, IndexError):
            continue  # it ended while we looked


def now_ticks() -> int | None:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def ticks_of(started: str) -> int | None:
    return int(started) if started.isdecimal() else None


def command_line(pid: int) -> str:
    try:
        words = _read(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" ")
        return (words or _read(pid, "comm").strip()).decode("utf-8", "replace")
    except OSError:
        return ""


def argv(pid: int) -> tuple[str, ...] | None:
    try:
        words = _read(pid, "cmdline").split(b"\0")
    except OSError:
        return None
    return tuple(os.fsdecode(word) for word in words if word) or None


def foreground_group(pid: int) -> int | None:
    try:
        group = int(_stat(pid)[5])
    except (OSError, IndexError, ValueError):
        return None
    return group if group > 0 else None  # -1: it has no terminal, or a terminal that nothing is in front of yet


def child_lookup() -> Callable[[int], list[int]]:
    return _children


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError, ValueError), os.scandir(f"/proc/{pid}/task") as tasks:
        for task in tasks:
            with suppress(OSError):  # a thread that ended meanwhile
                found += map(int, _read(pid, f"task/{task.name}/children").split())
    return found


def running_name(pid: int) -> str | None:
    try:
        head, _, rest = _read(pid, "stat").decode("utf-8", "replace").rpartition(")")
        return None if rest.split()[0] in GONE_STATES else head.partition("(")[2]
    except (OSError, IndexError):
        return None


def open_names(pid: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:  # it ended, or is another user's
        for entry in entries:
            with suppress(OSError):  # closed meanwhile
                yield os.readlink(entry.path)  # noqa: PTH115  # without the import of pathlib


def bound_sockets(pid: int) -> Iterator[str]:
    held = {name for name in open_names(pid) if name.startswith("socket:[")}
    for line in _text("/proc/net/unix").splitlines()[1:] if held else ():
        fields = line.split(maxsplit=7)  # a path may hold blanks; what is not bound has none
        if len(fields) > 7 and f"socket:[{fields[6]}]" in held:
            yield fields[7]


def tcp_tables() -> Iterator[str]:
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        yield _text(name)


def hold(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def signal_held(descriptor: int, number: signal.Signals) -> None:
    signal.pidfd_send_signal(descriptor, number)


def peer_of(connection: socket.socket) -> tuple[int, int] | None:
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
    pid, uid, _ = struct.unpack(_CREDENTIALS, told)
    return pid, uid


def control_groups() -> tuple[str, str] | None:
    return "/proc", "/sys/fs/cgroup"


def folder_address(descriptor: int) -> str | None:
    return f"/proc/self/fd/{descriptor}"


def _stat(pid: int) -> list[str]:
    # The name of the program, in parentheses, may itself hold blanks and parentheses.
    return _read(pid, "stat").rpartition(b")")[2].decode("ascii").split()


def _values(pid: int, wanted: bytes) -> tuple[str, ...]:
    try:
        environment = _read(pid, "environ")
    except OSError:
        return ()  # somebody else's process, or one that just ended
    if wanted not in environment:
        return ()
    named = (one.removeprefix(wanted) for one in environment.split(b"\0") if one.startswith(wanted))
    return tuple(one.decode("utf-8", "replace") for one in named if one)


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


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # without the import of pathlib
            return file.read().strip()
    except OSError:
        return ""
