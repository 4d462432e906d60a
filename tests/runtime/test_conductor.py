"""What a conductor decides, on a table."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    ApprovalOption,
    BecameReady,
    ChildrenChanged,
    ContextFilled,
    Exited,
    HistoryCompacted,
    MessageEnded,
    OptionKind,
    PromptReached,
    SessionNamed,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
)
from interlock.agents.port import Capabilities
from interlock.projections.replay.items import AssistantText, UserText
from interlock.projections.replay.provider_input import provider_items
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session.effects import (
    Append,
    AskAttended,
    DecideForAgent,
    InterruptAgent,
    SpawnAgent,
    StopAgent,
    SubmitPrompt,
)
from interlock.runtime.session.inputs import (
    AgentNotStarted,
    AnswerQuestion,
    Attended,
    CancelTurnInput,
    Decided,
    EditQueuedPrompt,
    InterruptOutcome,
    RemovePrompt,
    SetGate,
    StartAgentInput,
    StopAgentInput,
)
from interlock.vocabulary.events.audit import (
    Anomaly,
    DecisionUndelivered,
    DeliveryReceipt,
    DeliveryStage,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
    RunState,
    StreamCheckpoint,
    ToolCallDecided,
    ToolCallSuspended,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    CompactionTrigger,
    HistoryCompaction,
    MessageSource,
    ToolCall,
    ToolError,
    ToolResult,
)
from interlock.vocabulary.events.presenter import ContextPressure, Status, TextDelta
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import Activity, Attention, DriverKind, ExitReason, TurnState
from interlock.vocabulary.wire.approval import ApprovalState
from tests.projections.whole_logs import approvals
from tests.runtime.conducting import BEGAN, Stage, refused

NATURAL = TurnEnded(ending=TurnEnding.NATURAL)


def done(text: str) -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


# Prompts


def test_a_prompt_is_durable_before_it_is_confirmed_and_starts_the_agent() -> None:
    stage = Stage()
    acts = stage.send()
    assert [type(act).__name__ for act in acts[:2]] == ["Append", "Confirm"]
    assert [act for act in acts if isinstance(act, SpawnAgent)]


def test_the_turn_is_in_the_log_before_the_agent_is_told() -> None:
    stage = Stage()
    stage.send()
    stage.started()
    acts = stage.see(BecameReady())
    told = next(index for index, act in enumerate(acts) if isinstance(act, SubmitPrompt))
    logged = [event.type for act in acts[:told] if isinstance(act, Append) for event in act.events]
    assert logged[-4:] == ["queue_event", "user_message", "turn_started", "run_state"]


def test_nothing_is_sent_to_an_agent_that_is_not_ready() -> None:
    stage = Stage()
    stage.send()
    stage.started()
    assert stage.prompts == []


def test_prompts_go_one_at_a_time_in_order() -> None:
    stage = Stage()
    stage.working("one", "p1")
    stage.send("two", "p2")
    assert stage.prompts == ["one"]
    stage.see(done("first"))
    assert stage.prompts == ["one", "two"]
    assert [turn.state for turn in stage.turns] == [TurnState.COMPLETED, TurnState.RUNNING]


def test_a_full_queue_takes_no_more_until_one_has_begun_or_is_taken_back() -> None:
    stage = Stage(RunPolicy(max_queued=2))
    stage.working()
    assert [refused(stage.send("more", name)) for name in ("p2", "p3")] == ["", ""]
    assert "the queue is full: 2 waiting" in refused(stage.send("too much", "p4"))
    assert refused(stage.send("more", "p3")) == "", "one that waits already is no more"
    stage.order(RemovePrompt(prompt_id=PromptId("p2")))
    assert refused(stage.send("again", "p4")) == ""
    stage.see(TurnEnded(ending=TurnEnding.NATURAL, text="done"))
    assert stage.prompts == ["do it", "more"]
    assert refused(stage.send("and on", "p5")) == ""


def test_a_repeated_prompt_is_the_same_prompt_and_other_words_under_its_id_are_refused() -> None:
    stage = Stage()
    stage.working("one", "p1")
    assert refused(stage.send("one", "p1")) == ""
    assert "other words" in refused(stage.send("two", "p1"))
    stage.see(done("ok"))
    assert stage.prompts == ["one"]


def test_a_queued_prompt_is_edited_and_removed_until_it_is_dispatched() -> None:
    stage = Stage()
    stage.working("one", "p1")
    stage.send("two", "p2")
    stage.send("three", "p3")
    assert refused(stage.order(EditQueuedPrompt(prompt_id=PromptId("p2"), text="2"))) == ""
    assert refused(stage.order(RemovePrompt(prompt_id=PromptId("p3")))) == ""
    assert "dispatched" in refused(stage.order(EditQueuedPrompt(prompt_id=PromptId("p1"), text="1")))
    stage.see(done("ok"))
    stage.submitted("p2")
    stage.see(done("ok"))
    assert stage.prompts == ["one", "2"]


def test_a_closed_gate_holds_prompts_and_an_open_one_lets_them_go() -> None:
    stage = Stage()
    stage.order(SetGate(is_open=False, reason="later"))
    stage.send()
    assert stage.wanted(SpawnAgent) == []
    stage.order(SetGate(is_open=True))
    assert len(stage.wanted(SpawnAgent)) == 1


# Delivery


def test_a_prompt_that_provably_did_not_arrive_is_given_again_a_few_times_and_then_fails() -> None:
    stage = Stage(RunPolicy(resubmit_attempts=3, resubmit_seconds=2))
    stage.send()
    stage.started()
    stage.see(BecameReady())
    for _ in range(2):
        stage.submitted(stage=DeliveryStage.NOT_DELIVERED)
        stage.wait(2)
    assert stage.state() is TurnState.RUNNING
    stage.submitted(stage=DeliveryStage.NOT_DELIVERED)
    assert stage.prompts == ["do it"] * 3
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.FAILED, "not_delivered")


def test_a_prompt_that_may_have_arrived_is_never_given_again() -> None:
    stage = Stage(RunPolicy(start_seconds=60))
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.submitted(stage=DeliveryStage.UNKNOWN)
    stage.wait(300)
    assert stage.prompts == ["do it"]
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.FAILED, "delivery_unknown")


def test_evidence_settles_a_delivery_that_was_unknown() -> None:
    stage = Stage()
    stage.send()
    stage.started()
    stage.see(BecameReady())
    stage.submitted(stage=DeliveryStage.UNKNOWN)
    stage.see(TextArrived(text="I am at it"), done("ok"))
    assert stage.state() is TurnState.COMPLETED
    stages = [receipt.stage for receipt in stage.logged(DeliveryReceipt)]
    assert stages == [DeliveryStage.QUEUED, DeliveryStage.UNKNOWN, DeliveryStage.STARTED]


def test_receipts_are_written_once_each_in_order() -> None:
    stage = Stage()
    stage.working()
    stage.see(
        PromptReached(stage=DeliveryStage.ACCEPTED), TextArrived(text="a"), PromptReached(stage=DeliveryStage.STARTED)
    )
    stages = [receipt.stage.value for receipt in stage.logged(DeliveryReceipt)]
    assert stages == ["queued", "typed", "accepted", "started"]


# Text


def test_text_is_shown_as_it_comes_and_is_the_answer_in_the_end() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="Hel"), TextArrived(text="lo"), MessageEnded(text="Hello"), NATURAL)
    assert [(delta.offset, delta.text) for delta in stage.published(TextDelta)] == [(0, "Hel"), (3, "lo")]
    (answer,) = stage.logged(AssistantMessage)
    assert (answer.text, answer.metadata.partial) == ("Hello", False)
    assert {answer.metadata.stream_id} == {delta.stream_id for delta in stage.published(TextDelta)}
    assert stage.state() is TurnState.COMPLETED


def test_an_answer_names_the_stream_that_showed_it_and_a_text_that_was_not_shown_names_none() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="Look."), ToolCalled(call_id="c1", name="read"), ToolReturned(call_id="c1", output="x"))
    stage.see(TextArrived(text="Hal"), TextVoided(), TextArrived(text="Hel"), TurnEnded(ending=TurnEnding.INTERRUPTED))
    first, _, last = dict.fromkeys(delta.stream_id for delta in stage.published(TextDelta))
    assert [one.metadata.stream_id for one in stage.logged(AssistantMessage)] == [first, last]
    stage = Stage()
    stage.working()
    stage.see(TurnEnded(ending=TurnEnding.NATURAL, text="Told at once"))
    assert [one.metadata.stream_id for one in stage.logged(AssistantMessage)] == [None]


def test_text_before_a_tool_call_is_intermediate() -> None:
    stage = Stage()
    stage.working()
    stage.see(
        TextArrived(text="Let me look."),
        ToolCalled(call_id="c1", name="read"),
        ToolReturned(call_id="c1", output="x"),
        MessageEnded(text="It is x."),
        NATURAL,
    )
    messages = stage.logged(AssistantMessage)
    assert [(one.text, one.metadata.intermediate) for one in messages] == [("Let me look.", True), ("It is x.", False)]


def test_text_of_a_dead_attempt_is_in_no_record() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="Hal"), TextVoided(), TextArrived(text="Hello"), NATURAL)
    (answer,) = stage.logged(AssistantMessage)
    assert answer.text == "Hello"
    assert answer.metadata.stream_id == stage.published(TextDelta)[-1].stream_id
    assert len({delta.stream_id for delta in stage.published(TextDelta)}) == 2


def test_checkpoints_are_a_second_apart_and_hold_all_of_the_text() -> None:
    stage = Stage()
    stage.working()
    for word in ("a", "b", "c", "d"):
        stage.see(TextArrived(text=word))
        stage.wait(0.6)
    assert [(one.offset, one.text) for one in stage.logged(StreamCheckpoint)] == [(3, "abc")]


def test_a_blank_answer_is_a_failure() -> None:
    stage = Stage()
    stage.working()
    stage.see(done("  "))
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.FAILED, "empty_answer")


@pytest.mark.parametrize(("text", "state"), [("half", TurnState.PARTIAL_FAILED), ("", TurnState.FAILED)])
def test_an_error_keeps_useful_text_as_partial(text: str, state: TurnState) -> None:
    stage = Stage()
    stage.working()
    if text:
        stage.see(TextArrived(text=text))
    stage.see(TurnEnded(ending=TurnEnding.ERROR, error_kind="provider", error_message="500"))
    assert (stage.turn.state, stage.turn.error_message) == (state, "500")


def test_a_terminal_turn_completes_without_text_and_with_text_of_its_transcript() -> None:
    stage = Stage(kind=DriverKind.TERMINAL, capabilities=Capabilities(owns_text=False, outlives_runtime=True))
    stage.working()
    stage.see(PromptReached(stage=DeliveryStage.ACCEPTED), NATURAL)
    stage.working("two", "p2")
    stage.see(done("by transcript"))
    assert [turn.state for turn in stage.turns] == [TurnState.COMPLETED] * 2
    sources = [one.metadata.source for one in stage.logged(AssistantMessage)]
    assert sources == [MessageSource.NONE, MessageSource.TRANSCRIPT]


def test_what_an_agent_does_unasked_is_a_turn_without_a_prompt() -> None:
    stage = Stage()
    stage.working()
    stage.see(done("first"))
    stage.see(TextArrived(text="The background task is done."), NATURAL)
    assert [turn.state for turn in stage.turns] == [TurnState.COMPLETED] * 2


def test_an_unasked_turn_ends_when_the_agent_is_at_rest() -> None:
    stage = Stage()
    stage.working()
    stage.see(done("first"), MessageEnded(text="The background task is done."), BecameReady())
    assert [turn.state for turn in stage.turns] == [TurnState.COMPLETED] * 2
    stage.send("next", "p2")
    assert stage.prompts == ["do it", "next"]


def test_what_an_agent_for_one_prompt_says_after_its_turn_is_late_and_holds_up_nothing() -> None:
    stage = Stage(capabilities=Capabilities(is_one_shot=True, can_interrupt=False))
    stage.working()
    stage.see(done("first"), TextArrived(text="by the way"))
    assert len(stage.turns) == 1
    stage.send("next", "p2")
    stage.see(Exited(code=0))
    assert len(stage.wanted(SpawnAgent)) == 2


def test_an_agent_that_says_it_is_ready_does_not_end_a_turn_that_was_asked_for() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="hm"), BecameReady())
    assert stage.state() is TurnState.RUNNING


def test_a_summary_stands_for_everything_before_the_open_turn() -> None:
    stage = Stage()
    stage.working("one", "p1")
    stage.see(done("first"))
    stage.working("two", "p2")
    made = HistoryCompacted(summary="once upon a time", strategy="s", trigger=CompactionTrigger.OVERFLOW_RECOVERY)
    stage.see(made, done("second"))
    first = stage.turns[1].first_seq
    assert [one.range.to_seq + 1 for one in stage.logged(HistoryCompaction)] == [first]
    texts = [item.text for item in provider_items(stage.events) if isinstance(item, UserText | AssistantText)]
    assert texts == ["two", "second"]


# Questions

OPTIONS = (
    ApprovalOption(label="Yes", id="allow", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(label="No", id="deny", kind=OptionKind.REJECT_ONCE),
)


def asking(stage: Stage, **more: object) -> str:
    """Have the agent ask about a call; returns the approval's id."""
    stage.see(ToolCalled(call_id="c1", name="shell", args={"cmd": "ls"}))
    stage.see(ApprovalAsked(request_id="r1", call_id="c1", name="shell", question="Run ls?", options=OPTIONS))
    (asked,) = stage.logged(ToolCallSuspended)
    return asked.ticket.suspension.id


