"""Each terminal state with what it requires: written only whole, and what a log lacks is named."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec import structs

from interlock.lifecycle.children import subagent_evidence as evidence
from interlock.vocabulary.actions import NextAction, NextActionKind, inspect_child
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.envelope import audience, new_event
from interlock.vocabulary.events.registry import Audience, Json
from interlock.vocabulary.ids import EventId, SessionId, SubagentId
from interlock.vocabulary.states import SubagentState
from tests.each_row import each_row
from tests.lifecycle.children import EPOCH

CHILD: Final = SessionId("ses_child")
NOBODY: Final = SessionId("")
LOOK: Final = (inspect_child(CHILD),)
LAST: Final = SubagentEvent(
    subagent_id=SubagentId("sub_1"),
    status=SubagentState.RUNNING,
    child_session_id=CHILD,
    agent="reviewer",
    task="review the diff",
    reason="new_input",
    summary="old words",
    attempt=3,
    timeout_ms=1000,
    deadline_at=EPOCH,
    model_visible=True,
)

WHOLE: Final = {
    SubagentState.COMPLETED: evidence.completed(LAST, child_session_id=CHILD, summary="done", elapsed_ms=7),
    SubagentState.FAILED: evidence.failed(LAST, child_session_id=CHILD, reason="crashed", next_actions=LOOK),
    SubagentState.TIMED_OUT: evidence.timed_out(
        LAST, child_session_id=CHILD, timeout_ms=1000, elapsed_ms=1001, reason="timeout", next_actions=LOOK
    ),
    SubagentState.INTERRUPTED: evidence.interrupted(LAST, child_session_id=CHILD, reason="parent stopped it"),
    SubagentState.DETACHED: evidence.detached(LAST, child_session_id=CHILD, reason="restart", next_actions=LOOK),
}
BLANKS: Final = {
    "subagent_id": "",
    "child_session_id": None,
    "reason": " \t",
    "timeout_ms": None,
    "elapsed_ms": None,
    "next_actions": (),
    "summary": " \n",
}
REQUIRED_FIELDS: Final = {
    SubagentState.COMPLETED: {"subagent_id", "child_session_id", "summary"},
    SubagentState.FAILED: {"subagent_id", "child_session_id", "reason", "next_actions"},
    SubagentState.TIMED_OUT: {
        "subagent_id",
        "child_session_id",
        "reason",
        "next_actions",
        "timeout_ms",
        "elapsed_ms",
    },
    SubagentState.INTERRUPTED: {"subagent_id", "child_session_id", "reason"},
    SubagentState.DETACHED: {"subagent_id", "child_session_id", "next_actions"},
}


@each_row("state", REQUIRED_FIELDS)
@each_row("field", BLANKS)
def test_a_terminal_fact_lacks_exactly_what_its_state_requires(state: SubagentState, field: str) -> None:
    whole = WHOLE[state]
    assert evidence.missing_evidence(whole) == ()
    lacking = structs.replace(whole, **{field: BLANKS[field]})
    assert bool(evidence.missing_evidence(lacking)) == (field in REQUIRED_FIELDS[state])


def test_the_requirements_cover_every_state_but_the_open_ones() -> None:
    assert set(SubagentState) - evidence.TERMINAL == {SubagentState.QUEUED, SubagentState.RUNNING}
    for state in (SubagentState.QUEUED, SubagentState.RUNNING):
        assert evidence.missing_evidence(SubagentEvent(subagent_id=SubagentId(""), status=state)) == ()


def test_a_constructor_refuses_what_types_cannot_see() -> None:
    with pytest.raises(ContractError, match="summary or checkpoint"):
        evidence.completed(LAST, child_session_id=CHILD, summary=" ", checkpoint={}, elapsed_ms=None)
    with pytest.raises(ContractError, match="child_session_id, summary"):
        evidence.completed(LAST, child_session_id=NOBODY, summary="", elapsed_ms=None)
    with pytest.raises(ContractError, match="reason, next_actions"):
        evidence.failed(LAST, child_session_id=CHILD, reason="", next_actions=())
    with pytest.raises(ContractError, match="next_actions"):
        evidence.setup_failed(LAST, summary="no such agent", next_actions=())
    with pytest.raises(ContractError, match="next_actions"):
        evidence.timed_out(LAST, child_session_id=CHILD, timeout_ms=1, elapsed_ms=1, reason="timeout", next_actions=())
    with pytest.raises(ContractError, match="reason"):
        evidence.interrupted(LAST, child_session_id=CHILD, reason=" ")
    no_command = (NextAction(NextActionKind.ATTACH),)
    with pytest.raises(ContractError, match="with a command"):
        evidence.detached(LAST, child_session_id=CHILD, reason="restart", next_actions=no_command)


@each_row(
    ("checkpoint", "says"),
    [
        (None, False),
        ("", False),
        (" \n", False),
        ([], False),
        ({}, False),
        (True, False),
        (0, False),
        ("see notes.md", True),
        (["notes.md"], True),
        ({"status": "partial"}, True),
    ],
)
def test_a_checkpoint_is_evidence_only_if_it_says_something(checkpoint: Json, says: bool) -> None:
    assert evidence.has_checkpoint(checkpoint) is says
    fact = structs.replace(WHOLE[SubagentState.COMPLETED], summary="", checkpoint=checkpoint)
    assert (evidence.missing_evidence(fact) == ()) is says


def test_a_child_without_a_session_is_excused_only_by_the_reason_that_explains_it() -> None:
    failed = evidence.setup_failed(LAST, summary="no such agent", next_actions=LOOK)
    closed = evidence.closed_before_start(LAST, summary="not needed any more")
    assert (failed.status, failed.reason, failed.child_session_id) == (SubagentState.FAILED, "setup_failed", None)
    assert (closed.status, closed.reason) == (SubagentState.INTERRUPTED, "closed_before_start")
    assert evidence.missing_evidence(failed) == evidence.missing_evidence(closed) == ()
    swapped = structs.replace(failed, reason="closed_before_start"), structs.replace(closed, reason="setup_failed")
    assert all(evidence.missing_evidence(fact) for fact in swapped)


@each_row("state", WHOLE)
def test_a_constructor_carries_over_who_it_is_about_and_nothing_that_was_said_before(state: SubagentState) -> None:
    fact = WHOLE[state]
    assert (fact.subagent_id, fact.agent, fact.task, fact.attempt) == ("sub_1", "reviewer", "review the diff", 3)
    assert fact.timeout_ms == 1000
    assert fact.deadline_at is None
    assert "old words" not in fact.summary
    assert fact.reason != "new_input"


@each_row("state", WHOLE)
@each_row("chosen", [True, False])
def test_a_model_sees_the_end_of_a_child_only_if_chosen_and_never_a_detached_one(
    state: SubagentState, chosen: bool
) -> None:
    last = structs.replace(LAST, model_visible=chosen)
    detached = evidence.detached(last, child_session_id=CHILD, reason="restart", next_actions=LOOK)
    fact = detached if state is SubagentState.DETACHED else structs.replace(WHOLE[state], model_visible=chosen)
    event = new_event(fact, id=EventId("evt_1"), session_id=SessionId("ses_parent"), ts=EPOCH)
    is_seen = chosen and state is not SubagentState.DETACHED
    assert fact.model_visible is is_seen
    assert audience(event) is (Audience.REPLAY if is_seen else Audience.AUDIT)
