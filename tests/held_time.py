"""An event loop whose clock stands still, so that a deadline fires when a test says so and never because of load.

    async def story() -> None:
        turn = asyncio.create_task(take_a_turn(limit_seconds=60))
        await the_agent_hangs()             # sockets, pipes, processes and threads go on as ever
        await clock().advance_past(60)      # once a timer of 60 s is armed: fire it
        assert (await turn).is_over

    run_held(story())

No timer fires until the test moves the clock, however late a server, a process or this one is. A bound on the test as a
whole is pytest's own: `asyncio.timeout` inside stands still as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from interlock.runtime.policy import Instant

T = TypeVar("T")
_LOOK_SECONDS: Final = 0.005
_SAME_SECONDS: Final = 0.5  # the length of a timer is a little less where time runs


class HeldLoop(asyncio.SelectorEventLoop):
    """Serves everything but time, which stands where it was when the loop was made until `advance` or `resume`."""

    def __init__(self) -> None:
        super().__init__()
        self._stands_at: float | None = super().time()
        self._ahead_seconds = 0.0
        self.moved_seconds = 0.0
        self._armed: list[tuple[float, asyncio.TimerHandle]] = []  # each with its length

    def time(self) -> float:
        return super().time() + self._ahead_seconds if self._stands_at is None else self._stands_at

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        now, timer = self.time(), super().call_at(when, callback, *args, context=context)
        self._armed = [(length, one) for length, one in self._armed if not one.cancelled() and one.when() > now]
        self._armed.append((when - now, timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move the clock; what is due by then fires at the next turn of the loop."""
        self.moved_seconds += seconds
        if self._stands_at is None:
            self._ahead_seconds += seconds
        else:
            self._stands_at += seconds

    async def advance_past(self, seconds: float) -> None:
        """Wait until a timer of this length is armed, and move the clock to its time."""
        await until(lambda: self._due_at(seconds) is not None)
        due_at = self._due_at(seconds)
        assert due_at is not None
        self.advance(max(0.0, due_at - self.time()))

    def resume(self) -> None:
        """Let time pass as it does: for what follows the deadline, and waits by polling."""
        if self._stands_at is not None:
            self._ahead_seconds = self._stands_at - super().time()
            self._stands_at = None

    def _due_at(self, seconds: float) -> float | None:
        fits = (
            one.when() for length, one in self._armed if not one.cancelled() and abs(length - seconds) < _SAME_SECONDS
        )
        return next(fits, None)


def clock() -> HeldLoop:
    """The loop that runs this test."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HeldLoop)
    return loop


def loop_instant() -> Instant:
    """A `clock=` for a runtime: its deadlines are then those of the loop, and move with it. The date is today's."""
    loop = clock()
    return Instant(datetime.now(UTC) + timedelta(seconds=loop.moved_seconds), loop.time())


def run_held(story: Coroutine[None, None, T]) -> T:
    """`asyncio.run` on a clock that stands still."""
    with asyncio.Runner(loop_factory=HeldLoop) as runner:
        return runner.run(story)


def run_with_jumps(story: Coroutine[None, None, T]) -> T:
    """`asyncio.run` on a clock that runs, and can be moved: long deadlines pass quickly, and load is far from any."""

    async def resumed() -> T:
        clock().resume()
        return await story

    return run_held(resumed())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that no await tells of. It looks from a thread, so it works while the clock stands still."""
    while not holds():
        await asyncio.to_thread(time.sleep, _LOOK_SECONDS)


class Alarm:
    """Fires a deadline once something was seen: `on` the first observation that fits, in the background."""

    def __init__(self, seconds: float, is_time: Callable[[object], bool]) -> None:
        self._seconds = seconds
        self._is_time = is_time
        self._firing: asyncio.Task[None] | None = None

    async def react(self, seen: object) -> None:
        self.see(seen)

    def see(self, seen: object) -> None:
        if self._firing is None and self._is_time(seen):
            self._firing = asyncio.create_task(clock().advance_past(self._seconds))
