"""The command that an agent's settings name for our hooks, and how it is known again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from interlock.agents.evidence import hook_program

MARKER: Final = "|| : interlock-hook"
"""Ends every command of ours. It makes the shell say 0 as well if the interpreter itself is gone."""

TIMEOUT_SECONDS: Final = 5
"""What an agent waits for the program at most. It ends by itself long before."""


def hook_command(cli: str) -> str:
    """A line for `sh` that runs the hook program with this very interpreter, and is silent whatever happens.

    `-I -S`: neither the agent's folder nor the user's packages are looked at, and the start takes half the time.
    """
    program = Path(hook_program.__file__).absolute()
    words = (sys.executable, "-I", "-S", str(program), cli)
    return f"{shlex.join(words)} >/dev/null 2>&1 {MARKER}"


def is_ours(command: object) -> bool:
    """Whether a command was written by an `interlock hooks install`, of whatever version and place."""
    return isinstance(command, str) and command.rstrip().endswith(MARKER)
