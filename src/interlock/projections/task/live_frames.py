"""The presenter's items of live text as frames of the room. It decides nothing.

What is taken back needs no frame of its own: a piece says by its offset that what stood from there on is gone, and the
beginning of a stream that the text of the one before is void. Frames are not stamped here: `task_view` gives them their
version and their tick.
"""

from __future__ import annotations

from typing import Final, assert_never

from interlock.projections.present.display import BeginStream, DisplayChannel, EndStream, Item, Show, StreamEnding
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.wire.frames import (
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatStart,
    ChatThought,
    TaskFrame,
)

UNSTAMPED: Final = 0


def live_frames(task_id: SessionId, item: Item) -> tuple[TaskFrame, ...]:
    """The frame of an item that is about live text; nothing for any other."""
    if isinstance(item, Show):
        return () if item.stream_id is None or item.offset is None else (_piece(task_id, item, item.stream_id),)
    if isinstance(item, BeginStream):
        return (_begun(task_id, item),)
    return (_ended(task_id, item),) if isinstance(item, EndStream) else ()


def _piece(task_id: SessionId, item: Show, stream_id: StreamId) -> TaskFrame:
    assert item.offset is not None, "it is a piece of a stream"
    if item.channel is DisplayChannel.THOUGHT or item.at is None:
        return ChatThought(
            task_id=task_id,
            version=UNSTAMPED,
            tick=UNSTAMPED,
            turn_id=item.turn_id,
            stream_id=stream_id,
            offset=item.offset,
            text=item.text,
        )
    return ChatChunk(
        task_id=task_id,
        version=UNSTAMPED,
        tick=UNSTAMPED,
        turn_id=item.turn_id,
        stream_id=stream_id,
        offset=item.offset,
        text=item.text,
        at=item.at,
    )


def _begun(task_id: SessionId, item: BeginStream) -> ChatStart:
    assert item.at is not None, "a stream begins at a time"
    return ChatStart(
        task_id=task_id,
        version=UNSTAMPED,
        tick=UNSTAMPED,
        turn_id=item.turn_id,
        stream_id=item.stream_id,
        started_at=item.at,
    )


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
