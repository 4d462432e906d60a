"""When panes are captured: at once after quiet, not too often, never forgotten."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Container

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
            pacer.changed(times[0][1], times[0][0])
            times.pop(0)
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
    pacer.changed("%1", 1.0)
    assert pacer.due(1.0) == ["%1"]
    pacer.changed("%1", 1.0)
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
        pacer.changed(pane, now)
        assert pacer.due(now) == [pane]
        pacer.finished(pane)
    for pane in ("%1", "%2", "%3"):
        pacer.changed(pane, 3.0)
    assert [pacer.due(now)[0] for now in (3.0, 4.0, 5.0)] == ["%3", "%1", "%2"]


def test_a_forgotten_pane_is_not_due_and_frees_its_place() -> None:
    pacer = Pacer(PacingPolicy(max_in_flight=1))
    for pane in ("%1", "%2"):
        pacer.changed(pane, 0.0)
    assert pacer.due(0.0) == ["%1"]
    pacer.forget("%1")
    pacer.changed("%2", 0.1)
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
    assert all(bisect_left(times, start + 1) - index <= POLICY.captures_per_second for index, start in enumerate(times))


def busy(seconds: float, panes: int, stopped: Container[str] = (), stops_at: float = 0.0) -> list[tuple[float, str]]:
    """What is captured of panes that write ten times a second, each captured at once. Some may stop."""
    pacer, captures = Pacer(), list[tuple[float, str]]()
    for step in range(round(seconds * 250)):
        now = step / 250
        for number in range(panes):
            is_over = f"%{number}" in stopped and now > stops_at
            if (step + number) % 25 == 0 and not is_over:
                pacer.changed(f"%{number}", now)
        for pane in pacer.due(now):
            captures.append((now, pane))
            pacer.finished(pane)
    return captures


def test_busy_panes_take_turns_within_a_budget_of_their_own() -> None:
    captures = busy(10, 50)
    counts = [sum(pane == f"%{number}" for _, pane in captures) for number in range(50)]
    assert max(counts) - min(counts) <= 1
    most = 10 * POLICY.busy_per_second
    assert most - 50 < len(captures) <= most + 50 + POLICY.busy_burst


def test_a_few_busy_panes_are_captured_as_often_as_they_write() -> None:
    assert 490 < len(busy(10, 5)) <= 500


def test_no_busy_pane_waits_longer_than_a_stale_capture_allows() -> None:
    captures = busy(10, 200)
    for number in range(200):
        own = [when for when, pane in captures if pane == f"%{number}"]
        assert max(after - before for before, after in itertools.pairwise(own)) < POLICY.stale_seconds + 0.15


def test_the_last_screen_of_a_burst_does_not_wait_for_those_that_go_on_writing() -> None:
    for panes in (50, 200):
        last = max(when for when, pane in busy(6, panes, ["%7"], 4.0) if pane == "%7")
        assert 3.9 < last < 4.0 + 0.1 + POLICY.settled_seconds + 0.2


def test_two_hundred_panes_that_stop_together_are_all_captured_before_an_idle_is_believed() -> None:
    panes = [f"%{number}" for number in range(200)]
    captures = busy(6, 200, panes, 4.0)
    last = [max(when for when, pane in captures if pane == name) for name in panes]
    assert max(last) < 4.0 + POLICY.settled_seconds + 0.1, "well before an idle has stood for as long as it must"


def test_the_first_change_after_quiet_does_not_wait_for_those_that_go_on_writing() -> None:
    pacer, now = Pacer(), 0.0
    for step in range(1500):
        now = step / 250
        for number in range(50):
            if (step + number) % 25 == 0:
                pacer.changed(f"%{number}", now)
        for pane in pacer.due(now):
            pacer.finished(pane)
    assert pacer.changed("%quiet", now)
    assert "%quiet" in pacer.due(max(now, pacer.next_at() or now))


def test_a_change_wakes_only_where_it_is_due_sooner_than_was_said() -> None:
    pacer = Pacer()
    assert pacer.changed("%1", 0.0)
    assert pacer.due(0.0) == ["%1"]
    pacer.finished("%1")
    assert pacer.next_at() is None
    assert pacer.changed("%1", 0.01)
    assert pacer.next_at() == POLICY.gap_seconds
    assert not pacer.changed("%1", 0.02)
    assert pacer.changed("%2", 0.02)
    assert (pacer.next_at() or 1.0) <= 0.02
