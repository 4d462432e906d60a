"""What a reader of frames is told after a gap: the same that the lost frames would have led to, as frames.

Laws:
1. Whoever applies these frames to what was told before stands where the state stands. Nothing is told twice: of a
   message a copy with the same version, of a stream the text that was told.
2. What is not known is not invented. How a question was answered that closed meanwhile is `unknown`; a stream that is
   gone without a message broke off.
3. The status comes last, as the server tells it after what it is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypedDict

from msgspec import structs

from interlock.client.machine.state import LocalStream, TaskState
from interlock.client.machine.transcript import message_of
from interlock.projections.present.display import DisplayChannel, EndStream, StreamEnding, ending_of
from interlock.projections.task.live_frames import live_frames
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatChunk,
    ChatMessage,
    ChatReceipt,
    ChatStart,
    Message,
    QueueChanged,
    StatePatched,
    TaskBadgeChanged,
    TaskFrame,
    TaskStatusChanged,
)
from interlock.vocabulary.wire.patch import SetOp

UNKNOWN: Final = "unknown"
LOST: Final = "lost"


class _Head(TypedDict):
    task_id: SessionId
    version: int
    tick: int
    turn_id: TurnId | None


def _head(state: TaskState, turn_id: TurnId | None) -> _Head:
    return {
        "task_id": state.task_id,
        "version": state.room_version,
        "tick": max(1, state.tick or 0),
        "turn_id": turn_id,
    }


def frames_between(told: TaskState, now: TaskState, stream: LocalStream | None) -> tuple[TaskFrame, ...]:
    """What to tell somebody who was told everything up to `told`, and for whom `stream` is open. The status is not part
    of it: see `status_frame`."""
    return (
        *_messages(told, now),
        *_stream(stream, now),
        *_receipts(told, now),
        *_queue(told, now),
        *_approvals(told, now),
        *_document(told, now),
        *_agent(told, now),
    )


def status_frame(now: TaskState) -> TaskStatusChanged:
    """The status as a frame."""
    status = None if now.status is None else TaskStatus(now.status)
    at = now.status_updated_at
    return TaskStatusChanged(**_head(now, now.turn_id), task_status=status, status_updated_at=at, badge=now.badge)


def message_frame(now: TaskState, message: Message) -> ChatMessage:
    return ChatMessage(**_head(now, message.turn_id), message=message)


def _messages(told: TaskState, now: TaskState) -> Iterator[TaskFrame]:
    versions = {message.message_id: message.version for message in told.messages}
    for message in now.messages:
        if message.version > versions.get(message.message_id, 0):
            yield message_frame(now, message)


def _stream(told: LocalStream | None, now: TaskState) -> Iterator[TaskFrame]:
    live = now.stream
    if told is not None and (live is None or live.stream_id != told.stream_id):
        yield _ended(told, now)
        told = None
    if live is None:
        return
    head = _head(now, live.turn_id)
    if told is None:
        yield ChatStart(**head, stream_id=live.stream_id, started_at=live.started_at)
    known = "" if told is None else told.text
    offset = len(known) if live.text.startswith(known) else _common(known, live.text)
    if offset < max(len(known), len(live.text)):
        yield ChatChunk(**head, stream_id=live.stream_id, offset=offset, text=live.text[offset:], at=live.started_at)


def _common(one: str, other: str) -> int:
    """How many code points both begin with."""
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))


def _ended(told: LocalStream, now: TaskState) -> TaskFrame:
    """How a stream ended, by the presenter's own rule over the message that took its place."""
    message = message_of(now.messages, told.stream_id)
    end = EndStream(
        channel=DisplayChannel.PARTIAL,
        turn_id=told.turn_id,
        stream_id=told.stream_id,
        cursor=told.cursor if message is None else len(message.text),
        ending=StreamEnding.BROKEN_OFF if message is None else ending_of(message.status),
        message_seq=None if message is None else message.message_id,
        error_kind=LOST if message is None else message.error_kind,
        error_message="this client did not hear how it ended" if message is None else "",
    )
    (frame,) = live_frames(now.task_id, end)
    return structs.replace(frame, **_head(now, told.turn_id))


def _receipts(told: TaskState, now: TaskState) -> Iterator[TaskFrame]:
    known = {one.prompt_id: one.stage for one in told.receipts}
    for receipt in now.receipts:
        if known.get(receipt.prompt_id) != receipt.stage:
            yield ChatReceipt(**_head(now, None), prompt_id=receipt.prompt_id, stage=receipt.stage)


def _queue(told: TaskState, now: TaskState) -> Iterator[TaskFrame]:
    if told.queue != now.queue:
        yield QueueChanged(**_head(now, None), queue=now.queue)


def _approvals(told: TaskState, now: TaskState) -> Iterator[TaskFrame]:
    known = {one.approval_id: one for one in told.approvals}
    left = {one.approval_id for one in now.approvals}
    for one in told.approvals:
        if one.approval_id not in left:
            over = structs.replace(one, state=ApprovalState.CLOSED, outcome=one.outcome or UNKNOWN)
            yield ApprovalClosed(**_head(now, one.turn_id), approval=over)
    for one in now.approvals:
        if known.get(one.approval_id) != one:
            yield _asked(now, one)


def _asked(now: TaskState, approval: Approval) -> ApprovalOpened | ApprovalDecided:
    head = _head(now, approval.turn_id)
    if approval.state is ApprovalState.OPEN:
        return ApprovalOpened(**head, approval=approval)
    return ApprovalDecided(**head, approval=approval)


def _document(told: TaskState, now: TaskState) -> Iterator[TaskFrame]:
    """The whole document as one patch: by which steps it came about was not heard."""
    if told.document != now.document:
        yield StatePatched(**_head(now, now.turn_id), ops=(SetOp((), now.document),), source=LOST)


def _agent(told: TaskState, now: TaskState) -> Iterator[TaskFrame]:
    if now.agent is not None and told.agent != now.agent:
        yield AgentStatusChanged(**_head(now, now.turn_id), status=now.agent, badge=now.badge)
    elif now.badge is not None and now.badge != told.badge:
        yield TaskBadgeChanged(**_head(now, now.turn_id), badge=now.badge)
