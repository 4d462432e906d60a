"""The stall clock: how long nothing usable was seen, counting only time that was watched.

Laws:
1. The deadline fires by itself in silence: unknown at 0, timeout 5, stalled at 5.
2. Each unknown observation sets deadline = now + timeout - watched, where watched sums the gaps since the last restart.
   A sum of gaps is the time since the restart, so the deadline moves only when watched is reset or a gap is left out.
3. A polled gap above the watched gap resets watched to 0; slow polls stretch the wait, dense polls do stall. They
   stretch it to `STRETCH` times the timeout since the first unknown, and no further.
4. A pushed gap counts whatever its length. The gap in which a channel was down does not count, and resets nothing.
5. `unknown_since` is the first unknown of the run, whatever was watched of it.
6. A stall that was entered is closed by one record: a recovery, the failure where a stall is terminal, or, where the
   next submit came first, that it was abandoned. Nothing that was not seen to recover is said to have recovered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, assert_never

from interlock.monitor.observation import Arrival, ShadowObservation
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.results import (
    FailedResult,
    FailureKind,
    MonitorEvent,
    Moved,
    ObserverPayload,
    Output,
    Phase,
    StalledResult,
)
from interlock.screen.assessment import Availability
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.registry import Json

STRETCH: Final = 3
_RECOVERED: Final = "evt_stalled_recovered_to_"


@dataclass(frozen=True, slots=True)
class StallClock:
    """One run of unknown observations. `deadline` is None once it has stalled for good or for now."""

    unknown_since: float
    seen_at: float
    deadline: float | None
    stalled_at: float | None = None


def see_unknown(clock: StallClock | None, arrival: Arrival, now: float, policy: MonitorPolicy) -> StallClock:
    """The clock after an unknown observation. Once stalled, it is left alone."""
    timeout = policy.unknown_to_stalled_timeout_seconds
    if clock is None:
        return StallClock(unknown_since=now, seen_at=now, deadline=now + timeout)
    if clock.deadline is None or clock.stalled_at is not None:
        return clock
    return StallClock(clock.unknown_since, now, _deadline(clock.deadline, clock, arrival, now, policy))


def _deadline(deadline: float, clock: StallClock, arrival: Arrival, now: float, policy: MonitorPolicy) -> float:
    gap, timeout = now - clock.seen_at, policy.unknown_to_stalled_timeout_seconds
    match arrival:
        case Arrival.POLLED if gap > policy.watched_gap_seconds:
            # A channel that was down may have moved the deadline beyond the bound: polls move it no further.
            return max(deadline, min(now + timeout, clock.unknown_since + STRETCH * timeout))
        case Arrival.POLLED | Arrival.PUSHED:
            return deadline
        case Arrival.RECONNECTED:
            return deadline + gap
        case _:
            assert_never(arrival)


def enter_stall(clock: StallClock, at: float, policy: MonitorPolicy) -> StallClock:
    """The clock at its deadline. Where a stall is terminal, the failure is due at the same instant."""
    return replace(clock, stalled_at=at, deadline=at if policy.stalled_is_terminal else None)


def entered(phase: Phase, clock: StallClock, at: float, observation: ShadowObservation) -> tuple[Output, ...]:
    """What is said when a surface stalls: the arrow, the anomaly, the result."""
    elapsed = at - clock.unknown_since
    details: dict[str, Json] = {
        "phase": phase.value,
        "elapsed_unknown_seconds": elapsed,
        "parser_family": observation.parser_family,
    }
    return (
        Moved(phase, MonitorEvent.UNKNOWN_TIMEOUT, "unknown", "stalled", at),
        Anomaly(kind="stalled_entered", source="monitor", message="nothing usable was seen", details=details),
        StalledResult(phase, at, observation, elapsed),
    )


def failed(
    phase: Phase, at: float, observation: ShadowObservation, payload: ObserverPayload | None
) -> tuple[Output, ...]:
    """What is said when a stall is terminal."""
    return (
        Moved(phase, MonitorEvent.STALLED_IS_TERMINAL, "stalled", "failed", at),
        FailedResult(phase, at, observation, FailureKind.STALLED, payload),
    )


def failure_of(clock: StallClock | None, observation: ShadowObservation) -> FailureKind:
    """Why a surface failed. Only a stall that was terminal leaves its clock behind."""
    if clock is not None:
        return FailureKind.STALLED
    is_unsupported = observation.assessment.availability is Availability.UNSUPPORTED
    return FailureKind.UNSUPPORTED if is_unsupported else FailureKind.DISCONNECTED


def recovered(clock: StallClock, moved: Moved) -> Anomaly:
    """The anomaly of a known state after a stall. `recovered_to` is the last word of the arrow, or the state."""
    details: dict[str, Json] = {
        "phase": moved.phase.value,
        "elapsed_stalled_seconds": _stalled_seconds(clock, moved.at_seconds),
        "recovered_to": moved.event.removeprefix(_RECOVERED) if moved.event.startswith(_RECOVERED) else moved.after,
    }
    return Anomaly(kind="stalled_recovered", source="monitor", message="the surface is known again", details=details)


def closing(clock: StallClock | None, moved: Moved) -> tuple[Anomaly, ...]:
    """The recovery, if the arrow leads out of a stall."""
    return (recovered(clock, moved),) if clock is not None and moved.before == "stalled" else ()


def abandoned(phase: Phase, clock: StallClock, at: float) -> Anomaly:
    """The anomaly of a submit into a stall: the turn that stalled is given up, and nothing recovered."""
    details: dict[str, Json] = {"phase": phase.value, "elapsed_stalled_seconds": _stalled_seconds(clock, at)}
    message = "another prompt was submitted before the surface was known again"
    return Anomaly(kind="stall_abandoned", source="monitor", message=message, details=details)


def _stalled_seconds(clock: StallClock, at: float) -> float:
    return 0.0 if clock.stalled_at is None else at - clock.stalled_at
