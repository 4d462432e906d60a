"""What a client asks of a server by its socket, and what it is answered. Each request has an `id` and gets one answer.

A connection begins with `hello`. Every command may be repeated: it names what it is about (`prompt_id`, `turn_id`,
`decision_id`), so that twice is once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, SessionIdField, StreamId, TurnId
from interlock.vocabulary.wire.frames import TaskFrame, TaskSnapshot, TaskSummary

PROTOCOL: Final = 1

RequestId = Annotated[str, Meta(min_length=1, max_length=64)]


class AccessRole(StrEnum):
    """What a token may do: look, or look and act."""

    OBSERVER = "observer"
    OPERATOR = "operator"


class Problem(Struct, frozen=True, kw_only=True):
    """What went wrong, in the form of RFC 9457, with what to do next. `code` is one word for programs."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str = ""
    instance: str = ""
    remedy: str = ""
    next_actions: tuple[NextAction, ...] = ()
    retry_after_seconds: float | None = None


class _Request(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", forbid_unknown_fields=True):
    id: RequestId


class TaskJoin(_Request, frozen=True, kw_only=True, tag="task:join"):
    """Enter the room of a task, and be told where it stands. With `after_version`, only messages that changed after it:
    name the version of a snapshot that was read. After frames, use `task:resume`."""

    task_id: SessionIdField
    after_version: Count | None = None


class TaskResume(_Request, frozen=True, kw_only=True, tag="task:resume"):
    """As a join, with nothing that is known already. `version`: the highest of any frame or snapshot of this task.
    Messages of that version come again, since one version may have several frames, and the connection may have ended
    between them; older messages that did not change are left out. Of the stream `stream_id` no text before `cursor`."""

    task_id: SessionIdField
    version: Count
    stream_id: StreamId | None = None
    cursor: Count = 0


class TaskLeave(_Request, frozen=True, kw_only=True, tag="task:leave"):
    """Leave the room."""

    task_id: SessionIdField


class TaskSeen(_Request, frozen=True, kw_only=True, tag="task:seen"):
    """Somebody looked at how a turn ended: on every board it is seen from now on. `turn_id`: the turn that was looked
    at; without it, the newest. A turn that is open, or is not the newest any more, is not marked."""

    task_id: SessionIdField
    turn_id: TurnId | None = None


class BoardJoin(_Request, frozen=True, kw_only=True, tag="board:join"):
    """Be told of every task, a line each, and of each line that changes."""


class BoardLeave(_Request, frozen=True, kw_only=True, tag="board:leave"):
    """No more lines."""


class ChatSend(_Request, frozen=True, kw_only=True, tag="chat:send"):
    """Queue a prompt, durably. The same `prompt_id` with the same words is the same prompt. `reply`: the form that its
    answer must have; the agent is told so, and `why` says whether the answer has it."""

    task_id: SessionIdField
    text: str
    prompt_id: PromptId | None = None
    reply: ReplyContract | None = None


class ChatCancel(_Request, frozen=True, kw_only=True, tag="chat:cancel"):
    """End the open turn; with none open, take back what waits. Answered when the agent got the request to stop.
    `force`: end the agent's process if its turn does not end when it is asked to; answered when the turn is over."""

    task_id: SessionIdField
    turn_id: TurnId | None = None
    force: bool = False


class QueueEdit(_Request, frozen=True, kw_only=True, tag="queue:edit"):
    """Edit a queued prompt."""

    task_id: SessionIdField
    prompt_id: PromptId
    text: str


class QueueRemove(_Request, frozen=True, kw_only=True, tag="queue:remove"):
    """Remove a queued prompt."""

    task_id: SessionIdField
    prompt_id: PromptId


class QueueSetGate(_Request, frozen=True, kw_only=True, tag="queue:gate"):
    """Hold back what waits, or let it go."""

    task_id: SessionIdField
    is_open: bool
    reason: str = ""


class ApprovalDecide(_Request, frozen=True, kw_only=True, tag="approval:decide"):
    """Answer a question. The verdict is always named; an option, or a text, says more, and must not contradict it.
    `from_spawn` is the `INTERLOCK_SPAWN_ID` of the process that asks: an agent may not answer its own questions."""

    task_id: SessionIdField
    approval_id: str
    is_allowed: bool
    option: str = ""
    text: str = ""
    data: Json = None
    decision_id: str = ""
    from_spawn: str = ""


class Ping(_Request, frozen=True, kw_only=True, tag="ping"):
    """Are you there? For a client that wants an answer; a pong tells the server that the client is."""


Request: TypeAlias = (
    TaskJoin
    | TaskResume
    | TaskLeave
    | TaskSeen
    | BoardJoin
    | BoardLeave
    | ChatSend
    | ChatCancel
    | QueueEdit
    | QueueRemove
    | QueueSetGate
    | ApprovalDecide
    | Ping
)


class Hello(Struct, frozen=True, kw_only=True, tag_field="type", tag="hello"):
    """The first frame of a connection. A client that hears nothing for three heartbeats takes it for dead. `at`: the
    server's clock. `build`: of the page that the server has; where it is another than before, a newer page is there."""

    protocol: int
    server: str
    role: AccessRole
    heartbeat_seconds: float
    max_frame_bytes: int
    build: str = ""
    at: Moment | None = None


class Ack(Struct, frozen=True, kw_only=True, tag_field="type", tag="ack"):
    """A request was done. `result` is what it gave: the prompt's id of a send, how a cancel was delivered."""

    id: RequestId
    result: Json = None


class Refused(Struct, frozen=True, kw_only=True, tag_field="type", tag="refused"):
    """A request was not done, and why. `id` is blank where it could not even be read."""

    id: str
    problem: Problem


class TaskJoined(Struct, frozen=True, kw_only=True, tag_field="type", tag="task:joined"):
    """The answer to a join or a resume."""

    id: RequestId
    snapshot: TaskSnapshot


class BoardJoined(Struct, frozen=True, kw_only=True, tag_field="type", tag="board:joined"):
    """The answer to `board:join`: every task, as of `tick` of the board."""

    id: RequestId
    tick: Count
    tasks: tuple[TaskSummary, ...]


class BoardTask(Struct, frozen=True, kw_only=True, tag_field="type", tag="board:task"):
    """A line of the board is new, or changed. `tick` counts these as a room's frames are counted."""

    tick: Count
    task: TaskSummary


class TaskBehind(Struct, frozen=True, kw_only=True, tag_field="type", tag="task:behind"):
    """This client was too slow for a room, and frames up to `tick` were not sent to it: it resumes from what it has."""

    task_id: SessionIdField
    version: Count
    tick: Count


class BoardBehind(Struct, frozen=True, kw_only=True, tag_field="type", tag="board:behind"):
    """This client was too slow for the board: it joins it again."""

    tick: Count


class ServerClosing(Struct, frozen=True, kw_only=True, tag_field="type", tag="server:closing"):
    """The server goes away. What it had accepted is kept; come back after `retry_after_seconds`, and some chance."""

    reason: str
    retry_after_seconds: float


ServerFrame: TypeAlias = (
    Hello | Ack | Refused | TaskJoined | BoardJoined | BoardTask | BoardBehind | TaskBehind | ServerClosing | TaskFrame
)
