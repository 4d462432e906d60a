"""Joins: a run, a process and open decisions never contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import pytest

from interlock.lifecycle import process, run
from interlock.lifecycle.process import AgentEvent, AgentEventType, Mark, ProcessState
from interlock.lifecycle.run import Ended, Resumed, RunLifecycleState, Suspended, exit_to_reason, run_input
from interlock.testing.explore import explore
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.run import (
    BEHAVIOR_REQUESTED,
    CANCELLED,
    NATURAL_END,
    SUSPENDED,
    ReasonType,
    RunStatus,
    TerminationReason,
)
from interlock.vocabulary.states import ExitReason, Lifecycle
from tests.each_row import each_row

OURS = {ExitReason.STOPPED, ExitReason.IDLE_TTL, ExitReason.REPLACED}
TIMEOUT = TerminationReason.stopped("timeout")
RUNNING, WAITING, DONE = RunStatus


@each_row("exit_reason", list(ExitReason))
@each_row("stop_requested", [False, True])
def test_a_death_is_cancelled_if_it_was_us_and_an_error_otherwise(
    exit_reason: ExitReason, stop_requested: bool
) -> None:
    reason = exit_to_reason(exit_reason, stop_requested=stop_requested, detail="exit code 3")
    if stop_requested or exit_reason in OURS:
        assert reason == CANCELLED
    else:
        assert reason.type is ReasonType.ERROR
        assert isinstance(reason.value, str)
        assert reason.value.startswith("the agent's process ")
        assert reason.value.endswith(": exit code 3")


def test_each_kind_of_death_reads_differently() -> None:
    others = [reason for reason in ExitReason if reason not in OURS]
    assert len({exit_to_reason(reason, stop_requested=False).value for reason in others}) == len(others)


def test_a_clean_exit_in_the_middle_of_a_turn_is_an_error() -> None:
    assert exit_to_reason(ExitReason.CLEAN, stop_requested=False) == TerminationReason.error(
        "the agent's process exited in the middle of a turn"
    )


@each_row(
    ("status", "reason", "open_decisions", "expected"),
    [
        (RUNNING, None, 0, None),
        (RUNNING, None, 1, Suspended()),
        (WAITING, None, 1, None),
        (WAITING, None, 0, Resumed()),
        (RUNNING, NATURAL_END, 0, Ended(NATURAL_END)),
        (RUNNING, NATURAL_END, 2, Suspended()),
        (WAITING, NATURAL_END, 1, None),
        (WAITING, BEHAVIOR_REQUESTED, 1, None),
        (WAITING, CANCELLED, 1, Ended(CANCELLED)),
        (WAITING, TIMEOUT, 1, Ended(TIMEOUT)),
        (RUNNING, TerminationReason.error("boom"), 1, Ended(TerminationReason.error("boom"))),
        (RUNNING, SUSPENDED, 1, Suspended()),
        (WAITING, SUSPENDED, 1, None),
    ],
)
def test_what_a_run_is_told(
    status: RunStatus, reason: TerminationReason | None, open_decisions: int, expected: run.RunInput | None
) -> None:
    assert run_input(status, reason, open_decisions) == expected


def test_a_run_is_not_told_to_wait_for_nothing() -> None:
    with pytest.raises(ContractError, match="nothing is open"):
        run_input(RUNNING, SUSPENDED, 0)


@each_row("reason", [None, NATURAL_END, CANCELLED, SUSPENDED])
@each_row("open_decisions", [0, 1])
def test_a_run_that_is_done_is_told_nothing(reason: TerminationReason | None, open_decisions: int) -> None:
    assert run_input(DONE, reason, open_decisions) is None


def test_a_clean_end_in_spite_of_a_cancel_says_so() -> None:
    assert run_input(RUNNING, NATURAL_END, 0, cancel_requested=True) == Ended(NATURAL_END, cancel_requested=True)


@dataclass(frozen=True, slots=True)
class Joined:
    """A run, the process under it, and what the shell knows besides."""

    run: RunLifecycleState
    process: ProcessState
    open_decisions: int = 0
    stop_requested: bool = False


@dataclass(frozen=True, slots=True)
class Exited:
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class Decisions:
    change: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    pass


@dataclass(frozen=True, slots=True)
class Respawned:
    """A new process, and with it another run."""


Input: TypeAlias = AgentEvent | Exited | Decisions | TerminationReason | StopRequested | Respawned

EVENTS = (
    *(AgentEvent(event_type) for event_type in AgentEventType),
    *(AgentEvent(event_type, sub_agent="child") for event_type in (AgentEventType.DONE, AgentEventType.ERROR)),
)


def inputs(state: Joined) -> Iterator[Input]:
    """All that may happen. Decisions open only for a live run; a dead process still sends late events."""
    yield from EVENTS
    yield from (TIMEOUT, CANCELLED, BEHAVIOR_REQUESTED)
    yield StopRequested()
    if state.process.lifecycle is not Lifecycle.KILLED:
        yield from map(Exited, ExitReason)
    if state.open_decisions < 2 and state.run.status is not DONE:
        yield Decisions(+1)
    if state.open_decisions > 0:
        yield Decisions(-1)
    if state.run.status is DONE and state.open_decisions == 0:
        yield Respawned()


def happen(state: Joined, input: Input) -> Joined:
    """The smallest shell: feed the process, ask the joins, tell the run."""
    match input:
        case AgentEvent():
            following, _ = process.step(state.process, input, 0.0)
            if following.unnamed.total > 2:  # two tools without an id are as good as any number: the walk is finite
                following = replace(following, unnamed=state.process.unnamed)
            return told(replace(state, process=following), said(input))
        case Exited(exit_reason):
            dead, _ = process.step(state.process, Mark.KILLED, 0.0)
            reason = exit_to_reason(exit_reason, stop_requested=state.stop_requested)
            return told(replace(state, process=dead), reason)
        case Decisions(change):
            return told(replace(state, open_decisions=state.open_decisions + change), None)
        case TerminationReason():
            return told(state, input)
        case StopRequested():
            return replace(state, stop_requested=True)
        case Respawned():
            spawning, _ = process.step(state.process, Mark.SPAWNING, 0.0)
            other = "run_2" if state.run.id == "run_1" else "run_1"
            return Joined(RunLifecycleState(other), spawning)


def said(event: AgentEvent) -> TerminationReason | None:
    """What the agent itself says of its run; what is relayed from a child says nothing."""
    ends = {AgentEventType.DONE: NATURAL_END, AgentEventType.ERROR: TerminationReason.error("the agent said so")}
    return None if event.sub_agent else ends.get(event.type)


def told(state: Joined, reason: TerminationReason | None) -> Joined:
    given = run_input(state.run.status, reason, state.open_decisions)
    return state if given is None else replace(state, run=run.step(state.run, given, 0)[0])


def death_is_named(before: Joined, input: Input, after: Joined) -> bool:
    if not isinstance(input, Exited) or before.run.status is DONE:
        return True
    return after.run.done_reason == ("cancelled" if before.stop_requested or input.reason in OURS else "error")


def a_child_ends_nothing(before: Joined, input: Input, after: Joined) -> bool:
    return not (isinstance(input, AgentEvent) and input.sub_agent) or after.run == before.run


def test_run_process_and_decisions_joined(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[Joined(RunLifecycleState("run_1"), ProcessState(last_active=0.0))],
        inputs=inputs,
        step=happen,
        label=lambda state: state.run.status.value,
        named=lambda input: type(input).__name__,
        state_laws={
            "a dead process has no open run": lambda s: (
                s.process.lifecycle is not Lifecycle.KILLED or s.run.status is DONE
            ),
            "waiting means an open decision": lambda s: s.run.status is not WAITING or s.open_decisions > 0,
            "running means none": lambda s: s.run.status is not RUNNING or s.open_decisions == 0,
        },
        step_laws={
            "done never reopens": lambda before, input, after: (
                before.run.status is not DONE or after.run == before.run or isinstance(input, Respawned)
            ),
            "a death is cancelled if it was us, and an error otherwise": death_is_named,
            "a child's end is not the run's": a_child_ends_nothing,
        },
    )
    assert found.refusals == 0
    assert found.stuck(lambda state: state.run.status is DONE) == []
    assert found.stuck(lambda state: state.run.status is RUNNING) == []
    reached = {(state.run.status, state.process.lifecycle) for state in found.parents}
    alive = set(Lifecycle) - {Lifecycle.KILLED}
    assert reached == {*product((RUNNING, WAITING), alive), *product((DONE,), Lifecycle)}
    assert {state.run.done_reason for state in found.parents if state.run.status is DONE} == {
        "natural", "behavior_requested", "cancelled", "error", "stopped:timeout"
    }  # fmt: skip
    record_property("explored", found.summary("run x process x decisions"))
