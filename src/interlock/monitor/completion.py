"""Completion: whether a submitted turn is still waiting, at work, blocked, stalled, or how it ended.

Laws:
1. Evidence first, on every observation. Then one order, which is the order of the edges: gone is failed, a question to
   a person is blocked, a surface that says nothing is unknown (or still stalled), working is in progress, submit-ready
   after activity is a candidate, all else is waiting.
2. A candidate completes once its signature has stood for the whole stability window: by the timer where changes are
   pushed; where they are polled, by a look at or after the end of the window that finds the same signature, for what
   happened between two polls was not seen. A new signature begins the window again; an observation that is no candidate
   ends it. Where the surface itself says that the turn was interrupted, or failed, that is its end, and it is never
   complete; failed after the same window, interrupted at once where work was shown since the submit.
3. The observer is asked on every observation after activity. What it, or a hook, found bypasses the window and not the
   order: only a candidate completes by it, unless its surface names another end. On every other result of a turn it
   rides. What a hook reported no longer bypasses once work or a question was seen after it; a report of another turn
   changes nothing.
4. Unknown has a deadline, kept by the stall clock. Any known observation cancels it, and ends a stall with the true
   time that it lasted. Evidence outlives a stall.
5. A due deadline comes before the input that makes us look, also at the same instant, and is dated to itself.
6. Completed, interrupted, turn failed and gone are final until the next submit. Another failure is final only where a
   stall was terminal; a surface that comes back is judged again.
7. A proven exit ends what is open, a candidate too: gone, whatever the surface shows. What has ended stays as it ended.
8. A submit ends whatever was open: a turn whose end was not certain yet is recorded as abandoned, and so is a stall
   that it cuts short. Nobody says how such a turn ended. A submit into work that is shown goes on with that work.
9. A result is given when the verdict changes, and blocked also when it asks something else; waiting, unknown, in
   progress and candidate are none.

Where the page draws the arrows out of unknown with the names of a recovery, they have their plain names here: nothing
that did not stall is said to recover.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, TypeAlias

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
from interlock.monitor.observation import Arrival, ObservationTimerFired, ShadowObservation, SurfaceGone, not_before
from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.monitor.post_submit_evidence import PostSubmitEvidence, Submit, accumulate, names_end_of_found
from interlock.monitor.results import (
    BlockedResult,
    CompletedResult,
    CompletionBasis,
    FailedResult,
    FailureKind,
    GoneResult,
    InterruptedResult,
    ModeDiagnostics,
    MonitorEvent,
    Moved,
    ObserverPayload,
    Output,
    Phase,
    Result,
)
from interlock.screen.assessment import Availability, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.vocabulary.events.audit import TURN_ABANDONED, Anomaly
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import TurnId


class CompletionStatus(StrEnum):
    """How a submitted turn stands."""

    WAITING = "waiting"
    IN_PROGRESS = "in_progress"
    CANDIDATE_COMPLETE = "candidate_complete"
    UNKNOWN = "unknown"
    STALLED = "stalled"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    TURN_FAILED = "turn_failed"
    BLOCKED = "blocked"
    FAILED = "failed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ObserverReported:
    """Somebody outside, such as a hook, found what ends this turn."""

    on: ClassVar[str] = "observer_reported"
    turn_id: TurnId
    payload: ObserverPayload


CompletionInput: TypeAlias = Submit | ShadowObservation | ObserverReported | SurfaceGone | ObservationTimerFired


class Signature(NamedTuple):
    """What must stand still for a candidate to complete."""

    status: CompletionStatus
    availability: Availability
    business_state: BusinessState
    input_mode: InputMode
    turn_end: TurnEnd | None
    projection_key: str
    saw_working: bool
    saw_projection_change: bool


class Window(NamedTuple):
    """A candidate's signature, and when it will have stood for long enough."""

    signature: Signature
    deadline: float


class CompletionState(Struct, frozen=True):
    """Where the turn stands. `window` is set exactly in candidate_complete; `clock` runs through unknown and stalled.

    `bypasses` says that `payload` still lets a candidate complete at once. Before a submit nothing counts as evidence.
    """

    policy: MonitorPolicy = DEFAULT_POLICY
    status: CompletionStatus = CompletionStatus.WAITING
    at_seconds: float = float("-inf")
    turn: Submit | None = None
    observation: ShadowObservation | None = None
    evidence: PostSubmitEvidence = PostSubmitEvidence()
    clock: stall.StallClock | None = None
    window: Window | None = None
    payload: ObserverPayload | None = None
    bypasses: bool = False

    @property
    def deadline(self) -> float | None:
        """When to fire the timer, if nothing comes before. What only another look can confirm has none."""
        if self.window is not None:
            is_polled = self.observation is not None and self.observation.arrival is _POLLED
            return None if is_polled else self.window.deadline
        return None if self.clock is None else self.clock.deadline

    @property
    def failure(self) -> FailureKind | None:
        if self.status is CompletionStatus.TURN_FAILED:
            return FailureKind.TURN_FAILED
        if self.status is not CompletionStatus.FAILED or self.observation is None:
            return None
        return stall.failure_of(self.clock, self.observation)