def test_a_call_without_a_name_is_logged_as_a_tool() -> None:
    stage = Stage()
    stage.working()
    stage.see(ToolCalled(call_id="c1", name=""), ToolReturned(call_id="c1", output="x"))
    assert [call.name for call in stage.logged(ToolCall)] == ["tool"]


def test_a_question_makes_the_run_wait_and_an_answer_lets_it_go_on() -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    assert stage.state() is TurnState.WAITING
    assert stage.conductor.status.attention is Attention.APPROVAL
    acts = stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=True))
    order = [type(act).__name__ for act in acts]
    assert order.index("Append") < order.index("DecideForAgent")
    (decided,) = stage.wanted(DecideForAgent)
    told = decided.decision
    assert (told.request_id, told.is_allowed, told.option_id) == ("r1", True, "allow")
    assert stage.state() is TurnState.RUNNING
    stage.hear(Decided(request_id="r1"))
    stage.see(ToolReturned(call_id="c1", output="files"), done("listed"))
    assert stage.state() is TurnState.COMPLETED
    assert stage.logged(Anomaly) == []


def test_a_denial_gives_one_error_result_and_the_agents_own_word_on_it_changes_nothing() -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=False, text="not now"))
    stage.hear(Decided(request_id="r1"))
    stage.see(ToolReturned(call_id="c1", error=ToolError(kind="denied", message="denied")), done("understood"))
    (result,) = stage.logged(ToolResult)
    assert (result.ok, result.error and result.error.kind) == (False, "approval_denied")
    assert stage.state() is TurnState.COMPLETED
    assert stage.logged(Anomaly) == []


