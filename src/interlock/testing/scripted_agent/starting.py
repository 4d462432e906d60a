"""How to start a scripted agent."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.testing.scripted_agent.options import TUI


def command(
    face: str = TUI,
    *,
    ledger: str | os.PathLike[str] | None = None,
    gates: str | os.PathLike[str] | None = None,
    script: str | os.PathLike[str] | None = None,
    start: str = "",
    traps: tuple[str, ...] = (),
    lifetime_seconds: int = 0,
) -> tuple[str, ...]:
    """The argument list of an agent with that face: `tui`, `stream-json` or `acp`. `lifetime_seconds`: it dies after so
    long; 0: never."""
    argv = [sys.executable, "-m", "interlock.testing.scripted_agent", f"--{face}"]
    for name, value in (("--ledger", ledger), ("--gates", gates), ("--script", script)):
        if value is not None:
            argv += [name, os.fspath(value)]
    if start:
        argv += ["--start", start]
    if traps:
        argv += ["--traps", ",".join(traps)]
    if lifetime_seconds:
        argv += ["--lifetime", str(lifetime_seconds)]
    return tuple(argv)


def write_program(path: str | os.PathLike[str], argv: Sequence[str]) -> str:
    """A program file that runs the command with whatever further arguments it gets, and its path.

    For drivers that put arguments of their own right behind the program's name.
    """
    program = Path(path)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return str(program)
