"""Live text: which message it belongs to, when it is void, when it ends and how it is labelled. One fold decides this
for every face.

Laws:
1. Text is never invented. After a gap nothing is known of a stream, until a checkpoint or its beginning gives it all.
2. At most one stream is open, and it is of the open turn. Another one takes its place, and the old one stays away.
3. A stream whose message has come is over: later pieces of it say nothing. A message is of the stream that it names, or
   else of the open one.
4. A piece below the cursor cuts the text there: it was of an attempt that died. A stream that was cut is only ever
   handed out whole: a client may hold text of before.
5. Live text is labelled as partial while it grows, and also after it ended without a message.
6. The cost of a piece does not depend on how much text there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import record_of
from interlock.projections.present.display import (
    END_STATUS,
    BeginStream,
    DisplayChannel,
    EndStream,
    Item,
    Retract,
    Show,
    StreamEnding,
    ending_of,
)
from interlock.projections.present.notice_items import diagnostic
from interlock.vocabulary.ending_words import BROKE_OFF, STILL_WRITTEN
from interlock.vocabulary.events.audit import StreamCheckpoint, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SpawnId, StreamId, TurnId
from interlock.vocabulary.wire.frames import ActiveStream, MessageStatus, StreamPiece

GAP: Final = "gap"
OVERTAKEN: Final = "overtaken"
RESPAWNED: Final = "respawned"
UNSUPERVISED: Final = "unsupervised"


@dataclass(slots=True)
class LiveStream:
    """The text of one stream, in pieces that are joined when somebody reads it.

    `message_id`: the message that came of this text. It may still be held back.
    """

    stream_id: StreamId
    turn_id: TurnId
    started_at: Moment
    last_activity_at: Moment
    is_rewritten: bool
    attempt: int = 1
    length: int = 0
    message_id: int | None = None
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


@dataclass(slots=True)
class _Thought:
    """What is drawn of the agent's thinking. The first `settled` code points stay: the agent acted on them."""

    stream_id: StreamId
    cursor: int = 0
    settled: int = 0


