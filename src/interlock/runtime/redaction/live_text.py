"""Text that is shown while it is written: a secret that comes in two pieces is not shown in two pieces.

Laws:
1. What may be the beginning of a secret is held back until the next piece tells, and then shown as it is or as stars.
2. Offsets are those of the text as it was written: pieces that are shown follow each other without a gap.
3. What is held back when the text is over is not shown live: the message that takes the stream's place has it.
4. At most `MAX_HELD` characters are held back; more than that is no secret that we know, or a whole key, and is stars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec import structs

from interlock.agents.pool.masking import STAR
from interlock.runtime.redaction.redactor import Redactor
from interlock.vocabulary.audit import StreamCheckpoint
from interlock.vocabulary.ids import StreamId
from interlock.vocabulary.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.registry import Payload

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


class LiveText:
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
        kept = min(self._redactor.unfinished(whole), fresh)
        if kept > MAX_HELD:
            masked, kept = masked[: len(whole) - kept] + STAR * kept, 0
        end = len(whole) - kept
        shown, offset = masked[len(whole) - fresh : end], stream.offset
        self._advance(stream, whole[:end], fresh - kept, whole[end:])
        if shown == delta.text and offset == delta.offset:
            return delta
        return structs.replace(delta, offset=offset, text=shown) if shown else None

    def _advance(self, stream: _Open, before: str, shown: int, held: str) -> None:
        stream.before = before[-max(_CONTEXT, self._redactor.longest) :]
        stream.offset += shown
        stream.held = held
        stream.is_cut = False
