"""One live pane, tracked: what tmux pushes goes to the tracker, and the tracker's deadlines are kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.watcher import (
    ChannelDown,
    ChannelLost,
    PaneDied,
    PaneGone,
    PaneMoved,
    PaneSeen,
    PaneWatch,
    WatchEvent,
)
from interlock.monitor.tracker import TuiTrackerSession, Verdict


@dataclass(frozen=True, slots=True)
class LiveVerdict:
    """A verdict, and what of the pane it rests on; None where it was the clock or the inbox."""

    verdict: Verdict
    cause: WatchEvent | None


Told: TypeAlias = Callable[[TuiTrackerSession, float], Verdict]
"""Something that a pane does not show, as the call that takes it in: a submit, a claim, a channel that opened."""


class Inbox:
    """What others tell the session of a pane while it is tracked. Its verdict comes in the same stream, in order.

    Nobody else calls the session meanwhile: a deadline that such a call set would not be kept.
    """

    def __init__(self) -> None:
        self._told: deque[Told] = deque()
        self._wait: asyncio.Timeout | None = None

    def put(self, told: Told) -> None:
        """Hand something over. It is taken in as soon as the loop runs, before anything the pane shows later."""
        self._told.append(told)
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(asyncio.get_running_loop().time())

    async def next(self, watch: PaneWatch, pane_id: str, deadline: float | None) -> WatchEvent | Told | None:
        """What was told, else the pane's next event, else None at the deadline.

        A deadline does not overtake a capture that is on its way.
        """
        if self._told:
            return self._told.popleft()
        try:
            async with asyncio.timeout_at(deadline) as self._wait:
                return await anext(watch)
        except TimeoutError:
            if self._told:
                return self._told.popleft()
        finally:
            self._wait = None
        return await anext(watch) if watch.is_pending(pane_id) else None


async def track_pane(
    pane: Pane, session: TuiTrackerSession, inbox: Inbox | None = None
) -> AsyncGenerator[LiveVerdict, None]:
    """Every verdict on a pane, from its first capture until the pane is gone or its server is.

    Times are those of the event loop's clock. Close it (`aclosing`) to stop watching.
    """
    inbox = inbox or Inbox()
    async with PaneWatch() as watch:
        watch.add(pane.client, pane.pane_id)
        while not watch.is_over:
            cause = await inbox.next(watch, pane.pane_id, session.deadline)
            now = asyncio.get_running_loop().time()
            if callable(cause):
                yield LiveVerdict(cause(session, now), None)
            elif (verdict := _judge(session, cause, now)) is not None:
                yield LiveVerdict(verdict, cause)


def _judge(session: TuiTrackerSession, cause: WatchEvent | None, now: float) -> Verdict | None:
    match cause:
        case None:
            return session.on_timer(now)
        case PaneSeen(capture) if capture.snapshot.is_dead:
            return None  # `PaneDied` follows, and knows how it ended
        case PaneSeen(capture, arrival):
            return session.on_snapshot(capture.snapshot, now, arrival)
        case PaneDied(exit_status=status, exit_signal=signal):
            return session.on_exit(now, status, signal)
        case PaneGone():
            return session.on_exit(now)
        case ChannelDown() | ChannelLost() | PaneMoved():
            return session.on_channel_down(now)
        case _:
            return None
