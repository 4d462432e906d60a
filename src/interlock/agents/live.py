"""One live pane, tracked: what tmux pushes goes to the tracker, and the tracker's deadlines are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

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
    """A verdict, and what of the pane it rests on; None where it was the clock."""

    verdict: Verdict
    cause: WatchEvent | None


async def track_pane(pane: Pane, session: TuiTrackerSession) -> AsyncIterator[LiveVerdict]:
    """Every verdict on a pane, from its first capture until the pane is gone or its server is.

    Times are those of the event loop's clock. Stop iterating to stop watching.
    """
    async with PaneWatch() as watch:
        watch.add(pane.client, pane.pane_id)
        while not watch.is_over:
            cause = await _next(watch, session.deadline)
            verdict = _judge(session, cause, asyncio.get_running_loop().time())
            if verdict is not None:
                yield LiveVerdict(verdict, cause)


async def _next(watch: PaneWatch, deadline: float | None) -> WatchEvent | None:
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(watch)
    except TimeoutError:
        return None


def _judge(session: TuiTrackerSession, cause: WatchEvent | None, now: float) -> Verdict | None:
    match cause:
        case None:
            return session.on_timer(now)
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
