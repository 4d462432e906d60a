"""The picture of a terminal as lines to be painted, and what is to be said beside it. Pure.

Laws:
1. A colour is taken only where it is plain SGR numbers; anything else paints nothing.
2. A picture that is not live is never called live: what is said names why, and how old it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from interlock.cli.look.session_lines import duration
from interlock.cli.output import columns
from interlock.cli.tables import Line

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskScreenJson

_SGR: Final = re.compile(r"[0-9;]{1,64}")
_CURSOR: Final = "7"
_FRESH_SECONDS: Final = 2.0


def picture_lines(screen: TaskScreenJson, *, with_cursor: bool = False) -> list[Line]:
    """Every row of the picture, as pieces."""
    rows: list[str] = [str(row) for row in screen.get("rows") or ()]
    paint: dict[int, list[tuple[int, int, str]]] = {}
    for row, start, end, sgr in screen.get("paint") or ():
        if _SGR.fullmatch(str(sgr)):
            paint.setdefault(row, []).append((start, end, sgr))
    lines = [_pieces(text, paint.get(at, ())) for at, text in enumerate(rows)]
    cursor = screen.get("cursor")
    if with_cursor and cursor and 0 <= cursor[1] < screen["height"]:
        lines += [[] for _ in range(cursor[1] + 1 - len(lines))]
        lines[cursor[1]] = _marked(lines[cursor[1]], cursor[0])
    return lines


def _pieces(text: str, paint: Sequence[tuple[int, int, str]]) -> Line:
    pieces: list[tuple[str, str]] = []
    at = 0
    for start, end, sgr in sorted(paint):
        if start < at or end <= start:
            continue
        if start > at:
            pieces.append((text[at:start], ""))
        pieces.append((text[start:end], sgr))
        at = end
    return [piece for piece in (*pieces, (text[at:], "")) if piece[0]]


def _marked(line: Line, column: int) -> Line:
    """The line with the cell of the cursor reversed."""
    cells = [(one, sgr) for text, sgr in line for one in text]
    place, at = 0, 0
    while at < len(cells) and place < column:
        place += columns(cells[at][0])
        at += 1
    if at >= len(cells):
        return [*line, (" " * max(0, column - place), ""), (" ", _CURSOR)]
    one, sgr = cells[at]
    cells[at] = (one, f"{sgr};{_CURSOR}" if sgr else _CURSOR)
    return cells


def said_of(screen: TaskScreenJson, more_seconds: float = 0.0) -> str:
    """How far the picture is to be trusted. `more_seconds`: since it was told."""
    old = float(screen.get("age_seconds") or 0.0) + more_seconds
    if not screen.get("is_live"):
        return f"not live, {duration(old)} old: {screen.get('problem') or 'the terminal cannot be seen now'}"
    return "live" if old < _FRESH_SECONDS else f"live, unchanged for {duration(old)}"


def cut_line(line: Line, room: int) -> Line:
    """As much of a line as has room, in columns."""
    kept: list[tuple[str, str]] = []
    for text, sgr in line:
        if columns(text) > room:
            while text and columns(text) > room:
                text = text[:-1]  # one by one: columns are not characters
            return [*kept, (text, sgr)]
        kept.append((text, sgr))
        room -= columns(text)
    return kept
