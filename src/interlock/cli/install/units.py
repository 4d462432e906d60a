"""The files that let a service manager run the server: a systemd user unit, and a launchd agent.

Laws:
1. Each file bears a mark. One without it is somebody else's: it is neither overwritten nor removed.
2. Stopping the service ends the server alone: agents in tmux live on and are found again, as after `interlock down`.
3. The service gets the PATH of the person who installed it: agents are found by the same names as in their shell.
"""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

Manager: TypeAlias = Literal["systemd", "launchd"]

UNIT_NAME: Final = "interlock.service"
LABEL: Final = "dev.interlock.server"
MARK: Final = "Made by `interlock service install`"
_KEPT_VARIABLES: Final = ("PATH", "INTERLOCK_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


class ServiceFile(NamedTuple):
    """A file of a service manager: where it belongs, what it says, and the commands that start and end its service."""

    path: Path
    content: bytes
    start: tuple[tuple[str, ...], ...]
    end: tuple[tuple[str, ...], ...]
    reload: tuple[tuple[str, ...], ...]


def default_manager() -> Manager:
    return "launchd" if sys.platform == "darwin" else "systemd"


def service_file(manager: Manager, home: Path, environ: Mapping[str, str] = os.environ) -> ServiceFile:
    """The file for the server of this home."""
    command = [sys.executable, "-P", "-m", "interlock.cli", "up", "--foreground", "--home", str(home.absolute())]
    kept = {name: environ[name] for name in _KEPT_VARIABLES if environ.get(name)}
    return _systemd(command, kept, environ) if manager == "systemd" else _launchd(command, kept, home)


def _systemd(command: list[str], kept: Mapping[str, str], environ: Mapping[str, str]) -> ServiceFile:
    lines = [
        f"# {MARK}; `interlock service remove` takes it away.",
        "[Unit]",
        "Description=Interlock: runs and watches AI coding agents",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in command)}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in kept.items()),
        "# The agents live in tmux, and go on without the server.",
        "KillMode=process",
        "Restart=on-failure",
        "RestartSec=5",
        "TimeoutStopSec=60",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    folder = (base if base.is_absolute() else Path.home() / ".config") / "systemd" / "user"
    ask = ("systemctl", "--user")
    return ServiceFile(
        path=folder / UNIT_NAME,
        content="\n".join(lines).encode(),
        start=((*ask, "daemon-reload"), (*ask, "enable", "--now", UNIT_NAME)),
        end=((*ask, "disable", "--now", UNIT_NAME),),
        reload=((*ask, "daemon-reload"),),
    )


def _quoted(word: str) -> str:
    """A word as systemd reads it: `%` begins a specifier, a backslash an escape."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _launchd(command: list[str], kept: Mapping[str, str], home: Path) -> ServiceFile:
    told = {
        "Label": LABEL,
        "ProgramArguments": command,
        "EnvironmentVariables": dict(kept),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        # As `KillMode=process` of systemd: what the server started is left alone when it ends.
        "AbandonProcessGroup": True,
        "ProcessType": "Interactive",
        "StandardErrorPath": str(home.absolute() / "service.log"),
        "Comment": MARK,
    }
    path = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    return ServiceFile(
        path=path,
        content=plistlib.dumps(told),
        start=(("launchctl", "bootstrap", domain, str(path)),),
        end=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
        reload=(),
    )


def is_ours(path: Path) -> bool:
    """Whether a file of that name bears our mark."""
    try:
        return MARK.encode() in path.read_bytes()
    except OSError:
        return False
