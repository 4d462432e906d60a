"""One command, run to its end: by itself, or at its deadline. Blocking; the end of its output is kept."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEPT_BYTES: Final = 64 * 1024
_CHUNK: Final = 1 << 16
_SLICE: Final = 1.0
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TMPDIR")


def minimal_environment() -> dict[str, str]:
    """What a command gets of our own environment: where programs and files are, and no secrets."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended. `exit_code` is None where it was ended at its deadline, and negative after a signal.
    `output` is the end of what it said, as text that can be kept."""

    exit_code: int | None
    output: str
    seconds: float


def run_command(argv: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float) -> CommandEnd:
    """Run a command without a shell and without input, in a process group of its own, which ends with it: also what it
    left running there. `OSError` where it cannot be started."""
    began = time.monotonic()
    process = subprocess.Popen(
        list(argv),
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    said = bytearray()
    with process:
        try:
            is_over = _listen(process, said, began + seconds)
        finally:
            # While a group has members, its number is given to no new process.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    code = process.returncode if is_over else None
    words = said.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip()
    return CommandEnd(exit_code=code, output=words, seconds=time.monotonic() - began)


def _listen(process: subprocess.Popen[bytes], said: bytearray, until: float) -> bool:
    """Read until the command is over; False: it took too long. What it left running may keep the pipe open."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < until:
            if waiting.select(min(_SLICE, max(0.0, until - time.monotonic()))):
                piece = os.read(process.stdout.fileno(), _CHUNK)
                said.extend(piece)
                del said[:-_KEPT_BYTES]
                if not piece:
                    break
            elif process.poll() is not None:
                return True
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    return process.poll() is not None
