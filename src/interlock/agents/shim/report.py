"""What the shim tells its listeners: one JSON object a line.

    {"type": "started", "seq": 1, "at_monotonic_seconds": 8.1, "shim_pid": 10, "pid": 11, "dropped": 0}
    {"type": "probe", ...}      the program asked whether its status is heard, and was told yes
    {"type": "status", ..., "state": "blocked", "app": "claude-code", "kind": "permission", "id": "", "title": null,
     "message": "Run it?", "progress": null, "fields": [["state", "blocked"], ...],
     "is_own": true, "has_asked": true, "greeted_as": "claude-code"}
    {"type": "exited", ..., "code": 0, "signal": null}

`is_own`: the program's own process group was in the foreground when the record was read. `has_asked`, `greeted_as`: how
it had introduced itself before the first Enter: by the probe, and by the app of its first record.

Every line has the first six fields. `seq` grows by one a line; the clock is the machine's monotonic one. A new
connection of the socket begins with `started` and the records that stand now, with their own numbers and times, and
`dropped` counts the lines so far that a listener did not take when they were made.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from interlock.agents.status_protocol import ProgramState, StatusRecord
from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from socket import socket as Socket


# Who is told: a file that keeps every line, or a socket that somebody may or may not listen on.
#
# Neither ever makes the program wait. What a listener does not take is dropped and counted.

RETRY_SECONDS: Final = 1.0
MAX_PENDING_BYTES: Final = 256 * 1024


class StatusFile:
    """Appends each line to a file that only its owner reads."""

    __slots__ = ("_descriptor", "_is_torn", "dropped")

    def __init__(self, path: str) -> None:
        self.dropped = 0
        self._is_torn = False
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as wrong:
            remedy = "give --status-file a path in a folder that you may write to"
            raise UsageError(f"{path!r} cannot be written ({wrong.strerror})", remedy=remedy) from None

    def send(self, line: bytes) -> None:
        """Append one line. After half a line (a full disk) the next begins on a line of its own."""
        whole = b"\n" + line if self._is_torn else line
        try:
            written = os.write(self._descriptor, whole)
        except OSError:
            written = 0
        if written < len(whole):
            self.dropped += 1
            self._is_torn = self._is_torn or written > 0


class StatusSocket:
    """A stream to a Unix socket, so that the listener sees our end as an end of file, even if we are killed.

    A listener that is not there is tried again each second. One that comes, or comes back, is first told how things
    stand (`standing`); one that reads too slowly is cut off and told anew when it comes back.
    """

    __slots__ = ("_path", "_pending", "_socket", "_standing", "dropped", "retry_at_seconds")

    def __init__(self, path: str, standing: Callable[[], Iterable[bytes]]) -> None:
        self.dropped = 0
        self.retry_at_seconds: float | None = 0.0  # None while there is a listener
        self._path = path
        self._standing = standing
        self._socket: Socket | None = None
        self._pending = b""

    def waiting(self) -> int | None:
        """The descriptor to wait for until it can be written, if anything is to be written."""
        return self._socket.fileno() if self._socket is not None and self._pending else None

    def listening(self) -> int | None:
        """The descriptor on which the end of the listener shows, if there is a listener."""
        return None if self._socket is None else self._socket.fileno()

    def check(self, now_seconds: float) -> None:
        """Notice that the listener is gone. It says nothing to us: what can be read from it is its end, or noise."""
        if self._socket is None:
            return
        try:
            is_gone = not self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            is_gone = True
        if is_gone:
            self._cut_off(now_seconds)
            self.retry_at_seconds = now_seconds  # another one may be there already

    def connect(self, now_seconds: float, *, is_last_time: bool = False) -> None:
        """Look for the listener if it is time to. Call it often; it does nothing while there is one."""
        if self.retry_at_seconds is None or (now_seconds < self.retry_at_seconds and not is_last_time):
            return
        self.retry_at_seconds = now_seconds + RETRY_SECONDS
        from socket import AF_UNIX, SOCK_STREAM, socket

        connection = socket(AF_UNIX, SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            return
        self._socket, self._pending, self.retry_at_seconds = connection, b"".join(self._standing()), None
        self.flush(now_seconds)

    def send(self, line: bytes, now_seconds: float) -> None:
        """Send one line, or drop and count it. It must not be among what `standing` says yet."""
        if self._socket is None:
            self.dropped += 1
            return
        self._pending += line
        self.flush(now_seconds)

    def flush(self, now_seconds: float) -> None:
        """Hand over what the listener takes now."""
        if self._socket is None:
            return
        try:
            self._pending = self._pending[self._socket.send(self._pending) :]
        except BlockingIOError:
            if len(self._pending) > MAX_PENDING_BYTES:
                self._cut_off(now_seconds)
        except OSError:
            self._cut_off(now_seconds)

    def _cut_off(self, now_seconds: float) -> None:
        assert self._socket is not None
        self._socket.close()
        self.dropped += self._pending.count(b"\n")
        self._socket, self._pending, self.retry_at_seconds = None, b"", now_seconds + RETRY_SECONDS


MAX_STANDING: Final = 256
FAREWELL_SECONDS: Final = 0.2


class Reporter:
    """Tells the listeners, if there are any. Without one it costs nothing."""

    __slots__ = ("_ends", "_file", "_pid", "_sequence", "_socket", "_standing")

    def __init__(self, socket_path: str = "", file_path: str = "") -> None:
        self._file = StatusFile(file_path) if file_path else None
        self._socket = StatusSocket(socket_path, self._how_things_stand) if socket_path else None
        self._standing: dict[str, bytes] = {}  # by record id, the one told longest ago first
        self._ends: list[bytes] = []  # the lines `started` and `exited`, when they are told
        self._sequence = 0
        self._pid = 0

    def started(self, pid: int) -> None:
        """The program runs, as process `pid`."""
        self._pid = pid
        self._tell("started", {})

    def heard(self, record: StatusRecord, origin: ShimOrigin) -> None:
        """A record came from the program's terminal."""
        if record.is_probe:
            self._tell("probe", origin._asdict())
        else:
            self._tell("status", record._asdict() | origin._asdict(), record)

    def exited(self, status: int) -> None:
        """The program ended with this wait status. Waits a moment for a listener that is about to read."""
        code = os.waitstatus_to_exitcode(status)
        self._tell("exited", {"code": code if code >= 0 else None, "signal": -code if code < 0 else None})
        now = time.monotonic()
        deadline = now + FAREWELL_SECONDS
        if self._socket is not None:
            self._socket.connect(now, is_last_time=True)
        while (waiting := self.waiting()) is not None and (left := deadline - time.monotonic()) > 0:
            select.select([], [waiting], [], left)
            self.attend()

    def waiting(self) -> int | None:
        """The descriptor whose listener is to be written to when it can take more."""
        return None if self._socket is None else self._socket.waiting()

    def listening(self) -> int | None:
        """The descriptor that can be read when the listener is gone."""
        return None if self._socket is None else self._socket.listening()

    def attend(self) -> None:
        """Write what a listener takes now, and look for one that is missing."""
        if self._socket is not None:
            now = time.monotonic()
            self._socket.check(now)
            self._socket.connect(now)
            self._socket.flush(now)

    def pause_seconds(self) -> float | None:
        """How long `attend` may be left alone if nothing else happens. None: for ever."""
        if self._socket is None or self._socket.retry_at_seconds is None:
            return None
        return max(0.0, self._socket.retry_at_seconds - time.monotonic())

    def _tell(self, kind: str, more: dict[str, object], record: StatusRecord | None = None) -> None:
        if self._file is None and self._socket is None:
            return
        import json  # only who listens pays for it

        self._sequence += 1
        now = time.monotonic()
        said = {
            "type": kind,
            "seq": self._sequence,
            "at_monotonic_seconds": now,
            "shim_pid": os.getpid(),
            "pid": self._pid,
            "dropped": max(one.dropped for one in (self._file, self._socket) if one is not None),
            **more,
        }
        line = json.dumps(said, separators=(",", ":")).encode() + b"\n"
        if self._file is not None:
            self._file.send(line)
        if self._socket is not None:
            self._socket.connect(now)
            self._keep(kind, line, record)
            self._socket.send(line, now)

    def _keep(self, kind: str, line: bytes, record: StatusRecord | None) -> None:
        if kind in ("started", "exited"):
            self._ends.append(line)
        if record is None:
            return
        if record.state == ProgramState.CLEAR:
            below = f"{record.id}/" if record.id else ""
            self._standing = {
                id: kept for id, kept in self._standing.items() if id != record.id and not id.startswith(below)
            }
            return
        self._standing.pop(record.id, None)
        self._standing[record.id] = line
        if len(self._standing) > MAX_STANDING:
            del self._standing[next(iter(self._standing))]

    def _how_things_stand(self) -> list[bytes]:
        return [*self._ends[:1], *self._standing.values(), *self._ends[1:]]


