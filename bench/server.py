"""What the server costs: fan-out to many clients, a storm of reconnects, joins to long tasks, runtime checks.

`make bench` runs this. The server is a process of its own over a log on disk; the clients are in this one.

- *Fan-out*: the same frames to 200 clients of one room, and to 1,000 rooms (20 for each of 50 clients), against a bare
  `websockets` server that sends the very same bytes. Both take turns. Deliveries a second are by the wall clock,
  clients included; CPU is that of the serving process alone. A ratio of 1 would be as fast as the bare server.
- *Storm*: the server is killed with SIGKILL and started again at its port while 500 of our own clients follow a task;
  measured from the moment at which it accepts until all of them stand where it stands.
- *Join* a task with 10,000 messages, against one with none. *Checks*: `runtime-check` a second by one connection,
  against `/health`.

`--quick` takes a tenth of everything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, broadcast
from websockets.asyncio.server import serve as serve_websockets

from interlock.agents.observations import PromptReached
from interlock.agents.port import AgentSpec
from interlock.client.client import Client
from interlock.client.task import TaskHandle
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.runtime import Runtime
from interlock.server.http.access import Tokens
from interlock.server.live.hub import Hub
from interlock.server.serving import bind, running
from interlock.server.settings import ServerSettings
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.audit import DeliveryStage, SessionOpened
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.ids import EventId, SessionId, StreamId, TurnId
from interlock.vocabulary.states import DriverKind
from interlock.vocabulary.wire.requests import TaskJoin

ROUNDS: Final = 3
TEXT: Final = "sixty characters of an answer, as agents write them, or so. "
LIMIT_SECONDS: Final = 180.0
IDLE_SECONDS: Final = 5.0
ROOMS_A_CLIENT: Final = 20
LONG: Final = SessionId("ses_long")
EMPTY: Final = SessionId("ses_empty")
SPEC: Final = AgentSpec(agent="puppet", driver="puppet")
_CHUNK: Final = b'{"type":"chat:chunk"'
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# More than a person's server would allow: what is measured is the work, not the refusal.
GENEROUS: Final = ServerSettings(
    max_connections=2_000,
    requests_per_second=1e6,
    request_burst=1_000_000,
    outbox_frames=20_000,
    heartbeat_seconds=600,  # clients that wait for their turn to be measured are not read from
)


class Load(NamedTuple):
    """How much of everything."""

    clients: int = 200
    frames: int = 300
    rooms: int = 1_000
    frames_a_room: int = 20
    storm: int = 500
    messages: int = 10_000
    joins: int = 100
    checks: int = 1_000


class Ready(msgspec.Struct):
    """What a serving process says when it accepts."""

    url: str
    token: str = ""
    tasks: tuple[str, ...] = ()


class Serving(NamedTuple):
    """A serving process."""

    process: asyncio.subprocess.Process
    ready: Ready

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    async def order(self, frames: int, rooms: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{frames} {rooms}\n".encode())
        await self.process.stdin.drain()


# The processes that serve


async def serve_ours(home: Path, port: int, load: Load) -> None:
    """A server with many tasks whose turn is open. An order is how many frames go to how many rooms."""
    settings = replace(GENEROUS, port=port)
    tokens, puppets = Tokens.load_or_create(home), PuppetDriver()
    with bind(settings) as listening:
        async with await SqliteLog.open(home) as log:
            if (await log.read(LONG, limit=1)).version == 0:
                await write_long(log, load.messages)
            async with (
                Runtime(log, [puppets]) as runtime,
                running(runtime, log, tokens, settings, listening) as server,
            ):
                tasks = await open_turns(runtime, server.state.hub, puppets, load.rooms)
                token = msgspec.json.decode((home / "tokens.json").read_bytes(), type=dict[str, str])["operator"]
                say(Ready(url=server.url, token=token, tasks=tasks))
                async for frames, rooms in orders():
                    await talk(server.state.hub, [SessionId(one) for one in tasks[:rooms]], frames)


async def write_long(log: SqliteLog, messages: int) -> None:
    """A task with so many prompts that nobody runs, and an empty one."""
    now = datetime.now(UTC)
    opened = SessionOpened(agent="nobody", driver="nobody", kind=DriverKind.STREAM)
    for task_id in (LONG, EMPTY):
        await log.append(task_id, [new_event(opened, id=EventId(f"evt_{task_id}"), session_id=task_id, ts=now)])
    said = [
        new_event(UserMessage(text=TEXT), id=EventId(f"evt_{n}"), session_id=LONG, ts=now, turn_id=TurnId(f"trn_{n}"))
        for n in range(messages)
    ]
    for first in range(0, messages, 1_000):
        await log.append(LONG, said[first : first + 1_000])


async def open_turns(runtime: Runtime, hub: Hub, puppets: PuppetDriver, rooms: int) -> tuple[str, ...]:
    """Open a turn in so many rooms, at once. Each agent says that it began: a turn of which nobody hears for two
    minutes has failed, and what is said in it then is shown to nobody."""
    tasks = sorted(one for one in runtime.sessions)
    tasks += await asyncio.gather(*(runtime.open_session(SPEC) for _ in range(rooms - len(tasks))))
    quiet = [one for one in tasks if runtime.supervisor(one).book.turn is None]
    await asyncio.gather(*(runtime.send(task_id, "talk") for task_id in quiet))
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            if all(one in hub.views and hub.views[one].turn_id is not None for one in tasks):
                break
            await asyncio.sleep(0.01)
    for puppet in puppets.puppets:
        puppet.say(PromptReached(stage=DeliveryStage.STARTED))
    return tuple(tasks)


async def talk(hub: Hub, tasks: Sequence[SessionId], frames: int) -> None:
    """Live text in every room, as the runtime publishes it."""
    stream_id, now = StreamId(f"str_{time.monotonic_ns()}"), datetime.now(UTC)
    for number in range(frames):
        delta = TextDelta(stream_id=stream_id, offset=number * len(TEXT), text=TEXT)
        for task_id in tasks:
            turn_id = hub.views[task_id].turn_id
            hub.rooms.publish(new_event(delta, id=EventId("evt_live"), session_id=task_id, ts=now, turn_id=turn_id))
        await asyncio.sleep(0)


async def serve_bare(frame: str) -> None:
    """Send a frame to everybody, so often; or so often to one after the other, as rooms with one client each."""
    clients: set[ServerConnection] = set()

    async def keep(client: ServerConnection) -> None:
        clients.add(client)
        await client.wait_closed()
        clients.discard(client)

    async with serve_websockets(keep, "127.0.0.1", 0, compression=None) as server:
        say(Ready(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        async for frames, rooms in orders():
            for _ in range(frames):
                if rooms == 1:
                    broadcast(clients, frame)
                else:
                    for client in clients:
                        for _ in range(ROOMS_A_CLIENT):
                            broadcast((client,), frame)
                await asyncio.sleep(0)


def say(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.flush()


async def orders() -> AsyncIterator[tuple[int, int]]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        frames, rooms = line.split()
        yield int(frames), int(rooms)


@asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[Serving]:
    """One of the above, in a process, until the end of the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *arguments, stdin=pipe, stdout=pipe, limit=1 << 24
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_SECONDS):
            line = await process.stdout.readline()
        yield Serving(process, msgspec.json.decode(line, type=Ready))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


