"""When to capture which pane. Pure: the time is an argument.

Laws:
1. No change, no capture. The first change after quiet is due at once.
2. Two captures of a pane are `gap_seconds` apart or more, and it is not captured twice at the same time.
3. All panes together: at most `captures_per_second` within any second, and `max_in_flight` at a time.
4. A change after a capture began makes the pane due again, so the last state of a burst is always captured.
5. The pane that was captured longest ago goes first, so nobody starves and a pane that was quiet does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class PacingPolicy:
    """How often may be looked. `burst` captures may start together; they are taken from the second's budget."""

    gap_seconds: float = 0.05
    captures_per_second: int = 250
    burst: int = 10
    max_in_flight: int = 8

    @property
    def spacing_seconds(self) -> float:
        """The mean distance between captures that keeps any second, burst included, within its budget."""
        return 1 / (self.captures_per_second - self.burst)


@dataclass(slots=True)
class _Pane:
    is_changed: bool = False
    is_in_flight: bool = False
    begun_at: float = _NEVER


class Pacer:
    """Tell it what changed and what is finished; ask it what is due, and when to ask again."""

    def __init__(self, policy: PacingPolicy | None = None) -> None:
        self._policy = policy or PacingPolicy()
        self._panes: dict[str, _Pane] = {}
        self._free_at = _NEVER  # when the next capture would be due if all were evenly spaced
        self._in_flight = 0

    def changed(self, pane_id: str) -> bool:
        """Something happened in the pane. True if that is news: it was not waiting for a capture already."""
        pane = self._panes.setdefault(pane_id, _Pane())
        was_changed, pane.is_changed = pane.is_changed, True
        return not was_changed

    def is_pending(self, pane_id: str) -> bool:
        """The pane changed, and its capture has not come yet."""
        pane = self._panes.get(pane_id)
        return pane is not None and (pane.is_changed or pane.is_in_flight)

    def finished(self, pane_id: str) -> None:
        """A capture that was due is over, well or not."""
        pane = self._panes.get(pane_id)
        if pane is not None and pane.is_in_flight:
            pane.is_in_flight = False
            self._in_flight -= 1

    def forget(self, pane_id: str) -> None:
        """The pane is no longer watched."""
        self.finished(pane_id)
        self._panes.pop(pane_id, None)

    def due(self, now: float) -> list[str]:
        """The panes to capture now. Each counts as begun, until it is `finished`."""
        ready = [(pane.begun_at, pane_id) for pane_id, pane in self._waiting() if now >= self._rested_at(pane)]
        begun = []
        for _, pane_id in sorted(ready):
            if self._in_flight >= self._policy.max_in_flight or now < self._allowed_at():
                break
            pane = self._panes[pane_id]
            pane.is_changed, pane.is_in_flight, pane.begun_at = False, True, now
            self._in_flight += 1
            self._free_at = max(self._free_at, now) + self._policy.spacing_seconds
            begun.append(pane_id)
        return begun

    def next_at(self) -> float | None:
        """When something becomes due if nothing is told before; None if nothing does."""
        if self._in_flight >= self._policy.max_in_flight:
            return None
        rested = [self._rested_at(pane) for _, pane in self._waiting()]
        return max(min(rested), self._allowed_at()) if rested else None

    def _waiting(self) -> list[tuple[str, _Pane]]:
        return [item for item in self._panes.items() if item[1].is_changed and not item[1].is_in_flight]

    def _rested_at(self, pane: _Pane) -> float:
        return pane.begun_at + self._policy.gap_seconds

    def _allowed_at(self) -> float:
        return self._free_at - (self._policy.burst - 1) * self._policy.spacing_seconds
