"""The server tells: its own board, watched for who needs a person, and told by the channels of the configuration.

Laws:
1. Whatever happens here harms nobody else: it is logged, without a value of the configuration, and tried again later.
2. The board is heard in the process itself. What waits to be looked at is bounded: of each task the newest line stays.
3. The end lets what was noted be told. It is bounded.
4. Without a channel nothing is watched, and it costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from interlock.projections.attention import AttentionPolicy, AttentionTimerFired, Input, Sighted, Surveyed
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify.notifier import BoardWatcher, LedgerFile, NoticeChannel, Outlets
from interlock.server.live.hub import Hub
from interlock.server.live.rooms import RoomName
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardJoin, BoardJoined, BoardTask

MAX_LINES: Final = 1_000
ENDING_SECONDS: Final = 1.0
_FIRST_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 60.0
_READ_LOG_SECONDS: Final = 0.25
_LONG_SECONDS: Final = 3600.0
_JOIN: Final = BoardJoin(id="notices")
_frames: Final = msgspec.json.Decoder(BoardJoined | BoardTask)
_logger: Final = logging.getLogger("interlock.server")


class BoardEar:
    """A member of the board's room, as a board that can be followed. It never falls behind."""

    def __init__(self) -> None:
        self._waiting: deque[TaskSummary] = deque()
        self._bell = asyncio.Event()
        self._is_over = False

    def offer(self, frame: bytes, room: RoomName) -> bool:
        """A line that changed."""
        del room
        self.answer(frame)
        return True

    def answer(self, frame: bytes) -> None:
        """Every line, or one. It never raises: whoever tells the room has other members."""
        try:
            told = _frames.decode(frame)
        except msgspec.MsgspecError as error:
            _logger.error("the watch for notices cannot read a line of the board (%s)", type(error).__name__)
            return
        self._waiting += told.tasks if isinstance(told, BoardJoined) else (told.task,)
        if len(self._waiting) > MAX_LINES:
            self._waiting = deque({one.task_id: one for one in self._waiting}.values())
        self._bell.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._bell.set()

    def take(self) -> tuple[TaskSummary, ...]:
        """What was heard and not taken yet."""
        heard, self._waiting = tuple(self._waiting), deque()
        self._bell.clear()
        return heard

    async def wait(self, seconds: float) -> None:
        """Until there is something to take, but no longer than that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bell.wait()

    async def lines(self, is_whole: Callable[[], bool] = lambda: True) -> AsyncIterator[Input]:
        """What was heard, until the end; and once, that this was all that there is."""
        is_surveyed = False
        while True:
            while self._waiting and not self._is_over:
                yield Sighted(self._waiting.popleft())
            if self._is_over:
                return
            if not is_surveyed and is_whole():
                is_surveyed = True
                yield Surveyed()
                continue
            self._bell.clear()
            await self.wait(_READ_LOG_SECONDS if not is_surveyed else _LONG_SECONDS)


class Notices:
    """Tells of one home by some channels, once it is given the hub to watch."""

    def __init__(self, home: Path, settings: NotifySection, outlets: Outlets) -> None:
        self._file = LedgerFile(home)
        self._policy = AttentionPolicy(kinds=frozenset(settings.kinds), quiet_seconds=settings.quiet_seconds)
        self._outlets = outlets
        self._ear: BoardEar | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    def watch(self, hub: Hub) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._keep_watching(hub))

    async def end(self) -> None:
        """Finish what is being noted, and watch no more."""
        self._is_ending = True
        if self._ear is not None:
            self._ear.end()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=ENDING_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_watching(self, hub: Hub) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_ending:
            began = asyncio.get_running_loop().time()
            try:
                await self._watch_once(hub)
            except Exception as error:
                # Only its kind: what an error says may hold what it failed on.
                _logger.error("the watch for notices failed (%s), and is begun anew", type(error).__name__)
                if asyncio.get_running_loop().time() - began > _MAX_PAUSE_SECONDS:
                    pause = _FIRST_PAUSE_SECONDS
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    async def _watch_once(self, hub: Hub) -> None:
        ear = self._ear = BoardEar()
        watcher = BoardWatcher(
            self._file, self._outlets.tell, _logger.warning, self._policy, channels=self._outlets.names
        )
        try:
            await watcher.take(AttentionTimerFired())  # from when on ends are news is noted before anything is seen
            # Also before the whole log is read: its lines come when they are known.
            hub.rooms.join_board(ear, _JOIN)
            await watcher.follow(ear.lines(lambda: hub.is_ready))
        finally:
            hub.rooms.drop(ear)


@asynccontextmanager
async def noticing(
    home: Path, settings: NotifySection, channels: Sequence[NoticeChannel]
) -> AsyncIterator[Notices | None]:
    """Notices for as long as the block; None where there is no channel to tell by."""
    if not channels:
        yield None
        return
    async with Outlets(channels, _logger.warning, file=LedgerFile(home)) as outlets:
        notices = Notices(home, settings, outlets)
        try:
            yield notices
        finally:
            await notices.end()
