"""The laws of the session machine that joins its parts: a cancel, a question and a clean end at the same time."""

from __future__ import annotations

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    Exited,
    PromptReached,
    TextArrived,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import Capabilities
from interlock.projections.task.fold import TaskFold
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session.effects import DecideForAgent, InterruptAgent, StopAgent
from interlock.runtime.session.inputs import AnswerQuestion, CancelTurnInput, Decided, InterruptOutcome
from interlock.vocabulary.events.audit import Anomaly, DeliveryReceipt, DeliveryStage, RunState
from interlock.vocabulary.events.conversation import AssistantMessage
from interlock.vocabulary.states import Attention, DriverKind, TaskStatus, TurnState
from tests.runtime.conducting import Stage

DONE = TurnEnded(ending=TurnEnding.NATURAL, text="all done")
RESTS = TurnEnded(ending=TurnEnding.NATURAL)
ASKED = ApprovalAsked(request_id="r1", call_id="c1", name="Bash", question="may I?")


def task_status(stage: Stage) -> TaskStatus | None:
    fold = TaskFold(stage.conductor.book.session_id)
    for event in stage.events:
        fold.add(event)
    return fold.status


def working() -> Stage:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="on it"))
    return stage


# A cancel that cannot be given


def test_a_cancel_that_never_reaches_the_agent_does_not_stick() -> None:
    stage = working()
    stage.order(CancelTurnInput())
    assert task_status(stage) is TaskStatus.CANCELLING
    stage.hear(InterruptOutcome(problem="the pane is gone"))
    assert task_status(stage) is TaskStatus.CANCELLING, "it is asked once more"
    stage.wait(10)
    assert len(stage.wanted(InterruptAgent)) == 2
    stage.hear(InterruptOutcome(problem="the pane is gone"))
    assert task_status(stage) is TaskStatus.RUNNING
    status = stage.conductor.status
    assert status.attention is Attention.ERROR
    assert "the pane is gone" in (status.evidence[0].where or "")
    assert stage.logged(RunState)[-1].cancel_requested is False
    stage.wait(60)
    assert stage.wanted(StopAgent) == [], "nothing is killed for a request that the agent never got"
    stage.see(DONE)
    assert (stage.turn.state, stage.turn.cancel_requested) == (TurnState.COMPLETED, False)


def test_a_cancel_that_was_taken_back_can_be_asked_for_again() -> None:
    stage = working()
    stage.order(CancelTurnInput())
    stage.hear(InterruptOutcome(problem="busy"))
    stage.wait(10)
    stage.hear(InterruptOutcome(problem="busy"))
    stage.order(CancelTurnInput())
    assert len(stage.wanted(InterruptAgent)) == 3
    stage.hear(InterruptOutcome(problem="busy"))
    assert task_status(stage) is TaskStatus.CANCELLING, "it has its own attempts"
    stage.wait(10)
    stage.hear(InterruptOutcome())
    stage.see(TurnEnded(ending=TurnEnding.INTERRUPTED))
    assert stage.state() is TurnState.INTERRUPTED


def test_an_interrupt_that_reached_the_agent_and_had_no_effect_is_taken_back_or_if_forced_followed_by_a_stop() -> None:
    for is_forced in (False, True):
        stage = working()
        stage.order(CancelTurnInput())
        stage.hear(InterruptOutcome())
        stage.wait(10)
        stage.hear(InterruptOutcome(problem="the pane is gone"))
        assert task_status(stage) is TaskStatus.CANCELLING
        if is_forced:
            stage.order(CancelTurnInput(is_forced=True))
        stage.wait(10)
        assert len(stage.wanted(StopAgent)) == is_forced
        assert task_status(stage) is (TaskStatus.CANCELLING if is_forced else TaskStatus.RUNNING)


# A clean end beside a cancel


def test_a_clean_end_before_the_interrupt_was_confirmed_is_completed() -> None:
    stage = working()
    stage.order(CancelTurnInput())
    stage.see(DONE)
    assert (stage.turn.state, stage.turn.cancel_requested) == (TurnState.COMPLETED, True)


def test_a_clean_end_after_the_interrupt_was_confirmed_is_an_interruption() -> None:
    stage = working()
    stage.order(CancelTurnInput())
    stage.hear(InterruptOutcome())
    stage.see(DONE)
    assert (stage.turn.state, stage.turn.cancel_requested) == (TurnState.INTERRUPTED, True)
    assert task_status(stage) is TaskStatus.CANCELLED


