"""What is shown of a tool: its arguments on one short line, and the beginning and the end of its output."""

from __future__ import annotations

from itertools import islice
from typing import Final

from msgspec import json

from interlock.vocabulary.events.registry import Json

LINE_MAX: Final = 200
_ITEMS_MAX: Final = 8
_DEPTH_MAX: Final = 2
_MORE: Final = "\N{HORIZONTAL ELLIPSIS}"
_HEAD: Final = 1_200
_TAIL: Final = 600
TEXT_MAX: Final = 2_000
"""A longer text is shown as its beginning and its end, with a line between them that counts what is left out."""


def shorten(text: str) -> str:
    """At most `TEXT_MAX` code points of a text. What is left out is counted in it."""
    if len(text) <= TEXT_MAX:
        return text
    return f"{text[:_HEAD]}\n[{len(text) - _HEAD - _TAIL:,} characters left out]\n{text[-_TAIL:]}"


def output_text(output: Json) -> str:
    """The output of a tool as text: as it is where it is text, else as JSON."""
    if output is None or isinstance(output, str):
        return output or ""
    try:
        return json.encode(output).decode()
    except (ValueError, OverflowError):  # JSON that we read is never like this
        return one_line(output)


def one_line(args: Json) -> str:
    """At most `LINE_MAX` printable characters. Whatever the arguments are, it neither fails nor takes long."""
    if args is None:
        return ""
    raw = _members(args, _DEPTH_MAX) if isinstance(args, dict) else _brief(args, _DEPTH_MAX)
    # More than fits is enough: the rest would be cut, and need not be cleaned first.
    clean = "".join(char if char.isprintable() else " " for char in raw[: 8 * LINE_MAX])
    line = " ".join(clean.split())
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + _MORE


def _brief(value: Json, depth: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value[: 8 * LINE_MAX]
        case int() | float():
            # Python refuses to spell very long integers; JSON that we read has none.
            return str(value) if isinstance(value, float) or value.bit_length() <= 64 else _MORE
        case _ if depth == 0:
            return _MORE
        case dict():
            return "{" + _members(value, depth - 1) + "}"
        case _:
            items = [_brief(one, depth - 1) for one in islice(value, _ITEMS_MAX)]
            return "[" + ", ".join(items + [_MORE] * (len(value) > _ITEMS_MAX)) + "]"


def _members(value: dict[str, Json], depth: int) -> str:
    items = [f"{key[:LINE_MAX]}: {_brief(one, depth)}" for key, one in islice(value.items(), _ITEMS_MAX)]
    return ", ".join(items + [_MORE] * (len(value) > _ITEMS_MAX))
