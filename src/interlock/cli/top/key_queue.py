"""Keys in the order in which they were pressed: each is taken up when what it is for stands on the screen.

Laws:
1. A key that is for a session waits until the sessions are known, and the keys behind it wait with it.
2. Keys behind one that opens a dialog are for the dialog, also those that were pressed before it was drawn.
3. Nothing waits for ever: after `HELD_SECONDS` what waited is let go, and the board says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from textual import events

HELD_SECONDS: Final = 10.0
Typed: TypeAlias = "events.Key | events.Paste"


class KeyQueue:
    """What was typed and not taken up yet."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._typed: deque[tuple[float, Typed]] = deque()

    def put(self, event: Typed) -> None:
        self._typed.append((self._clock(), event))

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything to take up."""
        return bool(self._typed)

    def take(self, may: Callable[[Typed], bool]) -> Typed | None:
        """The next one, if it may be taken up now."""
        if not self._typed or not may(self._typed[0][1]):
            return None
        return self._typed.popleft()[1]

    def let_go(self) -> int:
        """Let all go if the first one waited for too long; how many that were."""
        if not self._typed or self._clock() - self._typed[0][0] < HELD_SECONDS:
            return 0
        count = len(self._typed)
        self._typed.clear()
        return count
