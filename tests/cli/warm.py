"""A warm interpreter that gives birth to a process for each command line.

A cold start costs more than most of what a command does. Here the modules are imported once, and each command line is a
fork: a process of its own, with its own number, descriptors, environment, folder and end. What a cold start alone can
show (what is imported, how `python -m` begins) is not tested this way: see `harness.cold`. One warm interpreter has the
modules of one program, the commands or the server, so that neither pays for the other.

Laws:
1. A command gets the very descriptors that it is given, also none at all, and nothing of its parent's.
2. Its end is that of an interpreter: threads are waited for, exit handlers run, the last flush, the code. Only the
   modules are not taken apart one by one, which costs more than the command.
3. The warm one ends when nobody holds its socket any more.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn, TextIO

MAX_REQUEST_BYTES: Final = 1024 * 1024
CLOSED: Final = -1
COMMANDS: Final = "commands"
SERVER: Final = "server"
_HIGH: Final = 200
_CANNOT_FLUSH: Final = 120
_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def serve(control: socket.socket, program: str) -> int:
    """Fork for each request until the other side is gone."""
    main = _preload_server() if program == SERVER else _preload_commands()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to collect those who watch
    while True:
        request, descriptors = _receive(control)
        if request is None:
            return 0
        if os.fork():
            for one in descriptors:
                os.close(one)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        if _is_command(request, descriptors):
            _live(request, main)
        os._exit(0)


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

    from interlock.server.__main__ import main

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


def _is_command(request: dict[str, Any], descriptors: list[int]) -> bool:
    """Fork once more. The one that watches tells the number and then the end; the other is the command."""
    *given, reply_descriptor = descriptors
    reply = socket.socket(fileno=reply_descriptor)
    is_ready, ready = os.pipe()
    pid = os.fork()
    if pid:
        for one in (*given, ready):
            os.close(one)
        os.read(is_ready, 1)  # it is what it should be, and hears signals as that
        reply.sendall(f"{pid}\n".encode())
        # Where the terminal's Ctrl-C reaches the whole group, the watcher has to outlive the command.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _, status = os.waitpid(pid, 0)
        reply.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        return False
    reply.close()
    os.close(is_ready)
    _become(request, given, ready)
    return True


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