# A clean end beside an open question


def test_a_natural_end_with_an_approval_open_completes_nothing() -> None:
    stage = working()
    stage.see(ASKED)
    stage.see(DONE)
    assert stage.state() is TurnState.WAITING
    assert task_status(stage) is TaskStatus.PENDING_CONFIRMATION
    assert [one.kind for one in stage.logged(Anomaly)] == ["end_while_asking"]
    stage.send("next", "p2")
    assert stage.prompts == ["do it"], "the turn is open"


def test_an_end_that_was_held_counts_once_the_agent_takes_its_question_back() -> None:
    stage = working()
    stage.see(ASKED, DONE, ApprovalGone(request_id="r1", is_answered=False))
    assert stage.state() is TurnState.COMPLETED
    stage.send("next", "p2")
    assert stage.prompts == ["do it", "next"]


def test_an_end_that_was_held_is_forgotten_once_the_question_is_answered() -> None:
    stage = working()
    stage.see(ASKED, DONE)
    approval_id = next(iter(stage.conductor.questions.questions))
    stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=True))
    assert len(stage.wanted(DecideForAgent)) == 1
    stage.hear(Decided(request_id="r1"))
    assert stage.state() is TurnState.RUNNING
    stage.see(TextArrived(text="going on"))
    stage.see(TurnEnded(ending=TurnEnding.NATURAL, text="now it is done"))
    assert stage.state() is TurnState.COMPLETED
    assert stage.logged(AssistantMessage)[-1].text == "now it is done"


def test_a_turn_that_is_held_ends_by_a_cancel_and_by_a_death() -> None:
    stage = working()
    stage.see(ASKED, DONE)
    stage.order(CancelTurnInput())
    assert stage.state() is TurnState.INTERRUPTED
    stage = working()
    stage.see(ASKED, DONE, Exited(code=1))
    assert stage.state() is TurnState.PARTIAL_FAILED


def test_the_question_of_a_child_does_not_hold_its_parent() -> None:
    stage = working()
    stage.see(ApprovalAsked(request_id="r1", question="may I?", sub_agent="child"), DONE)
    assert stage.state() is TurnState.COMPLETED


def test_an_error_ends_the_turn_whatever_is_asked() -> None:
    stage = working()
    stage.see(ASKED, TurnEnded(ending=TurnEnding.ERROR, error_message="overloaded"))
    assert stage.state() is TurnState.PARTIAL_FAILED


# Delivery


def test_an_unknown_delivery_that_shows_no_work_is_never_completed() -> None:
    stage = Stage(RunPolicy(start_seconds=20))
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.submitted(stage=DeliveryStage.UNKNOWN)
    stage.wait(20)
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.FAILED, "delivery_unknown")


def test_an_unknown_delivery_is_not_completed_by_a_screen_that_rests() -> None:
    """Gemini CLI took the Enter behind pasted text for a line break: the screen was idle, the draft still there."""
    stage = in_a_terminal(DeliveryStage.UNKNOWN)
    stage.see(RESTS)
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.FAILED, "delivery_unknown")
    assert DeliveryStage.STARTED not in [one.stage for one in stage.logged(DeliveryReceipt)]
    assert "because" in stage.turn.error_message, "it says what was seen instead"


def test_an_end_on_a_screen_counts_where_something_shows_that_the_turn_began() -> None:
    for began in (PromptReached(stage=DeliveryStage.STARTED), TextArrived(text="on it"), ASKED):
        stage = in_a_terminal(DeliveryStage.UNKNOWN)
        stage.see(began, ApprovalGone(request_id="r1", is_answered=True), RESTS)
        assert stage.state() is TurnState.COMPLETED, began
    stage = in_a_terminal(DeliveryStage.UNKNOWN)
    stage.see(DONE)
    assert stage.state() is TurnState.COMPLETED, "its transcript has an answer"
    stage = in_a_terminal(DeliveryStage.ACCEPTED)
    stage.see(RESTS)
    assert stage.state() is TurnState.COMPLETED, "the composer was seen to be emptied by Enter"


def in_a_terminal(stage_reached: DeliveryStage) -> Stage:
    stage = Stage(kind=DriverKind.TERMINAL, capabilities=Capabilities(owns_text=False, outlives_runtime=True))
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.submitted(stage=stage_reached)
    return stage
