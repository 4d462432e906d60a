"""Messages of a transcript as text.

Laws:
1. The words of an agent are indented, and what we say of them is not: no text can pass for a heading of ours.
2. What is not a clean, whole answer bears the label that its message has. Messages of an older server have none: there
   the status says it.
3. The end of a turn says how to go on, by commands that can be pasted; so does a child or a workflow that failed.
4. Of what a tool gave back the beginning and the end are printed, and how much is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interlock.cli.look.session_lines import read_moment
from interlock.cli.tables import Line, Tone
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import BROKE_OFF, STILL_WRITTEN, repeats

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import MessageJson

INDENT: Final = "  "
_DETAIL_HEAD: Final = 12
_DETAIL_TAIL: Final = 6
# The others speak for themselves: what a user said is complete, and a tool's status is in its heading.
_LABELS: Final = {
    "partial": "partial",
    "failed": "failed",
    "cancelled": "cancelled",
    "timed_out": "timed out",
    "interrupted": BROKE_OFF,
    "streaming": STILL_WRITTEN,
    "running": "goes on",
    "waiting": "waits",
    "unknown": "not known to be whole",
}
_BAD: Final = frozenset({"failed", "timed_out", "partial", "cancelled", "interrupted", "unknown"})
_NAMES: Final = {"user": "you", "answer": "agent", "commentary": "agent, at work", "end": "end of the turn"}


def message_lines(message: MessageJson, session_id: str = "") -> list[Line]:
    """One message: a heading, its text, what came of a tool, and what to do next where something ended badly."""
    words = text_lines(str(message.get("text", "")))
    return [heading(message), *words, *detail_lines(message), *_next_lines(message, session_id)]


def heading(message: MessageJson) -> Line:
    """Who speaks, when, and how far to trust it."""
    role, status = str(message.get("role", "")), str(message.get("status", ""))
    name = _tool_name(message) if role == "tool" else _NAMES.get(role, role)
    said = label_of(message)
    pieces = [(name, Tone.HEAD.value), *_time(message)]
    return [*pieces, _label(said, status)] if said else pieces


def label_of(message: MessageJson) -> str:
    """What stands in brackets beside a message: nothing beside a clean answer."""
    role, status, label = message["role"], message["status"], message.get("label", "")
    if role == "tool":
        return f"{status}: {label}" if label else status
    if label:
        return label
    kind, text = str(message.get("error_kind", "")), str(message.get("text", ""))
    is_told = repeats(status, kind) or kind.replace("_", " ") == text
    seen = "" if message.get("is_verified", True) else "unverified: read off a screen"
    said = ": ".join(one for one in (_status_words(status), "" if is_told else kind) if one)
    return "; ".join(one for one in (said, seen) if one)


def detail_lines(message: MessageJson) -> list[Line]:
    """What came of a tool, indented twice."""
    lines = text_lines(str(message.get("detail", "")))
    left_out = len(lines) - _DETAIL_HEAD - _DETAIL_TAIL
    if left_out > 1:
        more: Line = [(f"{INDENT}[{left_out} lines more: `interlock logs --json` has them]", Tone.FAINT)]
        lines = [*lines[:_DETAIL_HEAD], more, *lines[-_DETAIL_TAIL:]]
    return [[(INDENT, ""), *line] for line in lines]


def label(said: str, detail: str = "", *, status: str = "") -> Line:
    """A line that says what a text is which stands above it. It is not indented, as that text is."""
    text, tone = _label(": ".join(one for one in (said, detail) if one), status)
    return [(text.lstrip(), tone)]


def live_heading() -> Line:
    """The heading of text that is still being written."""
    return [(_NAMES["answer"], Tone.HEAD.value), _label(STILL_WRITTEN, "streaming")]


def role_name(message: MessageJson) -> str:
    """What a clean text turned out to be: only the answer is called one."""
    role = str(message.get("role", ""))
    return role if role == "answer" else _NAMES.get(role, role)


def text_lines(text: str) -> list[Line]:
    """The words, indented. A blank text has no lines."""
    trimmed = text.strip("\n")
    return [[(f"{INDENT}{line}", "")] for line in trimmed.split("\n")] if trimmed.strip() else []


def turn_line(turn_id: str, state: str, kind: str = "") -> Line:
    """Where a turn begins, or how it ended."""
    tone = Tone.ACTIVE if state == "completed" else Tone.PLAIN if state in ("running", "waiting") else Tone.DOUBTFUL
    return [("turn ", Tone.HEAD), (turn_id, ""), (f"  {state}", tone), (f": {kind}" if kind else "", "")]


def _next_lines(message: MessageJson, session_id: str) -> list[Line]:
    is_advised = message.get("role") == "end" or message.get("kind") not in (None, "tool")
    advised = message.get("next_actions", ()) if is_advised else ()
    actions = ((str(one.get("kind", "")), str(one.get("command", ""))) for one in advised)
    return [[("next: ", Tone.FAINT), (line, "")] for line in advice_lines(actions, session_id)]


def _tool_name(message: MessageJson) -> str:
    kind = message.get("kind") or "tool"
    name = message.get("item_id", "") if kind == "workflow" else message.get("name", "")
    return f"{kind} {name}".rstrip()


def _status_words(status: str) -> str:
    return _LABELS.get(status, "" if status == "completed" else status)


def _time(message: MessageJson) -> list[tuple[str, str]]:
    at = read_moment(message.get("at"))
    return [] if at is None else [(f"  {at.astimezone():%H:%M:%S}", Tone.FAINT.value)]


def _label(said: str, status: str) -> tuple[str, str]:
    return (f"  [{said}]", (Tone.DOUBTFUL if status in _BAD else Tone.FAINT).value)
