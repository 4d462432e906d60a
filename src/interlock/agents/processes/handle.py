"""What agents in a child process have in common, whose observations a task of theirs puts into an outlet.

Laws: a task that makes observations and fails in a way that nothing provides for ends them with its error, whether or
not the process lives: nobody would read it any more, and a session would wait for it for ever.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Final

from interlock.agents.observations import Observation
from interlock.agents.port import ProcessIdentity, StopReport
from interlock.agents.processes.child import ChildProcess
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId


class ChildHandle(ABC):
    """The part of an `AgentHandle` that is the same for all of them. Such an agent cannot live without our pipes."""

    where: Json = None

    def __init__(self, child: ChildProcess, spawn_id: SpawnId, argv: tuple[str, ...]) -> None:
        self.spawn_id, self.argv = spawn_id, argv
        self._child = child
        self._outlet = ObservationQueue()
        self._stopping: asyncio.Task[StopReport] | None = None

    @property
    def process(self) -> ProcessIdentity:
        return self._child.identity

    def observations(self) -> AsyncIterator[Observation]:
        return self._outlet.read()

    async def stop(self) -> StopReport:
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        return await asyncio.shield(self._stopping)

    async def release(self) -> None:
        await self.stop()

    def _start_reader(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """A task that makes observations."""
        return asyncio.create_task(self._made_by(work))

    async def _made_by(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as error:  # raised where the observations are read
            self._outlet.fail(error)

    async def _stop(self) -> StopReport:
        self._outlet.open_wide()
        report = await self._child.stop()
        await self._told_all()
        return report

    @abstractmethod
    async def _told_all(self) -> None:
        """Wait until the outlet has the last of what there is to tell."""


# Observations between the task that makes them and the one that reads them.

MAX_WAITING: Final = 1024


class ObservationQueue:
    """A bounded line of observations. A maker waits when it is full; the last ones are always taken.

    After `open_wide` nobody waits any more: the agent is being stopped, and what it still says is little. An error of
    the maker (`fail`) is raised where the observations are read, behind those that came before it.
    """

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._limit = limit
        self._waiting: deque[Observation] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._is_wide = False
        self._is_closed = False
        self._failure: Exception | None = None

    async def put(self, seen: Iterable[Observation]) -> None:
        """Add observations, once there is room. After the end nothing is added."""
        while len(self._waiting) >= self._limit and not self._is_wide:
            self._room.clear()
            await self._room.wait()
        if not self._is_closed:
            self._waiting.extend(seen)
            self._news.set()

    def open_wide(self) -> None:
        self._is_wide = True
        self._room.set()

    def close(self, last: Iterable[Observation]) -> None:
        """Add the last observations. A second call adds nothing."""
        if not self._is_closed:
            self._waiting.extend(last)
            self._is_closed = True
            self.open_wide()
            self._news.set()

    def fail(self, error: Exception) -> None:
        """End with an error: nobody will make more of them. After the end this does nothing."""
        if not self._is_closed:
            self._failure = error
            self.close(())

    async def read(self) -> AsyncIterator[Observation]:
        """Everything, in order, until the outlet is closed. Raises what the maker failed on."""
        while True:
            while self._waiting:
                seen = self._waiting.popleft()
                self._room.set()
                yield seen
            if self._is_closed:
                if self._failure is not None:
                    raise self._failure
                return
            self._news.clear()
            await self._news.wait()
