"""Interlock as a person has it: a server in a home of its own, one session, and a client of it.

Law: whatever ends the block ends the server, the agent, the tmux server and every process that got the run's HOME. Each
wait of that is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from interlock.agents.profiles import user_profiles_folder
from interlock.agents.terminal.launch import Where, read_where
from interlock.agents.tmux.server import TmuxServer
from interlock.client.client import Client, connect_async
from interlock.client.task import TaskHandle
from interlock.client.transport.discovery import find_server
from interlock.log.host import host
from interlock.log.process_life import process_start
from interlock.testing.lab.recipes import LabFolder, Recipe, common_environment
from interlock.testing.lab.sizes import TerminalSize
from interlock.vocabulary.errors import InterlockError, PeerFault, Unreachable
from interlock.vocabulary.events.audit import ProcessEvent
from interlock.vocabulary.events.codec import decode_event
from interlock.vocabulary.events.envelope import Event

READY_SECONDS: Final = 150.0
END_SECONDS: Final = 30.0
HTTP_SECONDS: Final = 30.0
# How long a turn may go without progress before the server must say that it is stalled.
STALL_AFTER_SECONDS: Final = 15.0
# How long background work may hold back a prompt.
SETTLE_SECONDS: Final = 10.0
_DRIVER: Final = "terminal"


@dataclass(frozen=True, slots=True)
class Product:
    """A server with one session. What is asked of it and done to it goes by the client, as for everybody."""

    folder: Path
    place: LabFolder
    client: Client
    handle: TaskHandle

    async def events(self) -> tuple[Event, ...]:
        """The log of the session so far."""
        server = find_server(self.folder / "h")
        async with httpx.AsyncClient(base_url=server.url, timeout=HTTP_SECONDS, trust_env=False) as http:
            path = f"/api/tasks/{self.handle.task_id}/log"
            answer = await http.get(path, headers={"Authorization": f"Bearer {server.token}"})
            answer.raise_for_status()
        return tuple(decode_event(line) for line in answer.content.splitlines() if line.strip())

    async def where(self) -> Where | None:
        """Where the agent is that was started last; None before the first one."""
        told = [one.data.where for one in await self.events() if isinstance(one.data, ProcessEvent) and one.data.where]
        return read_where(told[-1]) if told else None

    def tmux(self, where: Where) -> TmuxServer:
        """The tmux server of the agent, by its path: its name means something only where the server runs."""
        named = where.socket
        path = named if "/" in named else str(self.folder / f"tmux-{os.getuid()}" / named)
        return TmuxServer(path)


@asynccontextmanager
async def product(
    recipe: Recipe, argv: tuple[str, ...], place: LabFolder, folder: Path, model_url: str, size: TerminalSize
) -> AsyncIterator[Product]:
    """Start a server in `folder`, and open a session with the CLI. `folder` has a short path: it holds sockets."""
    given = {**common_environment(place), **recipe.environment(place, model_url)}
    given["PATH"] = f"{Path(argv[0]).parent}{os.pathsep}{given['PATH']}"
    process = await _start(folder, place, given["PATH"])
    try:
        await _ready(process, folder)
        async with connect_async(folder / "h") as client:
            handle = await client.open_task(
                agent=recipe.cli,
                driver=_DRIVER,
                argv=argv,
                cwd=place.project,
                options={"columns": size.columns, "rows": size.rows},
                environment=given,
                title="lab",
                policy={"stall_after_seconds": STALL_AFTER_SECONDS, "settle_seconds": SETTLE_SECONDS},
            )
            made = Product(folder, place, client, handle)
            try:
                yield made
            finally:
                await _stop_agent(made)
    finally:
        await _end(process)
        end_processes_of(place.home)


async def _start(folder: Path, place: LabFolder, path: str) -> asyncio.subprocess.Process:
    (folder / "h").mkdir(mode=0o700)
    (folder / "config.toml").write_text("", encoding="utf-8")
    environment: dict[str, str] = {
        "PATH": path,
        "HOME": str(place.home),
        "LANG": "C.UTF-8",
        "TMUX_TMPDIR": str(folder),
        "INTERLOCK_CONFIG": str(folder / "config.toml"),
        # The person's own profiles are what they want to see scored.
        "XDG_CONFIG_HOME": str(user_profiles_folder().parent.parent),
    }
    environment |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    with (folder / "stderr").open("wb") as stderr:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "interlock.cli", "up", "--foreground", "--json", "--home", str(folder / "h")),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C is for us: we end it, in our order
        )


async def _ready(process: asyncio.subprocess.Process, folder: Path) -> None:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_SECONDS):
            told = await process.stdout.readline()
    except TimeoutError as late:
        raise Unreachable(f"the server of the lab is not ready after {READY_SECONDS:g} s") from late
    if not told:
        said = (folder / "stderr").read_text(errors="replace").strip().splitlines()
        raise PeerFault(f"the server of the lab did not start: {said[-1] if said else 'it said nothing'}")


async def _stop_agent(made: Product) -> None:
    """Agents in tmux outlive a server that ends: that is what it is for."""
    with contextlib.suppress(InterlockError, TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(END_SECONDS):
            where = await made.where()
            await made.handle.stop()
            if where is not None:
                await made.tmux(where).kill()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def end_processes_of(home: Path) -> list[int]:
    """Kill the processes whose HOME is this folder, by their ids: what a CLI left behind. Where there is no /proc, none
    can be found."""
    found = []
    for row in host().rows("HOME"):
        if str(home) in row.values and row.pid != os.getpid():
            with contextlib.suppress(OSError):
                os.kill(row.pid, signal.SIGKILL)
                found.append(row.pid)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not."""
    try:
        return process_start(pid) is not None
    except Unreachable:
        return True  # it is there, and hidden
