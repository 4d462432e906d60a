"""Short ways to write what a server says of one task: checks, snapshots and frames. For scenarios and tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from interlock.client.machine.inputs import CheckReason, CheckRequested, FrameArrived, Opened
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, StreamId, TurnId
from interlock.vocabulary.states import Attention, TaskStatus
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import (
    ActiveStream,
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatMessage,
    ChatStart,
    Message,
    MessageStatus,
    QueueItem,
    QueueView,
    Role,
    RuntimeCheck,
    StreamPiece,
    TaskFrame,
    TaskSnapshot,
    TaskStatusChanged,
)
from tests.task_scenarios.vectors import TASK, Script

AT: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
"""The server's clock stands still here: nothing may depend on it."""

A: Final = TurnId("turn_a")
B: Final = TurnId("turn_b")

# What a script expects to be asked of the server, by its reason.
SELECTED: Final = "pull task-selected"
PROBE: Final = "pull runtime-instability-probe"
RECONNECT: Final = "pull websocket-reconnect"
BLOCKED: Final = "pull queued-message-blocked"
MANUAL: Final = "pull manual-refresh"
REFRESH: Final = CheckRequested(CheckReason.MANUAL_REFRESH)


def check(
    status: str | None, version: int, turn: TurnId | None = A, stream: str | None = None, cursor: int = 0
) -> RuntimeCheck:
    """Where the task stands; with a stream, how far that is."""
    active = None if stream is None else ActiveStream(stream_id=StreamId(stream), cursor=cursor, last_activity_at=AT)
    return RuntimeCheck(
        task_id=TASK,
        task_status=None if status is None else TaskStatus(status),
        version=version,
        turn_id=turn,
        status_updated_at=AT,
        active_stream=active,
    )


def snapshot(
    status: str | None,
    version: int,
    tick: int,
    turn: TurnId | None = A,
    *,
    messages: tuple[Message, ...] = (),
    stream: StreamPiece | None = None,
    is_whole: bool = True,
    approvals: tuple[Approval, ...] = (),
    queue: tuple[str, ...] = (),
    history_before: int | None = None,
) -> TaskSnapshot:
    """What a join gives."""
    return TaskSnapshot(
        task_id=TASK,
        task_status=None if status is None else TaskStatus(status),
        version=version,
        tick=tick,
        turn_id=turn,
        status_updated_at=AT,
        is_whole=is_whole,
        messages=messages,
        history_before=history_before,
        stream=stream,
        approvals=approvals,
        queue=waiting(*queue),
    )


def piece(stream: str, text: str, offset: int = 0, turn: TurnId | None = A) -> StreamPiece:
    """A live stream, from `offset` on."""
    return StreamPiece(
        stream_id=StreamId(stream),
        turn_id=turn,
        offset=offset,
        text=text,
        cursor=offset + len(text),
        started_at=AT,
        last_activity_at=AT,
    )


def said(
    message_id: int,
    text: str,
    status: MessageStatus = MessageStatus.COMPLETED,
    *,
    version: int | None = None,
    stream: str | None = None,
    turn: TurnId | None = A,
    role: Role = Role.ANSWER,
) -> Message:
    """A message of the transcript."""
    return Message(
        message_id=message_id,
        version=message_id if version is None else version,
        role=role,
        status=status,
        text=text,
        at=AT,
        turn_id=turn,
        stream_id=None if stream is None else StreamId(stream),
    )


def asked(message_id: int, text: str, turn: TurnId | None = A) -> Message:
    """The prompt of a turn."""
    return said(message_id, text, turn=turn, role=Role.USER)


def start(tick: int, version: int, stream: str, turn: TurnId | None = A) -> ChatStart:
    return ChatStart(task_id=TASK, tick=tick, version=version, turn_id=turn, stream_id=StreamId(stream), started_at=AT)


def chunk(tick: int, version: int, stream: str, offset: int, text: str, turn: TurnId | None = A) -> ChatChunk:
    return ChatChunk(
        task_id=TASK,
        tick=tick,
        version=version,
        turn_id=turn,
        stream_id=StreamId(stream),
        offset=offset,
        text=text,
        at=AT,
    )


def done(tick: int, version: int, stream: str, turn: TurnId | None = A) -> ChatDone:
    return ChatDone(task_id=TASK, tick=tick, version=version, turn_id=turn, stream_id=StreamId(stream), cursor=0)


def broke(tick: int, version: int, stream: str, turn: TurnId | None = A) -> ChatError:
    return ChatError(task_id=TASK, tick=tick, version=version, turn_id=turn, stream_id=StreamId(stream), cursor=0)


def cancelled(tick: int, version: int, stream: str, turn: TurnId | None = A) -> ChatCancelled:
    return ChatCancelled(task_id=TASK, tick=tick, version=version, turn_id=turn, stream_id=StreamId(stream), cursor=0)


def told(tick: int, version: int, message: Message, turn: TurnId | None = A) -> ChatMessage:
    return ChatMessage(task_id=TASK, tick=tick, version=version, turn_id=turn, message=message)


def status(tick: int, version: int, word: str | None, turn: TurnId | None = A) -> TaskStatusChanged:
    return TaskStatusChanged(
        task_id=TASK,
        tick=tick,
        version=version,
        turn_id=turn,
        task_status=None if word is None else TaskStatus(word),
        status_updated_at=AT,
    )


def question(approval_id: str, state: ApprovalState = ApprovalState.OPEN, turn: TurnId | None = A) -> Approval:
    """Something that the agent asks. Its arguments are JSON, as they are in life."""
    return Approval(
        approval_id=approval_id,
        session_id=TASK,
        turn_id=turn,
        state=state,
        attention=Attention.APPROVAL,
        question="may I?",
        arguments={"path": ["a", "b"]},
        asked_at=AT,
    )


def waiting(*prompts: str) -> QueueView:
    return QueueView(waiting=tuple(QueueItem(prompt_id=PromptId(one), text=one) for one in prompts))


def frame(script: Script, at: float, one: TaskFrame, *outputs: str, **expected: Json) -> None:
    """A frame arrives."""
    script.do(at, FrameArrived(one), *outputs, **expected)


def in_room(script: Script, status: str | None = "RUNNING", stream: StreamPiece | None = None) -> None:
    """Up to here: opened, checked at version 5 and joined at tick 10."""
    script.do(0, Opened(), "pull task-selected")
    live = None if stream is None else stream.stream_id
    cursor = 0 if stream is None else stream.cursor
    script.answer(0, check(status, 5, A, live, cursor), "join")
    script.ack(0, snapshot(status, 5, 10, stream=stream, messages=(asked(2, "go"),)), sync="joined", tick=10)
