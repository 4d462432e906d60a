"""Which commands a text tells its reader to run, and whether there are such."""

from __future__ import annotations

import re
from typing import Final

from interlock.cli.commands import COMMANDS, FAMILIES

# In backquotes, on a line of its own, or behind a colon, as messages name the next command.
_NAMED: Final = re.compile(r"(?:`|^ +|: )interlock ((?:[a-z-]+)(?: [a-z-]+)?)", re.MULTILINE)
_TREE: Final = {name for one in COMMANDS for name in (one.name, one.alias) if name}


def unknown_commands(text: str) -> list[str]:
    """The commands that a text names and that are not there."""
    return [words for words in _NAMED.findall(text) if not _is_command(words)]


def _is_command(words: str) -> bool:
    first, _, second = words.partition(" ")
    if first in FAMILIES:
        return words in _TREE or second in ("", "--help")
    return first in _TREE or first in ("--help", "--version", "-h")
