"""The JSON that commands print, a type for each answer. Commands import this for mypy alone.

Laws:
1. A session is named by `session_id`. `task_id`, the word of the HTTP API, is in no answer of a command.
2. A list is an object that holds it under the plural of what it lists, so that more can stand beside it.
3. What a session does, needs and ended with is its `badge`: `activity`, `attention`, `outcome`. How one turn stands is
   its `state`. No answer holds the status of the HTTP API.
4. Every field is always there; null, or blank, where there is nothing to say.
5. What may go on for ever, and what is as long as a transcript, is printed as it comes: one object a line.
"""

from __future__ import annotations

from typing import TypedDict

from interlock.vocabulary.wire.json_types import (
    ActiveStreamJson,
    ApprovalJson,
    BadgeJson,
    ChangeCountsJson,
    ChildCountsJson,
    MessageJson,
    QueueItemJson,
    QueueViewJson,
    SpawnRowJson,
    StepStandingJson,
    TurnRecordJson,
    TurnUsageJson,
    UsageJson,
    WorkflowCountsJson,
)


class SessionJson(TypedDict):
    """One session. `badge` says what it does, whether it needs a person, how its last turn ended, since when and why;
    it is null only where the server is older than the command.

    `question`, `called_with` and `approval_id` are of the question that is open, `open_approvals` counts all of them,
    `decided_by_rule` those that rules answered so far.
    `queued` counts the prompts that wait, `held` says why they are not sent, `waits_for` what keeps one from an agent
    that is ready; `is_paused`: a person paused them. `ending` says in words why the last turn did not complete.
    `idle_at` is when an agent that is not used is stopped. `folder` and `model` are blank, and `cost_usd` is null,
    where they were never reported. `branch` is that of
    the folder when a tree was last recorded, and `changes` counts what the turns changed so far: null where no tree was
    recorded. `max_cost_usd` is the budget, `context_tokens` what the newest model call was given,
    `parent_id` the session that it is a child of, or a copy of where `depth` is 0, `root_id` the root of its tree and
    `children` counts its own; `waits_below` how many below it wait for a person, and `workflow` is the one that it runs
    or began. `is_supervised` is false where no server runs the session.
    """

    session_id: str
    agent: str
    driver: str
    title: str
    folder: str
    branch: str
    changes: ChangeCountsJson | None
    model: str
    badge: BadgeJson | None
    is_archived: bool
    is_supervised: bool
    turn_id: str | None
    cancel_requested: bool
    question: str
    called_with: str
    approval_id: str
    open_approvals: int
    decided_by_rule: int
    undelivered: int
    question_problem: str
    queued: int
    held: str
    is_paused: bool
    waits_for: str
    ending: str
    cost_usd: float | None
    max_cost_usd: float | None
    context_tokens: int | None
    parent_id: str | None
    root_id: str | None
    depth: int
    children: ChildCountsJson
    waits_below: int
    workflow: WorkflowCountsJson | None
    idle_at: str | None
    opened_at: str | None
    last_at: str | None
    crashed_at: list[str]
    version: int


class SessionsJson(TypedDict):
    """Every session, those that need a person first. `is_complete` is false while the server has not read all of its
    log; `log_problem` is why what is told may be old, and blank where it is not."""

    sessions: list[SessionJson]
    is_complete: bool
    log_problem: str


class ServerStatusJson(TypedDict):
    """The server of a home. What only a server that answers can say is null where none does."""

    home: str
    copied_from: str | None
    presence: str
    starting: dict[str, int | float | None] | None
    is_up: bool
    is_ready: bool
    url: str | None
    pid: int | None
    started_at: str | None
    version: str | None
    log_problem: str | None
    session_count: int | None
    needing_person: list[SessionJson] | None


class StateJson(TypedDict):
    """The state document of a session, folded from its log up to `version`."""

    session_id: str
    version: int
    turn_id: str | None
    state: object


