"""The server's answers as JSON, a type for each struct of the wire. Made by `make docs`.

These hold for mypy alone, and are imported by it alone: `cli/wire/routes.py` says which route answers what. A time is
a string of RFC 3339; what is `object` may be any JSON.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict


class ActiveStreamJson(TypedDict):
    """`ActiveStream` of `interlock.vocabulary.wire.frames`."""

    stream_id: str
    cursor: int
    last_activity_at: str


class AgentStatusChangedJson(TypedDict):
    """`AgentStatusChanged` of `interlock.vocabulary.wire.frames`."""

    type: Literal["agent:status"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    status: StatusJson
    badge: BadgeJson | None


class AppendOpJson(TypedDict):
    """`AppendOp` of `interlock.vocabulary.wire.patch`."""

    op: Literal["append"]
    path: list[str | int]
    value: object


class ApprovalClosedJson(TypedDict):
    """`ApprovalClosed` of `interlock.vocabulary.wire.frames`."""

    type: Literal["approval:closed"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    approval: ApprovalJson


class ApprovalDecidedJson(TypedDict):
    """`ApprovalDecided` of `interlock.vocabulary.wire.frames`."""

    type: Literal["approval:decided"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    approval: ApprovalJson


class ApprovalJson(TypedDict):
    """`Approval` of `interlock.vocabulary.wire.approval`."""

    approval_id: str
    session_id: str
    turn_id: str | None
    state: str
    attention: str
    question: str
    tool: str
    arguments: object
    options: list[DialogOptionJson]
    asked_at: str
    deadline_at: str | None
    decided_by: str
    outcome: str
    is_answerable: bool
    problem: str
    undelivered: int


class ApprovalOpenedJson(TypedDict):
    """`ApprovalOpened` of `interlock.vocabulary.wire.frames`."""

    type: Literal["approval:opened"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    approval: ApprovalJson


class ApprovalPageJson(TypedDict):
    """`ApprovalPage` of `interlock.server.http.shapes`."""

    items: list[ApprovalJson]
    next: str | None


class BadgeJson(TypedDict):
    """`Badge` of `interlock.vocabulary.wire.badge`."""

    activity: str
    substate: str | None
    tool: str
    tool_since: str | None
    attention: str
    needs_person: bool
    outcome: str | None
    is_seen: bool
    group: str
    since: str | None
    rank: int
    crashes: int
    is_over: bool
    until: str | None
    evidence: list[EvidenceJson]


class ChangeCountsJson(TypedDict):
    """`ChangeCounts` of `interlock.vocabulary.wire.frames`."""

    files: int
    added: int
    removed: int
    unknown_turns: int


class ChatCancelledJson(TypedDict):
    """`ChatCancelled` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:cancelled"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    stream_id: str
    cursor: int
    message_id: int | None


class ChatChunkJson(TypedDict):
    """`ChatChunk` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:chunk"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    stream_id: str
    offset: int
    text: str
    at: str


class ChatDoneJson(TypedDict):
    """`ChatDone` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:done"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    stream_id: str
    cursor: int
    message_id: int | None


class ChatErrorJson(TypedDict):
    """`ChatError` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:error"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    stream_id: str
    cursor: int
    message_id: int | None
    error_kind: str
    error_message: str


class ChatMessageJson(TypedDict):
    """`ChatMessage` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:message"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    message: MessageJson


class ChatReceiptJson(TypedDict):
    """`ChatReceipt` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:receipt"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    prompt_id: str
    stage: str


class ChatStartJson(TypedDict):
    """`ChatStart` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:start"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    stream_id: str
    started_at: str


