"""Things that can go wrong around a command, and what a command line that met one is held to."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from interlock.log.sqlite.store import SqliteLog
from tests.cli.births import Birth, bear
from tests.cli.named_commands import unknown_commands

BOUND_SECONDS: Final = 100.0
HUNG: Final = -1000
HASTY_SECONDS: Final = 0.2


class Met(NamedTuple):
    """What became of a command line that met a fault."""

    command: str
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class World:
    """Where a command line is run: a home, a folder, and an environment in which nothing of this machine's is."""

    home: Path
    folder: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "TMUX", "XDG"))}
        own = {"INTERLOCK_HOME": str(self.home), "HOME": str(self.folder / "person"), "TMUX_TMPDIR": str(self.folder)}
        return {**kept, **own, "PATH": f"{self.folder / 'bin'}:{kept['PATH']}", **self.extra}

    @property
    def place(self) -> Path:
        return self.folder / "here"

    def meet(self, args: Sequence[str], *, stdout: str = "file", stdin: str = "", prepare: str = "") -> Met:
        """Run a command line to its end, which is bounded.

        `stdout`: file, closed, full, or gone, which is a pipe that nobody reads.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
            given.write(stdin.encode())
            given.seek(0)
            with _stdout(stdout, out.fileno()) as descriptor:
                born = bear(args, self.env, stdin=given, stdout=descriptor, stderr=err, cwd=self.place, prepare=prepare)
            code = _end(born)
            return Met(" ".join(args), code, read_back(out.fileno()), read_back(err.fileno()))


def make_world(folder: Path, home: Path | None = None, **extra: str) -> World:
    """A world with a `claude` that does nothing, and a file of no events."""
    for name in ("person", "here", "bin"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "here" / "in.ndjson").touch()
    program = folder / "bin" / "claude"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    return World(home or folder / "home", folder, extra)


def _end(born: Birth) -> int:
    """Its exit code; what does not end is killed, and has none of the table."""
    try:
        return born.wait(BOUND_SECONDS)
    except subprocess.TimeoutExpired:
        born.kill()
        born.wait()
        return HUNG


def read_back(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read().decode(errors="replace")


def complaints(met: Met, codes: Collection[int], says: str = "", *, is_answer: bool = False) -> list[str]:
    """What is wrong with the way in which a command line ended; nothing, as a rule.

    `is_answer`: what it found is its answer, and the code says what kind of answer that is.
    """
    wrong = []
    if met.code not in codes:
        wrong.append(f"exit code {met.code}, not one of {sorted(codes)}")
    if "Traceback" in met.err + met.out or "Exception ignored" in met.err:
        wrong.append("a traceback")
    if met.code and not is_answer:
        if not any(line.startswith("interlock: ") for line in met.err.splitlines()):
            wrong.append("it does not say what is wrong")
        if met.out and not _is_json(met.out):
            wrong.append("an answer although it failed")
    wrong += [f"it names `interlock {one}`, which is no command" for one in unknown_commands(met.err)]
    if met.code and says not in met.err:
        wrong.append(f"it does not say {says!r}")
    return [f"{met.command!r}: {one}\n    stdout {met.out[-300:]!r}\n    stderr {met.err[-600:]!r}" for one in wrong]


def _is_json(text: str) -> bool:
    try:
        for line in text.splitlines():
            json.loads(line)
    except ValueError:
        return False
    return True


@contextmanager
def _stdout(kind: str, file: int) -> Iterator[int | None]:
    match kind:
        case "file":
            yield file
        case "closed":
            yield None
        case "full":
            with Path("/dev/full").open("wb") as full:
                yield full.fileno()
        case _:
            reader, writer = os.pipe()
            os.close(reader)
            try:
                yield writer
            finally:
                os.close(writer)


def fill_disk() -> None:
    """In a process of a command: a file may hold little, as on a disk that is full."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))


