"""A history without end, as a coding agent would write it: for benchmarks, and for tests that need length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.turns import fold_turns
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import ProviderUsage, RunState, TurnStarted
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId
from interlock.vocabulary.run import NATURAL_END, RunStatus
from interlock.vocabulary.states import DriverKind

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
