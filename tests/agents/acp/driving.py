"""A living agent with somebody who reads it, for tests of drivers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.agents.observations import Observation, TurnEnded
from interlock.agents.port import AgentHandle, Prompt
from interlock.vocabulary.ids import PromptId, TurnId


def prompt(text: str) -> Prompt:
    return Prompt(prompt_id=PromptId("p1"), turn_id=TurnId("t1"), text=text)


class Session:
    """A handle with somebody who reads it."""

    def __init__(self, handle: AgentHandle) -> None:
        self.handle = handle
        self.seen: list[Observation] = []
        self._changed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for seen in self.handle.observations():
            async with self._changed:
                self.seen.append(seen)
                self._changed.notify_all()

    async def until(self, kind: type[Observation]) -> None:
        """Wait until such an observation was made since the last prompt."""
        async with self._changed:
            await self._changed.wait_for(lambda: any(isinstance(seen, kind) for seen in self.seen))

    async def until_holds(self, holds: Callable[[list[Observation]], bool]) -> None:
        """Wait until what was seen since the last prompt satisfies `holds`."""
        async with self._changed:
            await self._changed.wait_for(lambda: holds(self.seen))

    async def turn(self, text: str) -> list[Observation]:
        """One prompt to its end; what was seen of it."""
        await self.begin(text)
        return await self.rest()

    async def begin(self, text: str) -> None:
        """Submit a prompt, and forget what was seen before."""
        self.seen.clear()
        await self.handle.submit(prompt(text))

    async def rest(self) -> list[Observation]:
        """Wait for the end of the turn; what was seen of it."""
        await self.until(TurnEnded)
        return list(self.seen)

    async def end(self) -> list[Observation]:
        await self.handle.stop()
        await self._reading
        return self.seen
