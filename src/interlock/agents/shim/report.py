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
import select
import time
from typing import Final

from interlock.agents.shim.listeners import StatusFile, StatusSocket
from interlock.agents.shim.origin import Origin
from interlock.agents.status_protocol import ProgramState, StatusRecord

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

    def heard(self, record: StatusRecord, origin: Origin) -> None:
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
