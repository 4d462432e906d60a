"""Where a status record came from, as far as a terminal can tell.

The kernel does not say who wrote to a terminal; it says which process group is in the foreground. Before the first
Enter no prompt has reached the program, so no tool of it can have run: what introduces the program comes before that.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from interlock.agents.status_protocol import StatusRecord

# Enter, as terminals send it: also by the keyboard protocols of kitty and xterm.
_ENTER: Final = re.compile(rb"[\r\n]|\x1b\[13[;u]|\x1b\[27;\d+;13~")


class ShimOrigin(NamedTuple):
    """`is_own`: the program's own process group was in the foreground. `has_asked` and `greeted_as`: how it had
    introduced itself, by the probe and by the app of its first record."""

    is_own: bool
    has_asked: bool
    greeted_as: str


class OriginWatch:
    """Notes how a program introduces itself. Tell it what is typed, and ask it of each record."""

    __slots__ = ("_greeted_as", "_has_asked", "_has_entered")

    def __init__(self) -> None:
        self._has_entered = False
        self._has_asked = False
        self._greeted_as = ""

    def typed(self, keys: bytes) -> None:
        """These keys go to the program."""
        self._has_entered = self._has_entered or _ENTER.search(keys) is not None

    def of(self, record: StatusRecord, *, is_own: bool) -> ShimOrigin:
        """What is known of who sent this record."""
        if is_own and not self._has_entered:
            self._has_asked = self._has_asked or record.is_probe
            self._greeted_as = self._greeted_as or record.app or ""
        return ShimOrigin(is_own, self._has_asked, self._greeted_as)