class ShownSessionJson(TypedDict):
    """One session with what belongs to it: its newest turn, its queue and questions, its last answer, its process.

    `stream` is the text that is being written, if any is; `last_words` is what the agent printed at its end.
    `steps` are those of its workflow, where it is the session of one.
    """

    session: SessionJson
    turn: TurnRecordJson | None
    turn_count: int
    queue: QueueViewJson
    approvals: list[ApprovalJson]
    answer: MessageJson | None
    stream: ActiveStreamJson | None
    spawn: SpawnRowJson | None
    last_words: str
    state: StateJson
    usage: UsageJson
    children: list[dict[str, object]]
    steps: list[StepStandingJson]
    log_problem: str


class SessionUsageJson(TypedDict):
    """What one session used, in all and by turn. What nobody reported is null."""

    session_id: str
    total: UsageJson
    turns: list[TurnUsageJson]


class SessionsUsageJson(TypedDict):
    """What every session used, and all of them together."""

    sessions: list[SessionUsageJson]
    total: UsageJson
    is_complete: bool


class FoundMessageJson(TypedDict):
    """A message that a search found. `seq` is its event in the log of the session; `matches` are places in the excerpt,
    in code points."""

    session_id: str
    agent: str
    title: str
    seq: int
    turn_id: str | None
    role: str
    at: str
    excerpt: str
    matches: list[tuple[int, int]]
    is_lost: bool


class FoundMessagesJson(TypedDict):
    """What a search found, the newest first. There may be more where it is not complete."""

    messages: list[FoundMessageJson]
    next: str | None
    is_complete: bool
    is_cut: bool
    progress: float


class SpawnsJson(TypedDict):
    """Every process of an agent, oldest first within a session."""

    spawns: list[SpawnRowJson]


class FileChangeJson(TypedDict):
    """A file that differs between two trees. `change`: A, D, M or T; lines are null where they cannot be counted.
    `review`: new, accepted, sent_back or discarded."""

    path: str
    change: str
    before: str
    after: str
    added: int | None
    removed: int | None
    review: str


class TurnDiffJson(TypedDict):
    """What one turn did to the files: the difference between its own two trees, if both were kept. `between`: what
    changed since the turn before, by others. `doubts`: why it may prove less. `damage`: what `--verify` found."""

    turn_id: str
    number: int
    is_known: bool
    is_certain: bool
    unknown: str
    tree_before: str
    tree_after: str
    start_seq: int | None
    end_seq: int | None
    files: list[FileChangeJson]
    between: list[FileChangeJson]
    doubts: list[str]
    damage: list[str]
    patch: str


class WorkspaceDiffJson(TypedDict):
    """What the turns of a session did to its work tree, in their order."""

    turns: list[TurnDiffJson]


class SessionFileReviewJson(TypedDict):
    """What became of the review of a file. `get_back`: the command, word by word, that brings back what was discarded;
    `prompt_id`: the prompt by which it was sent back."""

    session_id: str
    turn_id: str
    path: str
    review: str
    get_back: list[str]
    prompt_id: str | None


class SessionReviewJson(TypedDict):
    """The files that were reviewed, in the order in which they were named."""

    files: list[SessionFileReviewJson]


class FileVersionJson(TypedDict):
    """One change of a file. `session_id` and `turn_id` are null for what no turn did, as far as is known. `work_tree`:
    where it was changed, which may be another one of the same repository."""

    session_id: str | None
    turn_id: str | None
    at: str
    change: str
    work_tree: str
    doubts: list[str]


class FileBlameJson(TypedDict):
    """Which turn changed a file last. `changed_since`: it is not as that turn, or the last tree, left it. `is_here`: it
    was changed in this work tree, and not in another one whose work was merged."""

    path: str
    last: FileVersionJson | None
    is_known: bool
    is_here: bool
    changed_since: bool | None
    unknown_turns: int


