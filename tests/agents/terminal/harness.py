"""A terminal driver with a server and folders of its own, and reading what an agent does until something is seen."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import pytest

from interlock.agents.observations import Observation, StandingSeen
from interlock.agents.port import AgentSpec, Prompt
from interlock.agents.processes.stopping import StopPolicy
from interlock.agents.profiles import builtin_profiles
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.terminal.handle import TerminalHandle, TerminalPolicy
from interlock.agents.terminal.launch import read_where
from interlock.agents.tmux.panes import list_panes
from interlock.agents.tmux.server import Absent, NoServer, TmuxServer
from interlock.vocabulary.ids import PromptId, SpawnId, TurnId

T = TypeVar("T")
SCRIPTED: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")
WAIT_SECONDS: Final = 100.0
QUICK: Final = TerminalPolicy(stopping=StopPolicy(interrupt_seconds=1, terminate_seconds=2, kill_seconds=2))


def new_spawn() -> SpawnId:
    """One that no other test has: a stop ends every process that carries its id."""
    return SpawnId(f"spn_{secrets.token_hex(8)}")


def scripted(**environment: str) -> AgentSpec:
    return AgentSpec(agent="scripted", driver="terminal", argv=SCRIPTED, environment=environment)


def prompt(text: str, turn_id: str = "trn_1") -> Prompt:
    return Prompt(prompt_id=PromptId("prm_1"), turn_id=TurnId(turn_id), text=text)


@dataclass
class Seen:
    """A handle, and all that it told so far. `until` goes forward: each observation is looked at once."""

    handle: TerminalHandle
    all: list[Observation] = field(default_factory=list)
    _at: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    is_over: bool = False

    async def read(self) -> None:
        async for one in self.handle.observations():
            async with self._news:
                self.all.append(one)
                self._news.notify_all()
        async with self._news:
            self.is_over = True
            self._news.notify_all()

    async def until(
        self, kind: type[T], holds: Callable[[T], bool] = lambda _: True, within_seconds: float = WAIT_SECONDS
    ) -> T:
        try:
            async with asyncio.timeout(within_seconds), self._news:
                while True:
                    while self._at < len(self.all):
                        self._at += 1
                        one = self.all[self._at - 1]
                        if isinstance(one, kind) and holds(one):
                            return one
                    if self.is_over:
                        break
                    await self._news.wait()
        except TimeoutError:
            pass
        raise AssertionError(f"no such {kind.__name__} in:\n" + "\n".join(map(describe, self.all)))

    async def end(self) -> None:
        """Wait until the observations are over."""
        async with asyncio.timeout(WAIT_SECONDS), self._news:
            await self._news.wait_for(lambda: self.is_over)

    def of(self, kind: type[T]) -> list[T]:
        return [one for one in self.all if isinstance(one, kind)]


def describe(one: Observation) -> str:
    if isinstance(one, StandingSeen):
        return f"StandingSeen({one.standing.activity}/{one.standing.attention} by {one.standing.rung})"
    return repr(one)[:300]


@asynccontextmanager
async def reading(handle: TerminalHandle) -> AsyncIterator[Seen]:
    seen = Seen(handle)
    task = asyncio.create_task(seen.read())
    try:
        yield seen
    except BaseException as error:
        error.add_note("\n".join(map(describe, seen.all)))
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def driving(policy: TerminalPolicy = QUICK) -> AsyncIterator[TerminalDriver]:
    """A driver whose tmux server and folder are gone afterwards, with everything in them."""
    if shutil.which("tmux") is None:
        pytest.fail("these tests drive tmux: install tmux 3.2 or newer")
    folder = Path(tempfile.mkdtemp(prefix="il-"))
    server = TmuxServer.own(f"{folder}/tmux")
    try:
        yield TerminalDriver(folder / "run", server, policy, builtin_profiles())
    finally:
        await server.kill()
        shutil.rmtree(folder)


@asynccontextmanager
async def agent(driver: TerminalDriver, spec: AgentSpec | None = None) -> AsyncIterator[Seen]:
    """A scripted agent that is stopped afterwards."""
    handle = await driver.spawn(spec or scripted(), new_spawn())
    try:
        async with reading(handle) as seen:
            yield seen
    finally:
        await handle.stop()


async def press(seen: Seen, *keys: str) -> None:
    """What a person types at the same terminal."""
    where = read_where(seen.handle.where)
    await where.server.run(["send-keys", "-t", where.pane_id, *keys])


async def shows(seen: Seen, text: str) -> None:
    """Wait until a text stands on the agent's screen."""
    where = read_where(seen.handle.where)
    async with asyncio.timeout(WAIT_SECONDS):
        while text not in await where.server.run(["capture-pane", "-p", "-t", where.pane_id]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def pane_count(driver: TerminalDriver) -> int:
    try:
        return len(await list_panes(driver.server))
    except (NoServer, Absent):  # gone, or going
        return 0
