"""A small agent that does what its prompt says: a public fake for tests and demos, where no model is wanted.

`python -m interlock.testing.scripted_agent` runs it, with one of three faces: `--tui` in a terminal (the default; its
screens are read by the profile `scripted`), `--stream-json` as Claude Code's JSON stream, `--acp` as an agent of the
Agent Client Protocol. A prompt is a script, steps split by `;`: `--help` names them, and
`docs/how-to/test-with-scripted-agents.md` shows them at work. `command` (or `write_program`) starts it, `Gates` stops
time at a step, and the ledger (`read_ledger`, `prompts_in`) is what the agent swears that it received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.testing.scripted_agent.gates import Gates
    from interlock.testing.scripted_agent.ledger import Entry, prompts_in, read_ledger
    from interlock.testing.scripted_agent.starting import command, write_program
    from interlock.testing.scripted_agent.tui import Agent

__all__ = ["Agent", "Entry", "Gates", "command", "prompts_in", "read_ledger", "write_program"]

_HOME = {
    "Agent": "tui",
    "Entry": "ledger",
    "Gates": "gates",
    "command": "starting",
    "prompts_in": "ledger",
    "read_ledger": "ledger",
    "write_program": "starting",
}


def __getattr__(name: str) -> object:
    """Import what is asked for: the agent itself, which imports this package first, pays for none of it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
