"""What is sent to and answered by the HTTP routes, beside the words of `vocabulary`. Unknown fields are refused."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from interlock.agents.port import Capabilities
from interlock.lifecycle.turns import TurnRecord
from interlock.projections.spawns import SpawnRow
from interlock.projections.usage import Usage
from interlock.vocabulary.events.audit import DeliveryStage, ReplyContract
from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import ID_PATTERN, PromptId, SessionId, SessionIdField, TurnId
from interlock.vocabulary.states import DriverKind, PromptState, TurnState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Message, TaskSummary
from interlock.vocabulary.wire.workspace import TurnChanges

PromptIdField: TypeAlias = Annotated[PromptId, Meta(pattern=ID_PATTERN)]


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a request carries."""


class AdoptAgent(_Body, frozen=True, kw_only=True):
    """An agent that somebody else started in a tmux of theirs. `socket` is the path of the tmux socket, `pane` an id as
    `%3`. Without `control` it is only watched. `cli` says which CLI it is, where its program's name does not. Instead
    of a pane, `process` is the number of one that runs outside tmux, which is always only watched."""

    socket: str = ""
    pane: str = ""
    process: Annotated[int, Meta(ge=0)] = 0
    control: bool = False
    cli: str = ""
    title: Annotated[str, Meta(max_length=500)] = ""


class SendPrompt(_Body, frozen=True, kw_only=True):
    """A prompt. Its id may be given here, or as the idempotency key. `reply`: the form that its answer must have; the
    agent is told so, and `why` says whether the answer has it."""

    text: str
    prompt_id: PromptIdField | None = None
    reply: ReplyContract | None = None


class EditPrompt(_Body, frozen=True, kw_only=True):
    """Other words for a prompt that waits."""

    text: str


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


class MarkSeen(_Body, frozen=True, kw_only=True):
    """The turn that was looked at; without it, the newest."""

    turn_id: TurnId | None = None


class RenameTask(_Body, frozen=True, kw_only=True):
    """The new title."""

    title: Annotated[str, Meta(min_length=1, max_length=500)]


class CancelTurn(_Body, frozen=True, kw_only=True):
    """The turn that is meant; without it, the one that is open. `force`: end the agent's process if its turn does not
    end when it is asked to."""

    turn_id: TurnId | None = None
    force: bool = False


class Decide(_Body, frozen=True, kw_only=True):
    """An answer. The verdict is always named; an option, or a text, says more, and must not contradict it. `from_spawn`
    is the `INTERLOCK_SPAWN_ID` of the process that asks: an agent may not answer its own questions."""

    is_allowed: bool
    option: str = ""
    text: str = ""
    data: Json = None
    decision_id: Annotated[str, Meta(max_length=128)] = ""
    from_spawn: Annotated[str, Meta(max_length=128)] = ""


class ResumeResult(StrEnum):
    """Whether an agent that was started again went on with its conversation."""

    RUNNING = "running"
    RESUMED = "resumed"
    STARTED_ANEW = "started_anew"
    UNKNOWN = "unknown"


class AgentResumed(Struct, frozen=True, kw_only=True):
    """What came of starting an agent again. `resumed` rests on the CLI's own session id: it is the one from before."""

    task_id: SessionIdField
    result: ResumeResult
    native_session_id: str
    evidence: str


class TurnChangesPage(Struct, frozen=True, kw_only=True):
    """Turns with how much each of them changed."""

    items: tuple[TurnChanges, ...]
    next: str | None


class TaskPage(Struct, frozen=True, kw_only=True):
    """Tasks in the order of their ids. `is_complete` is false while some of the log could not be read yet.

    `log_problem` is why the log takes nothing now: what agents do meanwhile is neither recorded nor shown.
    """

    items: tuple[TaskSummary, ...]
    next: str | None
    is_complete: bool
    log_problem: str = ""


class TurnPage(Struct, frozen=True, kw_only=True):
    """Turns, oldest first. `is_damaged`: the log of the task has a damaged part; `interlock debug turns` names it."""

    items: tuple[TurnRecord, ...]
    next: str | None
    is_damaged: bool


class MessagePage(Struct, frozen=True, kw_only=True):
    """Messages in their order, the newest page first: `next` leads to older ones."""

    items: tuple[Message, ...]
    next: str | None


class ToolOutput(Struct, frozen=True, kw_only=True):
    """A piece of what a tool gave, from code point `offset` on, of `length` in all, and the whole `arguments` that it
    was called with: null where they are not known."""

    message_id: Count
    call_id: str
    arguments: Json
    offset: Count
    text: str
    length: Count


class ApprovalPage(Struct, frozen=True, kw_only=True):
    """Questions, oldest first."""

    items: tuple[Approval, ...]
    next: str | None


class SpawnPage(Struct, frozen=True, kw_only=True):
    """Lives of agents, oldest first within a task."""

    items: tuple[SpawnRow, ...]
    next: str | None


class ExplainedTurn(Struct, frozen=True, kw_only=True):
    """What `interlock why` prints of the last turn of a task. `state` is null where it has no turn; `is_damaged`: the
    log of the task has a damaged part, which `interlock why` names."""

    state: TurnState | None
    lines: tuple[str, ...]
    is_damaged: bool


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


class ConfiguredAgent(Struct, frozen=True, kw_only=True):
    """An agent of the server's configuration: `POST /api/tasks` with its name, and a blank driver, opens a task for it.
    `driver` is the one that is then taken, `drivers` are all that can run it. `is_installed`: its program is there."""

    name: str
    driver: str
    drivers: tuple[str, ...]
    model: str
    is_installed: bool


class AgentPage(Struct, frozen=True, kw_only=True):
    """Every driver, and every agent that the server is configured to run, by name."""

    items: tuple[AgentDriver, ...]
    configured: tuple[ConfiguredAgent, ...]
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
