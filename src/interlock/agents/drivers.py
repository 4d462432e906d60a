"""Every driver there is, by name. A driver is imported when it is asked for: most of them need something heavy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final, cast

from interlock.agents.port import Driver
from interlock.vocabulary.errors import UsageError

DRIVERS: Final[Mapping[str, tuple[str, str]]] = {
    "claude-stream": ("interlock.agents.streams.claude", "ClaudeStreamDriver"),
    "codex-app-server": ("interlock.agents.streams.codex_app_server", "CodexAppServerDriver"),
    "codex-exec": ("interlock.agents.streams.codex_exec", "CodexExecDriver"),
    "gemini-stream": ("interlock.agents.streams.gemini", "GeminiStreamDriver"),
    "qwen-stream": ("interlock.agents.streams.qwen", "QwenStreamDriver"),
    "opencode-serve": ("interlock.agents.streams.opencode", "OpencodeDriver"),
    "pi-rpc": ("interlock.agents.streams.pi", "PiDriver"),
    "acp": ("interlock.agents.acp.driver", "AcpDriver"),
    "model": ("interlock.agents.model.driver", "ModelDriver"),
    "terminal": ("interlock.agents.terminal.driver", "TerminalDriver"),
}


def driver(name: str) -> Driver:
    """The driver of that name, with its defaults."""
    if name not in DRIVERS:
        raise UsageError(f"there is no driver {name!r}", remedy=f"the drivers are {', '.join(DRIVERS)}")
    module, made = DRIVERS[name]
    return cast("Driver", getattr(import_module(module), made)())


def builtin_drivers(names: Iterable[str] = DRIVERS) -> tuple[Driver, ...]:
    return tuple(driver(name) for name in names)
