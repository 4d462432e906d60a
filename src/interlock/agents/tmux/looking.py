"""Looking at a pane when it changes, until something is seen or the time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from interlock.agents.tmux.capture import PaneCapture
from interlock.agents.tmux.client import Wake
from interlock.agents.tmux.panes import Pane
from interlock.screen.assessment import BusinessState, SurfaceAssessment
from interlock.screen.snapshot import Snapshot

_LOOK_GAP_SECONDS: Final = 0.02


class PaneReading(Protocol):
    """What a caller's reader makes of a snapshot. `draft` is the text in the composer; None: it cannot tell."""

    @property
    def assessment(self) -> SurfaceAssessment: ...
    @property
    def draft(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class PaneLook:
    """One capture, and what the caller's reader makes of it."""

    capture: PaneCapture
    reading: PaneReading

    @property
    def state(self) -> BusinessState:
        return self.reading.assessment.business_state

    @property
    def is_busy(self) -> bool:
        return self.state is BusinessState.WORKING or self.is_blocked

    @property
    def is_blocked(self) -> bool:
        return self.reading.assessment.operator_blocked

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(row.text for row in self.capture.snapshot.rows)


class Eye:
    """Watches one pane for as long as it is open. Use it as a context manager."""

    def __init__(self, pane: Pane, read: Callable[[Snapshot], PaneReading], news: asyncio.Event | None = None) -> None:
        """`news` is set by a caller that wants another look although the pane did not change."""
        self._pane, self._read = pane, read
        self._news = asyncio.Event() if news is None else news
        self._stop = pane.client.watch(pane.pane_id, self._woken)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._stop()

    def _woken(self, wake: Wake) -> None:
        self._news.set()

    async def look(self) -> PaneLook:
        self._news.clear()
        capture = await self._pane.capture()
        return PaneLook(capture, self._read(capture.snapshot))

    async def until(
        self,
        is_met: Callable[[PaneLook], bool],
        within_seconds: float,
        settled: Callable[[PaneLook], bool] = lambda _: False,
        settled_after_seconds: float = 0.0,
    ) -> PaneLook:
        """The first look that meets the condition, else the last before the deadline.

        A look for which `settled` holds also ends it, once nothing has changed for that time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_seconds
        while True:
            look = await self.look()
            wait_until = min(deadline, loop.time() + settled_after_seconds) if settled(look) else deadline
            if is_met(look):
                return look
            try:
                async with asyncio.timeout_at(wait_until):
                    await self._news.wait()
                    await asyncio.sleep(_LOOK_GAP_SECONDS)
            except TimeoutError:
                return await self.look() if self._news.is_set() else look
