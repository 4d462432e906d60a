"""What a task, its badge, its transcript and `why` say where events are lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import pytest
from msgspec import structs

from interlock.lifecycle.turns import LOG_DAMAGED
from interlock.log.port import DamageKind, LogDamage
from interlock.projections.replay.boundaries import find_cuts
from interlock.projections.task.view import TaskView
from interlock.projections.why import why
from interlock.projections.why_lines import render_lines
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.events.audit import (
    Anomaly,
    PendingCall,
    ProviderUsage,
    SessionDeleted,
    Suspension,
    SuspensionTicket,
    ToolCallSuspended,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import CallId
from interlock.vocabulary.states import Activity, Attention, DriverKind, Outcome, TaskStatus, TurnState
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import ChatMessage, MessageStatus, Role, TaskFrame, TaskStatusChanged
from tests.each_row import each_row
from tests.lifecycle.test_lost_events import turn, two_turns, without

USAGE: Final = ProviderUsage(model="m")


def fold(events: Sequence[Event]) -> tuple[TaskView, list[TaskFrame]]:
    view = TaskView(events[0].session_id)
    return view, [frame for event in events for frame in view.add(event)]


def badge(view: TaskView) -> Badge:
    shown = view.summary().badge
    assert shown is not None
    return shown


@dataclass(frozen=True, slots=True)
class Stands:
    """What a task says of itself."""

    status: TaskStatus | None
    outcome: Outcome | None
    needs_person: bool
    turn: str | None


def stands(view: TaskView) -> Stands:
    shown = badge(view)
    check, snapshot = view.check(), view.snapshot()
    assert (check.task_status, check.turn_id) == (view.status, view.turn_id)
    assert (snapshot.task_status, snapshot.turn_id) == (view.status, view.turn_id)
    return Stands(view.status, shown.outcome, shown.needs_person, view.turn_id)


def unknown(turn_id: str | None) -> Stands:
    return Stands(TaskStatus.UNKNOWN, Outcome.UNKNOWN, True, turn_id)


DONE: Final = Stands(TaskStatus.COMPLETED, Outcome.DONE, False, "t2")


@each_row("lost", [*range(10, 16)])
def test_a_task_whose_newest_turn_is_read_across_a_loss_claims_nothing(lost: int) -> None:
    view, _ = fold(without(two_turns().events, lost))
    assert stands(view) == unknown("t2")


def test_a_loss_in_an_older_turn_is_not_the_state_of_the_task() -> None:
    assert stands(fold(without(two_turns().events, 4))[0]) == DONE


def test_the_loss_is_told_to_whoever_looks_as_frames() -> None:
    scribe = two_turns()
    view, _ = fold(scribe.events[:12])
    frames = [frame for event in scribe.events[13:] for frame in view.add(event)]
    statuses = [frame for frame in frames if isinstance(frame, TaskStatusChanged)]
    assert [frame.task_status for frame in statuses] == [TaskStatus.UNKNOWN]
    assert statuses[0].badge is not None
    assert statuses[0].badge.outcome is Outcome.UNKNOWN
    told = [frame.message for frame in frames if isinstance(frame, ChatMessage)]
    ends = [one for one in told if one.role is Role.END]
    assert [(one.message_id, one.status, one.error_kind) for one in ends] == [(13, MessageStatus.UNKNOWN, LOG_DAMAGED)]
    assert ends[0].label == "unknown: events of it are lost"
    assert [one.label for one in told if one.role is Role.ANSWER] == ["partial: events of the turn are lost"]
    assert {frame.tick for frame in frames} == set(range(frames[0].tick, frames[-1].tick + 1))


def test_a_call_whose_result_is_lost_does_not_run_on_after_the_end_that_is_read() -> None:
    view, _ = fold(without(two_turns().events, 14))
    calls = [one.status for one in view.snapshot().messages if one.role is Role.TOOL]
    assert calls == [MessageStatus.COMPLETED, MessageStatus.UNKNOWN]


def test_a_lost_tail_is_told_once_and_moves_the_version_on() -> None:
    view, _ = fold(two_turns().events[:12])
    assert view.lose(13, 16)
    assert (stands(view), view.version) == (unknown("t2"), 16)
    assert "events 13..16" in view.turns.findings[-1].message
    assert view.lose(13, 16) == ()


def test_where_a_newer_turn_may_be_lost_none_is_the_newest() -> None:
    scribe = two_turns()
    view, _ = fold(scribe.events)
    assert stands(view) == DONE
    view.lose(17, 18)
    assert stands(view) == unknown(None)
    assert view.summary().turn_state is TurnState.UNKNOWN
    states = [facts.state for facts in view.turns.turns.values()]
    assert states == [TurnState.COMPLETED, TurnState.COMPLETED], "terminal is final"


def test_the_next_turn_is_known_and_so_is_the_task() -> None:
    scribe = two_turns()
    scribe.write(USAGE, USAGE)
    turn(scribe, "t3")
    view, _ = fold(without(scribe.events, 17, 18))
    assert stands(view) == replace(DONE, turn="t3")


def test_a_task_of_which_the_beginning_is_lost_is_not_new() -> None:
    scribe = Scribe()
    scribe.write(USAGE, USAGE)
    assert stands(fold(scribe.events[1:])[0]) == unknown(None)


def test_a_person_should_look_also_where_nobody_runs_the_session() -> None:
    view, _ = fold(without(two_turns().events, 12))
    view.set_supervised(False)
    shown = badge(view)
    assert (shown.needs_person, shown.attention, shown.activity) == (True, Attention.ERROR, Activity.UNKNOWN)
    assert [(proof.rule, proof.where) for proof in shown.evidence] == [
        ("turn.unknown", "the log is damaged, turn t2 is not known")
    ]


def test_a_session_that_was_archived_needs_nobody() -> None:
    scribe = two_turns()
    scribe.write(SessionDeleted())
    view, _ = fold(without(scribe.events, 12))
    assert (view.status, badge(view).needs_person) == (TaskStatus.DELETE, False)


def test_what_recovery_gave_up_asks_nothing_any_more() -> None:
    scribe = Scribe()
    call = ToolCall(call_id=CallId("c1"), name="Bash")
    ticket = SuspensionTicket(
        suspension=Suspension(id="sus_1", action="approve", message="May I?"),
        pending=PendingCall(id="pen_1", name="Bash", arguments={}),
    )
    turn(scribe, "t1", [call], reason=None)
    asked = ToolCallSuspended(call_id=CallId("c1"), name="Bash", ticket=ticket)
    scribe.write(asked, turn="t1")
    view, _ = fold(without(scribe.events, 3))
    assert len(view.snapshot().approvals) == 1
    (given_up,) = scribe.write(Anomaly(kind=LOG_DAMAGED, source="recovery"), turn="t1")
    view.add(given_up)
    assert view.snapshot().approvals == ()
    assert stands(view) == unknown("t1")


def damage(first: int, last: int) -> LogDamage:
    session_id = two_turns().session
    return LogDamage(
        kind=DamageKind.MISSING, session_id=session_id, message="no such row", first_seq=first, last_seq=last
    )


@pytest.mark.parametrize(
    ("at", "state"),
    [(10, TurnState.RUNNING), (11, TurnState.UNKNOWN), (12, TurnState.UNKNOWN), (16, TurnState.UNKNOWN)],
)
def test_why_reads_the_log_as_it_stood_before_or_after_the_loss(at: int, state: TurnState) -> None:
    events = without(two_turns().events, 11, 12)
    record = why(events, [damage(11, 12)], at=at).record
    assert record is not None
    assert (record.turn_id, record.state) == ("t2", state)
    last = record.lost[0].last_seq if record.lost else None
    assert last in (None, min(at, 12))


def test_at_a_time_what_follows_the_prefix_counts_as_lost() -> None:
    events = without(two_turns().events, 11, 12)
    record = why(events, [damage(11, 12)], at=EPOCH + timedelta(seconds=10)).record
    assert record is not None
    assert record.state is TurnState.UNKNOWN
    earlier = why(events, [damage(11, 12)], at=EPOCH + timedelta(seconds=9)).record
    assert earlier is not None
    assert earlier.state is TurnState.RUNNING


def test_why_says_which_events_are_lost_and_where_the_path_ends() -> None:
    explained = why(without(two_turns().events, 12))
    assert [(step.seq, step.after) for step in explained.path] == [(9, TurnState.RUNNING), (12, TurnState.UNKNOWN)]
    assert explained.missing[0] == "event 12, which the log does not hold any more"
    lines = render_lines(structs.replace(explained, as_of_seq=None))
    assert lines[0] == "t2: unknown (log_damaged)"
    assert any("running -> unknown: event 12 cannot be read" in line for line in lines)


def test_a_log_is_not_cut_within_an_open_turn_of_which_events_are_lost() -> None:
    scribe = Scribe()
    scribe.write(
        TurnStarted(driver=DriverKind.MODEL), UserMessage(text="go"), USAGE, AssistantMessage(text="half"), turn="t1"
    )
    lossy = without(scribe.events, 3)
    for log in (scribe.events, lossy):
        cuts = find_cuts(log)
        assert (cuts.boundaries, len(cuts.open_turns)) == ([], 1)


@pytest.mark.parametrize(("lost", "kept"), [((3, 4), {3: "t1", 4: "t2"}), ((3,), {3: "t1"})])
def test_turns_that_are_open_at_one_loss_have_their_ends_in_places_of_their_own(
    lost: tuple[int, ...], kept: dict[int, str]
) -> None:
    scribe = Scribe()
    scribe.write(UserMessage(text="one"), turn="t1")
    scribe.write(UserMessage(text="two"), turn="t2")
    scribe.write(*[USAGE] * len(lost), turn="t1")
    scribe.write(ToolCall(call_id=CallId("c"), name="Bash"), turn="t1")
    view, frames = fold(without(scribe.events, *lost))
    told = {frame.message.message_id: frame.message for frame in frames if isinstance(frame, ChatMessage)}
    assert {one.message_id: one.turn_id for one in told.values() if one.role is Role.END} == kept
    assert tuple(told[one] for one in sorted(told)) == view.snapshot().messages
