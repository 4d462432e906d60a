"""The protocol of `tmux -C`: bytes in, events out, and no I/O.

Laws:
1. Between `%begin` and the `%end` or `%error` with the same time, number and flags, every line is text of the reply,
   whatever it looks like. tmux does not escape that text, so a screen that shows such a line with the very same numbers
   ends a reply early. The parser cannot tell; who asks for a screen counts its rows (`capture.py`).
2. However the bytes are torn, the events are the same.
3. What is held is bounded. A line that is too long is dropped up to its end and told as `MalformedLine`; a reply that
is
   too long is cut and says so. What follows is read as if nothing had been there.
4. A notification that we do not know is kept as `Notification`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, TypeAlias

MAX_LINE_BYTES: Final = 1 << 20
MAX_REPLY_BYTES: Final = 8 << 20

_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_GUARD: Final = re.compile(rb"%(begin|end|error) (\d+ (\d+) (\d+))")
_EXCERPT: Final = 80
_EXTENDED: Final = b"%extended-output "


@dataclass(frozen=True, slots=True)
class TmuxReply:
    """What a command answered. `is_ours`: it was sent on this pipe, and is no hook and no first attach."""

    number: int
    is_ours: bool
    is_error: bool
    lines: tuple[bytes, ...]
    is_cut: bool = False

    @property
    def text(self) -> str:
        return b"\n".join(self.lines).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Output:
    """A pane wrote something. `escaped` is as it came; `data` are the bytes that the program wrote."""

    pane_id: str
    escaped: bytes = field(repr=False)
    age_ms: int = 0

    @property
    def data(self) -> bytes:
        return _OCTAL.sub(lambda found: bytes((int(found[1], 8) & 0xFF,)), self.escaped)


@dataclass(frozen=True, slots=True)
class Paused:
    """tmux no longer tells us of this pane, because we were too slow or asked for it."""

    pane_id: str


@dataclass(frozen=True, slots=True)
class Continued:
    pane_id: str


@dataclass(frozen=True, slots=True)
class WindowChanged:
    """A window was resized, split, closed or moved; `how` is the name of the notification."""

    how: str
    window_id: str


@dataclass(frozen=True, slots=True)
class SessionsChanged:
    """A session was made or destroyed."""


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """This client is now attached to the session."""

    session_id: str
    name: str


@dataclass(frozen=True, slots=True)
class SubscriptionChanged:
    """A format that we subscribed to has another value. The value is text from outside."""

    name: str
    session_id: str
    window_id: str
    pane_id: str
    value: str


@dataclass(frozen=True, slots=True)
class TmuxExited:
    """The control client ends; the reason is empty when it was asked to."""

    reason: str


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification that we do not know."""

    name: str
    rest: str


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """Bytes that are no control mode, with their beginning."""

    reason: str
    excerpt: bytes = b""


ControlEvent: TypeAlias = (
    TmuxReply
    | Output
    | Paused
    | Continued
    | WindowChanged
    | SessionsChanged
    | SessionChanged
    | SubscriptionChanged
    | TmuxExited
    | Notification
    | MalformedLine
)

_WINDOW_NAMES: Final = frozenset(
    {
        "layout-change",
        "window-close",
        "unlinked-window-close",
        "window-pane-changed",
        "window-add",
        "unlinked-window-add",
    }
)


@dataclass(slots=True)
class _Block:
    """A reply that has begun."""

    guard: bytes
    number: int
    is_ours: bool
    lines: list[bytes] = field(default_factory=list)
    held_bytes: int = 0
    is_cut: bool = False

    def add(self, line: bytes) -> None:
        self.held_bytes += len(line) + 1
        if self.held_bytes > MAX_REPLY_BYTES:
            self.is_cut = True
        else:
            self.lines.append(line)

    def close(self, is_error: bool) -> TmuxReply:
        return TmuxReply(self.number, self.is_ours, is_error, tuple(self.lines), self.is_cut)


class ControlParser:
    """Reads one control-mode connection from its beginning."""

    def __init__(self) -> None:
        self._tail = b""
        self._is_skipping = False
        self._block: _Block | None = None

    def feed(self, data: bytes) -> list[ControlEvent]:
        """The events that these bytes complete, in order."""
        events: list[ControlEvent] = []
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            if self._is_skipping:
                self._is_skipping = False
            elif len(line) > MAX_LINE_BYTES:
                events.append(self._drop(line))
            elif (event := self._line(line)) is not None:
                events.append(event)
        if self._is_skipping:
            self._tail = b""
        elif len(self._tail) > MAX_LINE_BYTES:
            events.append(self._drop(self._tail))
            self._tail, self._is_skipping = b"", True
        return events

    def _drop(self, line: bytes) -> MalformedLine:
        if self._block is not None:
            self._block.is_cut = True
        return MalformedLine(f"a line of more than {MAX_LINE_BYTES} bytes", line[:_EXCERPT])

    def _line(self, line: bytes) -> ControlEvent | None:
        if self._block is not None:
            return self._reply_line(self._block, line)
        if line.startswith(_EXTENDED):  # nearly all lines of a busy pane
            return _extended(line[len(_EXTENDED) :])
        if not line.startswith(b"%"):
            return MalformedLine("text outside of a reply", line[:_EXCERPT]) if line else None
        name, _, rest = line[1:].partition(b" ")
        match name:
            case b"output":
                pane, _, escaped = rest.partition(b" ")
                return Output(_word(pane), escaped)
            case b"begin" | b"end" | b"error":
                return self._guard(line)
            case _:
                return _notification(_word(name), rest.decode("utf-8", "replace"))

    def _reply_line(self, block: _Block, line: bytes) -> TmuxReply | None:
        if line.startswith((b"%end ", b"%error ")) and line.partition(b" ")[2] == block.guard:
            self._block = None
            return block.close(is_error=line.startswith(b"%error "))
        block.add(line)
        return None

    def _guard(self, line: bytes) -> MalformedLine | None:
        found = _GUARD.fullmatch(line)
        if found is None or found[1] != b"begin":
            return MalformedLine("the end of a reply that did not begin", line[:_EXCERPT])
        self._block = _Block(found[2], int(found[3]), is_ours=bool(int(found[4]) & 1))
        return None


def _word(raw: bytes) -> str:
    return raw.decode("ascii", "replace")


def _extended(rest: bytes) -> ControlEvent:
    """`%5 12 : text`; fields that a later tmux adds stand before the colon."""
    head, _, escaped = rest.partition(b" : ")
    pane, _, age = head.partition(b" ")
    age_ms, _, _ = age.partition(b" ")
    return Output(_word(pane), escaped, int(age_ms) if age_ms.isdigit() and len(age_ms) < 12 else 0)


def _notification(name: str, rest: str) -> ControlEvent:
    first, _, after = rest.partition(" ")
    match name:
        case "pause":
            return Paused(first)
        case "continue":
            return Continued(first)
        case "sessions-changed":
            return SessionsChanged()
        case "session-changed":
            return SessionChanged(first, after)
        case "subscription-changed":
            return _subscription(rest)
        case "exit":
            return TmuxExited(rest)
        case _ if name in _WINDOW_NAMES:
            return WindowChanged(name, first)
        case _:
            return Notification(name, rest)


def _subscription(rest: str) -> ControlEvent:
    head, _, value = rest.partition(" : ")
    words = head.split(" ")
    if len(words) < 5:
        return MalformedLine("a subscription without its five words", rest[:_EXCERPT].encode())
    return SubscriptionChanged(words[0], words[1], words[2], words[4], value)
