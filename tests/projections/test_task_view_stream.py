"""The live stream of a task: what opens it, what it holds, what ends it, and in which order that is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.projections.present.live_text import LiveStream
from interlock.projections.task.view import TaskView
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, RunId, StreamId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind
from interlock.vocabulary.wire.frames import (
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatMessage,
    ChatStart,
    MessageStatus,
    Role,
    StatePatched,
    TaskFrame,
    TaskStatusChanged,
)
from tests.projections.histories import ANSWER, CALL, ERROR, NETWORK, PARTIAL, TIMEOUT, Story

DONE = RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END)


class Room:
    """A view in the middle of a turn, and its story."""

    def __init__(self) -> None:
        self.story = Story()
        self.story.begin()
        self.view = TaskView(self.story.session)
        self.catch_up()

    def catch_up(self) -> list[TaskFrame]:
        return [frame for event in self.story.events[self.view.version :] for frame in self.view.add(event)]

    def log(self, *payloads: Payload, turn: str = "t1") -> list[TaskFrame]:
        self.story.tell(*payloads, turn=turn)
        return self.catch_up()

    def end(self, reason: TerminationReason, **more: object) -> list[TaskFrame]:
        self.story.end(reason, **more)  # type: ignore[arg-type]
        return self.catch_up()

    def hear(
        self, text: str, offset: int, stream: str = "st1", *, turn: str = "t1", second: int = 0
    ) -> list[TaskFrame]:
        return list(self.view.add(delta(text, offset, stream, turn=turn, second=second)))

    def text(self) -> str | None:
        stream = self.view.snapshot().stream
        return None if stream is None else stream.text


def delta(text: str, offset: int, stream: str = "st1", *, turn: str | None = "t1", second: int = 0) -> Event:
    return new_event(
        TextDelta(stream_id=StreamId(stream), offset=offset, text=text),
        id=EventId("evt_live"),
        session_id=Story().session,
        ts=EPOCH + timedelta(days=1, seconds=second),
        turn_id=None if turn is None else TurnId(turn),
    )


def checkpoint(text: str, stream: str = "st1", attempt: int = 1) -> StreamCheckpoint:
    return StreamCheckpoint(stream_id=StreamId(stream), offset=len(text), text=text, attempt=attempt)


def intermediate(text: str, stream: str | None = "st1") -> AssistantMessage:
    stream_id = None if stream is None else StreamId(stream)
    return AssistantMessage(text=text, metadata=MessageMetadata(intermediate=True, stream_id=stream_id))


def kinds(frames: list[TaskFrame]) -> list[str]:
    return [type(frame).__name__ for frame in frames]


# It begins and grows


def test_a_delta_begins_a_stream_and_the_next_goes_on() -> None:
    room = Room()
    start, chunk = room.hear("Hel", 0, second=1)
    assert isinstance(start, ChatStart)
    assert isinstance(chunk, ChatChunk)
    assert (start.stream_id, start.turn_id, start.started_at) == ("st1", "t1", EPOCH + timedelta(days=1, seconds=1))
    assert (chunk.offset, chunk.text, chunk.turn_id) == (0, "Hel", "t1")
    assert kinds(room.hear("lo \N{GRINNING FACE}", 3, second=2)) == ["ChatChunk"]
    assert room.hear("", 7) == []
    piece = room.view.snapshot().stream
    assert piece is not None
    assert (piece.text, piece.cursor, piece.offset, piece.turn_id) == ("Hello \N{GRINNING FACE}", 7, 0, "t1")
    assert piece.started_at == EPOCH + timedelta(days=1, seconds=1)
    assert piece.last_activity_at == EPOCH + timedelta(days=1, seconds=2)


def test_a_delta_below_the_cursor_cuts_the_text() -> None:
    room = Room()
    room.hear("Hello", 0)
    (chunk,) = room.hear("p me", 3)
    assert isinstance(chunk, ChatChunk)
    assert (chunk.offset, room.text()) == (3, "Help me")
    assert kinds(room.hear("", 4)) == ["ChatChunk"]
    assert room.text() == "Help"


def test_another_stream_takes_its_place_for_good() -> None:
    room = Room()
    room.hear("Hello", 0)
    assert kinds(room.hear("Again", 0, "st2")) == ["ChatStart", "ChatChunk"]
    assert room.text() == "Again"
    assert room.hear("Hello", 0, "st1") == []
    assert room.text() == "Again"


def test_after_a_gap_nothing_is_known() -> None:
    room = Room()
    room.hear("Hello", 0)
    (error,) = room.hear("later", 9)
    assert isinstance(error, ChatError)
    assert (error.error_kind, error.cursor, error.message_id) == ("gap", 5, None)
    assert room.text() is None
    assert room.hear("still later", 14) == []
    assert kinds(room.log(checkpoint("Hello, so later"))) == ["ChatStart", "ChatChunk"]
    assert room.text() == "Hello, so later"
    assert kinds(room.hear("!", 15)) == ["ChatChunk"]


def test_after_a_gap_the_beginning_is_known_again() -> None:
    room = Room()
    room.hear("Hello", 0)
    room.hear("later", 9)
    assert kinds(room.hear("Hello", 0)) == ["ChatStart", "ChatChunk"]


def test_a_stream_whose_beginning_was_missed_ends_the_one_before_and_opens_nothing() -> None:
    room = Room()
    assert room.hear("middle", 3) == []
    room.hear("Hello", 0)
    assert kinds(room.hear("middle", 3, "st2")) == ["ChatError"]
    assert room.text() is None
    assert kinds(room.log(checkpoint("In the middle", "st2"))) == ["ChatStart", "ChatChunk"]


@pytest.mark.parametrize("turn", ["t0", None])
def test_a_delta_of_no_open_turn_is_nothing(turn: str | None) -> None:
    room = Room()
    assert room.view.add(delta("Hello", 0, turn=turn)) == ()
    assert room.text() is None


def test_a_delta_of_a_turn_that_is_over_is_nothing() -> None:
    room = Room()
    room.end(NATURAL_END, text=ANSWER)
    assert room.hear("Hello", 0) == []


def test_a_delta_of_a_turn_that_was_overtaken_is_nothing() -> None:
    room = Room()
    room.story.begin("t2")
    room.catch_up()
    assert room.hear("Hello", 0) == []
    assert kinds(room.hear("Hello", 0, turn="t2")) == ["ChatStart", "ChatChunk"]


# Checkpoints


def test_a_checkpoint_after_a_restart_restores_the_text() -> None:
    room = Room()
    start, chunk = room.log(checkpoint("Hello"))
    assert isinstance(start, ChatStart)
    assert isinstance(chunk, ChatChunk)
    at = room.story.events[-1].ts
    assert (chunk.text, chunk.offset, chunk.at, start.started_at) == ("Hello", 0, at, at)
    assert kinds(room.hear(" you", 5)) == ["ChatChunk"]
    assert room.text() == "Hello you"


def test_a_checkpoint_of_what_is_known_says_nothing() -> None:
    room = Room()
    room.hear("Hello", 0)
    active = room.view.check().active_stream
    assert room.log(checkpoint("Hello")) == []
    assert room.log(checkpoint("Hell")) == []
    assert room.view.check().active_stream == active


def test_a_checkpoint_that_knows_more_adds_it() -> None:
    room = Room()
    room.hear("Hello", 0)
    (chunk,) = room.log(checkpoint("Hello you"))
    assert isinstance(chunk, ChatChunk)
    assert (chunk.offset, chunk.text) == (5, " you")


def test_a_checkpoint_that_knows_better_takes_the_texts_place() -> None:
    room = Room()
    room.hear("Hello", 0)
    room.log(checkpoint("Good day"))
    assert room.text() == "Good day"


@pytest.mark.parametrize(("stream", "told"), [("st2", ["ChatStart"]), ("st1", ["ChatChunk"])])
def test_a_voided_attempt_takes_its_text_with_it(stream: str, told: list[str]) -> None:
    room = Room()
    room.hear("Hello", 0)
    room.log(checkpoint("Hello"))
    assert kinds(room.log(checkpoint("", stream, 2))) == told
    assert room.text() == ""


def test_a_later_attempt_that_is_live_already_is_not_told_again() -> None:
    room = Room()
    room.hear("Hello", 0)
    assert room.log(checkpoint("Hello", attempt=2)) == []
    assert kinds(room.log(checkpoint("", attempt=3))) == ["ChatChunk"]


def test_a_checkpoint_of_a_later_attempt_that_lags_behind_takes_nothing_away() -> None:
    room = Room()
    room.log(checkpoint("Hello", attempt=2))
    room.hear(" you", 5)
    assert room.log(checkpoint("Hello y", attempt=2)) == []
    assert room.text() == "Hello you"


def test_an_older_checkpoint_is_of_the_past() -> None:
    room = Room()
    room.log(checkpoint("Good day", attempt=2))
    assert room.log(checkpoint("Hello, and more", attempt=1)) == []
    assert room.text() == "Good day"


def test_a_checkpoint_of_a_turn_that_was_overtaken_is_nothing() -> None:
    room = Room()
    room.story.begin("t2")
    room.catch_up()
    assert room.log(checkpoint("Hello")) == []


def test_a_checkpoint_where_nobody_runs_the_session_opens_nothing() -> None:
    room = Room()
    room.view.set_supervised(False)
    assert room.log(checkpoint("Hello")) == []
    assert room.text() is None


# It ends


def test_a_message_before_a_tool_ends_its_stream() -> None:
    room = Room()
    room.hear("Hello", 0)
    message, done = room.log(intermediate("Hello"))
    assert isinstance(message, ChatMessage)
    assert isinstance(done, ChatDone)
    assert (done.stream_id, done.cursor, done.message_id) == ("st1", 5, message.message.message_id)
    assert message.message.stream_id == "st1"
    assert room.text() is None


def test_what_comes_of_a_stream_after_its_message_says_nothing() -> None:
    room = Room()
    room.hear("Hello", 0)
    room.log(intermediate("Hello"), intermediate("never seen live", "st7"))
    assert room.hear("Hello", 0) == []
    assert room.hear("never", 0, "st7") == []
    assert room.log(checkpoint("Hello"), checkpoint("never", "st7")) == []


def test_the_message_of_another_stream_ends_none() -> None:
    room = Room()
    room.hear("Hello", 0, "st2")
    assert kinds(room.log(intermediate("of another", "st1"))) == ["ChatMessage"]
    assert room.text() == "Hello"


@pytest.mark.parametrize(("text", "told"), [("Hello", ["ChatMessage", "ChatDone"]), (" ", ["ChatDone"])])
def test_a_message_that_names_no_stream_is_of_the_open_one(text: str, told: list[str]) -> None:
    room = Room()
    room.hear("Hello", 0)
    frames = room.log(intermediate(text, None))
    assert kinds(frames) == told
    assert isinstance(frames[-1], ChatDone)
    assert (frames[-1].message_id is None) == (text == " ")


def test_while_the_answer_is_held_back_its_stream_is_shown() -> None:
    room = Room()
    room.hear(ANSWER, 0)
    assert room.log(AssistantMessage(text=ANSWER)) == []
    assert room.text() == ANSWER
    message, done, patched, status = room.log(DONE)
    assert isinstance(message, ChatMessage)
    assert isinstance(done, ChatDone)
    assert isinstance(patched, StatePatched)
    assert isinstance(status, TaskStatusChanged)
    assert (message.message.role, message.message.status) == (Role.ANSWER, MessageStatus.COMPLETED)
    assert done.message_id == message.message.message_id


def test_held_text_that_a_tool_follows_ends_its_stream_as_commentary() -> None:
    room = Room()
    room.hear("Hello", 0)
    room.log(AssistantMessage(text="Hello"))
    frames = room.log(CALL)
    assert kinds(frames) == ["ChatMessage", "ChatMessage", "ChatDone"]
    assert isinstance(frames[-1], ChatDone)
    assert frames[-1].message_id == room.story.events[-2].seq


def test_held_text_of_an_older_stream_does_not_end_the_newer_one() -> None:
    room = Room()
    room.hear("Hello", 0)
    room.log(AssistantMessage(text="Hello"))
    room.hear("And then", 0, "st2")
    assert kinds(room.log(CALL)) == ["ChatMessage", "ChatMessage"]
    assert room.text() == "And then"


def test_partial_text_that_something_follows_breaks_its_stream_off() -> None:
    room = Room()
    room.hear("Hel", 0)
    room.log(AssistantMessage(text="Hel", metadata=MessageMetadata(partial=True)))
    frames = room.log(CALL)
    assert kinds(frames) == ["ChatMessage", "ChatMessage", "ChatError"]
    assert room.text() is None


@pytest.mark.parametrize(
    ("reason", "how", "more"),
    [
        (NETWORK, ChatError, {"error_kind": "network", "error_message": ERROR}),
        (CANCELLED, ChatCancelled, {}),
        (TIMEOUT, ChatError, {"budget_seconds": 1.0, "elapsed_seconds": 2.0}),
    ],
)
def test_a_turn_that_did_not_complete_tells_text_end_stream_and_status_in_that_order(
    reason: TerminationReason, how: type[TaskFrame], more: dict[str, object]
) -> None:
    room = Room()
    room.hear(PARTIAL, 0)
    answer, end, stream, patched, status = room.end(reason, text=PARTIAL, **more)
    assert isinstance(answer, ChatMessage)
    assert isinstance(end, ChatMessage)
    assert isinstance(stream, ChatError | ChatCancelled)
    assert isinstance(stream, how)
    assert isinstance(patched, StatePatched)
    assert isinstance(status, TaskStatusChanged)
    assert (answer.message.role, end.message.role) == (Role.ANSWER, Role.END)
    assert stream.message_id == answer.message.message_id
    if isinstance(stream, ChatError):
        assert (stream.error_kind, stream.error_message) == (end.message.error_kind, end.message.text)


def test_a_stream_of_which_nothing_was_kept_names_no_message() -> None:
    room = Room()
    room.hear("Hel", 0)
    frames = room.end(NETWORK, error_kind="network")
    assert kinds(frames) == ["ChatMessage", "ChatError", "StatePatched", "TaskStatusChanged"]
    error = frames[1]
    assert isinstance(error, ChatError)
    assert error.message_id is None


def test_a_blank_message_holds_nothing_of_a_stream() -> None:
    room = Room()
    room.hear("Hel", 0)
    error = room.log(AssistantMessage(text=" "), DONE)[1]
    assert isinstance(error, ChatError)
    assert error.message_id is None


def test_a_stream_that_another_turn_overtakes_breaks_off() -> None:
    room = Room()
    room.hear(ANSWER, 0)
    room.log(AssistantMessage(text=ANSWER))
    room.story.begin("t2")
    frames = room.catch_up()
    assert kinds(frames[:3]) == ["ChatMessage", "ChatError", "ChatMessage"]
    error = frames[1]
    assert isinstance(error, ChatError)
    assert (error.error_kind, error.message_id, error.turn_id) == ("overtaken", room.story.events[3].seq, "t1")
    # Names of streams are a turn's own.
    assert kinds(room.hear("Hello", 0, turn="t2")) == ["ChatStart", "ChatChunk"]


def test_a_stream_of_a_process_that_another_replaced_breaks_off() -> None:
    room = Room()
    room.hear("Hel", 0)
    room.story.write(TurnStarted(driver=DriverKind.MODEL), turn="t1", spawn="s1")
    assert room.catch_up() == []
    room.story.write(TurnStarted(driver=DriverKind.MODEL), turn="t1", spawn="s2")
    (error,) = room.catch_up()
    assert isinstance(error, ChatError)
    assert error.error_kind == "respawned"


# Coming back


def test_a_client_gets_what_it_lacks() -> None:
    room = Room()
    room.hear("Hello you", 0)
    st1 = StreamId("st1")
    for stream_id, cursor, offset in [(st1, 5, 5), (st1, 9, 9), (st1, 10, 0), (StreamId("st0"), 5, 0), (None, 5, 0)]:
        piece = room.view.snapshot(stream_id=stream_id, cursor=cursor).stream
        assert piece is not None
        assert (piece.offset, piece.text, piece.cursor) == (offset, "Hello you"[offset:], 9)


def test_a_stream_that_was_cut_is_given_whole() -> None:
    room = Room()
    room.hear("Hello you", 0)
    room.hear("p all of them", 3)
    piece = room.view.snapshot(stream_id=StreamId("st1"), cursor=9).stream
    assert piece is not None
    assert (piece.offset, piece.text) == (0, "Help all of them")


def test_a_stream_that_began_again_is_given_whole() -> None:
    room = Room()
    room.hear("Hello you", 0)
    room.hear("far on", 99)
    room.hear("Help all of them", 0)
    piece = room.view.snapshot(stream_id=StreamId("st1"), cursor=9).stream
    assert piece is not None
    assert piece.offset == 0


def test_a_stream_that_bears_a_name_of_before_is_given_whole() -> None:
    room = Room()
    room.hear("Hello you", 0)
    room.end(NATURAL_END, text=ANSWER)
    room.story.begin("t2")
    room.catch_up()
    room.hear("Help all of them", 0, turn="t2")
    piece = room.view.snapshot(stream_id=StreamId("st1"), cursor=9).stream
    assert piece is not None
    assert (piece.offset, piece.turn_id) == (0, "t2")


def test_a_stream_grows_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at the whole text for each piece would cost more with each piece."""
    room, piece, number = Room(), "x" * 20, 50_000

    def unread(_: LiveStream) -> str:
        raise AssertionError("the whole text was read to add a piece to it")

    with monkeypatch.context() as patch:
        patch.setattr(LiveStream, "text", property(unread))
        for offset in range(0, number * len(piece), len(piece)):
            room.hear(piece, offset)
        check = room.view.check().active_stream
    assert check is not None
    assert check.cursor == number * len(piece)
    assert room.text() == piece * number
