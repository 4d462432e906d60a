"""What HTTP routes take and answer, for both sides. A server sends every field; a client ignores those that it does not
know, for they are a newer server's."""

from __future__ import annotations

from typing import Annotated, Generic, TypeAlias, TypeVar

from msgspec import Meta, Struct

from interlock.vocabulary.events.audit import DeliveryStage, ReplyContract
from interlock.vocabulary.events.conversation import Count, Ordinal
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, SessionId, SessionIdField, TurnId
from interlock.vocabulary.states import PromptState, SubagentState
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import QueueView, Role, TaskSummary
from interlock.vocabulary.wire.requests import AccessRole
from interlock.vocabulary.wire.worktree import TaskWorktree

ItemT = TypeVar("ItemT")
Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Page(Struct, Generic[ItemT], frozen=True, kw_only=True):
    """Some of many. `next` leads to the next page; None: that was all."""

    items: tuple[ItemT, ...]
    next: str | None = None


class AskedWorktree(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A git worktree of its own for a task, with a branch `interlock/NAME`, from the commit `base` (blank: the one that
    is checked out in the task's `cwd`). `copy`: files to copy that git ignores, by their paths in the repository;
    `disposable`: what git ignores and is no loss when the worktree is removed, by name anywhere or, with a slash, by
    path; `setup`: a command to run in it before the agent works there, for `setup_seconds` at most."""

    name: Annotated[str, Meta(max_length=80)] = ""
    base: Annotated[str, Meta(max_length=500)] = ""
    copy: tuple[str, ...] = ()
    disposable: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    setup_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 600.0


class OpenTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A new task: which agent, run how. With a blank `driver`, as the server is configured to run an agent of that
    name: then its program, options and variables are not given, and `cwd` is a whole path. `policy` holds fields of the
    runtime's policy. With `prompt`, it is sent at once; `reply` is the form that its answer must have. Values of
    `environment` reach the agent and are written down nowhere."""

    agent: Word
    driver: Annotated[str, Meta(max_length=200)] = ""
    argv: tuple[str, ...] = ()
    cwd: str = "."
    model: str = ""
    options: dict[str, Json] = {}
    environment: dict[str, str] = {}
    title: Annotated[str, Meta(max_length=500)] = ""
    policy: dict[str, bool | int | float | None] | None = None
    prompt: str | None = None
    reply: ReplyContract | None = None
    worktree: AskedWorktree | None = None


class TaskOpened(Struct, frozen=True, kw_only=True):
    """`is_new` is false where the same key had opened it before. `notes`: what a person should know of the worktree
    that was made for it."""

    task_id: SessionIdField
    is_new: bool
    prompt_id: PromptId | None = None
    worktree: TaskWorktree | None = None
    notes: tuple[str, ...] = ()


class RemoveWorktree(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Remove the worktree of a task. Without `force` only if nothing is lost with it; with it, what would be lost is
    kept aside first. `keep_branch`: its branch stays. `dry_run`: only say whether it would go."""

    keep_branch: bool = False
    force: bool = False
    dry_run: bool = False


class WorktreeStanding(Struct, frozen=True, kw_only=True):
    """The worktree of a task after a command about it. `kept`: refs and folders where something was kept."""

    task_id: SessionIdField
    worktree: TaskWorktree
    kept: tuple[str, ...] = ()


class MergeWorktree(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Take the work of a task's worktree into the branch that it began from, or into another one (`into`): by moving
    that forward, or as one commit (`squash`). `branch`: keep it as a new branch of that name instead. `commit`: first
    commit what is not committed. `message` is that of a commit that is made."""

    squash: bool = False
    into: Annotated[str, Meta(max_length=500)] = ""
    branch: Annotated[str, Meta(max_length=500)] = ""
    commit: bool = False
    message: Annotated[str, Meta(max_length=10_000)] = ""


class MergeStanding(Struct, frozen=True, kw_only=True):
    """What became of a merge. `target` moved from `before` to `after`, and was checked out in `checkout`, if anywhere;
    the same commit twice: it had it all already. With `conflicts` nothing was changed."""

    task_id: SessionIdField
    target: str
    before: str = ""
    after: str = ""
    checkout: str = ""
    conflicts: tuple[str, ...] = ()


class PromptStanding(Struct, frozen=True, kw_only=True):
    """Where a prompt stands, and how far it is known to have got."""

    prompt_id: PromptId
    state: PromptState
    stage: DeliveryStage


class SeenStanding(Struct, frozen=True, kw_only=True):
    """Whether somebody has looked at how the newest turn ended. True also where no turn has ended."""

    task_id: SessionIdField
    turn_id: TurnId | None
    is_seen: bool


class TaskTitle(Struct, frozen=True, kw_only=True):
    """What the task is called now."""

    task_id: SessionIdField
    title: str


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


class ApprovalStanding(Struct, frozen=True, kw_only=True):
    """A question that was answered."""

    approval_id: str
    state: ApprovalState


class AgentStanding(Struct, frozen=True, kw_only=True):
    """Whether an agent runs for a task, or is only being started: that may still fail."""

    task_id: SessionIdField
    is_running: bool
    is_starting: bool


class TaskDetail(Struct, frozen=True, kw_only=True):
    """A task, with what waits in it."""

    summary: TaskSummary
    turns: Count
    queue: QueueView
    approvals: tuple[Approval, ...]


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


class OpenChild(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A child of a task: the `task` to open for it, whose prompt is what it is to do, and for how long it may run.
    `model_visible`: the parent's model sees how it ended."""

    task: OpenTask
    timeout_seconds: Annotated[float, Meta(gt=0, le=31_536_000)] = 3_600.0
    model_visible: bool = False


class ChildStanding(Struct, frozen=True, kw_only=True):
    """A child, as the log of its parent has it. `task_id` is its own session, null while it waits in the queue.
    `status` is `completed` only with what it has to show."""

    subagent_id: str
    parent_id: SessionIdField
    task_id: SessionIdField | None
    status: SubagentState
    agent: str
    task: str
    summary: str = ""
    reason: str = ""
    attempt: Count = 1
    timeout_ms: Count | None = None
    elapsed_ms: Count | None = None
    deadline_at: Moment | None = None
    model_visible: bool = False


class ChildOpened(Struct, frozen=True, kw_only=True):
    """`is_new` is false where the same key had opened it before."""

    child: ChildStanding
    is_new: bool


class ChildPage(Struct, frozen=True, kw_only=True):
    """The children of a task, oldest first."""

    items: tuple[ChildStanding, ...]


class EndChild(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a child is ended."""

    reason: Annotated[str, Meta(max_length=2_000)] = ""


# What a search over transcripts answers.


class SearchHit(Struct, frozen=True, kw_only=True):
    """A text that was found. `seq` is its event in the log of the task. `excerpt` is a part of it on one line, and
    `matches` are the places in the excerpt that were searched for, in code points. `is_lost`: the log cannot give its
    event any more, so there is no excerpt."""

    task_id: SessionId
    agent: str
    title: str
    seq: Ordinal
    turn_id: TurnId | None
    role: Role
    at: Moment
    excerpt: str
    matches: tuple[tuple[Count, Count], ...]
    is_lost: bool


class SearchPage(Struct, frozen=True, kw_only=True):
    """Hits, the newest first. `is_complete` is false while the index is being made, of which `progress` says how far it
    is, and where the time of a search was over before all of the index was looked at (`is_cut`): there may be more."""

    items: tuple[SearchHit, ...]
    next: str | None
    is_complete: bool
    is_cut: bool
    progress: Annotated[float, Meta(ge=0, le=1)]
