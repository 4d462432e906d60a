"""What `interlock` says on a home that was never used: what it found, and the next three steps. Starts nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

_LINE: Final = "  {:<44}{}"


def is_first_run(home: Path) -> bool:
    """Whether nobody has used this home."""
    from interlock.log.paths import DATABASE_NAME

    return not (home / DATABASE_NAME).exists()


def greeting(home: Path) -> str:
    """The text for a newcomer; commands as they are typed."""
    from interlock.cli.setup.packages import install_agent, install_command
    from interlock.runtime.config.sections import BUILTIN_AGENTS

    agents = [name for name, one in BUILTIN_AGENTS.items() if one.argv and shutil.which(one.argv[0])]
    has_tmux = shutil.which("tmux") is not None
    found = [*(["tmux"] if has_tmux else []), *agents]
    lines = [
        "Welcome to Interlock. It runs and watches AI coding agents on this machine.",
        "",
        f"Home:   {home} (empty)",
        f"Found:  {', '.join(found) or 'neither tmux nor an agent'}",
    ]
    if not agents:
        lines.append("Agents: none is installed yet")
    lines += ["", "Next:"]
    if not has_tmux:
        lines.append(_LINE.format(install_command("tmux", "tmux 3.2 or newer"), "agents run in it"))
    if agents:
        steps = (
            (f'interlock run {agents[0]} "Say hello"', "start an agent on a prompt"),
            ("interlock", "watch and answer all agents, in a terminal"),
            ("interlock doctor", "check versions, sign-in and hooks"),
        )
    else:
        steps = (
            ("interlock demo", "try it with scripted agents"),
            (install_agent(), "install an agent"),
            ("interlock doctor", "check this machine"),
        )
    lines += [_LINE.format(command, f" {text}") for command, text in steps]
    return "\n".join([*lines, "", "All commands: interlock --help"])


def first_run_text() -> str:
    """The greeting, where the home of this user was never used; else blank."""
    from interlock.log.paths import default_home

    try:
        home = default_home(os.environ)
    except RuntimeError:  # without HOME, and unknown to the system
        return ""
    return greeting(home) if is_first_run(home) else ""
