"""A person's draft in the composer: the prompt waits for it, says so, and goes on by itself."""

from __future__ import annotations

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    BecameReady,
    ComposerSeen,
    MessageEnded,
    Observation,
    PromptReached,
    StandingSeen,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.terminal.handle import TERMINAL_CAPABILITIES
from interlock.monitor.arbitration.agent_status import Standing
from interlock.projections.task.fold import TaskFold
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session.effects import SubmitPrompt
from interlock.runtime.session.inputs import CancelTurnInput, RemovePrompt, Submitted
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage
from interlock.vocabulary.events.conversation import AssistantMessage
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import Activity, DriverKind, TurnState
from interlock.vocabulary.wire.frames import TaskSummary
from tests.runtime.conducting import Stage

DRAFT = "a draft of somebody stands in the composer"
QUIET = StandingSeen(standing=Standing(Activity.QUIET))
WORKING = StandingSeen(standing=Standing(Activity.WORKING))
TYPED_OVER = ComposerSeen(has_draft=True)
CLEARED = ComposerSeen(has_draft=False)
KEPT_OUT = Submitted(
    prompt_id=PromptId("p1"), stage=DeliveryStage.NOT_DELIVERED, message=f"nothing was typed: {DRAFT}", waits_for=DRAFT
)


def terminal(*seen: Observation, policy: RunPolicy | None = None) -> Stage:
    """A terminal agent at rest that was seen to show this, with one prompt sent to it."""
    stage = Stage(policy, kind=DriverKind.TERMINAL, capabilities=TERMINAL_CAPABILITIES)
    stage.send()
    stage.started()
    stage.see(QUIET, *seen, BecameReady())
    return stage


def summary(stage: Stage) -> TaskSummary:
    fold = TaskFold(stage.conductor.book.session_id)
    for event in stage.events:
        fold.add(event)
    return fold.summary(None)


def submits(stage: Stage) -> int:
    return len(stage.wanted(SubmitPrompt))


def test_a_prompt_waits_for_a_draft_however_long_and_says_what_it_waits_for() -> None:
    stage = terminal(TYPED_OVER)
    stage.wait(86_400)
    assert submits(stage) == 0
    shown = summary(stage)
    assert (shown.queued, shown.waits_for, shown.turn_id) == (1, DRAFT, None)
    assert [one.waits_for for one in stage.logged(DeliveryReceipt)] == ["", DRAFT], "told once, and not each time"


def test_a_prompt_goes_on_by_itself_a_moment_after_the_draft_is_gone() -> None:
    stage = terminal(TYPED_OVER)
    stage.wait(3_600)
    stage.see(CLEARED)
    stage.wait(0.9)
    assert submits(stage) == 0, "a draft that was submitted leaves the composer before its work shows"
    stage.wait(0.2)
    assert submits(stage) == 1
    assert summary(stage).waits_for == ""


def test_a_draft_that_the_person_submits_has_its_own_turn_first() -> None:
    stage = terminal(TYPED_OVER)
    stage.see(CLEARED)
    stage.wait(0.2)
    stage.see(WORKING)
    stage.wait(600)
    assert submits(stage) == 0
    assert summary(stage).waits_for == "", "now it waits for the agent"
    stage.see(QUIET)
    assert submits(stage) == 1


def test_a_draft_that_comes_back_keeps_the_prompt() -> None:
    stage = terminal(TYPED_OVER)
    stage.see(CLEARED)
    stage.wait(0.5)
    stage.see(TYPED_OVER)
    stage.wait(600)
    assert submits(stage) == 0
    assert summary(stage).waits_for == DRAFT


def test_a_prompt_that_waits_for_a_draft_can_be_taken_back() -> None:
    stage = terminal(TYPED_OVER)
    stage.order(RemovePrompt(prompt_id=PromptId("p1")))
    stage.see(CLEARED)
    stage.wait(600)
    assert submits(stage) == 0
    assert (summary(stage).queued, summary(stage).waits_for) == (0, "")


def test_a_draft_that_stands_after_a_restart_still_keeps_the_prompt() -> None:
    before = terminal(TYPED_OVER)
    book = SessionFold(before.conductor.book.session_id)
    for event in before.events:
        book.add(event)
    assert book.queue.waits_for == DRAFT
    stage = Stage(kind=DriverKind.TERMINAL, capabilities=TERMINAL_CAPABILITIES, book=book)
    stage.spawn_id = before.spawn_id
    stage.started(is_adopted=True)
    stage.see(QUIET, TYPED_OVER, BecameReady())
    stage.wait(600)
    assert submits(stage) == 0
    told = [one.waits_for for one in stage.logged(DeliveryReceipt)]
    assert told == ["", DRAFT], "not known until the composer was seen again"
    stage.see(CLEARED)
    stage.wait(2)
    assert submits(stage) == 1


