"""What the demo tells of a frame is what the frame says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs

from interlock.cli.demo.teller import QUOTED_LENGTH, tell
from interlock.vocabulary.events.audit import DeliveryStage, DialogOption
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import PromptId, SessionId, StreamId
from interlock.vocabulary.states import Activity, Attention, TaskStatus
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatChunk,
    ChatMessage,
    ChatReceipt,
    Message,
    MessageStatus,
    Role,
    TaskFrame,
    TaskStatusChanged,
)
from tests.each_row import each_row

AT = datetime(2026, 1, 1, tzinfo=UTC)
TASK = SessionId("ses_1")


def said(
    role: Role, text: str = "", status: MessageStatus = MessageStatus.COMPLETED, **more: str | bool
) -> ChatMessage:
    message = Message(message_id=1, version=1, role=role, status=status, text=text, at=AT)
    message = structs.replace(message, **more)
    return ChatMessage(task_id=TASK, version=1, tick=1, message=message)


def status(activity: Activity, attention: Attention = Attention.NONE, rule: str = "") -> Status:
    proofs = (Evidence(source=EvidenceSource.SCREEN, rule=rule),) if rule else ()
    return Status(activity=activity, attention=attention, evidence=proofs)


def changed(to: Status) -> AgentStatusChanged:
    return AgentStatusChanged(task_id=TASK, version=1, tick=1, status=to)


def asked(state: ApprovalState, decided_by: str = "", outcome: str = "") -> Approval:
    return Approval(
        approval_id="apr_1",
        session_id=TASK,
        turn_id=None,
        state=state,
        attention=Attention.APPROVAL,
        question="Allow Bash?",
        options=(DialogOption(label="Yes"), DialogOption(label="No")),
        asked_at=AT,
        decided_by=decided_by,
        outcome=outcome,
    )


@each_row(
    ("frame", "line"),
    [
        (said(Role.USER, "Fix  it\nnow"), 'you: "Fix it now"'),
        (said(Role.ANSWER, "Done."), 'agent: "Done."'),
        (said(Role.ANSWER, "Half", MessageStatus.PARTIAL), 'agent [partial]: "Half"'),
        (said(Role.ANSWER, "Seen", is_verified=False), 'agent [read off the screen]: "Seen"'),
        (said(Role.TOOL, status=MessageStatus.RUNNING, name="Bash"), "tool Bash: running"),
        (
            said(Role.END, "reset", MessageStatus.FAILED, error_kind="agent_error"),
            'the turn ended: failed (agent_error): "reset"',
        ),
        (said(Role.END), "the turn ended: completed"),
        (changed(status(Activity.STALLED, rule="stream.silent")), "is stalled  [stream.silent]"),
        (changed(status(Activity.WORKING, Attention.APPROVAL)), "is working, needs approval"),
        (
            ApprovalOpened(task_id=TASK, version=1, tick=1, approval=asked(ApprovalState.OPEN)),
            "asks (approval): Allow Bash?  (Yes | No)",
        ),
        (
            ApprovalDecided(task_id=TASK, version=1, tick=1, approval=asked(ApprovalState.DECIDED, "you", "Yes")),
            "was answered by you: Yes",
        ),
        (
            ApprovalClosed(task_id=TASK, version=1, tick=1, approval=asked(ApprovalState.CLOSED)),
            "the question is over: it is not known how",
        ),
        (
            TaskStatusChanged(task_id=TASK, version=1, tick=1, task_status=TaskStatus.CANCELLED),
            "the task is CANCELLED",
        ),
    ],
)
def test_a_line_says_what_its_frame_says(frame: TaskFrame, line: str) -> None:
    assert tell(frame) == line


@pytest.mark.parametrize(
    "frame",
    [
        TaskStatusChanged(task_id=TASK, version=1, tick=1, task_status=TaskStatus.RUNNING),
        TaskStatusChanged(task_id=TASK, version=1, tick=1, task_status=None),
        ChatChunk(task_id=TASK, version=1, tick=1, stream_id=StreamId("str_1"), offset=0, text="word", at=AT),
        ChatReceipt(task_id=TASK, version=1, tick=1, prompt_id=PromptId("prm_1"), stage=DeliveryStage.ACCEPTED),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_what_is_no_news_to_a_person_is_not_told(frame: TaskFrame) -> None:
    assert tell(frame) is None


def test_an_agent_is_told_again_only_when_it_does_or_needs_something_else() -> None:
    working = status(Activity.WORKING, rule="title")
    assert tell(changed(status(Activity.WORKING, rule="screen")), working) is None
    assert tell(changed(status(Activity.WORKING, Attention.QUESTION)), working) == "is working, needs question"
    assert tell(changed(status(Activity.QUIET)), working) == "is quiet"


def test_a_long_text_is_cut_and_seen_to_be() -> None:
    line = tell(said(Role.ANSWER, "x" * (QUOTED_LENGTH + 1)))
    assert line == f'agent: "{"x" * (QUOTED_LENGTH - 3)}..."'
    assert tell(said(Role.ANSWER, "x" * QUOTED_LENGTH)) == f'agent: "{"x" * QUOTED_LENGTH}"'