def surface_is_working(at: ObservationFacts) -> bool:
    return at.surface.business_state is _WORKING


def submit_ready_after_activity(at: ObservationFacts) -> bool:
    return at.has_activity and at.surface.submit_ready


def submit_ready_with_payload(at: ObservationFacts) -> bool:
    return at.bypasses and submit_ready_after_activity(at) and surface_names_no_other_end(at)


def surface_names_no_other_end(at: ObservationFacts) -> bool:
    return at.surface.turn_end is None or at.surface.turn_end is TurnEnd.COMPLETED


def submit_ready_interrupted(at: ObservationFacts) -> bool:
    """After work that was shown: before that, the mark may be the last turn's, or that of a prompt not yet taken up."""
    return at.surface.turn_end is TurnEnd.INTERRUPTED and at.saw_working and submit_ready_after_activity(at)


def interrupted_and_due(at: ObservationFacts) -> bool:
    return at.surface.turn_end is TurnEnd.INTERRUPTED and deadline_is_due(at)


def interrupted_and_confirmed(at: ObservationFacts) -> bool:
    return at.is_confirmed and at.surface.turn_end is TurnEnd.INTERRUPTED


def window_is_confirmed(at: ObservationFacts) -> bool:
    return at.is_confirmed


def turn_failed_and_confirmed(at: ObservationFacts) -> bool:
    return at.is_confirmed and at.surface.turn_end is TurnEnd.FAILED


def turn_failed_and_due(at: ObservationFacts) -> bool:
    return at.surface.turn_end is TurnEnd.FAILED and deadline_is_due(at)


_S = CompletionStatus
# Bound once: to look a member up in its enum costs more than most of the questions that are asked with it.
_WORKING: Final = BusinessState.WORKING
_CANDIDATE: Final = CompletionStatus.CANDIDATE_COMPLETE
_FAILED: Final = CompletionStatus.FAILED
_POLLED: Final = Arrival.POLLED
_KEEPS_CLOCK: Final = (CompletionStatus.UNKNOWN, CompletionStatus.STALLED)
_CARRIES_PAYLOAD: Final = (CompletionStatus.BLOCKED, CompletionStatus.FAILED)
_ENDS_BYPASS: Final = (CompletionStatus.IN_PROGRESS, CompletionStatus.BLOCKED)
_SEEN: Final = ShadowObservation.on
_ENDED: Final = (_S.COMPLETED, _S.INTERRUPTED, _S.TURN_FAILED, _S.GONE)
_OPEN: Final[tuple[CompletionStatus, ...]] = tuple(status for status in _S if status not in _ENDED)
_UNSTALLED: Final[tuple[CompletionStatus, ...]] = tuple(status for status in _OPEN if status is not _S.STALLED)

TRANSITIONS: Final[tuple[Edge[CompletionStatus, ObservationFacts], ...]] = (
    *from_each(_OPEN, Submit.on, _S.WAITING),
    *from_each(_ENDED, Submit.on, _S.WAITING, reopens=True),
    Edge(_S.FAILED, SurfaceGone.on, _S.FAILED, stall_was_terminal),
    *from_each(_OPEN, SurfaceGone.on, _S.GONE),
    Edge(_S.CANDIDATE_COMPLETE, ObservationTimerFired.on, _S.INTERRUPTED, interrupted_and_due),
    Edge(_S.CANDIDATE_COMPLETE, ObservationTimerFired.on, _S.TURN_FAILED, turn_failed_and_due),
    Edge(_S.CANDIDATE_COMPLETE, ObservationTimerFired.on, _S.COMPLETED, deadline_is_due),
    Edge(_S.CANDIDATE_COMPLETE, ObserverReported.on, _S.COMPLETED, surface_names_no_other_end),
    Edge(_S.UNKNOWN, ObservationTimerFired.on, _S.STALLED, deadline_is_due),
    # A stall has a deadline only where it is terminal.
    Edge(_S.STALLED, ObservationTimerFired.on, _S.FAILED, deadline_is_due),
    Edge(_S.FAILED, _SEEN, _S.FAILED, stall_was_terminal),
    *from_each(_OPEN, _SEEN, _S.FAILED, surface_is_gone),
    *from_each(_OPEN, _SEEN, _S.BLOCKED, operator_is_awaited),
    *from_each(_UNSTALLED, _SEEN, _S.UNKNOWN, surface_is_unknown),
    Edge(_S.STALLED, _SEEN, _S.STALLED, surface_is_unknown),
    *from_each(_OPEN, _SEEN, _S.IN_PROGRESS, surface_is_working),
    *from_each(_OPEN, _SEEN, _S.INTERRUPTED, submit_ready_interrupted),
    *from_each(_OPEN, _SEEN, _S.COMPLETED, submit_ready_with_payload),
    Edge(_S.CANDIDATE_COMPLETE, _SEEN, _S.INTERRUPTED, interrupted_and_confirmed),
    Edge(_S.CANDIDATE_COMPLETE, _SEEN, _S.TURN_FAILED, turn_failed_and_confirmed),
    Edge(_S.CANDIDATE_COMPLETE, _SEEN, _S.COMPLETED, window_is_confirmed),
    *from_each(_OPEN, _SEEN, _S.CANDIDATE_COMPLETE, submit_ready_after_activity),
    *from_each(_OPEN, _SEEN, _S.WAITING),
)

