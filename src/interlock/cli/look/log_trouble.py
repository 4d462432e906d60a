"""Telling a person that waits or follows that the server cannot write its log, and that it can again.

Laws:
1. Each change is told once, on standard error. Nothing else changes: the command waits or follows on.
2. A server that cannot be asked is told elsewhere: here it changes nothing.
3. When the block is over, nothing more is told.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from interlock.cli import output
from interlock.cli.server.api import ServerApi
from interlock.cli.wire.routes import SERVER
from interlock.vocabulary.errors import InterlockError

_LOOK_SECONDS: Final = 5.0


class LogTrouble:
    """Why the server cannot write its log; blank while it can, as far as is known."""

    def __init__(self, home: Path, doing: str) -> None:
        self.problem = ""
        self._home = home
        self._doing = doing
        self._is_over = threading.Event()
        self._telling = threading.Lock()

    def look(self) -> None:
        """Ask the server now and then, until `end`."""
        while not self._is_over.is_set():
            with suppress(InterlockError):
                self._tell(ServerApi.of_home(self._home).get(SERVER).get("log_problem", ""))
            self._is_over.wait(_LOOK_SECONDS)

    def _tell(self, problem: str) -> None:
        with self._telling:
            if self._is_over.is_set() or problem == self.problem:
                return
            if not problem:
                output.note("the server can write its log again")
            else:
                output.note(f"the server cannot write its log, nothing new is recorded; still {self._doing}: {problem}")
            self.problem = problem

    def end(self) -> None:
        """Do not wait for an answer that is under way: it is not told any more."""
        with self._telling:
            self._is_over.set()


@contextmanager
def telling_log_trouble(home: Path, doing: str) -> Iterator[LogTrouble]:
    """Tell it during the block. `doing` says what the command does on: waiting, following."""
    trouble = LogTrouble(home, doing)
    threading.Thread(target=trouble.look, daemon=True).start()
    try:
        yield trouble
    finally:
        trouble.end()
