"""What one frame of the room changes, once it is its turn.

Laws:
1. A frame that is taken moves the tick, and tells up to which version the room has spoken. Others of its version may
   follow, but no messages after its status: a status that is taken completes the transcript up to its version.
2. Only `task:status` changes the status. The end of a stream ends the stream.
3. What an agent thinks is shown as it comes, by whoever shows it, and kept nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, assert_never

from interlock.client.machine import reconcile, transcript
from interlock.client.machine.reconcile import ReconcileVerdict, StatusWord
from interlock.client.machine.state import Receipt, TaskState
from interlock.lifecycle.patch import PatchError, apply_patch
from interlock.lifecycle.queue import is_progress
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatMessage,
    ChatReceipt,
    ChatStart,
    ChatThought,
    QueueChanged,
    StatePatched,
    TaskBadgeChanged,
    TaskFrame,
    TaskStatusChanged,
)
from interlock.vocabulary.wire.patch import Patch

_MAX_RECEIPTS: Final = 64


@dataclass(frozen=True, slots=True)
class Effect:
    """What a frame leads to, besides the state. `is_short`: text before it is missing. `is_refused`: its status cannot
    follow from ours. `has_ended_stream`: a stream is over."""

    is_short: bool = False
    is_refused: bool = False
    has_ended_stream: bool = False


_NOTHING: Final = Effect()


def take_frame(state: TaskState, frame: TaskFrame, now: float) -> tuple[TaskState, Effect]:
    """Take the frame whose tick is next."""
    state = replace(
        state,
        tick=frame.tick,
        is_reachable=True,
        room_version=max(state.room_version, frame.version),
        synced_version=max(state.synced_version, frame.version - 1),
    )
    if isinstance(frame, TaskStatusChanged | AgentStatusChanged | TaskBadgeChanged) and frame.badge is not None:
        state = replace(state, badge=frame.badge)
    if isinstance(frame, TaskStatusChanged):
        word = StatusWord(frame.task_status, frame.version, frame.turn_id, frame.status_updated_at)
        state, verdict = reconcile.take_status(state, word)
        if verdict is ReconcileVerdict.REFUSED:
            return state, Effect(is_refused=True)
        return replace(state, synced_version=max(state.synced_version, frame.version)), _NOTHING
    state = replace(state, version=max(state.version, frame.version))
    match frame:
        case ChatStart():
            return transcript.begin_stream(state, frame, now), _NOTHING
        case ChatChunk():
            state, is_short = transcript.grow_stream(state, frame, now)
            return state, Effect(is_short=is_short)
        case ChatDone() | ChatError() | ChatCancelled():
            return _end_stream(state, frame)
        case StatePatched():
            return _patch_document(state, frame)
        case TaskBadgeChanged():
            return state, _NOTHING  # taken above
        case _:
            return _take_content(state, frame), _NOTHING


def _end_stream(state: TaskState, frame: ChatDone | ChatError | ChatCancelled) -> tuple[TaskState, Effect]:
    is_past = frame.turn_id is not None and frame.turn_id in state.past_turns
    state = transcript.end_stream(state, frame.stream_id, frame.turn_id, frame.message_id)
    if isinstance(frame, ChatCancelled) and not is_past:
        state = replace(state, is_stopping=False)
    return state, Effect(has_ended_stream=True)


def _patch_document(state: TaskState, frame: StatePatched) -> tuple[TaskState, Effect]:
    """Apply a patch. One that cannot be applied is of another document than ours: what is there is asked for."""
    try:
        return replace(state, document=apply_patch(state.document, Patch(frame.ops))), _NOTHING
    except PatchError:
        return reconcile.count_anomaly(state), Effect(is_short=True)


def _take_content(
    state: TaskState,
    frame: ChatThought
    | ChatMessage
    | ChatReceipt
    | QueueChanged
    | AgentStatusChanged
    | ApprovalOpened
    | ApprovalDecided
    | ApprovalClosed,
) -> TaskState:
    match frame:
        case ChatThought():
            return state
        case ChatMessage(message=message):
            return transcript.take_messages(state, (message,))
        case ChatReceipt(prompt_id=prompt_id, stage=stage):
            return take_receipt(state, prompt_id, stage)
        case QueueChanged(queue=queue):
            return replace(state, queue=queue)
        case AgentStatusChanged(status=status):
            return replace(state, agent=status)
        case ApprovalOpened(approval=approval) | ApprovalDecided(approval=approval):
            return replace(state, approvals=(*_others(state, approval), approval))
        case ApprovalClosed(approval=approval):
            return replace(state, approvals=_others(state, approval))
        case unreachable:
            assert_never(unreachable)


def take_receipt(state: TaskState, prompt_id: PromptId, stage: DeliveryStage) -> TaskState:
    """A prompt got so far. A receipt never goes back; the oldest prompts are forgotten first."""
    known = next((one for one in state.receipts if one.prompt_id == prompt_id), None)
    if known is None:
        return replace(state, receipts=(*state.receipts, Receipt(prompt_id, stage))[-_MAX_RECEIPTS:])
    if not is_progress(known.stage, stage):
        return state
    moved = tuple(Receipt(prompt_id, stage) if one is known else one for one in state.receipts)
    return replace(state, receipts=moved)


def _others(state: TaskState, approval: Approval) -> tuple[Approval, ...]:
    return tuple(one for one in state.approvals if one.approval_id != approval.approval_id)
