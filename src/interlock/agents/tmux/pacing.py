"""When to capture which pane. Pure: the time is an argument.

Laws:
1. No change, no capture. The first change after quiet is due at once.
2. Two captures of a pane are `gap_seconds` apart or more, and it is not captured twice at the same time.
3. All panes together: at most `captures_per_second` within any second, and `max_in_flight` at a time.
4. A change after a capture began makes the pane due again, so the last state of a burst is always captured.
5. A pane that goes on writing shows more of the same. Such captures share `busy_per_second`; the first change after
   `quiet_seconds` of quiet, the last of a burst (nothing new for `settled_seconds`) and a pane that was not captured
   for `stale_seconds` do not wait for it.
6. Of those that do not wait, the pane that was captured longest ago goes first, so nobody starves and a pane that was
   quiet does not wait; then settled ones, those that are quiet longest before the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NEVER: Final = float("-inf")
_AT_ONCE: Final = float("inf")


@dataclass(frozen=True, slots=True)
class PacingPolicy:
    """How often may be looked. `burst` captures may start together; they are taken from the second's budget.

    The burst is what many panes need that stop at the same moment. Captures of busy panes are begun `batch` at a time
    where their budget holds them back: one write asks for all.
    """

    gap_seconds: float = 0.05
    captures_per_second: int = 350
    burst: int = 200
    max_in_flight: int = 8
    busy_per_second: int = 70
    busy_burst: int = 10
    quiet_seconds: float = 0.3
    settled_seconds: float = 0.15
    stale_seconds: float = 2.0
    batch: int = 4

    @property
    def spacing_seconds(self) -> float:
        """The mean distance between captures that keeps any second, burst included, within its budget."""
        return 1 / (self.captures_per_second - self.burst)


@dataclass(slots=True)
class _Pane:
    is_changed: bool = False
    is_in_flight: bool = False
    was_quiet: bool = False
    begun_at: float = _NEVER
    changed_at: float = _NEVER


class _Budget:
    """So many a second, evenly spaced, with `burst` of them together at most."""

    def __init__(self, spacing_seconds: float, burst: int) -> None:
        self._spacing = spacing_seconds
        self._burst = burst
        self._free_at = _NEVER  # when the next one would be due if all were evenly spaced

    def allowed_at(self, count: int = 1) -> float:
        """When that many may begin together."""
        return self._free_at - (self._burst - count) * self._spacing

    def spend(self, now: float) -> None:
        self._free_at = max(self._free_at, now) + self._spacing


class Pacer:
    """Tell it what changed and what is finished; ask it what is due, and when to ask again."""

    def __init__(self, policy: PacingPolicy | None = None) -> None:
        self._policy = policy = policy or PacingPolicy()
        self._panes: dict[str, _Pane] = {}
        self._all = _Budget(policy.spacing_seconds, policy.burst)
        self._busy = _Budget(1 / policy.busy_per_second, policy.busy_burst)
        self._in_flight = 0
        self._next_at = _AT_ONCE

    def changed(self, pane_id: str, now: float) -> bool:
        """Something happened in the pane. True if it is due before the time that `next_at` gave last."""
        pane = self._panes.setdefault(pane_id, _Pane())
        before, pane.changed_at = pane.changed_at, now
        if pane.is_changed:
            return False
        pane.is_changed, pane.was_quiet = True, now >= before + self._policy.quiet_seconds
        return not pane.is_in_flight and self._earliest([(pane_id, pane)], self._policy.batch) < self._next_at

    def changed_at(self, pane_id: str) -> float:
        """When the last change was told of."""
        return self._panes[pane_id].changed_at

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
        gap, waiting = self._policy.gap_seconds, self._waiting()
        ready = [(*self._rank(pane, now), pane_id) for pane_id, pane in waiting if now >= pane.begun_at + gap]
        begun = []
        for rank, _, pane_id in sorted(ready):
            if self._in_flight >= self._policy.max_in_flight or now < self._all.allowed_at():
                break
            if rank == _BUSY:
                if now < self._busy.allowed_at():
                    break
                self._busy.spend(now)
            pane = self._panes[pane_id]
            pane.is_changed, pane.is_in_flight, pane.begun_at = False, True, now
            self._in_flight += 1
            self._all.spend(now)
            begun.append(pane_id)
        return begun

    def next_at(self) -> float | None:
        """When something becomes due if nothing is told before; None if nothing does."""
        self._next_at = _AT_ONCE
        if self._in_flight < self._policy.max_in_flight:
            waiting = self._waiting()
            self._next_at = self._earliest(waiting, min(self._policy.batch, len(waiting)))
        return None if self._next_at == _AT_ONCE else self._next_at

    def _waiting(self) -> list[tuple[str, _Pane]]:
        return [item for item in self._panes.items() if item[1].is_changed and not item[1].is_in_flight]

    def _rank(self, pane: _Pane, now: float) -> tuple[int, float]:
        if pane.was_quiet or now >= pane.begun_at + self._policy.stale_seconds:
            return _FIRST, pane.begun_at
        if now >= pane.changed_at + self._policy.settled_seconds:
            return _SETTLED, pane.changed_at
        return _BUSY, pane.begun_at

    def _earliest(self, waiting: list[tuple[str, _Pane]], batch: int) -> float:
        """When the first of them is due. Asked after every capture for all panes, so in one pass without a call."""
        gap, stale, settled = self._policy.gap_seconds, self._policy.stale_seconds, self._policy.settled_seconds
        busy_at = self._busy.allowed_at(batch)
        earliest = _AT_ONCE
        for _, pane in waiting:
            at = begun_at = pane.begun_at
            if not pane.was_quiet:
                at = busy_at
                if (settled_at := pane.changed_at + settled) < at:
                    at = settled_at
                if (stale_at := begun_at + stale) < at:
                    at = stale_at
            if at < begun_at + gap:
                at = begun_at + gap
            if at < earliest:
                earliest = at
        return max(earliest, self._all.allowed_at())


_FIRST: Final = 0
_SETTLED: Final = 1
_BUSY: Final = 2
