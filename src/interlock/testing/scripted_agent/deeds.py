"""What an agent does beside speaking, the same in each face: it starts processes, ignores signals, makes noise."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

from interlock.testing.scripted_agent.language import number
from interlock.testing.scripted_agent.ledger import SPAWNED, Ledger

# As in `interlock.agents.port`, which is too much to import here.
SPAWN_ID_VARIABLE: Final = "INTERLOCK_SPAWN_ID"
SLEEP_SECONDS: Final = 60
_KINDS: Final = ("child", "group", "orphan", "daemon")
_NOISE: Final = b"noise on standard error, of no meaning at all, 64 bytes a line..\n"


def spawn(rest: str, ledger: Ledger) -> None:
    """Start a process that sleeps, and write down its pid once it is what it should be.

    `child` is an ordinary one, `group` leads a process group, `orphan` is re-parented, `daemon` is re-parented and
    leads a session. `stubborn` ignores TERM, INT and HUP; `holding` keeps our pipes open; `untagged` lost its spawn id.
    It ends by itself after the given seconds, so that a test that forgets it leaves nothing behind for long.
    """
    words = rest.split()
    kind = next((word for word in words if word in _KINDS), "child")
    told, tell = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        _child(kind, words, tell)
    os.close(tell)
    # The pipe closes when the process has become what it should be: until then its environment is still ours.
    pid = int(b"".join(iter(lambda: os.read(told, 64), b"")))
    os.close(told)
    if pid != first:
        os.waitpid(first, 0)
    ledger.record(SPAWNED, child=pid, kind=rest)


def _child(kind: str, words: list[str], tell: int) -> None:
    try:
        if kind == "group":
            os.setpgid(0, 0)
        if kind == "daemon":
            os.setsid()
        if kind in ("orphan", "daemon") and os.fork():
            os._exit(0)
        os.write(tell, b"%d" % os.getpid())
        _sleep_on(words)
    finally:
        os._exit(127)


def _sleep_on(words: list[str]) -> None:
    for name in ("TERM", "INT", "HUP") if "stubborn" in words else ():
        _handle(name, signal.SIG_IGN)
    if "holding" not in words:
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
    environment = dict(os.environ)
    if "untagged" in words:
        environment.pop(SPAWN_ID_VARIABLE, None)
    seconds = next((word for word in words if word.isdigit()), str(SLEEP_SECONDS))
    os.execvpe("sleep", ["sleep", seconds], environment)


def _handle(name: str, handler: signal.Handlers) -> None:
    signal.signal(signal.Signals[f"SIG{name}"], handler)


def ignore(rest: str) -> None:
    """Ignore the named signals from here on."""
    for name in rest.split() or ["TERM"]:
        _handle(name, signal.SIG_IGN)


def crash(rest: str) -> None:
    """Die by a signal, without a core file."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    name = rest or "KILL"
    if name not in ("KILL", "STOP"):
        _handle(name, signal.SIG_DFL)
    os.kill(os.getpid(), signal.Signals[f"SIG{name}"])


def make_noise(rest: str) -> None:
    """Write to standard error: a text, or so many bytes."""
    size = number(rest, -1)
    data = rest.encode() + b"\n" if size < 0 else (_NOISE * (size // len(_NOISE) + 1))[:size]
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def garbage(size: int) -> bytes:
    """Bytes that are neither text nor JSON, the same ones each time, with line ends among them."""
    import random

    return random.Random(size).randbytes(max(0, size - 1)) + b"\n"
