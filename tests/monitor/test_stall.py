"""The stall clock against the sum of gaps that it stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.observation import Arrival
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.stall import STRETCH, StallClock, enter_stall, see_unknown
from interlock.vocabulary.errors import ContractError
from tests.each_row import each_row

POLICY = MonitorPolicy(unknown_to_stalled_timeout_seconds=5)


def deadline_by_sum(seen: list[tuple[int, Arrival]]) -> float:
    """The rule in its own words: deadline = now + timeout - watched, watched sums gaps since the last restart."""
    watched = 0
    now = seen[0][0]
    for at, arrival in seen[1:]:
        gap = at - now
        if arrival is Arrival.POLLED:
            watched = 0 if gap > POLICY.watched_gap_seconds else watched + gap
        elif arrival is Arrival.PUSHED:
            watched += gap
        now = at
    return now + POLICY.unknown_to_stalled_timeout_seconds - watched


def is_within_bound(seen: list[tuple[int, Arrival]]) -> bool:
    return deadline_by_sum(seen) <= seen[0][0] + STRETCH * POLICY.unknown_to_stalled_timeout_seconds


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(Arrival)), min_size=1))
def test_the_deadline_is_now_plus_timeout_less_what_was_watched(gaps: list[tuple[int, Arrival]]) -> None:
    clock: StallClock | None = None
    seen: list[tuple[int, Arrival]] = []
    now = 0
    for gap, arrival in gaps:
        now += gap
        seen.append((now, arrival))
        clock = see_unknown(clock, arrival, now, POLICY)
        if not is_within_bound(seen):
            return
        assert clock.deadline == deadline_by_sum(seen)
        assert (clock.unknown_since, clock.seen_at) == (seen[0][0], now)


@given(st.lists(st.floats(0.05, 60), min_size=1, max_size=200))
def test_slow_polls_stretch_the_wait_to_three_times_the_timeout_and_no_further(gaps: list[float]) -> None:
    clock, now = see_unknown(None, Arrival.POLLED, 0.0, POLICY), 0.0
    for gap in gaps:
        now += gap
        assert clock.deadline is not None
        assert 5 <= clock.deadline <= 15
        if clock.deadline <= now:
            return  # it fires before the next look
        clock = see_unknown(clock, Arrival.POLLED, now, POLICY)


@each_row(("every", "at"), [(1.0, 5), (2.0, 5), (3.0, 15), (4.9, 15), (5.0, 5), (60.0, 5)])
def test_an_unreadable_screen_stalls_however_it_is_polled(every: float, at: float) -> None:
    clock, now = see_unknown(None, Arrival.POLLED, 0.0, POLICY), every
    for _ in range(100):
        if clock.deadline is None or clock.deadline <= now:
            break
        clock, now = see_unknown(clock, Arrival.POLLED, now, POLICY), now + every
    assert clock.deadline == at


@pytest.mark.parametrize("is_terminal", [False, True])
def test_once_stalled_the_clock_is_left_alone(is_terminal: bool) -> None:
    policy = MonitorPolicy(unknown_to_stalled_timeout_seconds=5, stalled_is_terminal=is_terminal)
    stalled = enter_stall(see_unknown(None, Arrival.POLLED, 0, policy), 5, policy)
    assert stalled.deadline == (5 if is_terminal else None)
    assert see_unknown(stalled, Arrival.POLLED, 50, policy) is stalled


def test_the_defaults_are_those_of_the_design() -> None:
    assert MonitorPolicy() == MonitorPolicy(30.0, 1.0, 2.0, stalled_is_terminal=False)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_wait_is_a_finite_time_above_zero(seconds: float) -> None:
    for name in ("unknown_to_stalled_timeout_seconds", "completion_stability_seconds", "watched_gap_seconds"):
        with pytest.raises(ContractError, match=name):
            MonitorPolicy(**{name: seconds})  # type: ignore[arg-type]