class ApprovalsJson(TypedDict):
    """Every open question, the oldest first."""

    approvals: list[ApprovalJson]


class QueueJson(TypedDict):
    """The prompts that wait, in order; whether they may leave the queue, and what keeps the next one."""

    session_id: str
    waiting: list[QueueItemJson]
    is_open: bool
    gate_reason: str
    waits_for: str


class PromptJson(TypedDict):
    """Where a prompt stands, and how far it is known to have got."""

    session_id: str
    prompt_id: str
    state: str
    stage: str


class OpenedSessionJson(TypedDict):
    """A session that was begun, and its first prompt, if it has one."""

    session_id: str
    is_new: bool
    prompt_id: str | None
    worktree: str | None
    branch: str | None


class OpenedChildJson(TypedDict):
    """A child that was begun. `session_id` is null while it waits for a place among its parent's children."""

    subagent_id: str
    session_id: str | None
    parent_id: str
    status: str


class WorktreeJson(TypedDict):
    """The git worktree of a session. `state` is what was done with it last; `gone`: its folder is not there any more,
    and not by us. `target`: the branch that it is to be merged into, if its base was one; `merged` the commit of its
    branch that was merged last; `port` the first of ten ports that are its own, 0 where none were free."""

    session_id: str
    state: str
    path: str
    branch: str
    base: str
    target: str
    repository: str
    port: int
    merged: str
    problem: str


class WorktreeFilesJson(TypedDict):
    """What is in a worktree: the commit and branch that are checked out, how many commits since the base, and the files
    that would be lost with it."""

    head: str
    branch: str
    commits: int | None
    changed: list[str]
    untracked: list[str]
    ignored: list[str]
    unlisted: list[str]
    unfinished: list[str]


class WorktreeDetailJson(WorktreeJson):
    """`files` is null where what is in it cannot be told, or it was removed."""

    files: WorktreeFilesJson | None


class WorktreeListJson(TypedDict):
    """The worktrees of a home."""

    worktrees: list[WorktreeJson]


class RemovedWorktreeJson(TypedDict):
    """A worktree that was removed, or would be (`--dry-run`). `kept`: refs and folders where something was kept."""

    session_id: str
    path: str
    is_removed: bool
    kept: list[str]


class MergedWorktreeJson(TypedDict):
    """What became of a merge: `target` moved from `before` to `after`. With `conflicts` nothing was changed; `push` is
    the command that would push a new branch, null for a merge."""

    session_id: str
    target: str
    before: str
    after: str
    is_merged: bool
    checkout: str
    conflicts: list[str]
    push: str | None


class PullRequestJson(TypedDict):
    """A branch that was pushed. `is_open`: `gh` opened a pull request, and `said` so; `command` opens one, where it is
    known how."""

    session_id: str
    address: str
    branch: str
    commit: str
    is_open: bool
    command: str | None
    said: str


class PrunedWorktreeJson(TypedDict):
    """A worktree that can go, or why it stays."""

    session_id: str
    path: str
    is_removed: bool
    can_go: bool
    why: str


class PrunedKeptJson(TypedDict):
    """What was kept for a session that is over: a `ref` of a repository, or a folder of the `attic`, and why it can go
    or stays."""

    session_id: str
    what: str
    name: str
    repository: str
    commit: str
    is_removed: bool
    can_go: bool
    why: str


class PrunedWorktreesJson(TypedDict):
    """What `prune` looked at: worktrees, and what is kept for sessions that are over."""

    worktrees: list[PrunedWorktreeJson]
    kept: list[PrunedKeptJson]


class AnswerTextJson(TypedDict):
    """The words of a turn. `label` says what they are not: whole, confirmed or verified."""

    text: str
    is_partial: bool
    label: str
    is_verified: bool


