"""Rooms: whoever joins, whenever, and however slow, ends where the fold stands."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.projections.badge import ANSWER_ON_ITS_WAY, ANSWER_SECONDS
from interlock.server.http.problems import UnknownTask
from interlock.server.live.rooms import Rooms
from interlock.testing.scribe import EPOCH, endless_history
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind, ProviderUsage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import ScreenUpdate, Status, TextDelta
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.states import Activity, Attention, TaskStatus
from interlock.vocabulary.wire.frames import ChatChunk, Push
from interlock.vocabulary.wire.requests import (
    BoardBehind,
    BoardJoin,
    BoardJoined,
    BoardTask,
    TaskBehind,
    TaskJoin,
    TaskJoined,
    TaskResume,
)
from tests.server.socket_harness import FRAMES, Author, Reader, digest, frames_of, whole

ONE = SessionId("ses_one")
TWO = SessionId("ses_two")


def talking(author: Author, rooms: Rooms) -> None:
    """A turn that is open, with a stream."""
    for event in [*author.opened(), *author.queued(), *author.began(), *author.said("hello")]:
        rooms.publish(event)


def publish(rooms: Rooms, *batches: list[Event]) -> None:
    for batch in batches:
        for event in batch:
            rooms.publish(event)


def test_a_join_and_the_frames_after_it_are_the_view() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    reader = Reader(rooms)
    reader.join(ONE)
    publish(rooms, author.said(" world"), author.called(), author.returned(), author.answered())
    reader.read()
    assert digest(reader.tasks[ONE].snapshot) == digest(whole(rooms.views[ONE]))
    assert reader.tasks[ONE].snapshot.task_status is TaskStatus.COMPLETED


def test_the_answer_comes_first_and_the_next_frame_is_the_next_tick() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    reader = Reader(rooms)
    reader.join(ONE)
    publish(rooms, author.said("x"))
    joined, chunk = frames_of(list(reader.inbox))
    assert isinstance(joined, TaskJoined)
    assert isinstance(chunk, ChatChunk)
    assert (joined.id, chunk.tick) == ("j", joined.snapshot.tick + 1)


def test_a_frame_is_encoded_once_for_all_and_not_at_all_for_nobody() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    assert rooms.frames_encoded == 0
    readers = [Reader(rooms) for _ in range(5)]
    for reader in readers:
        reader.join(ONE)
    before = rooms.frames_encoded
    publish(rooms, author.said("x"))
    assert rooms.frames_encoded == before + 1
    assert len({id(reader.inbox[-1]) for reader in readers}) == 1


def test_who_is_in_another_room_hears_nothing_of_this_one() -> None:
    rooms, author, other = Rooms(), Author(), Author("ses_two")
    talking(author, rooms)
    talking(other, rooms)
    reader = Reader(rooms)
    reader.join(TWO)
    publish(rooms, author.said("x"))
    assert len(reader.inbox) == 1


def test_an_unknown_task_is_refused_and_nobody_is_in_its_room() -> None:
    rooms = Rooms()
    reader = Reader(rooms)
    with pytest.raises(UnknownTask):
        reader.join(ONE)
    assert rooms.rooms_of(reader) == 0
    assert not reader.inbox
    publish(rooms, Author().opened(), Author().queued())
    assert not reader.inbox


def test_to_leave_or_to_be_dropped_is_to_hear_nothing() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    leaver, gone, stays = Reader(rooms), Reader(rooms), Reader(rooms)
    for reader in (leaver, gone, stays):
        reader.join(ONE)
        rooms.join_board(reader, BoardJoin(id="b"))
        reader.read()
    rooms.leave(leaver, ONE)
    rooms.leave_board(leaver)
    rooms.drop(gone)
    publish(rooms, author.said("x"), author.asked())
    assert not leaver.inbox
    assert not gone.inbox
    assert rooms.rooms_of(leaver) == rooms.rooms_of(gone) == 0
    assert stays.inbox
    rooms.leave(leaver, ONE)  # twice is no error
    rooms.drop(gone)
    assert not rooms.is_in(leaver, ONE)


def test_a_slow_member_is_told_once_and_then_goes_on() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    slow = Reader(rooms, capacity=3)
    rooms.join(slow, TaskJoin(id="j", task_id=ONE))
    for _ in range(10):
        publish(rooms, author.said("x"))
    kinds = [type(frame).__name__ for frame in frames_of(list(slow.inbox))]
    assert kinds == ["TaskJoined", "ChatChunk", "ChatChunk"]
    slow.inbox.clear()
    publish(rooms, author.said("y"))
    assert not slow.inbox, "it has place, and was not told yet"
    rooms.catch_up(slow)
    rooms.catch_up(slow)
    publish(rooms, author.said("z"))
    behind, chunk = frames_of(list(slow.inbox))
    assert isinstance(behind, TaskBehind)
    assert isinstance(chunk, ChatChunk)
    assert (behind.tick, behind.version) == (rooms.views[ONE].tick - 1, rooms.views[ONE].version)
    assert chunk.tick == behind.tick + 1


def test_who_could_not_be_told_that_it_is_behind_gets_no_frame_before() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    slow = Reader(rooms, capacity=1)
    slow.join(ONE)
    publish(rooms, author.said("x"))
    rooms.catch_up(slow)  # there is no place even for that
    slow.inbox.clear()
    publish(rooms, author.said("y"))
    assert not slow.inbox
    rooms.catch_up(slow)
    assert [type(frame) for frame in frames_of(list(slow.inbox))] == [TaskBehind]


def test_to_be_behind_in_one_room_is_not_to_be_behind_in_another() -> None:
    class Picky(Reader):
        def offer(self, frame: bytes, room: SessionId | None) -> bool:
            return room != ONE and super().offer(frame, room)

    rooms, author, other = Rooms(), Author(), Author("ses_two")
    talking(author, rooms)
    talking(other, rooms)
    reader = Picky(rooms)
    reader.join(ONE)
    reader.join(TWO)
    publish(rooms, author.said("x"), other.said("y"), author.said("x"), other.said("z"))
    told = [frame.task_id for frame in frames_of(list(reader.inbox)) if isinstance(frame, Push)]
    assert told == [TWO, TWO]
    rooms.catch_up(reader)  # there is still no place
    publish(rooms, author.said("x"))
    assert len(reader.inbox) == 4


def test_to_join_or_to_resume_is_not_to_be_behind_any_more() -> None:
    for request in (TaskJoin(id="j", task_id=ONE), TaskResume(id="j", task_id=ONE, version=0)):
        rooms, author = Rooms(), Author()
        talking(author, rooms)
        slow = Reader(rooms, capacity=1)
        slow.join(ONE)
        publish(rooms, author.said("x"))
        rooms.join(slow, request)
        slow.inbox.clear()
        rooms.catch_up(slow)
        assert not slow.inbox, "it was told by its answer"
        publish(rooms, author.said("y"))
        assert len(slow.inbox) == 1


def test_a_resume_brings_only_what_is_missing() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    reader = Reader(rooms)
    version = rooms.views[ONE].version
    publish(rooms, author.said(" world"), author.called())
    rooms.join(reader, TaskResume(id="r", task_id=ONE, version=version, stream_id=author.stream_id, cursor=5))
    joined = FRAMES.decode(reader.inbox[0])
    assert isinstance(joined, TaskJoined)
    assert [one.role.value for one in joined.snapshot.messages] == ["tool"]
    assert joined.snapshot.stream is not None
    assert (joined.snapshot.stream.offset, joined.snapshot.stream.text) == (5, " world")
    assert not joined.snapshot.is_whole


def test_a_join_after_a_version_brings_what_is_later() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    version = rooms.views[ONE].version
    publish(rooms, author.called())
    reader = Reader(rooms)
    rooms.join(reader, TaskJoin(id="j", task_id=ONE, after_version=version))
    joined = FRAMES.decode(reader.inbox[0])
    assert isinstance(joined, TaskJoined)
    assert [one.role.value for one in joined.snapshot.messages] == ["tool"]


def test_a_long_history_costs_a_join_no_more_than_its_answer_holds() -> None:
    rooms = Rooms()
    history = endless_history("ses_one")
    rooms.load(ONE, (next(history) for _ in range(10_000)), is_supervised=True)
    assert rooms.frames_encoded == 0
    reader = Reader(rooms)
    reader.join(ONE)
    joined = FRAMES.decode(reader.inbox[0])
    assert isinstance(joined, TaskJoined)
    assert len(joined.snapshot.messages) == 200
    assert joined.snapshot.history_before is not None


def test_what_is_loaded_twice_is_no_change_and_what_is_new_is_told() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    reader = Reader(rooms)
    reader.join(ONE)
    reader.read()
    rooms.load(ONE, author.events, is_supervised=True)
    assert not reader.inbox
    author.called()
    rooms.load(ONE, author.events, is_supervised=True)
    reader.read()
    assert digest(reader.tasks[ONE].snapshot) == digest(whole(rooms.views[ONE]))


def test_a_session_that_nobody_runs_any_more_is_told_to_its_room() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    reader = Reader(rooms)
    reader.join(ONE)
    rooms.join_board(reader, BoardJoin(id="b"))
    rooms.set_supervised(ONE, False)
    reader.read()
    assert reader.tasks[ONE].snapshot.task_status is TaskStatus.UNKNOWN
    assert reader.tasks[ONE].snapshot.stream is None
    assert reader.board is not None
    assert not reader.board[ONE].is_supervised


def test_another_fold_of_the_same_task_tells_its_room_that_it_is_behind() -> None:
    from interlock.projections.task.view import TaskView

    rooms, author = Rooms(), Author()
    talking(author, rooms)
    reader = Reader(rooms)
    reader.join(ONE)
    reader.read()
    again = TaskView(ONE)
    for event in author.events:
        again.add(event)
    again.tick = rooms.views[ONE].tick + 1
    rooms.replace(again)
    reader.read()
    assert reader.times_behind == 1
    assert digest(reader.tasks[ONE].snapshot) == digest(whole(again))


# The board


def test_the_board_tells_each_line_that_changes_and_none_for_text() -> None:
    rooms, author = Rooms(), Author()
    publish(rooms, author.opened(), author.queued(), author.began())
    reader = Reader(rooms)
    rooms.join_board(reader, BoardJoin(id="b"))
    reader.read()
    publish(rooms, *(author.said("x") for _ in range(50)), author.thought())
    publish(rooms, [author.live(ScreenUpdate(rows=("a",)))], author.checkpoint())
    assert not reader.inbox
    changes = [author.shown(Activity.WORKING), author.asked(), author.closed(), author.queued(), author.answered()]
    for number, change in enumerate(changes, start=1):
        publish(rooms, change)
        reader.read()
        assert reader.lines >= number, f"change {number} made no line"
    assert reader.board is not None
    assert reader.board[ONE] == rooms.views[ONE].summary()
    lines = reader.lines
    publish(rooms, author.shown(Activity.WORKING))
    reader.read()
    assert reader.lines == lines, "nothing changed"


def test_the_board_tells_what_a_line_rests_on_and_what_it_costs_though_the_session_does_the_same() -> None:
    rooms, author = Rooms(), Author()
    publish(rooms, author.opened(), author.queued(), author.began())
    reader = Reader(rooms)
    rooms.join_board(reader, BoardJoin(id="b"))

    def seen_by(rule: str, where: str) -> list[Event]:
        proof = Evidence(source=EvidenceSource.SCREEN, rule=rule, where=where)
        return [author.live(Status(activity=Activity.WORKING, evidence=(proof,)))]

    publish(rooms, seen_by("turn.submitted", "rows 1-2"))
    reader.read()
    used = author.log(ProviderUsage(model="m-1", input_tokens=7, cost_usd=0.25))
    for change in (seen_by("native.busy", "rows 1-2"), used):
        lines = reader.lines
        publish(rooms, change)
        reader.read()
        assert reader.lines == lines + 1, change
        assert reader.board is not None
        assert reader.board[ONE] == rooms.views[ONE].summary()
    lines = reader.lines
    publish(rooms, seen_by("native.busy", "rows 7-8"))
    reader.read()
    assert reader.lines == lines, "where on the screen is not said in a line"


def test_a_badge_whose_time_is_up_is_told_to_the_room_and_the_board_though_nothing_more_is_heard() -> None:
    now = EPOCH
    rooms, author = Rooms(lambda: now), Author()
    publish(rooms, author.opened(), author.queued(), author.began())
    given = Evidence(source=EvidenceSource.LOG, rule=ANSWER_ON_ITS_WAY, at=EPOCH)
    asking = Status(activity=Activity.WORKING, attention=Attention.QUESTION, evidence=(given,))
    publish(rooms, [author.live(asking)])
    reader = Reader(rooms)
    reader.join(ONE)
    rooms.join_board(reader, BoardJoin(id="b"))
    reader.read()
    rooms.refresh()
    assert not reader.inbox, "its time is not up"
    now = EPOCH + timedelta(seconds=ANSWER_SECONDS)
    rooms.refresh()
    told = [msgspec.json.decode(frame) for frame in reader.inbox]
    assert [one["type"] for one in told] == ["task:badge", "board:task"]
    for badge in (told[0]["badge"], told[1]["task"]["badge"]):
        assert (badge["attention"], badge["needs_person"]) == ("question", True)
    reader.read()
    rooms.refresh()
    assert not reader.inbox, "it is told once"


@pytest.mark.parametrize(
    ("kinds", "is_adopted"),
    [
        ((), False),
        ((ProcessEventKind.ADOPTED,), True),
        ((ProcessEventKind.ADOPTED, ProcessEventKind.ADOPTED), True),
        ((ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED), False),
        ((ProcessEventKind.ADOPTED, ProcessEventKind.SPAWNED), False),
    ],
)
def test_a_session_is_adopted_where_a_person_started_its_agent_and_not_where_the_next_server_took_up_ours(
    kinds: tuple[ProcessEventKind, ...], is_adopted: bool
) -> None:
    rooms, author = Rooms(), Author()
    publish(rooms, author.opened())
    for number, kind in enumerate(kinds):
        publish(rooms, author.log(ProcessEvent(kind=kind, pid=number + 1), of_turn=False))
    assert rooms.views[ONE].summary().is_adopted is is_adopted


def test_an_agent_that_crashes_is_told_with_the_count_of_the_last_hour() -> None:
    now = EPOCH
    rooms, author = Rooms(lambda: now), Author()
    publish(rooms, author.opened())
    reader = Reader(rooms)
    reader.join(ONE)
    reader.read()
    event = author.log(ProcessEvent(kind=ProcessEventKind.RESTART_DUE), of_turn=False)
    publish(rooms, event)
    told = [msgspec.json.decode(frame) for frame in reader.inbox]
    assert [(one["type"], one["badge"]["crashes"]) for one in told] == [("task:badge", 1)]
    reader.read()
    now = event[0].ts + timedelta(hours=1)
    rooms.refresh()
    told = [msgspec.json.decode(frame) for frame in reader.inbox]
    assert [(one["type"], one["badge"]["crashes"]) for one in told] == [("task:badge", 0)]


def test_a_new_task_is_a_new_line() -> None:
    rooms = Rooms()
    reader = Reader(rooms)
    rooms.join_board(reader, BoardJoin(id="b"))
    publish(rooms, Author("ses_two").opened("a title"))
    reader.read()
    assert reader.board is not None
    assert reader.board[TWO].title == "a title"


def test_a_board_without_readers_costs_nothing_and_lines_are_not_missed_after_it() -> None:
    rooms, author = Rooms(), Author()
    publish(rooms, author.opened(), author.queued())
    reader = Reader(rooms)
    rooms.join_board(reader, BoardJoin(id="b"))
    rooms.leave_board(reader)
    encoded = rooms.frames_encoded
    publish(rooms, author.began())  # nobody looks
    assert rooms.frames_encoded == encoded
    rooms.join_board(reader, BoardJoin(id="b"))
    reader.read()
    publish(rooms, author.queued())
    reader.read()
    assert reader.board is not None
    assert reader.board[ONE].queued == rooms.views[ONE].summary().queued


def test_a_slow_reader_of_the_board_is_told_to_join_it_again() -> None:
    rooms, author = Rooms(), Author()
    publish(rooms, author.opened())
    slow = Reader(rooms, capacity=2)
    rooms.join_board(slow, BoardJoin(id="b"))
    publish(rooms, author.queued(), author.queued(), author.queued())
    kinds = [type(frame) for frame in frames_of(list(slow.inbox))]
    assert kinds == [BoardJoined, BoardTask]
    slow.read()
    slow.read()
    assert slow.times_behind == 1
    assert slow.board is not None
    assert slow.board[ONE] == rooms.views[ONE].summary()
    assert any(isinstance(frame, BoardBehind) for frame in frames_of(slow.raw))


def test_a_line_that_changed_back_while_everybody_was_behind_is_told() -> None:
    """What was told last, to nobody, is no measure of what to tell next."""
    rooms, author = Rooms(), Author()
    publish(rooms, author.opened(), author.shown(Activity.QUIET))
    slow = Reader(rooms, capacity=1)
    rooms.join_board(slow, BoardJoin(id="b"))
    publish(rooms, author.shown(Activity.WORKING), author.shown(Activity.STALLED))  # refused, and then to nobody
    slow.read()
    slow.read()  # joined again, at `stalled`
    publish(rooms, author.shown(Activity.WORKING))
    slow.read()
    assert slow.board is not None
    assert slow.board[ONE].live == rooms.views[ONE].summary().live


# Properties

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.integers(0, 1), st.integers(0, 31)),
        st.tuples(st.just("join"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("leave"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("board"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("supervised"), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("load"), st.integers(0, 1), st.just(0)),
    ),
    max_size=120,
)


@given(STEPS, st.integers(1, 12))
def test_every_reader_ends_where_the_fold_stands(steps: list[tuple[str, int, int]], capacity: int) -> None:
    rooms = Rooms()
    authors = [Author("ses_one"), Author("ses_two")]
    for author in authors:
        publish(rooms, author.opened(), author.queued(), author.began())
    readers = [Reader(rooms), Reader(rooms, capacity), Reader(rooms, 2 * capacity)]
    for what, first, second in steps:
        _do(rooms, authors, readers, what, first, second)
    for _ in range(200):
        if not any(reader.inbox for reader in readers):
            break
        for reader in readers:
            reader.read(1)
    assert not any(reader.inbox for reader in readers), "it never came to rest"
    for reader in readers:
        for task_id, known in reader.tasks.items():
            assert digest(known.snapshot) == digest(whole(rooms.views[task_id]))
        if reader.board is not None:
            for task_id, line in reader.board.items():
                now = rooms.views[task_id].summary()
                assert (line.task_status, line.turn_id, line.queued) == (now.task_status, now.turn_id, now.queued)
                assert (line.open_approvals, line.is_supervised) == (now.open_approvals, now.is_supervised)


def _do(rooms: Rooms, authors: list[Author], readers: list[Reader], what: str, first: int, second: int) -> None:
    author, reader = authors[first % 2], readers[first]
    task_id = authors[second % 2].session
    match what:
        case "event":
            publish(rooms, author.act(second))
        case "join":
            reader.join(task_id)
        case "leave":
            reader.leave(task_id)
        case "read":
            reader.read(second)
        case "board" if second:
            rooms.join_board(reader, BoardJoin(id="b"))
        case "board":
            rooms.leave_board(reader)
            reader.read()
            reader.board = None
        case "supervised":
            rooms.set_supervised(author.session, bool(second))
        case _:
            view = rooms.views[author.session]
            rooms.load(author.session, author.events, is_supervised=view.is_supervised)


def test_what_cannot_be_encoded_raises_and_a_join_leaves_nobody_half_in() -> None:
    """A half of a character may come live from an agent; the hub hears the error, and folds again."""
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    publish(rooms, [author.live(TextDelta(stream_id=StreamId("str_1"), offset=5, text="\ud83d"))])
    reader = Reader(rooms)
    with pytest.raises(UnicodeEncodeError):
        reader.join(ONE)
    assert rooms.rooms_of(reader) == 0
    assert not reader.inbox


def test_the_text_of_frames_is_plain_json() -> None:
    rooms, author = Rooms(), Author()
    talking(author, rooms)
    reader = Reader(rooms)
    reader.join(ONE)
    assert msgspec.json.decode(reader.inbox[0])["type"] == "task:joined"
