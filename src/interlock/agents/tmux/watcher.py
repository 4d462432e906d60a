"""Many panes watched at once: what each shows after every change, and what became of it.

Laws:
1. Nothing is polled. While nothing changes, no command is sent and no timer runs.
2. The consumer sets the pace: captures are taken while it waits for the next event, so what waits for it is bounded.
3. A pane that is not found is `PaneGone`; one that cannot be asked about is not: then the channel is down, or lost.
4. The first capture, and each first one after the channel was down, arrives as `reconnected`; all others as `pushed`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias, assert_never

from interlock.agents.tmux.capture import PaneCapture, capture_pane
from interlock.agents.tmux.client import TmuxClient, Wake
from interlock.agents.tmux.pacing import Pacer, PacingPolicy
from interlock.agents.tmux.server import Absent
from interlock.monitor.observation import Arrival
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError

_LOOKS_FOR_STATUS: Final = 20


@dataclass(frozen=True, slots=True)
class PaneSeen:
    """What a pane shows, and since when: at `since_seconds`, of the event loop's clock, it was told to have changed for
    the last time before this capture began."""

    capture: PaneCapture
    arrival: Arrival
    since_seconds: float


@dataclass(frozen=True, slots=True)
class PaneDied:
    """The program of a pane has ended and the pane remains. Told once for each pid; `PaneSeen` comes before it.

    Without status and signal it is not known how: tmux lost the terminal and was not told of an end in time.
    """

    pane_id: str
    pid: int
    exit_status: int | None
    exit_signal: int | None


@dataclass(frozen=True, slots=True)
class PaneGone:
    """tmux has no such pane any more; it is no longer watched. How its program ended is not known."""

    pane_id: str


@dataclass(frozen=True, slots=True)
class PaneMoved:
    """The pane lives in another session now; it is no longer watched. Watch it with a client of that session."""

    pane_id: str
    session_id: str


@dataclass(frozen=True, slots=True)
class ChannelDown:
    """Nothing is known of these panes until `ChannelUp`."""

    pane_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ChannelUp:
    pane_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PaneChannelLost:
    """The session or its server is gone. Nothing is known of these panes, and they are no longer watched."""

    pane_ids: tuple[str, ...]
    reason: str


WatchEvent: TypeAlias = PaneSeen | PaneDied | PaneGone | PaneMoved | ChannelDown | ChannelUp | PaneChannelLost


def panes_of(event: WatchEvent) -> tuple[str, ...]:
    """The panes that an event tells of."""
    match event:
        case PaneSeen(capture):
            return (capture.pane_id,)
        case PaneDied(pane_id) | PaneGone(pane_id) | PaneMoved(pane_id):
            return (pane_id,)
        case ChannelDown(pane_ids) | ChannelUp(pane_ids) | PaneChannelLost(pane_ids):
            return pane_ids
        case _:
            assert_never(event)


@dataclass(slots=True)
class _Watched:
    client: TmuxClient
    stop: Callable[[], None]
    arrival: Arrival = Arrival.RECONNECTED
    dead_pid: int | None = None
    looks_for_status: int = 0


class PaneWatch:
    """Watches panes of any number of clients under one budget. Iterate over it inside `async with`."""

    def __init__(self, policy: PacingPolicy | None = None) -> None:
        self._pacer = Pacer(policy)
        self._panes: dict[str, _Watched] = {}
        self._events: deque[WatchEvent] = deque()
        self._untold: Counter[str] = Counter()
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._checking: set[TmuxClient] = set()
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for pane_id in tuple(self._panes):
            self.remove(pane_id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_over(self) -> bool:
        """No pane is watched and no event waits."""
        return not self._panes and not self._events

    def is_pending(self, pane_id: str) -> bool:
        """Something happened in the pane that was not told yet: what was seen last may be old."""
        return bool(self._untold[pane_id]) or self._pacer.is_pending(pane_id)

    def add(self, client: TmuxClient, pane_id: str) -> None:
        """Watch a pane, which must be in the client's session; its first capture follows at once."""
        if pane_id in self._panes:
            raise UsageError(f"pane {pane_id} is watched already", remedy="use one PaneWatch for each server")
        self._panes[pane_id] = _Watched(client, client.watch(pane_id, lambda wake: self._woken(client, pane_id, wake)))
        self._changed(pane_id)

    def remove(self, pane_id: str) -> None:
        """Watch it no longer."""
        if (watched := self._panes.pop(pane_id, None)) is not None:
            watched.stop()
            self._pacer.forget(pane_id)
            self._untold = +self._untold

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        loop = asyncio.get_running_loop()
        while not self._events:
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            for pane_id in self._pacer.due(loop.time()):
                self._start(self._capture(pane_id, self._panes[pane_id], self._since(pane_id)))
            next_at = self._pacer.next_at()
            timer = loop.call_at(next_at, self._news.set) if next_at is not None else None
            try:
                await self._news.wait()
            finally:
                if timer is not None:
                    timer.cancel()
        event = self._events.popleft()
        self._untold.subtract(panes_of(event))
        return event

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A look that fails in a way that nothing provides for is raised where events are read: its pane would only
        seem to stand still."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failure = self._failure or error
            self._news.set()

    def _tell(self, event: WatchEvent) -> None:
        self._events.append(event)
        self._untold.update(panes_of(event))
        self._news.set()

    def _changed(self, pane_id: str) -> None:
        if self._pacer.changed(pane_id, asyncio.get_running_loop().time()):
            self._news.set()

    def _since(self, pane_id: str) -> float:
        """When the pane changed last. While it is paused nobody tells: then its screen is only as old as the look."""
        is_told = not self._panes[pane_id].client.is_paused(pane_id)
        return self._pacer.changed_at(pane_id) if is_told else asyncio.get_running_loop().time()

    async def _capture(self, pane_id: str, watched: _Watched, since: float) -> None:
        try:
            capture = await capture_pane(watched.client, pane_id)
        except Absent:
            if self._panes.get(pane_id) is watched:
                self.remove(pane_id)
                self._tell(PaneGone(pane_id))
        except (Unreachable, PeerFault):
            pass  # the link is over; the client tells what becomes of the channel
        else:
            if self._panes.get(pane_id) is watched:
                self._seen(watched, capture, since)
        finally:
            if self._panes.get(pane_id) is watched:
                self._pacer.finished(pane_id)
            self._news.set()

    def _seen(self, watched: _Watched, capture: PaneCapture, since_seconds: float) -> None:
        self._tell(PaneSeen(capture, watched.arrival, since_seconds))
        watched.arrival = Arrival.PUSHED
        if not capture.snapshot.is_dead:
            watched.dead_pid, watched.looks_for_status = None, 0
        elif watched.dead_pid == capture.pid:
            return
        elif not capture.has_exit and watched.looks_for_status < _LOOKS_FOR_STATUS:
            # The terminal closed, and tmux has not heard yet how the process ended.
            watched.looks_for_status += 1
            watched.client.remind_of_children()
            self._changed(capture.pane_id)
        else:
            watched.dead_pid = capture.pid
            self._tell(PaneDied(capture.pane_id, capture.pid, capture.exit_status, capture.exit_signal))

    def _woken(self, client: TmuxClient, pane_id: str, wake: Wake) -> None:
        match wake:
            case Wake.OUTPUT | Wake.STATE:
                self._changed(pane_id)
            case Wake.PLACE:
                self._changed(pane_id)
                if client not in self._checking:
                    self._checking.add(client)
                    self._start(self._check_places(client))
            case Wake.DOWN | Wake.UP | Wake.LOST:
                # The client calls once for each pane; the first of them speaks for all.
                if pane_id == next(iter(self._of(client))):
                    self._channel(client, wake)

    def _of(self, client: TmuxClient) -> tuple[str, ...]:
        return tuple(pane_id for pane_id, watched in self._panes.items() if watched.client is client)

    def _channel(self, client: TmuxClient, wake: Wake) -> None:
        pane_ids = self._of(client)
        if wake is Wake.UP:
            self._tell(ChannelUp(pane_ids))
            for pane_id in pane_ids:
                self._panes[pane_id].arrival = Arrival.RECONNECTED
                self._changed(pane_id)
        elif wake is Wake.DOWN:
            self._tell(ChannelDown(pane_ids, client.why_down))
        else:
            for pane_id in pane_ids:
                self.remove(pane_id)
            self._tell(PaneChannelLost(pane_ids, client.why_down))

    async def _check_places(self, client: TmuxClient) -> None:
        """A pane may have left the session, which no capture of it shows."""
        try:
            self._checking.discard(client)
            here = (await client.command("list-panes", "-s", "-t", client.session_id, "-F", "#{pane_id}")).split()
            for pane_id in set(self._of(client)) - set(here):
                place = await client.command("display-message", "-p", "-t", pane_id, "#{pane_id} #{session_id}")
                if pane_id in self._panes:
                    self.remove(pane_id)
                    session_id = place.partition(" ")[2]
                    self._tell(PaneMoved(pane_id, session_id) if session_id else PaneGone(pane_id))
        except (Unreachable, PeerFault):
            return  # the client tells what becomes of the channel
