"""Histories that the real machines write: closing batches, children and workflows, one event after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from interlock.lifecycle.children import subagent, workflow
from interlock.lifecycle.children.subagent import ChildFinished, SubagentRecord, queue_child
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.lifecycle.children.workflow_step import StartStep, StepReported, step_evidence_from_child
from interlock.lifecycle.closing import Ending, abandoned_ending, closing_batch
from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import fold_turns
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.events.audit import (
    PendingCall,
    ProcessEvent,
    ProcessEventKind,
    ProviderUsage,
    RunState,
    StreamCheckpoint,
    Suspension,
    SuspensionTicket,
    ToolCallSuspended,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId, StepId, StreamId, SubagentId, TurnId, WorkflowId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind, ExitReason, TurnState

ANSWER: Final = "The answer is 42."
PARTIAL: Final = "The answer is"
ERROR: Final = "The line went dead."
LATER: Final = EPOCH + timedelta(hours=1)
"""When a history is diagnosed: long after its last event, so that whatever is left open is overdue."""

NETWORK: Final = TerminationReason.error(ERROR)
TIMEOUT: Final = TerminationReason.stopped("timeout")
CALL: Final = ToolCall(call_id=CallId("c1"), name="read", args={"path": "a.txt"})
RESULT: Final = ToolResult(call_id=CallId("c1"), ok=True, output="words")


class Story(Scribe):
    """A history that is told turn by turn. Every turn has a run of its own."""

    def begin(self, turn: str = "t1", *, driver: DriverKind = DriverKind.MODEL, spawn: str | None = "s1") -> None:
        self.write(UserMessage(text=f"the prompt of {turn}"), turn=turn)
        self.write(TurnStarted(driver=driver), turn=turn, spawn=spawn)
        self.tell(RunState(run_id=_run(turn), status=RunStatus.RUNNING), turn=turn)

    def tell(self, *payloads: Payload, turn: str = "t1") -> None:
        """What the owner of a turn records."""
        self.write(*payloads, turn=turn, spawn="s1")

    def use_a_tool(self, turn: str = "t1") -> None:
        looks = AssistantMessage(text="Let me look.", metadata=MessageMetadata(intermediate=True))
        self.tell(looks, CALL, RESULT, ProviderUsage(model="m", input_tokens=7), turn=turn)

    def facts(self, turn: str = "t1") -> TurnFacts:
        return fold_turns(self.events).turns[self.session, TurnId(turn)]

    def end(self, reason: TerminationReason, *, turn: str = "t1", **more: object) -> None:
        """Close a turn by the batch that the runtime would write."""
        ending = Ending(run_id=_run(turn), reason=reason, **more)  # type: ignore[arg-type]
        self.tell(*closing_batch(self.facts(turn), ending), turn=turn)

    def clock(self) -> datetime:
        return EPOCH + timedelta(seconds=len(self.events))


def _run(turn: str) -> RunId:
    return RunId(f"run_{turn}")


def checkpoint(text: str) -> StreamCheckpoint:
    return StreamCheckpoint(stream_id=StreamId("st1"), offset=len(text), text=text)


def clean() -> Story:
    story = Story()
    story.begin()
    story.use_a_tool()
    story.end(NATURAL_END, text=ANSWER)
    return story


def error_after_text() -> Story:
    story = Story()
    story.begin()
    story.use_a_tool()
    story.tell(checkpoint(PARTIAL))
    story.end(NETWORK, text=PARTIAL, error_kind="network", error_message=ERROR)
    return story


def error_before_text() -> Story:
    story = Story()
    story.begin()
    story.end(NETWORK, error_kind="network", error_message=ERROR)
    return story


def interrupted() -> Story:
    story = Story()
    story.begin()
    story.tell(CALL, checkpoint(PARTIAL))
    story.end(CANCELLED, text=PARTIAL, error_message="stopped by the operator")
    return story


def timed_out() -> Story:
    story = Story()
    story.begin()
    story.use_a_tool()
    story.tell(checkpoint(PARTIAL))
    story.end(TIMEOUT, text=PARTIAL, budget_seconds=60.0, elapsed_seconds=61.5)
    return story


def empty_answer() -> Story:
    story = Story()
    story.begin()
    story.use_a_tool()
    story.end(NATURAL_END, text=" \n")
    return story


def abandoned() -> Story:
    story = Story()
    story.begin()
    story.tell(CALL, checkpoint(PARTIAL))
    return story


def recovered() -> Story:
    story = abandoned()
    facts = story.facts()
    ending = abandoned_ending(facts, _run("t1"), "the runtime died")
    story.tell(*closing_batch(facts, ending))
    return story


def waiting() -> Story:
    story = Story()
    story.begin()
    ticket = SuspensionTicket(
        suspension=Suspension(id="susp_1", action="tool:read", message="May I?"),
        pending=PendingCall(id="p1", name="read"),
    )
    story.tell(CALL, ToolCallSuspended(call_id=CALL.call_id, name="read", ticket=ticket))
    story.tell(RunState(run_id=_run("t1"), status=RunStatus.WAITING, reason=SUSPENDED))
    return story


def terminal_without_text() -> Story:
    story = Story()
    story.begin(driver=DriverKind.TERMINAL)
    story.end(NATURAL_END, source=MessageSource.NONE)
    exited = ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CLEAN, exit_code=0)
    story.write(exited, spawn="s1")
    return story


def failed_then_clean() -> Story:
    story = error_after_text()
    story.begin("t2")
    story.use_a_tool("t2")
    story.end(NATURAL_END, turn="t2", text=ANSWER)
    return story


CHECKPOINT: Final[Json] = {"status": "checkpoint_ready", "summary": "all done"}


def _child(story: Story, name: str, *inputs: subagent.SubagentInput, checkpoint: Json = None) -> SubagentRecord:
    child = queue_child(SubagentId(name), agent="reviewer", task="review", timeout_ms=60_000, model_visible=True)
    story.tell(child.fact)
    finished = ChildFinished(1, "looks good", checkpoint)
    for given in inputs or (subagent.StartChild(SessionId(f"ses_{name}")), finished):
        child, outputs = subagent.step(child, given, _at(story, given))
        story.tell(*outputs)
    return child


def _at(story: Story, given: subagent.SubagentInput) -> datetime:
    return story.clock() + timedelta(seconds=90 if isinstance(given, subagent.SubagentTimerFired) else 0)


def _wait(story: Story, status: str, tell: Callable[[], object]) -> None:
    wait = ToolCall(call_id=CallId("w1"), name="wait_agent", args={"subagent_ids": ["sub_1"]})
    story.tell(wait)
    tell()
    story.tell(ToolResult(call_id=wait.call_id, ok=True, output={"status": status}))


def child_completed() -> Story:
    story = Story()
    story.begin()
    _wait(story, "completed", lambda: _child(story, "sub_1"))
    story.end(NATURAL_END, text=ANSWER)
    return story


def child_timed_out() -> Story:
    story = Story()
    story.begin()
    inputs = (subagent.StartChild(SessionId("ses_sub_1")), subagent.SubagentTimerFired())
    _wait(story, "partial", lambda: _child(story, "sub_1", *inputs))
    story.end(NATURAL_END, text=ANSWER)
    return story


def _workflow(second: Json, status: str) -> Story:
    """Two steps and one that needs them both; `second` is the checkpoint of the second."""
    story = Story()
    story.begin()
    run = ToolCall(call_id=CallId("f1"), name="run_workflow")
    story.tell(run)
    steps = tuple(StepSpec(id=StepId(name), task=f"do {name}") for name in "ab")
    last = StepSpec(id=StepId("c"), task="do c", depends_on=(StepId("a"), StepId("b")))
    record, started = workflow.begin(WorkflowSpec(id=WorkflowId("wf_1"), steps=(*steps, last)), story.clock())
    story.tell(*started)
    for step_id, shown in zip("abc", (CHECKPOINT, second, CHECKPOINT), strict=True):
        if record.is_terminal:
            break
        name = SubagentId(f"sub_{step_id}")
        record, outputs = workflow.step(record, StartStep(StepId(step_id), name), story.clock())
        story.tell(*outputs)
        evidence = step_evidence_from_child(_child(story, name, checkpoint=shown).fact)
        assert evidence is not None
        record, outputs = workflow.step(record, StepReported(StepId(step_id), name, evidence), story.clock())
        story.tell(*outputs)
    assert record.is_terminal
    story.tell(ToolResult(call_id=run.call_id, ok=True, output={"status": status, "ok": status == "completed"}))
    story.end(NATURAL_END, text=ANSWER)
    return story


def workflow_completed() -> Story:
    return _workflow(CHECKPOINT, "completed")


def workflow_partial() -> Story:
    return _workflow({"summary": "only half"}, "partial")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a history must be read as, by every reader."""

    tell: Callable[[], Story]
    state: TurnState
    answers: tuple[str, ...] = ()
    owner_alive: bool = True
    status: str = "ready_with_warnings"
    settles_as: TurnState | None = None

    @property
    def events(self) -> list[Event]:
        return self.tell().events


