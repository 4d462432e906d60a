"""Readiness: the page's order, its diagram, and its times to the instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.observation import Arrival, ObservationTimerFired, ShadowObservation
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.readiness import MACHINE, ReadinessInput, ReadinessState, ReadinessStatus, step
from interlock.monitor.results import FailedResult, GoneResult, Moved, Output, Phase, StalledResult
from interlock.screen.assessment import Availability, BusinessState, InputMode
from interlock.testing.explore import check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import Anomaly
from tests.each_row import each_row
from tests.monitor.surfaces import (
    ASKED_AGAIN,
    BLOCKED,
    DISCONNECTED,
    FAMILY,
    GONE,
    MODAL,
    READY,
    UNKNOWN,
    UNSUPPORTED,
    WORKING,
    anomalies,
    events,
    play,
    results,
    seen,
)

Said = list[tuple[float, Output]]
STALL_5: Final = MonitorPolicy(unknown_to_stalled_timeout_seconds=5)
TERMINAL: Final = MonitorPolicy(unknown_to_stalled_timeout_seconds=5, stalled_is_terminal=True)
PUSHED: Final = seen("unknown", "unknown", arrival=Arrival.PUSHED)
RECONNECTED: Final = seen("unknown", "unknown", arrival=Arrival.RECONNECTED)


def watch(*script: tuple[float, ReadinessInput], until: float = 0, policy: MonitorPolicy = STALL_5) -> Said:
    return play(step, ReadinessState(policy), script, until)[1]


def expected_status(availability: str, business: str, mode: str) -> str:
    """The page's table, read from the top."""
    if availability in {"unsupported", "disconnected"}:
        return "failed"
    if business == "awaiting_operator":
        return "blocked"
    if availability == "unknown" or business == "unknown":
        return "unknown"
    return "ready" if (business, mode) == ("idle", "freeform") else "waiting"


@each_row(("availability", "business", "mode"), [*product(Availability, BusinessState, InputMode)])
def test_every_surface_is_judged_in_the_order_of_the_page(availability: str, business: str, mode: str) -> None:
    state, _ = step(ReadinessState(), seen(business, mode, availability=availability), 0)
    assert state.status == expected_status(availability, business, mode)


def test_one_ready_observation_is_enough() -> None:
    assert results(watch((0, READY))) == [(0, "ready")]


def test_an_open_menu_is_not_ready_and_not_blocked() -> None:
    assert results(watch((0, MODAL), (1, BLOCKED))) == [(1, "blocked")]


@pytest.mark.parametrize(("gone", "kind"), [(UNSUPPORTED, "unsupported"), (DISCONNECTED, "disconnected")])
def test_a_surface_that_is_gone_fails_at_once(gone: ShadowObservation, kind: str) -> None:
    said = watch((0, gone))
    assert results(said) == [(0, "failed")]
    assert [output.failure for _, output in said if isinstance(output, FailedResult)] == [kind]


def test_a_result_is_given_on_a_change_of_verdict_only() -> None:
    said = watch((0, READY), (1, READY), (2, MODAL), (3, READY), (4, UNSUPPORTED), (5, UNSUPPORTED), (6, DISCONNECTED))
    assert results(said) == [(0, "ready"), (3, "ready"), (4, "failed"), (6, "failed")]


def test_unknown_stalls_by_itself_in_silence() -> None:
    assert results(watch((0, UNKNOWN), until=4.9)) == []
    said = watch((0, UNKNOWN), until=5)
    assert results(said) == [(5, "stalled")]
    assert anomalies(said) == [
        ("stalled_entered", {"phase": "readiness", "elapsed_unknown_seconds": 5, "parser_family": FAMILY})
    ]
    assert events(said) == ["evt_unknown_for_stall", "evt_unknown_timeout"]


def test_slow_polls_stretch_the_wait() -> None:
    assert results(watch((0, UNKNOWN), (4, UNKNOWN), until=8.9)) == []
    said = watch((0, UNKNOWN), (4, UNKNOWN), until=9)
    assert results(said) == [(9, "stalled")]
    assert [output.elapsed_unknown_seconds for _, output in said if isinstance(output, StalledResult)] == [9]


@each_row(
    ("script", "stalled_at"),
    [
        ([(0, UNKNOWN), (2, UNKNOWN)], 5),
        ([(0, UNKNOWN), (2.125, UNKNOWN)], 7.125),
        ([(0, UNKNOWN), (1, UNKNOWN), (4, UNKNOWN), (5, UNKNOWN)], 9),
        ([(0, PUSHED), (4, PUSHED)], 5),
        ([(0, PUSHED), (1, PUSHED), (4, RECONNECTED)], 8),
        ([(0, UNKNOWN), (1, MODAL), (2, UNKNOWN)], 7),
        ([(0, UNKNOWN), (5, UNKNOWN)], 5),
    ],
    ids=["watched", "just not watched", "restarted", "pushed", "channel down", "known between", "tie"],
)
def test_the_stall_clock(script: list[tuple[float, ReadinessInput]], stalled_at: float) -> None:
    assert results(watch(*script, until=20)) == [(stalled_at, "stalled")]


