"""One capture of a terminal: its rows with their styles, and what stands beside them.

A capture of a tmux pane holds text and SGR sequences and no other control sequence, so a row is parsed by itself, once.
What else may come in (a torn sequence, an OSC string, a control character of a hostile file) is taken out, never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

# SGR (a longer one is no terminal's), other CSI, OSC/DCS/APC/PM/SOS strings, which any escape ends, then two-byte
# escapes, then every C0 and C1 control character that is left.
_SEQUENCE: Final = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]{0,256})m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_][^\x07\x1b]*\x07?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)
# No terminal is wider, and a pattern that tries again and again takes its time on a longer row.
_MAX_ROW: Final = 1024
# A row that is longer as it comes in is read each time: what is remembered must stay small.
_MAX_REMEMBERED: Final = 1024


class Style(NamedTuple):
    """How a run of characters is drawn. Colours are `None` (the terminal's own), an index "0".."255" or "r,g,b"."""

    fg: str | None = None
    bg: str | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False


PLAIN: Final = Style()


class Span(NamedTuple):
    """Characters `start` up to `end` of a row, in one style."""

    start: int
    end: int
    style: Style


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `text` has no blanks at its end; `spans` cover it and may reach beyond it where blanks are coloured."""

    text: str
    spans: tuple[Span, ...] = ()

    def style_at(self, column: int) -> Style:
        for start, end, style in self.spans:
            if start <= column < end:
                return style
        return PLAIN


EMPTY: Final = Row("")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a terminal shows at one moment. `cursor` is (column, row), from 0; None where nobody told."""

    rows: tuple[Row, ...]
    columns: int
    title: str = ""
    cursor: tuple[int, int] | None = None
    cursor_visible: bool | None = None
    is_alternate: bool = False
    command: str | None = None
    is_dead: bool = False
    raw_text: str = field(default="", compare=False, repr=False)

    @property
    def is_blank(self) -> bool:
        return not any(row.text for row in self.rows)


def read_snapshot(
    captured: str,
    *,
    columns: int,
    height: int | None = None,
    title: str = "",
    cursor: tuple[int, int] | None = None,
    cursor_visible: bool | None = None,
    is_alternate: bool = False,
    command: str | None = None,
    is_dead: bool = False,
) -> Snapshot:
    """Read what `capture-pane -e` printed. A style that is open at the end of a row goes on in the next one.

    `height` cuts what is below the visible screen and fills up with empty rows.
    """
    rows, style = [], PLAIN
    for line in captured.split("\n"):
        row, style = _read_row(line, style)
        rows.append(row)
    if height is not None:
        rows = rows[:height] + [EMPTY] * (height - len(rows))
    return Snapshot(
        tuple(rows), columns, scrub(title), cursor, cursor_visible, is_alternate, command, is_dead, raw_text=captured
    )


def scrub(text: str) -> str:
    """The text without control sequences and control characters."""
    return _SEQUENCE.sub("", text)


def _read_row(line: str, style: Style) -> tuple[Row, Style]:
    return _remembered_row(line, style) if len(line) <= _MAX_REMEMBERED else _parse_row(line, style)


def _parse_row(line: str, style: Style) -> tuple[Row, Style]:
    if "\x1b" not in line and line.isprintable():
        line = line[:_MAX_ROW]
        text = line.rstrip()
        return Row(text, (Span(0, len(line), style),) if text or (line and style != PLAIN) else ()), style
    texts: list[str] = []
    spans: list[Span] = []
    length = end = 0
    for found in _SEQUENCE.finditer(line):
        length = _add(texts, spans, line[end : found.start()], style, length)
        end = found.end()
        if (sgr := found["sgr"]) is not None:
            style = _apply(style, sgr)
    length = _add(texts, spans, line[end:], style, length)
    return Row("".join(texts).rstrip(), tuple(spans)), style


_remembered_row: Final = lru_cache(maxsize=4096)(_parse_row)


def _add(texts: list[str], spans: list[Span], text: str, style: Style, length: int) -> int:
    if not text or length >= _MAX_ROW:
        return length
    text = _clean(text)[: _MAX_ROW - length]
    texts.append(text)
    end = length + len(text)
    if spans and spans[-1].style == style:
        spans[-1] = Span(spans[-1].start, end, style)
    else:
        spans.append(Span(length, end, style))
    return end


def _clean(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\t", " ")


_FLAGS: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse"}
_UNFLAGS: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",)}
_COLOURS: Final[dict[int, tuple[str, ...]]] = {38: ("fg",), 48: ("bg",), 58: ()}  # 58 is the colour of underlines


@lru_cache(maxsize=4096)
def _apply(style: Style, sgr: str) -> Style:
    """The style after an SGR sequence. A parameter that we do not know changes nothing."""
    values = style._asdict()
    parts = iter(sgr.split(";"))
    for part in parts:
        code, *after_colon = map(_number, part.split(":"))
        if code == 0:
            values = PLAIN._asdict()
        elif code in _FLAGS:
            # With a colon it is a kind of underline; kind 0 is none.
            values[_FLAGS[code]] = after_colon != [0]
        elif code in _UNFLAGS:
            values |= dict.fromkeys(_UNFLAGS[code], False)
        elif code in _COLOURS:
            values |= dict.fromkeys(_COLOURS[code], _colour(after_colon or _numbers_of_colour(parts)))
        else:
            values |= _named_colour(code)
    return Style(**values)


def _named_colour(code: int) -> dict[str, str | None]:
    if 30 <= code <= 37 or 90 <= code <= 97:
        return {"fg": str(code - 30 if code < 40 else code - 82)}
    if 40 <= code <= 47 or 100 <= code <= 107:
        return {"bg": str(code - 40 if code < 50 else code - 92)}
    return {"fg": None} if code == 39 else {"bg": None} if code == 49 else {}


def _numbers_of_colour(parts: Iterator[str]) -> list[int]:
    """The parameters after 38, 48 or 58 that belong to it. After a kind that nobody knows that is all of them."""
    kind = _number(next(parts, ""))
    return [kind, *map(_number, islice(parts, {5: 1, 2: 3}.get(kind)))]


def _colour(numbers: list[int]) -> str | None:
    match numbers:
        case [5, index]:
            return str(index)
        case [2, red, green, blue] | [2, _, red, green, blue]:
            return f"{red},{green},{blue}"
        case _:
            return None


def _number(text: str) -> int:
    """The number of a parameter; one that is left out is 0, one too long to mean anything is unknown."""
    return int(text or 0) if len(text) < 6 else -1
