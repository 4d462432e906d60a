"""Event types that are kept and never replayed: how it went, who decided, what was seen."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import Count, Name, Ordinal, SeqRange, Truncation
from interlock.vocabulary.events.registry import Audience, Json, Payload, declare
from interlock.vocabulary.evidence import Evidence, Moment
from interlock.vocabulary.ids import (
    CallId,
    PromptId,
    RunId,
    SessionIdField,
    StepId,
    StreamId,
    SubagentId,
    TurnId,
    WorkflowId,
)
from interlock.vocabulary.run import RunStatus, TerminationReason
from interlock.vocabulary.states import (
    Activity,
    Attention,
    DriverKind,
    ExitReason,
    StepState,
    SubagentState,
    TurnState,
    WorkflowState,
)

Amount = Annotated[float, Meta(ge=0)]
SURFACE_ROWS_MAX_BYTES = 2048
SURFACE_SLICE_MAX_BYTES = 1024


@declare("turn_started", Audience.AUDIT)
class TurnStarted(Payload, frozen=True, kw_only=True):
    """An owner took the turn. A second one with another spawn moves the turn to that spawn."""

    driver: DriverKind
    agent: str = ""
    model: str = ""
    budget_seconds: Amount | None = None


@declare("turn_failed", Audience.AUDIT)
class TurnFailed(Payload, frozen=True, kw_only=True):
    """The turn ended, and not cleanly."""

    terminal_status: TurnState
    error_kind: Name
    error_message: str
    details: Json = None
    next_actions: tuple[NextAction, ...] = ()

    def __post_init__(self) -> None:
        if not self.terminal_status.is_terminal or self.terminal_status is TurnState.COMPLETED:
            raise ContractError(f"turn_failed cannot say {self.terminal_status.value}")


@declare("run_state", Audience.AUDIT)
class RunState(Payload, frozen=True, kw_only=True):
    """The run moved. `done` closes the turn, and is therefore the last event of a closing batch."""

    run_id: RunId
    status: RunStatus
    reason: TerminationReason | None = None
    cancel_requested: bool = False

    def __post_init__(self) -> None:
        implied = RunStatus.RUNNING if self.reason is None else self.reason.to_run_status()[0]
        if self.status is not implied:
            raise ContractError(f"run_state {self.status.value} does not follow from its reason ({implied.value})")


@declare("stream_checkpoint", Audience.AUDIT)
class StreamCheckpoint(Payload, frozen=True, kw_only=True):
    """The text of an open stream so far, so that a killed runtime can still keep a partial answer."""

    stream_id: StreamId
    offset: Count
    text: str
    attempt: Ordinal = 1

    def __post_init__(self) -> None:
        if self.offset != len(self.text):
            raise ContractError(f"offset {self.offset} does not match {len(self.text)} code points of text")


class UsageScope(StrEnum):
    """What a report counts: one model call (they add up), or a whole turn (it replaces what its calls add up to)."""

    CALL = "call"
    TURN = "turn"


@declare("provider_usage", Audience.AUDIT)
class ProviderUsage(Payload, frozen=True, kw_only=True):
    """What a model call, or a whole turn, cost. A figure that was not reported is absent, never zero."""

    scope: UsageScope = UsageScope.CALL
    model: str = ""
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cost_usd: Amount | None = None
    truncation: Truncation = Truncation.UNKNOWN


class PermissionBehavior(StrEnum):
    """What a permission rule says of a tool call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class JudgedCommand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One simple command of a call: its words as they were read, what was decided about it, and by which rule."""

    words: tuple[str, ...]
    then: PermissionBehavior
    rule: str = ""


@declare("permission_decision", Audience.AUDIT)
class PermissionDecision(Payload, frozen=True, kw_only=True):
    """A rule, or a person, decided about a tool call. Of a rule of a file: `layer` says whose file, `file` and
    `file_digest` which text of it, `arguments_digest` what it was about, `commands` what was read of it."""

    call_id: CallId
    decision: PermissionBehavior
    rule: str = ""
    decided_by: str = ""
    remember: bool = False
    occurrence: Ordinal = 1
    approval_id: str = ""
    layer: str = ""
    file: str = ""
    file_digest: str = ""
    arguments_digest: str = ""
    because: str = ""
    commands: tuple[JudgedCommand, ...] = ()


class ResumeMode(StrEnum):
    """How a suspended call goes on once it is approved."""

    REPLAY_TOOL_CALL = "replay_tool_call"
    USE_DECISION_AS_TOOL_RESULT = "use_decision_as_tool_result"
    PASS_DECISION_TO_TOOL = "pass_decision_to_tool"


class Suspension(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked, and what an answer must look like."""

    id: Name
    action: Name
    message: str = ""
    parameters: Json = None
    response_schema: Json = None


class PendingCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The call as it is shown to whoever decides."""

    id: Name
    name: Name
    arguments: Json = None


class SuspensionTicket(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A suspended call's question, its projection and its way back."""

    suspension: Suspension
    pending: PendingCall
    resume_mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL


@declare("tool_call_suspended", Audience.AUDIT)
class ToolCallSuspended(Payload, frozen=True, kw_only=True):
    """A tool call waits for a decision."""

    call_id: CallId
    name: Name
    ticket: SuspensionTicket
    args: Json = None
    occurrence: Ordinal = 1
    deadline_at: Moment | None = None


class DecisionAction(StrEnum):
    """What was decided about a suspended call."""

    RESUME = "resume"
    CANCEL = "cancel"


@declare("tool_call_decided", Audience.AUDIT)
class ToolCallDecided(Payload, frozen=True, kw_only=True):
    """A decision, persisted before anything is done about it. `target_id` may name call, suspension or pending call.
    `option` is the label of the answer that was chosen, where the question offers some."""

    target_id: Name
    action: DecisionAction
    decision_id: str = ""
    result: Json = None
    reason: str = ""
    decided_by: str = ""
    option: str = ""


@declare("decision_undelivered", Audience.AUDIT)
class DecisionUndelivered(Payload, frozen=True, kw_only=True):
    """A decision certainly did not reach the agent. It decides nothing, and its question is open again, until
    `deadline_at` where it has one. `target_id` names the approval."""

    target_id: Name
    decision_id: str = ""
    reason: str = ""
    deadline_at: Moment | None = None


class WorkflowEventKind(StrEnum):
    """The spine of a workflow in the log."""

    WORKFLOW_STARTED = "workflow_started"
    STEP_SCHEDULED = "step_scheduled"
    ROUND_BEGUN = "round_begun"
    STEP_RETRIED = "step_retried"
    BUDGET_USED_UP = "budget_used_up"
    STEPS_ADDED = "steps_added"
    CHECKPOINT_DECIDED = "checkpoint_decided"
    STEP_HELD = "step_held"
    WORKFLOW_FINISHED = "workflow_finished"


@declare("workflow_event", Audience.AUDIT)
class WorkflowEvent(Payload, frozen=True, kw_only=True):
    """A fact about a workflow or one of its steps. `deadline_at`: from this fact on, when the time of the whole
    workflow is over. `plan`: with the start, what is needed to take the workflow up again. `question` and `choices`:
    what a gate asks from this fact on, as a person is shown it. `decided_by`: who decided what this fact follows from,
    as far as known, and `decision_id` the name of that decision.

    `answer_by`: by when a gate is to be answered. `attempt` and `round` of a step, where they are not the first.
    `round_begun`: its child is told once more, with `summary`, because of `reason`. `step_retried`: what ran it was
    lost, by `reason`, and another one is to run it. `budget_used_up`: nothing more of it starts, because of `reason`.
    `steps_added`: the steps of `plan`, one for each item of the step that `step_id` names.
    """

    kind: WorkflowEventKind
    workflow_id: WorkflowId
    step_id: StepId | None = None
    step_state: StepState | None = None
    subagent_id: SubagentId | None = None
    status: WorkflowState | None = None
    summary: str = ""
    reason: str = ""
    checkpoint: Json = None
    timeout_ms: Count | None = None
    elapsed_ms: Count | None = None
    next_actions: tuple[NextAction, ...] = ()
    deadline_at: Moment | None = None
    plan: Json = None
    question: str = ""
    choices: tuple[str, ...] = ()
    decided_by: str = ""
    decision_id: str = ""
    attempt: Count | None = None
    round: Count | None = None
    answer_by: Moment | None = None


