"""Attacks on the conductor: late, doubled, contradicting and missing news. Each was a lie or a trap once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    ApprovalOption,
    BecameReady,
    ChannelLost,
    ChildrenChanged,
    Exited,
    MessageEnded,
    OptionKind,
    PromptReached,
    StandingSeen,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import Capabilities
from interlock.lifecycle.turns import turn_states
from interlock.monitor.arbitration.agent_status import Standing
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session.effects import Append, DecideForAgent, InterruptAgent, SpawnAgent, StopAgent
from interlock.runtime.session.inputs import (
    AgentNotStarted,
    AgentStarted,
    AnswerQuestion,
    CancelTurnInput,
    Decided,
    RemovePrompt,
    Send,
    SetGate,
    StartAgentInput,
    StopAgentInput,
)
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.events.audit import (
    Anomaly,
    DeliveryReceipt,
    DeliveryStage,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    ProcessEvent,
    ProcessEventKind,
    StreamCheckpoint,
    ToolCallSuspended,
    TurnFailed,
)
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, SpawnId, TurnId
from interlock.vocabulary.run import CANCELLED
from interlock.vocabulary.states import Activity, Attention, DriverKind, ExitReason, TurnState
from tests.runtime.conducting import Stage, refused

YES_NO = (ApprovalOption(label="Yes", kind=OptionKind.ALLOW_ONCE), ApprovalOption(label="No"))
ONE_SHOT = Capabilities(can_interrupt=False, can_resume=True, is_one_shot=True)
INTERRUPTED = TurnEnded(ending=TurnEnding.INTERRUPTED)


def done(text: str = "done") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


def standing(activity: Activity, attention: Attention = Attention.NONE) -> StandingSeen:
    return StandingSeen(standing=Standing(activity=activity, attention=attention))


def anomalies(stage: Stage) -> list[str]:
    return [one.kind for one in stage.logged(Anomaly)]


# Two turns of one agent


def test_an_agent_that_is_ready_after_a_turn_that_we_ended_is_not_pushed_in_its_next_turn() -> None:
    stage = Stage(RunPolicy(turn_budget_seconds=30, interrupt_seconds=10))
    stage.working()
    stage.wait(30)
    assert len(stage.wanted(InterruptAgent)) == 1
    stage.see(BecameReady())
    stage.send("next", "p2")
    stage.submitted("p2")
    stage.wait(25)
    assert len(stage.wanted(InterruptAgent)) == 1
    assert stage.wanted(StopAgent) == []


@pytest.mark.parametrize("whose", ["the last one", ""])
def test_the_late_end_of_another_turn_does_not_end_the_open_one(whose: str) -> None:
    """A terminal at rest says how a turn ended only after a while; the next prompt may be on its way by then."""
    stage = Stage(RunPolicy(turn_budget_seconds=30))
    stage.working()
    before = TurnId(stage.turn.turn_id if whose else "")
    stage.wait(30)
    stage.see(standing(Activity.QUIET))
    stage.send("next", "p2")
    assert stage.prompts == ["do it", "next"]
    stage.see(replace(INTERRUPTED, turn_id=before))
    stage.submitted("p2")
    stage.see(replace(INTERRUPTED, turn_id=before), BecameReady())
    assert [one.state for one in stage.turns] == [TurnState.TIMED_OUT, TurnState.RUNNING]
    stage.see(replace(done(), turn_id=stage.turn.turn_id))
    assert stage.state() is TurnState.COMPLETED


def test_a_turn_whose_agent_is_stopped_while_it_asks_is_not_completed_by_what_it_says_then() -> None:
    """An agent takes the end of its input for a no, and finishes its turn in good order."""
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="First I will look."), ApprovalAsked(request_id="r1", question="may I?", options=YES_NO))
    stage.order(StopAgentInput(is_closing=True))
    stage.see(ApprovalGone(request_id="r1", is_answered=False), done("First I will look."))
    assert (stage.state(), stage.turn.reason) == (TurnState.INTERRUPTED, CANCELLED)


def test_a_turn_that_was_answered_before_the_stop_may_still_complete() -> None:
    stage = Stage()
    stage.working()
    stage.see(ApprovalAsked(request_id="r1", question="may I?", options=YES_NO), ApprovalGone(request_id="r1"))
    stage.order(StopAgentInput(is_closing=True))
    stage.see(done())
    assert stage.state() is TurnState.COMPLETED


def test_the_end_of_a_turn_that_nobody_asked_for_ends_it() -> None:
    stage = Stage()
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.submitted()
    stage.see(done())
    stage.see(TextArrived(text="by the way"), replace(done("by the way"), turn_id=TurnId("")))
    assert [one.state for one in stage.turns] == [TurnState.COMPLETED, TurnState.COMPLETED]


def test_words_of_a_child_do_not_prove_that_a_prompt_began() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="still here", sub_agent="child"))
    assert [one.stage for one in stage.logged(DeliveryReceipt)][-1] is DeliveryStage.TYPED


def test_text_of_a_dead_attempt_is_not_what_a_crash_would_keep() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="the wrong "))
    stage.wait(2)
    stage.see(TextArrived(text="answer"))
    assert stage.logged(StreamCheckpoint)[-1].text == "the wrong answer"
    stage.see(TextVoided())
    turn = stage.conductor.book.turn
    assert turn is not None
    assert turn.checkpoint is None or turn.checkpoint.text == ""


# Delivery


def test_a_prompt_that_is_seen_to_have_begun_is_not_given_again_whatever_the_driver_says() -> None:
    stage = Stage(RunPolicy(resubmit_seconds=2))
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.submitted(stage=DeliveryStage.NOT_DELIVERED)
    stage.see(TextArrived(text="I am on it"))
    stage.wait(10)
    assert stage.prompts == ["do it"]
    stage.submitted(stage=DeliveryStage.NOT_DELIVERED)
    stage.wait(10)
    assert stage.prompts == ["do it"]
    assert stage.state() is TurnState.RUNNING


def test_a_prompt_that_was_cancelled_before_it_arrived_is_not_given_after_all() -> None:
    stage = Stage(RunPolicy(resubmit_seconds=5))
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.submitted(stage=DeliveryStage.NOT_DELIVERED)
    assert refused(stage.order(CancelTurnInput())) == ""
    stage.wait(60)
    assert stage.prompts == ["do it"]
    assert stage.state() is TurnState.INTERRUPTED
    assert stage.wanted(InterruptAgent) == [], "the agent has nothing to interrupt"
    assert stage.wanted(StopAgent) == []


def test_a_cancel_that_overtakes_the_news_of_a_failed_delivery_interrupts_the_turn() -> None:
    stage = Stage(RunPolicy(resubmit_attempts=1))
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.order(CancelTurnInput())
    stage.submitted(stage=DeliveryStage.NOT_DELIVERED)
    assert stage.state() is TurnState.INTERRUPTED
    stage.wait(60)
    assert stage.wanted(StopAgent) == []


def test_a_prompt_that_cannot_be_delivered_harms_neither_the_agent_nor_the_prompts_behind_it() -> None:
    stage = Stage(RunPolicy(resubmit_attempts=2, resubmit_seconds=1), kind=DriverKind.TERMINAL)
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.send("next", "p2")
    for _ in range(2):
        stage.submitted(stage=DeliveryStage.NOT_DELIVERED)
        stage.wait(1)
    assert (stage.turns[0].state, stage.turns[0].error_kind) == (TurnState.FAILED, "not_delivered")
    stage.wait(60)
    assert stage.wanted(InterruptAgent) == [], "Escape would have answered whatever is in the way"
    assert stage.wanted(StopAgent) == []
    assert not stage.conductor.book.queue.is_open, "the next one would meet the same"
    assert [prompt.text for prompt in stage.conductor.book.queue.waiting] == ["next"]


def test_an_accepted_prompt_never_becomes_one_whose_delivery_is_unknown() -> None:
    stage = Stage(RunPolicy(start_seconds=10))
    stage.working()
    stage.see(PromptReached(stage=DeliveryStage.ACCEPTED))
    stage.submitted(stage=DeliveryStage.UNKNOWN)
    stage.wait(11)
    assert [one.stage for one in stage.logged(DeliveryReceipt)][-1] is DeliveryStage.ACCEPTED
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.FAILED, "never_began")


def test_the_death_of_the_agent_says_that_delivery_is_unknown_where_it_is() -> None:
    stage = Stage()
    stage.working()
    stage.see(Exited(signal=9))
    assert stage.turn.error_kind == "process_died"
    assert [one.stage for one in stage.logged(DeliveryReceipt)][-1] is DeliveryStage.UNKNOWN


def test_a_terminal_that_is_seen_at_rest_is_not_killed_for_a_prompt_that_it_never_took() -> None:
    stage = Stage(RunPolicy(start_seconds=10), kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(standing(Activity.QUIET))
    stage.wait(100)
    assert stage.turn.error_kind == "delivery_unknown"
    assert stage.wanted(StopAgent) == []


def test_a_prompt_that_was_taken_back_is_not_accepted_again_in_silence() -> None:
    stage = Stage()
    stage.send()
    stage.order(RemovePrompt(prompt_id=PromptId("p1")))
    assert "removed" in refused(stage.order(Send(prompt_id=PromptId("p1"), text="do it")))


# Stops


def test_a_stop_while_the_agent_is_starting_stops_it_as_soon_as_it_is_there() -> None:
    stage = Stage()
    stage.order(StartAgentInput())
    stage.order(StopAgentInput())
    assert stage.conductor.running_spawn == stage.spawn_id, "it may be there any moment"
    assert len(stage.wanted(StopAgent)) == 1
    stage.started()
    assert len(stage.wanted(StopAgent)) == 2
    stage.see(BecameReady(), Exited(signal=15))
    assert stage.conductor.running_spawn is None
    assert len(stage.wanted(SpawnAgent)) == 1


def test_an_agent_that_an_operator_stopped_is_not_started_again_by_what_is_queued() -> None:
    stage = Stage()
    stage.working()
    stage.send("next", "p2")
    stage.order(StopAgentInput())
    stage.see(Exited(signal=15))
    stage.wait(100)
    assert len(stage.wanted(SpawnAgent)) == 1
    assert stage.conductor.book.queue.gate_reason
    assert stage.state() is TurnState.INTERRUPTED


def test_a_stop_before_any_agent_runs_holds_the_prompts_that_wait() -> None:
    before = Stage()
    before.send()
    again = Stage(book=SessionFold.of(SessionId("ses_stage"), before.events))
    again.order(StopAgentInput())
    again.wait(100)
    assert again.wanted(SpawnAgent) == []
    assert again.conductor.book.queue.gate_reason == "the agent was stopped, and prompts are waiting"


def test_a_stop_for_a_reason_that_nobody_can_ask_for_is_refused() -> None:
    stage = Stage()
    stage.working()
    assert "crashed" in refused(stage.order(StopAgentInput(reason=ExitReason.CRASHED)))
    stage.see(done())
    assert stage.state() is TurnState.COMPLETED


def test_a_start_of_an_agent_that_nobody_waits_for_changes_nothing() -> None:
    stage = Stage()
    stage.working()
    mine = stage.conductor.agent
    late = AgentStarted(spawn_id=SpawnId("spn_other"), capabilities=stage.capabilities)
    stage.hear(late)
    assert stage.conductor.agent is mine


# Programs for one prompt


def one_shot_turn(stage: Stage, prompt_id: str) -> None:
    stage.send(f"prompt {prompt_id}", prompt_id)
    stage.started()
    stage.see(BecameReady())
    stage.submitted(prompt_id)


def test_a_program_for_one_prompt_that_exits_badly_after_a_good_turn_is_no_crash_loop() -> None:
    stage = Stage(capabilities=ONE_SHOT)
    for number in range(6):
        one_shot_turn(stage, f"p{number}")
        stage.see(done(), Exited(code=1))
        stage.wait(5)
    assert [turn.state for turn in stage.turns] == [TurnState.COMPLETED] * 6
    assert len(stage.wanted(SpawnAgent)) == 6, "one process a prompt, and none for nothing"
    assert stage.conductor.book.queue.is_open


def test_a_program_for_one_prompt_that_does_not_exit_is_ended_and_the_next_prompt_goes_on() -> None:
    stage = Stage(RunPolicy(interrupt_seconds=10), capabilities=ONE_SHOT)
    one_shot_turn(stage, "p1")
    stage.see(done())
    stage.send("next", "p2")
    stage.wait(11)
    assert len(stage.wanted(StopAgent)) == 1
    stage.see(Exited(signal=15))
    assert len(stage.wanted(SpawnAgent)) == 2


def test_an_agent_that_cannot_be_interrupted_is_stopped_at_once() -> None:
    stage = Stage(capabilities=ONE_SHOT)
    one_shot_turn(stage, "p1")
    stage.order(CancelTurnInput())
    stage.wait(0)
    assert stage.wanted(InterruptAgent) == []
    assert len(stage.wanted(StopAgent)) == 1
    stage.see(Exited(signal=15))
    assert stage.state() is TurnState.INTERRUPTED


# Questions


def test_a_question_of_a_turn_that_we_ended_does_not_hold_the_queue_for_ever() -> None:
    stage = Stage(RunPolicy(turn_budget_seconds=10))
    stage.working()
    stage.wait(10)
    stage.see(ApprovalAsked(request_id="r1", question="may I?", options=YES_NO))
    stage.send("next", "p2")
    stage.see(INTERRUPTED)
    assert stage.prompts == ["do it", "next"]


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_call_that_nobody_asks_about_any_more_does_not_keep_the_turn_waiting(is_answered: bool) -> None:
    stage = Stage()
    stage.working()
    stage.see(ToolCalled(call_id="c1", name="ls"), ApprovalAsked(request_id="r1", call_id="c1", name="ls"))
    assert stage.state() is TurnState.WAITING
    stage.see(ApprovalGone(request_id="r1", is_answered=is_answered))
    assert stage.state() is TurnState.RUNNING
    assert len(stage.logged(DialogClosed)) == 1, "whoever lists what is asked must not find it"
    stage.see(ToolReturned(call_id="c1", output="files"), done())
    assert stage.state() is TurnState.COMPLETED
    assert anomalies(stage) == []


def test_once_the_time_of_a_question_is_up_the_turn_does_not_wait_any_more() -> None:
    stage = Stage(RunPolicy(approval_seconds=30))
    stage.working()
    stage.see(ToolCalled(call_id="c1", name="ls"), ApprovalAsked(request_id="r1", call_id="c1", name="ls"))
    stage.wait(31)
    assert stage.state() is TurnState.RUNNING


def test_a_decision_that_may_have_arrived_is_not_given_again() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(ApprovalAsked(request_id="r1", question="may I?", options=YES_NO))
    (dialog,) = stage.logged(DialogOpened)
    stage.order(AnswerQuestion(approval_id=dialog.dialog_id, option="Yes", is_allowed=True))
    stage.hear(Decided(request_id="r1", problem="Enter was pressed", is_unknown=True))
    assert len(stage.wanted(DecideForAgent)) == 1
    assert stage.conductor.status.attention is Attention.ERROR
    stage.see(ApprovalGone(request_id="r1"))
    assert not stage.conductor.questions.problem, "it was taken after all"


@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_question_that_still_stands_after_its_answer_is_open_again_with_the_reason(is_told_first: bool) -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    asked = ApprovalAsked(request_id="r1", question="may I?", options=YES_NO)
    stage.see(asked)
    (dialog,) = stage.logged(DialogOpened)
    stage.order(AnswerQuestion(approval_id=dialog.dialog_id, option="Yes", is_allowed=True))
    why = "Enter was pressed, and a dialog of the same words still stands"
    if is_told_first:
        stage.hear(Decided(request_id="r1", problem=why, is_unknown=True))
    stage.see(ApprovalGone(request_id="r1", is_answered=False), replace(asked, request_id="r2", problem=why))
    if not is_told_first:
        stage.hear(Decided(request_id="r1", problem=why, is_unknown=True))
    again = stage.logged(DialogOpened)[-1]
    assert (again.question, again.problem) == ("may I?", why)
    assert stage.state() is TurnState.WAITING
    assert len(stage.wanted(DecideForAgent)) == 1, "nobody but a person gives it again"
    stage.order(AnswerQuestion(approval_id=again.dialog_id, option="Yes", is_allowed=True))
    assert [one.decision.request_id for one in stage.wanted(DecideForAgent)] == ["r1", "r2"]


def test_a_decision_that_did_not_arrive_can_be_given_once_more_by_whoever_made_it() -> None:
    stage = Stage()
    stage.working()
    stage.see(ApprovalAsked(request_id="r1", question="may I?", options=YES_NO))
    (dialog,) = stage.logged(DialogOpened)
    answer = AnswerQuestion(approval_id=dialog.dialog_id, option="Yes", is_allowed=True)
    stage.order(answer)
    stage.order(answer)
    assert len(stage.wanted(DecideForAgent)) == 1
    for _ in range(3):
        stage.hear(Decided(request_id="r1", problem="not now"))
    given = len(stage.wanted(DecideForAgent))
    assert refused(stage.order(answer)) == ""
    assert len(stage.wanted(DecideForAgent)) == given + 1


# Adoption


def adopted(stage: Stage) -> Stage:
    """The runtime died; another one has the log, and the agent lives."""
    book = SessionFold.of(SessionId("ses_stage"), stage.events)
    again = Stage(kind=DriverKind.TERMINAL, capabilities=stage.capabilities, book=book, seconds=stage.seconds)
    again._numbers, again.spawn_id = stage._numbers, stage.spawn_id
    return again


def test_an_agent_that_is_only_watched_is_given_nothing_and_the_command_that_changes_it_is_named() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    again = adopted(stage)
    watched = replace(again.capabilities, is_read_only=True)
    where: Json = {"pane_id": "%7", "socket": "/tmp/theirs"}
    assert again.spawn_id is not None
    again.hear(AgentStarted(spawn_id=again.spawn_id, capabilities=watched, where=where, is_adopted=True))
    acts = again.order(Send(prompt_id=PromptId("p2"), text="more"))
    assert refused(acts) == (
        "this agent is only watched: somebody else started it, in a terminal of theirs; "
        "`interlock adopt %7 --socket /tmp/theirs --control` lets commands reach it"
    )


def test_a_turn_that_is_taken_up_is_timed_out_by_the_budget_with_which_it_began() -> None:
    stage = Stage(RunPolicy(turn_budget_seconds=30), kind=DriverKind.TERMINAL)
    stage.working()
    again = adopted(stage)  # whose own settings name no budget
    again.started(is_adopted=True)
    again.wait(30)
    assert again.logged(TurnFailed)[-1].details == {"budget_seconds": 30.0, "elapsed_seconds": 30.0}


def asked_and_adopted(*, is_answered: bool) -> tuple[Stage, Stage, str]:
    stage = Stage(RunPolicy(approval_seconds=100), kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(ApprovalAsked(request_id="r1", question="may I?", options=YES_NO))
    (dialog,) = stage.logged(DialogOpened)
    if is_answered:
        stage.order(AnswerQuestion(approval_id=dialog.dialog_id, option="Yes", is_allowed=True))
    again = adopted(stage)
    again.started(is_adopted=True)
    return stage, again, dialog.dialog_id


def test_nothing_is_started_while_the_turn_of_an_agent_that_may_live_is_open() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.send("next", "p2")
    again = adopted(stage)
    again.hear_timer()
    assert again.wanted(SpawnAgent) == []


def test_a_question_that_is_still_asked_after_an_adoption_is_the_same_one_with_its_deadline() -> None:
    stage, again, dialog_id = asked_and_adopted(is_answered=False)
    again.see(ApprovalAsked(request_id="again-1", question="may I?", options=YES_NO))
    assert again.logged(DialogOpened) == []
    again.order(AnswerQuestion(approval_id=dialog_id, option="Yes", is_allowed=True))
    (given,) = again.wanted(DecideForAgent)
    assert given.decision.request_id == "again-1"
    again.hear(Decided(request_id="again-1"))
    again.see(ApprovalGone(request_id="again-1"), done())
    assert turn_states([*stage.events, *again.events])[0].state is TurnState.COMPLETED


def test_the_deadline_of_a_question_outlives_the_runtime() -> None:
    _, again, _ = asked_and_adopted(is_answered=False)
    again.see(ApprovalAsked(request_id="again-1", question="may I?", options=YES_NO))
    again.wait(101)
    (given,) = again.wanted(DecideForAgent)
    assert not given.decision.is_allowed


def test_an_answer_of_before_is_not_used_for_a_question_that_only_looks_the_same() -> None:
    _, again, dialog_id = asked_and_adopted(is_answered=True)
    again.see(ApprovalAsked(request_id="again-1", question="may I?", options=YES_NO))
    assert again.wanted(DecideForAgent) == []
    (closed,) = again.logged(DialogClosed)
    assert (closed.dialog_id, closed.outcome) == (dialog_id, DialogOutcome.ANSWERED)
    (opened,) = again.logged(DialogOpened)
    assert opened.dialog_id != dialog_id


@pytest.mark.parametrize("sign", [TextArrived(text="on I go"), standing(Activity.WORKING)])
def test_a_question_that_is_gone_after_an_adoption_is_closed_by_what_the_agent_does(
    sign: TextArrived | StandingSeen,
) -> None:
    stage, again, _ = asked_and_adopted(is_answered=False)
    again.see(sign)
    assert [one.outcome for one in again.logged(DialogClosed)] == [DialogOutcome.WITHDRAWN]
    assert turn_states([*stage.events, *again.events])[0].state is TurnState.RUNNING


def test_a_suspended_call_is_asked_again_as_itself_after_an_adoption() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(ToolCalled(call_id="c1", name="ls"), ApprovalAsked(request_id="r1", call_id="c1", question="?"))
    (asked,) = stage.logged(ToolCallSuspended)
    again = adopted(stage)
    again.started(is_adopted=True)
    again.see(ApprovalAsked(request_id="r2", call_id="c1", question="?"))
    assert again.logged(DialogOpened) == []
    assert refused(again.order(AnswerQuestion(approval_id=asked.ticket.suspension.id, is_allowed=True))) == ""
    assert len(again.wanted(DecideForAgent)) == 1


def test_a_call_that_nobody_asked_about_any_more_is_not_asked_about_after_an_adoption() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(ToolCalled(call_id="c1", name="ls"), ApprovalAsked(request_id="r1", call_id="c1", question="?"))
    stage.see(ApprovalGone(request_id="r1"))
    again = adopted(stage)
    again.started(is_adopted=True)
    assert again.conductor.questions.open_count == 0


# What cannot be seen


def test_silence_of_an_agent_that_cannot_be_seen_is_no_stall() -> None:
    stage = Stage(RunPolicy(stall_after_seconds=20, stalled_is_terminal=True, start_seconds=1000))
    stage.working()
    stage.see(TextArrived(text="a"), ChannelLost(message="the stream of events ended"))
    stage.wait(100)
    assert stage.state() is TurnState.RUNNING
    assert stage.activity() is Activity.UNKNOWN


def test_an_agent_that_is_heard_again_is_not_lost_any_more() -> None:
    stage = Stage()
    stage.working()
    stage.see(ChannelLost(message="the stream of events ended"), MessageEnded(text="here I am"), done("here I am"))
    assert stage.activity() is Activity.QUIET
    stage.send("next", "p2")
    assert stage.prompts == ["do it", "next"]


def test_a_quiet_terminal_with_background_work_is_settling() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(ChildrenChanged(open=frozenset({"shell"})), done(), standing(Activity.QUIET))
    assert stage.activity() is Activity.SETTLING


def test_background_work_on_the_screen_holds_the_queue_for_a_while_and_once() -> None:
    stage = Stage(RunPolicy(settle_seconds=100), kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(done(), standing(Activity.SETTLING))
    stage.send("next", "p2")
    stage.wait(99)
    assert stage.prompts == ["do it"]
    stage.see(standing(Activity.SETTLING))
    stage.wait(2)
    assert stage.prompts == ["do it", "next"]
    assert anomalies(stage).count("children_never_ended") == 1
    # The same work does not hold back the prompt after that.
    stage.see(standing(Activity.WORKING), done(), standing(Activity.SETTLING))
    stage.send("last", "p3")
    assert stage.prompts == ["do it", "next", "last"]


def test_the_death_of_an_agent_asks_it_for_nothing() -> None:
    stage = Stage()
    stage.working()
    stage.see(Exited(signal=9))
    assert stage.wanted(InterruptAgent) == []
    assert [one.kind for one in stage.logged(ProcessEvent)][-1] is ProcessEventKind.RESTART_DUE


def test_an_agent_that_fell_silent_gets_no_prompt_before_it_is_seen_to_live() -> None:
    stage = Stage(RunPolicy(interrupt_seconds=10))
    stage.working()
    stage.see(TextArrived(text="half"), TurnEnded(ending=TurnEnding.SILENT))
    stage.send("next", "p2")
    stage.wait(5)
    assert stage.prompts == ["do it"], "most likely it is about to end"
    stage.wait(6)
    assert stage.prompts == ["do it", "next"]
    assert stage.wanted(StopAgent) == []


def test_silence_does_not_prove_that_a_prompt_began() -> None:
    stage = Stage()
    stage.working()
    stage.see(TurnEnded(ending=TurnEnding.SILENT))
    stage.wait(1)
    assert [one.stage for one in stage.logged(DeliveryReceipt)][-1] is DeliveryStage.UNKNOWN


@pytest.mark.parametrize(
    ("exited", "kind"),
    [(Exited(signal=9), "process_died"), (Exited(code=3), "process_died"), (Exited(code=0), "silent_end")],
)
def test_an_agent_that_fell_silent_because_it_died_is_said_to_have_died(exited: Exited, kind: str) -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="half"), TurnEnded(ending=TurnEnding.SILENT))
    assert stage.state() is TurnState.RUNNING, "its end is about to be told, or it lives on"
    stage.see(exited)
    assert (stage.state(), stage.turn.error_kind) == (TurnState.PARTIAL_FAILED, kind)


def test_an_agent_that_fell_silent_and_lives_on_ended_its_turn_silently() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="half"), TurnEnded(ending=TurnEnding.SILENT))
    stage.wait(1)
    assert (stage.state(), stage.turn.error_kind) == (TurnState.PARTIAL_FAILED, "silent_end")


def test_a_terminal_at_rest_that_never_says_so_is_not_killed_by_a_cancel() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(standing(Activity.WORKING), TextArrived(text="half"), standing(Activity.QUIET))
    stage.order(CancelTurnInput())
    stage.wait(60)
    assert stage.wanted(StopAgent) == []
    assert stage.state() is TurnState.INTERRUPTED


def test_a_start_is_in_the_log_before_it_happens_so_that_what_it_left_can_be_found() -> None:
    stage = Stage()
    acts = stage.order(StartAgentInput())
    kinds = [type(act) for act in acts]
    assert kinds.index(Append) < kinds.index(SpawnAgent)
    book = SessionFold.of(SessionId("ses_stage"), stage.events)
    assert book.spawn is not None
    assert book.spawn.spawn_id == stage.spawn_id
    stage.hear(AgentNotStarted(spawn_id=book.spawn.spawn_id, message="no such program", is_hopeless=True))
    assert SessionFold.of(SessionId("ses_stage"), stage.events).spawn is None


def test_a_stop_keeps_the_reason_for_which_the_queue_is_held_already() -> None:
    stage = Stage()
    stage.working()
    stage.send("next", "p2")
    stage.order(SetGate(is_open=False, reason="too dear"))
    stage.order(StopAgentInput())
    assert stage.conductor.book.queue.gate_reason == "too dear"
