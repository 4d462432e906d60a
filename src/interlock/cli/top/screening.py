"""The terminal of the selected session, asked for while it is looked at. It draws nothing.

Laws:
1. It is asked for only while it is shown, twice a second, and told again only where it changed.
2. What could not be asked keeps the last picture, which is then not live, and grows old.
3. That there is no terminal is said by the server alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.cli.look.screen_lines import said_of
from interlock.cli.tables import Tone
from interlock.client.errors import Refusal
from interlock.client.task import TaskHandle
from interlock.projections.why import Explanation
from interlock.vocabulary.errors import InterlockError, Unreachable

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskScreenJson

EVERY_SECONDS: Final = 0.5
WHY_SECONDS: Final = 1.0


class EvidenceFeed:
    """Why one session stands as it does, asked for again when its log has grown, once a second at most."""

    def __init__(self, handle: TaskHandle, task_id: str, on_change: Callable[[], None]) -> None:
        self.task_id = task_id
        self.explanation: Explanation | None = None
        self.problem = ""
        self._handle = handle
        self._on_change = on_change
        self._asked_at: int | None = None

    async def follow(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            state = self._handle.state
            if state.version != self._asked_at:
                await self.look(state.version)
            await asyncio.sleep(WHY_SECONDS)

    async def look(self, version: int) -> None:
        """Ask once. What could not be asked keeps what was told last, and says so."""
        try:
            self.explanation, self.problem = await self._handle.why(), ""
            self._asked_at = version
        except InterlockError as trouble:
            self.problem = str(trouble)
        self._on_change()


class ScreenFeed:
    """The picture of one session's terminal. `problem`: why there is none."""

    def __init__(
        self, handle: TaskHandle, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.screen: TaskScreenJson | None = None
        self.problem = ""
        self._away = ""
        self._handle = handle
        self._on_change = on_change
        self._clock = clock
        self._told_at = 0.0

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        """Ask once."""
        known = self.screen
        try:
            told: TaskScreenJson = msgspec.to_builtins(await self._handle.screen(str(known["digest"]) if known else ""))
        except Unreachable as away:
            self._away = str(away)
        except Refusal as refused:
            self.screen, self._away, self.problem = None, "", refused.problem.detail or str(refused)
        except InterlockError as failed:
            self._away = str(failed)
        else:
            self._take(told, known)
        self._on_change()

    def _take(self, told: TaskScreenJson, known: TaskScreenJson | None) -> None:
        self._away, self.problem, self._told_at = "", "", self._clock()
        if told.get("is_unchanged") and known is not None:
            told = {**told, "rows": known.get("rows", ()), "paint": known.get("paint", ())}
        self.screen = told

    def said(self, *, is_connected: bool) -> tuple[str, Tone]:
        """How far what is shown is to be trusted."""
        if self.screen is None:
            return (self._away or self.problem or "looking", Tone.DOUBTFUL if self._away else Tone.FAINT)
        more = self._clock() - self._told_at
        if self._away or not is_connected:
            why = self._away or "the server is not heard"
            screen: TaskScreenJson = {**self.screen, "is_live": False, "problem": why}
            return said_of(screen, more), Tone.DOUBTFUL
        return said_of(self.screen, more), Tone.FAINT if self.screen["is_live"] else Tone.DOUBTFUL