# A draft that appears while the prompt is on its way


def kept_out(policy: RunPolicy | None = None) -> Stage:
    stage = terminal(policy=policy)
    assert submits(stage) == 1
    stage.hear(KEPT_OUT)
    return stage


def test_a_prompt_that_met_a_draft_is_given_again_for_as_long_as_it_takes() -> None:
    stage = kept_out(RunPolicy(start_seconds=5, resubmit_seconds=2, resubmit_attempts=3))
    assert summary(stage).waits_for == DRAFT
    for _ in range(100):
        stage.wait(2)
        stage.hear(KEPT_OUT)
    assert submits(stage) == 101
    assert [one.waits_for for one in stage.logged(DeliveryReceipt)] == ["", DRAFT], "told once"
    stage.wait(2)
    stage.hear(Submitted(prompt_id=PromptId("p1"), stage=DeliveryStage.STARTED))
    assert summary(stage).waits_for == ""
    stage.see(TurnEnded(ending=TurnEnding.NATURAL, turn_id=stage.conductor.book.turn_id))
    assert stage.turns[-1].state is TurnState.COMPLETED


def test_a_prompt_that_met_a_draft_can_be_cancelled() -> None:
    stage = kept_out()
    stage.order(CancelTurnInput())
    stage.wait(600)
    assert submits(stage) == 1
    assert stage.turns[-1].state is TurnState.INTERRUPTED
    assert summary(stage).waits_for == ""


def test_what_a_person_has_the_agent_do_proves_nothing_of_a_prompt_that_was_kept_out() -> None:
    stage = kept_out()
    stage.see(WORKING, ApprovalAsked(request_id="r1", question="may I?"))
    stage.see(TurnEnded(ending=TurnEnding.NATURAL, turn_id=TurnId("")))
    assert not any(one.stage is DeliveryStage.STARTED for one in stage.logged(DeliveryReceipt))
    assert stage.conductor.open_turn is not None


def test_what_the_agent_does_by_itself_is_not_of_a_prompt_of_which_nothing_was_typed() -> None:
    """Claude Code goes on by itself when a command in the background ends, as a prompt is about to be typed."""
    stage = terminal()
    refused = "nothing was typed: the agent is working"
    stage.hear(Submitted(prompt_id=PromptId("p1"), stage=DeliveryStage.NOT_DELIVERED, message=refused))
    stage.see(WORKING, MessageEnded(text="The command is over."))
    stage.see(TurnEnded(ending=TurnEnding.NATURAL, turn_id=TurnId("")))
    assert not any(one.stage is DeliveryStage.STARTED for one in stage.logged(DeliveryReceipt))
    stage.wait(2)
    assert submits(stage) == 2
    stage.hear(Submitted(prompt_id=PromptId("p1"), stage=DeliveryStage.STARTED))
    stage.see(MessageEnded(text="Mine."), TurnEnded(ending=TurnEnding.NATURAL, turn_id=stage.conductor.book.turn_id))
    assert stage.turns[-1].state is TurnState.COMPLETED
    assert [one.text for one in stage.logged(AssistantMessage)] == ["Mine."]


@pytest.mark.parametrize("why", ["the agent is working", "a dialog is open"])
def test_a_prompt_outlasts_what_the_agent_began_by_itself_and_holds_back_no_other(why: str) -> None:
    """After ten seconds of such work the prompt failed, and the queue was closed behind it."""
    stage = terminal(policy=RunPolicy(start_seconds=5, resubmit_seconds=2, resubmit_attempts=3))
    busy = Submitted(prompt_id=PromptId("p1"), stage=DeliveryStage.NOT_DELIVERED, message=why, waits_for=why)
    stage.hear(busy)
    stage.see(WORKING)
    for _ in range(6):
        stage.wait(2)
        stage.hear(busy)
    shown = summary(stage)
    assert (shown.waits_for, shown.held) == (why, "")
    stage.see(QUIET)
    stage.wait(2)
    stage.hear(Submitted(prompt_id=PromptId("p1"), stage=DeliveryStage.STARTED))
    assert summary(stage).waits_for == ""
    stage.see(TurnEnded(ending=TurnEnding.NATURAL, turn_id=stage.conductor.book.turn_id))
    assert stage.turns[-1].state is TurnState.COMPLETED


def test_a_prompt_that_was_kept_out_has_time_to_start_once_it_is_given() -> None:
    stage = kept_out(RunPolicy(start_seconds=5, resubmit_seconds=2))
    stage.wait(2)
    stage.hear(Submitted(prompt_id=PromptId("p1"), stage=DeliveryStage.ACCEPTED))
    stage.see(PromptReached(stage=DeliveryStage.ACCEPTED))
    stage.wait(4.9)
    assert stage.conductor.open_turn is not None
    stage.wait(2)
    assert stage.turns[-1].error_kind == "never_began"
