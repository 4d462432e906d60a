"""How long an agent that does nothing is kept.

Laws:
1. One deadline for the countdown that people see and for whoever ends the agent: `idle_deadline_seconds`.
2. It runs only while nothing is open: no turn, no background work, no prompt on its way. What was open until now counts
   from now, also where the agent itself was silent for long.
3. An agent that we adopted, and one that somebody is attached to, are never ended for being idle.
4. A terminal agent is kept for ever unless a time was set for it: a person may come back to its pane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock.lifecycle.process import ProcessState, idle_deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFacts:
    """What keeps an agent, whatever the clock says.

    `has_open_work`: a turn, background work, or a prompt that waits. `free_since_seconds`: when the last of it ended.
    """

    has_open_work: bool
    free_since_seconds: float | None = None
    is_adopted: bool = False
    has_attached_client: bool = False


def idle_deadline_seconds(state: ProcessState, idle_ttl_seconds: float | None, facts: IdleFacts) -> float | None:
    """When an idle agent is to be ended, on the clock of `state.last_active`; None: never, as things stand."""
    if facts.is_adopted or facts.has_attached_client:
        return None
    if facts.free_since_seconds is not None and facts.free_since_seconds > state.last_active:
        state = replace(state, last_active=facts.free_since_seconds)
    return idle_deadline(state, idle_ttl_seconds, turn_open=facts.has_open_work)
