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
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.conversation import Count, Ordinal
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, SessionIdField, StreamId, TurnId, WorkflowId
from interlock.vocabulary.states import Attention, TaskStatus, TurnState, WorkflowState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.patch import Op
from interlock.vocabulary.wire.worktree import TaskWorktree


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


class ToolKind(StrEnum):
    """What is drawn like a tool: something that was set to work and ends one way or another."""

    TOOL = "tool"
    SUBAGENT = "subagent"
    WORKFLOW = "workflow"
    STEP = "step"


class Message(Struct, frozen=True, kw_only=True):
    """One entry of a transcript. `stream_id`: the stream whose whole text this is, and whose place it takes.

    `label` says in words what a text is not: whole, confirmed or verified. A clean answer has none. `is_verified` is
    false for text that was read off a screen. `delivery`: `unknown` or `not_delivered`, of a prompt of which it is
    not certain that the agent received it. `error_kind`: of an end, or of a tool that failed.

    Of role `tool`: `kind` and `item_id` say what it is (a call id, a subagent id, a workflow id, or `workflow/step`),
    `name` what it is called, `text` what it was asked, on one line. `detail` is what came of it: output, error,
    summary, or the question of a call that waits; of a long one its beginning and its end, while `detail_length` counts
    the code points of the whole. `child_session_id` is the session of a child.
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
    label: str = ""
    delivery: DeliveryStage | None = None
    kind: ToolKind | None = None
    item_id: str = ""
    name: str = ""
    detail: str = ""
    detail_length: Count = 0
    child_session_id: SessionIdField | None = None
    error_kind: str = ""
    next_actions: tuple[NextAction, ...] = ()


class StreamPiece(Struct, frozen=True, kw_only=True):
    """A live stream: its text from `offset` on, up to `cursor`."""

    stream_id: StreamId
    turn_id: TurnId | None = None
    offset: Count = 0
    text: str = ""
    cursor: Count = 0
    started_at: Moment
    last_activity_at: Moment


class QueueItem(Struct, frozen=True, kw_only=True):
    """A prompt that waits."""

    prompt_id: PromptId
    text: str


class QueueView(Struct, frozen=True, kw_only=True):
    """What waits to be sent, in order. Behind a closed gate nothing leaves, for `gate_reason`. `waits_for`: what keeps
    the next prompt, or the one that is on its way, from an agent that is ready: a draft that a person left.
    `is_paused`: a person closed the gate; a gate that a limit or a failure closed is not paused."""

    waiting: tuple[QueueItem, ...] = ()
    is_open: bool = True
    gate_reason: str = ""
    waits_for: str = ""
    is_paused: bool = False


class TaskSnapshot(Struct, frozen=True, kw_only=True):
    """All that a client needs to stand where the server stands, at one version and one tick.

    `is_whole`: forget every message known before. `history_before`: older messages than these are to be had as pages,
    with this as their cursor. `approvals` are those that are open. `document` is the session's state document.
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
    badge: Badge | None = None
    document: Json = {}


class StateDocument(Struct, frozen=True, kw_only=True):
    """The state document of a session, folded from its log up to `version`: `{"__run": {...}}` once a run began."""

    task_id: SessionIdField
    version: Count
    turn_id: TurnId | None
    state: Json


class ActiveStream(Struct, frozen=True, kw_only=True):
    """A live stream, without its text."""

    stream_id: StreamId
    cursor: Count
    last_activity_at: Moment


class RuntimeCheck(Struct, frozen=True, kw_only=True):
    """Where a task stands, never with a body. It says what a join at the same moment would say. `tick`: the last frame
    that the room was told; 0 where the server does not say."""

    task_id: SessionIdField
    task_status: TaskStatus | None
    version: Count
    turn_id: TurnId | None
    status_updated_at: Moment | None
    active_stream: ActiveStream | None
    tick: Count = 0


class ChangeCounts(Struct, frozen=True, kw_only=True):
    """What the turns of a session changed so far, as the log counts it: files, each once, and lines, added and removed
    turn by turn. `unknown_turns`: how many turns have ended of which that is not known. Of a turn that changed more
    files than its record lists, those that are not listed count as other files."""

    files: Count = 0
    added: Count = 0
    removed: Count = 0
    unknown_turns: Count = 0


class ChildCounts(Struct, frozen=True, kw_only=True):
    """The children of a session: how many run, wait in its queue, and ended otherwise than completed or detached."""

    running: Count = 0
    waiting: Count = 0
    ended_badly: Count = 0


