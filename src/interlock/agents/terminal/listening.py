"""Hearing the shim of one agent: when its program began, what it says of itself, and how it ended.

The socket belongs to us and is reached by nobody else (0600, in a folder of 0700). Who connects is asked of the system
(SO_PEERCRED): only the process of the pane, which is the shim, is heard. Any other, such as the agent itself, is closed
and noted. The shim comes back each second, so a runtime that was started anew hears it again, with all that stands. A
record keeps the time at which it was written, so that it grows old also while nobody listens.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from interlock.agents.pane_tracker import Told
from interlock.agents.tmux.server import MAX_SOCKET_BYTES
from interlock.log.host import host
from interlock.monitor.arbitration.claims import SourceReading
from interlock.monitor.sources.shim_lines import Began, ShimEnded, read_shim_line
from interlock.screen.profile import NativeStatus
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import EvidenceSource

_MAX_LINE_BYTES: Final = 1 << 20
_RUNG: Final = EvidenceSource.NATIVE_STATUS


# A file full of records that do not count says the same thing again and again.
_MAX_ANOMALIES: Final = 32


class _Head(Struct, frozen=True):
    pid: int = 0
    at_monotonic_seconds: float = math.inf


class _Listener(NamedTuple):
    tell: Callable[[Told], None]
    on_anomaly: Callable[[Anomaly], None]
    declared: NativeStatus | None
    pid: int


class ShimChannel:
    """Listens from `open` to `close`. What is heard before `attach` is kept until then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[ShimEnded] = asyncio.get_running_loop().create_future()
        self.was_cut = False
        """A shim that spoke to us went away without telling how its program ended."""
        self._server: asyncio.Server | None = None
        self._hearing: set[asyncio.Task[None]] = set()
        self._waiting: list[Callable[[], None]] = []
        self._listener: _Listener | None = None
        self._anomalies: set[tuple[str, str]] = set()
        self._shim: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, path: Path) -> ShimChannel:
        """Listen. A socket that an earlier life of ours left behind is replaced."""
        ear, listening = cls(path), _bind(path)
        try:
            ear._server = await asyncio.start_unix_server(
                ear._hear, sock=listening, limit=_MAX_LINE_BYTES, start_serving=False
            )
            await ear._server.start_serving()
        except BaseException:
            await ear.close(is_over=True)
            listening.close()
            raise
        return ear

    def expect(self, shim_pid: int) -> None:
        """Hear this process and no other. Who connected before waits until this is known."""
        if not self._shim.done():
            self._shim.set_result(shim_pid)

    def attach(
        self,
        tell: Callable[[Told], None],
        on_anomaly: Callable[[Anomaly], None],
        declared: NativeStatus | None,
        pid: int,
    ) -> None:
        """Pass on what was heard, and what will be: of process `pid`, whose profile declares this native status."""
        self._listener = _Listener(tell, on_anomaly, declared, pid)
        waiting, self._waiting = self._waiting, []
        for pass_on in waiting:
            pass_on()

    async def close(self, *, is_over: bool) -> None:
        """Hear no more. `is_over`: nobody will listen here again, so the socket goes as well."""
        if self._server is not None:
            self._server.close()
        hearing = tuple(self._hearing)
        for task in hearing:
            task.cancel()
        await asyncio.gather(*hearing, return_exceptions=True)
        if is_over:
            self.path.unlink(missing_ok=True)

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._hearing.add(task)
        is_heard = False
        try:
            is_heard = await self._is_shim(writer)
            while is_heard and (line := await reader.readline()):
                self._take(line)
        except (ValueError, OSError, asyncio.CancelledError):
            # A line beyond every bound, or a broken connection: it comes back and says how things stand. Or we are
            # closed, and nobody awaits this task but `close`.
            pass
        finally:
            self._hearing.discard(task)
            writer.close()
            if is_heard:
                self.was_cut = self.began.done() and not self.ended.done()
                self._tell(lambda session, now: session.on_channel(_RUNG, now, is_open=False))

    async def _is_shim(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the shim of this agent is at the other end. One of another user, or another process, is noted."""
        peer = peer_of(writer.get_extra_info("socket"))
        if peer is None:
            return True
        pid, uid = peer
        if uid == os.geteuid() and pid == await asyncio.shield(self._shim):
            return True
        message = f"process {pid} of user {uid} wrote to the status socket of this agent, and is not its shim"
        self._note(Anomaly(kind="status_writer_refused", source=_RUNG.value, message=message))
        return False

    def _tell(self, told: Told) -> None:
        if self._listener is None:
            self._waiting.append(lambda: self._tell(told))
        else:
            self._listener.tell(told)

    def _take(self, line: bytes) -> None:
        listener, head = self._listener, _head_of(line)
        at = min(head.at_monotonic_seconds, asyncio.get_running_loop().time())
        declared, pid = (None, None) if listener is None else (listener.declared, listener.pid)
        news = read_shim_line(line, at_seconds=at, declared=declared, pid=pid)
        match news:
            case Began():
                self.was_cut = False
                if not self.began.done() and head.pid > 0:
                    self.began.set_result(head.pid)
                self._tell(lambda session, now: session.on_channel(_RUNG, now, is_open=True))
            case ShimEnded():
                # The pane tells the tracker of the end: until it does, its last screen would look like a new program.
                if not self.ended.done():
                    self.ended.set_result(news)
            case SourceReading() if listener is None:
                self._waiting.append(lambda: self._take(line))
            case SourceReading(claims, anomalies):
                for anomaly in anomalies:
                    self._note(anomaly)
                if claims:
                    self._tell(lambda session, now: session.on_claims(claims, now))

    def _note(self, anomaly: Anomaly) -> None:
        """Tell of each kind of surprise once."""
        kind = (anomaly.kind, anomaly.message)
        if kind in self._anomalies or len(self._anomalies) >= _MAX_ANOMALIES:
            return
        self._anomalies.add(kind)
        if self._listener is None:
            self._waiting.append(lambda: self._pass_on(anomaly))
        else:
            self._pass_on(anomaly)

    def _pass_on(self, anomaly: Anomaly) -> None:
        assert self._listener is not None
        self._listener.on_anomaly(anomaly)


def peer_of(connection: socket.socket) -> tuple[int, int] | None:
    """The process and the user at the other end, by the word of the system; None where it does not tell."""
    return host().peer_of(connection)


def _bind(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise UsageError(f"{path} is too long for a socket", remedy="choose a run folder with a shorter path")
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(os.fspath(path))
        path.chmod(0o600)
    except OSError as error:
        listening.close()
        raise UsageError(f"{path} cannot be listened on ({error.strerror})", remedy="check the run folder") from error
    return listening


def _head_of(line: bytes) -> _Head:
    try:
        return msgspec.json.decode(line, type=_Head)
    except msgspec.MsgspecError:
        return _Head()
