"""A model that has children and workflows as its tools: what the tool says in its turn is what the log says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interlock.agents.model import ModelDriver
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.projections.checks.diagnose import diagnose
from interlock.projections.present.display import DisplayChannel, Show, ShowTool, ToolKind, ToolStatus
from interlock.projections.present.presenter import present
from interlock.testing.scripted_model import ScriptedCall, ScriptedModel, Text
from interlock.vocabulary.events.audit import WorkflowEvent
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId, StepId, WorkflowId
from interlock.vocabulary.states import TurnState
from tests.gauntlet.ways import ANSWER, DEEDS, Way, model_way, run_bounded, steps_of_deed


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    scripts = {name: steps_of_deed(deed) for name, deed in DEEDS.items()}
    scripts["delegate"] = (ScriptedCall("wait_agent", {"deeds": ["ready", "break"]}), Text(ANSWER))
    scripts["whole"] = (ScriptedCall("run_workflow", {"deeds": ["ready", "ready"]}), Text(ANSWER))
    scripts["part"] = (ScriptedCall("run_workflow", {"deeds": ["ready", "half"]}), Text(ANSWER))
    with ScriptedModel(scripts) as served:
        yield served
        assert served.faults == ()


async def lived(way: Way, deed: str) -> SessionId:
    session = await way.open()
    assert await way.ask(session, deed) is TurnState.COMPLETED
    events = await way.events(session)
    (turn,) = {event.turn_id for event in events if event.type == "turn_started"}
    told = [event for event in events if isinstance(event.data, SubagentEvent | WorkflowEvent)]
    assert told
    assert {event.turn_id for event in told} == {turn}
    assert diagnose(events, owner_alive=True, live_children=way.subagents.live).ok
    answers = [
        item.text for item in present(events) if isinstance(item, Show) and item.channel is DisplayChannel.ANSWER
    ]
    assert answers == [ANSWER]
    return session


@pytest.mark.parametrize(
    ("deed", "tool", "status"),
    [
        ("delegate", "wait_agent", ToolStatus.PARTIAL),
        ("whole", "run_workflow", ToolStatus.SUCCEEDED),
        ("part", "run_workflow", ToolStatus.PARTIAL),
    ],
)
def test_a_tool_that_waits_says_no_more_than_its_children_prove(
    model: ScriptedModel, deed: str, tool: str, status: ToolStatus
) -> None:
    async def wait_agent(deeds: list[str]) -> Json:
        """Give each deed to a child, and wait for all."""
        parent = way.runtime.sessions[0]
        started = [await way.subagents.start(parent, way.spec, way.tell(one)) for one in deeds]
        return {"status": (await way.subagents.wait(*started)).status.value}

    async def run_workflow(deeds: list[str]) -> Json:
        """Run a step a deed."""
        steps = tuple(StepSpec(id=StepId(f"s{at}"), task=way.tell(one)) for at, one in enumerate(deeds))
        spec = WorkflowSpec(id=WorkflowId("wf_1"), steps=steps)
        result = await way.workflows.run(way.runtime.sessions[0], spec, lambda _: way.spec, is_of_turn=True)
        return {"status": result.status.value, "ok": result.ok}

    way = model_way(model, ModelDriver(tools=[wait_agent, run_workflow]), permissions=["allow *"])

    async def story() -> None:
        async with way.running():
            session = await lived(way, deed)
            tools = [item for item in present(await way.events(session)) if isinstance(item, ShowTool)]
            drawn = [item.status for item in tools if item.kind is ToolKind.TOOL and item.name == tool]
            assert drawn[-1] is status

    run_bounded(story())
