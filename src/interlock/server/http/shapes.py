"""What is sent to and answered by the HTTP routes, beside the words of `vocabulary`. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from interlock.agents.port import Capabilities
from interlock.lifecycle.queue import PromptState
from interlock.lifecycle.turns import TurnRecord
from interlock.projections.spawns import SpawnRow
from interlock.projections.usage import Usage
from interlock.vocabulary.events.audit import DeliveryStage, ReplyContract
from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import ID_PATTERN, PromptId, SessionId, SessionIdField, TurnId
from interlock.vocabulary.states import DriverKind, TurnState
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import Message, QueueView, TaskSummary
from interlock.vocabulary.wire.requests import AccessRole

Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
PromptIdField: TypeAlias = Annotated[PromptId, Meta(pattern=ID_PATTERN)]


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a request carries."""


class OpenTask(_Body, frozen=True, kw_only=True):
    """A new task: which agent, run how. `policy` holds fields of the runtime's policy. With `prompt`, it is sent at
    once; `reply` is the form that its answer must have. Values of `environment` reach the agent and are written down
    nowhere."""

    agent: Word
    driver: Word
    argv: tuple[str, ...] = ()
    cwd: str = "."
    model: str = ""
    options: dict[str, Json] = {}
    environment: dict[str, str] = {}
    title: Annotated[str, Meta(max_length=500)] = ""
    policy: dict[str, bool | int | float | None] | None = None
    prompt: str | None = None
    reply: ReplyContract | None = None


class TaskOpened(Struct, frozen=True, kw_only=True):
    """`is_new` is false where the same key had opened it before."""

    task_id: SessionIdField
    is_new: bool
    prompt_id: PromptId | None = None


class SendPrompt(_Body, frozen=True, kw_only=True):
    """A prompt. Its id may be given here, or as the idempotency key. `reply`: the form that its answer must have; the
    agent is told so, and `why` says whether the answer has it."""

    text: str
    prompt_id: PromptIdField | None = None
    reply: ReplyContract | None = None


class EditPrompt(_Body, frozen=True, kw_only=True):
    """Other words for a prompt that waits."""

    text: str


class PromptStanding(Struct, frozen=True, kw_only=True):
    """Where a prompt stands, and how far it is known to have got."""

    prompt_id: PromptId
    state: PromptState
    stage: DeliveryStage


class PromptDetail(Struct, frozen=True, kw_only=True):
    """A prompt, how far it is known to have got, and what became of it.

    `position`: its place in the queue, 1 is next; null where it waits no more. `waits_for`: what keeps it from an agent
    that is ready. `turn_id` and `turn_state`: the turn that began with it, null before that.
    """

    prompt_id: PromptId
    text: str
    state: PromptState
    stage: DeliveryStage
    position: Count | None
    waits_for: str
    turn_id: TurnId | None
    turn_state: TurnState | None


class QueueGateChange(_Body, frozen=True, kw_only=True):
    """Whether prompts may leave the queue, and why not."""

    is_open: bool
    reason: Annotated[str, Meta(max_length=2000)] = ""


class QueueGateStanding(Struct, frozen=True, kw_only=True):
    """Whether prompts may leave the queue now."""

    is_open: bool


class CancelTurn(_Body, frozen=True, kw_only=True):
    """The turn that is meant; without it, the one that is open. `force`: end the agent's process if its turn does not
    end when it is asked to."""

    turn_id: TurnId | None = None
    force: bool = False


class Cancelled(Struct, frozen=True, kw_only=True):
    """`delivered`: the agent got the request, or needs none any more. How the turn ends is told by its status. Where it
    is false the turn goes on, and `problem` says what was tried.

    `killed`: the agent's process was ended, because the request had no effect and `force` was given.
    `removed`: prompts that were taken back, where no turn was open.
    """

    delivered: bool
    problem: str = ""
    turn_id: TurnId | None = None
    removed: tuple[PromptId, ...] = ()
    killed: bool = False