@declare("session_fork", Audience.AUDIT)
class SessionFork(Payload, frozen=True, kw_only=True):
    """Where this session came from."""

    parent_session_id: SessionIdField
    fork_root_session_id: SessionIdField
    parent_range: SeqRange
    limitations: tuple[str, ...] = ()


@declare("session_opened", Audience.AUDIT)
class SessionOpened(Payload, frozen=True, kw_only=True):
    """What runs in this session, and under which limits. The values of environment variables are never kept, only
    which were set. A session that another one started as its child names that parent, the root of its tree, how many
    parents are above it, its name as a child, and the workflow of which it runs a step."""

    agent: Name
    driver: Name
    kind: DriverKind
    argv: tuple[str, ...] = ()
    cwd: str = ""
    model: str = ""
    environment: tuple[str, ...] = ()
    title: str = ""
    options: Json = None
    policy: Json = None
    parent_id: SessionIdField | None = None
    root_id: SessionIdField | None = None
    depth: Count = 0
    subagent_id: SubagentId | None = None
    workflow_id: WorkflowId | None = None


@declare("child_ended", Audience.AUDIT)
class ChildEnded(Payload, frozen=True, kw_only=True):
    """The parent of this session ended it as its child: its time was over, or the parent cancelled it. What the child
    did by itself is told by its turns."""

    parent_session_id: SessionIdField
    subagent_id: SubagentId
    status: SubagentState
    reason: str
    timeout_ms: Count | None = None
    elapsed_ms: Count | None = None


@declare("session_deleted", Audience.AUDIT)
class SessionDeleted(Payload, frozen=True, kw_only=True):
    """Somebody put the session away: nothing runs in it any more. What it was stays in the log."""

    decided_by: str = ""


LAST_SCREEN_MAX_BYTES: Final = 32_768


@declare("last_screen", Audience.AUDIT)
class LastScreen(Payload, frozen=True, kw_only=True):
    """What the terminal of an agent showed last, written when the agent ends: the text of its rows, without colours."""

    rows: str
    columns: Count = 0

    def __post_init__(self) -> None:
        _check_size(self.rows, LAST_SCREEN_MAX_BYTES, "of rows")


@declare("session_renamed", Audience.AUDIT)
class SessionRenamed(Payload, frozen=True, kw_only=True):
    """Somebody gave the session another title. The one that it was opened with stays in `session_opened`."""

    title: str
    decided_by: str = ""


@declare("session_seen", Audience.AUDIT)
class SessionSeen(Payload, frozen=True, kw_only=True):
    """Somebody looked at how a turn ended: opened the session, attached to it, or marked it. Once for each turn."""

    turn_id: TurnId
    seen_by: str = ""


@declare("agent_session", Audience.AUDIT)
class AgentSession(Payload, frozen=True, kw_only=True):
    """The agent named its own session: the id with which a later spawn can take it up. Blank: that id is of no use."""

    native_session_id: str
    model: str = ""
    version: str = ""
    transcript_path: str = ""
    reason: str = ""


