"""Histories in which a badge has something to say: questions open, answered, lost on their way and closed, crashes,
prompts held back, and every way in which a turn ends. Times are given when a history is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Final, TypeAlias

from hypothesis import strategies as st

from interlock.lifecycle.task_status import has_open_turn
from interlock.projections.badge import ANSWER_ON_ITS_WAY
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DecisionUndelivered,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    PendingCall,
    ProcessEvent,
    ProcessEventKind,
    QueueEvent,
    QueueEventKind,
    QueueGate,
    RunState,
    SessionDeleted,
    SessionOpened,
    Suspension,
    SuspensionTicket,
    ToolCallDecided,
    ToolCallSuspended,
    TurnFailed,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import CallId, EventId, PromptId, RunId, SessionId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import Activity, AgentState, Attention, DriverKind, ExitReason, TaskStatus, TurnState
from interlock.vocabulary.wire.frames import TaskSummary

Scene: TypeAlias = tuple[str, str]
Step: TypeAlias = Event | bool

ASKS: Final = tuple(one for one in Attention if one not in (Attention.NONE, Attention.HELD))
ENDS: Final = {
    TurnState.COMPLETED: NATURAL_END,
    TurnState.PARTIAL_FAILED: TerminationReason.error("it broke"),
    TurnState.FAILED: TerminationReason.error("it broke"),
    TurnState.INTERRUPTED: CANCELLED,
    TurnState.TIMED_OUT: TerminationReason.stopped("timeout"),
}
SCENES: Final = st.one_of(
    st.tuples(st.just("prompt"), st.just("")),
    st.tuples(st.sampled_from(["ask", "seen"]), st.sampled_from([one.value for one in ASKS])),
    st.tuples(st.sampled_from(["ask tool", "answer", "answer", "lost", "close"]), st.just("")),
    st.tuples(st.just("end"), st.sampled_from([one.value for one in ENDS])),
    st.tuples(st.just("look"), st.sampled_from([one.value for one in Activity])),
    st.tuples(st.sampled_from(["crash", "queue", "hold", "release", "left", "taken up"]), st.just("")),
)
QUESTIONS: Final = st.builds(
    lambda asked, then: [asked, *((one, "") for one in then)],
    st.just(("ask tool", "")) | st.sampled_from([("ask", one.value) for one in ASKS]),
    st.sampled_from([(), ("answer",), ("answer", "lost"), ("answer", "lost", "answer"), ("answer", "close")]),
)
STORIES: Final = st.builds(
    lambda parts, last: [("open", ""), *(scene for part in parts for scene in part), *last],
    st.lists(SCENES.map(lambda scene: [scene]) | QUESTIONS, max_size=10),
    st.sampled_from([[], [], [], [("delete", "")]]),
)

# Whatever an agent is seen to do, whatever the log says of its turn, and whether anybody runs it.
OPEN_TURNS: Final = st.builds(
    TaskSummary,
    task_id=st.just(SessionId("ses_1")),
    version=st.just(1),
    task_status=st.sampled_from([one for one in TaskStatus if has_open_turn(one)]),
    turn_id=st.sampled_from([None, TurnId("t1")]),
    turn_state=st.sampled_from([None, TurnState.RUNNING, TurnState.WAITING]),
    is_supervised=st.booleans(),
    live=st.none()
    | st.builds(
        Status,
        activity=st.sampled_from(Activity),
        attention=st.sampled_from(Attention),
        evidence=st.sampled_from(
            [(), (Evidence(source=EvidenceSource.LOG, rule=ANSWER_ON_ITS_WAY, at=EPOCH),)],
        ),
    ),
    open_approvals=st.integers(0, 1),
    waits_for=st.sampled_from(["", "a draft"]),
    held=st.sampled_from(["", "the budget is used up"]),
    queued=st.integers(0, 1),
    seen_turn_id=st.sampled_from([None, TurnId("t1")]),
)

_WRITTEN: Final[Mapping[str, tuple[Payload, ...]]] = {
    "open": (SessionOpened(agent="a", driver="d", kind=DriverKind.STREAM, title="a title"),),
    "delete": (SessionDeleted(),),
    "crash": (
        ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CRASHED),
        ProcessEvent(kind=ProcessEventKind.RESTART_DUE, attempt=1, delay_seconds=1.0),
    ),
    "release": (QueueGate(is_open=True),),
}


@dataclass
class Story:
    """Writes the events of one session, each at the time at which it is played."""

    session_id: SessionId
    now: Callable[[], datetime]
    take: Callable[[Step], None]
    question: str = ""
    attention: Attention = Attention.NONE
    turn: str = ""
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _seqs: count[int] = field(default_factory=lambda: count(1))

    def scene(self, kind: str, value: str) -> None:
        match kind:
            case "left" | "taken up":
                self.take(kind == "taken up")
            case "open" | "delete" | "crash" | "release":
                self.write(*_WRITTEN[kind])
            case "queue" | "hold":
                prompt_id = PromptId(f"p{next(self._numbers)}")
                self.write(QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=prompt_id, text="later"))
                if kind == "hold":
                    self.write(QueueGate(is_open=False, reason="the budget is used up"))
            case "look" | "seen":
                self._look(kind, value)
            case "prompt":
                self._prompt()
            case "end":
                self._end(TurnState(value))
            case _:
                self._question(kind, value)

    def write(self, *payloads: Payload) -> None:
        for data in payloads:
            is_live = isinstance(data, Status)
            event = new_event(
                data,
                id=EventId(f"e{next(self._numbers)}"),
                session_id=self.session_id,
                ts=self.now(),
                seq=None if is_live else next(self._seqs),
                turn_id=TurnId(self.turn) if self.turn else None,
            )
            self.take(event)

    def _look(self, kind: str, value: str) -> None:
        """The agent's screen: what it does, or what it asks by itself, before a question of it is known."""
        proof = Evidence(source=EvidenceSource.SCREEN, rule="a.rule", at=self.now())
        if kind == "seen":
            self.write(Status(activity=Activity.WORKING, attention=Attention(value), evidence=(proof,)))
        else:
            substate = AgentState.RUNNING_TOOL if value == Activity.WORKING else None
            self.write(Status(activity=Activity(value), evidence=(proof,), substate=substate, tool="Bash"))

    def _prompt(self) -> None:
        if self.turn:
            return
        number = next(self._numbers)
        prompt_id, self.turn = PromptId(f"p{number}"), f"t{number}"
        self.write(
            QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=prompt_id, text="do it"),
            QueueEvent(kind=QueueEventKind.DISPATCHED, prompt_id=prompt_id),
            UserMessage(text="do it", prompt_id=prompt_id),
            TurnStarted(driver=DriverKind.STREAM),
            RunState(run_id=RunId(f"run_{self.turn}"), status=RunStatus.RUNNING),
        )

    def _end(self, state: TurnState) -> None:
        if not self.turn:
            self._prompt()
        if state in (TurnState.COMPLETED, TurnState.PARTIAL_FAILED):
            metadata = MessageMetadata(partial=state is TurnState.PARTIAL_FAILED)
            self.write(AssistantMessage(text="an answer", metadata=metadata))
        if state is not TurnState.COMPLETED:
            self.write(TurnFailed(terminal_status=state, error_kind="network", error_message="the line went dead"))
        self.write(RunState(run_id=RunId(f"run_{self.turn}"), status=RunStatus.DONE, reason=ENDS[state]))
        self.write(Status(activity=Activity.QUIET))
        self.turn, self.question, self.attention = "", "", Attention.NONE

    def _question(self, kind: str, value: str) -> None:
        match kind:
            case "ask" if not self.question:
                self.question, self.attention = f"q{next(self._numbers)}", Attention(value)
                self.write(DialogOpened(dialog_id=self.question, attention=self.attention, question="May I?"))
                self.write(Status(activity=Activity.WORKING, attention=self.attention))
            case "ask tool" if not self.question:
                self._prompt()
                self.question, self.attention = f"c{next(self._numbers)}", Attention.APPROVAL
                call_id, run_id = CallId(self.question), RunId(f"run_{self.turn}")
                ticket = SuspensionTicket(
                    suspension=Suspension(id=self.question, action="tool:read", message="May I read it?"),
                    pending=PendingCall(id=self.question, name="read"),
                )
                self.write(ToolCall(call_id=call_id, name="read"))
                self.write(ToolCallSuspended(call_id=call_id, name="read", ticket=ticket))
                self.write(RunState(run_id=run_id, status=RunStatus.WAITING, reason=SUSPENDED))
            case "answer" if self.question:
                is_tool = self.question.startswith("c")
                decided = ToolCallDecided(target_id=self.question, action=DecisionAction.RESUME, decision_id="d")
                self.write(decided if is_tool else DialogAnswered(dialog_id=self.question, text="yes"))
                sign = Evidence(source=EvidenceSource.LOG, rule=ANSWER_ON_ITS_WAY, at=self.now())
                self.write(Status(activity=Activity.WORKING, attention=self.attention, evidence=(sign,)))
            case "lost" if self.question:
                self.write(DecisionUndelivered(target_id=self.question, decision_id="d", reason="the pipe broke"))
                self.write(Status(activity=Activity.WORKING, attention=self.attention))
            case "close" if self.question:
                is_tool = self.question.startswith("c")
                closed = DialogClosed(dialog_id=self.question, outcome=DialogOutcome.ANSWERED)
                self.write(ToolResult(call_id=CallId(self.question), ok=True) if is_tool else closed)
                if is_tool:
                    self.write(RunState(run_id=RunId(f"run_{self.turn}"), status=RunStatus.RUNNING))
                self.write(Status(activity=Activity.WORKING))
                self.question, self.attention = "", Attention.NONE
            case _:
                return
