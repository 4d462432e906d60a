"""The board as a client knows it: one line for each task.

Laws:
1. While we are on the board its next tick is taken, an earlier one is a double, and a later one shows that a line was
   lost: then the board is asked for again, as a whole.
2. What is told is what changed: a line that is the same after a loss is no news.
3. Of two lines of one task the one with the higher version holds, whichever came first.
"""

from __future__ import annotations

from collections.abc import Iterable

from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardBehind, BoardJoined, BoardTask


class Board:
    """`tick` is None while we are not on the board: lines are then as they were last seen."""

    def __init__(self) -> None:
        self.tick: int | None = None
        self.tasks: dict[SessionId, TaskSummary] = {}

    @property
    def is_joined(self) -> bool:
        return self.tick is not None

    def join(self, joined: BoardJoined) -> tuple[TaskSummary, ...]:
        """Stand where the server stands, and return the lines that changed."""
        self.tick = joined.tick
        named = {line.task_id for line in joined.tasks}
        self.tasks = {task_id: line for task_id, line in self.tasks.items() if task_id in named}
        return self._take(joined.tasks)

    def hear(self, frame: BoardTask | BoardBehind) -> tuple[tuple[TaskSummary, ...], bool]:
        """Take a line. Returns what changed, and whether the board must be asked for again."""
        if self.tick is None:
            return (), False
        if isinstance(frame, BoardTask) and frame.tick <= self.tick:
            return (), False
        if isinstance(frame, BoardTask) and frame.tick == self.tick + 1:
            self.tick = frame.tick
            return self._take((frame.task,)), False
        self.tick = None
        return (), True

    def leave(self) -> None:
        """The connection is gone, and with it the place on the board."""
        self.tick = None

    def _take(self, lines: Iterable[TaskSummary]) -> tuple[TaskSummary, ...]:
        changed = []
        for line in lines:
            known = self.tasks.get(line.task_id)
            if known is None or (line != known and line.version >= known.version):
                self.tasks[line.task_id] = line
                changed.append(line)
        return tuple(changed)
