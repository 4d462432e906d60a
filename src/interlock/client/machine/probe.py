"""The probe: when to look again at a task that is not known to stand where the server says.

Laws:
1. It schedules, and decides nothing else. What a check finds is for the machine.
2. One grace window after something became doubtful. No event extends it; an end of the doubt takes it away.
3. While looking fails the window doubles, up to a cap. One success makes it short again.
4. While something is awaited already, which has a deadline of its own, nothing is scheduled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Final

from interlock.vocabulary.errors import ContractError

# Above this no window can double any more, and a server that stays away for a year is counted no further.
_MAX_FAILURES: Final = 16


@dataclass(frozen=True, slots=True)
class Probe:
    """When to look next (None: no need to), and how often looking failed since it last worked."""

    due_at: float | None = None
    failures: int = 0


IDLE_PROBE: Final = Probe()


@dataclass(frozen=True, slots=True)
class RuntimeStabilityProbe:
    """The policy of a probe."""

    grace_seconds: float = 3.0
    cap_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.grace_seconds <= self.cap_seconds < inf:
            raise ContractError(f"a probe waits a while, and not for ever: {self.grace_seconds}, {self.cap_seconds}")

    def window_seconds(self, failures: int) -> float:
        """How long to wait after this many failures in a row."""
        return float(min(self.cap_seconds, self.grace_seconds * 2 ** min(failures, _MAX_FAILURES)))

    def resync(self, probe: Probe, *, is_unstable: bool, is_awaiting: bool, now: float) -> Probe:
        """Arm it where there is doubt and nothing is awaited, and else disarm it. What is armed stays as it is."""
        if not is_unstable or is_awaiting:
            return replace(probe, due_at=None)
        if probe.due_at is not None:
            return probe
        return replace(probe, due_at=now + self.window_seconds(probe.failures))

    def fail(self, probe: Probe) -> Probe:
        """Looking did not work."""
        return replace(probe, failures=min(probe.failures + 1, _MAX_FAILURES))

    def succeed(self, probe: Probe) -> Probe:
        """Looking worked."""
        return replace(probe, failures=0)


PROBE: Final = RuntimeStabilityProbe()
