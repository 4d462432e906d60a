"""Sessions at rest on any history: their line is what their view shows, and a runtime finds nothing to do in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from hypothesis import event as note
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.log.home_identity import HomeStanding
from interlock.projections.task.summary import NO_AGENT, TaskLine
from interlock.projections.task.view import TaskView
from interlock.runtime import recovery, retention
from interlock.runtime.session_fold import SessionFold
from interlock.runtime.sleeping import line_snapshot, read_line
from interlock.testing.scribe import EPOCH, Scribe, endless_history
from interlock.vocabulary.events.audit import (
    ProcessEvent,
    ProcessEventKind,
    QueueEvent,
    QueueEventKind,
    SessionDeleted,
    SessionOpened,
    SessionRenamed,
    SessionSeen,
)
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.events.workspace import WorktreeChanged, WorktreePhase
from interlock.vocabulary.ids import EventId, PromptId, SessionId, TurnId
from interlock.vocabulary.states import DriverKind, ExitReason
from tests.projections.logs import LOGS

SESSION: Final = SessionId("s")
OPENED: Final = SessionOpened(agent="claude", driver="puppet", kind=DriverKind.STREAM, argv=("claude",), cwd="/")
_WHOLE: Final = tuple(islice(endless_history("s"), 60))
_TURN: Final = sum(one.turn_id == "trn_0" for one in _WHOLE)
_SPAWNED: Final = ProcessEvent(kind=ProcessEventKind.SPAWNED, pid=7, start_time="9")
_EXITED: Final = ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CLEAN)
_ASIDE: Final[tuple[tuple[Payload, str | None], ...]] = (
    (_SPAWNED, "spn_1"),
    (_EXITED, "spn_1"),
    (ProcessEvent(kind=ProcessEventKind.CENSUS), "spn_1"),
    (ProcessEvent(kind=ProcessEventKind.RESTART_DUE, attempt=1), None),
    (SessionSeen(turn_id=TurnId("trn_0")), None),
    (SessionRenamed(title="other"), None),
    (SessionDeleted(), None),
    (WorktreeChanged(phase=WorktreePhase.PLANNED, path="/w", branch="b", base="c", repository="/r"), None),
    (WorktreeChanged(phase=WorktreePhase.CREATED, path="/w", branch="b", base="c", repository="/r"), None),
    (QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=PromptId("p"), text="more"), None),
    (QueueEvent(kind=QueueEventKind.REMOVED, prompt_id=PromptId("p")), None),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A session as a runtime writes it, cut anywhere, with other events at its end."""
    length = draw(st.sampled_from([0, _TURN, 2 * _TURN]) | st.integers(0, 60))
    aside = Scribe("s").write(OPENED)
    for data, spawn in draw(st.lists(st.sampled_from(_ASIDE), max_size=5)):
        aside += Scribe("s").write(data, spawn=spawn)
    whole = [aside[0], *_WHOLE[:length], *aside[1:]]
    return [
        structs.replace(one, seq=seq, ts=EPOCH + timedelta(seconds=seq), id=EventId(f"evt_{seq}"))
        for seq, one in enumerate(whole, start=1)
    ]


def view_of(events: Sequence[Event]) -> TaskView:
    view = TaskView(SESSION)
    for one in events:
        view.add(one)
    return view


def read_back(view: TaskView) -> TaskLine:
    """Through the bytes that a store keeps."""
    return read_line(line_snapshot(view))


@given(histories() | LOGS, st.booleans(), st.integers(0, 10_000))
def test_the_line_of_a_session_at_rest_is_what_its_view_shows(
    events: list[Event], is_supervised: bool, later: int
) -> None:
    view = view_of(events)
    note(f"at rest: {view.is_at_rest}")
    if not view.is_at_rest:
        return
    line, last_at = read_back(view), events[-1].ts
    view.set_supervised(is_supervised)
    if is_supervised:  # as the hub tells of a session that it could wake
        view.add(new_event(NO_AGENT, id=EventId("hub.1"), session_id=SESSION, ts=last_at))
    now: datetime = last_at + timedelta(seconds=later)
    assert line.shown(now, is_supervised=is_supervised) == view.summary(now)
    assert line.tally == view.tally()
    assert line.newest_turns == view.newest_turns
    assert view.is_at_rest, "that no server runs it, or could, opens nothing"


@given(histories() | LOGS)
def test_a_runtime_finds_nothing_to_do_in_a_session_at_rest(events: list[Event]) -> None:
    if not view_of(events).is_at_rest:
        return
    book = SessionFold.of(SESSION, events)
    assert retention._open_by(book) == ""
    assert not book.queue.waiting
    assert recovery._unswept(events, HomeStanding()) is None
    assert recovery._hold(book, HomeStanding()) is None


def test_a_session_is_not_at_rest_while_anything_is_open() -> None:
    turn = _TURN
    opened = Scribe("s").write(OPENED)

    def rests(*events: Event) -> bool:
        return view_of([structs.replace(one, seq=seq) for seq, one in enumerate(events, start=1)]).is_at_rest

    assert not rests()
    assert rests(*opened)
    assert rests(*opened, *_WHOLE[:turn])
    assert not any(rests(*opened, *_WHOLE[:length]) for length in range(1, turn - 1))
    spawned, exited = Scribe("s").write(_SPAWNED, _EXITED, spawn="spn_1")
    assert not rests(*opened, spawned)
    assert not rests(*opened, spawned, exited), "what it left was not looked for"
    assert rests(
        *opened, spawned, exited, *Scribe("s").write(ProcessEvent(kind=ProcessEventKind.CENSUS), spawn="spn_1")
    )
    lost = view_of([structs.replace(one, seq=seq) for seq, one in enumerate(opened, start=1)])
    lost.lose(2, 3)
    assert not lost.is_at_rest