class ProcessEventKind(StrEnum):
    """What happened to a process."""

    SPAWN_REQUESTED = "spawn_requested"
    SPAWNED = "spawned"
    ADOPTED = "adopted"
    EXITED = "exited"
    STOP_REQUESTED = "stop_requested"
    SPAWN_FAILED = "spawn_failed"
    RELEASED = "released"
    RESTART_DUE = "restart_due"
    RESTARTS_EXHAUSTED = "restarts_exhausted"
    CENSUS = "census"


class EndedProcess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process that a stop ended, and how it was found to be ours."""

    pid: Count
    command: str = ""
    found_by: str = ""
    signal: str = ""


@declare("process_event", Audience.AUDIT)
class ProcessEvent(Payload, frozen=True, kw_only=True):
    """The start or the end of a spawn. An exit carries its reason; `ended` is the census of a stop.

    `where` is where a process that outlives us is found again, such as its pane. `owner` is the id of the home that
    started or adopted it: a copy of that home leaves it alone.
    """

    kind: ProcessEventKind
    pid: Count | None = None
    start_time: str = ""
    argv: tuple[str, ...] = ()
    exit_reason: ExitReason | None = None
    exit_code: int | None = None
    signal: Count | None = None
    stderr_tail: str = ""
    duration_seconds: Amount | None = None
    message: str = ""
    where: Json = None
    attempt: Count | None = None
    delay_seconds: Amount | None = None
    ended: tuple[EndedProcess, ...] = ()
    owner: str = ""

    def __post_init__(self) -> None:
        if (self.kind is ProcessEventKind.EXITED) != (self.exit_reason is not None):
            raise ContractError("an exit, and only an exit, carries an exit reason")


class SurfaceResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a terminal showed when its turn ended there, and under what terms that end was declared.

    `result` is `completed`, `interrupted` or `failed`. `basis` is what a completion rests on: `stability_window`, or
    `completion_observer`; then `observer` says which (`transcript`, `native_status`, `sentinel_reply`, `json_reply`)
    and `observed` what it found. The axes and `turn_end` are the assessment of the last screen, `head` and `tail` the
    first and last rows of its dialog text, `projection_sha256` stands for the whole text without volatile tokens.
    """

    result: str
    basis: str = ""
    observer: str = ""
    observed: str = ""
    availability: str = ""
    business_state: str = ""
    input_mode: str = ""
    ui_context: str = ""
    turn_end: str = ""
    head: str = ""
    tail: str = ""
    projection_sha256: str = ""
    parser_family: str = ""
    profile: str = ""
    selection_source: str = ""
    detected_version: str = ""
    saw_working: bool = False
    saw_projection_change: bool = False
    stability_seconds: float | None = None
    unknown_to_stalled_seconds: float | None = None
    watched_gap_seconds: float | None = None
    stalled_is_terminal: bool | None = None

    def __post_init__(self) -> None:
        for text in (self.observed, self.head, self.tail):
            _check_size(text, SURFACE_SLICE_MAX_BYTES, "of a slice")


@declare("surface_event", Audience.AUDIT)
class SurfaceEvent(Payload, frozen=True, kw_only=True):
    """A verdict about a terminal changed. Written on edges only, with the rows that decided.

    `ended` is set on the one that is written with the end of a turn: what that end rests on.
    """

    activity: Activity
    attention: Attention = Attention.NONE
    evidence: tuple[Evidence, ...] = ()
    rows: str = ""
    frame_sha256: str = ""
    profile: str = ""
    ended: SurfaceResult | None = None

    def __post_init__(self) -> None:
        _check_size(self.rows, SURFACE_ROWS_MAX_BYTES, "of rows")


