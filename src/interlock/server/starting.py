"""The start of a server, told while it goes on: see `log/starting_file.py`.

Law: from before the log is opened until the server has read what it needs of it, `starting.json` says how much is read.
It accepts before that, and `server.json` is there then. What does not change for long is a start that does not go on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from interlock.log.lease import this_process
from interlock.log.private_file import folder_key
from interlock.log.sqlite.store import SqliteLog
from interlock.log.starting_file import StartProgress, remove_start, write_start

_TELL_SECONDS: Final = 0.2
_logger: Final = logging.getLogger("interlock.server")


class StartReport:
    """What is told of one start. `is_over` when it was told for the last time."""

    def __init__(self, home: Path) -> None:
        self._home = home
        here = this_process()
        self._said = StartProgress(here.pid, here.started, folder_key(home), time.time())
        self._log: SqliteLog | None = None
        self._total = 0
        self._is_ready: Callable[[], bool] = lambda: False
        self.is_over = False

    async def watch(self, log: SqliteLog, *, times: int) -> None:
        """From now on tell how much of a log is read, all of which is read so many times."""
        self._total = times * await log.count_events()
        self._log = log

    def tell(self) -> None:
        """Write it down. A start that cannot be told goes on all the same."""
        done = 0 if self._log is None else min(self._log.events_read, self._total)
        self._said = self._said._replace(done=done, total=self._total)
        try:
            write_start(self._home, self._said)
        except OSError as error:
            _logger.warning("the start cannot be told: %s", error)

    def end_when(self, is_ready: Callable[[], bool]) -> None:
        """It is over as soon as that holds, now or later."""
        self._is_ready = is_ready
        if is_ready():
            self.end()

    def end(self) -> None:
        """It is started, or will not be. Safe to call twice."""
        if not self.is_over:
            self.is_over = True
            remove_start(self._home)

    async def keep_telling(self) -> None:
        while not self.is_over:
            self.tell()
            await asyncio.sleep(_TELL_SECONDS)
            if self._is_ready():
                self.end()


@asynccontextmanager
async def told_start(home: Path) -> AsyncIterator[StartReport]:
    """A report for the block; who is done with the start before its end ends it."""
    report = StartReport(home)
    report.tell()
    telling = asyncio.create_task(report.keep_telling())
    try:
        yield report
    finally:
        telling.cancel()
        report.end()