# Fan-out


async def connect_to(server: Serving, rooms: Sequence[str]) -> ClientConnection:
    """A client in so many rooms; of the bare server, which knows no rooms, just a client."""
    token = server.ready.token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = server.ready.url.replace("http", "ws") + ("/api/socket" if token else "/")
    client = await connect(url, additional_headers=headers, compression=None, max_size=None, max_queue=None)
    for task_id in rooms if token else ():
        await client.send(msgspec.json.encode(TaskJoin(id=task_id, task_id=SessionId(task_id))).decode())
    joined = 0
    while token and joined < len(rooms):
        joined += (await client.recv(decode=False)).startswith(b'{"type":"task:joined"')
    return client


async def deliver(server: Serving, clients: Sequence[ClientConnection], frames: int, rooms: int) -> tuple[float, float]:
    """Deliveries a second, and microseconds of the server's CPU for each."""
    a_client = frames if rooms == 1 else frames * ROOMS_A_CLIENT

    async def read(client: ClientConnection) -> None:
        got = 0
        while got < a_client:
            got += (await client.recv(decode=False)).startswith(_CHUNK)

    cpu, began = server.cpu_seconds(), time.perf_counter()
    async with asyncio.timeout(LIMIT_SECONDS):
        await asyncio.gather(server.order(frames, rooms), *map(read, clients))
    seconds, deliveries = time.perf_counter() - began, a_client * len(clients)
    return deliveries / seconds, (server.cpu_seconds() - cpu) * 1e6 / deliveries