def _check_size(text: str, most: int, what: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise ContractError(f"{size} bytes {what}; a surface_event keeps at most {most}")


class DialogOption(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the answers that a dialog offers. It is chosen by its text, never by its number."""

    label: Name
    id: str = ""
    kind: str = ""


@declare("dialog_opened", Audience.AUDIT)
class DialogOpened(Payload, frozen=True, kw_only=True):
    """The agent asks for something that is not one of its tool calls, as far as anybody can see; `tool` and `arguments`
    are those of a call of its sub-agent, or of one that is over. `problem` is why it is asked anew: what was said to it
    before did not reach it."""

    dialog_id: Name
    attention: Attention
    question: str = ""
    tool: str = ""
    arguments: Json = None
    options: tuple[DialogOption, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    deadline_at: Moment | None = None
    problem: str = ""


@declare("dialog_answered", Audience.AUDIT)
class DialogAnswered(Payload, frozen=True, kw_only=True):
    """Somebody answered, persisted before anything is done about it: one of the options by its label, or a text.
    `is_allowed` is the verdict; None in a log that did not keep it."""

    dialog_id: Name
    option: str = ""
    text: str = ""
    decision_id: str = ""
    decided_by: str = ""
    is_allowed: bool | None = None


class DialogOutcome(StrEnum):
    """How a dialog went away."""

    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    TURN_ENDED = "turn_ended"


@declare("dialog_closed", Audience.AUDIT)
class DialogClosed(Payload, frozen=True, kw_only=True):
    """Evidence that a dialog is gone."""

    dialog_id: Name
    outcome: DialogOutcome
    evidence: tuple[Evidence, ...] = ()


class DeliveryStage(StrEnum):
    """How far a prompt got. `unknown`: it was being written when the writer died. `not_delivered`: provably not."""

    QUEUED = "queued"
    TYPED = "typed"
    ACCEPTED = "accepted"
    STARTED = "started"
    UNKNOWN = "unknown"
    NOT_DELIVERED = "not_delivered"


@declare("delivery_receipt", Audience.AUDIT)
class DeliveryReceipt(Payload, frozen=True, kw_only=True):
    """A prompt reached a stage on its way to the agent. `waits_for`: why it is not sent, though the agent is ready for
    a prompt; a later receipt without it says that nothing keeps it any more."""

    prompt_id: PromptId
    stage: DeliveryStage
    waits_for: str = ""


class QueueEventKind(StrEnum):
    """What happened to a queued prompt."""

    QUEUED = "queued"
    EDITED = "edited"
    REMOVED = "removed"
    DISPATCHED = "dispatched"


class ReplyContract(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The form that the answer to a prompt must have: text between two lines that are made of the word `sentinel`, or a
    JSON value that fits `json_schema`. One of the two."""

    sentinel: Annotated[str, Meta(max_length=80)] = ""
    json_schema: Json = None


@declare("queue_event", Audience.AUDIT)
class QueueEvent(Payload, frozen=True, kw_only=True):
    """The send queue changed. `is_redacted`: the text held a secret, of which the log keeps only the stars.

    `reply`: the form that its answer must have; the text says so to the agent.
    """

    kind: QueueEventKind
    prompt_id: PromptId
    text: str = ""
    is_redacted: bool = False
    reply: ReplyContract | None = None


@declare("turn_reply", Audience.AUDIT)
class TurnReply(Payload, frozen=True, kw_only=True):
    """A turn whose prompt has a reply contract completed. `text` is the reply, at most 65,536 characters of it; where
    there is none, `problem` says why."""

    kind: str
    is_met: bool
    text: str = ""
    problem: str = ""


@declare("queue_gate", Audience.AUDIT)
class QueueGate(Payload, frozen=True, kw_only=True):
    """Whether queued prompts may be dispatched. A budget that is used up closes it; somebody opens it again."""

    is_open: bool
    reason: str = ""
    decided_by: str = ""


TURN_ABANDONED: Final = "turn_abandoned"
"""The kind of the anomaly that closes a watched turn whose end the next submit overtook: how it ended is not known."""


@declare("anomaly", Audience.AUDIT)
class Anomaly(Payload, frozen=True, kw_only=True):
    """The world surprised us; the state was kept."""

    kind: Name
    source: str = ""
    message: str = ""
    details: Json = None
