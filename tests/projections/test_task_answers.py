"""An answer that is on its way: a surface that still shows a dialog is shown as seen, and its evidence says more."""

from __future__ import annotations

import pytest
from msgspec import structs

from interlock.lifecycle.children.workflow_step import DEPENDENCY_LOST, GATE_REACHED
from interlock.projections.task.questions import ANSWER_ON_ITS_WAY
from interlock.projections.task.view import TaskView
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import (
    Anomaly,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    WorkflowEvent,
    WorkflowEventKind,
)
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import EventId, SessionId, StepId, TurnId, WorkflowId
from interlock.vocabulary.run import NATURAL_END
from interlock.vocabulary.states import Activity, Attention, StepState, TaskStatus
from interlock.vocabulary.wire.frames import AgentStatusChanged, TaskFrame
from tests.projections.histories import Story

SEEN = Evidence(source=EvidenceSource.SCREEN, rule="claude.dialog")
ASKING = Status(activity=Activity.WORKING, attention=Attention.APPROVAL, evidence=(SEEN,))
CALM = Status(activity=Activity.WORKING)


class Room:
    """One task with an open turn, fed as a server is: logged events, and what is seen of the agent."""

    def __init__(self) -> None:
        self.story = Story()
        self.story.begin()
        self.view = TaskView(self.story.session)
        self._fed = 0
        self.feed()

    def feed(self) -> list[TaskFrame]:
        events, self._fed = self.story.events[self._fed :], len(self.story.events)
        return [frame for event in events for frame in self.view.add(event)]

    def log(self, data: Payload) -> list[TaskFrame]:
        self.story.write(data)
        return self.feed()

    def see(self, status: Status) -> list[TaskFrame]:
        return list(self.view.add(_live(status, self.story.session)))

    def ask(self, name: str = "d1", attention: Attention = Attention.APPROVAL) -> None:
        self.log(DialogOpened(dialog_id=name, attention=attention, question="May I?"))

    @property
    def shown(self) -> Status | None:
        shown = self.view.summary().live
        assert shown == self.view.snapshot().agent
        return shown

    @property
    def is_on_its_way(self) -> bool:
        assert self.shown is not None
        return any(proof.rule == ANSWER_ON_ITS_WAY for proof in self.shown.evidence)


def _live(status: Status, session: SessionId) -> Event:
    return new_event(status, id=EventId("evt_live"), session_id=session, ts=EPOCH, turn_id=TurnId("t1"))


def test_what_is_asked_is_shown_as_it_is_seen() -> None:
    room = Room()
    room.ask()
    room.see(ASKING)
    assert room.shown == ASKING


def test_an_answer_is_told_with_what_the_surface_still_shows() -> None:
    room = Room()
    room.ask()
    room.see(ASKING)
    frames = room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    assert room.shown is not None
    assert (room.shown.activity, room.shown.attention) == (ASKING.activity, ASKING.attention)
    at = room.story.events[-1].ts
    given = Evidence(source=EvidenceSource.LOG, rule=ANSWER_ON_ITS_WAY, at=at, where="d1")
    assert room.shown.evidence == (given, SEEN)
    (told,) = [frame for frame in frames if isinstance(frame, AgentStatusChanged)]
    assert told.status == room.shown
    assert room.see(ASKING) == [], "the same sight again is no news"


def test_a_surface_lags_behind_the_driver_which_saw_the_dialog_go() -> None:
    room = Room()
    room.ask()
    room.see(ASKING)
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    room.log(DialogClosed(dialog_id="d1", outcome=DialogOutcome.ANSWERED))
    assert room.is_on_its_way
    room.see(Status(activity=Activity.UNKNOWN, attention=Attention.APPROVAL))
    assert room.is_on_its_way


def test_a_dialog_that_shows_after_the_surface_was_clear_is_another_one() -> None:
    room = Room()
    room.ask()
    room.see(ASKING)
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    room.see(CALM)
    assert room.shown == CALM
    room.see(ASKING)
    assert room.shown == ASKING


