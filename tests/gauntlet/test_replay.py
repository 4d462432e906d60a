"""What the model is given next, as the model received it: the bodies of its requests are the proof."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pytest

from interlock.lifecycle.turns import TURN_PAYLOADS
from interlock.runtime.policy import RunPolicy
from interlock.testing.scripted_model import ScriptedModel
from interlock.vocabulary.events.audit import (
    Anomaly,
    ProviderUsage,
    StreamCheckpoint,
    TurnFailed,
    WorkflowEvent,
    WorkflowEventKind,
)
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata, SubagentEvent
from interlock.vocabulary.events.envelope import Event, audience
from interlock.vocabulary.events.registry import Audience, Json, Payload
from interlock.vocabulary.ids import SessionId, StreamId, SubagentId, WorkflowId
from interlock.vocabulary.states import SubagentState, TurnState, WorkflowState
from tests.gauntlet.ways import ANSWER, ERROR, HALF, LATER, PARTIAL, Way, through
from tests.projections.whole_logs import provider_input

MARK: Final = "never for the model"
AUDIT: Final[tuple[Payload, ...]] = (
    ProviderUsage(model=MARK, input_tokens=7),
    Anomaly(kind="odd", source="test", message=MARK),
    TurnFailed(terminal_status=TurnState.FAILED, error_kind="odd", error_message=MARK),
    AssistantMessage(text=MARK, metadata=MessageMetadata(partial=True)),
    StreamCheckpoint(stream_id=StreamId("str_odd"), offset=len(MARK), text=MARK),
    WorkflowEvent(
        kind=WorkflowEventKind.WORKFLOW_FINISHED,
        workflow_id=WorkflowId("wf_odd"),
        status=WorkflowState.FAILED,
        reason=MARK,
    ),
    SubagentEvent(subagent_id=SubagentId("sub_odd"), status=SubagentState.FAILED, reason=MARK, summary=MARK),
    SubagentEvent(subagent_id=SubagentId("sub_odd"), status=SubagentState.QUEUED, task=MARK, model_visible=True),
    SubagentEvent(subagent_id=SubagentId("sub_odd"), status=SubagentState.DETACHED, task=MARK, model_visible=True),
)
"""One of each kind that may come between turns, and none of them for the model."""


async def every_end(way: Way, session: SessionId, audit: Sequence[Payload] = ()) -> None:
    """A clean turn, one of each bad end, and a clean one, with audit events after each."""

    async def note() -> None:
        for payload in audit:
            is_of_turn = type(payload) not in TURN_PAYLOADS  # else it would be a fact of the turn that is open
            await way.runtime.supervisor(session).record(payload, is_of_turn=is_of_turn)

    assert await way.ask(session, "answer") is TurnState.COMPLETED
    await note()
    assert await way.ask(session, "break") is way.broken
    await note()
    prompt = await way.begin(session, "hang")
    await note()
    await way.runtime.cancel(session)
    assert (await way.runtime.wait_turn(session, prompt)).state is TurnState.INTERRUPTED
    await note()
    prompt = await way.begin(session, "hang")
    await way.pass_time(session, 1001)
    assert (await way.runtime.wait_turn(session, prompt)).state is TurnState.TIMED_OUT
    await note()
    assert await way.ask(session, "later") is TurnState.COMPLETED
    await note()
    assert await way.ask(session, "answer") is TurnState.COMPLETED


BUDGET: Final = RunPolicy(turn_budget_seconds=1000, interrupt_seconds=5, stall_after_seconds=None)


def bodies_of(model: ScriptedModel | None) -> list[bytes]:
    """Every request, in order."""
    assert model is not None
    return [one.body for one in model.requests]


def told(audit: Sequence[Payload] = ()) -> list[bytes]:
    async def story(way: Way) -> list[bytes]:
        await every_end(way, await way.open(BUDGET), audit)
        return bodies_of(way.model)

    return through("model", story)


def messages(body: bytes) -> bytes:
    """The conversation in a request, as it was sent, without what closes it."""
    begins = body.index(b'"messages":') + len(b'"messages":')
    whole, length = json.JSONDecoder().raw_decode(body[begins:].decode())
    assert isinstance(whole, list)
    return body[begins : begins + length].rstrip(b"]} ")


def test_the_next_request_holds_no_partial_text_no_failure_and_no_audit_event() -> None:
    last = told(AUDIT)[-1]
    assert json.loads(last)["messages"]
    for forbidden in (PARTIAL, ERROR, MARK, "turn_failed", "interrupted", "timed_out", "provider_usage"):
        assert forbidden.encode() not in last, forbidden
    texts = [text for text in (ANSWER, LATER) if text.encode() in last]
    assert texts == [ANSWER, LATER]
    for deed in ("answer", "break", "hang", "later"):
        assert f"SCN:{deed}".encode() in last  # a turn that failed keeps its prompt


def test_audit_events_leave_every_request_as_it_is_byte_for_byte() -> None:
    assert told(AUDIT) == told()


def test_each_request_extends_the_one_before_it() -> None:
    bodies = told(AUDIT)
    for before, after in pairwise(bodies):
        assert messages(after).startswith(messages(before))


@pytest.mark.parametrize("is_visible", [True, False])
def test_the_end_of_a_child_reaches_the_model_if_it_was_chosen_for_it_and_only_then(is_visible: bool) -> None:
    async def story(way: Way) -> list[bytes]:
        parent = await way.open()
        await way.ask(parent, "answer")
        child = await way.subagents.start(parent, way.spec, way.tell("half"), model_visible=is_visible)
        await way.subagents.wait(child)
        failing = await way.subagents.start(parent, way.spec, way.tell("break"), model_visible=is_visible)
        await way.subagents.wait(failing)
        await way.ask(parent, "later")
        return bodies_of(way.model)

    bodies = through("model", story)
    assert (HALF.encode() in bodies[-1]) is is_visible
    assert PARTIAL.encode() not in bodies[-1]
    assert messages(bodies[-1]).startswith(messages(bodies[0]))


@pytest.mark.parametrize("name", ["stream", "model", pytest.param("terminal", marks=pytest.mark.deep)])
def test_what_a_model_would_be_given_of_the_log_is_the_clean_part_by_every_way(name: str) -> None:
    async def story(way: Way) -> tuple[Event, ...]:
        session = await way.open(BUDGET)
        await every_end(way, session, AUDIT)
        return await way.events(session)

    events = through(name, story)
    given = provider_input(events)
    assert provider_input([event for event in events if audience(event) is Audience.REPLAY]) == given
    replayed: list[dict[str, Json]] = [json.loads(line) for line in given.splitlines()]
    assert [item["text"] for item in replayed if item["type"] == "assistant_text"] == [ANSWER, LATER, ANSWER]
    assert MARK.encode() not in given
    assert len([item for item in replayed if item["type"] == "user_text"]) == 6  # a turn that failed keeps its prompt
