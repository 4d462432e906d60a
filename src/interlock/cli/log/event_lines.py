"""Events for people, one line each: sequence number, time, type, turn and what it says."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.cli import output
from interlock.lifecycle.turns import TURN_PAYLOADS
from interlock.projections.sentences import sentence
from interlock.vocabulary.events.audit import ProcessEvent, SurfaceEvent
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.envelope import Event

# What a sentence says something about; the others are told by their own words, as JSON.
_SPOKEN: Final = TURN_PAYLOADS | {ProcessEvent, SurfaceEvent}
_MAX_SUMMARY: Final = 200
_MIN_SUMMARY: Final = 20


class EventPrinter:
    """Prints events as they come. Columns grow with what they hold, and a line fits the width of a terminal."""

    def __init__(self, *, json: bool, with_session: bool = False) -> None:
        self._json = json
        self._with_session = with_session
        self._widths = {"seq": 6, "session": 0, "type": 18, "turn": 1}

    def show(self, event: Event) -> None:
        if self._json:
            # As stored: unknown fields too, which only the codec knows how to write.
            output.print_json(msgspec.Raw(encode_event(event)))
        else:
            output.print_text(self._line(event))

    def _line(self, event: Event) -> str:
        seq = f"{'?' if event.seq is None else event.seq}".rjust(self._widths["seq"])
        session = (self._padded("session", event.session_id),) if self._with_session else ()
        kind, turn = self._padded("type", event.type), self._padded("turn", event.turn_id or "-")
        start = "  ".join((seq, *session, clock_time(event.ts), kind, turn, ""))
        return start + shorten(output.escape(summary(event)), columns_left(len(start)))

    def _padded(self, column: str, text: str) -> str:
        shown = output.escape(text)
        self._widths[column] = max(self._widths[column], len(shown))
        return shown.ljust(self._widths[column])


def summary(event: Event) -> str:
    """What an event says, in a few words. Not escaped."""
    if type(event.data) in _SPOKEN:
        return sentence(event)
    return output.encode_json(event.data)


def clock_time(at: datetime) -> str:
    """A time as `--at` and `--before` take it."""
    try:
        return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:  # so near the end of the calendar that UTC has no such moment
        return at.isoformat(timespec="milliseconds")


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def columns_left(used: int) -> int:
    """How long a summary may be: what is left of a terminal's width, or a fair length for a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():
        return _MAX_SUMMARY
    from shutil import get_terminal_size

    return max(_MIN_SUMMARY, get_terminal_size().columns - used)