def test_the_end_of_the_turn_ends_it() -> None:
    room = Room()
    room.ask()
    room.see(ASKING)
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    room.story.end(NATURAL_END, text="done")
    room.feed()
    assert room.shown == ASKING


def test_what_is_asked_again_or_besides_needs_a_person() -> None:
    room = Room()
    room.ask("d1")
    room.see(ASKING)
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    assert room.is_on_its_way
    room.ask("d2")
    assert room.shown == ASKING


def test_what_was_answered_is_not_what_is_seen() -> None:
    room = Room()
    room.ask("d1")
    other = Status(activity=Activity.QUIET, attention=Attention.AUTH)
    room.see(other)
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    assert room.shown == other


def test_what_else_is_seen_was_not_answered() -> None:
    room = Room()
    room.ask("d1")
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    other = Status(activity=Activity.QUIET, attention=Attention.AUTH)
    room.see(other)
    assert room.shown == other


@pytest.mark.parametrize("kind", ["decision_delivery_unknown", "decision_not_delivered", "decision_unconfirmed"])
def test_an_answer_of_which_the_runtime_doubts_that_it_arrived_is_not_on_its_way(kind: str) -> None:
    room = Room()
    room.ask()
    room.see(ASKING)
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    assert room.log(Anomaly(kind="decision_not_delivered_yet")) == [], "it is tried again"
    assert room.is_on_its_way
    (told,) = [frame for frame in room.log(Anomaly(kind=kind)) if isinstance(frame, AgentStatusChanged)]
    assert told.status == room.shown == ASKING


def test_one_of_two_questions_is_not_enough() -> None:
    room = Room()
    room.ask("d1")
    room.ask("d2")
    room.see(ASKING)
    room.log(DialogAnswered(dialog_id="d1", option="Yes"))
    assert room.shown == ASKING
    room.log(DialogAnswered(dialog_id="d2", option="Yes"))
    assert room.is_on_its_way


def test_nobody_runs_it_and_nothing_is_seen() -> None:
    room = Room()
    room.ask()
    room.see(ASKING)
    room.view.set_supervised(False)
    assert room.log(DialogAnswered(dialog_id="d1", option="Yes")) is not None
    assert room.shown is None


def test_a_step_that_waits_for_a_decision_keeps_no_turn_back_and_outlives_it() -> None:
    room = Room()
    before = room.view.summary()
    held = WorkflowEvent(
        kind=WorkflowEventKind.STEP_HELD,
        workflow_id=WorkflowId("wf_1"),
        step_id=StepId("ship"),
        step_state=StepState.HELD,
        reason=GATE_REACHED,
        question="Ship it?",
        choices=("go", "stop"),
    )
    room.log(held)
    summary = room.view.summary()
    assert summary.task_status is before.task_status is TaskStatus.RUNNING
    assert (summary.asks, summary.approval_id, summary.question) == (Attention.DECISION, "wf_1:ship", "Ship it?")
    room.story.end(NATURAL_END, text="done")
    room.feed()
    assert [one.approval_id for one in room.view.snapshot().approvals] == ["wf_1:ship"]
    room.log(structs.replace(held, kind=WorkflowEventKind.CHECKPOINT_DECIDED, step_state=StepState.CHECKPOINT_READY))
    assert room.view.snapshot().approvals == ()


def test_a_step_behind_a_lost_one_asks_nothing() -> None:
    room = Room()
    lost = WorkflowEvent(
        kind=WorkflowEventKind.STEP_HELD,
        workflow_id=WorkflowId("wf_1"),
        step_id=StepId("deploy"),
        step_state=StepState.HELD,
        reason=DEPENDENCY_LOST,
    )
    room.log(lost)
    assert room.view.summary().asks is Attention.NONE
