"""The git worktree of a session, folded from its log."""

from __future__ import annotations

from typing import Final

from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.events.workspace import WorktreeChanged, WorktreePhase
from interlock.vocabulary.wire.worktree import TaskWorktree

_MAX_PROBLEM: Final = 200
_SAID: Final = {
    WorktreePhase.PLANNED: "is to be made",
    WorktreePhase.CREATED: "is there",
    WorktreePhase.FAILED: "could not be made",
    WorktreePhase.MERGING: "is to be merged",
    WorktreePhase.MERGED: "was merged",
    WorktreePhase.REMOVING: "is to be removed",
    WorktreePhase.REMOVED: "was removed",
}


def after(known: TaskWorktree | None, told: Payload) -> TaskWorktree | None:
    """The worktree after an event; as it was, where the event is about something else."""
    if not isinstance(told, WorktreeChanged):
        return known
    merged = told.head if told.phase is WorktreePhase.MERGED else "" if known is None else known.merged
    return TaskWorktree(
        phase=told.phase,
        path=told.path,
        branch=told.branch,
        base=told.base,
        target=told.target,
        repository=told.repository,
        port=told.port,
        merged=merged,
        problem=told.problem,
        source=told.source,
    )


def worktree_sentence(told: WorktreeChanged) -> str:
    """What happened to a worktree, in words. Text from outside is quoted and cut."""
    where = f" into {told.target}" if told.phase in (WorktreePhase.MERGING, WorktreePhase.MERGED) else ""
    why = f": {told.problem[:_MAX_PROBLEM]!r}" if told.problem else ""
    return f"the worktree of branch {told.branch} {_SAID[told.phase]}{where}{why}"
