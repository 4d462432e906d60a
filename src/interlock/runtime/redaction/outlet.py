"""The two doors by which events leave the runtime: into the log, and to whoever watches. Both redact.

The runtime itself works on what it was told: what it submits to an agent is not redacted, and what it decides does not
depend on what is masked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec import structs

from interlock.agents.pool.masking import STAR
from interlock.log.port import Committed, Followed, Log, LogDamage, SessionPage, Slice, TurnSlice
from interlock.log.snapshots import Snapshots
from interlock.runtime.redaction.redactor import Redactor
from interlock.vocabulary.events.audit import SessionDeleted, StreamCheckpoint
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, SessionId, StreamId

# Text that is shown while it is written: a secret that comes in two pieces is not shown in two pieces.
#
# Laws:
# 1. What may be the beginning of a secret is held back until the next piece tells, and then shown as it is or as stars.
# One or two characters of a value are shown: they tell nothing of it, and what follows them is stars.
# 2. Offsets are those of the text as it was written: pieces that are shown follow each other without a gap.
# 3. What is held back when the text is over is not shown live: the message that takes the stream's place has it.
# 4. At most `MAX_HELD` characters are held back; more than that is no secret that we know, or a whole key, and is
# stars.

MAX_HELD: Final = 8192
_CONTEXT: Final = 128  # a shape is told by less

DeltaT = TypeVar("DeltaT", bound=TextDelta | ReasoningDelta)


@dataclass(slots=True)
class _Open:
    """One stream. `before` is what was shown last, as it was written; `held` follows it, from `offset` on. `is_cut`:
    `before` may end in the beginning of a secret."""

    stream_id: StreamId
    offset: int
    before: str = ""
    held: str = ""
    is_cut: bool = False


class RedactedText:
    """The live text of one session: its answer and its reasoning."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._streams: dict[type[Payload], _Open] = {}

    def delta(self, delta: DeltaT) -> DeltaT | None:
        """What of a piece, and of what was held back before it, may be shown now; None: nothing yet."""
        stream = self._streams.get(type(delta))
        is_next = stream is not None and stream.stream_id == delta.stream_id
        if stream is None or not is_next or stream.offset + len(stream.held) != delta.offset:
            stream = self._streams[type(delta)] = _Open(delta.stream_id, delta.offset)
        return self._show(delta, stream, delta.text)

    def before_checkpoint(self, checkpoint: StreamCheckpoint) -> TextDelta | None:
        """What is held back of a stream whose whole text is about to be told, so that what is shown has no gap."""
        stream = self._streams.get(TextDelta)
        if stream is None or stream.stream_id != checkpoint.stream_id or not stream.held:
            return None
        shown = self._redactor.cut_text(stream.before + stream.held)[len(stream.before) :]
        delta = TextDelta(stream_id=stream.stream_id, offset=stream.offset, text=shown)
        self._advance(stream, stream.before + stream.held, len(stream.held), "")
        stream.is_cut = True
        return delta

    def _show(self, delta: DeltaT, stream: _Open, text: str) -> DeltaT | None:
        if not stream.held and not stream.is_cut and self._redactor.is_plain(stream.before, text):
            self._advance(stream, stream.before + text, len(text), "")
            return delta
        whole = stream.before + stream.held + text
        masked = self._redactor.text(whole)
        fresh = len(stream.held) + len(text)
        begun = self._redactor.begun(whole)
        kept = min(self._redactor.unfinished(whole, begun), fresh)
        if kept > MAX_HELD:
            masked, kept = masked[: len(whole) - kept] + STAR * kept, 0
        end = len(whole) - kept
        shown, offset = masked[len(whole) - fresh : end], stream.offset
        self._advance(stream, whole[:end], fresh - kept, whole[end:])
        stream.is_cut = begun > kept
        if shown == delta.text and offset == delta.offset:
            return delta
        return structs.replace(delta, offset=offset, text=shown) if shown else None

    def _advance(self, stream: _Open, before: str, shown: int, held: str) -> None:
        stream.before = before[-max(_CONTEXT, self._redactor.longest) :]
        stream.offset += shown
        stream.held = held
        stream.is_cut = False


def redacted(event: Event, redactor: Redactor) -> Event:
    """The event without secrets; the event itself where it has none."""
    data = redactor.payload(event.data)
    return event if data is event.data else structs.replace(event, data=data)


class RedactedLog:
    """A log that is given no secret. It does what the log does otherwise."""

    def __init__(self, log: Log, redactor: Redactor) -> None:
        self._log = log
        self._redactor = redactor

    @property
    def snapshots(self) -> Snapshots:
        return self._log.snapshots

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        clean = [redacted(event, self._redactor) for event in events]
        return await self._log.append(session_id, clean, expected_version=expected_version)

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        return await self._log.read(session_id, after=after, limit=limit)

    async def read_turns(self, session_id: SessionId, *, last: int = 1) -> TurnSlice:
        return await self._log.read_turns(session_id, last=last)

    def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        return self._log.follow(session_id, after=after)

    def follow_all(self, *, after: int = 0) -> AsyncGenerator[Committed | LogDamage, None]:
        return self._log.follow_all(after=after)

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
        return await self._log.sessions(prefix=prefix, after=after, limit=limit)

    async def close(self) -> None:
        await self._log.close()


class RedactedFeed:
    """What is published. Live text is held back where a secret may have begun."""

    def __init__(self, publish: Callable[[Event], None], redactor: Redactor) -> None:
        self._publish = publish
        self._redactor = redactor
        self._live: dict[SessionId, RedactedText] = {}

    def publish(self, event: Event) -> None:
        match event.data:
            case TextDelta() | ReasoningDelta() as delta:
                shown = self._live_text(event.session_id).delta(delta)
                if shown is not None:
                    self._publish(event if shown is delta else structs.replace(event, data=shown))
                return
            case StreamCheckpoint() as checkpoint:
                held = self._live_text(event.session_id).before_checkpoint(checkpoint)
                if held is not None:
                    self._publish(_beside(event, held))
            case SessionDeleted():
                self._live.pop(event.session_id, None)
            case _:
                pass
        self._publish(redacted(event, self._redactor))

    def _live_text(self, session_id: SessionId) -> RedactedText:
        live = self._live.get(session_id)
        if live is None:
            live = self._live[session_id] = RedactedText(self._redactor)
        return live


def _beside(event: Event, held: TextDelta) -> Event:
    name = EventId(f"{event.id}.held")
    return new_event(held, id=name, session_id=event.session_id, ts=event.ts, turn_id=event.turn_id)
