"""What a server tells its clients of a task: frames that are pushed to its room, and the snapshot that a join gives.

Laws:
1. Every frame of a room bears a `tick`, which counts that room's frames without a gap while the server lives. The next
   tick is applied, an older one is a double, a later one shows that something was lost. A snapshot bears the tick up
   to which it holds everything.
2. Every frame, snapshot and check bears `version`: the log's, when it was made. Versions order what ticks cannot:
   checks, snapshots of different connections, and what was said before a restart.
3. Only `task:status` changes the status of a task. The end of a stream is the end of a stream.
4. Offsets and cursors count Unicode code points.
5. A message is known by `message_id`, the `seq` of the event that it comes from; of two copies the one with the higher
   `version` holds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.approval import Approval
from interlock.vocabulary.audit import DeliveryStage
from interlock.vocabulary.conversation import Count, Ordinal
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, SessionIdField, StreamId, TurnId
from interlock.vocabulary.presenter import Status
from interlock.vocabulary.states import TaskStatus, TurnState


class Role(StrEnum):
    """What a message is. `end`: how a turn ended that left no clean answer. `commentary`: text that is no answer."""

    USER = "user"
    ANSWER = "answer"
    COMMENTARY = "commentary"
    TOOL = "tool"
    END = "end"


class MessageStatus(StrEnum):
    """How far to trust a message. A server says neither `streaming` nor `interrupted`: the first is text that still
    grows, the second is live text that broke off, of which no message has come yet.

    `partial`: kept of a turn that failed. `cancelled`: of one that a person ended. `waiting`, `running`: of tools.
    """

    STREAMING = "streaming"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    RUNNING = "running"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a transcript. `stream_id`: the stream whose whole text this is, and whose place it takes.

    `is_verified` is false for text that was read off a screen. `name` is of a tool, `error_kind` of an end.
    """

    message_id: Ordinal
    version: Ordinal
    role: Role
    status: MessageStatus
    text: str = ""
    at: Moment
    turn_id: TurnId | None = None
    prompt_id: PromptId | None = None
    stream_id: StreamId | None = None
    is_verified: bool = True
    name: str = ""
    error_kind: str = ""
    next_actions: tuple[NextAction, ...] = ()


