"""Waiting for a server that starts: as long as it goes on, with a bar for a person.

Law: whoever waits gives up when the start is over without a server, or when for a bound of time nothing of it changes.
How long it takes in all is no reason to give up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from interlock.cli import output
from interlock.cli.progress import Report, progress
from interlock.cli.server.api import ServerApi
from interlock.log.starting_file import StartProgress, read_start
from interlock.vocabulary.errors import StillStarting

STALL_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05
_PATIENT_SECONDS: Final = 3.0


class StartWatch:
    """A start that is looked at again and again."""

    def __init__(self, home: Path, stall_seconds: float = STALL_SECONDS) -> None:
        self._home = home
        self._stall_seconds = stall_seconds
        self._began = self._changed_at = time.monotonic()
        self._seen: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def is_stalled(self) -> bool:
        return time.monotonic() - self._changed_at >= self._stall_seconds

    def look(self) -> StartProgress | None:
        found = read_start(self._home)
        seen = () if found is None else (found.pid, found.done, found.total)
        if seen != self._seen:
            self._seen, self._changed_at = seen, time.monotonic()
        return found


class StartBar:
    """What a person sees of it: a bar on a terminal, elsewhere one line when it takes long."""

    def __init__(self, home: Path, stall_seconds: float = STALL_SECONDS) -> None:
        self.watch = StartWatch(home, stall_seconds)
        self._report: Report = lambda _done, _total: None
        self._is_told = False

    @contextmanager
    def shown(self) -> Iterator[None]:
        with progress("reading the log", of_bytes=False) as self._report:
            yield

    def tick(self, what: str = "") -> None:
        """Look again, and show it. `what` else is known to take long."""
        found = self.watch.look()
        if found is not None:
            self._report(found.done, found.total or None)
        if self.watch.seconds > _PATIENT_SECONDS and not self._is_told:
            self._is_told = True
            how = "" if found is None else f" ({found.words})"
            output.note(f"the server is starting{how}{what}; waiting for it, Ctrl-C leaves it starting")
        time.sleep(LOOK_SECONDS)


def started_api(home: Path, seconds: float | None = None) -> ServerApi:
    """The server of a home. One that is starting is waited for; `StillStarting` where it does not go on, or is not
    ready after so many seconds."""
    try:
        return ServerApi.of_home(home)
    except StillStarting as starting:
        output.note(f"{str(starting).partition('; ')[0]}: waiting for it")
        last = starting
    bar = StartBar(home)
    with bar.shown():
        while not bar.watch.is_stalled and (seconds is None or bar.watch.seconds < seconds):
            bar.tick()
            try:
                return ServerApi.of_home(home)
            except StillStarting as starting:
                last = starting
    raise last
