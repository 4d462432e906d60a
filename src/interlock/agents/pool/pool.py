"""How many agents may run at once, and who is next.

Laws:
1. Never more than the caps: one for all together, one for each agent. None is no cap.
2. A slot is counted once, from the moment it is granted until it is released, whatever the process does meanwhile.
3. First come, first served among those whose agent has room. Whoever waits for a full agent holds up nobody else.
4. Nobody waits while there is room for them: every change grants what it made possible.
5. A key has one slot, or one place in the queue. Asking again changes nothing; releasing what is not held is harmless.
6. Nothing is taken from an agent that has it: a slot is free when its holder gives it back, or its idle time is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from interlock.agents.observations import Exited
from interlock.lifecycle.process import ProcessState, idle_deadline
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.states import ExitReason

# How long an agent that does nothing is kept.
#
# Laws:
# 1. One deadline for the countdown that people see and for whoever ends the agent: `idle_deadline_seconds`.
# 2. It runs only while nothing is open: no turn, no background work, no prompt on its way. What was open until now
# counts
#    from now, also where the agent itself was silent for long.
# 3. An agent that we adopted, and one that somebody is attached to, are never ended for being idle.
# 4. A terminal agent is kept for ever unless a time was set for it: a person may come back to its pane.


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


# Why a spawn ended, in the words of the log.
#
# Laws:
# 1. What we asked for is the reason, whatever the code: a stop that needed KILL is a stop.
# 2. `oom` is what the kernel accounted for, never a guess from a code or a signal.
# 3. Without a code and without a signal nobody saw the end, and it is `unclean`.

ASKED_FOR = frozenset({ExitReason.STOPPED, ExitReason.IDLE_TTL, ExitReason.REPLACED})


def exit_reason(exited: Exited, *, stop_requested: ExitReason | None = None) -> ExitReason:
    """The reason of an exit. `stop_requested` is why we were ending it, if we were."""
    if stop_requested is not None:
        if stop_requested not in ASKED_FOR:
            raise ContractError(f"{stop_requested.value} is nothing that one asks for")
        return stop_requested
    if exited.is_oom:
        return ExitReason.OOM
    if exited.code is None and exited.signal is None:
        return ExitReason.UNCLEAN
    return ExitReason.CLEAN if exited.code == 0 and exited.signal is None else ExitReason.CRASHED


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """`each` holds for an agent that `per_agent` does not name."""

    total: int | None = None
    each: int | None = None
    per_agent: Mapping[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        caps = (self.total, self.each, *self.per_agent.values())
        if any(cap is not None and cap < 1 for cap in caps):
            raise UsageError("a cap below one lets no agent run", remedy="leave it out for no cap")

    def of(self, agent: str) -> int | None:
        return self.per_agent.get(agent, self.each)


class SlotRequest(StrEnum):
    """The answer to an ask."""

    GRANTED = "granted"
    QUEUED = "queued"


class Pool:
    """Slots and the queue for them, without any waiting: `Slots` waits."""

    def __init__(self, limits: PoolLimits | None = None) -> None:
        self._limits = limits or PoolLimits()
        self._held: dict[str, str] = {}
        self._waiting: dict[str, str] = {}  # in the order of asking

    @property
    def limits(self) -> PoolLimits:
        return self._limits

    @property
    def held(self) -> Mapping[str, str]:
        """Who has a slot, and for which agent."""
        return dict(self._held)

    @property
    def waiting(self) -> Mapping[str, str]:
        """Who waits, the first first."""
        return dict(self._waiting)

    def ask(self, key: str, agent: str) -> SlotRequest:
        """Ask for a slot. The one that is told `QUEUED` is named by a later `release`."""
        if key in self._held:
            return SlotRequest.GRANTED
        if key in self._waiting:
            return SlotRequest.QUEUED
        # Whoever waits has no room (law 4): the room there is cannot be theirs.
        if self._has_room(agent, Counter(self._held.values())):
            self._held[key] = agent
            return SlotRequest.GRANTED
        self._waiting[key] = agent
        return SlotRequest.QUEUED

    def release(self, key: str) -> tuple[str, ...]:
        """Give a slot back, and say who has it now."""
        return () if self._held.pop(key, None) is None else self._grant()

    def withdraw(self, key: str) -> bool:
        """Leave the queue. False if the key does not wait: it may have been granted, and then is to be released."""
        return self._waiting.pop(key, None) is not None

    def _grant(self) -> tuple[str, ...]:
        held = Counter(self._held.values())
        granted: list[str] = []
        for key, agent in list(self._waiting.items()):
            if self._has_room(agent, held):
                del self._waiting[key]
                self._held[key] = agent
                held[agent] += 1
                granted.append(key)
        return tuple(granted)

    def _has_room(self, agent: str, held: Counter[str]) -> bool:
        total, own = self._limits.total, self._limits.of(agent)
        return (total is None or held.total() < total) and (own is None or held[agent] < own)