def test_a_decision_is_used_once() -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=True))
    assert refused(stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=True))) == ""
    other = refused(stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=False)))
    assert "no effect" in other
    assert "decided already: Yes" in other
    assert len(stage.wanted(DecideForAgent)) == 1
    assert len(stage.logged(ToolCallDecided)) == 1


def test_an_answer_to_nothing_is_refused() -> None:
    stage = Stage()
    stage.working()
    assert "nothing is asked" in refused(stage.order(AnswerQuestion(approval_id="apr_9", is_allowed=True)))


def test_an_option_that_is_not_offered_is_refused_and_nothing_is_written() -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    before = len(stage.events)
    assert "no option 'Maybe'" in refused(
        stage.order(AnswerQuestion(approval_id=approval_id, option="Maybe", is_allowed=True))
    )
    assert len(stage.events) == before


def test_choosing_an_option_that_rejects_is_a_denial() -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    stage.order(AnswerQuestion(approval_id=approval_id, option="No", is_allowed=False))
    (decided,) = stage.wanted(DecideForAgent)
    assert not decided.decision.is_allowed
    stage.hear(Decided(request_id="r1"))
    assert stage.logged(ToolResult)[0].error is not None


def test_a_question_that_is_about_no_known_call_is_a_dialog() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    asked = ApprovalAsked(request_id="d1", question="Trust this folder?", options=OPTIONS, attention=Attention.APPROVAL)
    stage.see(asked)
    (dialog,) = stage.logged(DialogOpened)
    assert [(one.label, one.id, one.kind) for one in dialog.options] == [
        ("Yes", "allow", "allow_once"),
        ("No", "deny", "reject_once"),
    ]
    assert stage.state() is TurnState.WAITING
    stage.order(AnswerQuestion(approval_id=dialog.dialog_id, option="Yes", is_allowed=True))
    stage.hear(Decided(request_id="d1"))
    stage.see(ApprovalGone(request_id="d1"))
    assert [one.outcome for one in stage.logged(DialogClosed)] == [DialogOutcome.ANSWERED]
    assert stage.state() is TurnState.RUNNING