class StreamFold:
    """The live text of one session. Give it nothing but what belongs to the open turn, and draw what it returns."""

    def __init__(self) -> None:
        self.current: LiveStream | None = None
        self._begun: set[StreamId] = set()
        self._over: set[StreamId] = set()  # of the open turn
        self._thought: _Thought | None = None
        self._dropped: tuple[TurnId | None, StreamId] | None = None

    def overtake(self, *, is_open: bool) -> Iterator[Item]:
        """Another turn began. Should a stream of it bear a name of before, it is another stream."""
        if is_open:
            yield from self.break_off(OVERTAKEN, "another turn began", self._message_id)
        self._over.clear()
        self._thought = None

    # What is heard

    def hear(self, event: Event, delta: TextDelta, turn_id: TurnId) -> Iterable[Item]:
        """A live piece of text. Nearly all of them go on where the last one ended."""
        stream = self.current
        if (
            stream is not None
            and delta.offset == stream.length
            and delta.stream_id == stream.stream_id
            and stream.message_id is None
            and delta.text
        ):
            stream.write(delta.offset, delta.text, event.ts)
            return (_piece(stream, delta.offset, delta.text),)
        return self._hear_odd(event, delta, turn_id)

    def _hear_odd(self, event: Event, delta: TextDelta, turn_id: TurnId) -> Iterator[Item]:
        stream = self.current
        is_open = stream is not None and stream.stream_id == delta.stream_id
        if delta.stream_id in self._over or (is_open and self._message_id is not None):
            yield from self.refuse(event, delta.stream_id, "this stream is over")
        elif delta.offset > (stream.length if stream is not None and is_open else 0):
            yield from self._lose(event, delta)
        else:
            if stream is None or not is_open:
                yield from self._begin(delta.stream_id, turn_id, event.ts)
            yield from self._write(delta.offset, delta.text, event.ts)

    def think(self, event: Event, delta: ReasoningDelta, turn_id: TurnId) -> Iterator[Item]:
        """A live piece of what the agent thinks. It is drawn as it comes, and nothing is kept of it."""
        known = self._thought
        if known is not None and known.stream_id != delta.stream_id:
            yield from _forget(turn_id, known, known.settled, "another stream takes its place")
            known = None
        if known is None:
            known = self._thought = _Thought(delta.stream_id)
        yield from _forget(turn_id, known, delta.offset, "the stream started again")
        if delta.offset > known.cursor:
            yield diagnostic(event, f"{delta.offset - known.cursor} code points of live text did not arrive")
        known.cursor = delta.offset + len(delta.text)
        yield Show(
            channel=DisplayChannel.THOUGHT,
            turn_id=turn_id,
            text=delta.text,
            label=STILL_WRITTEN,
            status=MessageStatus.STREAMING,
            stream_id=delta.stream_id,
            offset=delta.offset,
        )

    def refuse(self, event: Event, stream_id: StreamId, why_not: str) -> Iterator[Item]:
        """Live text that is not drawn. That is said once for as long as it goes on."""
        dropped = (event.turn_id, stream_id)
        if dropped != self._dropped:
            self._dropped = dropped
            yield diagnostic(event, f"live text was dropped: {why_not}")

    # What the log says

    def follow(
        self, event: Event, turn: TurnFacts, owner: SpawnId | None, shown: Iterable[Item], *, is_live: bool
    ) -> Iterator[Item]:
        """What a logged event of the open turn does to its stream. `owner` is the spawn that had the turn before the
        event, `shown` is what the event drew, `is_live` whether somebody runs the session."""
        if not turn.is_over:
            yield from self._let_go(shown)
        match event.data:
            case AssistantMessage() as message:
                yield from self._bear(event, message)
            case StreamCheckpoint() as checkpoint if turn.checkpoint is checkpoint and is_live:
                yield from self._restore(checkpoint, turn.turn_id, event.ts)
            case TurnStarted() if event.spawn_id not in (None, owner):
                yield from self.break_off(RESPAWNED, "another process took the turn")
            case _:
                pass
        if turn.is_over:
            yield from self._end_turn(turn)

    def settle_thought(self) -> None:
        """What the agent did next is proof that it had thought to an end: later thoughts do not take the place of
        these."""
        if self._thought is not None:
            self._thought.settled = self._thought.cursor

    def cancel(self) -> Iterator[Item]:
        """Somebody ended it."""
        yield from self._end(StreamEnding.CANCELLED, None)

    def break_off(self, kind: str, message: str, message_id: int | None = None) -> Iterator[Item]:
        """It ended, and not whole. `message_id`, here and below, is a message that was drawn and holds its text."""
        yield from self._end(StreamEnding.BROKEN_OFF, message_id, kind, message)

    @property
    def _message_id(self) -> int | None:
        return None if self.current is None else self.current.message_id

    def _let_go(self, shown: Iterable[Item]) -> Iterator[Item]:
        """The text was held back as an answer, and is none: it is whole all the same, unless it is partial."""
        message_id = self._message_id
        told = [one for one in shown if isinstance(one, Show) and one.role is not None and one.seq == message_id]
        if message_id is None or not told:
            return
        status = told[-1].status
        if ending_of(status) is StreamEnding.WHOLE:
            yield from self._end(StreamEnding.WHOLE, message_id)
        else:
            yield from self.break_off(status.value, "", message_id)

    def _bear(self, event: Event, message: AssistantMessage) -> Iterator[Item]:
        """A message stands for the stream that it names, or for the open one (law 3)."""
        stream, named = self.current, message.metadata.stream_id
        is_of_stream = stream is not None and named in (None, stream.stream_id)
        if stream is not None and is_of_stream and not message.is_blank:
            stream.message_id = event.seq
        if message.metadata.intermediate:
            if is_of_stream:
                yield from self._end(StreamEnding.WHOLE, None if message.is_blank else event.seq)
            elif named is not None:
                self._over.add(named)

    def _restore(self, checkpoint: StreamCheckpoint, turn_id: TurnId, at: Moment) -> Iterator[Item]:
        """All of the text so far, from the log. What is known already is not told again."""
        stream, text = self.current, checkpoint.text
        is_open = stream is not None and stream.stream_id == checkpoint.stream_id
        if checkpoint.stream_id in self._over or (is_open and self._message_id is not None):
            return
        if stream is None or not is_open:
            yield from self._begin(checkpoint.stream_id, turn_id, at)
            stream = self.current
        assert stream is not None, "it was begun"
        known = stream.text
        is_next_attempt, stream.attempt = checkpoint.attempt > stream.attempt, checkpoint.attempt
        is_behind = known.startswith(text) and not is_next_attempt
        if text != known and not is_behind:
            offset = stream.length if text.startswith(known) else 0
            yield from self._write(offset, text[offset:], at)

    def _end_turn(self, turn: TurnFacts) -> Iterator[Item]:
        message_id = self._message_id
        ending = ending_of(END_STATUS.get(turn.state, MessageStatus.UNKNOWN))
        if ending is not StreamEnding.BROKEN_OFF:
            yield from self._end(ending, message_id)
        elif self.current is not None:
            record = record_of(turn)
            yield from self.break_off(record.error_kind, record.error_message, message_id)

    # The one stream

    def _lose(self, event: Event, delta: TextDelta) -> Iterator[Item]:
        """A piece came whose beginning did not."""
        stream = self.current
        known = stream.length if stream is not None and stream.stream_id == delta.stream_id else 0
        yield from self.break_off(GAP, "some of the live text did not arrive")
        self._over.discard(delta.stream_id)
        dropped = (event.turn_id, delta.stream_id)
        if dropped != self._dropped:
            self._dropped = dropped
            yield diagnostic(event, f"{delta.offset - known} code points of live text did not arrive")

    def _begin(self, stream_id: StreamId, turn_id: TurnId, at: Moment) -> Iterator[Item]:
        before = self.current
        if before is not None:
            self._over.add(before.stream_id)
            if before.message_id is None:
                yield from _take_back(before, 0, "another stream takes its place")
        self.current = LiveStream(stream_id, turn_id, at, at, is_rewritten=stream_id in self._begun)
        self._begun.add(stream_id)
        self._dropped = None
        yield BeginStream(
            channel=DisplayChannel.PARTIAL, turn_id=turn_id, at=at, stream_id=stream_id, label=STILL_WRITTEN
        )

    def _write(self, offset: int, text: str, at: Moment) -> Iterator[Item]:
        """Put text into the open stream. A piece without words is drawn only where it cuts: it says from where on."""
        stream = self.current
        assert stream is not None, "it was begun"
        if not text and offset == stream.length:
            return
        yield from _take_back(stream, offset, "the stream started again")
        stream.write(offset, text, at)
        yield _piece(stream, offset, text)

    def _end(self, ending: StreamEnding, message_id: int | None, kind: str = "", message: str = "") -> Iterator[Item]:
        stream, self.current = self.current, None
        if stream is None:
            return
        self._over.add(stream.stream_id)
        yield EndStream(
            channel=DisplayChannel.PARTIAL,
            turn_id=stream.turn_id,
            stream_id=stream.stream_id,
            cursor=stream.length,
            ending=ending,
            message_seq=message_id,
            label=BROKE_OFF if message_id is None else "",
            error_kind=kind,
            error_message=message,
        )


def _piece(stream: LiveStream, offset: int, text: str) -> Show:
    """What was just written."""
    return Show(
        channel=DisplayChannel.PARTIAL,
        turn_id=stream.turn_id,
        at=stream.last_activity_at,
        text=text,
        label=STILL_WRITTEN,
        status=MessageStatus.STREAMING,
        stream_id=stream.stream_id,
        offset=offset,
    )


def _take_back(stream: LiveStream, offset: int, reason: str) -> Iterator[Item]:
    if stream.length > offset:
        yield Retract(
            channel=DisplayChannel.PARTIAL,
            turn_id=stream.turn_id,
            stream_id=stream.stream_id,
            offset=offset,
            reason=reason,
        )


def _forget(turn_id: TurnId, thought: _Thought, offset: int, reason: str) -> Iterator[Item]:
    if thought.cursor > offset:
        yield Retract(
            channel=DisplayChannel.THOUGHT, turn_id=turn_id, stream_id=thought.stream_id, offset=offset, reason=reason
        )
