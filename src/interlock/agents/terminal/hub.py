"""The watched panes of one tmux server: one connection a session, one budget of captures, one task.

Laws:
1. It runs while somebody watches, and holds nothing open otherwise.
2. Leaving ends no pane.
3. A watcher hears every verdict on its pane in order, and once that nobody will see the pane any more. One that fails
   over a verdict hears that of itself, and nobody else does. So is a pane whose tracker fails: the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interlock.agents.pane_tracker import LiveVerdict, PaneTracker, Told
from interlock.agents.tmux.client import TmuxClient
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.server import TmuxServer
from interlock.monitor.tracker import TuiTrackerSession

_logger: Final = logging.getLogger("interlock.agents")


@dataclass(frozen=True, slots=True)
class TerminalWatcher:
    """Who watches a pane. `on_failure`: we failed ourselves, and nothing will be seen any more."""

    on_verdict: Callable[[LiveVerdict], None]
    on_failure: Callable[[str], None]


class TerminalHub:
    """Join it with a pane, watch, and leave it again."""

    def __init__(self, server: TmuxServer) -> None:
        self.server = server
        self._clients: dict[str, TmuxClient] = {}
        self._users: set[str] = set()
        self._watchers: dict[str, TerminalWatcher] = {}
        self._tracker: PaneTracker | None = None
        self._pump: asyncio.Task[None] | None = None
        self._joining = asyncio.Lock()

    async def pane(self, pane_id: str, session_id: str, owner: str = "") -> Pane:
        """Reach a pane through the connection to its session, which is opened if need be. `leave` closes it."""
        self._users.add(pane_id)
        async with self._joining:
            client = self._clients.get(session_id)
            if client is None or client.is_lost:
                client = self._clients[session_id] = await TmuxClient.attach(self.server, session_id)
            return Pane(client, pane_id, owner)

    def watch(self, pane: Pane, session: TuiTrackerSession, watcher: TerminalWatcher) -> None:
        """Track a pane; its first verdict follows."""
        tracker = self._tracker
        if tracker is None:
            tracker = self._tracker = PaneTracker(on_failure=self._fail)
            tracker.add(pane, session)
            self._pump = asyncio.get_running_loop().create_task(self._run(tracker))
        else:
            tracker.add(pane, session)
        self._watchers[pane.pane_id] = watcher

    def tell(self, pane_id: str, told: Told) -> None:
        """Tell the session of a pane something. Nothing happens once its pane cannot be seen any more."""
        if self._tracker is not None:
            self._tracker.tell(pane_id, told)

    async def leave(self, pane_id: str) -> None:
        """Watch a pane no longer. The last to leave closes the connections. May be called twice."""
        self._users.discard(pane_id)
        self._watchers.pop(pane_id, None)
        if self._tracker is not None:
            self._tracker.remove(pane_id)
        async with self._joining:
            if not self._users:
                await self._close()

    async def _close(self) -> None:
        pump, clients = self._pump, list(self._clients.values())
        self._tracker, self._pump = None, None
        self._clients.clear()
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        for client in clients:
            await client.close()

    async def _run(self, tracker: PaneTracker) -> None:
        try:
            async with tracker:
                async for live in tracker:
                    self._tell_verdict(live)
                self._forget(tracker)  # at once: who comes while it closes needs a new one
        except Exception as error:
            _logger.error("watching the panes failed", exc_info=error)
            self._forget(tracker)
            for watcher in tuple(self._watchers.values()):
                watcher.on_failure(_words_of(error))

    def _tell_verdict(self, live: LiveVerdict) -> None:
        watcher = self._watchers.get(live.pane_id)
        if watcher is None:
            return
        try:
            watcher.on_verdict(live)
        except Exception as error:
            self._fail(live.pane_id, error)

    def _fail(self, pane_id: str, error: Exception) -> None:
        """One pane is watched no more; whoever watched it hears why."""
        _logger.error("watching pane %s failed", pane_id, exc_info=error)
        if (watcher := self._watchers.pop(pane_id, None)) is not None:
            watcher.on_failure(_words_of(error))

    def _forget(self, tracker: PaneTracker) -> None:
        if self._tracker is tracker:
            self._tracker = None


def _words_of(error: Exception) -> str:
    return f"watching failed: {type(error).__name__}: {error}"
