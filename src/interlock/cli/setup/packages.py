"""The commands that install what is missing, as this machine installs programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final

from interlock.client.opening import NPM_PACKAGES

# The package managers that we know, each with the words before a package's name.
_MANAGERS: Final = (
    ("apt-get", "apt-get install"),
    ("dnf", "dnf install"),
    ("pacman", "pacman -S"),
    ("zypper", "zypper install"),
    ("apk", "apk add"),
    ("brew", "brew install"),
)
_AS_USER: Final = "brew"
_FIRST_AGENT: Final = "claude"


def install_command(package: str, described: str = "") -> str:
    """The command that installs a package of the system; in words where no package manager is known."""
    for program, words in _MANAGERS:
        if shutil.which(program):
            needs_root = program != _AS_USER and os.geteuid() != 0
            return f"{'sudo ' if needs_root else ''}{words} {package}"
    return f"install {described or package}"


def install_agent() -> str:
    """The command that installs an agent, with what it needs."""
    command = f"npm install -g {NPM_PACKAGES[_FIRST_AGENT]}"
    return command if shutil.which("npm") else f"{install_command('npm', 'Node.js with npm')}; then {command}"


def tool_manager() -> str:
    """What installed this program: `uv tool`, `pipx` or `pip`, by where it is."""
    parts = Path(sys.prefix).parts
    pairs = set(pairwise(parts))
    if ("uv", "tools") in pairs:
        return "uv tool"
    return "pipx" if ("pipx", "venvs") in pairs else "pip"


def add_extras_command(extras: Iterable[str]) -> str:
    """The command that adds extras to this installation."""
    wanted = ",".join(extras)
    match tool_manager():
        case "uv tool":
            return f"uv tool install --force 'interlock[{wanted}]'"
        case "pipx":
            return f"pipx install --force 'interlock[{wanted}]'"
        case _:
            return f"pip install 'interlock[{wanted}]'"


def remove_program_command() -> str:
    """The command that removes this program itself."""
    return {
        "uv tool": "uv tool uninstall interlock",
        "pipx": "pipx uninstall interlock",
        "pip": f"'{sys.executable}' -m pip uninstall interlock",
    }[tool_manager()]