class WorkflowCounts(Struct, frozen=True, kw_only=True):
    """How a workflow stands: `ready` of its `total` steps are proven, `held` wait for a person's decision."""

    id: WorkflowId
    status: WorkflowState
    ready: Count
    total: Count
    held: Count


class TaskSummary(Struct, frozen=True, kw_only=True):
    """One line of a board. `question` is what it asks for, `called_with` the tool and the arguments that it asks for,
    cut where they are very long, `approval_id` that question's name, `asks` what it is about and
    `asked_at` since when it is open, `since` when what it shows began. `undelivered`:
    how many decisions on that question did not reach the agent, `question_problem` why the last one did not.
    `turn_state` is that of the turn, and finer than the status: half an answer is no other failure. `held`: why the
    prompts that wait are not sent; blank where they are, or none waits. `waits_for`: what keeps a prompt from an agent
    that is ready, such as a person's draft; the prompt goes on by itself. `ending`: why the turn did not complete or is
    not known, in words on one line; blank where it completed, or has not ended. `is_paused`: a person holds the prompts
    back, and no limit or failure does. `seen_turn_id`: the last turn whose end somebody has looked at. `folder` and
    `model` are those that the session was opened with; where the agent named its model, `model` is that. `cost_usd`:
    what its turns cost, as far as that was reported, and `max_cost_usd` the budget at which its queue is held, if it
    has one. `context_tokens`: how much the newest model call was given, as far as that was reported. `parent_id`: the
    session that this one is a child of, or a copy of where its `depth` is 0; `root_id`: the root of the tree that it is
    a child in, and `children` counts its own. `waits_below`: how many of those below it, at any depth, wait for a
    person; `workflow`: the one that it runs or began, the open one first, and null where it has none. `is_adopted`: a
    person started its agent, and what it did before is not known. `decided_by_rule`: how many of its questions rules
    answered. `worktree`: the git worktree that was made for it, if one was. `changes`: what its turns changed so far,
    null where no tree was recorded; `branch`: the branch of its folder when a tree was last recorded.

    `is_supervised` is false where no server runs the session: then its status is what the log can prove, and no more.
    `crashed_at`: when its process died and was to be started again, newest last, a few of them. `badge` is what a
    person is shown of all this; a server always sends it.
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
    called_with: str = ""
    approval_id: str = ""
    undelivered: Count = 0
    question_problem: str = ""
    asks: Attention = Attention.NONE
    asked_at: Moment | None = None
    open_approvals: Count = 0
    decided_by_rule: Count = 0
    queued: Count = 0
    held: str = ""
    waits_for: str = ""
    ending: str = ""
    is_paused: bool = False
    seen_turn_id: TurnId | None = None
    folder: str = ""
    branch: str = ""
    changes: ChangeCounts | None = None
    model: str = ""
    cost_usd: float | None = None
    max_cost_usd: float | None = None
    context_tokens: Count | None = None
    parent_id: SessionIdField | None = None
    is_adopted: bool = False
    root_id: SessionIdField | None = None
    depth: Count = 0
    children: ChildCounts = ChildCounts()
    waits_below: Count = 0
    workflow: WorkflowCounts | None = None
    worktree: TaskWorktree | None = None
    opened_at: Moment | None = None
    last_at: Moment | None = None
    crashed_at: tuple[Moment, ...] = ()
    badge: Badge | None = None


class Push(Struct, frozen=True, kw_only=True, tag_field="type"):
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


class StatePatched(Push, frozen=True, kw_only=True, tag="state:patched"):
    """The state document changed by these ops, in order; `source` made them. A client that missed one joins again."""

    ops: tuple[Op, ...]
    source: str


class TaskStatusChanged(Push, frozen=True, kw_only=True, tag="task:status"):
    """The status of the task, the turn that it is of (`turn_id`), and when the log says that it changed."""

    task_status: TaskStatus | None = None
    status_updated_at: Moment | None = None
    badge: Badge | None = None


class AgentStatusChanged(Push, frozen=True, kw_only=True, tag="agent:status"):
    """What the agent is seen to do, with the evidence."""

    status: Status
    badge: Badge | None = None


class TaskBadgeChanged(Push, frozen=True, kw_only=True, tag="task:badge"):
    """What a person is shown of the task changed, and neither its status nor that of its agent did."""

    badge: Badge


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
    | StatePatched
    | TaskStatusChanged
    | AgentStatusChanged
    | TaskBadgeChanged
    | ApprovalOpened
    | ApprovalDecided
    | ApprovalClosed
)
