"""Messages by id, text by place, and what becomes of live text that ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.client.machine import transcript
from interlock.client.machine.state import TaskState
from interlock.client.machine.transcript import merge_messages
from interlock.vocabulary.ids import StreamId, TurnId
from interlock.vocabulary.wire.frames import MessageStatus, Role
from tests.task_scenarios import words
from tests.task_scenarios.vectors import TASK
from tests.task_scenarios.words import A, B, chunk, piece, said, start

RUNNING = TaskState(task_id=TASK, status="RUNNING", turn_id=A)


def streaming(text: str = "Hi", stream: str = "s1") -> TaskState:
    state = transcript.begin_stream(RUNNING, start(1, 1, stream), 0)
    return transcript.grow_stream(state, chunk(2, 1, stream, 0, text), 1)[0]


def test_messages_are_kept_by_id_and_the_higher_version_holds() -> None:
    known = merge_messages((), [said(5, "five"), said(2, "two"), said(9, "nine")])
    assert [one.message_id for one in known] == [2, 5, 9]
    assert merge_messages(known, [said(5, "older", version=4)]) == known
    assert merge_messages(known, [said(5, "same")])[1].text == "same"
    assert merge_messages(known, [said(5, "newer", version=7), said(6, "six")])[1:3] == (
        said(5, "newer", version=7),
        said(6, "six"),
    )


def test_a_message_takes_the_place_of_its_stream() -> None:
    state = transcript.take_messages(streaming(), [said(3, "Hi", stream="s1")])
    assert state.stream is None
    assert state.interrupted == ()
    assert transcript.grow_stream(state, chunk(3, 3, "s1", 2, "!"), 2) == (state, False)


def test_a_message_of_another_stream_leaves_it_alone() -> None:
    state = transcript.take_messages(streaming(), [said(3, "other", stream="s9"), said(4, "none")])
    assert state.stream is not None
    assert state.stream.text == "Hi"


def test_live_text_that_broke_off_gives_way_to_its_own_message_only() -> None:
    aside = transcript.set_aside(streaming())
    for other in (said(3, "Hi", stream="s9"), said(3, "Hi"), said(3, "Hi", role=Role.COMMENTARY)):
        assert transcript.take_messages(aside, [other]).interrupted == aside.interrupted
    for own in (said(3, "Hi", stream="s1", role=Role.COMMENTARY), said(3, "Hi all", stream="s1", turn=B)):
        assert transcript.take_messages(aside, [own]).interrupted == ()


def test_live_text_is_shown_last_and_as_what_it_is() -> None:
    state = transcript.take_messages(streaming(), [words.asked(3, "before")])
    assert [(one.status, one.text) for one in state.transcript] == [
        (MessageStatus.COMPLETED, "before"),
        (MessageStatus.STREAMING, "Hi"),
    ]
    aside = transcript.set_aside(state)
    (copy,) = aside.interrupted
    assert (copy.status, copy.role, copy.stream_id, copy.turn_id) == (MessageStatus.INTERRUPTED, Role.ANSWER, "s1", A)
    assert aside.transcript == (*state.messages, copy)
    assert aside.digest().messages == state.digest().messages, "a copy is no part of the log"


def test_nothing_is_kept_of_a_stream_without_text() -> None:
    state = transcript.set_aside(transcript.begin_stream(RUNNING, start(1, 1, "s1"), 0))
    assert (state.stream, state.interrupted, state.ended_streams) == (None, (), ("s1",))


def test_a_stream_that_is_replaced_leaves_no_copy() -> None:
    state = transcript.begin_stream(streaming(), start(3, 1, "s2"), 2)
    assert state.interrupted == ()
    assert state.ended_streams == ("s1",)


def test_a_gap_keeps_what_is_here() -> None:
    state, is_short = transcript.grow_stream(streaming("ab"), chunk(3, 1, "s1", 5, "z"), 2)
    assert is_short
    assert state.stream is not None
    assert state.stream.text == "ab"
    state, is_short = transcript.grow_stream(streaming("ab"), chunk(3, 1, "s2", 5, "z"), 2)
    assert is_short
    assert state.stream is not None
    assert (state.stream.stream_id, state.stream.text) == ("s2", "")


def test_copies_ends_and_turns_are_bounded() -> None:
    state = RUNNING
    for number in range(100):
        state = transcript.begin_stream(state, start(1, 1, f"s{number}"), 0)
        state = transcript.grow_stream(state, chunk(1, 1, f"s{number}", 0, "x"), 0)[0]
        state = transcript.end_stream(state, StreamId(f"s{number}"), A)
    assert [one.stream_id for one in state.interrupted] == [f"s{number}" for number in range(92, 100)]
    assert len(state.ended_streams) == 32
    for number in range(100):
        state = replace(transcript.leave_turn(state, TurnId(f"t{number}")), turn_id=TurnId(f"t{number}"))
    assert len(state.past_turns) == 32
    assert state.past_turns[-1] == "t98"


def test_the_end_of_a_stream_that_is_not_open_is_remembered_unless_it_is_of_the_past() -> None:
    state = replace(streaming(), past_turns=(B,))
    ended = transcript.end_stream(state, StreamId("s5"), A)
    assert ended.stream == state.stream
    assert transcript.grow_stream(ended, chunk(3, 1, "s5", 0, "late"), 2) == (ended, False)
    assert transcript.end_stream(state, StreamId("s5"), B) == state


def test_leaving_a_turn_sets_its_stream_aside_and_coming_back_ends_its_past() -> None:
    state = replace(transcript.leave_turn(streaming(), B), turn_id=B)
    assert (state.stream, state.past_turns, state.ended_streams) == (None, (A,), ())
    assert [one.text for one in state.interrupted] == ["Hi"]
    assert transcript.leave_turn(state, A).past_turns == (B,)


def test_a_stream_without_a_turn_goes_on_in_the_next() -> None:
    state = transcript.begin_stream(RUNNING, start(1, 1, "s1", None), 0)
    assert transcript.leave_turn(state, B).stream == state.stream


def test_a_snapshot_puts_its_text_in_place_and_sets_another_stream_aside() -> None:
    state = transcript.take_piece(streaming("Hello"), piece("s1", "p!", 3), 9)
    assert state.stream is not None
    assert (state.stream.text, state.stream.last_chunk_at) == ("Help!", 9)
    other = transcript.take_piece(streaming("Hello"), piece("s2", "new"), 9)
    assert other.stream is not None
    assert other.stream.text == "new"
    assert [one.text for one in other.interrupted] == ["Hello"]


def test_a_snapshot_brings_back_what_was_set_aside_too_soon() -> None:
    aside = transcript.set_aside(streaming("Hel"))
    state = transcript.take_piece(aside, piece("s1", "Hello"), 9)
    assert state.stream is not None
    assert (state.stream.text, state.interrupted, state.ended_streams) == ("Hello", (), ())


@pytest.mark.parametrize("turn", [None, A])
def test_a_snapshot_shows_no_stream_of_a_turn_that_is_over(turn: TurnId | None) -> None:
    over = replace(RUNNING, status="COMPLETED")
    assert transcript.take_piece(over, piece("s1", "text", turn=turn), 9).stream is None
    assert transcript.take_piece(over, piece("s1", "text", turn=B), 9).stream is not None


def test_lengths_are_of_code_points() -> None:
    state = streaming("é🙂字")
    assert state.stream is not None
    assert state.stream.cursor == 3
    assert words.piece("s1", "é🙂字").cursor == 3
