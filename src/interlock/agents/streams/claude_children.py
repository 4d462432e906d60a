"""Work that Claude Code has in the background: agents and shells, by its own task ids.

A task that ended is told to the model afterwards, in a turn that nobody asked for. Until that turn is over, the task
stays in the ledger as `notice:<id>`: between the two the agent looks quiet and is not.
"""

from __future__ import annotations

from typing import Final

from interlock.agents.observations import ChildrenChanged, Observation
from interlock.vocabulary.foreign_json import Fields, members, text

_MAX_TASKS: Final = 1024
_TOLD_TO_THE_MODEL: Final = frozenset({"completed", "failed"})


class Children:
    """The ledger. Each method says what changed, if something did."""

    def __init__(self) -> None:
        self._tasks: dict[str, None] = {}
        self._notices: dict[str, None] = {}
        self._calls: dict[str, str] = {}
        self._told: frozenset[str] = frozenset()

    @property
    def open(self) -> frozenset[str]:
        return frozenset(self._tasks) | {f"notice:{task}" for task in self._notices}

    def call_of(self, task_id: str) -> str:
        """The tool call that started a task: by it a sub-agent's own lines name their writer."""
        return self._calls.get(task_id, task_id)

    def system(self, frame: Fields) -> list[Observation]:
        """A `system` frame about a task."""
        task_id = text(frame, "task_id")
        match text(frame, "subtype"):
            case "background_tasks_changed":
                tasks = [task for task in members(frame, "tasks") if isinstance(task, dict)]
                self._tasks = dict.fromkeys([text(task, "task_id") for task in tasks][:_MAX_TASKS])
            case "task_started":
                self._start(frame, task_id)
            case "task_notification" if task_id in self._tasks:
                del self._tasks[task_id]
                if text(frame, "status") in _TOLD_TO_THE_MODEL:
                    self._notices[task_id] = None
        return self._changed()

    def model_has_heard(self) -> list[Observation]:
        """The agent is at rest, or gave a result: whatever ended before that needs no turn any more."""
        self._notices.clear()
        return self._changed()

    def _start(self, frame: Fields, task_id: str) -> None:
        if call_id := text(frame, "tool_use_id"):
            self._calls[task_id] = call_id
            if len(self._calls) > _MAX_TASKS:
                del self._calls[next(iter(self._calls))]
        if frame.get("is_backgrounded") is True and len(self._tasks) < _MAX_TASKS:
            self._tasks[task_id] = None

    def _changed(self) -> list[Observation]:
        if self.open == self._told:
            return []
        self._told = self.open
        return [ChildrenChanged(open=self._told)]