@pytest.mark.parametrize("interval_seconds", [0.05, 0.4, 1, 2])
def test_dense_polling_does_stall(interval_seconds: float) -> None:
    polls = [(number * interval_seconds, UNKNOWN) for number in range(int(60 / interval_seconds))]
    said = watch(*polls, until=60, policy=MonitorPolicy())
    assert results(said) == [(30, "stalled")]
    assert [name for name, _ in anomalies(said)] == ["stalled_entered"]


@pytest.mark.parametrize("script", [[(0, seen("idle", "unknown")), (2, seen("idle", "unknown"))], [(0, WORKING)]])
def test_an_unknown_input_mode_alone_never_stalls(script: list[tuple[float, ReadinessInput]]) -> None:
    assert watch(*script, until=100) == []


@pytest.mark.parametrize(
    ("back", "recovered_to", "event", "then"),
    [
        (READY, "submit_ready", "evt_stalled_recovered_to_submit_ready", [(7.5, "ready")]),
        (BLOCKED, "blocked", "evt_stalled_recovered_to_blocked", [(7.5, "blocked")]),
        (MODAL, "waiting", "evt_stalled_recovered_to_waiting", []),
        (DISCONNECTED, "failed", "evt_surface_unsupported_or_disconnected", [(7.5, "failed")]),
    ],
)
def test_a_stall_ends_with_the_true_time_that_it_lasted(
    back: ShadowObservation, recovered_to: str, event: str, then: list[tuple[float, str]]
) -> None:
    said = watch((0, UNKNOWN), (6, UNKNOWN), (7.5, back))
    assert results(said) == [(5, "stalled"), *then]
    assert anomalies(said)[1:] == [
        ("stalled_recovered", {"phase": "readiness", "elapsed_stalled_seconds": 2.5, "recovered_to": recovered_to})
    ]
    assert events(said)[-1] == event


def test_two_stalls_in_one_wait_are_two_pairs() -> None:
    said = watch((0, UNKNOWN), (6, MODAL), (7, UNKNOWN), (13, READY))
    assert [name for name, _ in anomalies(said)] == ["stalled_entered", "stalled_recovered"] * 2
    assert results(said) == [(5, "stalled"), (12, "stalled"), (13, "ready")]


def test_at_the_same_instant_the_timer_comes_first() -> None:
    _, outputs = step(step(ReadinessState(STALL_5), UNKNOWN, 0)[0], READY, 5)
    assert [output.kind for output in outputs if not isinstance(output, Moved)] == [
        "stalled_entered",
        "stalled",
        "stalled_recovered",
        "ready",
    ]


def test_a_terminal_stall_fails_at_once_and_for_good() -> None:
    said = watch((0, UNKNOWN), (6, READY), (7, UNSUPPORTED), until=50, policy=TERMINAL)
    assert results(said) == [(5, "stalled"), (5, "failed")]
    assert events(said) == ["evt_unknown_for_stall", "evt_unknown_timeout", "stalled_is_terminal"]
    assert [output.failure for _, output in said if isinstance(output, FailedResult)] == ["stalled"]


def test_another_question_is_blocked_again_and_the_same_one_is_not() -> None:
    said = watch((0, BLOCKED), (1, BLOCKED), (2, ASKED_AGAIN), (3, ASKED_AGAIN), (4, BLOCKED))
    assert results(said) == [(0, "blocked"), (2, "blocked"), (4, "blocked")]


def test_a_process_that_ended_is_gone_whatever_its_pane_still_shows() -> None:
    said = watch((0, READY), (1, GONE), (2, READY), (3, GONE), (4, BLOCKED), until=50)
    assert results(said) == [(0, "ready"), (1, "gone")]
    assert events(said)[-1] == "evt_process_gone"
    assert said[-1][1] == GoneResult(Phase.READINESS, 1, READY, GONE)
    assert results(watch((0, GONE))) == [(0, "gone")]


def test_an_exit_ends_a_stall_and_a_stall_that_was_terminal_stays_as_it_ended() -> None:
    stalled = ((0, UNKNOWN), (6, GONE))
    assert anomalies(watch(*stalled))[1:] == [
        ("stalled_recovered", {"phase": "readiness", "elapsed_stalled_seconds": 1, "recovered_to": "gone"})
    ]
    assert results(watch(*stalled, policy=TERMINAL)) == [(5, "stalled"), (5, "failed")]


def test_a_timer_that_fires_early_or_twice_changes_nothing() -> None:
    waiting = step(ReadinessState(STALL_5), UNKNOWN, 0)[0]
    assert step(waiting, ObservationTimerFired(), 4.999) == (waiting, ())
    stalled, outputs = step(waiting, ObservationTimerFired(), 5.5)
    assert stalled.at_seconds == 5
    assert [output.at_seconds for output in outputs if isinstance(output, StalledResult)] == [5]
    assert step(stalled, ObservationTimerFired(), 6) == (stalled, ())
    assert step(ReadinessState(), ObservationTimerFired(), 6) == (ReadinessState(), ())


