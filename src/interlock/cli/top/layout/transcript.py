"""A transcript as lines: a window of it, laid out message by message. Pure, but for a cache.

Laws:
1. The labels and the advice are those of `interlock logs`: what is partial, failed, cancelled, broke off or is still
   being written is told apart in words.
2. A tool, a child, a workflow or a step is one line: what it was asked, and what came of it. The words of an agent are
   indented, and what we say of them is not.
3. At most `WINDOW` messages are laid out at a time, however many there are; what is above and below is said.
4. Of text that grows, the end is shown; of text that is whole, the beginning. What is left out is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from rich.cells import cell_len

from interlock.cli.look.transcript_lines import INDENT, heading
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import cut, joined, plain_lines, shortened, wrapped_lines
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.wire.frames import Message, MessageStatus, Role

WINDOW: Final = 240
SLIDE: Final = 80
_MAX_CACHED: Final = 4_096
Key: TypeAlias = tuple[int, str]


def key_of(message: Message) -> Key:
    """What a message is known by, also while it has no place in the log."""
    return message.message_id, message.stream_id or ""


class Reader:
    """Lays out the messages of one session, and remembers those that will not change. Ids are of a session: another one
    needs another reader."""

    def __init__(self, session_id: str = "") -> None:
        self._session_id = session_id
        self._known: dict[tuple[int, int, int], Sequence[Line]] = {}

    def lines(self, messages: Sequence[Message], width: int) -> list[Line]:
        """All of these, with a blank line between what does not belong together."""
        laid: list[Line] = []
        was_tool = False
        for message in messages:
            is_tool = message.role is Role.TOOL
            if laid and not (is_tool and was_tool):
                laid.append([])
            laid += self._message(message, width)
            was_tool = is_tool
        return laid

    def _message(self, message: Message, width: int) -> Sequence[Line]:
        if message.message_id == 0:
            return message_lines(message, width, self._session_id)
        key = (message.message_id, message.version, width)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            known = self._known[key] = message_lines(message, width, self._session_id)
        return known


def message_lines(message: Message, width: int, session_id: str = "") -> list[Line]:
    """One message: its heading, its words, and after the end of a turn what to do next."""
    head = joined(list(heading(msgspec.to_builtins(message))))
    if message.role is Role.TOOL:
        asked, came = (_on_one_line(text, width) for text in (message.text, message.detail))
        said = f"{asked} -> {came}" if asked and came else asked or came
        room = width - sum(cell_len(text) for text, _ in head) - len(INDENT)
        return [[*head, (f"{INDENT}{cut(said, room)}", Tone.FAINT.value)] if said and room > 0 else head]
    is_live = message.status in (MessageStatus.STREAMING, MessageStatus.INTERRUPTED)
    text, left_out = shortened(message.text, keeps_end=is_live)
    body = wrapped_lines(plain_lines(text), width, INDENT)
    note: list[Line] = [[(f"{INDENT}[{left_out:,} characters more: `interlock logs` has them]", Tone.FAINT.value)]]
    if not left_out:
        return [head, *body, *(_next_lines(message, width, session_id) if message.role is Role.END else ())]
    return [head, *note, *body] if is_live else [head, *body, *note]


def _next_lines(message: Message, width: int, session_id: str) -> list[Line]:
    actions = ((one.kind.value, one.command) for one in message.next_actions)
    said = "\n".join(f"next: {line}" for line in advice_lines(actions, session_id))
    return wrapped_lines(plain_lines(said), width) if said else []


def _on_one_line(text: str, width: int) -> str:
    return " ".join(part for line in plain_lines(text[: 4 * width]) for part in line.split())


class TranscriptWindow:
    """Which messages are laid out: the newest while `is_following`, else those from one message on."""

    def __init__(self) -> None:
        self.is_following = True
        self._first: Key | None = None
        self.start = 0

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages to lay out."""
        newest = max(0, len(messages) - WINDOW)
        if self.is_following or self._first is None:
            self.start = newest
        else:
            place = next((at for at, one in enumerate(messages) if key_of(one) == self._first), None)
            self.start = newest if place is None else place
        return messages[self.start : self.start + WINDOW]

    def hold(self, messages: Sequence[Message]) -> None:
        """Stay where it is, whatever comes."""
        self.is_following = False
        self._begin_at(messages, self.start)

    def slide(self, messages: Sequence[Message], by: int) -> bool:
        """Move by so many messages, as far as there are any. Whether it moved."""
        last = max(0, len(messages) - WINDOW)
        start = min(max(0, self.start + by), last)
        if start == self.start:
            return False
        self.is_following = False
        self._begin_at(messages, start)
        return True

    def follow(self) -> None:
        """Show the newest from now on."""
        self.is_following, self._first = True, None

    def is_at_end(self, messages: Sequence[Message]) -> bool:
        """Whether the newest message is laid out."""
        return self.start + WINDOW >= len(messages)

    def _begin_at(self, messages: Sequence[Message], start: int) -> None:
        self.start = start
        self._first = key_of(messages[start]) if start < len(messages) else None
