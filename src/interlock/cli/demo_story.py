"""Frames of a task as lines of a story. Pure: what is told is what a frame says, and a frame that says nothing new to a
person is not told.
"""

from __future__ import annotations

from typing import Final

from interlock.vocabulary.approval import Approval
from interlock.vocabulary.ending_words import repeats
from interlock.vocabulary.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatMessage,
    Message,
    MessageStatus,
    Role,
    TaskFrame,
    TaskStatusChanged,
)
from interlock.vocabulary.presenter import Status
from interlock.vocabulary.states import Attention, TaskStatus

QUOTED_LENGTH: Final = 72
_ENDS: Final = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


def tell(frame: TaskFrame, before: Status | None = None) -> str | None:
    """What a person should hear of a frame; None for the rest. `before` is how the agent was seen last."""
    match frame:
        case ChatMessage(message=message):
            return _message(message)
        case AgentStatusChanged(status=status):
            return None if before is not None and axes(before) == axes(status) else _status(status)
        case ApprovalOpened(approval=approval):
            return f"asks ({approval.attention.value}): {approval.question}{_options(approval)}"
        case ApprovalDecided(approval=approval):
            return f"was answered by {approval.decided_by or 'somebody'}: {approval.outcome}"
        case ApprovalClosed(approval=approval):
            return f"the question is over: {approval.outcome or 'it is not known how'}"
        case TaskStatusChanged(task_status=status) if status in _ENDS:
            return f"the task is {status.value}"
        case _:
            return None


def axes(status: Status) -> tuple[str, str]:
    """What it does and what it needs. Evidence may change while these do not."""
    return status.activity.value, status.attention.value


def _status(status: Status) -> str:
    needs = "" if status.attention is Attention.NONE else f", needs {status.attention.value}"
    proofs = [proof.rule or proof.where for proof in status.evidence[:1]]
    return f"is {status.activity.value}{needs}{f'  [{proofs[0]}]' if proofs and proofs[0] else ''}"


def _message(message: Message) -> str:
    status = "" if message.status is MessageStatus.COMPLETED else message.status.value
    label = f" [{message.label or status}]" if message.label or status else ""
    said = _quoted(message.text)
    match message.role:
        case Role.USER:
            return f"you{label}: {said}"
        case Role.TOOL:
            kind = "tool" if message.kind is None else message.kind.value
            return f"{kind} {message.name}: {message.label or message.status.value}"
        case Role.END:
            kind = "" if repeats(message.status, message.error_kind) else f" ({message.error_kind})"
            return f"the turn ended: {message.status.value}{kind}{f': {said}' if message.text else ''}"
        case Role.ANSWER | Role.COMMENTARY:
            seen = "" if message.is_verified or message.label else " [read off the screen]"
            return f"agent{label}{seen}: {said}"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    shown = line if len(line) <= QUOTED_LENGTH else f"{line[: QUOTED_LENGTH - 3]}..."
    return f'"{shown}"' if line else "no words"


def _options(approval: Approval) -> str:
    labels = " | ".join(option.label for option in approval.options)
    return f"  ({labels})" if labels else ""
