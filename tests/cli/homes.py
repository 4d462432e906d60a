"""Homes with sessions in them, written by the real store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import apsw

from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.turns import fold_turns
from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.store import SqliteLog
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import Anomaly, ProviderUsage, RunState, StreamCheckpoint, TurnStarted
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    Reasoning,
    SubagentEvent,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.ids import CallId, RunId, StreamId, SubagentId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, StopCode, TerminationReason
from interlock.vocabulary.states import DriverKind, SubagentState
from tests.cli.harness import interlock

# A title change, colours, a cursor move, a bell, a C1 sequence introducer, a right-to-left override, a carriage return.
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x1b[2J\x9b31m\u202egnp.exe\r\nfake: completed"
ENDINGS = {
    "completed": (NATURAL_END, "Fixed: the clock was read twice."),
    "partial_failed": (TerminationReason.error("connection reset"), "Fixed: the"),
    "failed": (TerminationReason.error("connection reset"), ""),
    "interrupted": (CANCELLED, "Looking at"),
    "timed_out": (TerminationReason.stopped(StopCode.TIMEOUT), "Still"),
}
STATES = {**dict.fromkeys(ENDINGS), "waiting": None, "abandoned": None}


def begin_turn(scribe: Scribe, turn: str, prompt: str = "Fix the failing test") -> None:
    start = RunState(run_id=RunId(f"run_{turn}"), status=RunStatus.RUNNING)
    scribe.write(UserMessage(text=prompt), TurnStarted(driver=DriverKind.STREAM, agent="codex"), start, turn=turn)


def end_turn(scribe: Scribe, turn: str, state: str = "completed", text: str | None = None) -> None:
    """End a turn by the batch that the runtime would write."""
    reason, words = ENDINGS[state]
    if text is not None and state == "partial_failed":
        reason = TerminationReason.error(text)
    told = (event for event in scribe.events if event.turn_id == turn)
    facts = fold_turns(told).turns[scribe.session, TurnId(turn)]
    answer = words if text is None else text
    ending = Ending(
        run_id=RunId(f"run_{turn}"), reason=reason, text=answer, budget_seconds=600.0, elapsed_seconds=600.4
    )
    scribe.write(*closing_batch(facts, ending), turn=turn)


def tool_round(scribe: Scribe, turn: str, call_id: str = "call_1") -> None:
    call = ToolCall(call_id=CallId(call_id), name="shell", args={"command": "pytest -q"})
    scribe.write(call, ToolResult(call_id=CallId(call_id), ok=True, output="1 failed"), turn=turn)


def whole_turns(session: str, count: int, state: str = "completed") -> Scribe:
    """Turns `t1`, `t2` and so on, each with one tool round, all of which end alike."""
    scribe = Scribe(session)
    for number in range(1, count + 1):
        begin_turn(scribe, f"t{number}", f"prompt {number}")
        tool_round(scribe, f"t{number}")
        end_turn(scribe, f"t{number}", state)
    return scribe


def standing(session: str, state: str) -> Scribe:
    """A session of one turn, `t1`, that stands so."""
    scribe = Scribe(session)
    begin_turn(scribe, "t1")
    if state in ENDINGS:
        end_turn(scribe, "t1", state)
    elif state == "waiting":
        scribe.write(ToolCall(call_id=CallId("call_1"), name="shell"), turn="t1")
        scribe.write(RunState(run_id=RunId("run_t1"), status=RunStatus.WAITING, reason=SUSPENDED), turn="t1")
    else:
        scribe.write(StreamCheckpoint(stream_id=StreamId("str_1"), offset=4, text="half"), turn="t1")
    return scribe


def unpaired(session: str = "ses_unpaired") -> Scribe:
    """A turn that claims a clean end while a tool never came back."""
    scribe = Scribe(session)
    begin_turn(scribe, "t1")
    done = RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END)
    scribe.write(ToolCall(call_id=CallId("call_1"), name="shell"), AssistantMessage(text="Fixed."), done, turn="t1")
    return scribe


def hostile(session: str = "ses_hostile") -> Scribe:
    """Every free text that an agent can fill, filled with control sequences."""
    scribe = Scribe(session)
    begin_turn(scribe, "t1", HOSTILE)
    scribe.write(
        Reasoning(item={"text": HOSTILE}, model="m"),
        ToolCall(call_id=CallId(f"call{HOSTILE}"), name=f"shell{HOSTILE}", args={HOSTILE: HOSTILE}),
        ToolResult(call_id=CallId(f"call{HOSTILE}"), ok=True, output=HOSTILE),
        Anomaly(kind=f"odd{HOSTILE}", message=HOSTILE),
        ProviderUsage(model=HOSTILE),
        SubagentEvent(subagent_id=SubagentId(HOSTILE), status=SubagentState.FAILED, reason=HOSTILE, model_visible=True),
        turn="t1",
    )
    end_turn(scribe, "t1", "partial_failed", HOSTILE)
    begin_turn(scribe, "t2", HOSTILE)
    end_turn(scribe, "t2", "completed", HOSTILE)
    return scribe


def make_home(home: Path, *scribes: Scribe) -> Path:
    """Append each history, and return the home."""

    async def fill() -> None:
        async with await SqliteLog.open(home) as log:
            for scribe in scribes:
                await log.append(scribe.session, scribe.events)

    asyncio.run(fill())
    return home


def change(home: Path, sql: str, values: Iterable[object] = ()) -> None:
    """Edit the database behind the store's back."""
    connection = apsw.Connection(str(home / DATABASE_NAME))
    connection.execute(sql, tuple(values))
    connection.close()


def damage(home: Path, session: str, seq: int) -> None:
    """Change one letter of a stored event, so that the line is still JSON and its digest no longer follows."""
    change(
        home,
        "UPDATE events SET line = CAST(replace(CAST(line AS TEXT), '2026', '2027') AS BLOB) "
        "WHERE session_id = ? AND seq = ?",
        (session, seq),
    )


class Done(NamedTuple):
    """What became of one command line."""

    command: str
    code: int
    out: str
    err: str


def run_many(commands: Iterable[str], home: Path) -> list[Done]:
    """Run command lines one after the other in one other process: as `interlock` does, for the price of one start."""
    done = interlock(*commands, env={"INTERLOCK_HOME": str(home)}, prepare="tests.cli.many:run")
    assert done.returncode == 0, done.stderr
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]
