"""The process machine: every transition of both axes, sticky killed, tools in flight, one idle deadline."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.open_tools import NO_TOOLS, OpenTool
from interlock.lifecycle.process import (
    LIFECYCLE,
    MACHINES,
    RELAYED,
    SUBSTATE,
    AgentEvent,
    AgentEventType,
    LifecycleChanged,
    Mark,
    ProcessInput,
    ProcessState,
    idle_deadline,
    step,
)
from interlock.testing.explore import Exploration, check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.states import AgentState, Lifecycle
from tests.each_row import each_row

E = AgentEventType
LIVING = (Lifecycle.SPAWNING, Lifecycle.WORKING, Lifecycle.IDLE)
NEW = ProcessState(last_active=0.0)


def event(type: AgentEventType, tool_use_id: str = "") -> AgentEvent:
    return AgentEvent(type, tool_use_id=tool_use_id)


def after(*inputs: ProcessInput, start: ProcessState = NEW, now: float = 0.0) -> ProcessState:
    state = start
    for given_input in inputs:
        state, _ = step(state, given_input, now)
    return state


def test_a_new_process_is_spawning_and_idle_as_the_tables_say() -> None:
    assert (NEW.lifecycle, NEW.substate) == (LIFECYCLE.initial, SUBSTATE.initial)
    assert (NEW.lifecycle, NEW.substate) == (Lifecycle.SPAWNING, AgentState.IDLE)
    assert [machine.name for machine in MACHINES] == ["process.lifecycle", "process.substate"]


# What the seed's table says an event makes of the substate; None leaves it. The lifecycle follows from it.
SEED: dict[AgentEventType, AgentState | None] = {
    E.SESSION_START: None,
    E.THINKING: AgentState.THINKING,
    E.TEXT_DELTA: AgentState.RESPONDING,
    E.TOOL_USE: AgentState.RUNNING_TOOL,
    E.TOOL_RESULT: AgentState.RESPONDING,
    E.DONE: AgentState.IDLE,
    E.ERROR: AgentState.IDLE,
    E.WARNING: None,
    E.TRACE: None,
    E.UNKNOWN: None,
}


@each_row("type", AgentEventType)
@each_row("substate", AgentState)
@each_row("lifecycle", LIVING)
def test_an_event_does_what_the_seed_says(lifecycle: Lifecycle, substate: AgentState, type: AgentEventType) -> None:
    state = ProcessState(last_active=3.0, lifecycle=lifecycle, substate=substate)
    following, outputs = step(state, event(type), 7.0)
    expected = Lifecycle.IDLE if type in (E.DONE, E.ERROR) else Lifecycle.WORKING
    assert following.substate is (SEED[type] or substate)
    assert following.lifecycle is expected
    assert following.last_active == 7.0
    assert outputs == (() if lifecycle is expected else (LifecycleChanged(lifecycle, expected),))


@each_row("type", AgentEventType)
@each_row("tool_use_id", ["", "a"])
def test_after_killed_a_late_event_bumps_last_active_and_nothing_else(type: AgentEventType, tool_use_id: str) -> None:
    killed = after(event(E.TOOL_USE, "a"), Mark.KILLED)
    assert step(killed, event(type, tool_use_id), 9.0) == (replace(killed, last_active=9.0), ())


BUSY = ProcessState(
    last_active=5.0,
    lifecycle=Lifecycle.WORKING,
    substate=AgentState.RUNNING_TOOL,
    tools=NO_TOOLS.opened(OpenTool(1.0, "Bash", "a")).opened(OpenTool(2.0, "Read", "b")),
    unnamed=NO_TOOLS.opened(OpenTool(3.0, "Edit")),
)


@pytest.mark.parametrize("lifecycle", LIVING)
def test_mark_idle_touches_the_substate_alone(lifecycle: Lifecycle) -> None:
    state = replace(BUSY, lifecycle=lifecycle)
    assert step(state, Mark.IDLE, 9.0) == (replace(state, substate=AgentState.IDLE), ())


@pytest.mark.parametrize("lifecycle", LIVING)
def test_mark_killed_clears_all_but_last_active(lifecycle: Lifecycle) -> None:
    killed, outputs = step(replace(BUSY, lifecycle=lifecycle), Mark.KILLED, 9.0)
    assert killed == ProcessState(last_active=5.0, lifecycle=Lifecycle.KILLED)
    assert outputs == (LifecycleChanged(lifecycle, Lifecycle.KILLED),)
    assert step(killed, Mark.KILLED, 9.0) == (killed, ())
    assert step(killed, Mark.IDLE, 9.0) == (killed, ())


@pytest.mark.parametrize("lifecycle", LIVING)
def test_mark_spawning_is_idempotent_and_starts_afresh(lifecycle: Lifecycle) -> None:
    spawning, outputs = step(replace(BUSY, lifecycle=lifecycle), Mark.SPAWNING, 9.0)
    assert spawning == ProcessState(last_active=9.0)
    moved = lifecycle is not Lifecycle.SPAWNING
    assert outputs == ((LifecycleChanged(lifecycle, Lifecycle.SPAWNING),) if moved else ())
    assert step(spawning, Mark.SPAWNING, 9.0) == (spawning, ())


def test_mark_spawning_revives_a_killed_process_and_events_count_again() -> None:
    killed = after(event(E.THINKING), Mark.KILLED)
    revived, outputs = step(killed, Mark.SPAWNING, 2.0)
    assert revived == ProcessState(last_active=2.0)
    assert outputs == (LifecycleChanged(Lifecycle.KILLED, Lifecycle.SPAWNING),)
    assert after(event(E.TEXT_DELTA), start=revived).substate is AgentState.RESPONDING


def test_a_delta_before_the_start_is_not_undone_by_the_start() -> None:
    state = after(event(E.TEXT_DELTA), event(E.SESSION_START))
    assert (state.lifecycle, state.substate) == (Lifecycle.WORKING, AgentState.RESPONDING)


@each_row("kind", list(E))
@each_row("lifecycle", Lifecycle)
def test_what_a_child_says_late_does_not_change_its_parents_lifecycle(
    lifecycle: Lifecycle, kind: AgentEventType
) -> None:
    resting = ProcessState(last_active=5.0, lifecycle=lifecycle)
    relayed = AgentEvent(kind, tool_use_id="t1", sub_agent="helper")
    assert step(resting, relayed, 9.0) == (replace(resting, last_active=9.0), ())


@each_row("kind", list(E))
def test_what_a_child_says_is_a_sign_of_life_and_no_more(kind: AgentEventType) -> None:
    relayed = AgentEvent(kind, tool_use_id="t1", sub_agent="helper")
    assert after(relayed, start=BUSY, now=9.0) == replace(BUSY, last_active=9.0)


def test_a_whole_turn() -> None:
    types = [E.SESSION_START, E.THINKING, E.TOOL_USE, E.TOOL_RESULT, E.TEXT_DELTA, E.DONE, E.TEXT_DELTA]
    states = [after(*(event(type) for type in types[:length])) for length in range(1, len(types) + 1)]
    assert [state.substate.value for state in states] == [
        "idle",
        "thinking",
        "running_tool",
        "responding",
        "responding",
        "idle",
        "responding",
    ]
    assert [state.lifecycle.value for state in states] == [*["working"] * 5, "idle", "working"]


USE_A, USE_B, RESULT_A, RESULT_B = (event(type, name) for type in (E.TOOL_USE, E.TOOL_RESULT) for name in "ab")
USE, RESULT = event(E.TOOL_USE), event(E.TOOL_RESULT)


@pytest.mark.parametrize(
    ("inputs", "substate", "tools", "unnamed_tools"),
    [
        pytest.param([USE_A, USE_B, RESULT_A], "running_tool", "b", 0, id="one of two results"),
        pytest.param([USE_A, USE_B, RESULT_B, RESULT_A], "responding", "", 0, id="both results"),
        pytest.param([USE_A, USE_A, RESULT_A], "responding", "", 0, id="a use told twice"),
        pytest.param([USE_A, RESULT_A, RESULT_A], "responding", "", 0, id="a result told twice"),
        pytest.param([USE_A, RESULT_B], "running_tool", "a", 0, id="a result of another tool"),
        pytest.param([RESULT_A], "responding", "", 0, id="a result without a use"),
        pytest.param([USE_A, RESULT], "responding", "", 0, id="a result without id where only one has an id"),
        pytest.param([USE_A, USE_B, RESULT], "running_tool", "b", 0, id="a result without id ends the oldest"),
        pytest.param([USE_A, USE_B, RESULT, RESULT], "responding", "", 0, id="as many results as tools"),
        pytest.param([USE_A, USE, RESULT], "running_tool", "a", 0, id="a result without id prefers one without"),
        pytest.param([USE, RESULT_A], "running_tool", "", 1, id="a named result closes no tool without id"),
        pytest.param([USE, USE, RESULT], "running_tool", "", 1, id="one of two without id"),
        pytest.param([USE, USE, RESULT, RESULT], "responding", "", 0, id="both without id"),
        pytest.param([RESULT, USE], "running_tool", "", 1, id="a result without id leaves no debt"),
        pytest.param([USE_A, USE, RESULT], "running_tool", "a", 0, id="named and unnamed"),
        pytest.param([USE_A, USE_B, event(E.THINKING), RESULT_A], "running_tool", "b", 0, id="thinking between"),
        pytest.param([USE_A, USE_B, event(E.TEXT_DELTA), RESULT_A], "running_tool", "b", 0, id="text between"),
        pytest.param([USE_A, USE_B, Mark.IDLE, RESULT_A], "running_tool", "b", 0, id="shown idle between"),
        pytest.param([USE_A, event(E.TEXT_DELTA)], "responding", "a", 0, id="text while a tool runs"),
        pytest.param([USE_A, USE, event(E.DONE)], "idle", "", 0, id="done ends tools"),
        pytest.param([USE_A, USE, event(E.ERROR)], "idle", "", 0, id="error ends tools"),
        pytest.param([USE_A, event(E.WARNING)], "running_tool", "a", 0, id="a warning does not"),
    ],
)
def test_tools_in_flight(inputs: list[ProcessInput], substate: str, tools: str, unnamed_tools: int) -> None:
    state = after(*inputs)
    assert {tool.id for tool in state.tools} == set(tools)
    assert (state.substate.value, state.unnamed.total) == (substate, unnamed_tools)


def called(name: str, tool_use_id: str = "") -> AgentEvent:
    return AgentEvent(E.TOOL_USE, tool_name=name, tool_use_id=tool_use_id)


def test_the_running_tool_is_the_one_that_runs_longest_since_it_was_called() -> None:
    state = after(called("Bash", "a"), now=10.0)
    assert state.running_tool == OpenTool(10.0, "Bash", "a")
    state = after(called("Read"), called("Grep", "c"), start=state, now=12.0)
    assert state.running_tool == OpenTool(10.0, "Bash", "a")
    state = after(RESULT_A, start=state, now=15.0)
    assert state.running_tool == OpenTool(12.0, "Grep", "c")
    state = after(event(E.TOOL_RESULT, "c"), start=state, now=16.0)
    assert state.running_tool == OpenTool(12.0, "Read")
    assert after(event(E.TEXT_DELTA), start=state).running_tool is None
    assert after(RESULT, start=state).running_tool is None


def test_a_call_that_is_told_again_keeps_its_time_and_may_bring_its_name() -> None:
    state = after(called("", "a"), now=3.0)
    state = after(called("Bash", "a"), start=state, now=8.0)
    assert (state.running_tool, state.open_tools) == (OpenTool(3.0, "Bash", "a"), 1)
    assert after(called("Other", "a"), start=state, now=9.0).running_tool == OpenTool(3.0, "Bash", "a")


def test_a_clock_that_steps_back_makes_no_tool_older_than_the_last_sign_of_life() -> None:
    state = after(called("Bash", "a"), start=replace(NEW, last_active=5.0), now=1.0)
    assert state.running_tool == OpenTool(5.0, "Bash", "a")


def stepping_cost(open_tools: int) -> int:
    """The most bytes that a call and its result take for themselves, with so many tools open."""
    state = after(*(called("Bash", f"t{number}") for number in range(open_tools)))
    pairs = [(called("Bash", f"more{number}"), event(E.TOOL_RESULT, f"more{number}")) for number in range(20)]
    costs = []
    tracemalloc.start()
    try:
        for use, result in pairs:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            state = after(use, result, start=state, now=1.0)
            costs.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert state.open_tools == open_tools
    return max(costs)


def test_a_step_costs_the_same_however_many_tools_are_open() -> None:
    # A copy of the tools would take megabytes; the depth of the tree makes it a few times as much.
    assert stepping_cost(40_000) < 12 * stepping_cost(1)


# Two named tools and two without a name are enough for every guard to go both ways; a clock that also steps back.
WORLD: tuple[ProcessInput, ...] = (
    *(event(type) for type in AgentEventType),
    *(USE_A, USE_B, RESULT_A, RESULT_B),
    AgentEvent(E.DONE, sub_agent="helper"),
    *Mark,
)
Given = tuple[ProcessInput, float]


def name_of(given_input: Given) -> str:
    what, _ = given_input
    if isinstance(what, Mark):
        return what.value
    return RELAYED if what.sub_agent else what.type.value


def inputs_in(state: ProcessState) -> Iterable[Given]:
    return ((what, now) for what in WORLD for now in (0.0, 1.0) if what != USE or state.unnamed.total < 2)


def killed_is_left_only_by_mark_spawning(before: ProcessState, given_input: Given, following: ProcessState) -> bool:
    if before.lifecycle is not Lifecycle.KILLED or given_input[0] is Mark.SPAWNING:
        return True
    return replace(following, last_active=before.last_active) == before


def a_result_closes_one_tool_at_most(before: ProcessState, given_input: Given, following: ProcessState) -> bool:
    was, left = before.open_tools, following.open_tools
    if name_of(given_input) != E.TOOL_RESULT:
        return True
    return was - left in (0, 1) and (not left or following.substate is AgentState.RUNNING_TOOL)


def a_result_without_id_ends_a_tool_without_id(
    before: ProcessState, given_input: Given, following: ProcessState
) -> bool:
    if given_input[0] != RESULT or not before.open_tools:
        return True
    is_of_unnamed = before.unnamed.total - following.unnamed.total == 1 and following.tools == before.tools
    return is_of_unnamed if before.unnamed else before.tools.total - following.tools.total == 1


def walk(axis: str) -> Exploration[ProcessState, Given]:
    return explore(
        start=[NEW],
        inputs=inputs_in,
        step=lambda state, given_input: step(state, *given_input)[0],
        label=labelled_by(axis),
        named=name_of,
        state_laws={
            "a killed process does nothing": lambda state: (
                state.lifecycle is not Lifecycle.KILLED or (state.substate is AgentState.IDLE and not state.open_tools)
            ),
            "a running tool is in flight, and is told": lambda state: (
                (state.substate is AgentState.RUNNING_TOOL) == (state.running_tool is not None)
            ),
        },
        step_laws={
            "last_active never goes back": lambda before, _, following: following.last_active >= before.last_active,
            "killed is sticky": killed_is_left_only_by_mark_spawning,
            "a result closes one tool at most, and the rest run": a_result_closes_one_tool_at_most,
            "a result without id ends a tool without id": a_result_without_id_ends_a_tool_without_id,
            "a child never moves its parent's lifecycle": lambda before, given_input, following: (
                name_of(given_input) != RELAYED or following.lifecycle is before.lifecycle
            ),
        },
    )


def test_every_path_of_the_lifecycle_is_in_its_table(record_property: Callable[[str, object], None]) -> None:
    found = walk("lifecycle")
    check_table(found, LIFECYCLE)
    assert found.refusals == 0
    assert not found.stuck(lambda state: state.lifecycle is Lifecycle.WORKING)
    # Working: every substate with every set of tools, but no running_tool without one. The others do nothing.
    # A tool was called at one of the times that have been: one of them at first, then two.
    resting = len((Lifecycle.SPAWNING, Lifecycle.IDLE, Lifecycle.KILLED))
    at_first, later = 2**2 * 3, 3**2 * 6
    assert len(found.parents) == 4 * (at_first + later) - 2 + 2 * resting
    record_property("explored", found.summary("process"))


def test_every_path_of_the_substate_is_in_its_table() -> None:
    found = walk("substate")
    check_table(found, SUBSTATE)
    assert not found.stuck(lambda state: not state.open_tools)


def test_outputs_tell_every_change_of_the_lifecycle_and_no_other() -> None:
    for state in walk("lifecycle").parents:
        for what, now in inputs_in(state):
            following, outputs = step(state, what, now)
            changed = following.lifecycle is not state.lifecycle
            assert outputs == ((LifecycleChanged(state.lifecycle, following.lifecycle),) if changed else ())


@pytest.mark.parametrize("what", [event(E.UNKNOWN), event(E.THINKING), Mark.SPAWNING], ids=str)
def test_last_active_does_not_follow_a_clock_that_steps_back(what: ProcessInput) -> None:
    assert after(what, start=replace(NEW, last_active=5.0), now=4.0).last_active == 5.0


def test_a_killed_process_that_is_busy_cannot_be_made() -> None:
    with pytest.raises(ContractError, match="running_tool"):
        replace(BUSY, lifecycle=Lifecycle.KILLED)
    with pytest.raises(ContractError, match="in flight"):
        ProcessState(last_active=0.0, lifecycle=Lifecycle.KILLED, tools=BUSY.tools)


def test_a_word_that_nobody_knows_is_an_unknown_event() -> None:
    assert AgentEventType("rate_limit_event") is E.UNKNOWN
    assert msgspec.json.decode(b'{"type":"rate_limit_event","raw":"x"}', type=AgentEvent).type is E.UNKNOWN
    assert AgentEvent("rate_limit_event").type is E.UNKNOWN  # type: ignore[arg-type]
    assert AgentEvent("done").type is E.DONE  # type: ignore[arg-type]


anything = st.one_of(
    st.builds(
        AgentEvent,
        type=st.one_of(st.sampled_from(AgentEventType), st.text(max_size=8)),
        text=st.text(max_size=5),
        tool_use_id=st.sampled_from(["", "a", "b", "\x00", "\ud800"]),
        is_error=st.booleans(),
    ),
    st.sampled_from(Mark),
)
times = st.floats(min_value=-1e12, max_value=1e12)


@given(st.lists(st.tuples(anything, times), max_size=40))
def test_nothing_is_ever_refused(history: list[Given]) -> None:
    state = NEW
    for what, now in history:
        following, _ = step(state, what, now)
        assert following.last_active >= state.last_active
        assert following.open_tools >= 0
        state = following
    assert hash(state) == hash(replace(state))


@given(st.builds(AgentEvent, type=st.sampled_from(AgentEventType), text=st.text(st.characters(codec="utf-8"))))
def test_an_event_survives_the_wire(sent: AgentEvent) -> None:
    assert msgspec.json.decode(msgspec.json.encode(sent), type=AgentEvent) == sent


@each_row("lifecycle", LIVING)
@each_row("substate", AgentState)
def test_the_idle_time_to_live_runs_whenever_no_turn_is_open(lifecycle: Lifecycle, substate: AgentState) -> None:
    state = ProcessState(last_active=10.0, lifecycle=lifecycle, substate=substate)
    assert idle_deadline(state, 120.0, turn_open=False) == 130.0
    assert idle_deadline(state, 120.0, turn_open=True) is None


@each_row("timeout", [None, 0.0, -1.0, math.inf, math.nan])
def test_a_timeout_that_is_off_gives_no_deadline(timeout: float | None) -> None:
    assert idle_deadline(NEW, timeout, turn_open=False) is None


def test_a_killed_process_has_no_deadline() -> None:
    assert idle_deadline(after(Mark.KILLED), 120.0, turn_open=False) is None
