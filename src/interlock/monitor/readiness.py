"""Readiness: whether a prompt may be submitted to a surface.

Laws:
1. Each observation is judged in one order, which is the order of the edges: gone is failed, a question to a person is
   blocked, a surface that says nothing is unknown (or still stalled), submit-ready is ready, all else is waiting.
2. One submit-ready observation is enough; nothing but the surface decides, so every verdict can be left again.
3. Unknown has a deadline, kept by the stall clock. Any known observation cancels it, and ends a stall with the true
   time that it lasted.
4. A due deadline comes before the observation that makes us look, also at the same instant, and is dated to itself.
5. Where a stall is terminal, it fails at once, and of the failures only that one is final.
6. A proven exit is gone, and final: what a dead pane still shows is no surface. A new process has a new state.
7. A result is given when the verdict changes, and blocked also when it asks something else; waiting and unknown are
   none.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct, structs

from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.monitor import stall
from interlock.monitor.guards import (
    UNSEEN,
    ObservationFacts,
    deadline_is_due,
    operator_is_awaited,
    stall_was_terminal,
    surface_is_gone,
    surface_is_unknown,
)
from interlock.monitor.observation import ObservationTimerFired, ShadowObservation, SurfaceGone, not_before
from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.monitor.results import (
    BlockedResult,
    FailedResult,
    FailureKind,
    GoneResult,
    MonitorEvent,
    Moved,
    Output,
    Phase,
    ReadyResult,
    Result,
)


class ReadinessStatus(StrEnum):
    """How a surface stands before a submit."""

    WAITING = "waiting"
    UNKNOWN = "unknown"
    STALLED = "stalled"
    READY = "ready"
    BLOCKED = "blocked"
    FAILED = "failed"
    GONE = "gone"


ReadinessInput: TypeAlias = ShadowObservation | SurfaceGone | ObservationTimerFired


class ReadinessState(Struct, frozen=True):
    """Where the wait stands. `observation` is the last one; `clock` runs through unknown and stalled."""

    policy: MonitorPolicy = DEFAULT_POLICY
    status: ReadinessStatus = ReadinessStatus.WAITING
    at_seconds: float = float("-inf")
    observation: ShadowObservation | None = None
    clock: stall.StallClock | None = None

    @property
    def deadline(self) -> float | None:
        """When to fire the timer, if nothing is observed before."""
        return None if self.clock is None else self.clock.deadline

    @property
    def failure(self) -> FailureKind | None:
        """Why it failed. A clock that outlives the stall means that the stall was the reason."""
        if self.status is not ReadinessStatus.FAILED or self.observation is None:
            return None
        return stall.failure_of(self.clock, self.observation)

    @property
    def question(self) -> str | None:
        """What a person is asked, without what ticks in it."""
        return None if self.observation is None else self.observation.question


def surface_is_submit_ready(at: ObservationFacts) -> bool:
    return at.surface.submit_ready


_S = ReadinessStatus
_SEEN: Final = ShadowObservation.on
_OPEN: Final[tuple[ReadinessStatus, ...]] = tuple(status for status in _S if status is not _S.GONE)
_UNSTALLED: Final[tuple[ReadinessStatus, ...]] = tuple(status for status in _OPEN if status is not _S.STALLED)

TRANSITIONS: Final[tuple[Edge[ReadinessStatus, ObservationFacts], ...]] = (
    Edge(_S.UNKNOWN, ObservationTimerFired.on, _S.STALLED, deadline_is_due),
    # A stall has a deadline only where it is terminal.
    Edge(_S.STALLED, ObservationTimerFired.on, _S.FAILED, deadline_is_due),
    Edge(_S.FAILED, SurfaceGone.on, _S.FAILED, stall_was_terminal),
    *from_each(_OPEN, SurfaceGone.on, _S.GONE),
    Edge(_S.FAILED, _SEEN, _S.FAILED, stall_was_terminal),
    *from_each(_OPEN, _SEEN, _S.FAILED, surface_is_gone),
    *from_each(_OPEN, _SEEN, _S.BLOCKED, operator_is_awaited),
    *from_each(_UNSTALLED, _SEEN, _S.UNKNOWN, surface_is_unknown),
    Edge(_S.STALLED, _SEEN, _S.STALLED, surface_is_unknown),
    *from_each(_OPEN, _SEEN, _S.READY, surface_is_submit_ready),
    *from_each(_OPEN, _SEEN, _S.WAITING),
)

MACHINE: Final[Machine[ReadinessStatus, ObservationFacts]] = Machine(
    name="readiness",
    title="Whether a prompt may be submitted to a surface",
    states=ReadinessStatus,
    initial=ReadinessStatus.WAITING,
    edges=TRANSITIONS,
    laws=__doc__,
    observations=frozenset({_SEEN, SurfaceGone.on, ObservationTimerFired.on}),
    terminal=frozenset({ReadinessStatus.GONE}),
)

_ARROWS: Final = {
    _S.WAITING: MonitorEvent.KNOWN_NONREADY,
    _S.UNKNOWN: MonitorEvent.UNKNOWN_FOR_STALL,
    _S.READY: MonitorEvent.SUBMIT_READY,
    _S.BLOCKED: MonitorEvent.OPERATOR_BLOCKED,
    _S.FAILED: MonitorEvent.SURFACE_GONE,
}
_RECOVERIES: Final = _ARROWS | {
    _S.WAITING: MonitorEvent.RECOVERED_TO_WAITING,
    _S.READY: MonitorEvent.RECOVERED_TO_SUBMIT_READY,
    _S.BLOCKED: MonitorEvent.RECOVERED_TO_BLOCKED,
}


def step(state: ReadinessState, input: ReadinessInput, now: float) -> tuple[ReadinessState, tuple[Output, ...]]:
    """Apply one input, after every deadline that is due. Refuses nothing but a time that is not finite."""
    now = not_before(state.at_seconds, now)
    if isinstance(input, ObservationTimerFired):
        return _fire(state, now)
    said: tuple[Output, ...] = ()
    while state.deadline is not None and state.deadline <= now:
        state, outputs = _fire(state, now)
        said += outputs
    if isinstance(input, SurfaceGone):
        after, outputs = _leave(state, input, now)
        return after, said + outputs
    if state.status is ReadinessStatus.GONE:
        return state, said
    after = _see(state, input, now)
    return after, said + _changes(state, after, input)


def _fire(state: ReadinessState, now: float) -> tuple[ReadinessState, tuple[Output, ...]]:
    clock, seen = state.clock, state.observation
    if clock is None or clock.deadline is None or seen is None:
        return state, ()
    at = clock.deadline
    status = MACHINE.next_state(
        state.status, ObservationTimerFired.on, ObservationFacts(seen.assessment, now, state.clock, state.deadline)
    )
    if status is state.status:
        return state, ()
    if status is ReadinessStatus.STALLED:
        after = structs.replace(state, status=status, at_seconds=at, clock=stall.enter_stall(clock, at, state.policy))
        return after, stall.entered(Phase.READINESS, clock, at, seen)
    after = structs.replace(state, status=status, at_seconds=at, clock=replace(clock, deadline=None))
    return after, stall.failed(Phase.READINESS, at, seen, None)


def _leave(state: ReadinessState, ended: SurfaceGone, now: float) -> tuple[ReadinessState, tuple[Output, ...]]:
    status = MACHINE.next_state(state.status, ended.on, ObservationFacts(UNSEEN, now, state.clock, state.deadline))
    if status is state.status:
        return state, ()
    moved = Moved(Phase.READINESS, MonitorEvent.PROCESS_GONE, state.status, status, now)
    result = GoneResult(Phase.READINESS, now, state.observation, ended)
    after = ReadinessState(state.policy, status, now, state.observation)
    return after, (moved, *stall.closing(state.clock, moved), result)


def _see(state: ReadinessState, seen: ShadowObservation, now: float) -> ReadinessState:
    status = MACHINE.next_state(
        state.status, _SEEN, ObservationFacts(seen.assessment, now, state.clock, state.deadline)
    )
    clock = None
    if status is ReadinessStatus.UNKNOWN or status is ReadinessStatus.STALLED:
        clock = stall.see_unknown(state.clock, seen.arrival, now, state.policy)
    elif status is ReadinessStatus.FAILED and state.status is ReadinessStatus.FAILED:
        clock = state.clock
    return ReadinessState(state.policy, status, now, seen, clock)


def _changes(before: ReadinessState, after: ReadinessState, seen: ShadowObservation) -> tuple[Output, ...]:
    if before.status is after.status and before.failure is after.failure and not _asks_anew(before, after):
        return ()
    outputs: list[Output] = []
    if before.status is not after.status:
        arrows = _RECOVERIES if before.status is ReadinessStatus.STALLED else _ARROWS
        moved = Moved(Phase.READINESS, arrows[after.status], before.status, after.status, after.at_seconds)
        outputs += (moved, *stall.closing(before.clock, moved))
    result = _result(after, seen)
    return (*outputs, result) if result else tuple(outputs)


def _asks_anew(before: ReadinessState, after: ReadinessState) -> bool:
    return after.status is ReadinessStatus.BLOCKED and before.question != after.question


def _result(state: ReadinessState, seen: ShadowObservation) -> Result | None:
    if state.status is ReadinessStatus.READY:
        return ReadyResult(Phase.READINESS, state.at_seconds, seen)
    if state.status is ReadinessStatus.BLOCKED:
        return BlockedResult(Phase.READINESS, state.at_seconds, seen)
    if state.failure is not None:
        return FailedResult(Phase.READINESS, state.at_seconds, seen, state.failure)
    return None
