"""The stall clock against the sum of gaps that it stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.observation import Arrival
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.stall import StallClock, enter_stall, see_unknown
from interlock.vocabulary.errors import ContractError

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


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(Arrival)), min_size=1))
def test_the_deadline_is_now_plus_timeout_less_what_was_watched(gaps: list[tuple[int, Arrival]]) -> None:
    clock: StallClock | None = None
    seen: list[tuple[int, Arrival]] = []
    now = 0
    for gap, arrival in gaps:
        now += gap
        seen.append((now, arrival))
        clock = see_unknown(clock, arrival, now, POLICY)
        assert clock.deadline == deadline_by_sum(seen)
        assert (clock.unknown_since, clock.seen_at) == (seen[0][0], now)


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
