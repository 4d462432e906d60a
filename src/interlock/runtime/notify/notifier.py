"""Telling a person: a bell, the desktop, a command, a webhook; and who watches the board for what to tell.

Laws:
1. What is told was noted in the ledger first, with the channels that have yet to deliver it. The server delivers what
   it finds there when it starts: each notice at least once by each channel, with the same key. A channel that says that
   it failed is not asked again; one that took too long may not have delivered, and is asked by the next process.
2. Several watchers of one home that share a ledger tell each edge once: they note it under one lock, and the first one
   tells it. The server has a ledger for its channels, and the boards of all terminals have another for the bell.
3. A channel that fails is reported once, until it has worked again. It stops neither the others nor the watching.
4. Every delivery has a deadline, and what waits for a slow channel is bounded: the newest is left out, and reported.
5. Nothing passes through a shell, and nothing that an agent wrote reaches a terminal or a program's arguments as it is.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, Self, TypeAlias

import msgspec
from msgspec import structs

from interlock.projections.attention import (
    AttentionPolicy,
    AttentionState,
    AttentionTimerFired,
    Input,
    step,
)
from interlock.projections.attention_ledger import Notice, NoticeLedger, Undelivered, is_told, merge, owe, strike
from interlock.vocabulary.errors import PeerFault

LEDGER_NAME: Final = "notified.json"
BELL_LEDGER_NAME: Final = "rung.json"
DELIVERY_SECONDS: Final = 10.0
MAX_WAITING: Final = 100
_CLOSING_SECONDS: Final = 2.0
_LOCK_TRIES: Final = 200
_LOCK_TRY_SECONDS: Final = 0.01
_MAX_LEDGER_BYTES: Final = 64 * 1024 * 1024

Report: TypeAlias = Callable[[str], None]


class NoticeChannel(Protocol):
    """One way to tell somebody."""

    @property
    def name(self) -> str: ...

    async def deliver(self, notice: Notice) -> None:
        """Tell it. Raises `PeerFault` where that is known to have failed. It may be cancelled at any time."""
        ...


@dataclass(slots=True)
class LedgerFile:
    """A ledger of a home, shared by every process that tells by it. A file that cannot be read begins anew."""

    folder: Path
    name: str = LEDGER_NAME

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def read(self, now: datetime) -> NoticeLedger:
        """What was told so far. Where there is none, ends up to `now` are old news."""
        return self._stored() or NoticeLedger(horizon=now)

    def settle(
        self, known: NoticeLedger, told: Sequence[Notice], channels: Sequence[str] = ()
    ) -> tuple[NoticeLedger, tuple[Notice, ...]]:
        """Note what one watcher knows, durably, and what `channels` have to deliver. Gives it what others knew, and the
        notices that are its to tell."""
        with self._locked():
            stored = self._stored()
            merged = merge(known if stored is None else stored, known)
            ours = tuple(notice for notice in told if stored is None or not is_told(stored, notice))
            merged = owe(merged, ours, channels)
            if merged != stored:
                self._write(merged)
        return structs.replace(merged, undelivered=()), ours

    def owed(self) -> tuple[Undelivered, ...]:
        """What was noted, and is not known to have been tried."""
        stored = self._stored()
        return () if stored is None else stored.undelivered

    def strike(self, key: str, channel: str) -> None:
        """A channel has tried a notice: it is owed no longer."""
        with self._locked():
            stored = self._stored()
            left = None if stored is None else strike(stored, key, channel)
            if left is not None and left is not stored:
                self._write(left)

    def _stored(self) -> NoticeLedger | None:
        try:
            if self.path.stat().st_size <= _MAX_LEDGER_BYTES:
                return msgspec.json.decode(self.path.read_bytes(), type=NoticeLedger)
        except (OSError, msgspec.MsgspecError):
            pass
        return None

    def _write(self, ledger: NoticeLedger) -> None:
        descriptor, name = tempfile.mkstemp(prefix=f".{self.name}.", dir=self.folder)
        made = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(msgspec.json.encode(ledger))
                stream.flush()
                os.fsync(stream.fileno())
            made.replace(self.path)
        finally:
            made.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path.with_suffix(".lock"), flags, 0o600)
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a file. `TimeoutError`, which is an `OSError`, where somebody keeps it: they may have been suspended."""
    for _ in range(_LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_TRY_SECONDS)
    raise TimeoutError("another process keeps it locked")


