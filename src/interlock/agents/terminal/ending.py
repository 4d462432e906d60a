"""How the end of an agent in a terminal is noticed: by its process, by its shim and by its pane, each for itself.

Laws:
1. An end needs the process itself to be gone, by number and start time. A dead pane is a reason to look, not proof.
2. The first sign starts a short wait for the others: together they tell how it ended.
3. A process that lives on without its terminal is said to be out of sight, and is waited for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from interlock.agents.observations import Exited
from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.identity import is_alive
from interlock.agents.terminal.listening import ShimChannel
from interlock.agents.tmux.watcher import PaneDied, PaneGone
from interlock.log.host import host
from interlock.vocabulary.errors import Unreachable

_OTHER_SIGNS_WITHIN_SECONDS: Final = 2.0
_LOOK_EVERY_SECONDS: Final = 0.5


async def process_gone(process: ProcessIdentity) -> None:
    """Wait until that very process has ended."""
    descriptor = host().hold(process.pid)
    if descriptor is None:
        while _may_live(process):  # noqa: ASYNC110 - where the system does not tell, somebody has to look
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
        return
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, gone.set)
        if _may_live(process):  # asked once the descriptor is open: from here on the number cannot change its owner
            await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _may_live(process: ProcessIdentity) -> bool:
    """Whether it lives, as far as the system lets us see: what is hidden is not taken for gone."""
    try:
        return is_alive(process)
    except Unreachable:
        return True


class EndWatch:
    """Waits for the end of one agent. `ear` is None where no shim tells."""

    def __init__(
        self, process: ProcessIdentity, ear: ShimChannel | None, on_out_of_sight: Callable[[str], None]
    ) -> None:
        self._process, self._ear, self._on_out_of_sight = process, ear, on_out_of_sight
        self._pane: asyncio.Future[PaneDied | PaneGone] = asyncio.get_running_loop().create_future()

    def pane_ended(self, event: PaneDied | PaneGone) -> None:
        if not self._pane.done():
            self._pane.set_result(event)

    async def ended(self) -> Exited:
        """Wait for the end and say how it went, as far as anybody saw."""
        gone = asyncio.ensure_future(process_gone(self._process))
        signs: list[asyncio.Future[object]] = [gone, self._pane]  # type: ignore[list-item]
        if self._ear is not None:
            signs.append(self._ear.ended)  # type: ignore[arg-type]
        try:
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(signs, timeout=_OTHER_SIGNS_WITHIN_SECONDS)
            if not gone.done():
                self._on_out_of_sight(f"its terminal is gone, and process {self._process.pid} lives on")
                await gone
            return self._how()
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    def _how(self) -> Exited:
        ear = self._ear
        if ear is not None and ear.ended.done():
            told = ear.ended.result()
            return Exited(code=told.code, signal=told.signal)
        # A shim that was killed itself says nothing about its program.
        if self._pane.done() and not (ear is not None and ear.was_cut):
            event = self._pane.result()
            if isinstance(event, PaneDied):
                return Exited(code=event.exit_status, signal=event.exit_signal)
        return Exited()
