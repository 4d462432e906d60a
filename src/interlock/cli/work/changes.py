"""Waiting for sessions to change: their rooms are heard, and whoever waits is told to look again.

Laws:
1. Frames say that something changed, and never what is true: that is asked for, and proven by the answer.
2. A server that is started again is found again. One that stays away for longer than the patience is unreachable.
3. Without a frame there is a look now and then, and never more than one a second.
4. The time is up when it is, whatever is being waited for. What is waited for is left as it is.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from interlock.cli.look.logs import frames
from interlock.cli.server.api import SocketFrame
from interlock.vocabulary.errors import InterlockError, Unreachable

SLOW_LOOK_SECONDS: Final = 30.0
SOON_SECONDS: Final = 1.0
# What only adds text changes nothing that is waited for.
_TEXT: Final = frozenset({"chat:start", "chat:chunk", "chat:thought", "chat:receipt"})


class TimeUp(InterlockError):
    """The time that somebody wanted to wait is over."""


class SessionChanges:
    """The rooms of some sessions, heard in the background. `hurry` asks for the next look soon."""

    def __init__(self, home: Path, task_ids: Sequence[str], *, patience_seconds: float) -> None:
        self._home = home
        self._task_ids = tuple(task_ids)
        self._patience_seconds = patience_seconds
        self._heard: queue.SimpleQueue[tuple[str, SocketFrame | Exception]] = queue.SimpleQueue()
        self._is_hurried = False
        for task_id in self._task_ids:
            threading.Thread(target=self._hear, args=(task_id,), daemon=True).start()

    def hurry(self) -> None:
        """Look again after a second, if nothing is heard before."""
        self._is_hurried = True

    def looks(self, deadline: float | None) -> Iterator[dict[str, list[SocketFrame]]]:
        """The sessions to look at, each with the frames that were heard of it; all of them at first.

        `TimeUp` at `deadline`, by the monotonic clock; `Unreachable` where a server stays away.
        """
        yield {task_id: [] for task_id in self._task_ids}
        while True:
            yield self._next(deadline)

    def _next(self, deadline: float | None) -> dict[str, list[SocketFrame]]:
        wait_seconds, self._is_hurried = (SOON_SECONDS if self._is_hurried else SLOW_LOOK_SECONDS), False
        now = time.monotonic()
        end = now + wait_seconds if deadline is None else min(now + wait_seconds, deadline)
        if deadline is not None and now >= deadline:
            raise TimeUp("the time is up")
        heard: dict[str, list[SocketFrame]] = {}
        while True:
            try:
                # What came already is taken together: one look for all of it.
                task_id, told = self._heard.get(timeout=0.0 if heard else max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if isinstance(told, Exception):
                raise told
            heard.setdefault(task_id, []).append(told)
        if not heard and deadline is not None and time.monotonic() >= deadline:
            raise TimeUp("the time is up")
        return heard or {task_id: [] for task_id in self._task_ids}

    def _hear(self, task_id: str) -> None:
        try:
            patience = self._patience_seconds
            for frame in frames(self._home, task_id, patience_seconds=patience, was_there=True):
                if frame.event not in _TEXT:
                    self._heard.put((task_id, frame))
            told: Exception = Unreachable("the server said no more")
        except Exception as error:  # whatever it is, it is raised again where somebody waits
            told = error
        self._heard.put((task_id, told))