MACHINE: Final[Machine[CompletionStatus, ObservationFacts]] = Machine(
    name="completion",
    title="How a submitted turn stands, by its surface",
    states=CompletionStatus,
    initial=CompletionStatus.WAITING,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({Submit.on}),
    observations=frozenset({_SEEN, ObserverReported.on, SurfaceGone.on, ObservationTimerFired.on}),
    terminal=frozenset(_ENDED),
)

_ARROWS: Final = {
    _S.WAITING: MonitorEvent.KNOWN_NONCANDIDATE,
    _S.IN_PROGRESS: MonitorEvent.WORKING_SEEN,
    _S.CANDIDATE_COMPLETE: MonitorEvent.SUBMIT_READY_WITH_ACTIVITY,
    _S.UNKNOWN: MonitorEvent.UNKNOWN_FOR_STALL,
    _S.COMPLETED: MonitorEvent.COMPLETION_OBSERVER_PAYLOAD,
    _S.INTERRUPTED: MonitorEvent.INTERRUPTED_SEEN,
    _S.BLOCKED: MonitorEvent.OPERATOR_BLOCKED,
    _S.FAILED: MonitorEvent.SURFACE_GONE,
}
# A candidate that stays one has a new signature, or nothing would have changed.
_ARROWS_FROM: Final = {
    _S.CANDIDATE_COMPLETE: _ARROWS
    | {
        _S.WAITING: MonitorEvent.STATE_SIGNATURE_CHANGED,
        _S.CANDIDATE_COMPLETE: MonitorEvent.STATE_SIGNATURE_CHANGED,
    },
    _S.STALLED: _ARROWS
    | {
        _S.WAITING: MonitorEvent.RECOVERED_TO_WAITING,
        _S.IN_PROGRESS: MonitorEvent.RECOVERED_TO_WORKING,
        _S.CANDIDATE_COMPLETE: MonitorEvent.RECOVERED_TO_CANDIDATE,
        _S.BLOCKED: MonitorEvent.RECOVERED_TO_BLOCKED,
    },
}


def _facts(
    state: CompletionState, surface: SurfaceAssessment, now: float, *, is_confirmed: bool = False
) -> ObservationFacts:
    is_found = state.turn is not None and names_end_of_found(state.turn, surface)
    return ObservationFacts(
        surface,
        now,
        state.clock,
        state.deadline,
        has_activity=state.evidence.has_activity or is_found,
        saw_working=state.evidence.saw_working or is_found,
        bypasses=state.bypasses,
        is_confirmed=is_confirmed,
    )


def step(state: CompletionState, input: CompletionInput, now: float) -> tuple[CompletionState, tuple[Output, ...]]:
    """Apply one input, after every deadline that is due. Refuses nothing but a time that is not finite."""
    now = not_before(state.at_seconds, now)
    if isinstance(input, ObservationTimerFired):
        return _fire(state, now)
    said: tuple[Output, ...] = ()
    while state.deadline is not None and state.deadline <= now:
        state, outputs = _fire(state, now)
        said += outputs
    if isinstance(input, Submit):
        return _begin(state, input, now), said + _abandoned(state, now)
    if state.status in _ENDED:
        return state, said
    if isinstance(input, SurfaceGone):
        after, outputs = _leave(state, input, now)
        return after, said + outputs
    after = _see(state, input, now) if isinstance(input, ShadowObservation) else _hear(state, input, now)
    return after, said + _changes(state, after)


