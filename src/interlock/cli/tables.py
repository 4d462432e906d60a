"""Tables that are read at a glance: fitted to the width of the terminal, coloured by meaning, without rich. All tables
of all commands are drawn here.

Law: what a pipe or a file gets is not cut, one line a row, and coloured only where `[ui]` says `always`.
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
_ROOMY, _NARROW, _TIGHT = 30, 12, 4
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
    """`least` is what is left of it when there is little room; None: never cut. The lowest `gives` gives first.

    `wraps`: what has no room goes on in the next line, and nothing is cut.
    """

    title: str
    least: int | None = None
    gives: int = 0
    is_number: bool = False
    wraps: bool = False


class TableRow(NamedTuple):
    """The cells, and the tone of each."""

    cells: Sequence[str]
    tones: Sequence[Tone]


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Line]:
    """A table of words: no cell is cut, no word is broken while there is another way, and the columns on the right give
    room first."""
    return table(_columns_of(header, rows), [plain(row) for row in rows])


def stacked_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Line]:
    """As `text_table`; on a terminal without room for a line, the last cell of each row stands in a line of its own."""
    room = terminal_columns()
    widths = [max(output.columns(row[at]) for row in (header, *rows)) for at in range(len(header))]
    if room is None or sum(widths) + len(GAP) * (len(widths) - 1) <= room:
        return text_table(header, rows)
    columns = _columns_of(header[:-1], [row[:-1] for row in rows])
    fits = fitted(columns, widths[:-1], room)
    lines = [_line(columns, part, fits) for part in _folded(columns, plain(header[:-1]), fits)]
    for row in rows:
        cells = [output.escape(cell) for cell in row]
        lines += [_line(columns, part, fits) for part in _folded(columns, plain(cells[:-1]), fits)]
        lines.append([(GAP + cells[-1], Tone.FAINT.value)])
    return lines


def _columns_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Column]:
    found = []
    for at, title in enumerate(header):
        cells = [row[at] for row in (header, *rows)]
        word = max(output.columns(one) for cell in cells for one in cell.split(" "))
        found.append(Column(title, max(word, min(_ROOMY, max(map(output.columns, cells)))), wraps=True))
    return found


def plain(cells: Sequence[str]) -> TableRow:
    """A row without colours."""
    return TableRow(cells, [Tone.PLAIN] * len(cells))


def table(columns: Sequence[Column], rows: Sequence[TableRow]) -> list[Line]:
    """The rows under their titles, as pieces to be painted."""
    head = TableRow([column.title for column in columns], [Tone.HEAD] * len(columns))
    everything = [TableRow([output.escape(cell) for cell in row.cells], row.tones) for row in (head, *rows)]
    natural = [max(output.columns(row.cells[at]) for row in everything) for at in range(len(columns))]
    room = terminal_columns()
    widths = natural if room is None else fitted(columns, natural, room)
    return [_line(columns, line, widths) for row in everything for line in _folded(columns, row, widths)]


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
    order = sorted(range(len(columns)), key=lambda place: (columns[place].gives, -place))
    # What wraps can be narrower than it likes to be: nothing is lost by it.
    wishes = [(at, columns[at].least) for at in order]
    wishes += [(at, least) for least in (_NARROW, _TIGHT) for at in order if columns[at].wraps]
    for at, least in wishes:
        if over > 0 and least is not None:
            given = min(over, max(0, widths[at] - least))
            widths[at] -= given
            over -= given
    return widths


def _folded(columns: Sequence[Column], row: TableRow, widths: Sequence[int]) -> list[TableRow]:
    """A row, and the lines in which its long cells go on."""
    folds = [
        fold(cell, width) if column.wraps else [cell]
        for column, cell, width in zip(columns, row.cells, widths, strict=True)
    ]
    height = max(map(len, folds), default=1)
    return [TableRow([part[at] if at < len(part) else "" for part in folds], row.tones) for at in range(height)]


def fold(text: str, columns: int) -> list[str]:
    """The text in lines that have room: broken between words, and within one only where it is too long itself."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if output.columns(joined) <= columns:
            line = joined
            continue
        lines += [line] if line else []
        line = word
        while output.columns(line) > columns:
            kept = max(1, columns)
            while kept > 1 and output.columns(line[:kept]) > columns:
                kept -= 1
            lines.append(line[:kept])
            line = line[kept:]
    return [*lines, line] if line or not lines else lines


def _line(columns: Sequence[Column], row: TableRow, widths: Sequence[int]) -> Line:
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
