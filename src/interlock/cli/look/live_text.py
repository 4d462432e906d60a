"""A transcript as it grows, printed once: what a room's frames add to what was printed before.

Laws:
1. Every message is printed once. A change of it that matters (another status, other words) is said, never redrawn.
2. Text that streams is printed as it comes, labelled as partial. Its message adds what is missing and says what it
   turned out to be; where its words are others, it is printed whole, and what stands above it is called void.
3. The frames decide: text that is cut, or whose place another stream takes, is called void. A stream that ends without
   a message is said to have broken off, however it ended. A gap is marked, never closed silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from interlock.cli.look.transcript_lines import (
    INDENT,
    detail_lines,
    heading,
    label,
    label_of,
    live_heading,
    message_lines,
    role_name,
    text_lines,
    turn_line,
)
from interlock.cli.tables import Line
from interlock.vocabulary.ending_words import BROKE_OFF

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import (
        ChatCancelledJson,
        ChatDoneJson,
        ChatErrorJson,
        FrameJson,
        MessageJson,
        TaskSnapshotJson,
        TaskStatusChangedJson,
    )

_GAP: Final = "[...]"
_TERMINAL: Final = ("COMPLETED", "FAILED", "CANCELLED")
_STATES: Final = {"done": "completed", "partial": "partial_failed"}
_VOID: Final = "void"


class TextOutlet(NamedTuple):
    """Where it goes: whole lines, pieces of a line, and what is not part of the transcript."""

    lines: Callable[[list[Line]], None]
    piece: Callable[[str], None]
    note: Callable[[str], None]


class _Stream:
    """What was printed of a stream, and up to which place. `is_open`: more may come. `is_in_line`: the line that it
    stands in has no end."""

    def __init__(self, stream_id: str, turn_id: object) -> None:
        self.stream_id = stream_id
        self.turn_id = turn_id
        self.text = ""
        self.cursor = 0
        self.is_open = True
        self.is_in_line = False


class LiveText:
    """Feed it frames in order (`add`); it prints."""

    def __init__(self, outlet: TextOutlet, *, with_turns: bool = False, session_id: str = "") -> None:
        self._out = outlet
        self._session_id = session_id
        self._with_turns = with_turns
        self._known: dict[int, MessageJson] = {}
        self._stream: _Stream | None = None
        self._turn: object = None

    @property
    def is_in_line(self) -> bool:
        """Whether the last line has no end yet."""
        return self._stream is not None and self._stream.is_in_line

    def add(self, frame: FrameJson) -> None:
        """Print what a frame adds."""
        if frame["type"] == "task:joined":
            self.join(frame["snapshot"])
        elif frame["type"] == "chat:message":
            self.message(frame["message"])
        elif frame["type"] == "chat:start":
            self._begin(frame["stream_id"], frame["turn_id"])
        elif frame["type"] == "chat:chunk":
            self._begin(frame["stream_id"], frame["turn_id"])
            self._more(frame["offset"], frame["text"])
        elif frame["type"] == "chat:done" or frame["type"] == "chat:error" or frame["type"] == "chat:cancelled":
            self._end(frame)
        elif frame["type"] == "task:status":
            self._status(frame)
        elif frame["type"] == "approval:opened":
            self._out.note(f"asks: {frame['approval']['question']}")

    def join(self, snapshot: TaskSnapshotJson) -> None:
        """Stand where the server stands: messages that are new here, then the stream that is open."""
        for message in snapshot["messages"]:
            self.message(message)
        piece = snapshot.get("stream")
        ours = self._stream
        if ours is not None and ours.is_open and (piece is None or piece["stream_id"] != ours.stream_id):
            self._close(BROKE_OFF)
        if piece is not None:
            self._begin(str(piece["stream_id"]), piece.get("turn_id"))
            self._more(int(piece.get("offset", 0)), str(piece.get("text", "")))

    def message(self, message: MessageJson, state: str = "") -> None:
        """Print a message, or what is new of it. `state` is how its turn stands, where that is known."""
        known = self._known.get(message["message_id"])
        if known is not None and known["version"] >= message["version"]:
            return
        self._known[message["message_id"]] = message
        if known is not None:
            self._change(known, message)
        elif self._takes_place_of_stream(message):
            self._finish_stream(message)
        else:
            self._close_line()
            self._tell_turn(message.get("turn_id"), state)
            self._out.lines([*message_lines(message, self._session_id), []])

    def _change(self, known: MessageJson, message: MessageJson) -> None:
        has_other_words = known.get("text", "") != message.get("text", "")
        has_other_detail = known.get("detail", "") != message.get("detail", "")
        said = label_of(message)
        if not has_other_words and not has_other_detail and said in ("", label_of(known)):
            return
        self._close_line()
        words = text_lines(str(message.get("text", ""))) if has_other_words else ()
        self._out.lines([heading(message), *words, *(detail_lines(message) if has_other_detail else ()), []])

    # Streams

    def _begin(self, stream_id: str, turn_id: object) -> None:
        if self._stream is not None and self._stream.stream_id == stream_id:
            return
        self._close(_VOID, "another attempt takes its place")
        self._tell_turn(turn_id, "running")
        self._stream = _Stream(stream_id, turn_id)

    def _more(self, offset: int, text: str) -> None:
        stream = self._stream
        assert stream is not None, "it was begun"
        if not stream.is_open:
            return
        if offset > stream.cursor:
            fresh = _GAP + text
        else:
            whole = stream.text[: len(stream.text) + offset - stream.cursor] + text
            if not whole.startswith(stream.text):
                self._withdraw(stream)
            fresh = whole[len(stream.text) :]
        stream.cursor = offset + len(text)
        self._print_more(stream, fresh)

    def _withdraw(self, stream: _Stream) -> None:
        """The text was cut: what stands above is of an attempt that died."""
        self._close_line()
        self._out.lines([label(_VOID, "this attempt was withdrawn"), []])
        stream.text = ""

    def _print_more(self, stream: _Stream, fresh: str) -> None:
        if not fresh:
            return
        if not stream.is_in_line:
            self._out.lines([live_heading()])
            self._out.piece(INDENT)
        self._out.piece(fresh.replace("\n", f"\n{INDENT}"))
        stream.is_in_line = True
        stream.text += fresh

    def _takes_place_of_stream(self, message: MessageJson) -> bool:
        """As the server says: it is the message that names the stream, or that names none while this one is open."""
        stream = self._stream
        if stream is None or not stream.is_open or not stream.text:
            return False
        if message.get("role") not in ("answer", "commentary"):
            return False
        named = message.get("stream_id")
        return named == stream.stream_id if named else message.get("turn_id") == stream.turn_id

    def _finish_stream(self, message: MessageJson) -> None:
        stream, text = self._stream, str(message.get("text", ""))
        assert stream is not None, "it takes its place"
        stream.is_open = False
        became, status = label_of(message) or role_name(message), str(message.get("status", ""))
        if text.startswith(stream.text):
            if stream.is_in_line:
                self._out.piece(text[len(stream.text) :].rstrip("\n").replace("\n", f"\n{INDENT}"))
                self._close_line()
            else:
                self._out.lines(text_lines(text[len(stream.text) :]))
            self._out.lines([label(became, status=status), []])
            return
        self._close_line()
        if stream.text.startswith(text.strip()):
            self._out.lines([label(became, f"kept up to {len(text)} characters", status=status), []])
        else:
            self._out.lines(
                [label(_VOID, "the words that hold follow"), [], *message_lines(message, self._session_id), []]
            )

    def _end(self, data: ChatDoneJson | ChatErrorJson | ChatCancelledJson) -> None:
        stream = self._stream
        if stream is not None and stream.stream_id == data["stream_id"]:
            said = "cancelled" if data["type"] == "chat:cancelled" else ""
            if data["type"] == "chat:error":
                said = data["error_message"] or data["error_kind"]
            self._close(BROKE_OFF, said)

    def _close(self, said: str, detail: str = "") -> None:
        """No message takes the place of the text that stands above, if any does."""
        stream = self._stream
        if stream is not None and stream.is_open:
            stream.is_open = False
            self._close_line()
            self._out.lines([label(said, detail), []] if stream.text else [])

    def _close_line(self) -> None:
        """Something else comes while text streams: its line ends, and what follows of it begins a new one."""
        if self._stream is not None and self._stream.is_in_line:
            self._out.piece("\n")
            self._stream.is_in_line = False

    # Turns

    def _tell_turn(self, turn_id: object, state: str) -> None:
        if self._with_turns and turn_id is not None and turn_id != self._turn:
            self._out.lines([turn_line(str(turn_id), state)])
        self._turn = turn_id

    def _status(self, data: TaskStatusChangedJson) -> None:
        """How a turn ended is the outcome of the badge: the status alone does not tell failures apart."""
        badge, turn_id = data["badge"], data["turn_id"]
        outcome = (None if badge is None else badge["outcome"]) or "unknown"
        if self._with_turns and data.get("task_status") in _TERMINAL and turn_id is not None:
            self._close_line()
            self._out.lines([turn_line(str(turn_id), _STATES.get(outcome, outcome)), []])
