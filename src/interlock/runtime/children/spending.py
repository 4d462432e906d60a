"""What the sessions of a workflow used, of which it has one pool: those of its steps, and all below them.

Law: a figure that was not reported is unknown, and never zero. It cannot be held to a budget, and its session is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from interlock.lifecycle.children.workflow_plan import WorkflowSpec
from interlock.log.port import Log
from interlock.projections.usage import Usage, UsageFold
from interlock.runtime.runtime import Runtime
from interlock.vocabulary.ids import SessionId

BUDGET: Final = "budget_used_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """`unmetered`: sessions that had a turn and reported nothing of a figure that has a limit."""

    cost_usd: float | None = None
    tokens: int | None = None
    unmetered: tuple[SessionId, ...] = ()


async def spent_by(sessions: Iterable[SessionId], spec: WorkflowSpec, runtime: Runtime, log: Log) -> Spent:
    """What these sessions used so far, as their logs have it."""
    costs: list[float] = []
    tokens: list[int] = []
    unmetered: list[SessionId] = []
    for session in sessions:
        usage = await _usage_of(session, runtime, log)
        costs += [] if usage.cost_usd is None else [usage.cost_usd]
        tokens += [] if usage.tokens is None else [usage.tokens]
        is_unknown = (spec.max_cost_usd is not None and usage.cost_usd is None) or (
            spec.max_tokens is not None and usage.tokens is None
        )
        unmetered += [session] if is_unknown or usage.turns_without_report else []
    return Spent(
        cost_usd=round(sum(costs), 6) if costs else None,
        tokens=sum(tokens) if tokens else None,
        unmetered=tuple(unmetered),
    )


async def _usage_of(session: SessionId, runtime: Runtime, log: Log) -> Usage:
    if session in runtime.sessions:
        return runtime.supervisor(session).book.usage.total
    fold = UsageFold()
    for event in (await log.read(session)).events:
        fold.add(event)
    return fold.total


def why_used_up(spent: Spent, spec: WorkflowSpec) -> str:
    """Why nothing more may start; blank where there is something left."""
    if spec.max_cost_usd is not None and (spent.cost_usd or 0) >= spec.max_cost_usd:
        return f"{BUDGET}: {spent.cost_usd:.2f} of {spec.max_cost_usd:.2f} USD"
    if spec.max_tokens is not None and (spent.tokens or 0) >= spec.max_tokens:
        return f"{BUDGET}: {spent.tokens} of {spec.max_tokens} tokens"
    return ""
