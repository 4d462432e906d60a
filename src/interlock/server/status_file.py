"""`statusline.json`: how many sessions stand how, in a small file for prompts and status bars that must not wait.

Laws:
1. The file names the process that wrote it, by number, start time and boot: who reads it can tell whether it is alive.
2. It is touched every `TOUCH_SECONDS`: a server that stands still is told from one that has nothing to say.
3. It holds numbers, and no text of an agent. Only its owner can read it. It goes with the server.
4. Whatever happens here harms nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from interlock.log.lease import this_process
from interlock.log.port import Log, LogUnavailable
from interlock.log.private_file import folder_key
from interlock.server.live.hub import Hub
from interlock.server.log_watch import problem_of
from interlock.server.notices import BoardEar
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import BoardGroup
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardJoin

STATUS_FILE: Final = "statusline.json"
TOUCH_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 0.1
_JOIN: Final = BoardJoin(id="statusline")
_logger: Final = logging.getLogger("interlock.server")


class StatusCounts(Struct, frozen=True, kw_only=True):
    """What the file says. `is_ready` is false until the whole log was read; `has_log_problem`: nothing is recorded."""

    pid: int
    started: str
    boot_id: str
    folder: str
    is_ready: bool
    has_log_problem: bool
    groups: dict[BoardGroup, int]


class StatusLineFile:
    """Keeps the file of one home up to date while it watches a hub."""

    def __init__(self, home: Path, hub: Hub, log: Log) -> None:
        self._path = home / STATUS_FILE
        self._hub = hub
        self._log = log
        self._here = this_process()
        self._folder = folder_key(home)
        self._groups: dict[SessionId, BoardGroup] = {}
        self._written: StatusCounts | None = None

    async def keep(self) -> None:
        """Write each change, a moment after it came, for ever."""
        ear = BoardEar()
        self._hub.rooms.join_board(ear, _JOIN)
        try:
            await self._count_all()
            while True:
                for line in ear.take():
                    self._note(line)
                self._write()
                await asyncio.sleep(SETTLE_SECONDS)  # a burst of lines is one write
                await ear.wait(TOUCH_SECONDS if self._hub.is_ready else SETTLE_SECONDS)
        finally:
            self._hub.rooms.drop(ear)

    async def _count_all(self) -> None:
        """Also the sessions at rest that a board does not show."""
        try:
            async for line, _ in self._hub.tallies():
                self._note(line)
        except LogUnavailable as error:
            _logger.warning("%s counts some sessions only (%s)", STATUS_FILE, error)

    def remove(self) -> None:
        """There is no server any more that could be asked."""
        self._path.unlink(missing_ok=True)

    def _note(self, line: TaskSummary) -> None:
        if line.badge is not None:
            self._groups[line.task_id] = line.badge.group

    def _write(self) -> None:
        groups = Counter(self._groups.values())
        counts = StatusCounts(
            pid=self._here.pid,
            started=self._here.started,
            boot_id=self._here.boot_id,
            folder=self._folder,
            is_ready=self._hub.is_ready,
            has_log_problem=bool(problem_of(self._log)),
            groups={group: groups[group] for group in BoardGroup},
        )
        if counts == self._written:
            os.utime(self._path)
            return
        draft = self._path.with_name(f".{self._path.name}.{self._here.pid}")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(msgspec.json.encode(counts))
        draft.replace(self._path)
        self._written = counts


@asynccontextmanager
async def keeping_status(home: Path, hub: Hub, log: Log) -> AsyncIterator[None]:
    """`statusline.json`, for as long as the block."""
    file = StatusLineFile(home, hub, log)
    task = asyncio.create_task(_kept(file))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with suppress(OSError):
            file.remove()


async def _kept(file: StatusLineFile) -> None:
    while True:
        try:
            await file.keep()
        except OSError as error:
            # A reader is told that it is old; nothing else depends on it.
            _logger.warning("%s cannot be written (%s)", STATUS_FILE, error.strerror)
            await asyncio.sleep(TOUCH_SECONDS)
