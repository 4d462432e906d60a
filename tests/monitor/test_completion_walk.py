"""Completion, every path: the walk is the table, and no order or time of observations breaks a law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.completion import (
    MACHINE,
    CompletionInput,
    CompletionState,
    CompletionStatus,
    ObserverReported,
    step,
)
from interlock.monitor.observation import Arrival, ObservationTimerFired, ShadowObservation
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.post_submit_evidence import Submit
from interlock.monitor.results import CompletedResult, Moved, ObserverPayload, Output
from interlock.screen.assessment import TurnEnd
from interlock.testing.explore import check_table, explore, labelled_by
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.ids import TurnId
from tests.monitor.surfaces import (
    ASKED_AGAIN,
    BASELINE,
    BLOCKED,
    DISCONNECTED,
    ERRED,
    GONE,
    INTERRUPTED,
    MODAL,
    READY,
    UNKNOWN,
    UNSUPPORTED,
    WORKING,
    play,
    seen,
)

ANSWERED: Final = seen(text="welcome\nan answer")
FOUND: Final = seen(text="welcome\nDONE")
HOOK: Final = ObserverReported(TurnId("turn_1"), ObserverPayload("hook", "done"))
STRAY_HOOK: Final = ObserverReported(TurnId("turn_0"), ObserverPayload("hook", "done"))


def finds_done(observation: ShadowObservation, _: Submit) -> ObserverPayload | None:
    return ObserverPayload("sentinel", "DONE") if "DONE" in observation.projection.rows else None


POLLED_READY: Final = seen(arrival=Arrival.POLLED)
POLLED_ERRED: Final = seen(arrival=Arrival.POLLED, turn_end=TurnEnd.FAILED)
POLLED_CUT: Final = seen(arrival=Arrival.POLLED, turn_end=TurnEnd.INTERRUPTED)
SUBMIT: Final = Submit(TurnId("turn_1"), BASELINE, observer=finds_done)
FOUND_CUT: Final = seen(text="welcome\nDONE", turn_end=TurnEnd.INTERRUPTED)
OBSERVATIONS: Final = (
    *(READY, ANSWERED, FOUND, FOUND_CUT, INTERRUPTED, ERRED, POLLED_READY, POLLED_ERRED, POLLED_CUT),
    *(WORKING, MODAL, BLOCKED, ASKED_AGAIN, UNKNOWN, UNSUPPORTED, DISCONNECTED),
)
ENDED: Final = {"completed", "interrupted", "turn_failed", "gone"}
LAST_SECOND: Final = 2  # the first at which every edge of the table is taken
DEEP_LAST_SECOND: Final = 3
Move = tuple[CompletionInput, int]


@dataclass(frozen=True, slots=True)
class Walked:
    state: CompletionState
    seconds: int = 0
    results: int = 0
    completes: bool = False

    @property
    def status(self) -> CompletionStatus:
        return self.state.status


def is_due(walked: Walked) -> bool:
    return walked.state.deadline is not None and walked.state.deadline <= walked.seconds


def every_input(walked: Walked, last_second: int) -> Iterator[Move]:
    yield ObservationTimerFired(), 0
    if not is_due(walked):
        yield from ((input, 0) for input in (SUBMIT, HOOK, STRAY_HOOK, GONE, *OBSERVATIONS))
        if walked.seconds < last_second:
            yield ObservationTimerFired(), 1


def walk_step(walked: Walked, move: Move) -> Walked:
    seconds = walked.seconds + move[1]
    state, outputs = step(walked.state, move[0], seconds)
    results = [output for output in outputs if not isinstance(output, Moved | Anomaly)]
    return Walked(state, seconds, len(results), any(isinstance(result, CompletedResult) for result in results))


def is_stall_kept(walked: Walked) -> bool:
    given_up = walked.state.failure == "stalled"
    return (walked.state.clock is not None) == (walked.status in {"unknown", "stalled"} or given_up)


def proves_completion(walked: Walked) -> bool:
    if walked.status != "completed":
        return True
    last = walked.state.observation
    is_ready = last is not None and last.assessment.submit_ready and last.assessment.turn_end is None
    return is_ready and walked.state.turn is not None and walked.state.evidence.has_activity


def seen_so_far(walked: Walked) -> set[str]:
    evidence = walked.state.evidence
    return {name for name in ("saw_working", "saw_projection_change") if getattr(evidence, name)}


STATE_LAWS: Final = {
    "a clock is kept through unknown, stalled and a failure by stall": is_stall_kept,
    "a window is kept exactly by a candidate": lambda w: (w.state.window is not None) == (w.status[:9] == "candidate"),
    "unknown and candidates have a deadline, or wait for another look": lambda w: (
        w.status not in {"unknown", "candidate_complete"}
        or (w.state.deadline is None) == (w.state.observation in {POLLED_READY, POLLED_ERRED, POLLED_CUT})
    ),
    "a failure says why": lambda w: (w.status in {"failed", "turn_failed"}) == (w.state.failure is not None),
    "what the surface calls interrupted or failed it called so": lambda w: (
        w.status not in {"interrupted", "turn_failed"}
        or w.state.observation in {INTERRUPTED, ERRED, POLLED_ERRED, POLLED_CUT, FOUND_CUT}
    ),
    "what has ended waits for nothing": lambda w: w.status not in ENDED or w.state.deadline is None,
    "completed rests on a ready surface and activity since the submit": proves_completion,
    "a step gives one result at most": lambda w: w.results <= 1,
}
STEP_LAWS: Final = {
    "completed is said once, on the way in": lambda before, _, after: (
        after.completes == (after.status == "completed" and before.status != "completed")
    ),
    "only a submit changes what has ended": lambda before, move, after: (
        before.status not in ENDED or after.state == before.state or isinstance(move[0], Submit)
    ),
    "an exit ends what is open": lambda before, move, after: (
        move[0] is not GONE or after.status in ENDED or before.state.failure == "stalled"
    ),
    "evidence is never taken back in a turn": lambda before, move, after: (
        isinstance(move[0], Submit) or seen_so_far(before) <= seen_so_far(after)
    ),
    "a report of another turn changes nothing": lambda before, move, after: (
        move[0] is not STRAY_HOOK or before.state == after.state
    ),
    "a submit starts with nothing": lambda before, move, after: (
        not isinstance(move[0], Submit)
        or after.state == CompletionState(after.state.policy, at_seconds=after.state.at_seconds, turn=SUBMIT)
    ),
}


def walk(last_second: int) -> str:
    """Every path up to that second keeps the laws, and together they are the table; how much that was."""
    policies = [MonitorPolicy(2, 1, 1, stalled_is_terminal=final) for final in (False, True)]
    found = explore(
        start=[Walked(CompletionState(policy)) for policy in policies],
        inputs=lambda walked: every_input(walked, last_second),
        step=walk_step,
        label=labelled_by("status"),
        named=lambda move: move[0].on,
        state_laws=STATE_LAWS,
        step_laws=STEP_LAWS,
    )
    check_table(found, MACHINE)
    return found.summary(f"completion, {last_second} seconds")


def test_the_walk_of_every_path_is_the_table(record_property: Callable[[str, object], None]) -> None:
    record_property("explored", walk(LAST_SECOND))


@pytest.mark.deep
def test_the_walk_of_every_longer_path_is_the_table(record_property: Callable[[str, object], None]) -> None:
    record_property("explored", walk(DEEP_LAST_SECOND))


TIMES: Final = st.one_of(st.integers(-3, 40), st.floats(allow_nan=False, allow_infinity=False))
PUSHED: Final = tuple(seen("unknown", "unknown", arrival=arrival) for arrival in Arrival)
INPUTS: Final = st.sampled_from([*OBSERVATIONS, *PUSHED, SUBMIT, HOOK, STRAY_HOOK, GONE, ObservationTimerFired()])
POLICIES: Final = st.sampled_from([MonitorPolicy(5, 1), MonitorPolicy(5, 3, stalled_is_terminal=True)])


@given(st.lists(st.tuples(TIMES, INPUTS)), POLICIES)
def test_any_inputs_at_any_times_are_taken_and_completion_is_always_proven(
    script: list[tuple[float, CompletionInput]], policy: MonitorPolicy
) -> None:
    state = CompletionState(policy)
    last: ShadowObservation | None = None
    submitted = active = False
    for now, input in script:
        before = state
        state, outputs = step(state, input, now)
        assert state.at_seconds >= before.at_seconds
        for completed in (output for output in outputs if isinstance(output, CompletedResult)):
            # Its own observation, if the window was bypassed; otherwise the one before, when the window ended.
            proof = input if completed.observation is input else last
            assert proof is completed.observation
            assert completed.observation.assessment.submit_ready
            assert completed.observation.assessment.turn_end is None
            assert submitted
            assert active or completed.observation.projection.key != BASELINE.key
        if isinstance(input, Submit):
            submitted, active, last = True, False, None
        elif isinstance(input, ShadowObservation):
            last = input
            active = active or input is WORKING or input.projection.key != BASELINE.key


@given(st.lists(st.tuples(st.integers(0, 40), INPUTS)), POLICIES)
def test_a_late_look_gives_what_the_timer_would_have_given(
    script: list[tuple[float, CompletionInput]], policy: MonitorPolicy
) -> None:
    ordered = sorted(
        (given for given in script if not isinstance(given[1], ObservationTimerFired)), key=lambda given: given[0]
    )
    state, late = CompletionState(policy), list[Output]()
    for now, input in ordered:
        state, outputs = step(state, input, now)
        late.extend(outputs)
    fired, in_time = play(step, CompletionState(policy), ordered, until=-1)
    assert (state, late) == (fired, [output for _, output in in_time])
