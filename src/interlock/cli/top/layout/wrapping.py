"""Text of agents as lines that fit. Pure.

Laws:
1. What comes out holds no control character: each is spelled out, as everywhere in the command line.
2. No line is wider than its room, counted in cells, and nothing is lost by wrapping but white space at a break.
3. What is left out of a long text is said, with its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len

from interlock.cli.output import escape
from interlock.cli.tables import Line, Tone

MAX_CHARACTERS: Final = 16_000
_TAB: Final = 4
_WORDS: Final = re.compile(r"\s+|\S+")


def plain_lines(text: str) -> list[str]:
    """The lines of a text, safe to be shown. Blank ones at both ends are left out."""
    joined = text.replace("\r\n", "\n").strip("\n")
    return [escape(line.expandtabs(_TAB).rstrip()) for line in joined.split("\n")] if joined.strip() else []


def wrap(line: str, width: int) -> list[str]:
    """One line as several that have room. Words stay whole where that is possible."""
    if width <= 0:
        return []
    if (len(line) <= width and line.isascii()) or cell_len(line) <= width:
        return [line]
    wrapped, current, used = [], "", 0
    for word in _WORDS.findall(line):
        size = cell_len(word)
        if used + size > width:
            if current.strip():
                wrapped.append(current.rstrip())
                current, used = "", 0
            if word.isspace():
                continue
            *whole, word = broken(word, width)
            wrapped += whole
            size = cell_len(word)
        current, used = current + word, used + size
    return [*wrapped, current.rstrip()] if current.strip() else wrapped or [""]


def broken(word: str, width: int) -> list[str]:
    """A word in pieces of at most so many cells; a character that has no room at all stands alone."""
    pieces, start, used = [], 0, 0
    for at, character in enumerate(word):
        size = cell_len(character)
        if used + size > width and at > start:
            pieces.append(word[start:at])
            start, used = at, 0
        used += size
    return [*pieces, word[start:]]


def cut(text: str, width: int) -> str:
    """As much of it as has room, with a sign where something is missing."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    return broken(text, width - 1)[0].rstrip() + "…" if width > 1 else "…"


def cut_left(text: str, width: int) -> str:
    """As much of its end as has room, with a sign where something is missing: a path is known by its end."""
    if cell_len(text) <= width:
        return text
    kept = text
    while kept and cell_len(kept) > width - 1:
        kept = kept[1:]
    return f"…{kept}" if width > 0 else ""


def fit(text: str, width: int) -> str:
    """Exactly so wide: cut, or filled up."""
    shown = cut(text, width)
    return shown + " " * (width - cell_len(shown))


def shortened(text: str, *, keeps_end: bool = False) -> tuple[str, int]:
    """The part of a text that is laid out, its beginning or its end, and how many characters are left out."""
    left_out = len(text) - MAX_CHARACTERS
    if left_out <= 0:
        return text, 0
    return (text[left_out:] if keeps_end else text[:MAX_CHARACTERS]), left_out


def wrapped_lines(lines: Iterable[str], width: int, indent: str = "", tone: Tone = Tone.PLAIN) -> list[Line]:
    """Lines that are safe already, wrapped and indented."""
    return [[(indent + piece, tone.value)] for line in lines for piece in wrap(line, max(1, width - cell_len(indent)))]


def joined(pieces: Sequence[tuple[str, Tone | str]]) -> Line:
    """Pieces of a line, safe to be painted."""
    return [(escape(text), str(tone)) for text, tone in pieces if text]


def fitted_line(line: Line, width: int) -> Line:
    """A line of pieces, cut where there is no more room."""
    kept: list[tuple[str, str]] = []
    room = width
    for text, tone in line:
        if cell_len(text) > room:
            return [*kept, (cut(text, room), tone)]
        kept.append((text, tone))
        room -= cell_len(text)
    return kept
