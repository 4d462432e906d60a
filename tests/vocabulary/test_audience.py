"""Every event type declares its audience once; three kinds depend on what they say."""

from __future__ import annotations

import pytest

from interlock.testing.scribe import Scribe
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events import audit, conversation, presenter, workspace
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    Reasoning,
    SubagentEvent,
)
from interlock.vocabulary.events.envelope import TYPE_OF, UnknownEvent, audience
from interlock.vocabulary.events.registry import DECLARATIONS, Audience, Durability, Payload, declare
from interlock.vocabulary.ids import SubagentId
from interlock.vocabulary.states import SubagentState
from tests.each_row import each_row

DESIGN = {
    Audience.REPLAY: """user_message assistant_message reasoning tool_call tool_result history_compaction
        branch_summary subagent_event""",
    Audience.AUDIT: """turn_started turn_failed run_state stream_checkpoint provider_usage permission_decision
        tool_call_suspended tool_call_decided workflow_event session_fork process_event surface_event
        delivery_receipt queue_event queue_gate anomaly session_opened session_deleted agent_session dialog_opened
        dialog_answered dialog_closed decision_undelivered turn_reply session_seen session_renamed last_screen
        workspace_changed worktree_changed file_reviewed child_ended""",
    Audience.PRESENTER: "text_delta reasoning_delta status plan context_pressure screen_update",
}


def audience_of(payload: Payload) -> Audience:
    (event,) = Scribe().write(payload)
    return audience(event)


def test_the_types_are_those_of_the_design_each_with_its_audience() -> None:
    declared = {name: declaration.audience for name, declaration in DECLARATIONS.items()}
    assert declared == {name: who for who, names in DESIGN.items() for name in names.split()}


def test_no_payload_is_without_a_declaration() -> None:
    written = {
        thing
        for module in (conversation, audit, presenter, workspace)
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Payload) and thing is not Payload
    }
    assert written == set(TYPE_OF)


def test_only_presenter_events_are_ephemeral() -> None:
    ephemeral = {d.type for d in DECLARATIONS.values() if d.durability is Durability.EPHEMERAL}
    assert ephemeral == set(DESIGN[Audience.PRESENTER].split())


def test_a_type_is_declared_once() -> None:
    with pytest.raises(ContractError, match="declared twice"):
        declare("user_message", Audience.AUDIT)(UnknownEvent)


@each_row(
    ("metadata", "expected"),
    [
        (MessageMetadata(), Audience.REPLAY),
        (MessageMetadata(intermediate=True), Audience.REPLAY),
        (MessageMetadata(source=MessageSource.TRANSCRIPT), Audience.REPLAY),
        (MessageMetadata(partial=True), Audience.AUDIT),
        (MessageMetadata(source=MessageSource.SURFACE), Audience.AUDIT),
        (MessageMetadata(source=MessageSource.SURFACE, surface_accepted=True), Audience.REPLAY),
        (MessageMetadata(source=MessageSource.SURFACE, surface_accepted=True, partial=True), Audience.AUDIT),
    ],
)
def test_a_partial_or_unverified_message_is_audit(metadata: MessageMetadata, expected: Audience) -> None:
    assert audience_of(AssistantMessage(text="x", metadata=metadata)) is expected


@each_row("status", list(SubagentState))
@each_row("is_visible", [True, False])
def test_a_subagent_fact_is_replayed_only_if_terminal_and_visible(status: SubagentState, is_visible: bool) -> None:
    never = {SubagentState.QUEUED, SubagentState.RUNNING, SubagentState.DETACHED}
    fact = SubagentEvent(subagent_id=SubagentId("s"), status=status, model_visible=is_visible)
    assert (audience_of(fact) is Audience.REPLAY) == (is_visible and status not in never)


def test_reasoning_stays_replay_and_an_unknown_event_is_never_replayed() -> None:
    assert audience_of(Reasoning(item={}, model="m")) is Audience.REPLAY
    assert audience_of(UnknownEvent(type="x", body=None)) is Audience.AUDIT
