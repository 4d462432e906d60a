"""The live assistant message of one turn: what is shown, what is checkpointed, and what it comes to.

Laws:
1. Text that a tool call follows was no answer: it is written as a clean, intermediate message.
2. Text of an attempt that died is gone: the next attempt is another stream.
3. A checkpoint holds all of the live text. They are at least a second apart, more for long texts, and one is written
   when a message is whole: what came after the last one is all that our death can cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from interlock.vocabulary.events.audit import StreamCheckpoint
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import StreamId

CHECKPOINT_SECONDS: Final = 1.0
_CHARACTERS_A_SECOND: Final = 1 << 16


class StreamedAnswer:
    """One turn's text. Methods give what is to be published (`TextDelta`) and appended (all else), in order."""

    def __init__(self, new_stream: Callable[[], StreamId], now: float) -> None:
        self._new_stream = new_stream
        self._stream_id = new_stream()
        self._attempt = 1
        self._text = ""
        self._is_whole = False
        self._model = ""
        self._checkpoint_at = now
        self._checkpointed = 0

    @property
    def text(self) -> str:
        """What the turn would leave behind if it ended now."""
        return self._text

    @property
    def stream_id(self) -> StreamId | None:
        """The stream in which the text was shown; None while none was."""
        return self._stream_id if self._text else None

    @property
    def model(self) -> str:
        return self._model

    def arrive(self, text: str, now: float) -> Iterator[Payload]:
        """More text."""
        if self._is_whole:
            yield from self.set_aside()
        if not text:
            return
        yield self._grow(text)
        if self._is_checkpoint_due(len(self._text), now):
            yield self._checkpoint(now)

    def go_on(self, text: str, now: float) -> TextDelta | None:
        """More text, if showing it is all that `arrive` would do; None: nothing was done."""
        if self._is_whole or not text or self._is_checkpoint_due(len(self._text) + len(text), now):
            return None
        return self._grow(text)

    def end_message(self, text: str, model: str, now: float) -> Iterator[Payload]:
        """The message is whole, and this is all of it."""
        if self._is_whole:
            yield from self.set_aside()
        if not text.startswith(self._text):
            yield from self.void(now)
        rest = text[len(self._text) :]
        if rest:
            yield TextDelta(stream_id=self._stream_id, offset=len(self._text), text=rest)
        self._text, self._model, self._is_whole = text, model or self._model, bool(text.strip())
        if self._is_whole and self._checkpointed < len(text):
            yield self._checkpoint(now)

    def void(self, now: float) -> Iterator[Payload]:
        """The attempt is dead: none of its text counts, nor does a checkpoint of it."""
        if not self._is_whole:
            is_kept = self._checkpointed > 0
            self._begin_again(self._attempt + 1)
            if is_kept:
                yield self._checkpoint(now)

    def set_aside(self) -> Iterator[Payload]:
        """Something else follows: what was said so far was no answer."""
        if self._text.strip():
            metadata = MessageMetadata(intermediate=True, model=self._model, stream_id=self._stream_id)
            yield AssistantMessage(text=self._text, metadata=metadata)
        if self._text:
            self._begin_again(1)

    def _grow(self, text: str) -> TextDelta:
        delta = TextDelta(stream_id=self._stream_id, offset=len(self._text), text=text)
        # Held by nobody else a string grows in place; added to as an attribute, all of it would be copied each time.
        whole, self._text = self._text, ""
        whole += text
        self._text = whole
        return delta

    def _is_checkpoint_due(self, characters: int, now: float) -> bool:
        return now >= self._checkpoint_at + max(CHECKPOINT_SECONDS, characters / _CHARACTERS_A_SECOND)

    def _begin_again(self, attempt: int) -> None:
        self._stream_id, self._attempt = self._new_stream(), attempt
        self._text, self._is_whole, self._checkpointed = "", False, 0

    def _checkpoint(self, now: float) -> StreamCheckpoint:
        self._checkpoint_at, self._checkpointed = now, len(self._text)
        return StreamCheckpoint(
            stream_id=self._stream_id, offset=len(self._text), text=self._text, attempt=self._attempt
        )
