"""How fast the log is: durable appends a second, follow latency, reading. `make bench` runs this.

Appends stand beside a bare file that is written and fdatasynced by a thread of its own with the same grouping, in the
same run and taken in turns: a disk that is shared says little by itself. The budget holds where fdatasync costs 1 ms
or more; a faster disk measures Python.
"""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from interlock.log.sqlite import SqliteLog
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.codec import encode_event
from interlock.vocabulary.conversation import UserMessage
from interlock.vocabulary.events import Event, new_event
from interlock.vocabulary.ids import EventId, SessionId

ROUNDS: Final = 5
SECONDS: Final = 0.6
FOLLOWED: Final = 300
READ: Final = 100_000
BUDGET: Final = 0.5
SLOW_SYNC_MS: Final = 1.0

_numbers: Final = count(1)


def event(session_id: SessionId) -> Event:
    """About 230 bytes, as in the reference's measurements."""
    return new_event(
        UserMessage(text="x" * 100), id=EventId(f"evt_{next(_numbers):x}"), session_id=session_id, ts=EPOCH
    )


class RawFile:
    """The least that is durable: lines that have queued up are written and fdatasynced together, then acknowledged."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
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

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty() and (item := self._queue.get()) is not None:
                group.append(item)
            os.write(self._file, b"".join(line + b"\n" for line, _ in group))
            os.fdatasync(self._file)
            self._loop.call_soon_threadsafe(self._settle, group)

    @staticmethod
    def _settle(group: list[tuple[bytes, asyncio.Future[None]]]) -> None:
        for _, future in group:
            future.set_result(None)


async def rate(appenders: int, append: Callable[[int], Awaitable[object]]) -> float:
    """Acknowledged appends a second of so many tasks, each of which waits for one before it makes the next."""
    end = time.perf_counter() + SECONDS
    done = 0

    async def appender(number: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            await append(number)
            done += 1

    begun = time.perf_counter()
    await asyncio.gather(*(appender(number) for number in range(appenders)))
    return done / (time.perf_counter() - begun)


async def appends(folder: Path) -> None:
    sync_ms = sync_cost_ms(folder)
    print(f"one write + fdatasync here: {sync_ms:.2f} ms\n")
    print(f"{'appenders':<12}{'log, a second':>16}{'raw file':>12}{'ratio':>8}")
    raw = RawFile(folder / "raw")
    async with await SqliteLog.open(folder / "home") as log:
        sessions = [SessionId(f"ses_{number}") for number in range(64)]

        async def ours(number: int) -> None:
            await log.append(sessions[number], [event(sessions[number])])

        async def bare(number: int) -> None:
            await raw.append(encode_event(event(sessions[number])))

        ratio = 0.0
        for appenders in (1, 8, 64):
            pairs = [(await rate(appenders, ours), await rate(appenders, bare)) for _ in range(ROUNDS)]
            mine, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
            ratio = mine / theirs
            print(f"{appenders:<12}{mine:>16,.0f}{theirs:>12,.0f}{ratio:>8.2f}")
    raw.close()
    verdict = "met" if ratio >= BUDGET else "missed"
    counts = "" if sync_ms >= SLOW_SYNC_MS else f" (does not count: fdatasync costs under {SLOW_SYNC_MS:.0f} ms here)"
    print(f"\nbudget at 64 appenders: {BUDGET}x of the raw file: {verdict}{counts}")


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


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="interlock-bench-"))
    try:
        for part in (appends, latency, reading):
            asyncio.run(part(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
