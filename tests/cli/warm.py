"""A warm interpreter that gives birth to a process for each command line.

A cold start costs more than most of what a command does. Here the modules are imported once, and each command line is a
fork: a process of its own, with its own number, descriptors, environment, folder and end. What a cold start alone can
show (what is imported, how `python -m` begins) is not tested this way: see `harness.cold`. One warm interpreter has the
modules of one program, the commands or the server, so that neither pays for the other.

Laws:
1. A command gets the very descriptors that it is given, also none at all, and nothing of its parent's.
2. Its end is that of an interpreter: threads are waited for, exit handlers run, the last flush, the code. Only the
   modules are not taken apart one by one, which costs more than the command.
3. The warm one ends when nobody holds its socket any more, and so do the commands that go on then.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

MAX_REQUEST_BYTES: Final = 1024 * 1024
CLOSED: Final = -1
COMMANDS: Final = "commands"
SERVER: Final = "server"
_HIGH: Final = 200
_CANNOT_FLUSH: Final = 120
_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def serve(control: socket.socket, program: str) -> int:
    """Fork for each request, and tell of each end, until the other side is gone."""
    main = _preload_server() if program == SERVER else _preload_commands()
    ended, ends = socket.socketpair()
    ended.setblocking(False)
    ends.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Where a terminal's Ctrl-C reaches the whole group, we have to outlive the commands.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(ends.fileno(), warn_on_full_buffer=False)
    replies: dict[int, socket.socket] = {}
    while True:
        readable, _, _ = select.select([control, ended], [], [])
        if ended in readable:
            ended.recv(4096)
            _tell_ends(replies)
        if control not in readable:
            continue
        request, descriptors = _receive(control)
        if request is None:
            for pid in replies:  # a run of the tests that was killed leaves no server behind
                os.kill(pid, signal.SIGTERM)
            return 0
        *given, reply = descriptors
        pid, ready = _fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for ours in (control, ended, ends, *replies.values()):
                ours.close()
            os.close(reply)
            _become(request, given, ready)
            _live(request, main)
        for one in given:
            os.close(one)
        os.read(ready, 1)  # it is what it should be, and hears signals as that
        os.close(ready)
        replies[pid] = socket.socket(fileno=reply)
        _send(replies[pid], pid)


def _fork() -> tuple[int, int]:
    """The number of the child, 0 in the child itself, and each one's end of a pipe."""
    is_ready, ready = os.pipe()
    pid = os.fork()
    os.close(ready if pid else is_ready)
    return pid, is_ready if pid else ready


def _tell_ends(replies: dict[int, socket.socket]) -> None:
    """Say of each command that has ended how it did."""
    while replies:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with replies.pop(pid) as reply:
            _send(reply, os.waitstatus_to_exitcode(status))


def _send(reply: socket.socket, number: int) -> None:
    with suppress(OSError):  # nobody waits for it any more
        reply.sendall(f"{number}\n".encode())


def _live(request: dict[str, Any], main: Callable[[], object]) -> NoReturn:
    """Be the command, from `main` to the end of the interpreter."""
    code: object = 1
    try:
        _prepare(request["prepare"])
        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            code = _CANNOT_FLUSH
    os._exit(code if isinstance(code, int) else 1)


def _prepare(named: str) -> None:
    """Call a function of the tests first, such as one that shortens a wait."""
    if named:
        import importlib

        module, _, name = named.partition(":")
        getattr(importlib.import_module(module), name)()


def _preload_commands() -> Callable[[], object]:
    import gc
    import importlib

    from interlock.cli import main
    from interlock.cli.commands import COMMANDS

    importlib.import_module("interlock.cli.app")
    for command in COMMANDS:
        importlib.import_module(command.target.partition(":")[0])
    for name in (
        *(
            "asyncio.base_events",
            "encodings.idna",
            "interlock.runtime.config.agent_choice",
            "interlock.runtime.config.loading",
        ),
        *("cyclopts.completion", "cyclopts.help", "docstring_parser"),
    ):
        importlib.import_module(name)
    gc.freeze()
    return main


def _preload_server() -> Callable[[], object]:
    import gc

    from interlock.agents.drivers import builtin_drivers
    from interlock.server.__main__ import main
    from interlock.server.http.app import create_routes
    from interlock.server.settings import ServerSettings

    # What every server makes at its start, alike in all homes, and keeps: modules, profiles and routes.
    with tempfile.TemporaryDirectory() as folder:
        builtin_drivers(Path(folder))
    create_routes(ServerSettings().max_request_bytes)
    gc.freeze()
    return main


def _receive(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """A request: its length as a line with the descriptors, then its body."""
    head, descriptors, _, _ = socket.recv_fds(control, 16, 4)
    if not head:
        return None, []
    length, body = int(head), b""
    while len(body) < length:
        piece = control.recv(length - len(body))
        if not piece:
            return None, list(descriptors)
        body += piece
    return json.loads(body), list(descriptors)


def _become(request: dict[str, Any], given: list[int], ready: int) -> None:
    """Take on everything in which a new process would differ from us, and say so by closing `ready`."""
    if request["new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    sys.argv = ["interlock", *request["argv"]]
    # High numbers first, so that none of the three is overwritten while it is still needed.
    os.set_inheritable(os.dup2(ready, _HIGH + 3), False)
    os.close(ready)
    spare = [CLOSED if at is None else os.dup2(given[at], _HIGH + at) for at in request["streams"]]
    for one in given:
        os.close(one)
    for number, one in enumerate(spare):
        if one == CLOSED:
            os.close(number)
        else:
            os.dup2(one, number)
    for one in set(spare) - {CLOSED}:
        os.close(one)
    if request["new_session"] and spare[0] != CLOSED and os.isatty(0):
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number, (name, mode) in enumerate(_STREAMS):
        opened = None if spare[number] == CLOSED else _open(number, mode)
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)
    os.close(_HIGH + 3)


def _open(number: int, mode: str) -> TextIO:
    """A standard stream as the interpreter makes it at its start."""
    raw = io.FileIO(number, mode, closefd=False)
    errors = "backslashreplace" if number == 2 else "strict"
    if mode == "r":
        return io.TextIOWrapper(io.BufferedReader(raw), "utf-8", errors)
    if os.environ.get("PYTHONUNBUFFERED"):
        return io.TextIOWrapper(raw, "utf-8", errors, write_through=True)
    is_by_line = number == 2 or os.isatty(number)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=is_by_line)


if __name__ == "__main__":
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]))
