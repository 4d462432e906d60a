"""How fast the log is: durable appends a second, follow latency, reading, the last turn. `make bench` runs this.

Appends stand beside a bare file that is written and fdatasynced by a thread of its own with the same grouping, in the
same run and taken in turns: a disk that is shared says little by itself. The budget holds where fdatasync costs 1 ms
or more; a faster disk measures Python. `why` of the last turn of a long session stands beside that of a short one: the
reading and the fold in one process, and the whole command, which also starts an interpreter.

Each event that the appenders append begins a turn, which is the most that the index of turns can cost. Below them
stands the usual case, events within a turn, for 64 appenders; then *rows alone*: the least that SQLite costs, rows of
the same tables in the same groups, written by a thread that does nothing else (no chain, no index of turns, no proof
that a line reads back). What it does not reach, no log in these tables can reach. Columns of CPU are of the whole
process, and say more than the clock on a machine that is shared.
"""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

import apsw

from interlock.log.sqlite.appending import ADVANCE_WITH_INDEX, INSERT
from interlock.log.sqlite.schema import CHECKPOINT_PAGES, TABLES
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.why import why, why_last
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import RunState, TurnStarted
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata, UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, RunId, SessionId, TurnId
from interlock.vocabulary.run import NATURAL_END, RunStatus
from interlock.vocabulary.states import DriverKind

ROUNDS: Final = 5
SECONDS: Final = 0.6
FOLLOWED: Final = 300
READ: Final = 100_000
BUDGET: Final = 0.5
SLOW_SYNC_MS: Final = 1.0
SHORT: Final = 1_000
LONG: Final = 1_000_000
TURN_EVENTS: Final = 10
DIGEST: Final = bytes(range(32))
MOMENT: Final = EPOCH.isoformat()
LAST_TURN_BUDGET: Final = 2.0

_numbers: Final = count(1)


def event(session_id: SessionId, turn_id: TurnId | None = None) -> Event:
    """About 230 bytes, as in the reference's measurements. Without a turn id it begins a turn."""
    return new_event(
        UserMessage(text="x" * 100),
        id=EventId(f"evt_{next(_numbers):x}"),
        session_id=session_id,
        ts=EPOCH,
        turn_id=turn_id,
    )


class RawFile:
    """The least that is durable: lines that have queued up are written and fdatasynced together, then acknowledged."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(f"{path}.lines", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    async def append(self, line: bytes) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((line, future))
        await future

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        os.close(self._file)
        self._close()

    def _close(self) -> None:
        """What else is open."""

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty() and (item := self._queue.get()) is not None:
                group.append(item)
            self._write([line for line, _ in group])
            self._loop.call_soon_threadsafe(self._settle, group)

    def _write(self, lines: list[bytes]) -> None:
        os.write(self._file, b"".join(line + b"\n" for line in lines))
        os.fdatasync(self._file)

    @staticmethod
    def _settle(group: list[tuple[bytes, asyncio.Future[None]]]) -> None:
        for _, future in group:
            future.set_result(None)


class BareRows(RawFile):
    """As `RawFile`, with rows of the tables instead of lines: one transaction a group, and nothing checked."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.wal_autocheckpoint(CHECKPOINT_PAGES)
        self._connection.execute(TABLES)
        self._seqs: Counter[str] = Counter()
        super().__init__(path)

    def _write(self, lines: list[bytes]) -> None:
        rows, ends = [], []
        for number, line in enumerate(lines):
            session_id = f"ses_{number}"
            self._seqs[session_id] += 1
            rows.append((session_id, self._seqs[session_id], line, DIGEST, 1))
            ends.append((session_id, self._seqs[session_id], DIGEST, MOMENT, MOMENT, DIGEST + DIGEST))
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, rows)
        self._connection.executemany(ADVANCE_WITH_INDEX, ends)
        self._connection.execute("COMMIT")

    def _close(self) -> None:
        self._connection.close()


