"""What is read: messages, and the stream of the text that still grows.

Laws:
1. A message is known by its id. Of two copies the higher version holds; of two equal ones the later.
2. Text has its place, counted in code points. It is put there, and what stood from there on is gone, as it is on the
   server; doubles never come this far. What would leave a hole is not taken: its ends are never pushed together.
3. A stream that ended, or whose message is there, or whose turn is over, is not brought back by more of its text. Only
   a new beginning, said in order, opens it again, and never once its message is there.
4. One stream is open at a time: another one takes its place, and the old text is gone.
5. Live text that ends without a message is kept as `interrupted` until the message comes. It is never called complete.
6. The message of a stream is the one that names it, or that its end names, and no other, however much the two look
   alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from interlock.client.machine.growing_text import GrowingText
from interlock.client.machine.state import LocalStream, TaskState, local_message
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.vocabulary.ids import StreamId, TurnId
from interlock.vocabulary.wire.frames import ChatChunk, ChatStart, Message, MessageStatus, StreamPiece

_MAX_ENDED: Final = 32
_MAX_INTERRUPTED: Final = 8


def merge_messages(known: tuple[Message, ...], more: Iterable[Message]) -> tuple[Message, ...]:
    """Both, by id."""
    merged = list(known)
    for message in more:
        place = bisect_left(merged, message.message_id, key=lambda one: one.message_id)
        if place == len(merged) or merged[place].message_id != message.message_id:
            merged.insert(place, message)
        elif message.version >= merged[place].version:
            merged[place] = message
    return tuple(merged)


def message_of(messages: Iterable[Message], stream_id: StreamId) -> Message | None:
    """What came of a stream that is over, if it is here (law 6)."""
    return next((message for message in messages if message.stream_id == stream_id), None)


def take_messages(state: TaskState, messages: Iterable[Message], *, is_whole: bool = False) -> TaskState:
    """Add messages, or put them in place of all. Live text whose message is here gives way to it."""
    merged = merge_messages(() if is_whole else state.messages, messages)
    state = replace(state, messages=merged)
    told = {message.stream_id for message in merged}
    state = replace(state, interrupted=tuple(copy for copy in state.interrupted if copy.stream_id not in told))
    if state.stream is not None and _has_message(state, state.stream.stream_id):
        return _mark_ended(replace(state, stream=None), state.stream.stream_id)
    return state


def begin_stream(state: TaskState, frame: ChatStart, now: float) -> TaskState:
    """A stream begins, empty. What was open makes room for it."""
    if _is_over(state, frame.turn_id) or _has_message(state, frame.stream_id):
        return state
    stream = LocalStream(
        stream_id=frame.stream_id, turn_id=frame.turn_id, started_at=frame.started_at, last_chunk_at=now
    )
    return _show(state, stream)


def grow_stream(state: TaskState, frame: ChatChunk, now: float) -> tuple[TaskState, bool]:
    """More text; and whether there is a hole before it, which only a resume can fill."""
    if _is_over(state, frame.turn_id) or frame.stream_id in state.ended_streams:
        return state, False
    stream = state.stream
    if stream is None or stream.stream_id != frame.stream_id:
        if _has_message(state, frame.stream_id):
            return state, False
        stream = LocalStream(stream_id=frame.stream_id, turn_id=frame.turn_id, started_at=frame.at)
    words = stream.words.put(frame.offset, frame.text)
    if words is None:
        return _show(state, stream), True
    return _show(state, replace(stream, words=words, last_chunk_at=now)), False


def end_stream(
    state: TaskState, stream_id: StreamId, turn_id: TurnId | None, message_id: int | None = None
) -> TaskState:
    """A stream is over. If it is the open one, its text stays until its message is there; `message_id` may name it."""
    if state.stream is not None and state.stream.stream_id == stream_id:
        has_message = message_id is not None and any(one.message_id == message_id for one in state.messages)
        return _mark_ended(replace(state, stream=None), stream_id) if has_message else set_aside(state)
    return state if _is_past(state, turn_id) else _mark_ended(state, stream_id)


def set_aside(state: TaskState) -> TaskState:
    """End the open stream, if any. Its text is kept, as interrupted: its message, were it here, would have ended it."""
    stream = state.stream
    if stream is None:
        return state
    state = _mark_ended(replace(state, stream=None), stream.stream_id)
    if not stream.cursor:
        return state
    others = _without_copy(state.interrupted, stream.stream_id)
    copies = (*others, local_message(stream, MessageStatus.INTERRUPTED))
    return replace(state, interrupted=copies[-_MAX_INTERRUPTED:])


def take_piece(state: TaskState, piece: StreamPiece | None, now: float) -> TaskState:
    """The stream as a snapshot has it: where both know text, the server's holds."""
    if piece is None or _has_message(state, piece.stream_id) or _is_over(state, piece.turn_id):
        return set_aside(state)
    known = GrowingText()
    if state.stream is not None and state.stream.stream_id == piece.stream_id:
        known = state.stream.words
    else:
        state = set_aside(state)
    taken = LocalStream(
        stream_id=piece.stream_id,
        turn_id=piece.turn_id,
        started_at=piece.started_at,
        words=known.put(piece.offset, piece.text) or GrowingText(piece.text),
        last_chunk_at=now,
    )
    return _show(state, taken)


def leave_turn(state: TaskState, turn_id: TurnId | None) -> TaskState:
    """Another turn is the task's now: what belongs to the one before is late from here on."""
    left = () if state.turn_id is None else (state.turn_id,)
    past = tuple(one for one in (*state.past_turns, *left) if one != turn_id)
    stream = state.stream
    if stream is not None and stream.turn_id is not None and stream.turn_id != turn_id:
        state = set_aside(state)
    return replace(state, past_turns=past[-_MAX_ENDED:], ended_streams=())


def _show(state: TaskState, stream: LocalStream) -> TaskState:
    """Make this the open stream, and let a check that is under way know that it may have missed it."""
    ended = tuple(one for one in state.ended_streams if one != stream.stream_id)
    before = state.stream
    if before is not None and before.stream_id != stream.stream_id:
        ended = (*ended, before.stream_id)[-_MAX_ENDED:]
    return replace(
        state,
        stream=stream,
        ended_streams=ended,
        interrupted=_without_copy(state.interrupted, stream.stream_id),
        server_confirmed_no_stream=False,
        check=None if state.check is None else replace(state.check, saw_stream=True),
    )


def _mark_ended(state: TaskState, stream_id: StreamId) -> TaskState:
    others = tuple(one for one in state.ended_streams if one != stream_id)
    return replace(state, ended_streams=(*others, stream_id)[-_MAX_ENDED:])


def _without_copy(copies: tuple[Message, ...], stream_id: StreamId) -> tuple[Message, ...]:
    return tuple(copy for copy in copies if copy.stream_id != stream_id)


def _has_message(state: TaskState, stream_id: StreamId) -> bool:
    return message_of(state.messages, stream_id) is not None


def _is_past(state: TaskState, turn_id: TurnId | None) -> bool:
    return turn_id is not None and turn_id in state.past_turns


def _is_over(state: TaskState, turn_id: TurnId | None) -> bool:
    """Whether the turn has ended, or another one came after it."""
    is_own = turn_id is None or turn_id == state.turn_id
    return _is_past(state, turn_id) or (is_own and classify(state.status) is StatusClass.TERMINAL)