def hasten() -> None:
    """In a process of a command: wait less long for an answer that will not come."""
    from interlock.cli.server import api as server_api
    from interlock.cli.server import presence as server_presence
    from interlock.cli.work import retrying as acting

    for call in (server_api.ServerApi.ask, server_api.ServerApi.ask_raw):
        defaults = call.__kwdefaults__
        assert defaults is not None
        defaults["seconds"] = HASTY_SECONDS
    for module, name in ((server_api, "ANSWER"), (acting, "ANSWER"), (server_presence, "HEALTH")):
        assert hasattr(module, f"{name}_SECONDS")
        setattr(module, f"{name}_SECONDS", HASTY_SECONDS)


def hasten_health() -> None:
    """In a process of a command: wait less long for a sign of life, and as long as ever for an answer."""
    from interlock.cli.server import presence as server_presence

    assert hasattr(server_presence, "HEALTH_SECONDS")
    setattr(server_presence, "HEALTH_SECONDS", HASTY_SECONDS)  # noqa: B010  # it is final for everybody else


def strike_twice() -> None:
    """In a process of a command: Ctrl-C at once, and once more while the last words are said."""
    import signal

    import interlock.cli
    from interlock.cli import output

    say = output.error

    def strike(*_: object) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    def struck(text: str) -> None:
        say(text)
        signal.raise_signal(signal.SIGINT)

    for module, name, call in ((interlock.cli, "_dispatch", strike), (output, "error", struck)):
        assert hasattr(module, name)
        setattr(module, name, call)


def strike_while_it_is_told() -> None:
    """In a process of a command: Ctrl-C while a server is waited for, and once more in the middle of each note."""
    import signal

    from interlock.cli import output
    from interlock.cli.server import process as server_process

    def strike(*_: object) -> object:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("nobody heard it")

    def struck(stream: TextIO, text: str) -> None:
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        stream.write(text)

    for module, name, call in ((server_process, "_until_ready", strike), (output, "_write", struck)):
        assert hasattr(module, name)
        setattr(module, name, call)


# Servers that are none


@contextmanager
def false_server(home: Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """A home whose log this process holds, and whose file names a server that answers so."""
    stop = threading.Event()

    async def hold() -> None:
        async with await SqliteLog.open(home):
            held.set()
            await asyncio.to_thread(stop.wait)

    held = threading.Event()
    holding = threading.Thread(target=lambda: asyncio.run(hold()), daemon=True)
    holding.start()
    assert held.wait(BOUND_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "pid": os.getpid(), "started_at": ""}
        write_private(home / "server.json", told)
        write_private(home / "tokens.json", {"operator": "o" * 40, "observer": "b" * 40})
        threading.Thread(target=_accept, args=(listening, answer, stop), daemon=True).start()
        try:
            yield
        finally:
            stop.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
    holding.join(BOUND_SECONDS)


def _accept(listening: socket.socket, answer: Callable[[socket.socket], None], stop: threading.Event) -> None:
    kept = []
    while not stop.is_set():
        try:
            connection, _ = listening.accept()
        except OSError:
            break
        with suppress(OSError):
            answer(connection)
        kept.append(connection)
    for one in kept:
        one.close()


def silence(_connection: socket.socket) -> None:
    """Accepts, and says nothing."""


def saying(raw: bytes) -> Callable[[socket.socket], None]:
    """Says the same to everybody, and leaves."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(raw)
        connection.close()

    return answer


def http(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def write_private(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
    path.chmod(0o600)


def strike_in_the_log() -> None:
    """In a process of a command: Ctrl-C comes in the middle of an append, or else of the first look at an event."""
    import signal

    def struck(call: Callable[..., object]) -> Callable[..., object]:
        def strike(*args: object, **kwargs: object) -> object:
            done = call(*args, **kwargs)
            signal.raise_signal(signal.SIGINT)
            return done

        return strike

    name = "read" if "export" in sys.argv else "append"
    setattr(SqliteLog, name, struck(getattr(SqliteLog, name)))
