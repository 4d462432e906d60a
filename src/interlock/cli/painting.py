"""Tables that are read at a glance: cut to the width of the terminal, coloured by meaning, without rich.

Law: what a pipe or a file gets is neither cut nor coloured, and one line a row.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from interlock.cli import output

GAP: Final = "  "
_DEFAULT_COLUMNS: Final = 80
_NARROWEST: Final = 40
Line: TypeAlias = Sequence[tuple[str, str]]


class Tone(StrEnum):
    """A meaning, as the SGR numbers of its colour."""

    PLAIN = ""
    HEAD = "1"
    URGENT = "1;31"
    DOUBTFUL = "33"
    ACTIVE = "32"
    CALM = "36"
    FAINT = "2"


class Column(NamedTuple):
    """`least` is what is left of it when there is little room; None: never cut. The lowest `gives` gives first."""

    title: str
    least: int | None = None
    gives: int = 0
    is_number: bool = False


class Row(NamedTuple):
    """The cells, and the tone of each."""

    cells: Sequence[str]
    tones: Sequence[Tone]


def table(columns: Sequence[Column], rows: Sequence[Row]) -> list[Line]:
    """The rows under their titles, as pieces to be painted."""
    head = Row([column.title for column in columns], [Tone.HEAD] * len(columns))
    everything = [Row([output.escape(cell) for cell in row.cells], row.tones) for row in (head, *rows)]
    natural = [max(output.columns(row.cells[at]) for row in everything) for at in range(len(columns))]
    room = terminal_columns()
    widths = natural if room is None else fitted(columns, natural, room)
    return [_line(columns, row, widths) for row in everything]


def terminal_columns() -> int | None:
    """How many columns the terminal has; None where the answer does not go to one."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and 0 < len(said) < 5:
        return max(_NARROWEST, int(said))
    try:
        return max(_NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return _DEFAULT_COLUMNS


def fitted(columns: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """The width of each column so that a line has room, if that is possible at all."""
    widths = list(natural)
    over = sum(widths) + len(GAP) * (len(widths) - 1) - room
    for at in sorted(range(len(columns)), key=lambda place: (columns[place].gives, -place)):
        least = columns[at].least
        if over > 0 and least is not None:
            given = min(over, max(0, widths[at] - least))
            widths[at] -= given
            over -= given
    return widths


def _line(columns: Sequence[Column], row: Row, widths: Sequence[int]) -> Line:
    pieces: list[tuple[str, str]] = []
    last = max((at for at, cell in enumerate(row.cells) if cell), default=0)
    for at, (column, cell) in enumerate(zip(columns, row.cells, strict=True)):
        shown = cut(cell, widths[at])
        padding = " " * (widths[at] - output.columns(shown))
        before, after = (padding, "") if column.is_number else ("", padding)
        if at > last:
            break
        pieces += [(before, ""), (shown, row.tones[at].value), ("" if at == last else after + GAP, "")]
    return pieces


def cut(text: str, columns: int) -> str:
    """As much of it as has room, with a sign where something is missing."""
    if output.columns(text) <= columns:
        return text
    is_wide = sys.stdout is not None and (sys.stdout.encoding or "").lower().startswith("utf")
    sign = "…" if is_wide else "."
    kept = text[: max(0, columns - 1)]
    while kept and output.columns(kept) > columns - 1:
        kept = kept[:-1]
    return kept.rstrip() + sign if columns > 0 else ""
