"""Write event histories by hand: ids, sequence numbers and times are counted, so that a history reads the same twice.

scribe = Scribe()
scribe.write(UserMessage(text="hello"), turn="t1")
assert scribe.events[0].seq == 1
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.turns import fold_turns
from interlock.vocabulary.events.audit import ProviderUsage, RunState, TurnStarted
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId, SpawnId, TurnId, new_event_id
from interlock.vocabulary.run import NATURAL_END, RunStatus
from interlock.vocabulary.states import DriverKind

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Scribe:
    """A growing history of one session, one event a second."""

    def __init__(self, session: str = "ses_scribe") -> None:
        self.session = SessionId(session)
        self.events: list[Event] = []

    def write(self, *payloads: Payload, turn: str | None = None, spawn: str | None = None) -> list[Event]:
        """Stamp and keep one event for each payload, and return the new ones."""
        first = len(self.events) + 1
        new = [self._stamp(payload, seq, turn, spawn) for seq, payload in enumerate(payloads, start=first)]
        self.events += new
        return new

    def _stamp(self, payload: Payload, seq: int, turn: str | None, spawn: str | None) -> Event:
        at = EPOCH + timedelta(seconds=seq)
        return new_event(
            payload,
            id=new_event_id(int(at.timestamp() * 1000), seq.to_bytes(10, "big")),
            session_id=self.session,
            seq=seq,
            ts=at,
            turn_id=None if turn is None else TurnId(turn),
            spawn_id=None if spawn is None else SpawnId(spawn),
        )


# A history without end, as a coding agent would write it: for benchmarks, and for tests that need length.

TOOL_ROUNDS = 4


def endless_history(session: str = "ses_long") -> Iterator[Event]:
    """Turn after turn: a prompt, four tool rounds with text and usage, an answer, closed as the runtime closes it."""
    scribe = Scribe(session)
    for number in count():
        turn, run_id = f"trn_{number}", RunId(f"run_{number}")
        events = scribe.write(*_work(run_id), turn=turn)
        (facts,) = fold_turns(events).turns.values()
        ending = Ending(run_id=run_id, reason=NATURAL_END, text="It returned the wrong number; fixed.")
        yield from events
        yield from scribe.write(*closing_batch(facts, ending), turn=turn)


def _work(run_id: RunId) -> Iterator[Payload]:
    yield UserMessage(text="make the test pass")
    yield TurnStarted(driver=DriverKind.STREAM)
    yield RunState(run_id=run_id, status=RunStatus.RUNNING)
    for call in range(TOOL_ROUNDS):
        call_id = CallId(f"call_{call}")
        yield AssistantMessage(text="I will look at the file.", metadata=MessageMetadata(intermediate=True))
        yield ToolCall(call_id=call_id, name="read", args={"path": "src/module.py", "limit": 200})
        yield ToolResult(call_id=call_id, ok=True, output="def answer() -> int:\n    return 42\n" * 4)
        yield ProviderUsage(model="m", input_tokens=1200, output_tokens=80)
