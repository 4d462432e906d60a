"""The thread-safe machine: no lost update; hooks in order, outside the lock, and unharmed by their own errors."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.process import AgentEvent, AgentEventType, LifecycleChanged, Mark, ProcessState, step
from interlock.runtime.agent_machine import AgentMachine
from interlock.testing.clock import VirtualClock
from interlock.vocabulary.states import AgentState, Lifecycle

E = AgentEventType
THINKING, DONE = AgentEvent(E.THINKING), AgentEvent(E.DONE)
SPAWNING_TO_WORKING = LifecycleChanged(Lifecycle.SPAWNING, Lifecycle.WORKING)
WORKING_TO_IDLE = LifecycleChanged(Lifecycle.WORKING, Lifecycle.IDLE)
IDLE_TO_WORKING = LifecycleChanged(Lifecycle.IDLE, Lifecycle.WORKING)
WORKING_TO_KILLED = LifecycleChanged(Lifecycle.WORKING, Lifecycle.KILLED)
PATIENCE_SECONDS = 100.0


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Switch threads as often as the interpreter can, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(*works: Callable[[], object]) -> None:
    """Run all at once, wait for all, and raise what any of them raised."""
    gate, errors = threading.Barrier(len(works)), list[BaseException]()

    def run(work: Callable[[], object]) -> None:
        gate.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_a_new_machine_is_idle_and_spawning_since_now() -> None:
    machine = AgentMachine(VirtualClock(start=42.0))
    assert machine.snapshot() == ProcessState(last_active=42.0)
    assert (machine.current(), machine.lifecycle(), machine.last_active()) == (
        AgentState.IDLE,
        Lifecycle.SPAWNING,
        42.0,
    )


def test_the_default_clock_is_monotonic_time() -> None:
    before = time.monotonic()
    machine = AgentMachine()
    assert before <= machine.last_active() <= time.monotonic()


def test_apply_returns_the_substate_and_bumps_last_active() -> None:
    clock = VirtualClock()
    machine = AgentMachine(clock)
    clock.advance(3.0)
    assert machine.apply(THINKING) is AgentState.THINKING
    clock.advance(3.0)
    assert machine.apply(AgentEvent("no such event")) is AgentState.THINKING  # type: ignore[arg-type]
    assert machine.last_active() == 6.0
    assert machine.lifecycle() is Lifecycle.WORKING


def test_marks_do_what_they_say() -> None:
    clock = VirtualClock()
    machine = AgentMachine(clock)
    machine.apply(THINKING)
    clock.advance(1.0)
    machine.mark_idle()
    assert machine.snapshot() == ProcessState(last_active=0.0, lifecycle=Lifecycle.WORKING)
    machine.mark_killed()
    assert machine.apply(THINKING) is AgentState.IDLE
    assert machine.snapshot() == ProcessState(last_active=1.0, lifecycle=Lifecycle.KILLED)
    clock.advance(1.0)
    machine.mark_spawning()
    assert machine.snapshot() == ProcessState(last_active=2.0)


def test_the_idle_deadline_follows_the_clock_and_moves_with_each_event() -> None:
    clock = VirtualClock()
    machine = AgentMachine(clock)
    assert machine.idle_deadline(120.0, turn_open=False) == 120.0
    clock.advance(30.0)
    machine.apply(AgentEvent(E.TRACE))
    assert machine.idle_deadline(120.0, turn_open=False) == 150.0
    assert machine.idle_deadline(120.0, turn_open=True) is None
    machine.mark_killed()
    assert machine.idle_deadline(120.0, turn_open=False) is None


@given(st.lists(st.one_of(st.sampled_from(Mark), st.builds(AgentEvent, type=st.sampled_from(AgentEventType)))))
def test_it_is_the_pure_machine_and_never_raises(inputs: list[AgentEvent | Mark]) -> None:
    clock, changes = VirtualClock(), list[LifecycleChanged]()
    machine = AgentMachine(clock, changes.append)
    marks = {Mark.IDLE: machine.mark_idle, Mark.KILLED: machine.mark_killed, Mark.SPAWNING: machine.mark_spawning}
    expected, told = ProcessState(last_active=0.0), list[LifecycleChanged]()
    for given_input in inputs:
        clock.advance(1.0)
        expected, outputs = step(expected, given_input, clock.now())
        told.extend(outputs)
        if isinstance(given_input, Mark):
            marks[given_input]()
        else:
            assert machine.apply(given_input) is expected.substate
    assert machine.snapshot() == expected
    assert changes == told


@pytest.mark.usefixtures("eager_threads")
def test_eight_threads_lose_no_update() -> None:
    machine, each = AgentMachine(), 1_000
    use = AgentEvent(E.TOOL_USE)

    def hammer() -> None:
        for _ in range(each):
            machine.apply(use)

    in_threads(*[hammer] * 8)
    assert machine.snapshot().open_tools == 8 * each


@pytest.mark.usefixtures("eager_threads")
def test_eight_threads_see_one_chain_of_changes() -> None:
    changes: list[LifecycleChanged] = []
    machine = AgentMachine(on_change=changes.append)

    def hammer() -> None:
        for _ in range(300):
            machine.apply(THINKING)
            machine.apply(DONE)
            machine.mark_killed()
            machine.mark_spawning()

    in_threads(*[hammer] * 8)
    assert len(changes) > 300
    assert changes[0].before is Lifecycle.SPAWNING
    assert all(earlier.after is later.before for earlier, later in pairwise(changes))
    assert changes[-1].after is machine.lifecycle()


def test_the_hook_is_called_outside_the_lock() -> None:
    def hook(change: LifecycleChanged) -> None:
        if change == SPAWNING_TO_WORKING:
            in_threads(lambda: machine.apply(DONE), machine.snapshot, machine.mark_killed)

    machine = AgentMachine(on_change=hook)
    machine.apply(THINKING)
    assert machine.lifecycle() is Lifecycle.KILLED


def test_a_slow_hook_delays_later_changes_and_does_not_block_who_makes_them() -> None:
    entered, leave = threading.Event(), threading.Event()
    changes: list[LifecycleChanged] = []

    def hook(change: LifecycleChanged) -> None:
        if change == SPAWNING_TO_WORKING:
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)
        changes.append(change)

    machine = AgentMachine(on_change=hook)

    def overtake() -> None:
        assert entered.wait(PATIENCE_SECONDS)
        machine.apply(DONE)
        machine.apply(THINKING)
        assert changes == []
        leave.set()

    in_threads(lambda: machine.apply(THINKING), overtake)
    assert changes == [SPAWNING_TO_WORKING, WORKING_TO_IDLE, IDLE_TO_WORKING]


def test_a_hook_that_applies_is_called_for_its_own_change_after_it_returned() -> None:
    told: list[tuple[str, LifecycleChanged]] = []

    def hook(change: LifecycleChanged) -> None:
        told.append(("enter", change))
        if change == SPAWNING_TO_WORKING:
            assert machine.apply(DONE) is AgentState.IDLE
        told.append(("leave", change))

    machine = AgentMachine(on_change=hook)
    machine.apply(THINKING)
    assert told == [(side, change) for change in (SPAWNING_TO_WORKING, WORKING_TO_IDLE) for side in ("enter", "leave")]


def test_a_hook_that_raises_loses_no_change_and_its_error_is_heard() -> None:
    changes: list[LifecycleChanged] = []

    def hook(change: LifecycleChanged) -> None:
        changes.append(change)
        if change == SPAWNING_TO_WORKING:
            machine.apply(DONE)
            raise RuntimeError("the hook failed")

    machine = AgentMachine(on_change=hook)
    with pytest.raises(RuntimeError, match="the hook failed"):
        machine.apply(THINKING)
    assert changes == [SPAWNING_TO_WORKING, WORKING_TO_IDLE]
    machine.apply(THINKING)
    assert changes[2:] == [IDLE_TO_WORKING]


def test_several_errors_of_one_delivery_are_raised_together() -> None:
    def hook(change: LifecycleChanged) -> None:
        if change == SPAWNING_TO_WORKING:
            machine.mark_killed()
        raise RuntimeError(change.after.value)

    machine = AgentMachine(on_change=hook)
    with pytest.raises(ExceptionGroup) as caught:
        machine.apply(THINKING)
    assert [str(error) for error in caught.value.exceptions] == ["working", "killed"]


def test_an_interrupt_in_a_hook_leaves_the_rest_for_the_next_call() -> None:
    changes: list[LifecycleChanged] = []

    def hook(change: LifecycleChanged) -> None:
        changes.append(change)
        if change == SPAWNING_TO_WORKING:
            machine.mark_killed()
            raise KeyboardInterrupt

    machine = AgentMachine(on_change=hook)
    with pytest.raises(KeyboardInterrupt):
        machine.apply(THINKING)
    assert changes == [SPAWNING_TO_WORKING]
    machine.mark_idle()
    assert changes == [SPAWNING_TO_WORKING, WORKING_TO_KILLED]
