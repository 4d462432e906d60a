"""The stage of `interlock demo`: the agents of the cast, in sessions of a real server.

Law: every wait for something to happen is bounded, and says at its end what was last known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from interlock.cli.demo_cast import NETWORK, Part, driver_of, write_agent
from interlock.client.client import Client
from interlock.client.state import TaskState
from interlock.client.task import TaskHandle
from interlock.testing.scripted_agent import Gates

SCENE_SECONDS: Final = 40.0


class Stage:
    """The cast at work. `handles` are by title, in the order of their entry."""

    def __init__(self, client: Client, folder: Path, *, has_tmux: bool) -> None:
        self._client = client
        self._has_tmux = has_tmux
        self._folder = folder / "agents"
        self._folder.mkdir(mode=0o700)
        self._gates = Gates(self._folder)
        self.handles: dict[str, TaskHandle] = {}

    async def enter(self, part: Part) -> TaskHandle:
        """Open a session for a part, with its prompts, and follow it."""
        driver = driver_of(part, has_tmux=self._has_tmux)
        handle = await self._client.open_task(
            agent="scripted",
            driver=driver,
            argv=("sh", write_agent(part, driver, self._folder)),
            cwd=self._folder,
            title=part.title,
            policy=part.policy or None,
        )
        self.handles[part.title] = handle
        for prompt in filter(None, (part.prompt, part.next_prompt)):
            await handle.send(prompt)
        return handle

    async def until(self, part: Part, is_so: Callable[[TaskState], bool], seconds: float = SCENE_SECONDS) -> TaskState:
        """Wait until the server says so of a part. `TimeoutError` says how it stood last."""
        return await self.handles[part.title].wait(is_so, seconds)

    async def all_until(self, parts: Sequence[Part], is_so: Callable[[TaskState], bool]) -> None:
        await asyncio.gather(*(self.until(part, is_so) for part in parts))

    def open_network(self) -> None:
        """Let the agent go on that waits in silence."""
        self._gates.open(NETWORK)
