"""What a caller iterates over: states, frames, lines of the board. Each is bounded, and gone when nobody holds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Self

from interlock.client.machine.catching_up import message_frame
from interlock.client.machine.frame_feed import FrameFeed, Hole
from interlock.client.machine.probe import Probe
from interlock.client.machine.state import SyncState, TaskState
from interlock.client.transport.api import Api
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import Message, TaskFrame, TaskSummary


class Wakeup:
    """Rings for one sleeper. Rung while nobody sleeps, it is heard by the next."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


Look = Callable[[], TaskState | None]
"""How a task stands; None once it is not followed any more."""

Trouble = Callable[[], InterlockError | None]
"""Why there will be no connection, if there will be none."""


def shown(state: TaskState) -> TaskState:
    """A state without what only the machine needs: what is under way, and when to look again."""
    return replace(
        state,
        check=None,
        follow_up=None,
        joining=None,
        early=(),
        probe=Probe(),
        generation=0,
        last_reason=None,
        synced_version=0,
    )


class ChangeFeed(AsyncIterator[TaskState]):
    """States of a task: the present one, then the newest each time that something changed. It ends with the handle."""

    def __init__(self, look: Look, bell: Wakeup) -> None:
        self._look = look
        self._bell = bell
        self._last: TaskState | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskState:
        while True:
            state = self._look()
            if state is None:
                raise StopAsyncIteration
            visible = shown(state)
            if visible != self._last:
                self._last = visible
                return state
            await self._bell.wait()


class Frames(AsyncIterator[TaskFrame]):
    """Frames of a task. It ends with the handle, and raises if the task cannot be followed."""

    def __init__(self, look: Look, trouble: Trouble, bell: Wakeup, feed: FrameFeed, api: Api) -> None:
        self._look = look
        self._trouble = trouble
        self._bell = bell
        self._feed = feed
        self._api = api
        self._older: list[TaskFrame] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskFrame:
        while True:
            if self._older:
                return self._older.pop()
            state = self._look()
            if state is None:
                raise StopAsyncIteration
            found = self._feed.next(state)
            if isinstance(found, Hole):
                older = await fill_hole(self._api, state.task_id, found)
                self._older = [message_frame(state, message) for message in reversed(older)]
            elif found is not None:
                return found
            else:
                refuse_if_lost(state, self._trouble())
                await self._bell.wait()


def refuse_if_lost(state: TaskState, trouble: InterlockError | None) -> None:
    """Raise where waiting any longer would be for nothing."""
    if state.sync is SyncState.ERROR:
        raise UsageError(f"task {state.task_id} cannot be followed: {state.problem}", remedy="fix it, and `refresh()`")
    if trouble is not None:
        raise trouble


async def fill_hole(api: Api, task_id: SessionId, hole: Hole) -> list[Message]:
    """The messages of a hole, oldest first, from the pages of the transcript."""
    pages: list[list[Message]] = []
    async for page in api.older_messages(task_id, hole.before):
        pages.append([message for message in page if message.message_id > hole.after])
        if len(pages[-1]) < len(page):
            break
    return [message for page in reversed(pages) for message in page]


class Lines(AsyncIterator[TaskSummary]):
    """Lines of the board: each task once, and then each that changed, the newest of each. It ends with the client."""

    def __init__(self, lines: dict[SessionId, TaskSummary], trouble: Trouble, bell: Wakeup) -> None:
        self._waiting = dict(lines)
        self._trouble = trouble
        self._bell = bell
        self.is_over = False

    def put(self, line: TaskSummary) -> None:
        if not self.is_over:
            self._waiting[line.task_id] = line
            self._bell.ring()

    def end(self) -> None:
        self.is_over = True
        self._waiting.clear()
        self._bell.ring()

    def wake(self) -> None:
        self._bell.ring()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskSummary:
        while True:
            if self._waiting:
                return self._waiting.pop(next(iter(self._waiting)))
            if self.is_over:
                raise StopAsyncIteration
            trouble = self._trouble()
            if trouble is not None:
                raise trouble
            await self._bell.wait()
