"""One plain sentence for what an event says, for people who ask why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.vocabulary.ending_words import failure_words
from interlock.vocabulary.events.audit import (
    AgentSession,
    DecisionUndelivered,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
    RunState,
    SessionDeleted,
    SessionOpened,
    StreamCheckpoint,
    SurfaceEvent,
    TurnFailed,
    TurnReply,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import AssistantMessage, MessageSource, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import Attention

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
        case DialogOpened() | DialogAnswered() | DecisionUndelivered() | DialogClosed():
            return _question(event.data)
        case QueueGate(is_open=is_open, reason=reason):
            return "the queue goes on" if is_open else f"the queue is held: {excerpt(reason)}"
        case SessionOpened(agent=agent, driver=driver):
            return f"the session was opened for {agent}, driven by {driver}"
        case SessionDeleted(decided_by=who):
            return f"the session was put away by {excerpt(who)}" if who else "the session was put away"
        case AgentSession(native_session_id=name):
            return f"the agent calls its session {excerpt(name)}" if name else "the agent's own session id is of no use"
        case _:
            return f"a {event.type} was recorded"


def _question(told: DialogOpened | DialogAnswered | DecisionUndelivered | DialogClosed) -> str:
    match told:
        case DialogOpened(attention=attention, question=question):
            return f"the agent asks ({attention.value}): {excerpt(question)}"
        case DecisionUndelivered(reason=reason):
            return f"the decision did not reach the agent ({excerpt(reason)}); the question is open again"
        case DialogAnswered(option=option, text=text):
            return f"it was answered: {excerpt(option or text)}"
        case DialogClosed(outcome=outcome):
            return f"the question went away: {outcome.value}"


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
