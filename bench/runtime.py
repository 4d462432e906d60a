"""What a running agent costs the runtime: CPU, memory, and the time from its write to the published event.

`make bench` runs this. Many scripted agents stream at once, in stream-json, each some pieces of text a second, through
a `Runtime` with its driver over a log on disk; the same agents then write to a bare asyncio reader that only counts
their lines. The two take turns, each in a process of its own, so that the memory of one is not the other's. Each piece
of text is the moment at which it was written. CPU is that of the process that reads, from the first prompt until every
turn is over; memory is what it grew by until then. A ratio of 1 would be as cheap as counting lines.

`--agents 200` takes more of them, `--pace 0` lets them write as fast as they can.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

from interlock.agents.port import AgentSpec
from interlock.agents.streams.claude.driver import ClaudeStreamDriver
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.runtime import EventWatcher, Runtime
from interlock.runtime.session.router import SessionMachine
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import TurnState

RUNTIME: Final = "runtime"
BARE: Final = "bare"
ROUNDS: Final = 2
LIMIT_SECONDS: Final = 90.0
_STARTED_AT_ONCE: Final = 8
_PAGE_KIB: Final = os.sysconf("SC_PAGE_SIZE") // 1024
_STAMP: Final = re.compile(rb'"text_delta","text":"([0-9.]+) ')
_INITIALIZE: Final = {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}}
# The scripted agent, saying the time where its script says a word.
_STAMPER: Final = """
import os, sys, time
from interlock.testing.scripted_agent.__main__ import main
from interlock.testing.scripted_agent.stream_json import StreamJson
say = StreamJson.say
StreamJson.say = lambda face, _: say(face, f"{time.monotonic():.6f} ")
os._exit(main(sys.argv[1:]))
"""


class Load(NamedTuple):
    """So many agents, each writing so many pieces of text, so far apart."""

    agents: int = 100
    pieces: int = 60
    pace_seconds: float = 0.05

    @property
    def script(self) -> str:
        return f"pace {self.pace_seconds}; words {self.pieces}"

    @property
    def argv(self) -> tuple[str, ...]:
        return (sys.executable, "-c", _STAMPER, "--stream-json", "--lifetime", str(int(LIMIT_SECONDS)))


class Figures(NamedTuple):
    """What one side took, for all agents together. Delays are from the agent's write until we have it."""

    cpu_seconds: float
    seconds: float
    memory_kib: float
    p50_ms: float
    p95_ms: float


class Meter:
    """Begun when all agents wait for their prompt, read when all turns are over."""

    def __init__(self, load: Load, memory_kib: int) -> None:
        self._load = load
        self._memory_kib = memory_kib
        self._cpu, self._began = time.process_time(), time.monotonic()
        self.delays: array[float] = array("d")

    def arrived(self, stamps: Iterable[str | bytes]) -> None:
        now = time.monotonic()
        self.delays.extend(now - float(stamp) for stamp in stamps)

    @property
    def is_whole(self) -> bool:
        return len(self.delays) >= self._load.agents * self._load.pieces

    def figures(self) -> Figures:
        cpu, seconds = time.process_time() - self._cpu, time.monotonic() - self._began
        memory_kib = resident_kib() - self._memory_kib
        assert self.is_whole, f"{len(self.delays)} pieces came"
        cuts = quantiles(self.delays, n=20)
        return Figures(cpu, seconds, memory_kib, cuts[9] * 1e3, cuts[18] * 1e3)


