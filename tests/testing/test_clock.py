"""Virtual time: it moves only when told, only forward, and runs what is due in one fixed order."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.process import AgentEvent, AgentEventType
from interlock.runtime.agent_machine import AgentMachine
from interlock.testing import clock as clock_module
from interlock.testing.clock import VirtualClock
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.states import Lifecycle


def test_the_example_in_the_docstring_runs() -> None:
    failed, tried = doctest.testmod(clock_module)
    assert (failed, tried) == (0, 6)


def test_it_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(start=10.0)
    assert (clock(), clock.now()) == (10.0, 10.0)
    clock.advance(0.0)
    clock.advance(2.5)
    assert (clock(), clock.now()) == (12.5, 12.5)


@pytest.mark.parametrize("seconds", [-1.0, -1e-30, math.nan, math.inf])
def test_it_advances_forward_only_and_by_what_is_a_time(seconds: float) -> None:
    clock = VirtualClock(start=5.0)
    with pytest.raises(UsageError, match="time only moves forward"):
        clock.advance(seconds)
    assert clock.now() == 5.0


@pytest.mark.parametrize("when", [4.9, -math.inf, math.inf, math.nan])
def test_it_runs_forward_only_and_to_what_is_a_time(when: float) -> None:
    clock = VirtualClock(start=5.0)
    with pytest.raises(UsageError, match="time only moves forward"):
        clock.run_until(when)
    assert clock.now() == 5.0


@given(st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0]), max_size=12), st.sampled_from([0.0, 1.0, 2.0, 9.0]))
def test_callbacks_run_by_time_then_by_birth_and_see_their_own_time(times: list[float], until: float) -> None:
    clock, ran = VirtualClock(), list[tuple[float, int]]()
    for number, when in enumerate(times):
        clock.call_at(when, lambda number=number: ran.append((clock.now(), number)))  # type: ignore[misc]
    expected = sorted((when, number) for number, when in enumerate(times))
    clock.run_until(until)
    assert ran == [pair for pair in expected if pair[0] <= until]
    assert clock.now() == until
    clock.run()
    assert ran == expected


def test_jump_goes_to_the_next_deadline_and_runs_all_of_that_moment() -> None:
    clock, ran = VirtualClock(), list[str]()
    for when, name in [(5.0, "c"), (2.0, "a"), (2.0, "b")]:
        clock.call_at(when, lambda name=name: ran.append(name))  # type: ignore[misc]
    assert clock.jump()
    assert (clock.now(), ran) == (2.0, ["a", "b"])
    assert clock.jump()
    assert (clock.now(), ran) == (5.0, ["a", "b", "c"])
    assert not clock.jump()
    assert clock.now() == 5.0


def test_a_time_that_has_passed_runs_at_the_next_move_and_does_not_turn_the_clock_back() -> None:
    clock, seen = VirtualClock(start=10.0), list[float]()
    clock.call_at(3.0, lambda: seen.append(clock.now()))
    clock.advance(0.0)
    assert (seen, clock.now()) == ([10.0], 10.0)


def test_what_a_callback_sets_on_the_way_runs_on_the_way() -> None:
    clock, seen = VirtualClock(), list[float]()

    def tick() -> None:
        seen.append(clock.now())
        clock.call_at(clock.now() + 1.0, tick)

    clock.call_at(1.0, tick)
    clock.advance(3.5)
    assert seen == [1.0, 2.0, 3.0]
    assert clock.run(max_steps=4) == 4
    assert clock.now() == 7.0


def test_a_cancelled_callback_does_not_run_even_if_its_moment_has_begun() -> None:
    clock, ran = VirtualClock(), list[str]()
    early = clock.call_at(1.0, lambda: ran.append("early"))
    clock.cancel(early)
    clock.call_at(2.0, lambda: clock.cancel(late))
    late = clock.call_at(2.0, lambda: ran.append("late"))
    assert clock.run() == 1
    assert ran == []
    clock.cancel(late)


def test_a_callback_that_sets_itself_for_now_does_not_hang_the_run() -> None:
    clock, ran = VirtualClock(), list[float]()

    def again() -> None:
        ran.append(clock.now())
        clock.call_at(clock.now(), again)

    clock.call_at(0.0, again)
    assert clock.run(max_steps=50) == 50
    with pytest.raises(UsageError, match="still busy"):
        clock.run_until(1.0, max_steps=50)
    assert ran == [0.0] * 100


def test_a_callback_for_no_time_is_refused_and_not_kept() -> None:
    clock = VirtualClock()
    with pytest.raises(ContractError, match="finite"):
        clock.call_at(math.inf, lambda: None)
    assert clock.run() == 0


def test_an_idle_agent_is_killed_at_its_deadline_and_not_while_it_speaks() -> None:
    clock = VirtualClock()
    machine = AgentMachine(clock)

    def kill_if_due() -> None:
        deadline = machine.idle_deadline(120.0, turn_open=False)
        if deadline is not None and clock.now() >= deadline:
            machine.mark_killed()
        elif deadline is not None:
            clock.call_at(deadline, kill_if_due)

    kill_if_due()
    clock.call_at(100.0, lambda: machine.apply(AgentEvent(AgentEventType.TRACE)))
    clock.run_until(219.0)
    assert machine.lifecycle() is Lifecycle.WORKING
    clock.run()
    assert (machine.lifecycle(), clock.now()) == (Lifecycle.KILLED, 220.0)