def test_a_question_that_is_taken_back_is_closed_as_such() -> None:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(
        ApprovalAsked(request_id="d1", question="?", options=OPTIONS), ApprovalGone(request_id="d1", is_answered=False)
    )
    assert [one.outcome for one in stage.logged(DialogClosed)] == [DialogOutcome.WITHDRAWN]
    assert stage.conductor.status.attention is Attention.NONE


def test_what_a_child_of_the_agent_asks_outlives_the_turn_and_holds_the_queue() -> None:
    stage = Stage()
    stage.working()
    stage.see(ApprovalAsked(request_id="r9", call_id="c9", name="rm", question="?", options=OPTIONS, sub_agent="child"))
    stage.see(done("ok"))
    (dialog,) = stage.logged(DialogOpened)
    stage.send("next", "p2")
    assert stage.prompts == ["do it"]
    stage.order(AnswerQuestion(approval_id=dialog.dialog_id, is_allowed=False))
    stage.hear(Decided(request_id="r9"))
    stage.see(ApprovalGone(request_id="r9"))
    assert stage.prompts == ["do it", "next"]


def test_past_its_deadline_the_answer_is_no() -> None:
    stage = Stage(RunPolicy(approval_seconds=30))
    stage.working()
    asking(stage)
    stage.wait(31)
    (decided,) = stage.wanted(DecideForAgent)
    assert not decided.decision.is_allowed
    (result,) = stage.logged(ToolResult)
    assert result.error is not None
    assert result.error.kind == "approval_expired"


