"""Interlock runs and watches AI coding agents, and never claims more than it can prove about what each is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.agents.port import AgentSpec
    from interlock.client.client import Client
    from interlock.client.sync import SyncClient
    from interlock.lifecycle.turns import TurnRecord, turn_states
    from interlock.runtime.agent_machine import AgentMachine
    from interlock.runtime.policy import RunPolicy
    from interlock.runtime.runtime import Runtime

__all__ = ["AgentMachine", "AgentSpec", "Client", "RunPolicy", "Runtime", "SyncClient", "TurnRecord", "turn_states"]

_HOME = {
    "AgentMachine": "interlock.runtime.agent_machine",
    "AgentSpec": "interlock.agents.port",
    "Client": "interlock.client.client",
    "RunPolicy": "interlock.runtime.policy",
    "Runtime": "interlock.runtime.runtime",
    "SyncClient": "interlock.client.sync",
    "TurnRecord": "interlock.lifecycle.turns",
    "turn_states": "interlock.lifecycle.turns",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for: a command pays only for what it uses."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
