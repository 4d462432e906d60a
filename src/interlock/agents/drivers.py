"""Every driver there is, by name. A driver is imported when it is asked for: most of them need something heavy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from interlock.agents.evidence.hooks import hook_socket
from interlock.agents.port import Driver
from interlock.agents.tmux.server import TmuxServer, run_folder
from interlock.log.paths import default_home
from interlock.monitor.policy import DEFAULT_POLICIES, MonitorPolicies
from interlock.vocabulary.errors import UsageError

TERMINAL: Final = "terminal"
DRIVERS: Final[Mapping[str, tuple[str, str]]] = {
    "claude-stream": ("interlock.agents.streams.claude.driver", "ClaudeStreamDriver"),
    "codex-app-server": ("interlock.agents.streams.codex.app_server", "CodexAppServerDriver"),
    "codex-exec": ("interlock.agents.streams.codex.exec", "CodexExecDriver"),
    "gemini-stream": ("interlock.agents.streams.gemini", "GeminiStreamDriver"),
    "qwen-stream": ("interlock.agents.streams.qwen", "QwenStreamDriver"),
    "opencode-serve": ("interlock.agents.streams.opencode.driver", "OpencodeDriver"),
    "pi-rpc": ("interlock.agents.streams.pi.driver", "PiDriver"),
    "acp": ("interlock.agents.acp.driver", "AcpDriver"),
    "model": ("interlock.agents.model.driver", "ModelDriver"),
    TERMINAL: ("interlock.agents.terminal.driver", "TerminalDriver"),
    "observed": ("interlock.agents.observed.driver", "ObservedDriver"),
}
TELLS_COST: Final = frozenset({"claude-stream", "opencode-serve", "pi-rpc"})
"""The drivers whose agents report what a turn cost."""
TELLS_NOTHING: Final = frozenset({TERMINAL, "observed"})
"""The drivers whose agents report no usage, as far as it is asked for."""


def driver(name: str, home: Path | None = None, monitor: MonitorPolicies = DEFAULT_POLICIES) -> Driver:
    """The driver of that name, with its defaults. `home` is where it may keep sockets; by default, our state folder.
    `monitor`: how long the screens of terminals are watched before something is concluded from them."""
    if name not in DRIVERS:
        raise UsageError(f"there is no driver {name!r}", remedy=f"the drivers are {', '.join(DRIVERS)}")
    module, made = DRIVERS[name]
    found = getattr(import_module(module), made)
    if name == TERMINAL:
        from interlock.agents.terminal.handle import TerminalPolicy

        home = (home or default_home(os.environ)).absolute()
        own = TmuxServer.of_home(home)
        return cast("Driver", found(run_folder(home), own, TerminalPolicy(monitor), hook_socket=hook_socket(home)))
    return cast("Driver", found())


def builtin_drivers(
    home: Path | None = None, names: Iterable[str] = DRIVERS, monitor: MonitorPolicies = DEFAULT_POLICIES
) -> tuple[Driver, ...]:
    """Some drivers, or all of them."""
    return tuple(driver(name, home, monitor) for name in names)
