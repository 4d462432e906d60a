"""A runtime in a process of its own, which sends one prompt and waits to be killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.port import AgentSpec
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.runtime import Runtime
from interlock.vocabulary.ids import PromptId
from tests.real.runtime_harness import SESSION, bare_environment, drivers_in

_SENT: Final = b"sent\n"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a runtime in a process of its own is to do."""

    spec: AgentSpec
    root: str
    folder: str
    prompt_id: str
    text: str


@asynccontextmanager
async def hosted(orders: Orders) -> AsyncIterator[asyncio.subprocess.Process]:
    """A runtime in another process. Whatever happens, it does not outlive the block."""
    path = Path(orders.folder) / "orders.json"
    path.write_bytes(msgspec.json.encode(orders))
    with bare_environment():
        host = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.real.runtime_host",
            str(path),
            cwd=Path(__file__).parents[2],
            stdout=asyncio.subprocess.PIPE,
        )
    try:
        assert host.stdout is not None
        assert await host.stdout.readline() == _SENT
        yield host
    finally:
        if host.returncode is None:
            host.kill()
        await host.wait()


async def _host(orders: Orders) -> None:
    log = await SqliteLog.open(Path(orders.root) / "log")
    runtime = Runtime(log, drivers_in(Path(orders.folder)))
    await runtime.__aenter__()
    await runtime.open_session(orders.spec, session_id=SESSION)
    await runtime.send(SESSION, orders.text, prompt_id=PromptId(orders.prompt_id))
    sys.stdout.buffer.write(_SENT)
    sys.stdout.flush()
    await asyncio.sleep(120)


if __name__ == "__main__":
    asyncio.run(_host(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Orders)))
