"""What each event says in one line, word for word: `why`, `logs` and the transcript print these sentences."""

from __future__ import annotations

from typing import Final

import pytest

from interlock.projections.sentences import EXCERPT_LENGTH, sentence
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import (
    AgentSession,
    DecisionUndelivered,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    EndedProcess,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
    RunState,
    SessionDeleted,
    SessionOpened,
    StreamCheckpoint,
    SurfaceEvent,
    TurnReply,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    ToolCall,
    ToolError,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, StreamId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus
from interlock.vocabulary.states import Activity, Attention, DriverKind, ExitReason

K: Final = ProcessEventKind
PROCESS: Final = {
    K.SPAWN_REQUESTED: "a process was requested",
    K.SPAWNED: "the process started",
    K.ADOPTED: "the running process was adopted",
    K.EXITED: "the process exited: crashed",
    K.STOP_REQUESTED: "a stop of the process was requested",
    K.SPAWN_FAILED: "the process could not be started",
    K.RELEASED: "the process was left running",
    K.RESTART_DUE: "a restart of the process is scheduled",
    K.RESTARTS_EXHAUSTED: "the process was restarted too often and is not restarted again",
    K.CENSUS: "the processes of the agent were counted",
}
CALL: Final = CallId("c1")
LEFT: Final = EndedProcess(pid=7, command="sh")


def run_state(status: RunStatus, **more: object) -> RunState:
    return RunState(run_id=RunId("r1"), status=status, **more)  # type: ignore[arg-type]


def said(text: str = "Done.", **metadata: object) -> AssistantMessage:
    return AssistantMessage(text=text, metadata=MessageMetadata(**metadata))  # type: ignore[arg-type]


def said_of(data: Payload) -> str:
    (event,) = Scribe().write(data, turn="t1")
    return sentence(event)


@pytest.mark.parametrize("kind", K)
def test_each_step_of_a_process_has_its_words(kind: ProcessEventKind) -> None:
    exit_reason = ExitReason.CRASHED if kind is K.EXITED else None
    assert said_of(ProcessEvent(kind=kind, exit_reason=exit_reason)) == PROCESS[kind]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ProcessEvent(kind=K.SPAWN_FAILED, message="no such file"), f"{PROCESS[K.SPAWN_FAILED]}: no such file"),
        (ProcessEvent(kind=K.CENSUS, ended=(LEFT,)), f"{PROCESS[K.CENSUS]}, and 1 process was ended"),
        (ProcessEvent(kind=K.CENSUS, ended=(LEFT, LEFT)), f"{PROCESS[K.CENSUS]}, and 2 processes were ended"),
        (UserMessage(text="do it"), "the prompt was accepted: 'do it'"),
        (UserMessage(text="x" * 81), f"the prompt was accepted: '{'x' * EXCERPT_LENGTH}...'"),
        (said(), "an answer: 'Done.'"),
        (said(" "), "an answer without any words"),
        (said("", source=MessageSource.NONE), "the agent finished; its answer text is not available"),
        (said(partial=True), "text that was cut short: 'Done.'"),
        (said(intermediate=True), "text before a tool call: 'Done.'"),
        (said(source=MessageSource.SURFACE), "an answer, read off the screen and unverified: 'Done.'"),
        (ToolCall(call_id=CALL, name="Bash"), "the agent asked for Bash (c1)"),
        (ToolResult(call_id=CALL, ok=True), "call c1 gave its output"),
        (ToolResult(call_id=CALL, ok=False, error=ToolError(kind="denied", message="no")), "call c1 failed: denied"),
        (TurnStarted(driver=DriverKind.STREAM, agent="claude"), "claude took the turn, driven by stream"),
        (TurnStarted(driver=DriverKind.MODEL), "an agent took the turn, driven by model"),
        (run_state(RunStatus.RUNNING), "the run is running"),
        (run_state(RunStatus.DONE, reason=NATURAL_END), "the run ended: natural"),
        (
            run_state(RunStatus.DONE, reason=CANCELLED, cancel_requested=True),
            "the run ended: cancelled, after a cancel was asked for",
        ),
        (
            StreamCheckpoint(stream_id=StreamId("s"), offset=5, text="Hello", attempt=2),
            "5 code points of the open stream were kept (attempt 2)",
        ),
        (TurnReply(kind="json", is_met=True, text="{}"), "the json reply is as the prompt asked for"),
        (
            TurnReply(kind="json", is_met=False, problem="no object"),
            "the json reply is not as the prompt asked for: 'no object'",
        ),
        (SurfaceEvent(activity=Activity.WORKING), "the terminal looked working"),
        (
            SurfaceEvent(activity=Activity.WORKING, attention=Attention.APPROVAL),
            "the terminal looked working, needs approval",
        ),
        (
            DialogOpened(dialog_id="d", question="Trust?", attention=Attention.APPROVAL),
            "the agent asks (approval): 'Trust?'",
        ),
        (DialogAnswered(dialog_id="d", option="Yes", text="so"), "it was answered: 'Yes'"),
        (DialogAnswered(dialog_id="d", text="so"), "it was answered: 'so'"),
        (
            DecisionUndelivered(target_id="d", reason="gone"),
            "the decision did not reach the agent ('gone'); the question is open again",
        ),
        (DialogClosed(dialog_id="d", outcome=DialogOutcome.WITHDRAWN), "the question went away: withdrawn"),
        (QueueGate(is_open=True), "the queue goes on"),
        (QueueGate(is_open=False, reason="a copy"), "the queue is held: 'a copy'"),
        (
            SessionOpened(agent="claude", driver="acp", kind=DriverKind.ACP),
            "the session was opened for claude, driven by acp",
        ),
        (SessionDeleted(), "the session was archived"),
        (SessionDeleted(decided_by="me"), "the session was archived by 'me'"),
        (AgentSession(native_session_id="n1"), "the agent calls its session 'n1'"),
        (AgentSession(native_session_id=""), "the agent's own session id is of no use"),
    ],
)
def test_an_event_is_told_word_for_word(data: Payload, words: str) -> None:
    assert said_of(data) == words
