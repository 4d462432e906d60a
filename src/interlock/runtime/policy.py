"""How patient the runtime is, and what a session may use. Every wait has a deadline; None switches a limit off."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class Instant(NamedTuple):
    """One moment, twice: as it is written down, and as deadlines are measured."""

    at: datetime
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    """`stall_after_seconds`: how long a turn may go without progress; `stall_tool_after_seconds` while a tool runs.
    `start_seconds`: how long a prompt may be on its way without a sign that the agent began. `settle_seconds`: how
    long background work may hold back the next prompt. `confirm_seconds`: how long a decision may go without a sign
    that the agent moved on. `interrupt_seconds`: how long each request to end a turn may take before the next rung.
    `max_queued`: how many prompts may wait; one more is refused. `max_tokens` and `max_cost_usd` are of a session:
    reaching one closes the queue's gate, and ends nothing."""

    turn_budget_seconds: float | None = None
    stall_after_seconds: float | None = 120.0
    stall_tool_after_seconds: float | None = 1800.0
    stalled_is_terminal: bool = False
    start_seconds: float = 120.0
    resubmit_seconds: float = 2.0
    resubmit_attempts: int = 5
    interrupt_seconds: float = 10.0
    confirm_seconds: float = 15.0
    settle_seconds: float = 60.0
    approval_seconds: float | None = None
    idle_ttl_seconds: float | None = None
    max_queued: int | None = 1000
    max_tokens: int | None = None
    max_cost_usd: float | None = None
