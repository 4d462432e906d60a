"""Run the command line as a user does: another process, its exit code, its two outputs."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

COMMAND = (sys.executable, "-m", "interlock.cli")


def interlock(*args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `interlock ARGS` with pipes."""
    return _run((*COMMAND, *args), env)


def python(code: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a few lines of Python in a fresh interpreter."""
    return _run((sys.executable, "-c", code), env)


def _run(command: tuple[str, ...], env: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **(env or {})},
        timeout=30,
        check=False,
    )


def on_a_terminal(*args: str, env: Mapping[str, str] | None = None) -> str:
    """Run `interlock ARGS` with a pseudo-terminal as its stdout, and return all that it wrote there."""
    ours, theirs = pty.openpty()
    try:
        settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(env or {})}
        process = subprocess.Popen((*COMMAND, *args), stdin=subprocess.DEVNULL, stdout=theirs, env=settings)
    finally:
        os.close(theirs)
    with process:
        written = _drain(ours)
    assert process.returncode == 0
    return written.decode()


def _drain(descriptor: int) -> bytes:
    """Read until the other side is gone: an empty read on macOS, EIO on Linux."""
    written = b""
    with os.fdopen(descriptor, "rb", buffering=0) as source:
        while True:
            try:
                piece = source.read(65536)
            except OSError:
                return written
            if not piece:
                return written
            written += piece


FULL_DEVICE = Path("/dev/full")
