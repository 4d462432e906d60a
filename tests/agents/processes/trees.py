"""Real process trees for the tests, each with a spawn id of its own, and the promise that nothing is left running."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.identity import read_table
from interlock.agents.processes.stopping import StopPolicy
from interlock.vocabulary.ids import SpawnId

QUICK: Final = StopPolicy(interrupt_seconds=0.3, terminate_seconds=0.3, kill_seconds=5.0)
PATIENCE_SECONDS: Final = 100.0
PYTHON: Final = sys.executable


def new_spawn_id() -> SpawnId:
    return SpawnId(f"spawn-{uuid.uuid4().hex}")


async def until(condition: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it is so; fail if it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to be so"
        await asyncio.sleep(0.01)


def living_of(spawn_id: SpawnId) -> list[ProcessIdentity]:
    return [seen.identity for seen in read_table().values() if spawn_id in seen.spawn_ids]


@asynccontextmanager
async def started(*argv: str, spawn_id: SpawnId | None = None) -> AsyncIterator[ChildProcess]:
    """A child that is surely stopped in the end, and of whose tagged family nothing is left."""
    chosen = spawn_id or new_spawn_id()
    child = await ChildProcess.start(argv, cwd=".", environment=dict(os.environ), spawn_id=chosen)
    try:
        yield child
    finally:
        await child.stop(QUICK)
        assert living_of(chosen) == []


def shell(script: str) -> tuple[str, str, str]:
    return ("sh", "-c", script)


async def first_line(child: ChildProcess) -> str:
    """The first line that the child prints: most scripts here say so when their tree stands."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in child.lines():
            return line.data.decode()
    raise AssertionError("the child printed nothing")
