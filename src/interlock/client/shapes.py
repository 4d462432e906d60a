"""What a server answers by HTTP, beside the words of `vocabulary`. Unknown fields are a newer server's."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from interlock.lifecycle.queue import PromptState
from interlock.vocabulary.events.audit import DeliveryStage, ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import QueueView, TaskSummary
from interlock.vocabulary.wire.requests import AccessRole

ItemT = TypeVar("ItemT")


class Page(Struct, Generic[ItemT], frozen=True, kw_only=True):
    """Some of many. `next` leads to the next page; None: that was all."""

    items: tuple[ItemT, ...]
    next: str | None = None


class OpenTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new task: which agent, run how. `policy` holds fields of `RunPolicy`."""

    agent: str
    driver: str
    argv: tuple[str, ...] = ()
    cwd: str = "."
    model: str = ""
    options: dict[str, Json] = {}
    environment: dict[str, str] = {}
    title: str = ""
    policy: dict[str, bool | int | float | None] | None = None
    prompt: str | None = None
    reply: ReplyContract | None = None


class TaskOpened(Struct, frozen=True, kw_only=True):
    """A task that was opened; not now but before, if it is not new."""

    task_id: SessionId
    is_new: bool = True
    prompt_id: PromptId | None = None


class TaskDetail(Struct, frozen=True, kw_only=True):
    """A task: its line of the board, what waits, and what is asked."""

    summary: TaskSummary
    turns: int = 0
    queue: QueueView = QueueView()
    approvals: tuple[Approval, ...] = ()


class PromptStanding(Struct, frozen=True, kw_only=True):
    """Where a prompt stands, and how far it is known to have got."""

    prompt_id: PromptId
    state: PromptState
    stage: DeliveryStage


class Cancelled(Struct, frozen=True, kw_only=True):
    """`delivered`: the agent got the request to stop, which does not say that it stopped. `removed`: prompts that were
    taken back, where no turn was open. `killed`: the agent's process was ended, for the request had no effect."""

    delivered: bool
    problem: str = ""
    turn_id: TurnId | None = None
    removed: tuple[PromptId, ...] = ()
    killed: bool = False


class ApprovalStanding(Struct, frozen=True, kw_only=True):
    """A question that was answered."""

    approval_id: str
    state: ApprovalState


class AgentStanding(Struct, frozen=True, kw_only=True):
    """Whether an agent runs for a task, or is only being started: that may still fail."""

    task_id: SessionId
    is_running: bool
    is_starting: bool = False


class ServerInfo(Struct, frozen=True, kw_only=True):
    """Which server this is, and what we may do there. `log_problem`: why it records nothing now, if so."""

    version: str
    protocol: int
    role: AccessRole
    log_problem: str = ""