class Rate(NamedTuple):
    """Appends a second, and microseconds of CPU an append."""

    a_second: float
    cpu: float


async def rate(appenders: int, append: Callable[[int], Awaitable[object]]) -> Rate:
    """Acknowledged appends of so many tasks, each of which waits for one before it makes the next."""
    end = time.perf_counter() + SECONDS
    done = 0

    async def appender(number: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            await append(number)
            done += 1

    begun, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(appender(number) for number in range(appenders)))
    return Rate(done / (time.perf_counter() - begun), (time.process_time() - cpu) * 1e6 / done)


async def appends(folder: Path) -> None:
    sync_ms = sync_cost_ms(folder)
    print(f"one write + fdatasync here: {sync_ms:.2f} ms\n")
    print(f"{'appenders':<14}{'log, a second':>14}{'us CPU':>8}{'raw file':>12}{'us CPU':>8}{'ratio':>8}{'by CPU':>8}")
    raw, rows = RawFile(folder / "raw"), BareRows(folder / "rows")
    async with await SqliteLog.open(folder / "home") as log:
        sessions = [SessionId(f"ses_{number}") for number in range(64)]

        async def ours(number: int) -> None:
            await log.append(sessions[number], [event(sessions[number])])

        async def within_a_turn(number: int) -> None:
            await log.append(sessions[number], [event(sessions[number], TurnId("turn"))])

        async def bare(number: int) -> None:
            await raw.append(encode_event(event(sessions[number])))

        async def rows_alone(number: int) -> None:
            await rows.append(encode_event(event(sessions[number])))

        async def beside(name: str, appenders: int, append: Callable[[int], Awaitable[object]]) -> float:
            pairs = [(await rate(appenders, append), await rate(appenders, bare)) for _ in range(ROUNDS)]
            mine, theirs = (Rate(*map(median, zip(*column, strict=True))) for column in zip(*pairs, strict=True))
            ratio = mine.a_second / theirs.a_second
            print(f"{name:<14}{mine.a_second:>14,.0f}{mine.cpu:>8.1f}", end="")
            print(f"{theirs.a_second:>12,.0f}{theirs.cpu:>8.1f}{ratio:>8.2f}{theirs.cpu / mine.cpu:>8.2f}")
            return ratio

        for appenders in (1, 8):
            await beside(str(appenders), appenders, ours)
        ratio = await beside("64", 64, ours)
        await beside("64, in turn", 64, within_a_turn)
        least = await beside("64, rows alone", 64, rows_alone)
    raw.close()
    rows.close()
    verdict = "met" if ratio >= BUDGET else "missed" if least >= BUDGET else "out of reach of rows alone"
    counts = "" if sync_ms >= SLOW_SYNC_MS else f" (does not count: fdatasync costs under {SLOW_SYNC_MS:.0f} ms here)"
    print(f"\nbudget at 64 appenders: {BUDGET}x of the raw file: {verdict}{counts}; {ratio / least:.2f}x of rows alone")


