"""Children and workflows, through the running runtime, once by each way: nothing but proof makes a completion."""

from __future__ import annotations

import pytest

from interlock.lifecycle.children.subagent_evidence import missing_evidence
from interlock.lifecycle.children.subagents import WaitStatus
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.lifecycle.turns import turn_states
from interlock.projections.checks.diagnose import ReportStatus, diagnose
from interlock.projections.present.display import ShowTool, ToolKind, ToolStatus
from interlock.projections.present.presenter import present
from interlock.vocabulary.events.audit import WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.ids import SessionId, StepId, WorkflowId
from interlock.vocabulary.states import SubagentState, TurnState, WorkflowState
from tests.gauntlet.ways import ANSWER, WAYS, Way, through
from tests.projections.whole_logs import provider_input

each_way = pytest.mark.parametrize("name", WAYS)


async def facts(way: Way, parent: SessionId) -> list[SubagentEvent]:
    return [event.data for event in await way.events(parent) if isinstance(event.data, SubagentEvent)]


async def drawn(way: Way, parent: SessionId, kind: ToolKind) -> ToolStatus:
    """How the last child, or workflow, of a session is drawn."""
    items = [item for item in present(await way.events(parent)) if isinstance(item, ShowTool)]
    return next(item.status for item in reversed(items) if item.kind is kind)


@each_way
def test_a_child_completes_by_its_own_answer(name: str) -> None:
    async def story(way: Way) -> None:
        parent = await way.open()
        child = await way.subagents.start(parent, way.spec, way.tell("answer"), model_visible=True)
        outcome = await way.subagents.wait(child)
        assert outcome.status is WaitStatus.COMPLETED
        told = await facts(way, parent)
        assert [fact.status for fact in told] == [SubagentState.QUEUED, SubagentState.RUNNING, SubagentState.COMPLETED]
        assert (told[-1].summary, missing_evidence(told[-1])) == (ANSWER, ())
        assert told[-1].child_session_id is not None
        (turn,) = turn_states(await way.events(told[-1].child_session_id))
        assert turn.state is TurnState.COMPLETED
        events = await way.events(parent)
        assert diagnose(events, owner_alive=True, live_children=way.subagents.live).status is ReportStatus.READY
        assert ANSWER.encode() in provider_input(events)
        assert await drawn(way, parent, ToolKind.SUBAGENT) is ToolStatus.SUCCEEDED

    through(name, story)


@each_way
def test_a_child_that_hangs_is_timed_out_and_leaves_nothing_running(name: str) -> None:
    async def story(way: Way) -> None:
        parent = await way.open()
        task = way.tell("hang")
        child = await way.subagents.start(parent, way.spec, task, timeout_seconds=0.5, model_visible=True)
        outcome = await way.subagents.wait(child)
        assert (outcome.status, outcome.buckets[SubagentState.TIMED_OUT]) == (WaitStatus.PARTIAL, (child,))
        last = way.subagents.fact(child)
        assert (last.timeout_ms, last.reason, missing_evidence(last)) == (500, "timeout", ())
        events = await way.events(parent)
        report = diagnose(events, owner_alive=True, live_children=way.subagents.live)
        assert (report.status, report.ok) == (ReportStatus.READY_WITH_WARNINGS, True)
        assert await drawn(way, parent, ToolKind.SUBAGENT) is not ToolStatus.SUCCEEDED
        assert last.child_session_id is not None
        supervisor = way.runtime.supervisor(last.child_session_id)
        await supervisor.until(
            lambda conductor: True if conductor.agent is None and conductor.book.turn is None else None
        )
        states = [turn.state for turn in turn_states(await way.events(last.child_session_id))]
        assert states in ([TurnState.INTERRUPTED], [])  # none: its time was up before its agent had started

    through(name, story)


def plan(way: Way, *deeds: str) -> WorkflowSpec:
    """A step a deed, and one more that needs them all."""
    steps = [StepSpec(id=StepId(f"s{at}"), task=way.tell(deed)) for at, deed in enumerate(deeds)]
    last = StepSpec(id=StepId("last"), task=way.tell("ready"), depends_on=tuple(step.id for step in steps))
    return WorkflowSpec(id=WorkflowId("wf_1"), steps=(*steps, last))


async def end_of(way: Way, parent: SessionId) -> WorkflowEvent:
    spine = [event.data for event in await way.events(parent) if isinstance(event.data, WorkflowEvent)]
    assert [fact.kind for fact in spine].count(WorkflowEventKind.WORKFLOW_FINISHED) == 1
    return spine[-1]


@pytest.mark.parametrize("name", ["stream", "model", pytest.param("terminal", marks=pytest.mark.deep)])
def test_a_workflow_is_ok_when_every_step_left_a_checkpoint(name: str) -> None:
    async def story(way: Way) -> None:
        parent = await way.open()
        result = await way.workflows.run(parent, plan(way, "ready", "ready"), lambda _: way.spec)
        assert (result.ok, result.status) == (True, WorkflowState.COMPLETED)
        assert (await end_of(way, parent)).status is WorkflowState.COMPLETED
        events = await way.events(parent)
        assert diagnose(events, owner_alive=True).status is ReportStatus.READY
        assert await drawn(way, parent, ToolKind.WORKFLOW) is ToolStatus.SUCCEEDED
        assert provider_input(events) == b""

    through(name, story)


@each_way
def test_a_workflow_with_a_step_that_only_said_something_is_partial(name: str) -> None:
    async def story(way: Way) -> None:
        parent = await way.open()
        result = await way.workflows.run(parent, plan(way, "ready", "half", "break"), lambda _: way.spec)
        assert (result.ok, result.status) == (False, WorkflowState.PARTIAL)
        assert (result.usable_checkpoints, result.partial_steps) == (("s0",), ("s1",))
        assert (result.failed_steps, result.held_steps) == (("s2",), ("last",))
        finished = await end_of(way, parent)
        assert finished.status is WorkflowState.PARTIAL
        assert finished.next_actions
        report = diagnose(await way.events(parent), owner_alive=True)
        assert (report.status, report.ok) == (ReportStatus.READY_WITH_WARNINGS, True)
        assert await drawn(way, parent, ToolKind.WORKFLOW) is ToolStatus.PARTIAL

    through(name, story)
