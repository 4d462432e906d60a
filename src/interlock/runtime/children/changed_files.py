"""Which files changed while the child of a step worked, as the log has its trees, and why they may not be its own."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from interlock.lifecycle.children.checkpoint import ChangedFiles
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.log.port import Log
from interlock.vocabulary.events.workspace import WorkspaceChanged, WorkspacePhase
from interlock.vocabulary.ids import SessionId, StepId


async def changed_files(log: Log, session: SessionId, folder: Path) -> ChangedFiles:
    """The files that the last turn of a session changed. Read it once its edges are settled."""
    events = (await log.read_turns(session)).found.events
    told = [event.data for event in events if isinstance(event.data, WorkspaceChanged)]
    end = next((one for one in reversed(told) if one.phase is WorkspacePhase.END), None)
    return ChangedFiles(doubt="the work tree was not recorded") if end is None else _changed(end, folder)


def _changed(end: WorkspaceChanged, folder: Path) -> ChangedFiles:
    if doubt := _doubt(end):
        return ChangedFiles(doubt=doubt)
    base = os.path.realpath(folder)
    return ChangedFiles(paths=tuple(os.path.relpath(Path(end.root, one.path), base) for one in end.files))


def _doubt(end: WorkspaceChanged) -> str:
    if end.problem or not end.base:
        return end.problem or "the tree before it was not recorded"
    if end.shared_with:
        return f"sessions worked in the same tree meanwhile: {', '.join(end.shared_with[:3])}"
    return f"{end.file_count} files changed, too many to list" if end.file_count > len(end.files) else ""


def commands_beside(spec: WorkflowSpec, step: StepSpec, begun: Collection[StepId]) -> tuple[StepId, ...]:
    """The commands of the same workflow that may have changed files while a step ran: those that began, and that it did
    not wait for."""
    by_id = {one.id: one for one in spec.steps}
    before: set[StepId] = set()
    left = list(step.depends_on)
    while left:
        one = left.pop()
        if one not in before:
            before.add(one)
            left += by_id[one].depends_on
    return tuple(one.id for one in spec.steps if one.run and one.id in begun and one.id not in before)