def _fire(state: CompletionState, now: float) -> tuple[CompletionState, tuple[Output, ...]]:
    at, seen, clock = state.deadline, state.observation, state.clock
    if at is None or seen is None:
        return state, ()
    status = MACHINE.next_state(state.status, ObservationTimerFired.on, _facts(state, seen.assessment, now))
    if status is state.status:
        return state, ()
    if clock is None:
        after = structs.replace(state, status=status, at_seconds=at, window=None)
        moved = Moved(Phase.COMPLETION, MonitorEvent.STABILITY_WINDOW_ELAPSED, state.status, status, at)
        return after, (moved, _ended(after, seen))
    if status is CompletionStatus.STALLED:
        after = structs.replace(state, status=status, at_seconds=at, clock=stall.enter_stall(clock, at, state.policy))
        return after, stall.entered(Phase.COMPLETION, clock, at, seen)
    after = structs.replace(state, status=status, at_seconds=at, clock=replace(clock, deadline=None))
    return after, stall.failed(Phase.COMPLETION, at, seen, state.payload)


def _begin(state: CompletionState, submit: Submit, now: float) -> CompletionState:
    status = MACHINE.next_state(state.status, submit.on, _facts(state, UNSEEN, now))
    return CompletionState(state.policy, status, now, submit)


def _abandoned(state: CompletionState, now: float) -> tuple[Output, ...]:
    said: tuple[Output, ...] = ()
    if state.status is CompletionStatus.STALLED and state.clock is not None:
        said = (stall.abandoned(Phase.COMPLETION, state.clock, now),)
    if state.turn is None or not _may_have_ended(state):
        return said
    details: dict[str, Json] = {"turn_id": state.turn.turn_id, "status": state.status.value}
    message = "another prompt was submitted before the end of the turn was certain"
    return (*said, Anomaly(kind=TURN_ABANDONED, source="monitor", message=message, details=details))


def _may_have_ended(state: CompletionState) -> bool:
    """Whether the surface showed work, and then something else that was not certain yet. A prompt that is submitted
    into the work itself is part of it."""
    is_unsure = state.status in (CompletionStatus.WAITING, CompletionStatus.UNKNOWN)
    return state.status is _CANDIDATE or (is_unsure and state.evidence.has_activity)


def _leave(state: CompletionState, ended: SurfaceGone, now: float) -> tuple[CompletionState, tuple[Output, ...]]:
    status = MACHINE.next_state(state.status, ended.on, _facts(state, UNSEEN, now))
    if status is state.status:
        return state, ()
    moved = Moved(Phase.COMPLETION, MonitorEvent.PROCESS_GONE, state.status, status, now)
    result = GoneResult(Phase.COMPLETION, now, state.observation, ended, state.payload)
    after = structs.replace(state, status=status, at_seconds=now, clock=None, window=None)
    return after, (moved, *stall.closing(state.clock, moved), result)


def _see(state: CompletionState, seen: ShadowObservation, now: float) -> CompletionState:
    informed = _informed(state, seen)
    is_confirmed = state.window is not None and _confirms(state.window, informed, seen, now)
    facts = _facts(informed, seen.assessment, now, is_confirmed=is_confirmed)
    status = MACHINE.next_state(state.status, _SEEN, facts)
    return CompletionState(
        policy=state.policy,
        status=status,
        at_seconds=now,
        turn=state.turn,
        observation=seen,
        evidence=informed.evidence,
        clock=_clock_after(state, status, seen, now),
        window=_window_after(informed, seen, now) if status is _CANDIDATE else None,
        payload=informed.payload,
        bypasses=informed.bypasses and status not in _ENDS_BYPASS,
    )


def _informed(state: CompletionState, seen: ShadowObservation) -> CompletionState:
    """Add the evidence of an observation, then ask the observer about it."""
    turn = state.turn
    if turn is None:
        return state
    evidence = accumulate(state.evidence, turn, seen, state.observation)
    found = turn.observer(seen, turn) if turn.observer and evidence.has_activity else None
    if found is not None:
        return structs.replace(state, evidence=evidence, payload=found, bypasses=True)
    return state if evidence is state.evidence else structs.replace(state, evidence=evidence)


def _clock_after(
    state: CompletionState, status: CompletionStatus, seen: ShadowObservation, now: float
) -> stall.StallClock | None:
    if status in _KEEPS_CLOCK:
        return stall.see_unknown(state.clock, seen.arrival, now, state.policy)
    return state.clock if status is _FAILED and state.status is _FAILED else None


