"""When panes are captured: at once after quiet, not too often, never forgotten."""

from __future__ import annotations

import itertools
from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.tmux.pacing import Pacer, PacingPolicy

POLICY = PacingPolicy()
PANES = st.integers(0, 60).map(lambda number: f"%{number}")
CHANGES = st.lists(st.tuples(st.floats(0, 0.2), PANES), max_size=150)


def play(changes: list[tuple[float, str]], capture_seconds: float = 0.0) -> tuple[list[tuple[float, str]], Pacer]:
    """Apply changes after the given delays; captures take that long. Goes on until nothing is due."""
    pacer, now, captures = Pacer(), 0.0, list[tuple[float, str]]()
    running: list[tuple[float, str]] = []
    pending = list(changes)
    arrives = 0.0
    times = []
    for delay, pane in pending:
        arrives += delay
        times.append((arrives, pane))
    for _ in range(20_000):
        for due in pacer.due(now):
            captures.append((now, due))
            running.append((now + capture_seconds, due))
        moments = [when for when, _ in times[:1]] + [when for when, _ in running]
        if (next_at := pacer.next_at()) is not None:
            moments.append(next_at)
        if not moments:
            return captures, pacer
        now = max(now, min(moments))
        while times and times[0][0] <= now:
            pacer.changed(times.pop(0)[1])
        for over in [item for item in running if item[0] <= now]:
            running.remove(over)
            pacer.finished(over[1])
    raise AssertionError("the pacer never came to rest")


def test_without_a_change_nothing_is_due() -> None:
    pacer = Pacer()
    assert pacer.due(5.0) == []
    assert pacer.next_at() is None


def test_the_first_change_after_quiet_is_due_at_once_and_the_next_after_the_gap() -> None:
    pacer = Pacer()
    pacer.changed("%1")
    assert pacer.due(1.0) == ["%1"]
    pacer.changed("%1")
    assert pacer.next_at() is None  # one is in flight
    pacer.finished("%1")
    assert pacer.due(1.01) == []
    assert pacer.next_at() == 1.0 + POLICY.gap_seconds
    assert pacer.due(1.0 + POLICY.gap_seconds) == ["%1"]
    pacer.finished("%1")
    assert pacer.next_at() is None


def test_a_pane_that_was_quiet_goes_before_those_that_were_just_seen() -> None:
    pacer = Pacer(PacingPolicy(burst=1, captures_per_second=11))
    for now, pane in ((1.0, "%1"), (2.0, "%2")):
        pacer.changed(pane)
        assert pacer.due(now) == [pane]
        pacer.finished(pane)
    for pane in ("%1", "%2", "%3"):
        pacer.changed(pane)
    assert [pacer.due(now)[0] for now in (3.0, 4.0, 5.0)] == ["%3", "%1", "%2"]


def test_a_forgotten_pane_is_not_due_and_frees_its_place() -> None:
    pacer = Pacer(PacingPolicy(max_in_flight=1))
    for pane in ("%1", "%2"):
        pacer.changed(pane)
    assert pacer.due(0.0) == ["%1"]
    pacer.forget("%1")
    pacer.changed("%2")
    assert pacer.due(0.1) == ["%2"]


@given(CHANGES, st.sampled_from([0.0, 0.001, 0.03, 0.3]))
def test_no_second_holds_more_captures_than_allowed_and_no_pane_is_captured_too_soon(
    changes: list[tuple[float, str]], capture_seconds: float
) -> None:
    captures, _ = play(changes, capture_seconds)
    times = [when for when, _ in captures]
    for index, start in enumerate(times):
        assert bisect_left(times, start + 1) - index <= POLICY.captures_per_second
    for pane in {pane for _, pane in captures}:
        own = [when for when, seen in captures if seen == pane]
        assert all(after >= before + POLICY.gap_seconds for before, after in itertools.pairwise(own))


@given(CHANGES, st.sampled_from([0.0, 0.001, 0.03, 0.3]))
def test_after_the_last_change_of_a_pane_a_capture_always_follows(
    changes: list[tuple[float, str]], capture_seconds: float
) -> None:
    captures, _ = play(changes, capture_seconds)
    arrives, last_change = 0.0, dict[str, float]()
    for delay, pane in changes:
        arrives += delay
        last_change[pane] = arrives
    for pane, changed_at in last_change.items():
        assert max(when for when, seen in captures if seen == pane) >= changed_at


def test_a_thousand_panes_at_once_are_all_captured_within_the_budget_of_each_second() -> None:
    changes = [(0.0, f"%{number}") for number in range(1000)]
    captures, _ = play(changes)
    times = [when for when, _ in captures]
    assert sorted(pane for _, pane in captures) == sorted(pane for _, pane in changes)
    assert all(bisect_left(times, start + 1) - index <= 250 for index, start in enumerate(times))


def test_busy_panes_take_turns() -> None:
    pacer, now, counts = Pacer(), 0.0, dict.fromkeys((f"%{number}" for number in range(50)), 0)
    while now < 10:
        for pane in counts:
            pacer.changed(pane)
        for pane in pacer.due(now):
            counts[pane] += 1
            pacer.finished(pane)
        now += 0.004
    assert max(counts.values()) - min(counts.values()) <= 1
    assert 2000 < sum(counts.values()) <= 2510
