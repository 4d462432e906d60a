"""The one way out of every command: answers on stdout, everything else on stderr.

Text that comes from an agent, a log or the command line is untrusted. Whatever could move the cursor, recolour the
screen or reorder the line is shown as an escape, in tables, in plain text and in JSON alike.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Final, TextIO

# C0, DEL, C1; bidi marks, embeddings, overrides and isolates; line separators; lone surrogates; invisible tags.
_UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escape(text: str) -> str:
    """Make every unsafe character visible, line ends too: the result is one line and prints as it reads."""
    return _UNSAFE.sub(_visible, text)


def escape_lines(text: str) -> str:
    """As `escape`, but a line feed stays a line feed."""
    return "\n".join(escape(line) for line in text.split("\n"))


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if code < 0x100:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def print_text(text: str) -> None:
    """Print an answer for people, as it is but for unsafe characters."""
    _write(_stdout(), escape_lines(text) + "\n")


def print_painted(lines: Sequence[Sequence[tuple[str, str]]], *, is_redrawn: bool = False) -> None:
    """Print lines of pieces, each a text and the SGR numbers of its colour, which only a terminal gets.

    `is_redrawn`: a terminal shows them in place of what it shows.
    """
    stream = _stdout()
    colour = wants_colour(stream)
    shown = "\x1b[H\x1b[2J" if is_redrawn and stream.isatty() else ""
    for line in lines:
        for text, sgr in line:
            shown += f"\x1b[{sgr}m{escape(text)}\x1b[0m" if colour and sgr else escape(text)
        shown += "\n"
    _write(stream, shown)


def print_piece(text: str) -> None:
    """Print a piece of a text that goes on, at once and without an end of line of its own."""
    _write(_stdout(), escape_lines(text))
    flush()


def print_json(value: object) -> None:
    """Print one JSON document and a newline. Accepts what msgspec encodes, and text with lone surrogates as well."""
    _write(_stdout(), encode_json(value) + "\n")


def encode_json(value: object) -> str:
    """JSON text that is safe to show on a terminal and decodes to the same value."""
    import msgspec

    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        import json

        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=True, separators=(",", ":"))
    return _safe_json(text)


def print_plain_json(text: str) -> None:
    """Print one document that is compact JSON already. It needs no encoder."""
    _write(_stdout(), _safe_json(text) + "\n")


def _safe_json(text: str) -> str:
    # Compact JSON has unsafe characters only inside strings, where an escape stands for the same character.
    return _UNSAFE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns: fitted to the width of a terminal, or one line a row for a pipe or a file."""
    stream = _stdout()
    cells = [[escape(cell) for cell in row] for row in (header, *rows)]
    if stream.isatty():
        _print_fitted(stream, cells)
    else:
        _write(stream, _aligned(cells))


def _aligned(cells: Sequence[Sequence[str]]) -> str:
    """Columns by padding alone: what a pipe gets needs no rich, and a row stays one line for grep."""
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    return "".join(
        "  ".join(cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
        for row in cells
    )


def columns(text: str) -> int:
    """How many columns a terminal needs for it."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def _print_fitted(stream: TextIO, cells: Sequence[Sequence[str]]) -> None:
    from rich.box import ASCII2, SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = wants_colour(stream)
    boxes = (stream.encoding or "").lower().startswith("utf")
    table = Table(box=SIMPLE if boxes else ASCII2, pad_edge=False, show_edge=False, header_style="bold")
    for title in cells[0]:
        table.add_column(Text(title), overflow="fold")
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    # Both are said outright, for rich would let FORCE_COLOR and its own guesses overrule what `wants_colour` found.
    console = Console(file=stream, force_terminal=colour, color_system="auto" if colour else None, legacy_windows=False)
    console.print(table)


def note(text: str) -> None:
    """Say something that is not the answer (progress, a hint) on stderr."""
    if sys.stderr is not None:
        _write(sys.stderr, escape_lines(text) + "\n")


def error(text: str) -> None:
    """Say on stderr what went wrong, under the program's name."""
    note(f"interlock: {text}")


def wants_colour(stream: TextIO) -> bool:
    """Colours only on a terminal, and not where NO_COLOR is set to anything or the terminal is dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def flush() -> None:
    """Hand over everything printed so far, so that a failure to write shows in the exit code."""
    if sys.stdout is not None:
        sys.stdout.flush()


def settle() -> None:
    """Flush, and if stdout cannot take it, point stdout at nothing: the interpreter's last flush must stay silent."""
    try:
        flush()
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)


def _stdout() -> TextIO:
    if sys.stdout is None:
        raise OSError("standard output is closed; there is nowhere to write the answer")
    return sys.stdout


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    # A terminal that cannot show a character shows its escape: an answer is never lost to an encoding.
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
