"""Prints a command's help page: two columns, wrapped to the terminal, without frames or colours.

Imported only when help is asked for: cyclopts' own formatter, and rich with it, cost more than most commands.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import ConsoleOptions

_MAX_NAME: Final = 24
_INDENT: Final = "  "
# What a reader knows without being told: a flag that is not given is off, and what is not named is not there.
_UNSAID_DEFAULTS: Final = frozenset({"False", "None", "''", '""', "[]", "()", ""})


def print_panel(console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
    """Print the arguments, the options or the commands, below their title."""
    rows = [(_name(entry), _about(entry)) for entry in panel.entries if entry.display_labels]
    if rows:
        column = max(min(len(name), _MAX_NAME) for name, _ in rows) + len(_INDENT) + 2
        lines = [f"{panel.title}:", *(line for row in rows for line in _wrapped(*row, column, options.max_width))]
        console.print("\n".join((*lines, "")), highlight=False, markup=False, no_wrap=True)


def _name(entry: HelpEntry) -> str:
    if entry.positional_label:
        return str(entry.positional_label)
    return ", ".join(entry.display_labels_with_metavar)


def _about(entry: HelpEntry) -> str:
    parts = [_plain(entry.description)]
    if entry.choices:
        parts.append(f"One of {', '.join(entry.choices)}.")
    if entry.default is not None and entry.default not in _UNSAID_DEFAULTS:
        parts.append(f"[default: {entry.default}]")
    if entry.required and not entry.positional_label:
        parts.append("[required]")
    return " ".join(filter(None, parts))


def _plain(text: object) -> str:
    with Path(os.devnull).open("w") as nothing:
        wide = Console(width=10_000, file=nothing, no_color=True, highlight=False, markup=False, emoji=False)
        with wide.capture() as captured:
            wide.print("" if text is None else text)
    return " ".join(captured.get().split())


def _wrapped(name: str, about: str, column: int, width: int) -> list[str]:
    """A name and what it is about; a long name has a line of its own."""
    head = f"{_INDENT}{name}"
    text = textwrap.wrap(about, max(width - column - 1, 20), break_long_words=False, break_on_hyphens=False)
    lines = [f"{'':{column}}{line}" for line in text]
    if lines and len(head) + 2 <= column:
        lines[0] = f"{head:<{column}}{text[0]}"
        return lines
    return [head, *lines]
