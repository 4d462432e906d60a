"""The presenter's items of live text as frames of the room. It decides nothing.

What is taken back needs no frame of its own: a piece says by its offset that what stood from there on is gone, and the
beginning of a stream that the text of the one before is void. Frames are not stamped here: `task_view` gives them their
version and their tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from interlock.projections.display import BeginStream, Channel, EndStream, Item, Show, StreamEnding
from interlock.vocabulary.frames import (
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatStart,
    ChatThought,
    TaskFrame,
)
from interlock.vocabulary.ids import SessionId

UNSTAMPED: Final = 0


def live_frames(task_id: SessionId, item: Item) -> Iterator[TaskFrame]:
    """The frame of an item that is about live text; nothing for any other."""
    match item:
        case BeginStream(stream_id=stream_id, at=at) if at is not None:
            yield ChatStart(
                task_id=task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=item.turn_id,
                stream_id=stream_id,
                started_at=at,
            )
        case Show(stream_id=str() as stream_id, offset=int() as offset, channel=Channel.THOUGHT):
            yield ChatThought(
                task_id=task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=item.turn_id,
                stream_id=stream_id,
                offset=offset,
                text=item.text,
            )
        case Show(stream_id=str() as stream_id, offset=int() as offset, at=at) if at is not None:
            yield ChatChunk(
                task_id=task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=item.turn_id,
                stream_id=stream_id,
                offset=offset,
                text=item.text,
                at=at,
            )
        case EndStream():
            yield _ended(task_id, item)
        case _:
            pass


def _ended(task_id: SessionId, item: EndStream) -> TaskFrame:
    match item.ending:
        case StreamEnding.WHOLE | StreamEnding.CANCELLED:
            kind = ChatDone if item.ending is StreamEnding.WHOLE else ChatCancelled
            return kind(
                task_id=task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=item.turn_id,
                stream_id=item.stream_id,
                cursor=item.cursor,
                message_id=item.message_seq,
            )
        case StreamEnding.BROKEN_OFF:
            return ChatError(
                task_id=task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=item.turn_id,
                stream_id=item.stream_id,
                cursor=item.cursor,
                message_id=item.message_seq,
                error_kind=item.error_kind,
                error_message=item.error_message,
            )
        case unreachable:
            assert_never(unreachable)