def _confirms(window: Window, state: CompletionState, seen: ShadowObservation, now: float) -> bool:
    """Whether a look at a polled surface, after the end of a window, finds it as it was."""
    return seen.arrival is _POLLED and now >= window.deadline and window.signature == _signature(state, seen)


def _signature(state: CompletionState, seen: ShadowObservation) -> Signature:
    surface, evidence = seen.assessment, state.evidence
    return Signature(
        _CANDIDATE,
        surface.availability,
        surface.business_state,
        surface.input_mode,
        surface.turn_end,
        seen.projection.key,
        evidence.saw_working,
        evidence.saw_projection_change,
    )


def _window_after(state: CompletionState, seen: ShadowObservation, now: float) -> Window:
    signature = _signature(state, seen)
    if state.window is not None and state.window.signature == signature:
        return state.window
    return Window(signature, now + state.policy.completion_stability_seconds)


def _hear(state: CompletionState, report: ObserverReported, now: float) -> CompletionState:
    if state.turn is None or state.turn.turn_id != report.turn_id:
        return state
    surface = UNSEEN if state.observation is None else state.observation.assessment
    status = MACHINE.next_state(state.status, report.on, _facts(state, surface, now))
    window = None if status is CompletionStatus.COMPLETED else state.window
    return structs.replace(state, status=status, at_seconds=now, window=window, payload=report.payload, bypasses=True)


def _changes(before: CompletionState, after: CompletionState) -> tuple[Output, ...]:
    if before.status is after.status and before.window is after.window and after.status not in _CARRIES_PAYLOAD:
        return ()
    outputs: list[Output] = []
    if _has_ended_by_window(before, after) and after.observation is not None:
        event = MonitorEvent.STABILITY_WINDOW_ELAPSED
        moved = Moved(Phase.COMPLETION, event, before.status, after.status, after.at_seconds)
        return (moved, _ended(after, after.observation))
    if before.status is not after.status or before.window is not after.window:
        arrows = _ARROWS_FROM.get(before.status, _ARROWS)
        moved = Moved(Phase.COMPLETION, arrows[after.status], before.status, after.status, after.at_seconds)
        outputs += (moved, *stall.closing(before.clock, moved))
    if _verdict(before) != _verdict(after):
        result = _result(after)
        outputs += () if result is None else (result,)
    return tuple(outputs)


def _has_ended_by_window(before: CompletionState, after: CompletionState) -> bool:
    """Whether a look confirmed the window, and not an observer of the turn."""
    is_completed = after.status is CompletionStatus.COMPLETED and not after.bypasses
    return before.status is _CANDIDATE and (is_completed or after.status is CompletionStatus.TURN_FAILED)


def _verdict(state: CompletionState) -> tuple[CompletionStatus, FailureKind | str | None, ObserverPayload | None]:
    """What a result would say. A payload that comes later than its blocked or failed is news, and so is a question."""
    if state.status is CompletionStatus.BLOCKED and state.observation is not None:
        return state.status, state.observation.question, state.payload
    return state.status, state.failure, state.payload if state.status is CompletionStatus.FAILED else None


def _result(state: CompletionState) -> Result | None:
    seen, at = state.observation, state.at_seconds
    if seen is None:
        return None
    if state.status is CompletionStatus.BLOCKED:
        return BlockedResult(Phase.COMPLETION, at, seen, state.payload)
    if state.status is CompletionStatus.COMPLETED:
        return _completed(state, seen, CompletionBasis.COMPLETION_OBSERVER)
    if state.status is CompletionStatus.INTERRUPTED:
        return InterruptedResult(Phase.COMPLETION, at, seen, state.payload)
    if state.failure is not None:
        return FailedResult(Phase.COMPLETION, at, seen, state.failure, state.payload)
    return None


def _ended(state: CompletionState, seen: ShadowObservation) -> Result:
    """The result of a candidate whose window has passed."""
    if state.status is CompletionStatus.INTERRUPTED:
        return InterruptedResult(Phase.COMPLETION, state.at_seconds, seen, state.payload)
    if state.status is CompletionStatus.TURN_FAILED:
        return FailedResult(Phase.COMPLETION, state.at_seconds, seen, FailureKind.TURN_FAILED, state.payload)
    return _completed(state, seen, CompletionBasis.STABILITY_WINDOW)


def _completed(state: CompletionState, seen: ShadowObservation, basis: CompletionBasis) -> CompletedResult:
    evidence = state.evidence
    terms = ModeDiagnostics(basis, state.policy, evidence.saw_working, evidence.saw_projection_change)
    return CompletedResult(Phase.COMPLETION, state.at_seconds, seen, terms, state.payload)
