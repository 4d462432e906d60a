"""Run the command line as a user does: another process, its exit code, its two outputs."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.cli.births import bear, is_possible

COMMAND = (sys.executable, "-m", "interlock.cli")
RUN_SECONDS: Final = 100.0


def interlock(*args: str, env: Mapping[str, str] | None = None, prepare: str = "") -> subprocess.CompletedProcess[str]:
    """Run `interlock ARGS` with pipes: a process of its own, in which the modules are there already.

    `prepare` names a function, module:name, that the process calls first.
    """
    settings = {**os.environ, **(env or {})}
    if not is_possible(settings):
        assert not prepare, "a cold start calls nothing first"
        return cold(*args, env=env)
    with Path(os.devnull).open("rb") as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        born = bear(args, settings, stdin=nothing, stdout=out, stderr=err, prepare=prepare)
        try:
            code = born.wait(RUN_SECONDS)
        except BaseException:
            born.kill()
            born.wait()
            raise
        return subprocess.CompletedProcess(born.args, code, _text(out.fileno()), _text(err.fileno()))


def _text(descriptor: int) -> str:
    """All that was written to a file, line ends as `subprocess` gives them."""
    with os.fdopen(os.dup(descriptor), encoding="utf-8") as file:
        file.seek(0)
        return file.read()


def cold(*args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The same from a cold start: a new interpreter that imports what it needs."""
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
        timeout=RUN_SECONDS,
        check=False,
    )


def on_a_terminal(*args: str, env: Mapping[str, str] | None = None) -> str:
    """Run `interlock ARGS` with a pseudo-terminal as its stdout, and return all that it wrote there."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(env or {})}
    try:
        assert is_possible(settings)
        with Path(os.devnull).open("rb") as nothing:
            process = bear(args, settings, stdin=nothing, stdout=theirs, stderr=sys.__stderr__)
    finally:
        os.close(theirs)
    written = _drain(ours)
    assert process.wait() == 0
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
