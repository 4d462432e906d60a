"""The one way out of every command: answers on stdout, everything else on stderr.

Text that comes from an agent, a log or the command line is untrusted. Whatever could move the cursor back, recolour the
screen or reorder the line is shown as an escape, in tables, in plain text and in JSON alike. Tabs and line ends do none
of this: where text may have several lines they stay what they are, so that a pipe gets code that still runs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from interlock.cli import colours as looks
from interlock.vocabulary.unsafe_text import UNSAFE

_UNSAFE_BUT_TABS: Final = re.compile(rf"(?!\t){UNSAFE.pattern}")
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escape(text: str) -> str:
    """Make every unsafe character visible, line ends too: the result is one line and prints as it reads."""
    return UNSAFE.sub(_visible, text)


def escape_words(text: str) -> str:
    """As `escape`, but a tab stays a tab."""
    return _UNSAFE_BUT_TABS.sub(_visible, text)


def escape_lines(text: str) -> str:
    """As `escape_words`, but a line end stays one, however it is spelled."""
    return "\n".join(escape_words(line.removesuffix("\r")) for line in text.split("\n"))


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
    """Print lines of pieces, each a text and the SGR numbers of its colour, for whoever wants colours.

    `is_redrawn`: a terminal shows them in place of what it shows.
    """
    stream = _stdout()
    colour = wants_colour(stream)
    shown = "\x1b[H\x1b[2J" if is_redrawn and stream.isatty() else ""
    _write(stream, shown + "".join(painted(line, colour=colour) for line in lines))


def painted(line: Sequence[tuple[str, str]], *, colour: bool) -> str:
    """One line of pieces as it is written, with its end."""
    is_light = colour and looks.is_light(os.environ)
    shown = ""
    for text, sgr in line:
        tone = looks.on_light(sgr, os.environ) if is_light else sgr
        safe = escape_words(text)
        shown += f"\x1b[{tone}m{safe}\x1b[0m" if colour and sgr else safe
    return f"{shown}\n"


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
    return UNSAFE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, as all tables are drawn: see `painting`. A pipe or a file gets one line a row."""
    from interlock.cli.tables import text_table

    print_painted(text_table(header, rows))


def columns(text: str) -> int:
    """How many columns a terminal needs for it."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def note(text: str) -> None:
    """Say something that is not the answer (progress, a hint) on stderr. Said of a Ctrl-C, it is said to its end."""
    if sys.stderr is not None:
        with _uninterrupted(), suppress(OSError):  # nobody hears it; the exit code still says what is to be said
            _write(sys.stderr, escape_lines(text) + "\n")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Where a KeyboardInterrupt is handled, another SIGINT waits until the words are out: they may be the only ones
    that tell what goes on without us. Elsewhere nothing is held back: a Ctrl-C must end a write that blocks."""
    if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        yield
        return
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def error(text: str) -> None:
    """Say on stderr what went wrong, under the program's name."""
    note(f"interlock: {text}")


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour what goes there: as `[ui]` says, else only a terminal, and never where NO_COLOR is set."""
    return looks.wants_colour(stream, os.environ)


def flush() -> None:
    """Hand over everything printed so far, so that a failure to write shows in the exit code."""
    if sys.stdout is not None:
        sys.stdout.flush()


def settle() -> None:
    """Flush, and what cannot take it is pointed at nothing: the interpreter's last flush must stay silent."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, number)
            os.close(nothing)


def _stdout() -> TextIO:
    if sys.stdout is None:
        raise OSError("standard output is closed; there is nowhere to write the answer")
    return sys.stdout


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    # A terminal that cannot show a character shows its escape: an answer is never lost to an encoding.
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