CASES: Final = {
    "clean": Expected(clean, TurnState.COMPLETED, (ANSWER,), status="ready"),
    "error_after_text": Expected(error_after_text, TurnState.PARTIAL_FAILED),
    "error_before_text": Expected(error_before_text, TurnState.FAILED),
    "interrupted": Expected(interrupted, TurnState.INTERRUPTED),
    "timed_out": Expected(timed_out, TurnState.TIMED_OUT),
    "empty_answer": Expected(empty_answer, TurnState.FAILED),
    "abandoned": Expected(abandoned, TurnState.ABANDONED, owner_alive=False, settles_as=TurnState.PARTIAL_FAILED),
    "recovered": Expected(recovered, TurnState.PARTIAL_FAILED),
    "waiting": Expected(waiting, TurnState.WAITING),
    "terminal_without_text": Expected(terminal_without_text, TurnState.COMPLETED, status="ready"),
    "failed_then_clean": Expected(failed_then_clean, TurnState.COMPLETED, (ANSWER,)),
    "child_completed": Expected(child_completed, TurnState.COMPLETED, (ANSWER,), status="ready"),
    "child_timed_out": Expected(child_timed_out, TurnState.COMPLETED, (ANSWER,)),
    "workflow_completed": Expected(workflow_completed, TurnState.COMPLETED, (ANSWER,), status="ready"),
    "workflow_partial": Expected(workflow_partial, TurnState.COMPLETED, (ANSWER,)),
}
