"""What happens in `interlock demo`: who enters when, what is waited for, and what a person does about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from interlock.cli.demo import cast
from interlock.cli.demo.cast import NETWORK, Part, driver_of, write_agent
from interlock.cli.demo.server import PrivateServer
from interlock.cli.demo.teller import Teller
from interlock.client.client import Client, connect_async
from interlock.client.machine.state import TaskState
from interlock.client.task import TaskHandle
from interlock.testing.scripted_agent import Gates
from interlock.vocabulary.states import Activity, TaskStatus

# The stage of `interlock demo`: the agents of the cast, in sessions of a real server.
#
# Law: every wait for something to happen is bounded, and says at its end what was last known.

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


# On a board there is time to look.
_LOOK_SECONDS: Final = 20.0
_LONG_IDLE_SECONDS: Final = 90.0
_ENDS: Final = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


async def tell_acts(server: PrivateServer, *, has_tmux: bool, json: bool) -> None:
    """The story, while it happens. The person's part is played by commands."""
    async with connect_async(server.home) as client, _telling(Teller(server.home, is_json=json)) as teller:
        stage = Stage(client, server.folder, has_tmux=has_tmux)
        await _first_act(stage, teller)
        await _second_act(stage, teller)
        await _third_act(stage, teller)


async def play_acts(server: PrivateServer, *, has_tmux: bool) -> None:
    """What happens while a person watches. The questions are theirs to answer."""
    async with connect_async(server.home) as client:
        stage = Stage(client, server.folder, has_tmux=has_tmux)
        for part in cast.CAST[:-1]:
            await stage.enter(part)
        await stage.enter(replace(cast.GREET, policy={"idle_ttl_seconds": _LONG_IDLE_SECONDS}))
        await stage.until(cast.DOCS, lambda state: _activity(state) is Activity.STALLED)
        await asyncio.sleep(_LOOK_SECONDS)
        stage.open_network()
        await stage.handles[cast.SEARCH.title].cancel()


@asynccontextmanager
async def _telling(teller: Teller) -> AsyncIterator[Teller]:
    """Whoever cannot be told any more, as where a pipe is closed, ends the story at once."""
    story = asyncio.current_task()
    assert story is not None
    teller.on_trouble = story.cancel
    try:
        yield teller
    except asyncio.CancelledError:
        if teller.trouble is not None:
            raise teller.trouble from None
        raise
    finally:
        await teller.close()


async def _first_act(stage: Stage, teller: Teller) -> None:
    """Everybody works; some need a person, some fail, one says nothing any more."""
    await teller.say("Eight agents get a prompt each. Every line below is what the server said of one, when it did.")
    for part in cast.CAST[:-1]:
        teller.follow(await stage.enter(part), part.title)
    await stage.all_until((cast.DEPLOY, cast.SCHEMA), lambda state: bool(state.approvals))
    await stage.all_until((cast.PARSER, cast.FLAKY), _is_over)
    await stage.until(cast.DOCS, lambda state: _activity(state) is Activity.STALLED)
    await stage.until(cast.MIGRATE, lambda state: state.status == TaskStatus.COMPLETED)
    teller.follow(await stage.enter(cast.GREET), cast.GREET.title)
    await stage.until(cast.GREET, _is_counting_down)
    await teller.say("Who needs you comes first, then what is stuck, then what works; an idle one shows its countdown:")
    await teller.run("ps")


async def _second_act(stage: Stage, teller: Teller) -> None:
    """A person does something about it."""
    await teller.say("Now a person acts.")
    await teller.run("approve", cast.DEPLOY.title)
    await teller.run("answer", cast.SCHEMA.title, "--option", "SQLite")
    await teller.run("interrupt", cast.SEARCH.title)
    await teller.say("And the network is back, for which one of them waited:")
    stage.open_network()
    await stage.all_until((cast.DEPLOY, cast.SCHEMA, cast.SEARCH, cast.DOCS), _is_over)
    await teller.run("ps")


async def _third_act(stage: Stage, teller: Teller) -> None:
    """An agent that nobody uses goes, and the log answers what is asked of it."""
    await teller.say("The idle one goes when its time is up:")
    await stage.until(cast.GREET, lambda state: _activity(state) is Activity.GONE)
    await teller.say("Every life of every agent, and how it ended:")
    await teller.run("spawns")
    await teller.say("And why, for two of the turns:")
    await teller.run("why", cast.FLAKY.title)
    await teller.run("why", cast.DEPLOY.title)


def _is_counting_down(state: TaskState) -> bool:
    """Or over with it, on a machine that is very slow."""
    return state.agent is not None and (state.agent.idle_at is not None or _activity(state) is Activity.GONE)


def _is_over(state: TaskState) -> bool:
    return state.status in _ENDS


def _activity(state: TaskState) -> Activity | None:
    return None if state.agent is None else state.agent.activity
