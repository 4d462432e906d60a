"""Keys in the order in which they were pressed: each is taken up when what it is for stands on the screen.

Laws:
1. A key that is for a session waits until the sessions are known, and the keys behind it wait with it.
2. Keys behind one that opens a dialog are for the dialog, also those that were pressed before it was drawn.
3. Nothing waits for ever: after `HELD_SECONDS` in which no key was taken up what waited is let go, and the board says
   so.
4. A key in a dialog is taken up once the one before it has done all that it does: letters are handled by the field, and
   others, such as backspace, by its bindings, which a key reaches only after it went up through every parent. A dialog
   that closes meanwhile holds up nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from textual import events
from textual.message_pump import MessagePump

HELD_SECONDS: Final = 10.0
HANDLED_SECONDS: Final = 4.0
Typed: TypeAlias = "events.Key | events.Paste"


class KeyQueue:
    """What was typed and not taken up yet."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._typed: deque[tuple[float, Typed]] = deque()
        self._given_at: float | None = None
        self._moved_at = clock()

    def put(self, event: Typed) -> None:
        self._typed.append((self._clock(), event))

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything to take up."""
        return bool(self._typed)

    def take(self, may: Callable[[Typed], bool]) -> Typed | None:
        """The next one, if it may be taken up now."""
        if not self._typed or self._is_held or not may(self._typed[0][1]):
            return None
        self._moved_at = self._clock()
        return self._typed.popleft()[1]

    @property
    def _is_held(self) -> bool:
        return self._given_at is not None and self._clock() - self._given_at < HANDLED_SECONDS

    def hold_until_handled(self, way: Sequence[MessagePump], then: Callable[[], object]) -> None:
        """Give nothing out until what was given has gone this way, and what it caused has gone it too."""
        self._given_at = self._clock()

        def handled() -> None:
            self._given_at = None
            then()

        _follow((*way, *way), handled)

    def let_go(self) -> int:
        """Let all go if the first one waited for too long; how many that were."""
        if not self._typed or self._clock() - max(self._typed[0][0], self._moved_at) < HELD_SECONDS:
            return 0
        count = len(self._typed)
        self._typed.clear()
        return count


def _follow(way: Sequence[MessagePump], then: Callable[[], None]) -> None:
    """Call it when each on the way, one after the other, has handled all that it was sent before."""
    for place, one in enumerate(way):
        if one.call_later(_follow, way[place + 1 :], then):  # not if it is closed
            return
    then()
