"""Messages of a transcript as text.

Laws:
1. The words of an agent are indented, and what we say of them is not: no text can pass for a heading of ours.
2. What is not a clean, whole answer bears a label: partial, failed, cancelled, timed out, broke off, unverified.
"""

from __future__ import annotations

from typing import Final

from interlock.cli.painting import Line, Tone
from interlock.cli.server_api import Body
from interlock.cli.task_lines import read_moment

INDENT: Final = "  "
# The others speak for themselves: what a user said is complete, and a tool's status is in its heading.
_LABELS: Final = {
    "partial": "partial",
    "failed": "failed",
    "cancelled": "cancelled",
    "timed_out": "timed out",
    "interrupted": "broke off",
    "streaming": "goes on",
    "running": "goes on",
    "waiting": "waits",
    "unknown": "not known to be whole",
}
_BAD: Final = frozenset({"failed", "timed_out", "partial", "cancelled", "interrupted", "unknown"})
_NAMES: Final = {"user": "you", "answer": "agent", "commentary": "agent, at work", "end": "end of the turn"}


def message_lines(message: Body) -> list[Line]:
    """One message: a heading, then its text."""
    return [heading(message), *text_lines(str(message.get("text", "")))]


def heading(message: Body) -> Line:
    """Who speaks, when, and how far to trust it."""
    role, status = str(message.get("role", "")), str(message.get("status", ""))
    if role == "tool":
        return [(f"tool {message.get('name', '')}".rstrip(), Tone.HEAD), *_time(message), _label(f"{status}", status)]
    pieces = [(_NAMES.get(role, role), Tone.HEAD.value), *_time(message)]
    said = _LABELS.get(status, "" if status == "completed" else status)
    kind = str(message.get("error_kind", ""))
    if said or kind:
        pieces.append(_label(": ".join(one for one in (said, kind) if one), status))
    if not message.get("is_verified", True):
        pieces.append(_label("unverified: read off a screen", "unknown"))
    return pieces


def label(status: str, detail: str = "") -> Line:
    """A line that says how a text ended which stands above it."""
    said = _LABELS.get(status, status)
    return [_label(": ".join(one for one in (said, detail) if one), status)]


def text_lines(text: str) -> list[Line]:
    """The words, indented. A blank text has no lines."""
    trimmed = text.strip("\n")
    return [[(f"{INDENT}{line}", "")] for line in trimmed.split("\n")] if trimmed.strip() else []


def turn_line(turn_id: str, state: str, kind: str = "") -> Line:
    """Where a turn begins, or how it ended."""
    tone = Tone.ACTIVE if state == "completed" else Tone.PLAIN if state in ("running", "waiting") else Tone.DOUBTFUL
    return [("turn ", Tone.HEAD), (turn_id, ""), (f"  {state}", tone), (f": {kind}" if kind else "", "")]


def _time(message: Body) -> list[tuple[str, str]]:
    at = read_moment(message.get("at"))
    return [] if at is None else [(f"  {at.astimezone():%H:%M:%S}", Tone.FAINT.value)]


def _label(said: str, status: str) -> tuple[str, str]:
    return (f"  [{said}]", (Tone.DOUBTFUL if status in _BAD else Tone.FAINT).value)