async def fan_out(ours: Serving, bare: Serving, title: str, *, clients: int, frames: int, rooms: int) -> None:
    figures: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    async with AsyncExitStack() as stack:
        sides: list[tuple[bool, Serving, list[ClientConnection]]] = []
        for is_ours, server in ((True, ours), (False, bare)):
            joined = []
            for number in range(clients):
                first = number * ROOMS_A_CLIENT
                names = server.ready.tasks[:1] if rooms == 1 else server.ready.tasks[first : first + ROOMS_A_CLIENT]
                joined.append(await connect_to(server, names))
                stack.push_async_callback(joined[-1].close)
            sides.append((is_ours, server, joined))
        for _ in range(ROUNDS):
            for is_ours, server, joined in sides:
                figures[is_ours].append(await deliver(server, joined, frames, rooms))
    speed, cpu = (median(one) for one in zip(*figures[True], strict=True))
    bare_speed, bare_cpu = (median(one) for one in zip(*figures[False], strict=True))
    print(f"{title}: {speed:,.0f} deliveries/s, {cpu:.1f} us of CPU each; bare {bare_speed:,.0f} and {bare_cpu:.1f}")
    print(f"  ratio {speed / bare_speed:.2f}x by the clock, {bare_cpu / cpu:.2f}x by CPU (1 is as fast as bare)")


# Storm


async def storm(arguments: Callable[[int], tuple[str, ...]], clients: int) -> None:
    async with AsyncExitStack() as stack:
        async with serving(*arguments(0)) as first:
            url, token, task_id = first.ready.url, first.ready.token, first.ready.tasks[0]
            joined = [await stack.enter_async_context(Client(url, token=token)) for _ in range(clients)]
            tasks = [client.task(task_id) for client in joined]
            began = time.perf_counter()
            await all_stand_at(url, token, tasks)
            print(f"storm: {clients} clients joined one room in {time.perf_counter() - began:.2f} s", end="; ")
            first.process.send_signal(signal.SIGKILL)
            await first.process.wait()
        async with serving(*arguments(httpx.URL(url).port or 0)):
            began = time.perf_counter()
            await all_stand_at(url, token, tasks)
            print(f"after a kill -9 all converged {time.perf_counter() - began:.2f} s after it accepted again")