def test_an_answer_that_did_not_reach_a_dialog_is_taken_back_and_the_dialog_is_open_again() -> None:
    stage = Stage()
    stage.working()
    stage.see(ApprovalAsked(request_id="r1", question="may I?"))
    (dialog,) = stage.logged(DialogOpened)
    stage.order(AnswerQuestion(approval_id=dialog.dialog_id, is_allowed=True, decision_id="d1"))
    for _ in range(3):
        stage.hear(Decided(request_id="r1", problem="broken pipe"))
    (lost,) = stage.logged(DecisionUndelivered)
    assert (lost.target_id, lost.decision_id, lost.reason) == (dialog.dialog_id, "d1", "broken pipe")
    (shown,) = approvals(stage.events)
    assert (shown.state, shown.problem, shown.outcome) == (ApprovalState.OPEN, "broken pipe", "")


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_decision_that_did_not_reach_the_agent_is_taken_back_and_its_question_is_open_again(is_allowed: bool) -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    given = AnswerQuestion(approval_id=approval_id, is_allowed=is_allowed, decision_id="d1")
    stage.order(given)
    for _ in range(3):
        stage.hear(Decided(request_id="r1", problem="broken pipe"))
    assert len(stage.wanted(DecideForAgent)) == 3
    (lost,) = stage.logged(DecisionUndelivered)
    assert (lost.target_id, lost.decision_id, lost.reason) == (approval_id, "d1", "broken pipe")
    assert stage.logged(ToolResult) == [], "nothing follows from a decision that the agent does not have"
    assert stage.state() is TurnState.WAITING
    assert stage.conductor.status.attention is Attention.APPROVAL
    (shown,) = approvals(stage.events)
    assert (shown.state, shown.problem, shown.outcome) == (ApprovalState.OPEN, "broken pipe", "")
    assert refused(stage.order(given)) == "", "the same decision can be made again"
    stage.hear(Decided(request_id="r1"))
    (shown,) = approvals(stage.events)
    assert (shown.outcome, shown.problem) == ("allowed" if is_allowed else "denied", "")


def test_the_other_decision_can_be_made_when_the_first_did_not_reach_the_agent() -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=True))
    for _ in range(3):
        stage.hear(Decided(request_id="r1", problem="broken pipe"))
    assert refused(stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=False))) == ""
    stage.hear(Decided(request_id="r1"))
    (result,) = stage.logged(ToolResult)
    assert result.error is not None
    assert result.error.kind == "approval_denied"


def test_a_no_by_the_deadline_that_did_not_reach_the_agent_is_asked_as_a_new_question() -> None:
    stage = Stage(RunPolicy(approval_seconds=30))
    stage.working()
    asking(stage)
    stage.wait(31)
    for _ in range(3):
        stage.hear(Decided(request_id="r1", problem="broken pipe"))
    (dialog,) = stage.logged(DialogOpened)
    assert "broken pipe" in dialog.problem
    assert dialog.deadline_at is not None
    assert stage.state() is TurnState.WAITING
    assert refused(stage.order(AnswerQuestion(approval_id=dialog.dialog_id, is_allowed=True))) == ""
    assert stage.wanted(DecideForAgent)[-1].decision.is_allowed


@pytest.mark.parametrize(("option", "is_allowed"), [("No", True), ("Yes", False)])
def test_an_option_that_contradicts_the_verdict_is_refused_and_nothing_is_written(
    option: str, is_allowed: bool
) -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    before = len(stage.events)
    said = refused(stage.order(AnswerQuestion(approval_id=approval_id, option=option, is_allowed=is_allowed)))
    assert "contradicts itself" in said
    assert len(stage.events) == before
    assert stage.wanted(DecideForAgent) == []


def test_choosing_one_of_several_answers_while_refusing_to_answer_is_refused() -> None:
    stage = Stage()
    stage.working()
    stage.see(ApprovalAsked(request_id="r1", question="Which?", options=(ApprovalOption(label="Red"),)))
    (dialog,) = stage.logged(DialogOpened)
    said = refused(stage.order(AnswerQuestion(approval_id=dialog.dialog_id, option="Red", is_allowed=False)))
    assert "contradicts itself" in said
    assert stage.logged(DialogAnswered) == []


def test_a_denied_call_that_ran_all_the_same_is_told_with_its_result() -> None:
    stage = Stage()
    stage.working()
    approval_id = asking(stage)
    stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=False))
    stage.see(ToolReturned(call_id="c1", output="files"))
    (result,) = stage.logged(ToolResult)
    assert (result.ok, result.output) == (True, "files")
    assert [one.kind for one in stage.logged(Anomaly)] == ["denied_call_ran"]


def test_an_answer_that_nothing_confirms_is_an_anomaly() -> None:
    stage = Stage(RunPolicy(confirm_seconds=15))
    stage.working()
    approval_id = asking(stage)
    stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=True))
    stage.hear(Decided(request_id="r1"))
    stage.wait(16)
    assert [one.kind for one in stage.logged(Anomaly)] == ["decision_unconfirmed"]


# Ends


def test_a_cancel_without_effect_is_taken_back_and_told_and_nothing_is_killed() -> None:
    stage = Stage(RunPolicy(interrupt_seconds=10, stall_after_seconds=None))
    stage.working()
    stage.see(TextArrived(text="half"))
    stage.order(CancelTurnInput())
    assert any(one.cancel_requested for one in stage.logged(RunState))
    assert len(stage.wanted(InterruptAgent)) == 1
    stage.wait(10)
    assert len(stage.wanted(InterruptAgent)) == 2
    stage.wait(10)
    assert stage.wanted(StopAgent) == []
    assert (stage.state(), stage.turn.cancel_requested) == (TurnState.RUNNING, False)
    (told,) = stage.logged(Anomaly)
    assert (told.kind, "the turn goes on" in told.message) == ("interrupt_without_effect", True)
    stage.wait(1000)
    assert stage.wanted(StopAgent) == []
    stage.see(done("whole"))
    assert stage.state() is TurnState.COMPLETED, "its end is the agent's own: nobody asked for another any more"