def resident_kib() -> int:
    """The memory that this process holds now; at its peak, where the system tells no more."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_KIB
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # in bytes on macOS


async def a_few_at_once(works: Iterable[Awaitable[object]]) -> None:
    """Starting a hundred programs in one moment would measure that moment."""
    gate = asyncio.Semaphore(_STARTED_AT_ONCE)

    async def one(work: Awaitable[object]) -> None:
        async with gate:
            await work

    await asyncio.gather(*map(one, works))


# The runtime


async def through_the_runtime(load: Load) -> Figures:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        driver = ClaudeStreamDriver()
        spec = AgentSpec(agent="scripted", driver=driver.name, argv=load.argv, cwd=folder)
        async with await SqliteLog.open(Path(folder, "home")) as log, Runtime(log, [driver]) as runtime:
            await prompt_all(runtime, [await runtime.open_session(spec)], Load(1, 1, 0))
            memory_kib = resident_kib()
            sessions = [await runtime.open_session(spec) for _ in range(load.agents)]
            await a_few_at_once(ready(runtime, session_id) for session_id in sessions)
            async with runtime.watch() as watcher:
                meter = Meter(load, memory_kib)
                watching = asyncio.create_task(watch(watcher, meter))
                await prompt_all(runtime, sessions, load)
                await watching
                figures = meter.figures()
            await a_few_at_once(runtime.stop(session_id) for session_id in runtime.sessions)
            return figures


async def ready(runtime: Runtime, session_id: SessionId) -> None:
    def look(conductor: SessionMachine) -> bool | None:
        return True if conductor.agent is not None and conductor.agent.is_ready else None

    await runtime.start(session_id)
    await runtime.supervisor(session_id).until(look)


async def prompt_all(runtime: Runtime, sessions: Sequence[SessionId], load: Load) -> None:
    async def turn(session_id: SessionId) -> None:
        prompt_id = await runtime.send(session_id, load.script)
        record = await runtime.wait_turn(session_id, prompt_id)
        assert record.state is TurnState.COMPLETED, record

    await asyncio.gather(*map(turn, sessions))


async def watch(watcher: EventWatcher, meter: Meter) -> None:
    async for event in watcher:
        if isinstance(event.data, TextDelta):
            meter.arrived(event.data.text.split())
            if meter.is_whole:
                return


# The bare reader


async def through_a_bare_reader(load: Load) -> Figures:
    first = Load(1, 1, 0)
    agents = [await start_bare(first)]
    await count_all(agents, first, Meter(first, 0))
    memory_kib = resident_kib()

    async def start() -> None:
        agents.append(await start_bare(load))

    try:
        await a_few_at_once(start() for _ in range(load.agents))
        meter = Meter(load, memory_kib)
        await count_all(agents[1:], load, meter)
        return meter.figures()
    except BaseException:
        for process in agents:
            if process.returncode is None:
                process.kill()
        raise
    finally:
        for process in agents:
            await process.wait()


async def start_bare(load: Load) -> asyncio.subprocess.Process:
    """An agent that has answered, and waits."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *load.argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(_INITIALIZE).encode() + b"\n")
    await process.stdout.readline()
    return process


async def count_all(agents: Sequence[asyncio.subprocess.Process], load: Load, meter: Meter) -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": load.script}}

    async def count(process: asyncio.subprocess.Process) -> int:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(prompt).encode() + b"\n")
        process.stdin.close()  # it ends after its turn
        lines = 0
        async for line in process.stdout:
            lines += 1
            meter.arrived(_STAMP.findall(line))
        return lines

    await asyncio.gather(*map(count, agents))


# Both


async def measure(side: str, load: Load) -> Figures:
    async with asyncio.timeout(LIMIT_SECONDS):
        return await (through_the_runtime(load) if side == RUNTIME else through_a_bare_reader(load))


def measure_apart(side: str, load: Load) -> Figures:
    """One side in a process of its own."""
    words = ["--side", side, "--agents", load.agents, "--pieces", load.pieces, "--pace", load.pace_seconds]
    command = [sys.executable, __file__, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=2 * LIMIT_SECONDS)
    return Figures(*json.loads(done.stdout))


def middle(taken: Sequence[Figures]) -> Figures:
    return Figures(*(median(one) for one in zip(*taken, strict=True)))


def show(load: Load, ours: Figures, bare: Figures) -> None:
    pieces = load.agents * load.pieces
    print(f"{load.agents} agents, {load.pieces} pieces of text each, {load.pace_seconds * 1e3:.0f} ms apart", end="; ")
    print(f"{ours.seconds:.1f} s by the runtime, {bare.seconds:.1f} s by the bare reader\n")
    print(f"{'':<44}{'runtime':>12}{'bare reader':>14}{'ratio':>8}")
    rows = [
        (
            "CPU an agent while it streams, % of a core",
            [one.cpu_seconds / one.seconds / load.agents * 100 for one in (ours, bare)],
        ),
        ("CPU a piece of text, microseconds", [one.cpu_seconds / pieces * 1e6 for one in (ours, bare)]),
        ("memory an agent, KiB", [one.memory_kib / load.agents for one in (ours, bare)]),
        ("write to published, p50, ms", [ours.p50_ms, bare.p50_ms]),
        ("write to published, p95, ms", [ours.p95_ms, bare.p95_ms]),
    ]
    for name, (mine, theirs) in rows:
        ratio = f"{mine / theirs:.1f}" if theirs > 0 else "-"
        print(f"{name:<44}{mine:>12.2f}{theirs:>14.2f}{ratio:>8}")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a running agent costs the runtime.")
    usual = Load()
    parser.add_argument("--agents", type=int, default=usual.agents)
    parser.add_argument("--pieces", type=int, default=usual.pieces, help="pieces of text an agent")
    parser.add_argument("--pace", type=float, default=usual.pace_seconds, help="seconds between two pieces")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--side", choices=(RUNTIME, BARE), help="measure one side here, and print the bare figures")
    return parser.parse_args()


def main() -> None:
    given = read_arguments()
    load = Load(given.agents, given.pieces, given.pace)
    if given.side:
        print(json.dumps(asyncio.run(measure(given.side, load))))
        return
    pairs = [(measure_apart(RUNTIME, load), measure_apart(BARE, load)) for _ in range(given.rounds)]
    show(load, middle([ours for ours, _ in pairs]), middle([bare for _, bare in pairs]))


if __name__ == "__main__":
    main()
