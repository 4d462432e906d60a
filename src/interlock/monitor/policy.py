"""How long to wait before saying something."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.vocabulary.errors import ContractError


@dataclass(frozen=True, slots=True)
class MonitorPolicy:
    """The waits of both kernels. A polled gap longer than `watched_gap_seconds` was not watched.

    `native_status_seconds`: how old what an agent reports of itself may grow. `native_doubt_seconds`: how long it may
    contradict what the agent shows before it counts no more.
    """

    unknown_to_stalled_timeout_seconds: float = 30.0
    completion_stability_seconds: float = 1.0
    watched_gap_seconds: float = 2.0
    native_status_seconds: float = 60.0
    native_doubt_seconds: float = 30.0
    stalled_is_terminal: bool = False

    def __post_init__(self) -> None:
        for name in (
            "unknown_to_stalled_timeout_seconds",
            "completion_stability_seconds",
            "watched_gap_seconds",
            "native_status_seconds",
            "native_doubt_seconds",
        ):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds > 0):
                raise ContractError(f"{name} is {seconds}; give a finite number of seconds above zero")


DEFAULT_POLICY: Final = MonitorPolicy()


@dataclass(frozen=True, slots=True)
class MonitorPolicies:
    """The policy for every agent in a terminal, and those of the agents that have their own."""

    general: MonitorPolicy = DEFAULT_POLICY
    by_agent: Mapping[str, MonitorPolicy] = field(default_factory=dict)

    def of(self, agent: str) -> MonitorPolicy:
        """The policy that holds for an agent."""
        return self.by_agent.get(agent, self.general)


DEFAULT_POLICIES: Final = MonitorPolicies()