def test_after_a_cancel_was_taken_back_an_open_question_keeps_the_turn_open() -> None:
    stage = Stage(RunPolicy(interrupt_seconds=10, stall_after_seconds=None))
    stage.working()
    stage.order(CancelTurnInput())
    stage.wait(20)
    assert (stage.turn.cancel_requested, len(stage.wanted(InterruptAgent))) == (False, 2)
    asking(stage)
    stage.see(done("whole"))
    assert stage.state() is TurnState.WAITING, "the run law: its question is open"
    stage.see(ToolReturned(call_id="c1", output="x"))
    assert (stage.state(), stage.turn.cancel_requested) == (TurnState.COMPLETED, False)


def test_a_forced_cancel_asks_once_then_kills_and_tells_it() -> None:
    stage = Stage(RunPolicy(interrupt_seconds=10))
    stage.working()
    stage.see(TextArrived(text="half"))
    stage.order(CancelTurnInput(is_forced=True))
    assert (len(stage.wanted(InterruptAgent)), stage.wanted(StopAgent)) == (1, [])
    stage.hear(InterruptOutcome(problem="after these keys: Escape"))
    stage.wait(10)
    assert (len(stage.wanted(InterruptAgent)), len(stage.wanted(StopAgent))) == (1, 1)
    stage.see(Exited(signal=15))
    assert (stage.state(), stage.turn.error_kind) == (TurnState.INTERRUPTED, "killed")
    why = "the agent's process was killed, because the interrupt did not end the turn: after these keys: Escape"
    assert stage.turn.error_message == why
    assert [one.message for one in stage.logged(Anomaly) if one.kind == "killed_after_interrupt"] == [why]
    stops = [one for one in stage.logged(ProcessEvent) if one.kind is ProcessEventKind.STOP_REQUESTED]
    assert [one.message for one in stops] == [why]
    assert [one.text for one in stage.logged(AssistantMessage)] == ["half"]


def test_a_force_counts_while_a_cancel_is_under_way_and_after_it_was_taken_back() -> None:
    for waits in (0, 10, 40):
        stage = Stage(RunPolicy(interrupt_seconds=10))
        stage.working()
        stage.order(CancelTurnInput())
        for _ in range(waits // 10):
            stage.wait(10)
        stage.order(CancelTurnInput(is_forced=True))
        stage.wait(10)
        assert len(stage.wanted(StopAgent)) == 1, waits


def test_an_agent_that_works_on_after_its_turn_timed_out_is_killed_and_that_is_told() -> None:
    stage = Stage(RunPolicy(turn_budget_seconds=30, interrupt_seconds=10))
    stage.working()
    for seconds in (30, 10, 10):
        stage.wait(seconds)
    assert (stage.state(), len(stage.wanted(StopAgent))) == (TurnState.TIMED_OUT, 1)
    (told,) = stage.logged(Anomaly)
    assert told.kind == "killed_after_interrupt"
    why = "the agent's process was killed, because its turn was over, and it did not stop within 10 s"
    assert told.message == why


def test_an_agent_that_confirms_the_interrupt_stays() -> None:
    stage = Stage()
    stage.working()
    stage.order(CancelTurnInput())
    stage.see(TurnEnded(ending=TurnEnding.INTERRUPTED))
    assert stage.state() is TurnState.INTERRUPTED
    stage.wait(100)
    assert stage.wanted(StopAgent) == []
    stage.send("again", "p2")
    assert stage.prompts == ["do it", "again"]


def test_a_clean_end_that_was_there_first_is_completed_with_the_cancel_on_record() -> None:
    stage = Stage()
    stage.working()
    stage.order(CancelTurnInput())
    stage.see(done("finished"))
    assert (stage.turn.state, stage.turn.cancel_requested) == (TurnState.COMPLETED, True)


def test_a_late_cancel_does_not_touch_a_newer_turn() -> None:
    stage = Stage()
    stage.working("one", "p1")
    stage.send("two", "p2")
    stage.see(done("ok"))
    assert "not open" in refused(stage.order(CancelTurnInput(turn_id=TurnId(stage.turns[0].turn_id))))
    assert stage.wanted(InterruptAgent) == []


def test_a_turn_over_its_budget_is_timed_out_at_once_and_the_agent_is_asked_to_stop() -> None:
    stage = Stage(RunPolicy(turn_budget_seconds=30))
    stage.working()
    stage.see(TextArrived(text="half"), ToolCalled(call_id="c1", name="sleep"))
    stage.wait(30)
    assert stage.state() is TurnState.TIMED_OUT
    (result,) = stage.logged(ToolResult)
    assert result.error is not None
    assert result.error.kind == "run_timed_out"
    assert len(stage.wanted(InterruptAgent)) == 1
    stage.send("next", "p2")
    assert stage.prompts == ["do it"], "the agent is still at the old turn"
    stage.see(TextArrived(text="late words"))
    assert len(stage.turns) == 1, "late output of a turn that is over is no turn"
    stage.see(TurnEnded(ending=TurnEnding.INTERRUPTED))
    assert stage.prompts == ["do it", "next"]


def test_waiting_for_an_approval_counts_against_the_budget() -> None:
    stage = Stage(RunPolicy(turn_budget_seconds=30))
    stage.working()
    asking(stage)
    stage.wait(31)
    assert stage.state() is TurnState.TIMED_OUT


def test_the_death_of_the_process_ends_the_turn_with_what_was_said() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="half"), ToolCalled(call_id="c1", name="x"), TextArrived(text="more"))
    stage.see(Exited(signal=9, stderr_tail="boom"))
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.PARTIAL_FAILED, "process_died")
    assert len(stage.logged(ToolResult)) == 1
    ended = next(one for one in stage.logged(ProcessEvent) if one.kind is ProcessEventKind.EXITED)
    assert (ended.exit_reason, ended.signal, ended.stderr_tail) == (ExitReason.CRASHED, 9, "boom")


