"""What the line of a session says of those below it: how many wait for a person, and how a workflow there stands.

Laws:
1. It is no part of any log: it is put on a line when the line is told, and changes no badge.
2. Of those below, only what is here is counted. A session at rest waits for nobody; its workflow is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from interlock.projections.task.view import TaskView
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Attention, WorkflowState
from interlock.vocabulary.wire.frames import TaskSummary, WorkflowCounts

_MAX_DEPTH: Final = 100  # as the configuration allows; a log that tells of a circle ends here
# Which of several is shown: one that needs somebody, then one that goes on, then one that did not complete.
_RANKS: Final = (WorkflowState.HELD, WorkflowState.RUNNING)


@dataclass(frozen=True, slots=True)
class _Child:
    """What is known of a session below another one."""

    parent: SessionId
    waits: bool
    workflow: WorkflowCounts | None


class SessionsBelow:
    """The trees of sessions that are here."""

    def __init__(self) -> None:
        self._children: dict[SessionId, _Child] = {}
        self._below: dict[SessionId, dict[SessionId, None]] = {}

    def note(self, view: TaskView) -> tuple[SessionId, ...]:
        """Take note of a session as it is now; the sessions whose line changes with it."""
        opened, badge = view.opened, view.badge
        if opened is None or opened.parent_id is None:
            return ()
        waits = badge is not None and badge.needs_person and badge.attention is not Attention.NONE
        return self._put(view.task_id, _Child(opened.parent_id, waits, view.workflow))

    def note_line(self, line: TaskSummary) -> None:
        """The same for one at rest."""
        if line.parent_id is not None and line.root_id is not None and line.workflow is not None:
            self._put(line.task_id, _Child(line.parent_id, waits=False, workflow=line.workflow))

    def forget(self, task_id: SessionId) -> None:
        """The session came to rest, and is not looked at any more."""
        known = self._children.get(task_id)
        if known is not None and known.workflow is None and task_id not in self._below:
            del self._children[task_id]
            self._below[known.parent].pop(task_id, None)
            if not self._below[known.parent]:
                del self._below[known.parent]

    def completed(self, line: TaskSummary) -> TaskSummary:
        """A line with what is below it."""
        if line.task_id not in self._below:
            return line
        waits = sum(self._children[one].waits for one in self._descendants(line.task_id))
        workflow = line.workflow or self._workflow_of(line.task_id)
        return structs.replace(line, waits_below=waits, workflow=workflow)

    def _put(self, task_id: SessionId, known: _Child) -> tuple[SessionId, ...]:
        if self._children.get(task_id) == known:
            return ()
        self._children[task_id] = known
        self._below.setdefault(known.parent, {})[task_id] = None
        return tuple(self._ancestors(task_id))

    def _ancestors(self, task_id: SessionId) -> Iterator[SessionId]:
        for _ in range(_MAX_DEPTH):
            known = self._children.get(task_id)
            if known is None:
                return
            task_id = known.parent
            yield task_id

    def _descendants(self, task_id: SessionId) -> list[SessionId]:
        found, seen = list(self._below.get(task_id, ())), {task_id}
        for one in found:  # It grows while it is read.
            if one not in seen:
                seen.add(one)
                found += [below for below in self._below.get(one, ()) if below not in seen]
        return found

    def _workflow_of(self, task_id: SessionId) -> WorkflowCounts | None:
        known = [self._children[one] for one in self._below.get(task_id, ())]
        return max((one.workflow for one in known if one.workflow is not None), key=_rank, default=None)


def _rank(workflow: WorkflowCounts) -> tuple[int, str]:
    order = _RANKS.index(workflow.status) if workflow.status in _RANKS else len(_RANKS)
    is_whole = workflow.status is WorkflowState.COMPLETED
    return -order - is_whole, workflow.id