async def all_stand_at(url: str, token: str, tasks: Sequence[TaskHandle]) -> None:
    """Until every client is verified and at the server's version, in the room."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as http, asyncio.timeout(LIMIT_SECONDS):
        while True:
            check = (await http.get(f"/api/tasks/{tasks[0].task_id}/runtime-check")).json()
            if all(stands_at(one, check["version"]) for one in tasks):
                return
            await asyncio.sleep(0.02)


def stands_at(task: TaskHandle, version: int) -> bool:
    """By what the room said: `synced_version` lags by one, for more frames of the same version may follow."""
    state = task.state
    is_settled = state.is_verified and state.tick is not None and not state.is_unstable
    return is_settled and state.room_version == version


# Joins and checks


async def join_cost(ours: Serving, joins: int) -> None:
    async def once(client: ClientConnection, task_id: SessionId) -> tuple[float, int]:
        began = time.perf_counter()
        await client.send(msgspec.json.encode(TaskJoin(id="j", task_id=task_id)).decode())
        while not (answer := await client.recv(decode=False)).startswith(b'{"type":"task:joined"'):
            pass
        return time.perf_counter() - began, len(answer)

    client = await connect_to(ours, ())
    found = {task_id: [await once(client, task_id) for _ in range(joins)] for task_id in (LONG, EMPTY)}
    await client.close()
    long, empty = (median(seconds for seconds, _ in found[one]) * 1e3 for one in (LONG, EMPTY))
    size = found[LONG][0][1] / 1024
    print(f"join: {long:.2f} ms with a long history ({size:.0f} KiB of answer), {empty:.2f} ms without one; ", end="")
    print(f"{long / empty:.1f}x")


async def check_cost(ours: Serving, checks: int) -> None:
    headers = {"Authorization": f"Bearer {ours.ready.token}"}
    cpu, began = ours.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (ours.cpu_seconds() - cpu) / (time.perf_counter() - began)
    print(f"idle with {len(ours.ready.tasks):,} open turns: {idle:.2%} of a core")
    async with httpx.AsyncClient(base_url=ours.ready.url, headers=headers) as http:

        async def rate(path: str) -> tuple[float, float]:
            cpu, began = ours.cpu_seconds(), time.perf_counter()
            for _ in range(checks):
                (await http.get(path)).raise_for_status()
            seconds = time.perf_counter() - began
            return checks / seconds, (ours.cpu_seconds() - cpu) * 1e6 / checks

        check, cpu = await rate(f"/api/tasks/{ours.ready.tasks[0]}/runtime-check")
        health, bare_cpu = await rate("/health")
    print(f"runtime-check: {check:,.0f}/s by one connection, {cpu:.0f} us of CPU each; ", end="")
    print(f"{check / health:.2f}x of /health ({health:,.0f}/s, {bare_cpu:.0f} us)")


async def main(load: Load) -> None:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        # A frame, and the one room that a storm is about, need no thousand others.
        small = load._replace(rooms=ROOMS_A_CLIENT, messages=ROOMS_A_CLIENT)

        def arguments(port: int, name: str = "home", load: Load = load) -> tuple[str, ...]:
            return (
                "--serve",
                "ours",
                "--home",
                str(Path(folder, name)),
                "--port",
                str(port),
                "--load",
                *map(str, load),
            )

        frame = await a_frame(arguments(0, "look", small))
        async with serving(*arguments(0)) as ours, serving("--serve", "bare", "--frame", frame) as bare:
            await fan_out(
                ours, bare, f"one room, {load.clients} clients", clients=load.clients, frames=load.frames, rooms=1
            )
            await fan_out(
                ours,
                bare,
                f"{load.rooms} rooms",
                clients=load.rooms // ROOMS_A_CLIENT,
                frames=load.frames_a_room,
                rooms=load.rooms,
            )
            await join_cost(ours, load.joins)
            await check_cost(ours, load.checks)
        await storm(lambda port: arguments(port, "storm", small), load.storm)


async def a_frame(arguments: tuple[str, ...]) -> str:
    """The bytes that our server sends, for the bare one to send as well."""
    async with serving(*arguments) as ours:
        client = await connect_to(ours, ours.ready.tasks[:1])
        await ours.order(1, 1)
        while not (frame := await client.recv(decode=False)).startswith(_CHUNK):
            pass
        await client.close()
        return frame.decode()


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    for hidden in ("--serve", "--home", "--frame"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=int, nargs=len(Load()), default=list(Load()), help=argparse.SUPPRESS)
    given = parser.parse_args()
    load = Load(*given.load)
    work: Coroutine[None, None, None]
    if given.serve == "ours":
        work = serve_ours(Path(given.home), given.port, load)
    elif given.serve == "bare":
        work = serve_bare(given.frame)
    else:
        work = main(Load(*(max(ROOMS_A_CLIENT, one // 10) for one in load)) if given.quick else load)
    asyncio.run(work)


if __name__ == "__main__":
    run()
