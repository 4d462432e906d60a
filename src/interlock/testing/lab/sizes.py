"""The terminal of a lab: how many columns and rows it has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from interlock.vocabulary.errors import UsageError

_SIZE: Final = re.compile(r"(\d{1,3})x(\d{1,3})")
_COLUMNS: Final = range(20, 501)
_ROWS: Final = range(5, 301)


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Written as `80x24`."""

    columns: int
    rows: int

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}"


USUAL_SIZE: Final = TerminalSize(120, 40)


def read_size(text: str) -> TerminalSize:
    """A size as a person writes it. `UsageError` for one that the server does not take."""
    found = _SIZE.fullmatch(text)
    size = TerminalSize(*map(int, found.groups())) if found else None
    if size is None or size.columns not in _COLUMNS or size.rows not in _ROWS:
        raise UsageError(f"{text!r} is no size of a terminal", remedy="give columns and rows, such as 80x24")
    return size
