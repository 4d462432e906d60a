"""A tmux server of a test's own, and waiting for what a pane shows."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.tmux.capture import PaneCapture
from interlock.agents.tmux.client import TmuxClient, Wake
from interlock.agents.tmux.panes import OWN_SESSION, Pane, start_pane
from interlock.agents.tmux.server import TmuxServer
from interlock.agents.tmux.watcher import PaneDied, PaneSeen, PaneWatch, WatchEvent

PYTHON: Final = (sys.executable, "-I", "-S", "-c")
FOREVER: Final = ("sh", "-c", "exec sleep 600")


@asynccontextmanager
async def private_server(*, is_own: bool = True) -> AsyncIterator[TmuxServer]:
    """A server behind a socket of its own. It is ended here, whatever happened."""
    if shutil.which("tmux") is None:
        pytest.fail("these tests drive tmux: install tmux 3.2 or newer")
    folder = tempfile.mkdtemp(prefix="il-")
    server = TmuxServer(f"{folder}/tmux", is_own=is_own)
    try:
        yield server
    finally:
        await server.kill()
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Stage:
    """A server with one pane and a client of its session."""

    server: TmuxServer
    client: TmuxClient
    pane: Pane

    async def start(self, *argv: str, columns: int = 80, rows: int = 24) -> Pane:
        info = await start_pane(self.server, argv, columns=columns, rows=rows)
        return Pane(self.client, info.pane_id)


@asynccontextmanager
async def stage(*argv: str, columns: int = 80, rows: int = 24, cwd: Path | None = None) -> AsyncIterator[Stage]:
    async with private_server() as server:
        where = str(cwd) if cwd else None
        info = await start_pane(server, argv or FOREVER, columns=columns, rows=rows, cwd=where)
        async with await TmuxClient.attach(server, OWN_SESSION) as client:
            yield Stage(server, client, Pane(client, info.pane_id))


def control_pid(client: TmuxClient) -> int:
    """The process that is the client's end of the pipe."""
    assert client._link is not None
    assert client._link.pid is not None
    return client._link.pid


async def watch_panes(client: TmuxClient, pane_ids: Iterable[str]) -> AsyncGenerator[WatchEvent, None]:
    """The events of panes of one session, until none of them is left."""
    async with PaneWatch() as watch:
        for pane_id in pane_ids:
            watch.add(client, pane_id)
        while not watch.is_over:
            yield await anext(watch)


class Wakes:
    """Remembers how a pane's watcher was called, and waits for a call."""

    def __init__(self, used: TmuxClient, pane_id: str) -> None:
        self.seen: list[Wake] = []
        self._news = asyncio.Event()
        self.stop: Callable[[], None] = used.watch(pane_id, self._woken)

    def _woken(self, wake: Wake) -> None:
        self.seen.append(wake)
        self._news.set()

    async def until(self, wake: Wake) -> None:
        async with asyncio.timeout(100):
            while wake not in self.seen:
                self._news.clear()
                await self._news.wait()


async def shows(pane: Pane, condition: str | Callable[[PaneCapture], bool], within_seconds: float = 20) -> PaneCapture:
    """The first capture that meets the condition (a text: it is on the screen). Woken by the pane, never polled."""
    news = asyncio.Event()
    stop = pane.client.watch(pane.pane_id, lambda _: news.set())
    is_met = condition if callable(condition) else lambda capture: str(condition) in text_of(capture)
    try:
        async with asyncio.timeout(within_seconds):
            while True:
                news.clear()
                capture = await pane.capture()
                if is_met(capture):
                    return capture
                await news.wait()
    finally:
        stop()


async def ends(pane: Pane) -> PaneCapture:
    """The last screen of a program, once it is known how it ended."""
    async with PaneWatch() as watch:
        watch.add(pane.client, pane.pane_id)
        *_, last, _ = await until(watch, lambda event: isinstance(event, PaneDied))
        assert isinstance(last, PaneSeen)
        return last.capture


def text_of(capture: PaneCapture) -> str:
    return "\n".join(row.text for row in capture.snapshot.rows)


async def until(events: AsyncIterator[WatchEvent], is_met: Callable[[WatchEvent], bool]) -> list[WatchEvent]:
    """The events up to the first that meets the condition."""
    seen = []
    async with asyncio.timeout(100):
        async for event in events:
            seen.append(event)
            if is_met(event):
                return seen
    raise AssertionError(f"the events ended without it: {seen}")
