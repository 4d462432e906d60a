"""What the process machine says is part of the published status: the substate, the running tool, the lifecycle."""

from __future__ import annotations

from datetime import timedelta

from interlock.agents.observations import (
    BecameReady,
    ChannelLost,
    ChildrenChanged,
    Exited,
    MessageEnded,
    StandingSeen,
    TextArrived,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.monitor.arbitration.agent_status import Standing
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.states import Activity, AgentState, DriverKind, Lifecycle
from tests.runtime.conducting import BEGAN, Stage

DONE = TurnEnded(ending=TurnEnding.NATURAL)


def published(stage: Stage) -> Status:
    """What was told last, which is what is so."""
    told = stage.published(Status)[-1]
    assert told == stage.conductor.status
    return told


def axes(stage: Stage) -> tuple[AgentState | None, Lifecycle | None]:
    status = published(stage)
    return status.substate, status.lifecycle


def test_a_turn_is_told_by_its_substates() -> None:
    stage = Stage()
    stage.send()
    assert axes(stage) == (AgentState.IDLE, Lifecycle.SPAWNING)
    stage.started()
    stage.see(BecameReady())
    stage.submitted()
    stage.see(ThoughtArrived(text="hm"))
    assert axes(stage) == (AgentState.THINKING, Lifecycle.WORKING)
    stage.see(TextArrived(text="so"))
    assert axes(stage) == (AgentState.RESPONDING, Lifecycle.WORKING)
    stage.see(MessageEnded(text="so"), DONE)
    assert axes(stage) == (AgentState.IDLE, Lifecycle.IDLE)
    stage.see(Exited(code=0))
    assert axes(stage) == (AgentState.IDLE, Lifecycle.KILLED)


def test_the_running_tool_is_told_with_its_name_and_since_when() -> None:
    stage = Stage()
    stage.working()
    stage.wait(5.0)
    stage.see(ToolCalled(call_id="c1", name="Bash", args={}))
    stage.wait(7.0)
    stage.see(ToolCalled(call_id="c2", name="Read", args={}))
    status = published(stage)
    assert (status.substate, status.tool) == (AgentState.RUNNING_TOOL, "Bash")
    assert status.tool_since == BEGAN + timedelta(seconds=5)
    stage.see(ToolReturned(call_id="c1", output="ok"))
    status = published(stage)
    assert (status.tool, status.tool_since) == ("Read", BEGAN + timedelta(seconds=12))
    stage.see(ToolReturned(call_id="c2", output="ok"))
    status = published(stage)
    assert (status.substate, status.tool, status.tool_since) == (AgentState.RESPONDING, "", None)


def test_an_agent_at_rest_stays_idle_whatever_its_children_and_figures_say() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="so"), MessageEnded(text="so"), DONE)
    stage.see(ToolCalled(call_id="c9", name="Bash", args={}, sub_agent="helper"), ChildrenChanged(open=frozenset()))
    assert axes(stage) == (AgentState.IDLE, Lifecycle.IDLE)


def test_a_ready_agent_without_a_prompt_is_idle() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="so"), MessageEnded(text="so"), DONE, BecameReady())
    assert axes(stage) == (AgentState.IDLE, Lifecycle.IDLE)


def test_of_an_agent_that_cannot_be_seen_nothing_is_claimed() -> None:
    stage = Stage()
    stage.working()
    stage.see(ToolCalled(call_id="c1", name="Bash", args={}), ChannelLost(message="gone"))
    status = published(stage)
    assert (status.activity, status.substate, status.lifecycle, status.tool) == (Activity.UNKNOWN, None, None, "")


def test_a_terminal_feeds_the_process_machine_from_the_edges_of_its_verdicts() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(StandingSeen(standing=Standing(Activity.WORKING)))
    assert axes(stage) == (AgentState.IDLE, Lifecycle.WORKING)
    stage.see(StandingSeen(standing=Standing(Activity.STALLED)))
    assert axes(stage) == (AgentState.IDLE, Lifecycle.WORKING)
    stage.see(StandingSeen(standing=Standing(Activity.QUIET)))
    assert axes(stage) == (AgentState.IDLE, Lifecycle.IDLE)