class StreamPiece(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A live stream: its text from `offset` on, up to `cursor`."""

    stream_id: StreamId
    turn_id: TurnId | None = None
    offset: Count = 0
    text: str = ""
    cursor: Count = 0
    started_at: Moment
    last_activity_at: Moment


class QueueItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that waits."""

    prompt_id: PromptId
    text: str


class QueueView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What waits to be sent, in order. Behind a closed gate nothing leaves, for `gate_reason`."""

    waiting: tuple[QueueItem, ...] = ()
    is_open: bool = True
    gate_reason: str = ""


class TaskSnapshot(Struct, frozen=True, kw_only=True):
    """All that a client needs to stand where the server stands, at one version and one tick.

    `is_whole`: forget every message known before. `history_before`: older messages than these are to be had as pages,
    with this as their cursor. `approvals` are those that are open.
    """

    task_id: SessionIdField
    task_status: TaskStatus | None
    version: Count
    tick: Count
    turn_id: TurnId | None
    status_updated_at: Moment | None
    is_whole: bool = True
    messages: tuple[Message, ...] = ()
    history_before: Ordinal | None = None
    stream: StreamPiece | None = None
    approvals: tuple[Approval, ...] = ()
    queue: QueueView = QueueView()
    agent: Status | None = None


class ActiveStream(Struct, frozen=True, kw_only=True):
    """A live stream, without its text."""

    stream_id: StreamId
    cursor: Count
    last_activity_at: Moment


class RuntimeCheck(Struct, frozen=True, kw_only=True):
    """Where a task stands, never with a body. It says what a join at the same moment would say."""

    task_id: SessionIdField
    task_status: TaskStatus | None
    version: Count
    turn_id: TurnId | None
    status_updated_at: Moment | None
    active_stream: ActiveStream | None


class TaskSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a board. `question` is what it asks for, `approval_id` that question's name, `since` when what
    it shows began. `turn_state` is that of the turn, and finer than the status: half an answer is no other failure.
    `held`: why the prompts that wait are not sent; blank where they are, or none waits.

    `is_supervised` is false where nobody runs the session: then its status is what the log can prove, and no more.
    """

    task_id: SessionIdField
    version: Count
    task_status: TaskStatus | None = None
    turn_id: TurnId | None = None
    turn_state: TurnState | None = None
    status_updated_at: Moment | None = None
    agent: str = ""
    driver: str = ""
    title: str = ""
    is_supervised: bool = True
    live: Status | None = None
    since: Moment | None = None
    question: str = ""
    approval_id: str = ""
    open_approvals: Count = 0
    queued: Count = 0
    held: str = ""
    opened_at: Moment | None = None
    last_at: Moment | None = None


class Push(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of every frame of a room."""

    task_id: SessionIdField
    version: Count
    tick: Ordinal
    turn_id: TurnId | None = None


class ChatStart(Push, frozen=True, kw_only=True, tag="chat:start"):
    """A stream begins, empty. It takes the place of one that is open."""

    stream_id: StreamId
    started_at: Moment


class ChatChunk(Push, frozen=True, kw_only=True, tag="chat:chunk"):
    """More of a stream's text."""

    stream_id: StreamId
    offset: Count
    text: str
    at: Moment


class ChatThought(Push, frozen=True, kw_only=True, tag="chat:thought"):
    """More of what the agent thinks. It is shown live and kept nowhere."""

    stream_id: StreamId
    offset: Count
    text: str


class ChatDone(Push, frozen=True, kw_only=True, tag="chat:done"):
    """A stream ended whole: `message_id` holds its text."""

    stream_id: StreamId
    cursor: Count
    message_id: Ordinal | None = None


class ChatError(Push, frozen=True, kw_only=True, tag="chat:error"):
    """A stream broke off. `message_id` holds what was kept of it, if anything was."""

    stream_id: StreamId
    cursor: Count
    message_id: Ordinal | None = None
    error_kind: str = ""
    error_message: str = ""


class ChatCancelled(Push, frozen=True, kw_only=True, tag="chat:cancelled"):
    """A stream was ended by somebody."""

    stream_id: StreamId
    cursor: Count
    message_id: Ordinal | None = None


class ChatMessage(Push, frozen=True, kw_only=True, tag="chat:message"):
    """A message is new, or changed."""

    message: Message


class ChatReceipt(Push, frozen=True, kw_only=True, tag="chat:receipt"):
    """A prompt got this far."""

    prompt_id: PromptId
    stage: DeliveryStage


class QueueChanged(Push, frozen=True, kw_only=True, tag="queue:changed"):
    """The queue, whole."""

    queue: QueueView


class TaskStatusChanged(Push, frozen=True, kw_only=True, tag="task:status"):
    """The status of the task, the turn that it is of (`turn_id`), and when the log says that it changed."""

    task_status: TaskStatus | None = None
    status_updated_at: Moment | None = None


class AgentStatusChanged(Push, frozen=True, kw_only=True, tag="agent:status"):
    """What the agent is seen to do, with the evidence."""

    status: Status


class ApprovalOpened(Push, frozen=True, kw_only=True, tag="approval:opened"):
    """Somebody is asked."""

    approval: Approval


class ApprovalDecided(Push, frozen=True, kw_only=True, tag="approval:decided"):
    """Somebody answered; the agent has yet to go on."""

    approval: Approval


class ApprovalClosed(Push, frozen=True, kw_only=True, tag="approval:closed"):
    """The question is over."""

    approval: Approval


TaskFrame: TypeAlias = (
    ChatStart
    | ChatChunk
    | ChatThought
    | ChatDone
    | ChatError
    | ChatCancelled
    | ChatMessage
    | ChatReceipt
    | QueueChanged
    | TaskStatusChanged
    | AgentStatusChanged
    | ApprovalOpened
    | ApprovalDecided
    | ApprovalClosed
)
