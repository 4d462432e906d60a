"""Live panes, tracked: what tmux pushes goes to the session of its pane, and the sessions' deadlines are kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeAlias

from interlock.agents.tmux.pacing import PacingPolicy
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.watcher import (
    ChannelDown,
    PaneChannelLost,
    PaneDied,
    PaneGone,
    PaneMoved,
    PaneSeen,
    PaneWatch,
    WatchEvent,
    panes_of,
)
from interlock.monitor.observation import Arrival
from interlock.monitor.tracker import TuiTrackerSession, Verdict

# The event loop comes to the pipe, then reads it, then runs the task that waits for its lines.
_TURNS_TO_READ: Final = 3


@dataclass(frozen=True, slots=True)
class LiveVerdict:
    """A verdict, and what of the pane it rests on; None where it was the clock, or something that was told."""

    pane_id: str
    verdict: Verdict
    cause: WatchEvent | None


Told: TypeAlias = Callable[[TuiTrackerSession, float], Verdict]
"""Something that a pane does not show, as the call that takes it in: a submit, a claim, a channel that opened."""


class PaneTracker:
    """Panes of one server, tracked under one budget of captures. Iterate over it inside `async with`.

    It ends when no pane is left. An error in the session of one pane ends the tracking of that pane: `on_failure` is
    told, and the others go on; without `on_failure` it is raised to whoever iterates. Times are those of the event
    loop's clock. Nobody else calls a session meanwhile: a deadline that such a call set would not be kept. A deadline
    does not overtake a capture of its pane that is on its way, and does not wait for those of other panes.
    """

    def __init__(
        self, policy: PacingPolicy | None = None, on_failure: Callable[[str, Exception], None] | None = None
    ) -> None:
        self._watch = PaneWatch(policy)
        self._on_failure = on_failure
        self._sessions: dict[str, TuiTrackerSession] = {}
        self._deadlines: dict[str, float] = {}
        self._latest: dict[str, float] = {}
        self._told: deque[tuple[str, Told]] = deque()
        self._verdicts: deque[LiveVerdict] = deque()
        self._wait: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        await self._watch.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        await self._watch.__aexit__(kind, error, trace)

    def add(self, pane: Pane, session: TuiTrackerSession) -> None:
        """Track a pane; its first verdict follows at once."""
        self._watch.add(pane.client, pane.pane_id)
        self._sessions[pane.pane_id] = session

    def remove(self, pane_id: str) -> None:
        """Track a pane no longer. A verdict that is on its way may still come."""
        self._watch.remove(pane_id)
        self._deadlines.pop(pane_id, None)
        self._latest.pop(pane_id, None)

    def tell(self, pane_id: str, told: Told) -> None:
        """Tell a pane's session something. It is taken in before anything that the pane shows later."""
        self._told.append((pane_id, told))
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(asyncio.get_running_loop().time())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveVerdict:
        while not self._verdicts:
            if self._told:
                self._take_in(*self._told.popleft())
                continue
            if self._watch.is_over:
                raise StopAsyncIteration
            due = min(self._due_times(), default=None)
            if due is not None and due <= asyncio.get_running_loop().time():
                await self._fire()
                continue
            try:
                async with asyncio.timeout_at(due) as self._wait:
                    self._see(await anext(self._watch))
            except TimeoutError:
                continue
            finally:
                self._wait = None
        return self._verdicts.popleft()

    def _due_times(self) -> Iterator[float]:
        return (at for pane_id, at in self._deadlines.items() if not self._watch.is_pending(pane_id))

    async def _fire(self) -> None:
        """Let deadlines come that are due now, of panes of which nothing is on its way. What tmux told until now is
        read first: where we had no processor for a while, it may tell of a change before the deadline."""
        now = asyncio.get_running_loop().time()
        for _ in range(_TURNS_TO_READ):
            await asyncio.sleep(0)
        for pane_id in [pane_id for pane_id, at in self._deadlines.items() if at <= now]:
            if not self._watch.is_pending(pane_id):
                self._judge(pane_id, lambda session: session.on_timer(now), None)

    def _take_in(self, pane_id: str, told: Told) -> None:
        now = asyncio.get_running_loop().time()
        self._judge(pane_id, lambda session: told(session, now), None)

    def _see(self, event: WatchEvent) -> None:
        now = asyncio.get_running_loop().time()
        for pane_id in panes_of(event):
            at = self._time_of(pane_id, event, now)
            self._judge(pane_id, partial(_seen, event=event, now=at), event)

    def _judge(
        self, pane_id: str, take_in: Callable[[TuiTrackerSession], Verdict | None], cause: WatchEvent | None
    ) -> None:
        """Have the session of a pane take something in. One that failed takes in nothing more."""
        session = self._sessions.get(pane_id)
        if session is None:
            return
        try:
            verdict = take_in(session)
        except Exception as error:
            if self._on_failure is None:
                raise
            self.remove(pane_id)
            del self._sessions[pane_id]
            self._on_failure(pane_id, error)
            return
        if verdict is not None:
            self._keep(LiveVerdict(pane_id, verdict, cause))

    def _time_of(self, pane_id: str, event: WatchEvent, now: float) -> float:
        """A capture that had to wait shows what stood there since the last change, unless something came in between."""
        if not isinstance(event, PaneSeen) or event.arrival is not Arrival.PUSHED:
            return now
        return max(event.since_seconds, self._latest.get(pane_id, event.since_seconds))

    def _keep(self, live: LiveVerdict) -> None:
        self._latest[live.pane_id] = live.verdict.at_seconds
        deadline = self._sessions[live.pane_id].deadline
        if deadline is None:
            self._deadlines.pop(live.pane_id, None)
        else:
            self._deadlines[live.pane_id] = deadline
        self._verdicts.append(live)


async def track_pane(pane: Pane, session: TuiTrackerSession) -> AsyncGenerator[LiveVerdict, None]:
    """Every verdict on one pane, from its first capture until the pane is gone or its server is.

    Close it (`aclosing`) to stop watching.
    """
    async with PaneTracker() as tracker:
        tracker.add(pane, session)
        async for live in tracker:
            yield live


def _seen(session: TuiTrackerSession, event: WatchEvent, now: float) -> Verdict | None:
    match event:
        case PaneSeen(capture) if capture.snapshot.is_dead:
            return None  # `PaneDied` follows, and knows how it ended
        case PaneSeen(capture, arrival):
            return session.on_snapshot(capture.snapshot, now, arrival)
        case PaneDied(exit_status=status, exit_signal=signal):
            return session.on_exit(now, status, signal)
        case PaneGone():
            return session.on_exit(now)
        case ChannelDown():
            return session.on_channel_down(now)
        case PaneChannelLost() | PaneMoved():
            return session.on_channel_down(now, is_lost=True)
        case _:
            return None
