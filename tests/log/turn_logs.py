"""Random sessions with turns that overtake each other, speak late, have no ids, and lose their processes."""

from __future__ import annotations

import random
from typing import Final

from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import (
    ProcessEvent,
    ProcessEventKind,
    RunState,
    StreamCheckpoint,
    SurfaceEvent,
    TurnFailed,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    SubagentEvent,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId, StreamId, SubagentId
from interlock.vocabulary.run import ReasonType, RunStatus, TerminationReason
from interlock.vocabulary.states import Activity, DriverKind, ExitReason, SubagentState, TurnState

_NATURAL: Final = TerminationReason(ReasonType.NATURAL_END)


def payload(chance: random.Random) -> Payload:
    """One of the payloads that decide about turns, or one that does not."""
    call, run = CallId(f"c{chance.randint(1, 3)}"), RunId(f"r{chance.randint(1, 2)}")
    made: list[Payload] = [
        UserMessage(text="do it"),
        AssistantMessage(text="done"),
        AssistantMessage(text="half", metadata=MessageMetadata(partial=True)),
        ToolCall(call_id=call, name="Bash", args={}),
        ToolResult(call_id=call, ok=True, output="ok"),
        StreamCheckpoint(stream_id=StreamId("s"), offset=1, text="h"),
        TurnStarted(driver=chance.choice([DriverKind.STREAM, DriverKind.TERMINAL])),
        TurnFailed(terminal_status=TurnState.FAILED, error_kind="crash", error_message="it ended"),
        RunState(run_id=run, status=RunStatus.RUNNING),
        RunState(run_id=run, status=RunStatus.DONE, reason=_NATURAL),
        SurfaceEvent(activity=Activity.WORKING, rows="x"),
        ProcessEvent(kind=ProcessEventKind.SPAWNED, pid=4, where={"pane": "%1"}),
        ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CRASHED),
        SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.RUNNING, child_session_id=SessionId("c")),
    ]
    return chance.choice(made)


def random_session(chance: random.Random, session: str, size: int) -> list[Event]:
    """Mostly the newest turn speaks; now and then an older one does, or none is named, or a new one begins."""
    scribe, turns = Scribe(session), 0
    for _ in range(size):
        if turns == 0 or chance.random() < 0.15:
            turns += 1
        late = chance.random() < 0.25
        turn = None if chance.random() < 0.2 else f"t{chance.randint(1, turns) if late else turns}"
        spawn = chance.choice([None, None, "s1", "s2"])
        scribe.write(payload(chance), turn=turn, spawn=spawn)
    return scribe.events
