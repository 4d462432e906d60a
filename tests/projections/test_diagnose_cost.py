"""`diagnose` is one pass: twice the log, twice the work. Work is counted in lines that run, which no load changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

import pytest

from interlock.projections.checks.diagnose import diagnose
from interlock.vocabulary.events.audit import (
    PendingCall,
    ProcessEvent,
    ProcessEventKind,
    Suspension,
    SuspensionTicket,
    ToolCallSuspended,
    WorkflowEvent,
    WorkflowEventKind,
)
from interlock.vocabulary.events.conversation import SubagentEvent, ToolCall, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import CallId, StepId, SubagentId, WorkflowId
from interlock.vocabulary.states import ExitReason, StepState, SubagentState
from tests.projections.histories import Story

if TYPE_CHECKING:
    from _typeshed import TraceFunction

SMALL, FACTOR, MORE_THAN_TWICE = 40, 2, 2.3


class LineCount:
    """Counts the lines of Python that run inside its block."""

    def __init__(self) -> None:
        self.lines = 0

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, arg: object) -> TraceFunction:
        self.lines += event == "line"
        return self._trace


def cost_of(events: list[Event], *, owner_alive: bool) -> int:
    with LineCount() as count:
        diagnose(events, owner_alive=owner_alive)
    return count.lines


def open_turns(size: int) -> list[Event]:
    """Turns that ask and have no end; processes come and go beside them."""
    story = Story()
    for number in range(size):
        name = f"t{number}"
        story.begin(name)
        call = ToolCall(call_id=CallId(f"c{number}"), name="read")
        ticket = SuspensionTicket(
            suspension=Suspension(id=f"susp_{number}", action="tool:read", message="May I?"),
            pending=PendingCall(id=f"p{number}", name="read"),
        )
        story.tell(call, ToolCallSuspended(call_id=call.call_id, name="read", ticket=ticket), turn=name)
        story.write(ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CLEAN), spawn=f"other{number}")
    return story.events


def waits(size: int) -> list[Event]:
    """Children, and after each a wait that names none."""
    story = Story()
    story.begin()
    for number in range(size):
        wait = ToolCall(call_id=CallId(f"w{number}"), name="wait_agent")
        story.tell(SubagentEvent(subagent_id=SubagentId(f"sub_{number}"), status=SubagentState.QUEUED), wait)
        story.tell(ToolResult(call_id=wait.call_id, ok=True, output={"status": "incomplete"}))
    return story.events


def steps(size: int) -> list[Event]:
    """One workflow with many steps, each run by the same child."""
    story = Story()
    story.begin()
    child, plan = SubagentId("sub_1"), WorkflowId("wf_1")
    for number in range(size):
        step = StepId(f"step_{number}")
        story.tell(SubagentEvent(subagent_id=child, status=SubagentState.QUEUED, attempt=number + 1))
        told = WorkflowEvent(
            kind=WorkflowEventKind.CHECKPOINT_DECIDED,
            workflow_id=plan,
            step_id=step,
            step_state=StepState.PARTIAL,
            subagent_id=child,
            summary="half",
        )
        story.tell(told)
    return story.events


@pytest.mark.parametrize("history", [open_turns, waits, steps])
@pytest.mark.parametrize("owner_alive", [True, False])
def test_twice_the_log_is_twice_the_work(history: Callable[[int], list[Event]], *, owner_alive: bool) -> None:
    small, large = history(SMALL), history(FACTOR * SMALL)
    one, two = (cost_of(events, owner_alive=owner_alive) for events in (small, large))
    assert two <= MORE_THAN_TWICE * one, f"{len(small)} events: {one} lines, {len(large)} events: {two}"
