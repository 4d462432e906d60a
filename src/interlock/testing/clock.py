"""Time for tests and simulations: it stands still until told otherwise, and can jump to the next deadline."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from interlock.runtime.deadlines import DeadlineHeap
from interlock.vocabulary.errors import UsageError

MAX_STEPS: Final = 100_000


class VirtualClock:
    """A clock that fits every `clock=` argument, with callbacks that run in an order fixed by the calls made.

    >>> clock = VirtualClock()
    >>> _ = clock.call_at(5.0, lambda: print("stalled at", clock()))
    >>> clock.advance(2.0)
    >>> clock.now()
    2.0
    >>> clock.jump()
    stalled at 5.0
    True
    >>> clock.jump()
    False

    Callbacks run in order of their time, then of their `call_at`, and see their own time as now. One that is set for
    the moment at which it is set runs after all that were set before it. An error from a callback goes to whoever moved
    the clock, and the other callbacks of that moment do not run. For one thread.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._timers: DeadlineHeap[int] = DeadlineHeap()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._next_handle = 0

    def __call__(self) -> float:
        return self._now

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> int:
        """Run `callback` once, when the clock is moved to `when`; a time that has passed means the next move."""
        handle = self._next_handle
        self._timers.set(handle, when)
        self._callbacks[handle] = callback
        self._next_handle += 1
        return handle

    def cancel(self, handle: int) -> None:
        """Forget what `call_at` returned this handle for; one that has run, or is unknown, is no error."""
        self._timers.cancel(handle)
        self._callbacks.pop(handle, None)

    def jump(self) -> bool:
        """Go to the next deadline and run its callbacks. False, and no change, when nothing is set."""
        when = self._timers.earliest()
        if when is None:
            return False
        self._now = max(self._now, when)
        for handle in self._timers.pop_due(self._now):
            callback = self._callbacks.pop(handle, None)
            if callback is not None:  # else cancelled by a callback of the same moment
                callback()
        return True

    def run(self, max_steps: int = MAX_STEPS) -> int:
        """Jump until nothing is set, at most `max_steps` times; return how many times it was."""
        steps = 0
        while steps < max_steps and self.jump():
            steps += 1
        return steps

    def run_until(self, when: float, max_steps: int = MAX_STEPS) -> None:
        """Run all that is due on the way to `when`, and stand there."""
        if not (math.isfinite(when) and when >= self._now):
            raise UsageError(
                f"the clock stands at {self._now} and cannot go to {when}", remedy="time only moves forward"
            )
        steps = 0
        while (due := self._timers.earliest()) is not None and due <= when:
            if steps == max_steps:
                raise UsageError(
                    f"{max_steps} steps, and still busy at {self._now}", remedy="a callback keeps setting itself again"
                )
            self.jump()
            steps += 1
        self._now = max(self._now, when)

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds`, running all that is due on the way."""
        if not seconds >= 0:
            raise UsageError(f"cannot advance by {seconds} seconds", remedy="time only moves forward")
        self.run_until(self._now + seconds)
