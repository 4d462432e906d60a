"""Hearing the shim of one agent: when its program began, what it says of itself, and how it ended.

The socket belongs to us and is reached by nobody else (0600, in a folder of 0700). The shim comes back to it each
second, so a runtime that was started anew hears it again, with everything that stands.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from interlock.agents.live import Told
from interlock.agents.tmux.server import MAX_SOCKET_BYTES
from interlock.monitor.arbitration_claims import Claim, SourceReading
from interlock.monitor.sources.shim_lines import Began, Ended, read_shim_line
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.vocabulary.audit import Anomaly
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.evidence import EvidenceSource

_MAX_LINE_BYTES: Final = 1 << 20
_RUNG: Final = EvidenceSource.NATIVE_STATUS


class _Started(Struct, frozen=True):
    pid: int = 0


class ShimEar:
    """Listens from `open` to `close`. What is heard before `attach` is kept until then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.was_cut = False
        """A shim that spoke to us went away without telling how its program ended."""
        self._server: asyncio.Server | None = None
        self._hearing: set[asyncio.Task[None]] = set()
        self._waiting: list[Told] = []
        self._tell: Callable[[Told], None] = self._waiting.append
        self._anomaly: Callable[[Anomaly], None] = lambda _: None

    @classmethod
    async def open(cls, path: Path) -> ShimEar:
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

    def attach(self, tell: Callable[[Told], None], on_anomaly: Callable[[Anomaly], None]) -> None:
        """Pass on what was heard, and what will be."""
        self._tell, self._anomaly = tell, on_anomaly
        for told in self._waiting:
            tell(told)
        self._waiting.clear()

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
        try:
            while line := await reader.readline():
                self._take(line)
        except (ValueError, OSError, asyncio.CancelledError):
            # A line beyond every bound, or a broken connection: it comes back and says how things stand. Or we are
            # closed, and nobody awaits this task but `close`.
            pass
        finally:
            self._hearing.discard(task)
            writer.close()
            self.was_cut = self.began.done() and not self.ended.done()
            self._tell(lambda session, now: session.on_channel(_RUNG, now, is_open=False))

    def _take(self, line: bytes) -> None:
        news = read_shim_line(line, at_seconds=asyncio.get_running_loop().time())
        match news:
            case Began():
                self.was_cut = False
                if not self.began.done() and (pid := _pid_in(line)) > 0:
                    self.began.set_result(pid)
                self._tell(lambda session, now: session.on_channel(_RUNG, now, is_open=True))
            case Ended():
                # The pane tells the tracker of the end: until it does, its last screen would look like a new program.
                if not self.ended.done():
                    self.ended.set_result(news)
            case SourceReading(claims, anomalies):
                for anomaly in anomalies:
                    self._anomaly(anomaly)
                self._tell(_standing(claims))


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


def _standing(claims: tuple[Claim, ...]) -> Told:
    """What the program says stands until it says otherwise: so it is said now, whenever it was said first."""

    def take_in(session: TuiTrackerSession, now: float) -> Verdict:
        return session.on_claims([replace(claim, at_seconds=now) for claim in claims], now)

    return take_in


def _pid_in(line: bytes) -> int:
    try:
        return msgspec.json.decode(line, type=_Started).pid
    except msgspec.MsgspecError:
        return 0