class AwaitedPromptJson(TypedDict):
    """What became of a prompt that was waited for. `ending` is `ended`, or why the waiting is over before the turn is:
    then `state` is how the turn stands, if there is one. `is_cancelled`: the time was up, and the turn was asked to
    end."""

    session_id: str
    prompt_id: str
    ending: str
    turn_id: str | None
    state: str | None
    error_kind: str
    error_message: str
    answer: AnswerTextJson | None
    reply: object
    reply_problem: str
    approvals: list[ApprovalJson]
    is_cancelled: bool


class WaitedSessionJson(TypedDict):
    """Whether a session is as it was wanted, and why, or why not. `state` is that of its newest turn."""

    session_id: str
    is_met: bool
    why: str
    turn_id: str | None
    state: str | None
    badge: BadgeJson | None
    log_problem: str


class InterruptJson(TypedDict):
    """`delivered`: the agent was told to end its turn. `state`: how the turn stands after --wait."""

    session_id: str
    turn_id: str | None
    delivered: bool
    problem: str
    removed: list[str]
    killed: bool
    state: str | None


class StoppedAgentJson(TypedDict):
    """Whether an agent runs after it was told to stop."""

    session_id: str
    is_running: bool
    is_starting: bool


class StartedAgentJson(TypedDict):
    """Whether an agent is known to run, and its process."""

    session_id: str
    is_running: bool
    spawn: SpawnRowJson | None


class ArchivedSessionJson(TypedDict):
    """A session that was put away. `worktree_stays`: why its git worktree was not removed; blank where none is left."""

    session_id: str
    is_archived: bool
    worktree_stays: str


class SeenSessionJson(TypedDict):
    """Whether how the last turn ended is marked as seen."""

    session_id: str
    is_seen: bool


class RenamedSessionJson(TypedDict):
    """What a session is called now."""

    session_id: str
    title: str


class DecisionJson(TypedDict):
    """A question that was answered, and with what."""

    session_id: str
    approval_id: str
    state: str
    is_allowed: bool
    option: str | None
    text: str


class AttachJson(TypedDict):
    """The command that shows the terminal of an agent."""

    session_id: str
    argv: list[str]


class ScreenJson(TypedDict):
    """What the terminal of an agent shows. `is_live` is false where it cannot be seen now: then `problem` says why, and
    the rows are of `captured_at`. `paint` holds [row, start, end, SGR numbers], `cursor` [column, row], from 0."""

    session_id: str
    is_live: bool
    problem: str
    captured_at: str
    age_seconds: float
    columns: int
    height: int
    title: str
    cursor: tuple[int, int] | None
    digest: str
    is_cut: bool
    has_ended: bool
    rows: list[str]
    paint: list[tuple[int, int, int, str]]


class StartedServerJson(TypedDict):
    """A server that runs. `is_new`: this command started it."""

    url: str
    pid: int
    is_new: bool


class LoginLinkJson(TypedDict):
    """A one-time link by which a browser logs in, and what it may do then: `observer` looks, `operator` acts, too."""

    url: str
    role: str
    expires_at: str


class StoppedServerJson(TypedDict):
    """What became of a server and its agents. `left_running`, `stopped` and the keys of `problems` are session ids;
    `left_running` is null where nobody can tell."""

    was_running: bool
    pid: int | None
    left_running: list[str] | None
    stopped: list[str]
    problems: dict[str, str]


class AdoptedJson(TypedDict):
    """One agent that `adopt` found in a tmux of a person, or outside one: then `process` is its number, and `evidence`
    the file that proves it. `session_id` is null where it was not adopted, and `result` says why; else it is `watched`
    or `controlled`."""

    session_id: str | None
    socket: str
    pane: str
    cli: str
    result: str
    is_new: bool
    process: int | None
    evidence: str


class ResumedJson(TypedDict):
    """One session that was to be started again: `resumed`, `started_anew`, `unknown`, `running`, `failed` or
    `left_out`, and why."""

    session_id: str
    title: str
    result: str
    evidence: str
    native_session_id: str