# Where a status record came from, as far as a terminal can tell.
#
# The kernel does not say who wrote to a terminal; it says which process group is in the foreground. Before the first
# Enter no prompt has reached the program, so no tool of it can have run: what introduces the program comes before that.

# Enter, as terminals send it: also by the keyboard protocols of kitty and xterm.
_ENTER: Final = re.compile(rb"[\r\n]|\x1b\[13[;u]|\x1b\[27;\d+;13~")


class ShimOrigin(NamedTuple):
    """`is_own`: the program's own process group was in the foreground. `has_asked` and `greeted_as`: how it had
    introduced itself, by the probe and by the app of its first record."""

    is_own: bool
    has_asked: bool
    greeted_as: str


class OriginWatch:
    """Notes how a program introduces itself. Tell it what is typed, and ask it of each record."""

    __slots__ = ("_greeted_as", "_has_asked", "_has_entered")

    def __init__(self) -> None:
        self._has_entered = False
        self._has_asked = False
        self._greeted_as = ""

    def typed(self, keys: bytes) -> None:
        """These keys go to the program."""
        self._has_entered = self._has_entered or _ENTER.search(keys) is not None

    def of(self, record: StatusRecord, *, is_own: bool) -> ShimOrigin:
        """What is known of who sent this record."""
        if is_own and not self._has_entered:
            self._has_asked = self._has_asked or record.is_probe
            self._greeted_as = self._greeted_as or record.app or ""
        return ShimOrigin(is_own, self._has_asked, self._greeted_as)
