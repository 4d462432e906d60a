"""One plain sentence for what an event says, for people who ask why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.projections.task.worktree import worktree_sentence
from interlock.vocabulary.ending_words import failure_words
from interlock.vocabulary.events.audit import (
    AgentSession,
    ChildEnded,
    DecisionUndelivered,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    PermissionDecision,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
    RunState,
    SessionDeleted,
    SessionOpened,
    SessionRenamed,
    SessionSeen,
    StreamCheckpoint,
    SurfaceEvent,
    TurnFailed,
    TurnReply,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import AssistantMessage, MessageSource, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.workspace import (
    FileReviewAct,
    FileReviewed,
    WorkspaceChanged,
    WorkspacePhase,
    WorktreeChanged,
)
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import Attention, SubagentState

EXCERPT_LENGTH: Final = 80
_PROCESS: Final[Mapping[ProcessEventKind, str]] = {
    ProcessEventKind.SPAWN_REQUESTED: "a process was requested",
    ProcessEventKind.SPAWNED: "the process started",
    ProcessEventKind.ADOPTED: "the running process was adopted",
    ProcessEventKind.EXITED: "the process exited",
    ProcessEventKind.STOP_REQUESTED: "a stop of the process was requested",
    ProcessEventKind.SPAWN_FAILED: "the process could not be started",
    ProcessEventKind.RELEASED: "the process was left running",
    ProcessEventKind.RESTART_DUE: "a restart of the process is scheduled",
    ProcessEventKind.RESTARTS_EXHAUSTED: "the process was restarted too often and is not restarted again",
    ProcessEventKind.CENSUS: "the processes of the agent were counted",
}
_REVIEWED: Final[Mapping[FileReviewAct, str]] = {
    FileReviewAct.ACCEPTED: "was accepted",
    FileReviewAct.SENT_BACK: "was sent back",
    FileReviewAct.DISCARDING: "is about to be discarded",
    FileReviewAct.DISCARDED: "was discarded: the file is as it was before the turn",
    FileReviewAct.KEPT: "was not discarded after all",
}


def sentence(event: Event) -> str:
    """What an event says, in one line. Text that comes from outside is quoted and cut, and not escaped."""
    match event.data:
        case UserMessage(text=text):
            return f"the prompt was accepted: {excerpt(text)}"
        case AssistantMessage() as message:
            return _message(message)
        case ToolCall(call_id=call_id, name=name):
            return f"the agent asked for {name} ({call_id})"
        case ToolResult() as result:
            how = "gave its output" if result.error is None else f"failed: {result.error.kind}"
            return f"call {result.call_id} {'was repaired' if result.synthetic else how}"
        case TurnStarted(driver=driver, agent=agent):
            return f"{agent or 'an agent'} took the turn, driven by {driver.value}"
        case TurnFailed() as failed:
            state, kind = failed.terminal_status.value, failed.error_kind
            return f"the turn was recorded as {failure_words(state, kind, failed.error_message, failed.details)}"
        case RunState() as run:
            return _run(run)
        case StreamCheckpoint(offset=offset, attempt=attempt):
            return f"{offset} code points of the open stream were kept (attempt {attempt})"
        case _:
            return _watched(event)


def _watched(event: Event) -> str:
    match event.data:
        case ProcessEvent() as told:
            return _process(told)
        case TurnReply(kind=kind, is_met=is_met, problem=problem):
            said = "as the prompt asked for" if is_met else f"not as the prompt asked for: {excerpt(problem)}"
            return f"the {kind} reply is {said}"
        case SurfaceEvent(ended=ended) if ended is not None:
            by = f", reported by {ended.observer.replace('_', ' ')}" if ended.basis == "completion_observer" else ""
            return f"the terminal showed the end of the turn: {ended.result}{by}"
        case SurfaceEvent(activity=activity, attention=attention):
            needs = "" if attention is Attention.NONE else f", needs {attention.value}"
            return f"the terminal looked {activity.value}{needs}"
        case DialogOpened() | DialogAnswered() | DecisionUndelivered() | DialogClosed() | PermissionDecision():
            return _question(event.data)
        case QueueGate(is_open=is_open, reason=reason):
            return "the queue goes on" if is_open else f"the queue is held: {excerpt(reason)}"
        case SessionOpened(agent=agent, driver=driver, parent_id=parent):
            child = "" if parent is None else f", as a child of {parent}"
            return f"the session was opened for {agent}, driven by {driver}{child}"
        case SessionDeleted(decided_by=who) | SessionSeen(seen_by=who) | SessionRenamed(decided_by=who) as done:
            return f"{_done(done)} by {excerpt(who)}" if who else _done(done)
        case AgentSession(native_session_id=name):
            return f"the agent calls its session {excerpt(name)}" if name else "the agent's own session id is of no use"
        case _:
            return _recorded(event)


def _recorded(event: Event) -> str:
    if isinstance(event.data, ChildEnded):
        return _ended_by_parent(event.data)
    if isinstance(event.data, WorkspaceChanged):
        return _workspace(event.data)
    if isinstance(event.data, WorktreeChanged):
        return worktree_sentence(event.data)
    if isinstance(event.data, FileReviewed):
        return _review(event.data)
    return f"a {event.type} was recorded"


def _workspace(told: WorkspaceChanged) -> str:
    edge = "began" if told.phase is WorkspacePhase.START else "ended"
    if told.manifest:
        return f"{told.file_count} files changed in the turn, by their hashes: the folder is in no git repository"
    if not told.tree:
        return f"the files when the turn {edge} are not known: {excerpt(told.problem)}"
    since = (
        "" if not told.base else f": {told.file_count} changed since the tree before (+{told.added} -{told.removed})"
    )
    return f"the files when the turn {edge} were kept{since}"


def _review(told: FileReviewed) -> str:
    by = f" by {excerpt(told.decided_by)}" if told.decided_by else ""
    why = f": {excerpt(told.problem)}" if told.problem else ""
    return f"the change of {excerpt(told.path)} {_REVIEWED[told.act]}{by}{why}"


def _ended_by_parent(told: ChildEnded) -> str:
    seconds = "" if told.timeout_ms is None else f" of {told.timeout_ms / 1000:g} s"
    if told.status is SubagentState.TIMED_OUT:
        return f"its time as a child{seconds} was over: {told.parent_session_id} ended it"
    return f"its parent {told.parent_session_id} ended it: {excerpt(told.reason)}"


def _done(told: SessionDeleted | SessionSeen | SessionRenamed) -> str:
    match told:
        case SessionDeleted():
            return "the session was archived"
        case SessionSeen():
            return "the end of the turn was seen"
        case SessionRenamed(title=title):
            return f"the session was renamed to {excerpt(title)}"


def _question(told: DialogOpened | DialogAnswered | DecisionUndelivered | DialogClosed | PermissionDecision) -> str:
    match told:
        case PermissionDecision():
            return _by_rule(told)
        case DialogOpened(attention=attention, question=question):
            return f"the agent asks ({attention.value}): {excerpt(question)}"
        case DecisionUndelivered(reason=reason):
            return f"the decision did not reach the agent ({excerpt(reason)}); the question is open again"
        case DialogAnswered(option=option, text=text):
            return f"it was answered: {excerpt(option or text)}"
        case DialogClosed(outcome=outcome):
            return f"the question went away: {outcome.value}"


def _by_rule(decided: PermissionDecision) -> str:
    said = {"allow": "allowed", "deny": "denied", "ask": "left open"}[decided.decision.value]
    file = f" of {decided.file} ({decided.file_digest[:12]})" if decided.file else ""
    words = "; ".join(" ".join(one.words) for one in decided.commands)
    return (
        f"rule {decided.rule or 'unknown'}{file} {said} call {decided.call_id}{f': {excerpt(words)}' if words else ''}"
    )


def _process(told: ProcessEvent) -> str:
    how = told.exit_reason.value if told.exit_reason is not None else told.message
    count = len(told.ended)
    ended = f", and {count} {'process was' if count == 1 else 'processes were'} ended" if count else ""
    return f"{_PROCESS[told.kind]}{f': {how}' if how else ''}{ended}"


def _message(message: AssistantMessage) -> str:
    if message.metadata.source is MessageSource.NONE:
        return "the agent finished; its answer text is not available"
    if message.is_blank:
        return "an answer without any words"
    kind = "an answer"
    if message.metadata.partial:
        kind = "text that was cut short"
    elif message.metadata.intermediate:
        kind = "text before a tool call"
    unverified = "" if message.is_verified else ", read off the screen and unverified"
    return f"{kind}{unverified}: {excerpt(message.text)}"


def _run(run: RunState) -> str:
    done_reason = run.reason.to_run_status()[1] if run.reason is not None else None
    asked = ", after a cancel was asked for" if run.cancel_requested else ""
    if run.status is not RunStatus.DONE:
        return f"the run is {run.status.value}{asked}"
    said = run.reason.value if run.reason is not None and isinstance(run.reason.value, str) else ""
    return f"the run ended: {done_reason}{f' ({excerpt(said)})' if said else ''}{asked}"


def excerpt(text: str) -> str:
    """The beginning of a text, in quotation marks."""
    return repr(text if len(text) <= EXCERPT_LENGTH else text[:EXCERPT_LENGTH] + "...")
