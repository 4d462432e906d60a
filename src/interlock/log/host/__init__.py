"""What this system tells of processes. Two modules answer the same questions: `linux` by /proc, `portable` by `ps`.

Laws:
1. Everything that only Linux has (/proc, control groups, pidfd, SO_PEERCRED) is asked for here and nowhere else.
2. The twin may know less, and then says so (None, blank, nothing): it never claims what it cannot see.
3. A home is used by one of them at a time: each spells start times in its own way.

`INTERLOCK_HOST=portable` chooses the twin on Linux; it is there for tests. Imports nothing heavy.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from signal import Signals

HOST_VARIABLE: Final = "INTERLOCK_HOST"
# A dead process that nobody waited for, or that is just going away, runs and writes no more.
GONE_STATES: Final = frozenset("ZXx")


class ProcessRow(NamedTuple):
    """One living process. `session` is 0 and `command` blank where they are not read at once."""

    pid: int
    started: str
    parent: int
    group: int
    session: int
    values: tuple[str, ...]
    command: str


class Host(Protocol):
    """The questions. Both modules are one."""

    def state_and_start(self, pid: int) -> tuple[str, str]:
        """The state of a process that is there, and when it began. `Unreachable` if it is hidden."""

    def boot_id(self) -> str:
        """Which boot of the machine this is; blank where it does not say."""

    def machine_id(self) -> str:
        """Which machine this is; blank where it does not say."""

    def pid_namespace(self) -> str:
        """Which numbers of processes are meant; blank where there is only one kind."""

    def rows(self, variable: str) -> Iterable[ProcessRow]:
        """Every living process, with the values of this variable in its environment, as far as that is shown."""

    def now_ticks(self) -> int | None:
        """Now, or a little before, in the unit of `ticks_of`."""

    def ticks_of(self, started: str) -> int | None:
        """A start time as a number; None if it cannot be read."""

    def command_line(self, pid: int) -> str:
        """The command line of a process; blank if it is gone or hidden."""

    def argv(self, pid: int) -> tuple[str, ...] | None:
        """Its words."""

    def foreground_group(self, pid: int) -> int | None:
        """The process group that has the terminal of this process."""

    def child_lookup(self) -> Callable[[int], list[int]]:
        """A function that gives the children of a process; all of its answers may be of one moment."""

    def running_name(self, pid: int) -> str | None:
        """The name of its program; None if it runs no more."""

    def open_names(self, pid: int) -> Iterator[str]:
        """The files and sockets that a process has open, by name."""

    def bound_sockets(self, pid: int) -> Iterator[str]:
        """The paths of the Unix sockets at which a process can be reached. It may name other files, too."""

    def tcp_tables(self) -> Iterator[str]:
        """The kernel's tables of TCP connections, as /proc/net/tcp has them."""

    def hold(self, pid: int) -> int | None:
        """A descriptor that keeps the number of a process from being used again, and is readable when it ends."""

    def signal_held(self, descriptor: int, number: Signals) -> None:
        """Send a signal to the process of a descriptor of `hold`."""

    def peer_of(self, connection: socket.socket) -> tuple[int, int] | None:
        """The process and the user at the other end of a Unix socket."""

    def control_groups(self) -> tuple[str, str] | None:
        """Where the groups of processes are told, and where their accounts of memory are."""

    def folder_address(self, descriptor: int) -> str | None:
        """A short path to an open folder, for the address of a socket."""


def host() -> Host:
    """The one that fits this system."""
    if _has_proc() and os.environ.get(HOST_VARIABLE) != "portable":
        from interlock.log.host import linux

        return linux
    from interlock.log.host import portable

    return portable


@cache
def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")  # noqa: PTH110  # without the import of pathlib
