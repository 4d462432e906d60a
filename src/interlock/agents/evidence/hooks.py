"""Hearing the hooks of agents: a socket of our own, and one record for each hook that fired.

Laws:
1. Only we can reach the socket: it is 0600 in a folder that is 0700. One that somebody listens on is never taken over.
2. Nothing that is sent here costs more than a bound: of size, of time, of connections at once, of records kept.
3. What is not as our hook program writes it is counted as refused, and not heard.

A spawn id says in whose process tree a hook fired, not that the agent itself did: an agent that starts another one
passes its environment on. So compare the session as well (`session_id`) before a hook is believed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, runtime_checkable

import msgspec

from interlock.agents.evidence.hook_program import MAX_PAYLOAD_BYTES
from interlock.log.host import host
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.foreign_json import decode_object
from interlock.vocabulary.ids import SpawnId

SOCKET_FOLDER: Final = "hooks"
SOCKET_NAME: Final = "socket"
_MAX_LINE_BYTES: Final = MAX_PAYLOAD_BYTES + 4096
_MAX_CONNECTIONS: Final = 64
_MAX_WAITING: Final = 1024
_READ_SECONDS: Final = 2.0
# A socket's address holds 108 bytes on Linux and 104 elsewhere.
_MAX_ADDRESS_BYTES: Final = 100
# How long ago a hook may say that it fired. One that says more has another clock than we.
_MAX_AGE_SECONDS: Final = 10.0


def hook_socket(home: Path) -> Path:
    """Where the runtime of this home listens. The hook program finds the same place by itself."""
    return home / SOCKET_FOLDER / SOCKET_NAME


@dataclass(frozen=True, slots=True)
class HookHeard:
    """A hook fired. `at_seconds` is when, by the clock of the event loop; `payload` is what the agent gave it."""

    spawn_id: SpawnId | None
    payload: Mapping[str, object] = field(repr=False)
    at_seconds: float
    cli: str = ""

    @property
    def event(self) -> str:
        return self._text("hook_event_name")

    @property
    def session_id(self) -> str:
        """The agent's own name of its session."""
        return self._text("session_id")

    @property
    def transcript_path(self) -> str:
        return self._text("transcript_path")

    @property
    def cwd(self) -> str:
        return self._text("cwd")

    def _text(self, name: str) -> str:
        value = self.payload.get(name)
        return value if isinstance(value, str) else ""


class _Sent(msgspec.Struct, frozen=True):
    """One line of the hook program."""

    payload: dict[str, object]
    fired_unix_seconds: float = 0.0
    spawn_id: str = ""
    cli: str = ""


@runtime_checkable
class HearsHooks(Protocol):
    """An agent that takes in the hooks of its own process tree."""

    def hear_hook(self, heard: HookHeard) -> None: ...


class HookListener:
    """Listens inside `async with`; iterate over it for what is heard. It goes on until the block is left."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._heard: asyncio.Queue[HookHeard] = asyncio.Queue(_MAX_WAITING)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._inode = 0
        self.refused: Counter[str] = Counter()
        """How often something was not heard, by reason: `size`, `slow`, `busy`, `full`, `malformed`."""

    async def __aenter__(self) -> Self:
        _make_folder(self._path.parent)
        _clear_stale(self._path)
        listening = _bind(self._path)
        try:
            self._inode = self._path.lstat().st_ino
            self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=_MAX_LINE_BYTES)
        except BaseException:
            listening.close()
            self._unlink()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._unlink()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> HookHeard:
        return await self._heard.get()

    def _unlink(self) -> None:
        """Remove our socket, and never that of somebody who came after us."""
        with suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            self.refused["busy"] += 1
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._take(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                line = await reader.readuntil(b"\n")
            self._keep(line)
        except TimeoutError:
            self.refused["slow"] += 1
        except asyncio.LimitOverrunError:
            self.refused["size"] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            self.refused["malformed"] += 1
        finally:
            writer.close()

    def _keep(self, line: bytes) -> None:
        heard = read_line(line, at_seconds=asyncio.get_running_loop().time(), unix_seconds=time.time())
        if heard is None:
            self.refused["malformed"] += 1
            return
        try:
            self._heard.put_nowait(heard)
        except asyncio.QueueFull:
            self.refused["full"] += 1


def read_line(line: bytes, *, at_seconds: float, unix_seconds: float) -> HookHeard | None:
    """One line of the hook program, read now by both clocks; None if it is none."""
    try:
        sent = msgspec.convert(decode_object(line), _Sent)
    except msgspec.ValidationError:
        return None
    age = unix_seconds - sent.fired_unix_seconds
    waited = age if 0 <= age <= _MAX_AGE_SECONDS else 0.0
    return HookHeard(SpawnId(sent.spawn_id) if sent.spawn_id else None, sent.payload, at_seconds - waited, sent.cli)


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise UsageError(f"{folder} is not a folder of ours", remedy="move it away, or choose another INTERLOCK_HOME")
    folder.chmod(0o700)


def _clear_stale(path: Path) -> None:
    """Remove a socket that nobody listens on. `Unreachable` if somebody does, or if it is something else."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_socket() or path.is_symlink():
        raise Unreachable(f"{path} is no socket; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            with _short(path) as address:
                probe.connect(address)
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                raise Unreachable(f"cannot tell what listens on {path}: {error.strerror}") from error
            path.unlink(missing_ok=True)
            return
    raise Unreachable(f"another runtime listens on {path}")


def _bind(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as address:
            listening.bind(address)
        path.chmod(0o600)  # nobody could get at it before, for the folder is closed
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """An address that fits for a socket whose path may be long: by way of its open folder."""
    if len(os.fsencode(path)) <= _MAX_ADDRESS_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        address = host().folder_address(folder)
        if address is None:
            raise UsageError(f"the path of {path} is too long for a socket", remedy="shorten INTERLOCK_HOME")
        yield f"{address}/{path.name}"
    finally:
        os.close(folder)
