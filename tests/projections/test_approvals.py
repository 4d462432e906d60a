"""Every question an agent asks, in one list."""

from __future__ import annotations

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    ApprovalOption,
    OptionKind,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.runtime.session.inputs import AnswerQuestion, Decided
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import RunState, WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.ids import EventId, RunId, SessionId, StepId, WorkflowId
from interlock.vocabulary.run import NATURAL_END, RunStatus
from interlock.vocabulary.states import Attention, DriverKind, StepState
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from tests.projections.whole_logs import approvals
from tests.runtime.conducting import Stage

OPTIONS = (
    ApprovalOption(label="Yes", id="allow", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(label="No", id="deny", kind=OptionKind.REJECT_ONCE),
)


def asked(stage: Stage) -> Approval:
    return approvals(stage.events)[-1]


def about_a_call() -> Stage:
    stage = Stage()
    stage.working()
    stage.see(ToolCalled(call_id="c1", name="shell", args={"cmd": "ls"}))
    stage.see(
        ApprovalAsked(
            request_id="r1", call_id="c1", name="shell", args={"cmd": "ls"}, question="Run it?", options=OPTIONS
        )
    )
    return stage


def on_a_terminal() -> Stage:
    stage = Stage(kind=DriverKind.TERMINAL)
    stage.working()
    stage.see(ApprovalAsked(request_id="d1", question="Which?", options=OPTIONS, attention=Attention.QUESTION))
    return stage


def test_a_question_about_a_call_and_one_on_a_terminal_have_one_shape() -> None:
    call, dialog = asked(about_a_call()), asked(on_a_terminal())
    assert (call.state, call.attention, call.question, call.tool) == (
        ApprovalState.OPEN, Attention.APPROVAL, "Run it?", "shell",
    )  # fmt: skip
    assert (dialog.state, dialog.attention, dialog.question, dialog.tool) == (
        ApprovalState.OPEN, Attention.QUESTION, "Which?", "",
    )  # fmt: skip
    assert [option.label for option in call.options] == [option.label for option in dialog.options] == ["Yes", "No"]


def test_a_question_is_decided_and_then_closed_by_evidence() -> None:
    stage = about_a_call()
    stage.order(AnswerQuestion(approval_id=asked(stage).approval_id, is_allowed=True, decided_by="ann"))
    assert (asked(stage).state, asked(stage).outcome, asked(stage).decided_by) == (
        ApprovalState.DECIDED, "allowed", "ann",
    )  # fmt: skip
    stage.hear(Decided(request_id="r1"))
    stage.see(ToolReturned(call_id="c1", output="files"))
    assert (asked(stage).state, asked(stage).outcome) == (ApprovalState.CLOSED, "allowed")


def test_a_dialog_is_decided_and_then_closed_by_evidence() -> None:
    stage = on_a_terminal()
    stage.order(AnswerQuestion(approval_id=asked(stage).approval_id, option="No", is_allowed=False))
    assert (asked(stage).state, asked(stage).outcome) == (ApprovalState.DECIDED, "No")
    stage.hear(Decided(request_id="d1"))
    stage.see(ApprovalGone(request_id="d1"))
    assert (asked(stage).state, asked(stage).outcome) == (ApprovalState.CLOSED, "No")


def test_the_end_of_its_turn_closes_a_question() -> None:
    for stage in (about_a_call(), on_a_terminal()):
        stage.see(TurnEnded(ending=TurnEnding.ERROR, error_message="it broke"))
        assert asked(stage).state is ApprovalState.CLOSED
        assert asked(stage).outcome in ("turn_ended", "orphan_tool_call")


def test_the_end_of_a_turn_without_an_id_leaves_a_step_that_waits() -> None:
    """Events of an imported log name no turn, and neither do the facts of a workflow."""
    held = WorkflowEvent(
        kind=WorkflowEventKind.CHECKPOINT_DECIDED,
        workflow_id=WorkflowId("wf_1"),
        step_id=StepId("build"),
        step_state=StepState.NEEDS_ORCHESTRATOR,
        reason="server_ended",
    )
    ended = RunState(run_id=RunId("r"), status=RunStatus.DONE, reason=NATURAL_END)
    told = [
        new_event(one, id=EventId(f"evt_{at}"), session_id=SessionId("s"), ts=EPOCH, seq=at)
        for at, one in enumerate((held, ended), 1)
    ]
    (step,) = approvals(told)
    assert (step.state, step.attention, [one.label for one in step.options]) == (
        ApprovalState.OPEN, Attention.DECISION, ["release", "give-up"],
    )  # fmt: skip
    assert step.question == "Step build waits for a decision: server ended. Run it again, or give it up?"
