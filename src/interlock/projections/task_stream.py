"""The live stream of a task: what text is known of it, and the frames that tell a room of it.

Laws:
1. Text is never invented. After a gap nothing is known of a stream, until a checkpoint or its beginning gives it all.
2. At most one stream is open, and it is of the open turn. Another one takes its place, and the old one stays away.
3. A stream whose message has come is over: later pieces of it say nothing.
4. A piece below the cursor cuts the text there. A stream that was cut is only ever handed out whole: a client may hold
   text of before.
5. The cost of a piece does not depend on how much text there is.

Frames are not stamped here: `task_view` gives them their version and their tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from interlock.vocabulary.audit import StreamCheckpoint
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.frames import (
    ActiveStream,
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatStart,
    StreamPiece,
    TaskFrame,
)
from interlock.vocabulary.ids import SessionId, StreamId, TurnId
from interlock.vocabulary.presenter import TextDelta

GAP: Final = "gap"
OVERTAKEN: Final = "overtaken"
RESPAWNED: Final = "respawned"
UNSUPERVISED: Final = "unsupervised"
UNSTAMPED: Final = 0


@dataclass(slots=True)
class LiveStream:
    """The text of one stream, in pieces that are joined when somebody reads it.

    `message_id`: the message that came of this text. It may still be held back.
    """

    stream_id: StreamId
    turn_id: TurnId
    started_at: Moment
    last_activity_at: Moment
    attempt: int = 1
    length: int = 0
    message_id: int | None = None
    is_rewritten: bool = False
    _pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def write(self, offset: int, text: str, at: Moment) -> None:
        """Put text at an offset that is not beyond the end; what was there from that offset on is gone."""
        if offset < self.length:
            self._pieces = [self.text[:offset]]
            self.is_rewritten = True
        self._pieces.append(text)
        self.length = offset + len(text)
        self.last_activity_at = at

    def piece(self, stream_id: StreamId | None, cursor: int) -> StreamPiece:
        """What a client lacks that has the first `cursor` code points of `stream_id`."""
        is_continued = stream_id == self.stream_id and 0 <= cursor <= self.length and not self.is_rewritten
        offset = cursor if is_continued else 0
        return StreamPiece(
            stream_id=self.stream_id,
            turn_id=self.turn_id,
            offset=offset,
            text=self.text[offset:],
            cursor=self.length,
            started_at=self.started_at,
            last_activity_at=self.last_activity_at,
        )

    def without_text(self) -> ActiveStream:
        return ActiveStream(stream_id=self.stream_id, cursor=self.length, last_activity_at=self.last_activity_at)


class StreamKeeper:
    """The stream of the open turn. Give it nothing but what belongs to that turn."""

    def __init__(self, task_id: SessionId) -> None:
        self.current: LiveStream | None = None
        self._task_id = task_id
        self._begun: set[StreamId] = set()
        self._over: set[StreamId] = set()  # of the open turn

    def begin_turn(self) -> None:
        """Another turn is open. Should a stream of it bear a name of before, it is another stream."""
        self._over.clear()

    def hear(self, delta: TextDelta, turn_id: TurnId, at: Moment) -> Iterator[TaskFrame]:
        """A live piece of text."""
        if delta.stream_id in self._over:
            return
        stream = self.current
        if stream is None or stream.stream_id != delta.stream_id:
            if delta.offset > 0:
                yield from self._lose(delta.stream_id)
                return
            stream = self._begin(delta.stream_id, turn_id, at)
            yield self._started(stream)
        if delta.offset > stream.length:
            yield from self._lose(delta.stream_id)
        elif delta.text or delta.offset < stream.length:
            yield self._written(stream, delta.offset, delta.text, at)

    def restore(self, checkpoint: StreamCheckpoint, turn_id: TurnId, at: Moment) -> Iterator[TaskFrame]:
        """All of the text so far, from the log. What is known already is not told again."""
        stream, text = self.current, checkpoint.text
        if checkpoint.stream_id in self._over:
            return
        if stream is None or stream.stream_id != checkpoint.stream_id:
            stream = self._begin(checkpoint.stream_id, turn_id, at)
            yield self._started(stream)
        known = stream.text
        is_next_attempt, stream.attempt = checkpoint.attempt > stream.attempt, checkpoint.attempt
        is_behind = known.startswith(text) and not is_next_attempt
        if text != known and not is_behind:
            offset = stream.length if text.startswith(known) else 0
            yield self._written(stream, offset, text[offset:], at)

    def settle(self, stream_id: StreamId) -> None:
        """The message of a stream has come."""
        self._over.add(stream_id)

    def finish(self, message_id: int | None) -> Iterator[TaskFrame]:
        """The stream is whole. `message_id`, here and below, is a message that was told and holds its text."""
        yield from self._ended(ChatDone, message_id)

    def cancel(self, message_id: int | None = None) -> Iterator[TaskFrame]:
        """Somebody ended it."""
        yield from self._ended(ChatCancelled, message_id)

    def break_off(self, kind: str, message: str, message_id: int | None = None) -> Iterator[TaskFrame]:
        """It ended, and not whole."""
        for stream in self._end():
            yield ChatError(
                task_id=self._task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=stream.turn_id,
                stream_id=stream.stream_id,
                cursor=stream.length,
                message_id=message_id,
                error_kind=kind,
                error_message=message,
            )

    def _lose(self, stream_id: StreamId) -> Iterator[TaskFrame]:
        """A piece of `stream_id` came whose beginning did not."""
        yield from self.break_off(GAP, "some of the live text did not arrive")
        self._over.discard(stream_id)

    def _ended(self, kind: type[ChatDone | ChatCancelled], message_id: int | None) -> Iterator[TaskFrame]:
        for stream in self._end():
            yield kind(
                task_id=self._task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=stream.turn_id,
                stream_id=stream.stream_id,
                cursor=stream.length,
                message_id=message_id,
            )

    def _end(self) -> Iterator[LiveStream]:
        stream, self.current = self.current, None
        if stream is not None:
            self._over.add(stream.stream_id)
            yield stream

    def _begin(self, stream_id: StreamId, turn_id: TurnId, at: Moment) -> LiveStream:
        if self.current is not None:
            self._over.add(self.current.stream_id)
        self.current = LiveStream(stream_id, turn_id, at, at, is_rewritten=stream_id in self._begun)
        self._begun.add(stream_id)
        return self.current

    def _started(self, stream: LiveStream) -> ChatStart:
        return ChatStart(
            task_id=self._task_id,
            version=UNSTAMPED,
            tick=UNSTAMPED,
            turn_id=stream.turn_id,
            stream_id=stream.stream_id,
            started_at=stream.started_at,
        )

    def _written(self, stream: LiveStream, offset: int, text: str, at: Moment) -> ChatChunk:
        stream.write(offset, text, at)
        return ChatChunk(
            task_id=self._task_id,
            version=UNSTAMPED,
            tick=UNSTAMPED,
            turn_id=stream.turn_id,
            stream_id=stream.stream_id,
            offset=offset,
            text=text,
            at=at,
        )
