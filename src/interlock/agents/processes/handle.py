"""What agents in a child process have in common, whose observations a task of theirs puts into an outlet.

Laws: a task that makes observations and fails in a way that nothing provides for ends them with its error, whether or
not the process lives: nobody would read it any more, and a session would wait for it for ever.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine

from interlock.agents.observations import Observation
from interlock.agents.port import ProcessIdentity, StopReport
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.observation_queue import ObservationQueue
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
