"""The task view: status, approvals, queue, supervision, the board's line, and what an event costs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import timedelta
from itertools import islice
from types import FrameType
from typing import TypeVar

import pytest
from msgspec import structs

from interlock.projections.badge import ANSWER_ON_ITS_WAY
from interlock.projections.task.view import TaskView
from interlock.testing.scribe import EPOCH, Scribe, endless_history
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DeliveryReceipt,
    DeliveryStage,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    QueueEvent,
    QueueEventKind,
    QueueGate,
    RunState,
    SessionDeleted,
    SessionOpened,
    ToolCallDecided,
)
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Plan, ReasoningDelta, Status, TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import EventId, PromptId, RunId, SessionId, StreamId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus
from interlock.vocabulary.states import Activity, Attention, DriverKind, TaskStatus, TurnState
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatError,
    ChatMessage,
    ChatReceipt,
    ChatStart,
    ChatThought,
    QueueChanged,
    QueueItem,
    QueueView,
    TaskFrame,
    TaskStatusChanged,
)
from tests.each_row import each_row
from tests.projections.histories import (
    ANSWER,
    NETWORK,
    RESULT,
    Story,
    abandoned,
    clean,
    error_before_text,
    interrupted,
    terminal_without_text,
    timed_out,
    waiting,
)

FrameT = TypeVar("FrameT")
OPENED = SessionOpened(agent="claude", driver="stream-json", kind=DriverKind.STREAM, title="mend it")
QUIET = Status(activity=Activity.QUIET)
WORKING = Status(activity=Activity.WORKING)


def fold(view: TaskView, events: Iterable[Event]) -> list[TaskFrame]:
    return [frame for event in events for frame in view.add(event)]


def view_of(story: Scribe) -> TaskView:
    view = TaskView(story.session)
    fold(view, story.events)
    return view


def told(story: Scribe, kind: type[FrameT]) -> list[FrameT]:
    return [frame for frame in fold(TaskView(story.session), story.events) if isinstance(frame, kind)]


def statuses(story: Scribe) -> list[tuple[TaskStatus | None, TurnId | None]]:
    return [(frame.task_status, frame.turn_id) for frame in told(story, TaskStatusChanged)]


def live(data: Payload, turn: str | None = "t1", session: str = "ses_scribe", second: int = 0) -> Event:
    at = EPOCH + timedelta(days=1, seconds=second)
    turn_id = None if turn is None else TurnId(turn)
    return new_event(data, id=EventId("evt_live"), session_id=SessionId(session), ts=at, turn_id=turn_id)


def queued(prompt: str, kind: QueueEventKind = QueueEventKind.QUEUED, text: str = "do it") -> QueueEvent:
    return QueueEvent(kind=kind, prompt_id=PromptId(prompt), text=text)


# Status


def test_of_nothing_nothing_is_said() -> None:
    view = TaskView(SessionId("ses_new"))
    shot = view.snapshot()
    assert (shot.task_status, shot.version, shot.tick, shot.turn_id, shot.messages) == (None, 0, 0, None, ())
    assert (view.is_supervised, view.opened, shot.is_whole, shot.stream) == (True, None, True, None)


@each_row(
    ("story", "status"),
    [
        (clean(), TaskStatus.COMPLETED),
        (terminal_without_text(), TaskStatus.COMPLETED),
        (error_before_text(), TaskStatus.FAILED),
        (timed_out(), TaskStatus.FAILED),
        (interrupted(), TaskStatus.CANCELLED),
    ],
)
def test_a_turn_runs_and_ends(story: Story, status: TaskStatus) -> None:
    assert statuses(story) == [(TaskStatus.RUNNING, "t1"), (status, "t1")]


def test_a_prompt_that_waits_is_for_a_turn_without_a_name() -> None:
    story = clean()
    story.write(queued("p2"))
    assert statuses(story)[-1] == (TaskStatus.PENDING, None)
    assert view_of(story).check().turn_id is None


@pytest.mark.parametrize(
    ("story", "state"),
    [(clean(), TurnState.COMPLETED), (timed_out(), TurnState.TIMED_OUT), (interrupted(), TurnState.INTERRUPTED)],
)
def test_a_line_of_the_board_tells_how_the_turn_ended(story: Story, state: TurnState) -> None:
    assert view_of(story).summary().turn_state is state


def test_a_line_of_the_board_tells_why_what_waits_is_held_back() -> None:
    story = clean()
    story.write(QueueGate(is_open=False, reason="the build is red"))
    assert view_of(story).summary().held == "", "nothing waits"
    story.write(queued("p2"))
    assert view_of(story).summary().held == "the build is red"
    story.write(QueueGate(is_open=False))
    assert view_of(story).summary().held
    story.write(QueueGate(is_open=True))
    assert view_of(story).summary().held == ""


def test_a_prompt_on_its_way_is_neither_idle_nor_what_came_before() -> None:
    story = clean()
    story.write(queued("p2"))
    story.write(queued("p2", QueueEventKind.DISPATCHED), UserMessage(text="do it", prompt_id=PromptId("p2")), turn="t2")
    assert statuses(story)[2:] == [(TaskStatus.PENDING, None), (TaskStatus.RUNNING, "t2")]
    story.end(CANCELLED, turn="t2")
    assert statuses(story)[-1] == (TaskStatus.CANCELLED, "t2")


def test_a_prompt_that_never_waited_is_not_on_its_way() -> None:
    story = clean()
    story.write(queued("unheard_of", QueueEventKind.DISPATCHED), turn="t2")
    assert statuses(story)[-1] == (TaskStatus.COMPLETED, "t1")


def test_a_prompt_that_is_known_not_to_have_arrived_waits_no_more() -> None:
    story = clean()
    story.write(queued("p2"))
    story.write(queued("p2", QueueEventKind.DISPATCHED), turn="t2")
    story.write(DeliveryReceipt(prompt_id=PromptId("p2"), stage=DeliveryStage.NOT_DELIVERED))
    assert statuses(story)[-1] == (TaskStatus.COMPLETED, "t1")


def test_a_prompt_that_is_taken_back_leaves_what_was_before() -> None:
    story = clean()
    story.write(queued("p2"), queued("p2", QueueEventKind.REMOVED))
    assert statuses(story)[-1] == (TaskStatus.COMPLETED, "t1")


def test_a_prompt_that_waits_behind_an_open_turn_changes_nothing() -> None:
    story = Story()
    story.begin()
    story.write(queued("p2"))
    assert statuses(story) == [(TaskStatus.RUNNING, "t1")]


def test_an_open_question_is_a_wait_for_a_person() -> None:
    story = waiting()
    assert statuses(story) == [(TaskStatus.RUNNING, "t1"), (TaskStatus.PENDING_CONFIRMATION, "t1")]
    frames = told(story, TaskStatusChanged)
    assert frames[-1].status_updated_at == story.events[4].ts  # the question, not the run's state that follows it


def test_a_dialog_of_no_turn_blocks_the_open_turn_and_one_of_another_turn_does_not() -> None:
    story = Story()
    story.begin()
    story.write(DialogOpened(dialog_id="d0", attention=Attention.QUESTION), turn="t0")
    assert view_of(story).status is TaskStatus.RUNNING
    story.write(DialogOpened(dialog_id="d1", attention=Attention.QUESTION))
    assert view_of(story).status is TaskStatus.PENDING_CONFIRMATION
    story.write(DialogAnswered(dialog_id="d1", option="yes"))
    assert view_of(story).status is TaskStatus.RUNNING


def test_a_cancel_is_told_while_the_turn_is_open() -> None:
    story = Story()
    story.begin()
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.RUNNING, cancel_requested=True))
    story.end(CANCELLED)
    assert [status for status, _ in statuses(story)] == [
        TaskStatus.RUNNING,
        TaskStatus.CANCELLING,
        TaskStatus.CANCELLED,
    ]


def test_a_cancel_that_was_too_late_is_recorded_and_the_task_completed() -> None:
    story = Story()
    story.begin()
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.RUNNING, cancel_requested=True))
    story.end(NATURAL_END, text=ANSWER)
    story.write(queued("p2"))
    assert [status for status, _ in statuses(story)][2:] == [TaskStatus.COMPLETED, TaskStatus.PENDING]


def test_a_deleted_task_stays_deleted() -> None:
    story = clean()
    story.write(SessionDeleted(decided_by="me"))
    story.write(queued("p2"))
    story.begin("t2")
    view = view_of(story)
    assert statuses(story)[2] == (TaskStatus.DELETE, "t1")
    assert view.status is TaskStatus.DELETE
    assert (frame := told(story, TaskStatusChanged)[2]).status_updated_at == story.events[frame.version - 1].ts


def test_a_deleted_task_asks_nothing_and_streams_nothing() -> None:
    story = waiting()
    view = view_of(story)
    view.add(live(TextDelta(stream_id=StreamId("st1"), offset=0, text="abc")))
    story.write(SessionDeleted())
    kinds = [type(frame).__name__ for frame in view.add(story.events[-1])]
    assert kinds == ["ChatCancelled", "ApprovalClosed", "TaskStatusChanged"]
    assert view.add(live(TextDelta(stream_id=StreamId("st2"), offset=0, text="abc"))) == ()
    assert view.snapshot().approvals == ()


def test_late_events_of_an_old_turn_change_no_status() -> None:
    story = clean()
    story.begin("t2")
    before = statuses(story)
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NETWORK))
    assert statuses(story) == before


# Logged, live, foreign, repeated


def test_the_version_is_that_of_the_log_and_a_repeat_is_nothing() -> None:
    story = clean()
    view = view_of(story)
    before = (view.snapshot(), view.summary())
    assert view.version == len(story.events)
    assert [frame for event in story.events for frame in view.add(event)] == []
    assert (view.snapshot(), view.summary()) == before


def test_what_belongs_in_the_log_and_is_not_there_is_no_fact() -> None:
    view = TaskView(SessionId("ses_scribe"))
    assert view.add(live(UserMessage(text="hello"))) == ()
    assert view.snapshot() == TaskView(SessionId("ses_scribe")).snapshot()


def test_events_of_another_session_are_none_of_its_business() -> None:
    view = TaskView(SessionId("ses_other"))
    assert fold(view, clean().events) == []
    assert view.version == 0


def test_every_frame_bears_the_task_the_version_and_the_next_tick() -> None:
    story = clean()
    view, ticks = TaskView(story.session), list[int]()
    for event in story.events:
        for frame in view.add(event):
            assert (frame.task_id, frame.version) == (story.session, event.seq)
            ticks.append(frame.tick)
    assert ticks == list(range(1, view.tick + 1))
    assert view.snapshot().tick == view.tick


def test_the_agents_status_is_told_when_it_differs() -> None:
    view = TaskView(SessionId("ses_scribe"))
    frames = fold(view, [live(WORKING), live(WORKING), live(QUIET), live(Plan(entries=()))])
    assert [frame.status for frame in frames if isinstance(frame, AgentStatusChanged)] == [WORKING, QUIET]
    assert len(frames) == 2
    assert view.snapshot().agent == view.summary().live == QUIET


def test_thoughts_are_shown_of_the_open_turn_only() -> None:
    story = Story()
    story.begin()
    view = view_of(story)
    thought = ReasoningDelta(stream_id=StreamId("th"), offset=2, text="hm")
    (frame,) = view.add(live(thought))
    assert isinstance(frame, ChatThought)
    assert (frame.turn_id, frame.stream_id, frame.offset, frame.text) == ("t1", "th", 2, "hm")
    assert view.add(live(thought, "t0")) == ()
    assert view.snapshot().stream is None


# Questions


def test_a_question_is_opened_decided_and_closed() -> None:
    story = waiting()
    story.tell(ToolCallDecided(target_id="susp_1", action=DecisionAction.RESUME, decided_by="me"), RESULT)
    (opened,), (decided,) = told(story, ApprovalOpened), told(story, ApprovalDecided)
    (closed,) = told(story, ApprovalClosed)
    assert (opened.approval.question, opened.turn_id) == ("May I?", "t1")
    assert (decided.approval.outcome, decided.approval.decided_by) == ("allowed", "me")
    assert closed.approval.approval_id == "susp_1"
    assert view_of(story).snapshot().approvals == ()


def test_only_what_can_be_answered_is_in_a_snapshot() -> None:
    story = waiting()
    assert [one.approval_id for one in view_of(story).snapshot().approvals] == ["susp_1"]
    story.tell(ToolCallDecided(target_id="susp_1", action=DecisionAction.CANCEL))
    assert view_of(story).snapshot().approvals == ()
    assert view_of(story).status is TaskStatus.PENDING_CONFIRMATION  # the run still waits


def test_the_end_of_a_turn_closes_its_questions_before_the_status_changes() -> None:
    story = waiting()
    story.write(DialogOpened(dialog_id="d9", attention=Attention.AUTH))
    view = view_of(story)
    done = len(story.events)
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=CANCELLED))
    frames = fold(view, story.events[done:])
    kinds = [type(frame).__name__ for frame in frames]
    assert kinds == ["ChatMessage", "ChatMessage", "ApprovalClosed", "StatePatched", "TaskStatusChanged"]
    closed = [frame.approval for frame in frames if isinstance(frame, ApprovalClosed)]
    assert [(one.approval_id, one.outcome) for one in closed] == [("susp_1", "turn_ended")]
    assert [one.approval_id for one in view.snapshot().approvals] == ["d9"]
    assert [one.approval_id for one in view.approvals.open] == ["d9"]


def test_a_question_of_an_imported_turn_ends_with_it() -> None:
    scribe = Scribe()
    scribe.write(UserMessage(text="one"), DialogOpened(dialog_id="d1", attention=Attention.QUESTION))
    assert len(view_of(scribe).snapshot().approvals) == 1
    scribe.write(AssistantMessage(text=ANSWER))
    view = view_of(scribe)
    assert (view.snapshot().approvals, view.status, view.turn_id) == ((), TaskStatus.COMPLETED, "@1")


def test_a_question_of_a_turn_that_is_over_is_no_question() -> None:
    story = clean()
    story.write(*[event.data for event in waiting().events[4:5]], turn="t1", spawn="s1")
    assert told(story, ApprovalOpened) == []
    assert view_of(story).approvals.open == ()


@pytest.mark.parametrize("is_foreign_run", [True, False])
def test_a_refused_end_closes_no_question_and_no_stream(is_foreign_run: bool) -> None:
    story = waiting()
    view = view_of(story)
    view.add(live(TextDelta(stream_id=StreamId("st1"), offset=0, text="abc")))
    run_id = RunId("another") if is_foreign_run else RunId("run_t1")
    done = RunState(run_id=run_id, status=RunStatus.DONE, reason=NATURAL_END)
    (event,) = story.write(done, turn="t1", spawn="s1" if is_foreign_run else "s0")
    before = view.snapshot()
    assert view.add(event) == ()
    assert view.snapshot() == structs.replace(before, version=event.seq)


def test_a_question_that_is_asked_again_comes_last() -> None:
    story = Story()
    story.begin()
    for name in ("d1", "d2"):
        story.tell(DialogOpened(dialog_id=name, attention=Attention.QUESTION, question=name))
    assert view_of(story).summary().question == "d1"
    story.tell(DialogClosed(dialog_id="d1", outcome=DialogOutcome.WITHDRAWN))
    story.tell(DialogOpened(dialog_id="d1", attention=Attention.QUESTION, question="d1"))
    assert [one.approval_id for one in view_of(story).snapshot().approvals] == ["d2", "d1"]
    assert [frame.approval.approval_id for frame in told(story, ApprovalOpened)] == ["d1", "d2", "d1"]


# Queue and receipts


def test_the_queue_is_told_whole_when_it_changes() -> None:
    story = Story()
    story.write(queued("p1"), queued("p2"), queued("p1"), queued("p2", QueueEventKind.EDITED, "do that"))
    story.write(QueueGate(is_open=False, reason="over budget"))
    frames = told(story, QueueChanged)
    assert [len(frame.queue.waiting) for frame in frames] == [1, 2, 2, 2]
    texts = (QueueItem(prompt_id=PromptId("p1"), text="do it"), QueueItem(prompt_id=PromptId("p2"), text="do that"))
    assert frames[-1].queue == QueueView(waiting=texts, is_open=False, gate_reason="over budget")
    assert view_of(story).snapshot().queue == frames[-1].queue


def test_receipts_are_told_and_never_go_back() -> None:
    story = Story()
    stages = [DeliveryStage.QUEUED, DeliveryStage.ACCEPTED, DeliveryStage.TYPED, DeliveryStage.STARTED]
    story.write(queued("p1"), *(DeliveryReceipt(prompt_id=PromptId("p1"), stage=stage) for stage in stages))
    story.write(DeliveryReceipt(prompt_id=PromptId("unheard_of"), stage=DeliveryStage.TYPED))
    assert [(frame.prompt_id, frame.stage) for frame in told(story, ChatReceipt)] == [
        ("p1", DeliveryStage.QUEUED),
        ("p1", DeliveryStage.ACCEPTED),
        ("p1", DeliveryStage.STARTED),
        ("unheard_of", DeliveryStage.TYPED),
    ]


# Who runs it


def test_without_an_owner_the_status_of_an_open_turn_is_unknown_and_nothing_is_live() -> None:
    story = abandoned()
    view = view_of(story)
    running_since = view.status_updated_at
    fold(view, [live(WORKING), live(TextDelta(stream_id=StreamId("st9"), offset=0, text="abc"))])
    error, agent, status = view.set_supervised(False)
    assert isinstance(error, ChatError)
    assert (error.error_kind, error.stream_id, error.message_id) == ("unsupervised", "st9", None)
    assert isinstance(agent, AgentStatusChanged)
    assert agent.status == Status(activity=Activity.UNKNOWN)
    assert isinstance(status, TaskStatusChanged)
    assert (status.task_status, status.turn_id, status.status_updated_at) == (TaskStatus.UNKNOWN, "t1", None)
    shot = view.snapshot()
    assert (shot.stream, shot.agent, shot.task_status) == (None, None, TaskStatus.UNKNOWN)
    assert view.set_supervised(False) == ()
    assert fold(view, [live(QUIET), live(TextDelta(stream_id=StreamId("st8"), offset=0, text="abc"))]) == []
    (again,) = view.set_supervised(True)
    assert isinstance(again, TaskStatusChanged)
    assert (again.task_status, again.status_updated_at) == (TaskStatus.RUNNING, running_since)


def test_without_an_owner_a_question_stands_and_cannot_be_answered() -> None:
    story = waiting()
    story.write(DialogOpened(dialog_id="d9", attention=Attention.AUTH))
    view = view_of(story)
    assert [one.is_answerable for one in view.snapshot().approvals] == [True, True]
    told = [frame for frame in view.set_supervised(False) if isinstance(frame, ApprovalOpened)]
    assert [(one.approval.approval_id, one.approval.is_answerable) for one in told] == [
        ("susp_1", False),
        ("d9", False),
    ]
    assert tuple(one.approval for one in told) == view.snapshot().approvals == view.questions()
    assert view.summary().open_approvals == 2
    again = [frame for frame in view.set_supervised(True) if isinstance(frame, ApprovalOpened)]
    assert [one.approval.is_answerable for one in again] == [True, True]
    assert view.snapshot().approvals == tuple(one.approval for one in again)


def test_without_an_owner_what_is_asked_and_what_was_decided_are_told_as_what_they_are() -> None:
    story = waiting()
    story.tell(ToolCallDecided(target_id="susp_1", action=DecisionAction.RESUME, decided_by="me"))
    view = view_of(story)
    assert not any(isinstance(frame, ApprovalOpened | ApprovalDecided) for frame in view.set_supervised(False))
    asked = fold(view, story.write(DialogOpened(dialog_id="d9", attention=Attention.AUTH)))
    assert [frame.approval.is_answerable for frame in asked if isinstance(frame, ApprovalOpened)] == [False]
    assert [(one.approval_id, one.is_answerable) for one in view.questions()] == [("susp_1", True), ("d9", False)]


def test_without_an_owner_what_has_an_end_keeps_it() -> None:
    view = view_of(clean())
    assert view.set_supervised(False) == ()
    assert view.status is TaskStatus.COMPLETED
    assert view.summary().is_supervised is False


def test_without_an_owner_recovery_is_still_told() -> None:
    story = abandoned()
    view = view_of(story)
    view.set_supervised(False)
    told_before = len(story.events)
    story.end(NETWORK, text="")
    frames = fold(view, story.events[told_before:])
    assert isinstance(frames[-1], TaskStatusChanged)
    assert (view.status, view.status_updated_at) == (TaskStatus.FAILED, story.events[-1].ts)


def test_who_owns_it_may_be_said_before_or_after_the_log_is_read() -> None:
    story = abandoned()
    after = view_of(story)
    after.set_supervised(False)
    before = TaskView(story.session)
    before.set_supervised(False)
    fold(before, story.events)
    assert structs.replace(before.snapshot(), tick=0) == structs.replace(after.snapshot(), tick=0)


# The board


def test_a_line_of_the_board() -> None:
    story = Story()
    story.write(OPENED)
    story.write(*[event.data for event in waiting().events[:3]], turn="t1")
    story.tell(*[event.data for event in waiting().events[3:]])
    story.write(queued("p2"), queued("p3"))
    view = view_of(story)
    view.add(live(WORKING))
    line = view.summary()
    assert (line.agent, line.driver, line.title) == ("claude", "stream-json", "mend it")
    assert (line.task_status, line.turn_id, line.live) == (TaskStatus.PENDING_CONFIRMATION, "t1", WORKING)
    assert (line.question, line.open_approvals, line.queued) == ("May I?", 1, 2)
    assert (line.opened_at, line.last_at, line.version) == (story.events[0].ts, story.events[-1].ts, len(story.events))
    assert view.opened == OPENED


def test_a_session_is_as_it_was_opened_last_and_as_old_as_it_was_opened_first() -> None:
    story = Story()
    story.write(OPENED, structs.replace(OPENED, title="mend that"))
    line = view_of(story).summary()
    assert (line.title, line.opened_at) == ("mend that", story.events[0].ts)


def test_since_is_when_what_is_shown_began() -> None:
    story = Story()
    story.begin()
    view = view_of(story)
    assert view.summary().since == story.events[0].ts
    view.add(live(WORKING, second=1))
    began = view.summary().since
    evidenced = structs.replace(WORKING, idle_at=EPOCH)  # the same to a person, with other evidence
    fold(view, [live(evidenced, second=2), live(TextDelta(stream_id=StreamId("st1"), offset=0, text="a"), second=3)])
    assert view.summary().since == began == EPOCH + timedelta(days=1, seconds=1)
    view.add(live(structs.replace(WORKING, attention=Attention.AUTH), second=4))
    assert view.summary().since == EPOCH + timedelta(days=1, seconds=4)


def test_since_moves_with_the_badge_and_not_with_what_it_does_not_show() -> None:
    """In an open turn an agent at rest is at work by the badge: that it works is no news then, that it asks is."""
    story = Story()
    story.begin()
    view = view_of(story)
    rests = structs.replace(WORKING, activity=Activity.QUIET)
    view.add(live(rests, second=1))
    view.add(live(WORKING, second=2))
    assert view.summary().since == EPOCH + timedelta(days=1, seconds=1)
    view.add(live(structs.replace(rests, attention=Attention.QUESTION), second=3))
    assert view.summary().since == EPOCH + timedelta(days=1, seconds=3)
    at = EPOCH + timedelta(days=1, seconds=4)
    answered = (Evidence(source=EvidenceSource.LOG, rule=ANSWER_ON_ITS_WAY, at=at),)
    view.add(live(structs.replace(rests, attention=Attention.QUESTION, evidence=answered), second=4))
    line = view.summary()
    assert line.badge is not None
    assert (line.badge.activity, line.since) == (Activity.WORKING, at)  # at work by its answer, since then


# What an event costs


def test_the_next_event_costs_the_same_however_long_the_history() -> None:
    """Counted in steps of the interpreter, so that no clock is asked. Questions and prompts are part of each turn."""
    view, numbers = TaskView(SessionId("ses_long")), iter(range(1, 1 << 20))
    costs = []
    for turns in (3, 150):
        for event in _busy_turns(turns, numbers):
            view.add(event)
        costs.append(_steps_of(view, list(_busy_turns(1, numbers))))
    assert costs[1] <= costs[0] * 1.02


def _busy_turns(turns: int, numbers: Iterable[int]) -> Iterable[Event]:
    each = iter(numbers)
    for _ in range(turns):
        name = next(each)
        turn = TurnId(f"trn_{name}")
        story = Story("ses_long")
        story.write(queued(f"p{name}"), queued(f"p{name}", QueueEventKind.DISPATCHED))
        story.begin(turn)
        story.use_a_tool(turn)
        story.tell(DialogOpened(dialog_id=f"d{name}", attention=Attention.QUESTION), turn=turn)
        story.end(NATURAL_END, turn=turn, text=ANSWER)
        yield from (structs.replace(event, seq=next(each)) for event in story.events)


def _steps_of(view: TaskView, events: list[Event]) -> int:
    steps = 0

    def count(frame: FrameType, what: str, _: object) -> object:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += what == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        for event in events:
            view.add(event)
    finally:
        sys.settrace(before)
    return steps


def test_a_long_history_is_told_as_it_is() -> None:
    events = list(islice(endless_history(), 2000))
    view = TaskView(events[0].session_id)
    frames = fold(view, events)
    answers = [event for event in events if isinstance(event.data, UserMessage)]
    calls = [event for event in events if isinstance(event.data, ToolCall)]
    assert sum(isinstance(frame, ChatMessage) for frame in frames) >= len(answers) + 2 * len(calls) - 1
    assert not any(isinstance(frame, ChatStart) for frame in frames)
    assert len(view.snapshot().messages) == 200
    assert {turn.state for turn in view.turns.turns.values()} <= {TurnState.COMPLETED, TurnState.RUNNING}
