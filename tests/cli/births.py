"""Processes that a warm interpreter (see `warm`) gave birth to, in the place of `subprocess` for the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from tests.cli.warm import COMMANDS, SERVER

START_SECONDS: Final = 120.0
END_SECONDS: Final = 60.0
# What the interpreter reads when it begins: a fork of a running one cannot be told.
_OF_THE_START: Final = ("PYTHON", "LC_", "LANG", "TZ")


class HasDescriptor(Protocol):
    """An open file, or whatever has a descriptor."""

    def fileno(self) -> int: ...


class Birth:
    """One command line as a process: `pid`, `poll`, `wait` and `kill` are as those of `subprocess.Popen`."""

    def __init__(self, args: Sequence[str], reply: socket.socket) -> None:
        self.args = tuple(args)
        self._reply = reply
        self._told = b""
        self.returncode: int | None = None
        self.pid = int(self._line(START_SECONDS))

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float = END_SECONDS) -> int:
        """Wait for its end; as `subprocess` counts, a signal is a negative code."""
        if self.returncode is None:
            self.returncode = int(self._line(timeout))
            self._reply.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _line(self, timeout: float) -> bytes:
        self._reply.settimeout(max(timeout, 0.0001))
        while b"\n" not in self._told:
            try:
                piece = self._reply.recv(64)
            except TimeoutError as late:
                raise subprocess.TimeoutExpired(self.args, timeout) from late
            assert piece, "whoever watches the process is gone"
            self._told += piece
        line, _, self._told = self._told.partition(b"\n")
        return line


class _Warm:
    """A warm interpreter of this process for one program, started when it is first needed."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._owner = 0

    def bear(self, request: bytes, descriptors: Sequence[int]) -> None:
        with self._lock:
            if self._control is None or self._owner != os.getpid():
                self._control, self._owner = _start(self._program), os.getpid()
            socket.send_fds(self._control, [str(len(request)).encode().rjust(16)], descriptors)
            self._control.sendall(request)


def _start(program: str) -> socket.socket:
    ours, theirs = socket.socketpair()
    folder = str(Path(__file__).parents[2])
    with theirs:
        process = subprocess.Popen(
            (sys.executable, "-m", "tests.cli.warm", str(theirs.fileno()), program),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            pass_fds=(theirs.fileno(),),
        )
    process.returncode = 0  # it ends with us, and nobody is to be warned about it
    return ours


_WARM: Final = {program: _Warm(program) for program in (COMMANDS, SERVER)}


def is_possible(env: Mapping[str, str]) -> bool:
    """Whether a fork can stand for a cold start in this environment."""
    names = {name for name in {*env, *os.environ} if name.startswith(_OF_THE_START) and name != "PYTHONUNBUFFERED"}
    return all(env.get(name) == os.environ.get(name) for name in names)


def bear(
    args: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: HasDescriptor | int | None = None,
    stdout: HasDescriptor | int | None = None,
    stderr: HasDescriptor | int | None = None,
    cwd: Path | None = None,
    new_session: bool = False,
    prepare: str = "",
    program: str = COMMANDS,
) -> Birth:
    """Begin `interlock ARGS`. A stream that is None is closed. With `new_session`, a terminal as stdin is its own.

    `program` may be the server instead: `python -m interlock.server ARGS`. `prepare` names a function, module:name,
    that the process calls first.
    """
    given: list[int] = []
    streams: list[int | None] = []
    for one in (stdin, stdout, stderr):
        streams.append(None if one is None else len(given))
        given += [] if one is None else [one if isinstance(one, int) else one.fileno()]
    request = {"argv": list(args), "env": dict(env), "cwd": str(cwd or Path.cwd()), "prepare": prepare}
    ours, theirs = socket.socketpair()
    with theirs:
        body = json.dumps({**request, "streams": streams, "new_session": new_session}).encode()
        _WARM[program].bear(body, [*given, theirs.fileno()])
    return Birth(args, ours)