def test_a_stop_interrupts_the_turn_and_is_not_restarted() -> None:
    stage = Stage()
    stage.working()
    stage.order(StopAgentInput())
    stage.see(Exited(signal=15))
    stage.wait(1000)
    assert stage.state() is TurnState.INTERRUPTED
    assert len(stage.wanted(SpawnAgent)) == 1


def test_a_crash_is_restarted_with_a_pause_and_its_own_session_and_given_up_after_a_few() -> None:
    stage = Stage()
    stage.working()
    stage.see(SessionNamed(native_session_id="native-1"))
    stage.see(Exited(code=1))
    for number in range(2, 10):
        stage.wait(61)
        if len(stage.wanted(SpawnAgent)) == number:
            stage.started()
            stage.see(Exited(code=1))
    spawns = stage.wanted(SpawnAgent)
    assert 3 <= len(spawns) <= 5
    assert {spawn.resume for spawn in spawns[1:]} == {"native-1"}
    kinds = [one.kind for one in stage.logged(ProcessEvent)]
    assert ProcessEventKind.RESTART_DUE in kinds
    assert kinds.count(ProcessEventKind.RESTARTS_EXHAUSTED) == 1
    assert stage.conductor.status.attention is Attention.ERROR


def test_a_stale_session_id_is_dropped_and_the_agent_starts_afresh() -> None:
    stage = Stage()
    stage.working()
    stage.see(SessionNamed(native_session_id="old"), done("ok"))
    stage.see(Exited(code=1, is_stale_resume=True))
    stage.wait(1)
    assert stage.wanted(SpawnAgent)[-1].resume == ""


def test_an_agent_that_cannot_start_closes_the_gate_instead_of_spinning() -> None:
    stage = Stage()
    stage.send()
    assert stage.spawn_id is not None
    stage.hear(AgentNotStarted(spawn_id=stage.spawn_id, message="no such program", is_hopeless=True))
    stage.wait(1000)
    assert len(stage.wanted(SpawnAgent)) == 1
    assert [gate.reason for gate in stage.logged(QueueGate)] == ["no such program"]
    assert stage.conductor.status.attention is Attention.ERROR
    stage.order(SetGate(is_open=True))
    assert len(stage.wanted(SpawnAgent)) == 2


def test_silence_is_a_stall_that_ends_with_the_next_word() -> None:
    stage = Stage(RunPolicy(stall_after_seconds=60))
    stage.working()
    stage.see(TextArrived(text="a"))
    stage.wait(60)
    assert stage.activity() is Activity.STALLED
    stage.see(TextArrived(text="b"))
    assert stage.activity() is Activity.WORKING
    assert stage.state() is TurnState.RUNNING


def test_a_tool_may_take_its_time() -> None:
    stage = Stage(RunPolicy(stall_after_seconds=60))
    stage.working()
    stage.see(ToolCalled(call_id="c1", name="build"))
    stage.wait(600)
    assert stage.activity() is Activity.WORKING


def test_a_stall_may_be_told_to_end_the_turn() -> None:
    stage = Stage(RunPolicy(stall_after_seconds=60, stalled_is_terminal=True))
    stage.working()
    stage.see(TextArrived(text="  "))
    stage.wait(61)
    assert (stage.turn.state, stage.turn.error_kind) == (TurnState.FAILED, "stalled")


def test_background_work_is_settling_and_holds_the_queue_but_not_for_ever() -> None:
    stage = Stage(RunPolicy(settle_seconds=100))
    stage.working()
    stage.see(ChildrenChanged(open=frozenset({"shell"})), done("ok"))
    assert stage.activity() is Activity.SETTLING
    stage.send("next", "p2")
    assert stage.prompts == ["do it"]
    stage.wait(101)
    assert stage.prompts == ["do it", "next"]
    assert "children_never_ended" in [one.kind for one in stage.logged(Anomaly)]


