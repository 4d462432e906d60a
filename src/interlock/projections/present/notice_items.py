"""The display items of events that need no memory: status, children, workflows, and what is odd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.lifecycle.children.subagent_evidence import missing_evidence
from interlock.projections.present.display import DisplayChannel, Item, Show, ShowTool, ToolKind, ToolStatus
from interlock.projections.present.tool_text import one_line, shorten
from interlock.projections.replay.tool_outcomes import workflow_outcome
from interlock.projections.sentences import sentence
from interlock.vocabulary.events.audit import (
    AgentSession,
    Anomaly,
    ChildEnded,
    DecisionUndelivered,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    LastScreen,
    PermissionDecision,
    ProcessEvent,
    ProcessEventKind,
    ProviderUsage,
    QueueEvent,
    QueueGate,
    SessionDeleted,
    SessionFork,
    SessionOpened,
    SessionRenamed,
    SessionSeen,
    StreamCheckpoint,
    SurfaceEvent,
    ToolCallDecided,
    TurnReply,
    TurnStarted,
    WorkflowEvent,
    WorkflowEventKind,
)
from interlock.vocabulary.events.conversation import (
    BranchSummary,
    HistoryCompaction,
    Reasoning,
    SubagentEvent,
    Truncation,
)
from interlock.vocabulary.events.envelope import Event, UnknownEvent
from interlock.vocabulary.events.presenter import ContextPressure, Plan, ScreenUpdate, Status
from interlock.vocabulary.events.registry import PayloadClass
from interlock.vocabulary.events.workspace import FileReviewed, WorkspaceChanged, WorktreeChanged
from interlock.vocabulary.states import Attention, ExitReason, StepState, SubagentState

SILENT: Final[frozenset[PayloadClass]] = frozenset(
    {
        AgentSession,
        BranchSummary,
        FileReviewed,
        QueueEvent,
        Reasoning,
        LastScreen,
        SessionRenamed,
        SessionSeen,
        ScreenUpdate,  # a terminal is drawn as a terminal, row by row, and not as an item
        StreamCheckpoint,
        ToolCallDecided,
        TurnStarted,
        WorkspaceChanged,
        WorktreeChanged,
    }
)
"""What has nothing to draw. A type that is neither here nor handled is drawn as a diagnostic."""

_CHILD: Final[Mapping[SubagentState, ToolStatus]] = {
    SubagentState.QUEUED: ToolStatus.WAITING,
    SubagentState.RUNNING: ToolStatus.RUNNING,
    SubagentState.COMPLETED: ToolStatus.SUCCEEDED,
    SubagentState.FAILED: ToolStatus.FAILED,
    SubagentState.TIMED_OUT: ToolStatus.FAILED,
    SubagentState.INTERRUPTED: ToolStatus.CANCELLED,
    SubagentState.DETACHED: ToolStatus.UNKNOWN,
}
_STEP: Final[Mapping[StepState, ToolStatus]] = {
    StepState.PENDING: ToolStatus.WAITING,
    StepState.RUNNING: ToolStatus.RUNNING,
    StepState.CHECKPOINT_READY: ToolStatus.SUCCEEDED,
    StepState.PARTIAL: ToolStatus.PARTIAL,
    StepState.FAILED: ToolStatus.FAILED,
    StepState.TIMED_OUT: ToolStatus.FAILED,
    StepState.HELD: ToolStatus.WAITING,
    StepState.NEEDS_ORCHESTRATOR: ToolStatus.WAITING,
}
_CHILD_LABELS: Final[Mapping[SubagentState, str]] = {
    SubagentState.QUEUED: "queued",
    SubagentState.TIMED_OUT: "timed out",
    SubagentState.DETACHED: "detached: no longer controlled from here",
}
_STEP_LABELS: Final[Mapping[StepState, str]] = {
    StepState.PENDING: "queued",
    StepState.TIMED_OUT: "timed out",
    StepState.HELD: "held: a step before it left no checkpoint",
    StepState.NEEDS_ORCHESTRATOR: "held: it needs a decision",
}
_BAD_EXITS: Final = frozenset({ExitReason.CRASHED, ExitReason.OOM, ExitReason.UNCLEAN})
_BAD_NEWS: Final = frozenset({ProcessEventKind.SPAWN_FAILED, ProcessEventKind.RESTARTS_EXHAUSTED})


def notice(event: Event) -> tuple[Item, ...]:
    """What an event alone has to show."""
    match event.data:
        case SubagentEvent() as fact:
            return (_child(event, fact),)
        case WorkflowEvent() as fact:
            return (_workflow(event, fact),)
        case Status() | Plan() | ContextPressure() | SurfaceEvent() | HistoryCompaction() | SessionFork():
            return (_show(event, DisplayChannel.STATUS, _status(event)),)
        case (
            DialogOpened()
            | DialogAnswered()
            | DecisionUndelivered()
            | DialogClosed()
            | QueueGate()
            | PermissionDecision()
            | SessionOpened()
            | ChildEnded()
            | SessionDeleted()
            | TurnReply()
        ):
            return (_show(event, DisplayChannel.STATUS, sentence(event)),)
        case ProcessEvent(kind=kind, exit_reason=exit_reason):
            is_bad = exit_reason in _BAD_EXITS or kind in _BAD_NEWS
            channel = DisplayChannel.DIAGNOSTIC if is_bad else DisplayChannel.STATUS
            return (_show(event, channel, sentence(event)),)
        case Anomaly(kind=kind, message=message):
            return (diagnostic(event, f"{kind}: {message}"),)
        case ProviderUsage(truncation=truncation):
            cut = diagnostic(event, "the provider cut its own output; the text may be incomplete")
            return (cut,) if truncation is Truncation.TRUNCATED else ()
        case data if type(data) in SILENT:
            return ()
        case UnknownEvent(type=type_name):
            return (diagnostic(event, f"an event of type {type_name!r}, which this version does not know"),)
        case _:
            return (diagnostic(event, f"nothing is known of how to draw a {event.type}"),)


def diagnostic(event: Event, text: str) -> Show:
    """Something for whoever looks after the machine, and never an answer."""
    return _show(event, DisplayChannel.DIAGNOSTIC, text)


def _show(event: Event, channel: DisplayChannel, text: str) -> Show:
    return Show(channel=channel, turn_id=event.turn_id, seq=event.seq, text=text)


def _status(event: Event) -> str:
    match event.data:
        case Status(activity=activity, attention=attention):
            return activity.value if attention is Attention.NONE else f"{activity.value}, needs {attention.value}"
        case Plan(entries=entries):
            return "\n".join(f"[{entry.status.value}] {entry.text}" for entry in entries)
        case ContextPressure(tier=tier):
            return f"context pressure: {tier.value}"
        case HistoryCompaction(range=compacted):
            return f"events {compacted.from_seq}..{compacted.to_seq} are given to the model as a summary"
        case SessionFork(parent_session_id=parent):
            return f"forked from {parent}"
        case _:
            return sentence(event)


def _child(event: Event, fact: SubagentEvent) -> ShowTool:
    missing = missing_evidence(fact)
    is_unproven = fact.status is SubagentState.COMPLETED and missing
    label = f"says completed, without {', '.join(missing)}" if is_unproven else _CHILD_LABELS.get(fact.status, "")
    text = fact.summary or fact.reason
    return ShowTool(
        channel=DisplayChannel.TOOL,
        turn_id=event.turn_id,
        seq=event.seq,
        kind=ToolKind.SUBAGENT,
        id=fact.subagent_id,
        occurrence=fact.attempt,
        name=fact.agent or "subagent",
        status=ToolStatus.UNKNOWN if is_unproven else _CHILD[fact.status],
        label=label,
        asked=one_line(fact.task or None),
        text=shorten(text),
        text_length=len(text),
        child_session_id=fact.child_session_id,
        next_actions=fact.next_actions,
    )


def _workflow(event: Event, fact: WorkflowEvent) -> ShowTool:
    is_whole = fact.kind in (WorkflowEventKind.WORKFLOW_STARTED, WorkflowEventKind.WORKFLOW_FINISHED)
    if fact.kind is WorkflowEventKind.WORKFLOW_STARTED:
        status = ToolStatus.RUNNING
    elif is_whole:
        status = ToolStatus(workflow_outcome(fact.status).value)
    else:
        status = ToolStatus.UNKNOWN if fact.step_state is None else _STEP[fact.step_state]
    text = fact.question or fact.summary or fact.reason
    return ShowTool(
        channel=DisplayChannel.TOOL,
        turn_id=event.turn_id,
        seq=event.seq,
        kind=ToolKind.WORKFLOW if is_whole else ToolKind.STEP,
        id=fact.workflow_id if is_whole else f"{fact.workflow_id}/{fact.step_id}",
        name="workflow" if is_whole else fact.step_id or "step",
        status=status,
        label="" if is_whole else _step_label(fact),
        text=shorten(text),
        text_length=len(text),
        next_actions=fact.next_actions,
    )


def _step_label(fact: WorkflowEvent) -> str:
    """What is to be said of a step beside how it ended: what it asks, whose decision it was, what proves it."""
    if fact.question:
        return f"asks for a decision: {', '.join(fact.choices)}"
    if fact.decided_by and fact.step_state is not StepState.HELD:
        return f"decided by {one_line(fact.decided_by)}"
    proof = fact.checkpoint.get("proof") if isinstance(fact.checkpoint, dict) else None
    if fact.step_state is StepState.CHECKPOINT_READY and isinstance(proof, str):
        return one_line(proof)
    return _STEP_LABELS.get(fact.step_state, "") if fact.step_state is not None else ""
