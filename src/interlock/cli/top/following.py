"""What the board knows of the server: its lines, and the selected session. It draws nothing.

Laws:
1. That there is no session is known only from a whole list that said so; before that, nothing is known.
2. Each connection begins with a whole list: what it does not name is gone. Of two lines the higher version holds.
3. A flood costs what a redraw costs: states are read at most once a frame, and the newest one.
4. Older messages that do not join what is here any more are let go, and asked for again.
5. Whether the server records what happens is asked for again and again: if it does not, no news is no proof of rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.client.client import Client
from interlock.client.machine.state import TaskState
from interlock.client.task import TaskHandle
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.wire.frames import Message, TaskSummary

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskSummaryJson

FRAME_SECONDS: Final = 1 / 15
RETRY_SECONDS: Final = 3.0
LOG_SECONDS: Final = 5.0
PAGE: Final = 200
_PAGES_BACK: Final = 50


class Sessions:
    """Every session, as the board says. `lost_at`: since when nothing is heard; `log_problem`: why nothing is recorded;
    `changes` counts what came."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._versions: dict[str, int] = {}
        self.bodies: dict[str, TaskSummaryJson] = {}
        self.is_connected = False
        self.has_list = False
        self.lost_at: datetime | None = None
        self.problem = ""
        self.log_problem = ""
        self.changes = 0
        self._heard: set[str] = set()
        self._wake = asyncio.Event()

    def look(self, now: datetime) -> bool:
        """Note whether the connection came or went. True: something changed."""
        is_connected = self._client.is_connected
        if is_connected == self.is_connected:
            return False
        self.is_connected = is_connected
        self.lost_at = None if is_connected else now
        if is_connected:
            self._heard.clear()
            self._wake.set()
        return True

    def try_again(self) -> None:
        """Whatever was in the way may be gone."""
        self._client.refresh()
        self._wake.set()

    async def follow(self) -> None:
        """Take in the lines of the board, for ever. What only a person can mend is told and tried again."""
        lines = self._client.board()
        while True:
            try:
                async for line in lines:
                    self._take(line)
                return
            except InterlockError as trouble:
                self._say(str(trouble))
                await asyncio.sleep(RETRY_SECONDS)
                self._client.refresh()

    async def list_all(self) -> None:
        """Read the whole list after each connection, and when asked to, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                known = await self._client.tasks()
            except InterlockError as trouble:
                self._say(str(trouble))
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()
                continue
            self._settle(known)

    async def watch_log(self) -> None:
        """Ask whether the server can write its log, for ever. That it cannot be asked is told elsewhere."""
        while True:
            with suppress(InterlockError):
                found = (await self._client.server()).log_problem
                self.changes += found != self.log_problem
                self.log_problem = found
            await asyncio.sleep(LOG_SECONDS)

    def _settle(self, known: tuple[TaskSummary, ...]) -> None:
        named = {str(line.task_id) for line in known} | self._heard
        for task_id in self.bodies.keys() - named:
            del self.bodies[task_id], self._versions[task_id]
        self.has_list, self.problem = True, ""
        self.changes += 1
        for line in known:
            self._take(line)

    def _take(self, line: TaskSummary) -> None:
        task_id = str(line.task_id)
        self._heard.add(task_id)
        if line.version >= self._versions.get(task_id, 0):
            self._versions[task_id] = line.version
            self.bodies[task_id] = msgspec.to_builtins(line)
            self.problem = ""
            self.changes += 1

    def _say(self, problem: str) -> None:
        self.problem = problem
        self.changes += 1


class Selected:
    """The session that is looked at, and as much of its transcript as was asked for. Close it when another one is."""

    def __init__(self, client: Client, task_id: str, on_change: Callable[[], None]) -> None:
        self.task_id = task_id
        self.handle: TaskHandle = client.task(task_id)
        self.state: TaskState | None = None
        self.problem = ""
        self._on_change = on_change
        self._older: tuple[Message, ...] = ()
        self._base: int | None = None
        self._before: str | int | None = None
        self._is_loading = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is here of the transcript, oldest first."""
        return () if self.state is None else (*self._older, *self.state.transcript)

    @property
    def has_older(self) -> bool:
        """Whether the server has messages from before these."""
        return self._before is not None

    @property
    def is_loading(self) -> bool:
        """Whether a page of older messages is under way."""
        return self._is_loading

    async def follow(self) -> None:
        """Take in what happens to it, until it is closed."""
        async for state in self.handle.changes():
            self._take(state)
            await asyncio.sleep(FRAME_SECONDS)

    def _take(self, state: TaskState) -> None:
        if state.history_before != self._base:
            self._older, self._base = (), state.history_before
            self._before = state.history_before
        self.state = state
        self._on_change()

    async def load_older(self) -> None:
        """One more page of what came before. Asked for twice at a time, it is loaded once."""
        if self._is_loading or self._before is None:
            return
        self._is_loading = True
        base = self._base
        try:
            page = await self.handle.message_page(before=self._before, limit=PAGE)
        except InterlockError as trouble:
            self.problem = str(trouble)
            return
        finally:
            self._is_loading = False
        if base == self._base:
            is_more = page.next is not None and page.next != str(self._before) and bool(page.items)
            self._older, self._before = (*page.items, *self._older), page.next if is_more else None
            self._on_change()

    def close(self) -> None:
        """Follow it no longer."""
        self.handle.close()


class WantedPlace:
    """A message of a session, by its event, which may be in pages that are not here yet."""

    def __init__(self, task_id: str, seq: int) -> None:
        self.task_id = task_id
        self.seq = seq
        self._pages = 0

    def is_reached(self, chosen: Selected) -> bool:
        """Whether what is here reaches back to it, or no more pages are to be read for it."""
        self._pages += not chosen.is_loading
        is_here = any(one.message_id <= self.seq for one in chosen.messages if one.message_id)
        return is_here or not chosen.has_older or self._pages > _PAGES_BACK