@pytest.mark.parametrize(("used", "is_over"), [(999, False), (1000, True), (1100, True)])
def test_a_budget_is_used_up_once_it_is_reached(used: int, is_over: bool) -> None:
    stage = Stage(RunPolicy(max_tokens=1000))
    stage.working()
    stage.see(UsageReported(scope=UsageScope.TURN, input_tokens=used - 200, output_tokens=200), done("ok"))
    assert [gate.reason for gate in stage.logged(QueueGate)] == [f"{used} of 1000 tokens are used"] * is_over


@pytest.mark.parametrize(
    ("used", "tier"),
    [(None, "unknown"), (69, "none"), (70, "advisory"), (84, "advisory"), (85, "warning"), (95, "critical")],
)
def test_how_full_the_context_is_is_told_in_tiers(used: int | None, tier: str) -> None:
    stage = Stage()
    stage.working()
    stage.see(ContextFilled(used_tokens=used, window_tokens=100))
    assert [one.tier.value for one in stage.published(ContextPressure)] == [tier]


def test_a_budget_that_is_used_up_pauses_the_queue_and_kills_nothing() -> None:
    stage = Stage(RunPolicy(max_tokens=1000))
    stage.working()
    stage.see(UsageReported(scope=UsageScope.TURN, input_tokens=900, output_tokens=200), done("ok"))
    stage.send("next", "p2")
    assert stage.prompts == ["do it"]
    assert stage.wanted(StopAgent) == []
    stage.order(SetGate(is_open=True))
    assert stage.prompts == ["do it", "next"]


def idle_deadline(stage: Stage) -> float | None:
    return stage.conductor.idle_deadline


def attended(stage: Stage, *, is_attended: bool) -> None:
    assert stage.spawn_id is not None
    stage.hear(Attended(spawn_id=stage.spawn_id, is_attended=is_attended))


def test_an_unused_agent_is_stopped_at_the_deadline_that_is_shown() -> None:
    stage = Stage(RunPolicy(idle_ttl_seconds=120))
    stage.working()
    assert idle_deadline(stage) is None
    stage.wait(10)
    stage.see(done("ok"))
    assert idle_deadline(stage) == 130
    assert stage.published(Status)[-1].idle_at == BEGAN + timedelta(seconds=130)
    stage.wait(119)
    assert stage.wanted(AskAttended) == []
    stage.wait(2)
    assert len(stage.wanted(AskAttended)) == 1
    attended(stage, is_attended=False)
    assert len(stage.wanted(StopAgent)) == 1
    stage.see(Exited(signal=15))
    ended = next(one for one in stage.logged(ProcessEvent) if one.kind is ProcessEventKind.EXITED)
    assert ended.exit_reason is ExitReason.IDLE_TTL
    stage.wait(1000)
    assert len(stage.wanted(SpawnAgent)) == 1


def test_an_agent_with_a_person_at_its_terminal_is_not_stopped_for_being_idle() -> None:
    stage = Stage(RunPolicy(idle_ttl_seconds=120))
    stage.working()
    stage.see(done("ok"))
    stage.wait(121)
    attended(stage, is_attended=True)
    stage.wait(121)
    assert len(stage.wanted(AskAttended)) == 2
    assert stage.wanted(StopAgent) == []


def test_an_agent_that_has_work_by_the_time_of_the_answer_is_not_stopped() -> None:
    stage = Stage(RunPolicy(idle_ttl_seconds=120))
    stage.working()
    stage.see(done("ok"))
    stage.wait(121)
    stage.send("next", "p2")
    attended(stage, is_attended=False)
    assert stage.wanted(StopAgent) == []


def test_status_is_published_on_change_only_and_names_its_evidence() -> None:
    stage = Stage()
    stage.working()
    stage.see(TextArrived(text="a"), TextArrived(text="b"), done("ab"))
    shown = [(status.activity, status.attention) for status in stage.published(Status)]
    assert shown == [
        (Activity.STARTING, Attention.NONE),
        (Activity.WORKING, Attention.NONE),
        (Activity.QUIET, Attention.NONE),
    ] or shown[-2:] == [(Activity.WORKING, Attention.NONE), (Activity.QUIET, Attention.NONE)]
    assert all(status.evidence for status in stage.published(Status))


def test_start_has_the_agent_running_without_a_prompt() -> None:
    stage = Stage()
    stage.order(StartAgentInput())
    assert len(stage.wanted(SpawnAgent)) == 1
    stage.order(StartAgentInput())
    assert len(stage.wanted(SpawnAgent)) == 1


def test_words_of_another_spawn_change_nothing() -> None:
    stage = Stage()
    stage.working()
    old = stage.spawn_id
    stage.see(Exited(code=1))
    stage.wait(61)
    stage.started()
    stage.see(BecameReady())
    before = len(stage.events)
    stage.spawn_id, new = old, stage.spawn_id
    stage.see(TextArrived(text="ghost"), done("ghost"))
    assert len(stage.events) == before
    assert new != old


def test_the_run_of_a_closed_turn_is_done() -> None:
    stage = Stage()
    stage.working()
    stage.see(done("ok"))
    assert [run.status for run in stage.logged(RunState)] == [RunStatus.RUNNING, RunStatus.DONE]