@dataclass(slots=True)
class _Worker:
    """One channel, its line of notices, and whether it is known to fail."""

    channel: NoticeChannel
    report: Report
    seconds: float
    file: LedgerFile | None = None
    waiting: asyncio.Queue[Notice] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))
    is_failing: bool = False

    def put(self, notice: Notice) -> None:
        try:
            self.waiting.put_nowait(notice)
        except asyncio.QueueFull:
            self._failed(f"more than {MAX_WAITING} notices wait for it")
            self._strike(notice)

    async def run(self) -> None:
        while True:
            notice = await self.waiting.get()
            try:
                async with asyncio.timeout(self.seconds):
                    await self.channel.deliver(notice)
                self.is_failing = False
            except TimeoutError:
                self._failed(f"it took longer than {self.seconds:g} s")
                self.waiting.task_done()
                continue  # whether it arrived is not known: it is owed still
            except (PeerFault, OSError, ValueError) as error:
                self._failed(str(error))
            except Exception as error:  # whatever else: the next notice is tried all the same
                self._failed(type(error).__name__)
            except asyncio.CancelledError:
                self.waiting.task_done()
                raise  # it is owed still
            await asyncio.to_thread(self._strike, notice)
            self.waiting.task_done()

    def _strike(self, notice: Notice) -> None:
        if self.file is not None:
            with suppress(OSError):  # it may be delivered once more
                self.file.strike(notice.key, self.channel.name)

    def _failed(self, why: str) -> None:
        if not self.is_failing:
            self.report(f"notifications by {self.channel.name} fail: {why}")
        self.is_failing = True


class Outlets:
    """Every channel, each at its own pace. Use it as a context manager; the end waits for what was begun, bounded."""

    def __init__(
        self,
        channels: Sequence[NoticeChannel],
        report: Report,
        *,
        seconds: float = DELIVERY_SECONDS,
        file: LedgerFile | None = None,
    ) -> None:
        """`file`: where it stands what is owed; without one, what is not delivered before the end is lost."""
        self._workers = [_Worker(channel, report, seconds, file) for channel in channels]
        self._file = file
        self._tasks: list[asyncio.Task[None]] = []
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        await self._take_up()
        self._tasks = [asyncio.create_task(worker.run()) for worker in self._workers]
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels."""
        return tuple(worker.channel.name for worker in self._workers)

    async def _take_up(self) -> None:
        """What an earlier process noted and did not deliver. What no channel is there for any more is let go."""
        workers = {worker.channel.name: worker for worker in self._workers}
        for owed in () if self._file is None else await asyncio.to_thread(self._file.owed):
            if owed.channel in workers:
                workers[owed.channel].put(owed.notice)
            elif self._file is not None:
                await asyncio.to_thread(self._file.strike, owed.notice.key, owed.channel)

    async def __aexit__(self, *_: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._seconds, _CLOSING_SECONDS)):
                await self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tell(self, notice: Notice) -> None:
        """Give a notice to every channel."""
        for worker in self._workers:
            worker.put(notice)

    async def drain(self) -> None:
        """Wait until every channel has done what it was given."""
        await asyncio.gather(*(worker.waiting.join() for worker in self._workers))


def steady_clock() -> Callable[[], datetime]:
    """The time of day as it was, going on steadily: a clock that is set back must not hold back a notice."""
    began, at = time.monotonic(), datetime.now(UTC)
    return lambda: at + timedelta(seconds=time.monotonic() - began)


@dataclass(slots=True)
class BoardWatcher:
    """Feeds what is seen of a board to `attention.step`, keeps its ledger, and tells.

    `now` is the clock; the loop's own timers wake it for a deadline.
    """

    file: LedgerFile
    tell: Callable[[Notice], None]
    report: Report
    policy: AttentionPolicy = field(default_factory=AttentionPolicy)
    now: Callable[[], datetime] = field(default_factory=steady_clock)
    channels: tuple[str, ...] = ()
    _state: AttentionState | None = None
    _is_unwritable: bool = False

    async def take(self, given: Input) -> None:
        """Take in one thing, and tell what is to be told."""
        now = self.now()
        before = self._state
        if before is None:
            before = AttentionState(ledger=await asyncio.to_thread(self.file.read, now), policy=self.policy)
        after, told = step(before, given, now)
        if after.ledger is not before.ledger or self._state is None:
            ledger, told = await asyncio.to_thread(self._settle, after.ledger, told)
            after = replace(after, ledger=ledger)
        self._state = after
        for notice in told:
            self.tell(notice)

    async def follow(self, board: AsyncIterator[Input]) -> None:
        """Take in a board until it ends."""
        coming = asyncio.ensure_future(anext(board, None))
        try:
            while True:
                done, _ = await asyncio.wait((coming,), timeout=self._wait_seconds())
                if not done:
                    await self.take(AttentionTimerFired())
                    continue
                seen = coming.result()
                if seen is None:
                    return
                await self.take(seen)
                coming = asyncio.ensure_future(anext(board, None))
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    def _wait_seconds(self) -> float | None:
        deadline = None if self._state is None else self._state.deadline
        return None if deadline is None else max(0.0, (deadline - self.now()).total_seconds())

    def _settle(self, ledger: NoticeLedger, told: tuple[Notice, ...]) -> tuple[NoticeLedger, tuple[Notice, ...]]:
        try:
            return self.file.settle(ledger, told, self.channels)
        except OSError as error:
            # Not telling would leave a person unaware; what is told may be told again after a restart.
            if not self._is_unwritable:
                self.report(f"{self.file.path} cannot be written ({error}): after a restart, notices may repeat")
            self._is_unwritable = True
            return ledger, told