class Decide(_Body, frozen=True, kw_only=True):
    """An answer. The verdict is always named; an option, or a text, says more, and must not contradict it. `from_spawn`
    is the `INTERLOCK_SPAWN_ID` of the process that asks: an agent may not answer its own questions."""

    is_allowed: bool
    option: str = ""
    text: str = ""
    data: Json = None
    decision_id: Annotated[str, Meta(max_length=128)] = ""
    from_spawn: Annotated[str, Meta(max_length=128)] = ""


class ApprovalStanding(Struct, frozen=True, kw_only=True):
    """A question that was answered."""

    approval_id: str
    state: ApprovalState


class AgentStanding(Struct, frozen=True, kw_only=True):
    """Whether an agent runs for a task, or is only being started: that may still fail."""

    task_id: SessionIdField
    is_running: bool
    is_starting: bool


class TaskPage(Struct, frozen=True, kw_only=True):
    """Tasks in the order of their ids. `is_complete` is false while some of the log could not be read yet.

    `log_problem` is why the log takes nothing now: what agents do meanwhile is neither recorded nor shown.
    """

    items: tuple[TaskSummary, ...]
    next: str | None
    is_complete: bool
    log_problem: str = ""


class TaskDetail(Struct, frozen=True, kw_only=True):
    """A task, with what waits in it."""

    summary: TaskSummary
    turns: Count
    queue: QueueView
    approvals: tuple[Approval, ...]


class TurnPage(Struct, frozen=True, kw_only=True):
    """Turns, oldest first."""

    items: tuple[TurnRecord, ...]
    next: str | None


class MessagePage(Struct, frozen=True, kw_only=True):
    """Messages in their order, the newest page first: `next` leads to older ones."""

    items: tuple[Message, ...]
    next: str | None


class ApprovalPage(Struct, frozen=True, kw_only=True):
    """Questions, oldest first."""

    items: tuple[Approval, ...]
    next: str | None


class SpawnPage(Struct, frozen=True, kw_only=True):
    """Lives of agents, oldest first within a task."""

    items: tuple[SpawnRow, ...]
    next: str | None


class TurnUsage(Struct, frozen=True, kw_only=True):
    """What one turn used."""

    turn_id: TurnId
    usage: Usage


class TaskUsage(Struct, frozen=True, kw_only=True):
    """What a task used, in all and by its newest turns. What nobody reported is null, and not zero."""

    task_id: SessionIdField
    total: Usage
    turns: tuple[TurnUsage, ...]


class UsagePage(Struct, frozen=True, kw_only=True):
    """What tasks used, by their ids. `is_complete` is false while the server has not read all of its log."""

    items: tuple[TaskUsage, ...]
    next: str | None
    is_complete: bool


class AgentDriver(Struct, frozen=True, kw_only=True):
    """A way to run agents, and what it can do."""

    name: str
    kind: DriverKind
    capabilities: Capabilities


class AgentPage(Struct, frozen=True, kw_only=True):
    """Every driver, by name."""

    items: tuple[AgentDriver, ...]
    next: str | None = None


class Slot(Struct, frozen=True, kw_only=True):
    """A task that has a slot of the pool, or waits for one."""

    task_id: SessionId
    agent: str


class PoolState(Struct, frozen=True, kw_only=True):
    """How many agents may run at once (None: no limit), which do, and who is next."""

    total: int | None
    each: int | None
    per_agent: dict[str, int | None]
    in_use: tuple[Slot, ...]
    waiting: tuple[Slot, ...]


class Health(Struct, frozen=True, kw_only=True):
    """That the server lives, whether it is at the end of its log, and whether that log takes what happens now."""

    alive: bool
    ready: bool
    recording: bool
    version: str


class Limits(Struct, frozen=True, kw_only=True):
    """How much this server takes."""

    max_request_bytes: int
    max_rooms: int
    max_connections: int
    requests_per_second: float
    request_burst: int
    command_seconds: float
    heartbeat_seconds: float


class ServerInfo(Struct, frozen=True, kw_only=True):
    """Which server this is, and what the caller may do. `log_problem`: see `TaskPage`."""

    version: str
    protocol: int
    role: AccessRole
    limits: Limits
    log_problem: str = ""
