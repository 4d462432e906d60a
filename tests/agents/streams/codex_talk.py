"""Listening to an agent handle in a test: everything that it said, and a wait for the next thing of a kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from interlock.agents.observations import Exited, Observation, TurnEnded
from interlock.agents.port import AgentHandle, Prompt
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.ids import PromptId, TurnId

LISTEN_SECONDS: Final = 100.0
Seen = TypeVar("Seen", bound=Observation)


class Talk:
    """What a handle says, heard by one task. `until` looks only at what came after the last find."""

    def __init__(self, agent: AgentHandle) -> None:
        self.agent = agent
        self.heard: list[Observation] = []
        self._looked = 0
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for seen in self.agent.observations():
            self.heard.append(seen)
            self._news.set()

    @staticmethod
    def prompt(text: str) -> Prompt:
        return Prompt(prompt_id=PromptId("p1"), turn_id=TurnId("t1"), text=text)

    async def say(self, text: str) -> DeliveryStage:
        return await self.agent.submit(self.prompt(text))

    async def until(self, kind: type[Seen], holds: Callable[[Seen], bool] = lambda _: True) -> Seen:
        """The next observation of a kind. AssertionError after the deadline, with all that was heard."""
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                while True:
                    while self._looked < len(self.heard):
                        seen = self.heard[self._looked]
                        self._looked += 1
                        if isinstance(seen, kind) and holds(seen):
                            return seen
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            heard = "\n".join(str(one)[:300] for one in self.heard)
            raise AssertionError(f"no {kind.__name__} was heard, but:\n{heard}") from None

    async def turn(self, text: str) -> TurnEnded:
        """Say it, and wait for the end of the turn."""
        await self.say(text)
        return await self.until(TurnEnded)

    async def over(self) -> Exited:
        """Wait for the end of the agent, which is the last thing that is heard."""
        ended = await self.until(Exited)
        async with asyncio.timeout(LISTEN_SECONDS):
            await self._task
        assert self.heard[-1] is ended
        return ended


@asynccontextmanager
async def listening(agent: AgentHandle) -> AsyncIterator[Talk]:
    """Listen to an agent, and stop it in the end; then its last word must have been heard."""
    talk = Talk(agent)
    try:
        yield talk
    finally:
        await agent.stop()
    async with asyncio.timeout(LISTEN_SECONDS):
        await talk._task
    assert isinstance(talk.heard[-1], Exited)