@pytest.mark.parametrize("now", [float("nan"), float("inf")])
def test_a_time_is_a_finite_number(now: float) -> None:
    with pytest.raises(ContractError, match="finite"):
        step(ReadinessState(), READY, now)


@dataclass(frozen=True, slots=True)
class Walked:
    state: ReadinessState
    seconds: int = 0
    outputs: int = 0

    @property
    def status(self) -> ReadinessStatus:
        return self.state.status


Move = tuple[ReadinessInput, int]
EVERY: Final = (READY, MODAL, BLOCKED, ASKED_AGAIN, UNKNOWN, PUSHED, RECONNECTED, UNSUPPORTED, DISCONNECTED)
LAST_SECOND: Final = 6


def is_due(walked: Walked) -> bool:
    return walked.state.deadline is not None and walked.state.deadline <= walked.seconds


def every_input(walked: Walked) -> Iterator[Move]:
    yield ObservationTimerFired(), 0
    if not is_due(walked):
        yield from ((input, 0) for input in (GONE, *EVERY))
        if walked.seconds < LAST_SECOND:
            yield ObservationTimerFired(), 1


def walk_step(walked: Walked, move: Move) -> Walked:
    state, outputs = step(walked.state, move[0], walked.seconds + move[1])
    return Walked(state, walked.seconds + move[1], sum(not isinstance(o, Moved | Anomaly) for o in outputs))


def is_stall_kept(walked: Walked) -> bool:
    given_up = walked.status == "failed" and walked.state.failure == "stalled"
    return (walked.state.clock is not None) == (walked.status in {"unknown", "stalled"} or given_up)


STATE_LAWS: Final = {
    "a clock is kept through unknown, stalled and a failure by stall": is_stall_kept,
    "unknown has a deadline": lambda w: w.status != "unknown" or w.state.deadline is not None,
    "what has no wait has no deadline": lambda w: w.status in {"unknown", "stalled"} or w.state.deadline is None,
    "a failure says why": lambda w: (w.status == "failed") == (w.state.failure is not None),
    "a step gives one result at most": lambda w: w.outputs <= 1,
}
STEP_LAWS: Final = {
    "a timer never makes ready, blocked or waiting": lambda before, move, after: (
        not isinstance(move[0], ObservationTimerFired) or after.status in {before.status, "stalled", "failed"}
    ),
    "an observation never stalls": lambda before, move, after: (
        isinstance(move[0], ObservationTimerFired) or after.status != "stalled" or before.status == "stalled"
    ),
    "a failure by stall is final": lambda before, _, after: (
        before.state.failure != "stalled" or after.state.failure == "stalled"
    ),
    "gone is final": lambda before, _, after: before.status != "gone" or after.state == before.state,
}


def test_the_walk_of_every_path_is_the_table(record_property: Callable[[str, object], None]) -> None:
    waits = {"unknown_to_stalled_timeout_seconds": 2, "watched_gap_seconds": 1}
    policies = [MonitorPolicy(**waits, stalled_is_terminal=final) for final in (False, True)]
    found = explore(
        start=[Walked(ReadinessState(policy)) for policy in policies],
        inputs=every_input,
        step=walk_step,
        label=labelled_by("status"),
        named=lambda move: move[0].on,
        state_laws=STATE_LAWS,
        step_laws=STEP_LAWS,
    )
    check_table(found, MACHINE)
    record_property("explored", found.summary("readiness"))


SCRIPTS: Final = st.lists(
    st.tuples(st.one_of(st.integers(-3, 60), st.floats(allow_nan=False, allow_infinity=False)), st.sampled_from(EVERY))
)


@given(SCRIPTS, st.sampled_from([STALL_5, TERMINAL, MonitorPolicy()]))
def test_any_observations_at_any_times_are_taken(
    script: list[tuple[float, ShadowObservation]], policy: MonitorPolicy
) -> None:
    state = ReadinessState(policy)
    for now, observation in script:
        before = state
        state, _ = step(state, observation, now)
        assert state.at_seconds >= before.at_seconds
        surface = observation.assessment
        if state.failure != "stalled":
            assert (state.status == "ready") == surface.submit_ready
            assert (state.status in {"unknown", "stalled"}) == surface.unknown_for_stall


@given(SCRIPTS)
def test_a_late_look_gives_what_the_timer_would_have_given(script: list[tuple[float, ShadowObservation]]) -> None:
    ordered = sorted(script, key=lambda given: given[0])
    state, late = ReadinessState(STALL_5), list[Output]()
    for now, observation in ordered:
        state, outputs = step(state, observation, now)
        late.extend(outputs)
    fired, in_time = play(step, ReadinessState(STALL_5), ordered, until=float("-inf"))
    assert (state, late) == (fired, [output for _, output in in_time])
