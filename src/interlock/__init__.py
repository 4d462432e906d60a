"""Interlock runs and watches AI coding agents, and never claims more than it can prove about what each is doing.

    from interlock import connect

    with connect() as il:
        print(il.run("claude", "Which tests are slow?").answer())

`docs/how-to/use-the-client.md` lists every name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.agents.port import AgentSpec
    from interlock.client.children import ChildrenOutcome
    from interlock.client.client import Client, connect_async
    from interlock.client.errors import Refusal
    from interlock.client.outcome import (
        NoAnswerError,
        TurnBlockedError,
        TurnError,
        TurnFailedError,
        TurnInterruptedError,
        TurnOutcome,
        TurnPartialError,
        TurnResult,
        TurnTimedOutError,
        TurnUnknownError,
    )
    from interlock.client.plans import PlanNotCompletedError, PlanOutcome, PlanResult
    from interlock.client.sync import SyncClient, connect
    from interlock.client.turn import QuestionAnswer
    from interlock.lifecycle.turns import TurnRecord, turn_states
    from interlock.runtime.agent_machine import AgentMachine
    from interlock.runtime.policy import RunPolicy
    from interlock.runtime.runtime import Runtime
    from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
    from interlock.vocabulary.events.audit import ReplyContract
    from interlock.vocabulary.wire.approval import Approval
    from interlock.vocabulary.wire.requests import AccessRole

__all__ = [
    "AccessRole",
    "AgentMachine",
    "AgentSpec",
    "Approval",
    "ChildrenOutcome",
    "Client",
    "InterlockError",
    "NoAnswerError",
    "PlanNotCompletedError",
    "PlanOutcome",
    "PlanResult",
    "QuestionAnswer",
    "Refusal",
    "ReplyContract",
    "RunPolicy",
    "Runtime",
    "SyncClient",
    "TurnBlockedError",
    "TurnError",
    "TurnFailedError",
    "TurnInterruptedError",
    "TurnOutcome",
    "TurnPartialError",
    "TurnRecord",
    "TurnResult",
    "TurnTimedOutError",
    "TurnUnknownError",
    "Unreachable",
    "UsageError",
    "connect",
    "connect_async",
    "turn_states",
]

_OUTCOME = "interlock.client.outcome"
_HOME = {
    "AccessRole": "interlock.vocabulary.wire.requests",
    "AgentMachine": "interlock.runtime.agent_machine",
    "AgentSpec": "interlock.agents.port",
    "Approval": "interlock.vocabulary.wire.approval",
    "ChildrenOutcome": "interlock.client.children",
    "Client": "interlock.client.client",
    "InterlockError": "interlock.vocabulary.errors",
    "PlanNotCompletedError": "interlock.client.plans",
    "PlanOutcome": "interlock.client.plans",
    "PlanResult": "interlock.client.plans",
    "QuestionAnswer": "interlock.client.turn",
    "Refusal": "interlock.client.errors",
    "ReplyContract": "interlock.vocabulary.events.audit",
    "RunPolicy": "interlock.runtime.policy",
    "Runtime": "interlock.runtime.runtime",
    "SyncClient": "interlock.client.sync",
    "TurnRecord": "interlock.lifecycle.turns",
    "Unreachable": "interlock.vocabulary.errors",
    "UsageError": "interlock.vocabulary.errors",
    "connect": "interlock.client.sync",
    "connect_async": "interlock.client.client",
    "turn_states": "interlock.lifecycle.turns",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for: a command pays only for what it uses."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME.get(name, _OUTCOME)), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
