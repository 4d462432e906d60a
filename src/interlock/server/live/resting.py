"""Tasks at rest, of which the store keeps a line each. See the laws of `log.snapshots` and of `projections.task.rest`.

What is held here is bounded: nothing of a task that is in no list now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from interlock.log.snapshots import Snapshots
from interlock.projections.task.summary import TaskLine, TaskTally
from interlock.projections.task.view import TaskView
from interlock.projections.usage import Usage
from interlock.runtime.sleeping import line_fold, line_snapshot, read_line
from interlock.server.live.rooms import NEWEST, LineAge, line_age
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.wire.frames import TaskSummary

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class RestingTask:
    """One task at rest, as lists show it."""

    line: TaskLine
    can_wake: Callable[[SessionId, TaskLine], bool]

    @property
    def task_id(self) -> SessionId:
        return self.line.summary.task_id

    @property
    def version(self) -> int:
        return self.line.summary.version

    @property
    def newest_turns(self) -> tuple[tuple[TurnId, Usage], ...]:
        return self.line.newest_turns

    @property
    def age(self) -> LineAge:
        return line_age(self.line.summary)

    def tally(self) -> TaskTally:
        """Its share in figures over all tasks."""
        return self.line.tally

    def summary(self, now: datetime | None = None) -> TaskSummary:
        """Its line, with its badge at that time."""
        return self.line.shown(now, is_supervised=self.can_wake(self.task_id, self.line))


class RestingTasks:
    """The lines of one log. `can_wake` tells whether somebody would run a task."""

    def __init__(self, snapshots: Snapshots, can_wake: Callable[[SessionId, TaskLine], bool]) -> None:
        self._snapshots = snapshots
        self._can_wake = can_wake
        self._kept: dict[SessionId, int] = {}  # of the views that are held: up to which version

    @property
    def is_broken(self) -> bool:
        return self._snapshots.is_broken

    def take_changed(self) -> frozenset[SessionId]:
        """The tasks whose line was found to be changed, and has to be made anew."""
        changed = self._snapshots.take_changed()
        for task_id in changed:
            self._kept.pop(task_id, None)
        return changed

    async def missing(self) -> tuple[SessionId, ...]:
        """The tasks that have no line: they are not at rest, or nobody looked since."""
        return await self._snapshots.missing(line_fold())

    async def page(self, after: SessionId | None, limit: int) -> list[RestingTask]:
        """Lines in the order of ids."""
        found = await self._snapshots.page(line_fold(), after=after, limit=limit)
        return [RestingTask(read_line(one), self._can_wake) for one in found]

    async def newest(self) -> list[RestingTask]:
        """The lines of the tasks that came to rest last."""
        found = await self._snapshots.newest(line_fold(), limit=NEWEST)
        return [RestingTask(read_line(one), self._can_wake) for one in found]

    async def keep(self, views: Iterable[TaskView]) -> None:
        """Keep the lines of views that are at rest. What is kept already is not written again."""
        new = [one for one in views if self._kept.get(one.task_id) != one.version]
        for first in range(0, len(new), _BATCH):
            lines = [line_snapshot(one) for one in new[first : first + _BATCH]]
            if await self._snapshots.keep(line_fold(), lines) == len(lines):  # else which of them is not known: again
                self._kept |= {one.session_id: one.version for one in lines}

    def has(self, view: TaskView) -> bool:
        """Whether the line of a view as it is now was kept."""
        return self._kept.get(view.task_id) == view.version and not self.is_broken

    def line_of(self, view: TaskView) -> RestingTask:
        """The line of a view that is about to be dropped."""
        self._kept.pop(view.task_id, None)
        return RestingTask(view.line(), self._can_wake)

    async def proves(self, task_id: SessionId) -> bool:
        """Whether the events of a task are those that its line was made of. If not, it has no line any more."""
        if await self._snapshots.proves_chain(task_id):
            return True
        self._kept.pop(task_id, None)
        await self._snapshots.forget(task_id)
        return False
