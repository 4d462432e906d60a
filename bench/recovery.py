"""What a kill -9 costs when many turns were open: until the next server accepts, and until every turn has its end.

`make bench` runs this. A process opens so many sessions, gives each a prompt, and is killed with SIGKILL while every
turn is open. The next one serves the same home as `interlock up` does: it answers while the turns are recovered side by
side. Printed: when it accepted, how long after that all turns were settled, the slowest answer meanwhile; and, as the
baseline, the same number of closing batches appended to a log by as many appenders, with nothing else to do.

Goal: 1,000 open turns within 3 s on a quiet machine, with answers meanwhile. `--turns 100` takes fewer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
import msgspec

from interlock.agents.port import AgentSpec
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.runtime import Runtime
from interlock.server.http.access import Tokens
from interlock.server.serving import bind, running
from interlock.server.settings import ServerSettings
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.audit import Anomaly, SessionOpened
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.states import DriverKind

TURNS: Final = 1_000
LIMIT_SECONDS: Final = 240.0
_AT_ONCE: Final = 64
_EVENTS_A_TURN: Final = 4  # the receipt, the failure, the run's end and the process's
_SETTINGS: Final = ServerSettings(port=0, requests_per_second=1e6, request_burst=1_000_000)
_SPEC: Final = AgentSpec(agent="puppet", driver="puppet")


class Told(msgspec.Struct):
    """What the serving process found."""

    accepted_seconds: float
    accepted_cpu: float
    settled_seconds: float
    settled_cpu: float
    recovered: int
    answers: int
    slowest_seconds: float


async def leave_open(home: Path, turns: int) -> None:
    """Open so many turns, say so, and wait to be killed."""
    gate = asyncio.Semaphore(_AT_ONCE)
    async with await SqliteLog.open(home) as log, Runtime(log, [PuppetDriver()]) as runtime:

        async def one() -> None:
            async with gate:
                session_id = await runtime.open_session(_SPEC)
                await runtime.send(session_id, "talk")
                await runtime.supervisor(session_id).until(lambda machine: machine.open_turn)

        await asyncio.gather(*(one() for _ in range(turns)))
        print("open", flush=True)
        await asyncio.sleep(LIMIT_SECONDS)


async def serve_again(home: Path) -> None:
    """Serve until every turn is settled, and tell how long that took and who was answered."""
    began, cpu = time.perf_counter(), time.process_time()
    tokens = Tokens.load_or_create(home)
    with bind(_SETTINGS) as listening:
        async with (
            await SqliteLog.open(home) as log,
            Runtime(log, [PuppetDriver()], sleeps=True) as runtime,
            running(runtime, log, tokens, _SETTINGS, listening) as server,
        ):
            accepted, accepted_cpu = time.perf_counter() - began, time.process_time() - cpu
            asking = asyncio.create_task(ask(server.url))
            await asyncio.sleep(0)  # the asking has begun
            await runtime.settled()
            settled = time.perf_counter() - began - accepted
            settled_cpu = time.process_time() - cpu - accepted_cpu
            asking.cancel()
            (answers,) = await asyncio.gather(asking, return_exceptions=True)
            assert isinstance(answers, list), repr(answers)
            count = sum(one.settled_turn is not None for one in runtime.recovered)
            slowest = max(answers, default=0.0)
            told = Told(accepted, accepted_cpu, settled, settled_cpu, count, len(answers), slowest)
            print(msgspec.json.encode(told).decode(), flush=True)


async def ask(url: str) -> list[float]:
    """Ask again and again until cancelled; how long each answer took."""
    taken: list[float] = []
    try:
        async with httpx.AsyncClient(base_url=url) as http:
            while True:
                began = time.perf_counter()
                (await http.get("/health", timeout=LIMIT_SECONDS)).raise_for_status()
                taken.append(time.perf_counter() - began)
                await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        return taken


async def bare_appends(home: Path, turns: int) -> tuple[float, float]:
    """As many batches as recovery writes, into as many sessions: seconds by the clock, and of CPU."""
    opened = SessionOpened(agent="nobody", driver="nobody", kind=DriverKind.STREAM)
    now, gate = datetime.now(UTC), asyncio.Semaphore(_AT_ONCE)
    async with await SqliteLog.open(home) as log:

        async def one(number: int, count: int) -> None:
            session_id = SessionId(f"ses_{number}")
            datas = [opened if count == 1 else Anomaly(kind="bench", source="bench", message="x" * 80)] * count
            events = [
                new_event(data, id=EventId(f"evt_{number}_{count}_{at}"), session_id=session_id, ts=now)
                for at, data in enumerate(datas)
            ]
            async with gate:
                await log.append(session_id, events)

        await asyncio.gather(*(one(number, 1) for number in range(turns)))
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(number, _EVENTS_A_TURN) for number in range(turns)))
        return time.perf_counter() - began, time.process_time() - cpu


async def part(name: str, home: Path, turns: int, *, is_killed: bool = False) -> bytes:
    """A part in a process of its own; what it said."""
    words = ("--part", name, "--home", str(home), "--turns", str(turns))
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *words, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_SECONDS):
            line = await process.stdout.readline()
            if not is_killed:
                await process.wait()
            return line
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def main(turns: int) -> None:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        home = Path(folder, "home")
        assert await part("open", home, turns, is_killed=True) == b"open\n"
        told = msgspec.json.decode(await part("serve", home, turns), type=Told)
        seconds, cpu = await bare_appends(Path(folder, "bare"), turns)
    assert told.recovered == turns, told
    print(f"{turns:,} open turns after a kill -9: accepted after {told.accepted_seconds:.2f} s", end=" ")
    print(f"({told.accepted_cpu:.2f} s of CPU), all settled {told.settled_seconds:.2f} s later", end=" ")
    print(f"({told.settled_cpu:.2f} s of CPU); goal 3 s")
    print(f"  {told.answers} answers meanwhile, the slowest after {told.slowest_seconds * 1e3:.0f} ms")
    print(f"  bare appends of as many batches: {seconds:.2f} s, {cpu:.2f} s of CPU; ", end="")
    print(f"ratio {told.settled_seconds / seconds:.1f}x by the clock, {told.settled_cpu / cpu:.1f}x by CPU")


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS)
    for hidden in ("--part", "--home"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "open":
        asyncio.run(leave_open(Path(given.home), given.turns))
    elif given.part == "serve":
        asyncio.run(serve_again(Path(given.home)))
    else:
        asyncio.run(main(given.turns))


if __name__ == "__main__":
    run()