def sync_cost_ms(folder: Path) -> float:
    descriptor = os.open(folder / "sync", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    costs = []
    for _ in range(50):
        begun = time.perf_counter()
        os.write(descriptor, b"x" * 230)
        os.fdatasync(descriptor)
        costs.append(time.perf_counter() - begun)
    os.close(descriptor)
    return median(costs) * 1000


async def latency(folder: Path) -> None:
    """From the answer to the appender until a follower has the event. Below zero: the follower had it first."""
    session_id = SessionId("ses_follow")
    async with await SqliteLog.open(folder / "home") as log:
        seen: dict[int | None, float] = {}

        async def follower() -> None:
            async for item in log.follow(session_id):
                if isinstance(item, Event):
                    seen[item.seq] = time.perf_counter()

        following = asyncio.create_task(follower())
        acknowledged: dict[int, float] = {}
        for _ in range(FOLLOWED):
            version = await log.append(session_id, [event(session_id)])
            acknowledged[version] = time.perf_counter()
    await following
    delays = [(seen[version] - at) * 1000 for version, at in acknowledged.items()]
    print(f"follow latency: p50 {median(delays):.2f} ms, p95 {quantiles(delays, n=20)[-1]:.2f} ms")


async def reading(folder: Path) -> None:
    session_id = SessionId("ses_read")
    async with await SqliteLog.open(folder / "home") as log:
        for _ in range(READ // 1000):
            await log.append(session_id, [event(session_id) for _ in range(1000)])
        begun = time.perf_counter()
        found = await log.read(session_id)
        took = time.perf_counter() - begun
        assert len(found.events) == READ
        assert not found.damage
        print(f"read of {READ:,} events, chain checked: {took:.2f} s ({READ / took:,.0f} a second)")


def turn(session_id: SessionId, number: int) -> list[Event]:
    """A turn of ten events: it begins, says something a few times, answers and ends."""
    run_id, turn_id = RunId(f"run_{number}"), TurnId(f"turn_{number}")
    said: list[Payload] = [
        AssistantMessage(text="x" * 100, metadata=MessageMetadata(intermediate=True)) for _ in range(TURN_EVENTS - 5)
    ]
    payloads: list[Payload] = [
        UserMessage(text="do it"),
        TurnStarted(driver=DriverKind.STREAM),
        RunState(run_id=run_id, status=RunStatus.RUNNING),
        *said,
        AssistantMessage(text="done"),
        RunState(run_id=run_id, status=RunStatus.DONE, reason=NATURAL_END),
    ]
    return [
        new_event(one, id=EventId(f"evt_{next(_numbers):x}"), session_id=session_id, ts=EPOCH, turn_id=turn_id)
        for one in payloads
    ]


async def last_turn(folder: Path) -> None:
    session_id = SessionId("ses_turns")
    costs: dict[int, tuple[float, float]] = {}
    for size in (SHORT, LONG):
        home = folder / f"turns-{size}"
        async with await SqliteLog.open(home) as log:
            for number in range(0, size // TURN_EVENTS, 100):
                await log.append(session_id, [one for n in range(number, number + 100) for one in turn(session_id, n)])
        async with await SqliteLog.open(home, readonly=True) as log:
            costs[size] = (await read_last(log, session_id), command_cost("why", session_id, "--home", str(home)))
            if size == SHORT:
                part, whole = await log.read_turns(session_id), await log.read(session_id)
                assert (len(part.found.events), len(whole.events)) == (TURN_EVENTS, size)
                assert why_last(part) == why(whole.events)
    bare = command_cost()
    print(f"\n{'why of the last turn':<24}{SHORT:>12,}{LONG:>12,}{'ratio':>8}")
    for place, name in enumerate(("read and fold, ms", "the command, ms")):
        short, long = costs[SHORT][place] * 1000, costs[LONG][place] * 1000
        print(f"{name:<24}{short:>12.2f}{long:>12.2f}{long / short:>8.2f}")
    ratio = costs[LONG][0] / costs[SHORT][0]
    print(f"the command against `python -c pass`: {costs[LONG][1] / bare:.1f}x")
    print(f"budget: {LAST_TURN_BUDGET}x: {'met' if ratio <= LAST_TURN_BUDGET else 'missed'}")


async def read_last(log: SqliteLog, session_id: SessionId) -> float:
    """The median of reading the last turn and explaining it."""
    costs = []
    for _ in range(100):
        begun = time.perf_counter()
        why_last(await log.read_turns(session_id))
        costs.append(time.perf_counter() - begun)
    return median(costs)


def command_cost(*words: str) -> float:
    """The median of a command from its start to its end; without words, of an interpreter that does nothing."""
    command = [sys.executable, *(("-m", "interlock.cli", *words) if words else ("-c", "pass"))]
    costs = []
    for _ in range(7):
        begun = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        costs.append(time.perf_counter() - begun)
    return median(costs)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="interlock-bench-"))
    try:
        for part in (appends, latency, reading, last_turn):
            asyncio.run(part(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
