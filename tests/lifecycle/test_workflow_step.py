"""A step: what it has to show, and how that follows from its child."""

from __future__ import annotations

import pytest
from msgspec import structs

from interlock.lifecycle.children.subagent import ChildFailed, ChildFinished, Detach, Interrupt, SubagentTimerFired
from interlock.lifecycle.children.workflow_step import StepEvidence, StepRecord, step_evidence_from_child
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId, StepId, SubagentId
from interlock.vocabulary.states import StepState, SubagentState
from tests.each_row import each_row
from tests.lifecycle.children import after, queued, running

S = StepState


def completed(summary: str, checkpoint: Json = None) -> SubagentEvent:
    return SubagentEvent(
        subagent_id=SubagentId("sub_1"),
        child_session_id=SessionId("ses_child"),
        status=SubagentState.COMPLETED,
        summary=summary,
        checkpoint=checkpoint,
    )


def evidence_of(fact: SubagentEvent) -> StepEvidence:
    found = step_evidence_from_child(fact)
    assert found is not None
    return found


READY: Json = {"status": "checkpoint_ready"}


def test_a_checkpoint_of_a_child_that_cannot_be_named_is_not_ready() -> None:
    unproven = structs.replace(completed("done", READY), child_session_id=None)
    assert (evidence_of(unproven).state, evidence_of(unproven).reason) == (S.NEEDS_ORCHESTRATOR, "unproven_child")


@each_row(
    ("summary", "checkpoint", "state"),
    [
        ("done", {"status": "checkpoint_ready"}, S.CHECKPOINT_READY),
        ("", {"status": "checkpoint_ready", "summary": "tests pass"}, S.CHECKPOINT_READY),
        ("done", {"status": "checkpoint_ready", "dependent_safe": True}, S.CHECKPOINT_READY),
        ("done", {"status": "checkpoint_ready", "dependent_safe": False}, S.PARTIAL),
        ("done", {"status": "checkpoint_ready", "dependent_safe": "yes"}, S.PARTIAL),
        ("done", {"status": "partial"}, S.PARTIAL),
        ("done", {"status": "failed"}, S.FAILED),
        ("done", {"status": "held"}, S.HELD),
        ("", {"status": "needs_orchestrator"}, S.NEEDS_ORCHESTRATOR),
        ("done", None, S.PARTIAL),
        ("checkpoint_status: checkpoint_ready", None, S.PARTIAL),
        ("done", "checkpoint_ready", S.PARTIAL),
        ("done", ["checkpoint_ready"], S.PARTIAL),
        ("done", {"ready": True}, S.PARTIAL),
        ("done", {"status": "READY"}, S.PARTIAL),
        ("done", {"status": ["checkpoint_ready"]}, S.PARTIAL),
        ("done", {"status": "timed_out"}, S.PARTIAL),
        ("done", {"status": "running"}, S.PARTIAL),
        (" \n", None, S.FAILED),
        (" ", {"status": "checkpoint_ready"}, S.FAILED),
        ("", {"status": "checkpoint_ready", "summary": " "}, S.FAILED),
        ("", {"status": "partial"}, S.FAILED),
    ],
)
def test_a_completed_child_is_ready_only_by_an_explicit_checkpoint_with_words(
    summary: str, checkpoint: Json, state: StepState
) -> None:
    assert evidence_of(completed(summary, checkpoint)).state is state


@each_row(
    ("fact", "state", "reason"),
    [
        (after(running(), ChildFinished(1, "done"), 1).fact, S.PARTIAL, "no_explicit_checkpoint"),
        (after(running(), ChildFailed(1, "crashed"), 1).fact, S.FAILED, "crashed"),
        (after(running(), Interrupt("stop"), 1).fact, S.FAILED, "stop"),
        (after(queued(), Interrupt("stop"), 1).fact, S.FAILED, "closed_before_start"),
        (after(running(), SubagentTimerFired(), 2).fact, S.TIMED_OUT, "timeout"),
        (after(running(), Detach("restart"), 1).fact, S.NEEDS_ORCHESTRATOR, "child_may_still_be_running"),
        (SubagentEvent(subagent_id=SubagentId("s"), status=SubagentState.FAILED), S.FAILED, "child_failed"),
        (SubagentEvent(subagent_id=SubagentId("s"), status=SubagentState.TIMED_OUT), S.FAILED, "child_timed_out"),
    ],
)
def test_every_other_end_of_a_child_keeps_its_reason_and_its_advice(
    fact: SubagentEvent, state: StepState, reason: str
) -> None:
    found = evidence_of(fact)
    assert (found.state, found.reason, found.next_actions) == (state, reason, fact.next_actions)
    assert (found.timeout_ms, found.elapsed_ms) == (fact.timeout_ms, fact.elapsed_ms)


def test_an_open_child_shows_nothing_yet() -> None:
    assert step_evidence_from_child(queued().fact) is None
    assert step_evidence_from_child(running().fact) is None


@each_row("checkpoint", [READY, {"status": "checkpoint_ready", "summary": "x"}])
@each_row("status", [s for s in SubagentState if s is not SubagentState.COMPLETED])
def test_only_a_completed_child_makes_a_step_ready(status: SubagentState, checkpoint: Json) -> None:
    found = step_evidence_from_child(structs.replace(completed("done", checkpoint), status=status))
    assert found is None or found.state is not S.CHECKPOINT_READY


@each_row(
    ("state", "summary", "checkpoint", "reason", "words"),
    [
        (S.PENDING, "", None, "x", "no end"),
        (S.RUNNING, "", None, "x", "no end"),
        (S.CHECKPOINT_READY, "done", None, "", "no checkpoint"),
        (S.CHECKPOINT_READY, " ", READY, "", "nothing says"),
        (S.PARTIAL, " ", None, "x", "nothing says"),
        (S.PARTIAL, "done", None, " ", "no reason"),
        (S.FAILED, "", None, "", "no reason"),
        (S.HELD, "", None, "", "no reason"),
        (S.NEEDS_ORCHESTRATOR, "", None, "", "no reason"),
        (S.TIMED_OUT, "", None, "x", "the timeout"),
    ],
)
def test_evidence_that_lacks_what_its_state_requires_cannot_be_made(
    state: StepState, summary: str, checkpoint: Json, reason: str, words: str
) -> None:
    with pytest.raises(ContractError, match=words):
        StepEvidence(state=state, summary=summary, checkpoint=checkpoint, reason=reason)


def test_a_step_has_evidence_exactly_when_it_ended_and_for_that_end() -> None:
    failed = StepEvidence(state=S.FAILED, reason="crashed")
    assert StepRecord(StepId("a"), S.FAILED, evidence=failed).evidence is failed
    for state, shown in ((S.CHECKPOINT_READY, None), (S.CHECKPOINT_READY, failed), (S.PENDING, failed)):
        with pytest.raises(ContractError, match="cannot be"):
            StepRecord(StepId("a"), state, evidence=shown)