class ChatThoughtJson(TypedDict):
    """`ChatThought` of `interlock.vocabulary.wire.frames`."""

    type: Literal["chat:thought"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    stream_id: str
    offset: int
    text: str


class ChildCountsJson(TypedDict):
    """`ChildCounts` of `interlock.vocabulary.wire.frames`."""

    running: int
    waiting: int
    ended_badly: int


class ChildPageJson(TypedDict):
    """`ChildPage` of `interlock.vocabulary.wire.resources`."""

    items: list[ChildStandingJson]


class ChildStandingJson(TypedDict):
    """`ChildStanding` of `interlock.vocabulary.wire.resources`."""

    subagent_id: str
    parent_id: str
    task_id: str | None
    status: str
    agent: str
    task: str
    summary: str
    reason: str
    attempt: int
    timeout_ms: int | None
    elapsed_ms: int | None
    deadline_at: str | None
    model_visible: bool


class DeleteOpJson(TypedDict):
    """`DeleteOp` of `interlock.vocabulary.wire.patch`."""

    op: Literal["delete"]
    path: list[str | int]


class DialogOptionJson(TypedDict):
    """`DialogOption` of `interlock.vocabulary.events.audit`."""

    label: str
    id: str
    kind: str


class EndedProcessJson(TypedDict):
    """`EndedProcess` of `interlock.vocabulary.events.audit`."""

    pid: int
    command: str
    found_by: str
    signal: str


class EvidenceJson(TypedDict):
    """`Evidence` of `interlock.vocabulary.evidence`."""

    source: str
    rule: str
    at: str | None
    seq: int | None
    where: str


class ExplainedTurnJson(TypedDict):
    """`ExplainedTurn` of `interlock.server.http.shapes`."""

    state: str | None
    lines: list[str]
    is_damaged: bool


class FileDiffJson(TypedDict):
    """`FileDiff` of `interlock.vocabulary.wire.workspace`."""

    path: str
    change: str
    before: str
    after: str
    added: int | None
    removed: int | None
    is_late: bool
    review: str
    reviewed_by: str


class FindingJson(TypedDict):
    """`Finding` of `interlock.lifecycle.turn`."""

    kind: str
    turn_id: str
    message: str
    seq: int | None


class HealthJson(TypedDict):
    """`Health` of `interlock.server.http.shapes`."""

    alive: bool
    ready: bool
    recording: bool
    version: str


class IncrementOpJson(TypedDict):
    """`IncrementOp` of `interlock.vocabulary.wire.patch`."""

    op: Literal["increment"]
    path: list[str | int]
    amount: int | float


class LimitsJson(TypedDict):
    """`Limits` of `interlock.vocabulary.wire.resources`."""

    max_request_bytes: int
    max_rooms: int
    max_connections: int
    requests_per_second: float
    request_burst: int
    command_seconds: float
    heartbeat_seconds: float


class LoginLineJson(TypedDict):
    """`LoginLine` of `interlock.vocabulary.wire.logins`."""

    login_id: str
    role: str
    device: str
    created_at: str
    seen_at: str
    is_this: bool


class LoginPageJson(TypedDict):
    """`LoginPage` of `interlock.vocabulary.wire.logins`."""

    items: list[LoginLineJson]
    next: str | None


class LostEventsJson(TypedDict):
    """`LostEvents` of `interlock.lifecycle.turn`."""

    first_seq: int
    last_seq: int | None


class MergeObjectOpJson(TypedDict):
    """`MergeObjectOp` of `interlock.vocabulary.wire.patch`."""

    op: Literal["merge_object"]
    path: list[str | int]
    value: dict[str, object]


class MessageJson(TypedDict):
    """`Message` of `interlock.vocabulary.wire.frames`."""

    message_id: int
    version: int
    role: str
    status: str
    text: str
    at: str
    turn_id: str | None
    prompt_id: str | None
    stream_id: str | None
    is_verified: bool
    label: str
    delivery: str | None
    kind: str | None
    item_id: str
    name: str
    detail: str
    detail_length: int
    child_session_id: str | None
    error_kind: str
    next_actions: list[NextActionJson]


class MessagePageJson(TypedDict):
    """`MessagePage` of `interlock.server.http.shapes`."""

    items: list[MessageJson]
    next: str | None


class NextActionJson(TypedDict):
    """`NextAction` of `interlock.vocabulary.actions`."""

    kind: str
    command: str


class QueueChangedJson(TypedDict):
    """`QueueChanged` of `interlock.vocabulary.wire.frames`."""

    type: Literal["queue:changed"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    queue: QueueViewJson


class QueueItemJson(TypedDict):
    """`QueueItem` of `interlock.vocabulary.wire.frames`."""

    prompt_id: str
    text: str


class QueueViewJson(TypedDict):
    """`QueueView` of `interlock.vocabulary.wire.frames`."""

    waiting: list[QueueItemJson]
    is_open: bool
    gate_reason: str
    waits_for: str
    is_paused: bool


class RuntimeCheckJson(TypedDict):
    """`RuntimeCheck` of `interlock.vocabulary.wire.frames`."""

    task_id: str
    task_status: str | None
    version: int
    turn_id: str | None
    status_updated_at: str | None
    active_stream: ActiveStreamJson | None
    tick: int


class SearchHitJson(TypedDict):
    """`SearchHit` of `interlock.vocabulary.wire.resources`."""

    task_id: str
    agent: str
    title: str
    seq: int
    turn_id: str | None
    role: str
    at: str
    excerpt: str
    matches: list[tuple[int, int]]
    is_lost: bool


class SearchPageJson(TypedDict):
    """`SearchPage` of `interlock.vocabulary.wire.resources`."""

    items: list[SearchHitJson]
    next: str | None
    is_complete: bool
    is_cut: bool
    progress: float


class ServerClosingJson(TypedDict):
    """`ServerClosing` of `interlock.vocabulary.wire.requests`."""

    type: Literal["server:closing"]
    reason: str
    retry_after_seconds: float


class ServerInfoJson(TypedDict):
    """`ServerInfo` of `interlock.vocabulary.wire.resources`."""

    version: str
    protocol: int
    role: str
    limits: LimitsJson
    log_problem: str


class SetOpJson(TypedDict):
    """`SetOp` of `interlock.vocabulary.wire.patch`."""

    op: Literal["set"]
    path: list[str | int]
    value: object


class SpawnPageJson(TypedDict):
    """`SpawnPage` of `interlock.server.http.shapes`."""

    items: list[SpawnRowJson]
    next: str | None


class SpawnRowJson(TypedDict):
    """`SpawnRow` of `interlock.projections.spawns`."""

    spawn_id: str
    session_id: str
    agent: str
    standing: str
    argv: list[str]
    pid: int | None
    start_time: str
    began: str | None
    ended: str | None
    exit_code: int | None
    signal: int | None
    reason: str | None
    stderr_tail: str
    duration_seconds: float | None
    attempt: int | None
    is_adopted: bool
    is_foreign: bool
    is_released: bool
    stop_requested: str | None
    message: str
    census: list[EndedProcessJson]


class StateDocumentJson(TypedDict):
    """`StateDocument` of `interlock.vocabulary.wire.frames`."""

    task_id: str
    version: int
    turn_id: str | None
    state: object


class StatePatchedJson(TypedDict):
    """`StatePatched` of `interlock.vocabulary.wire.frames`."""

    type: Literal["state:patched"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    ops: list[SetOpJson | DeleteOpJson | AppendOpJson | MergeObjectOpJson | IncrementOpJson]
    source: str


class StatusJson(TypedDict):
    """`Status` of `interlock.vocabulary.events.presenter`."""

    activity: str
    attention: str
    evidence: list[EvidenceJson]
    idle_at: str | None
    substate: str | None
    tool: str
    tool_since: str | None
    lifecycle: str | None


class StepStandingJson(TypedDict):
    """`StepStanding` of `interlock.vocabulary.wire.workflow`."""

    step_id: str
    kind: str
    state: str
    needs: list[str]
    required: bool
    agent: str
    proof: str
    summary: str
    reason: str
    question: str
    choices: list[str]
    checkpoint: object
    subagent_id: str | None
    attempt: int
    round: int
    rounds: int
    worktree: str
    branch: str
    worktree_task_id: str
    answer_by: str | None
    on_timeout: str


class StoppedReasonJson(TypedDict):
    """`StoppedReason` of `interlock.vocabulary.run`."""

    code: str
    detail: str | None


class StreamPieceJson(TypedDict):
    """`StreamPiece` of `interlock.vocabulary.wire.frames`."""

    stream_id: str
    turn_id: str | None
    offset: int
    text: str
    cursor: int
    started_at: str
    last_activity_at: str


class TaskBadgeChangedJson(TypedDict):
    """`TaskBadgeChanged` of `interlock.vocabulary.wire.frames`."""

    type: Literal["task:badge"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    badge: BadgeJson


class TaskBehindJson(TypedDict):
    """`TaskBehind` of `interlock.vocabulary.wire.requests`."""

    type: Literal["task:behind"]
    task_id: str
    version: int
    tick: int


class TaskDetailJson(TypedDict):
    """`TaskDetail` of `interlock.vocabulary.wire.resources`."""

    summary: TaskSummaryJson
    turns: int
    queue: QueueViewJson
    approvals: list[ApprovalJson]


class TaskDiffJson(TypedDict):
    """`TaskDiff` of `interlock.vocabulary.wire.workspace`."""

    task_id: str
    turn_id: str
    number: int
    turns: int
    is_known: bool
    is_certain: bool
    unknown: str
    root: str
    branch: str
    tree_before: str
    tree_after: str
    start_seq: int | None
    end_seq: int | None
    files: list[FileDiffJson]
    between: list[FileDiffJson]
    doubts: list[str]
    patch: str
    is_cut: bool
    patch_problem: str


class TaskJoinedJson(TypedDict):
    """`TaskJoined` of `interlock.vocabulary.wire.requests`."""

    type: Literal["task:joined"]
    id: str
    snapshot: TaskSnapshotJson


class TaskPageJson(TypedDict):
    """`TaskPage` of `interlock.server.http.shapes`."""

    items: list[TaskSummaryJson]
    next: str | None
    is_complete: bool
    log_problem: str


class TaskScreenJson(TypedDict):
    """`TaskScreen` of `interlock.vocabulary.wire.task_screen`."""

    task_id: str
    is_live: bool
    problem: str
    captured_at: str
    age_seconds: float
    columns: int
    height: int
    title: str
    cursor: tuple[int, int] | None
    digest: str
    is_unchanged: bool
    has_ended: bool
    is_cut: bool
    rows: list[str]
    paint: list[tuple[int, int, int, str]]


class TaskSnapshotJson(TypedDict):
    """`TaskSnapshot` of `interlock.vocabulary.wire.frames`."""

    task_id: str
    task_status: str | None
    version: int
    tick: int
    turn_id: str | None
    status_updated_at: str | None
    is_whole: bool
    messages: list[MessageJson]
    history_before: int | None
    stream: StreamPieceJson | None
    approvals: list[ApprovalJson]
    queue: QueueViewJson
    agent: StatusJson | None
    badge: BadgeJson | None
    document: object


class TaskStatusChangedJson(TypedDict):
    """`TaskStatusChanged` of `interlock.vocabulary.wire.frames`."""

    type: Literal["task:status"]
    task_id: str
    version: int
    tick: int
    turn_id: str | None
    task_status: str | None
    status_updated_at: str | None
    badge: BadgeJson | None


class TaskSummaryJson(TypedDict):
    """`TaskSummary` of `interlock.vocabulary.wire.frames`."""

    task_id: str
    version: int
    task_status: str | None
    turn_id: str | None
    turn_state: str | None
    status_updated_at: str | None
    agent: str
    driver: str
    title: str
    is_supervised: bool
    live: StatusJson | None
    since: str | None
    question: str
    called_with: str
    approval_id: str
    undelivered: int
    question_problem: str
    asks: str
    asked_at: str | None
    open_approvals: int
    decided_by_rule: int
    queued: int
    held: str
    waits_for: str
    ending: str
    is_paused: bool
    seen_turn_id: str | None
    folder: str
    branch: str
    changes: ChangeCountsJson | None
    model: str
    cost_usd: float | None
    max_cost_usd: float | None
    context_tokens: int | None
    parent_id: str | None
    is_adopted: bool
    root_id: str | None
    depth: int
    children: ChildCountsJson
    waits_below: int
    workflow: WorkflowCountsJson | None
    worktree: TaskWorktreeJson | None
    opened_at: str | None
    last_at: str | None
    crashed_at: list[str]
    badge: BadgeJson | None


class TaskUsageJson(TypedDict):
    """`TaskUsage` of `interlock.server.http.shapes`."""

    task_id: str
    total: UsageJson
    turns: list[TurnUsageJson]


class TaskWorktreeJson(TypedDict):
    """`TaskWorktree` of `interlock.vocabulary.wire.worktree`."""

    phase: str
    path: str
    branch: str
    base: str
    target: str
    repository: str
    port: int
    merged: str
    problem: str
    source: str


class TerminationReasonJson(TypedDict):
    """`TerminationReason` of `interlock.vocabulary.run`."""

    type: str
    value: StoppedReasonJson | str | None


class TurnPageJson(TypedDict):
    """`TurnPage` of `interlock.server.http.shapes`."""

    items: list[TurnRecordJson]
    next: str | None
    is_damaged: bool


class TurnRecordJson(TypedDict):
    """`TurnRecord` of `interlock.lifecycle.turns`."""

    session_id: str
    turn_id: str
    state: str
    basis: str
    first_seq: int | None
    last_seq: int | None
    run_id: str | None
    spawn_id: str | None
    reason: TerminationReasonJson | None
    error_kind: str
    error_message: str
    cancel_requested: bool
    settles_as: str | None
    lost: list[LostEventsJson]
    evidence: list[EvidenceJson]
    findings: list[FindingJson]
    next_actions: list[NextActionJson]


class TurnUsageJson(TypedDict):
    """`TurnUsage` of `interlock.server.http.shapes`."""

    turn_id: str
    usage: UsageJson


class UsageJson(TypedDict):
    """`Usage` of `interlock.projections.usage`."""

    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    cost_usd: float | None
    turns_without_report: int


class UsagePageJson(TypedDict):
    """`UsagePage` of `interlock.server.http.shapes`."""

    items: list[TaskUsageJson]
    next: str | None
    is_complete: bool


class WorkflowCountsJson(TypedDict):
    """`WorkflowCounts` of `interlock.vocabulary.wire.frames`."""

    id: str
    status: str
    ready: int
    total: int
    held: int


class WorkflowStandingJson(TypedDict):
    """`WorkflowStanding` of `interlock.vocabulary.wire.workflow`."""

    workflow_id: str
    task_id: str
    name: str
    status: str
    was_stopped: bool
    reason: str
    is_owned: bool
    folder: str
    digest: str
    params: object
    ready: int
    held: int
    steps: list[StepStandingJson]
    deadline_at: str | None
    next_actions: list[NextActionJson]
    cost_usd: float | None
    tokens: int | None
    max_cost_usd: float | None
    max_tokens: int | None
    unmetered: list[str]


FrameJson: TypeAlias = (
    ChatStartJson
    | ChatChunkJson
    | ChatThoughtJson
    | ChatDoneJson
    | ChatErrorJson
    | ChatCancelledJson
    | ChatMessageJson
    | ChatReceiptJson
    | QueueChangedJson
    | StatePatchedJson
    | TaskStatusChangedJson
    | AgentStatusChangedJson
    | TaskBadgeChangedJson
    | ApprovalOpenedJson
    | ApprovalDecidedJson
    | ApprovalClosedJson
    | TaskJoinedJson
    | TaskBehindJson
    | ServerClosingJson
)
