"""Which files changed while the child of a step worked, as the log has its trees, and why they may not be its own.

Law: of a child that had several rounds, the tree before the first one is compared with the tree after the last one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from interlock.agents.git.comparing import compare
from interlock.agents.git.repository import NoRepository, find_repository
from interlock.agents.git.running import GitFailed
from interlock.lifecycle.children.checkpoint import ChangedFiles
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.log.port import Log
from interlock.vocabulary.events.audit import TurnStarted
from interlock.vocabulary.events.workspace import WorkspaceChanged, WorkspacePhase
from interlock.vocabulary.ids import SessionId, StepId


async def changed_files(log: Log, session: SessionId, folder: Path) -> ChangedFiles:
    """The files that the turns of a session changed. Read it once its edges are settled."""
    events = (await log.read(session)).events
    told = [event.data for event in events if isinstance(event.data, WorkspaceChanged)]
    ends = [one for one in told if one.phase is WorkspacePhase.END]
    turns = {event.turn_id for event in events if isinstance(event.data, TurnStarted)}
    if not ends or {one.turn_id for one in ends} != turns:
        return ChangedFiles(doubt="the work tree was not recorded")
    main = tuple(dict.fromkeys(path for one in ends for path in one.main_changed))
    if doubt := next(filter(None, map(_doubt, ends)), ""):
        return ChangedFiles(doubt=doubt, main=main)
    paths = [one.path for one in ends[-1].files]
    if len(ends) > 1:
        try:
            paths = await asyncio.to_thread(_between, ends[0], ends[-1])
        except (GitFailed, NoRepository, OSError) as error:
            return ChangedFiles(doubt=f"its trees cannot be compared: {error}", main=main)
    return await asyncio.to_thread(_relative, ends[-1].root, paths, folder, main)


def _relative(root: str, paths: list[str], folder: Path, main: tuple[str, ...]) -> ChangedFiles:
    base = os.path.realpath(folder)
    return ChangedFiles(paths=tuple(os.path.relpath(Path(root, one), base) for one in paths), main=main)


def _between(first: WorkspaceChanged, last: WorkspaceChanged) -> list[str]:
    with find_repository(last.root).objects() as objects:
        return [one.path for one in compare(objects, first.base, last.tree)]


def _doubt(end: WorkspaceChanged) -> str:
    if end.problem or not end.base:
        return end.problem or "the tree before it was not recorded"
    if end.shared_with:
        return f"sessions worked in the same tree meanwhile: {', '.join(end.shared_with[:3])}"
    return f"{end.file_count} files changed, too many to list" if end.file_count > len(end.files) else ""


def commands_beside(spec: WorkflowSpec, step: StepSpec, begun: Collection[StepId]) -> tuple[StepId, ...]:
    """The commands of the same workflow that may have changed files while a step ran: those that began, and that it did
    not wait for."""
    return tuple(one.id for one in _beside(spec, step, begun) if one.run and one.tree == step.tree)


def shared_beside(spec: WorkflowSpec, step: StepSpec, begun: Collection[StepId]) -> tuple[StepId, ...]:
    """The steps of the same workflow that may have changed files of the main checkout meanwhile."""
    return tuple(one.id for one in _beside(spec, step, begun) if not one.tree)


def _beside(spec: WorkflowSpec, step: StepSpec, begun: Collection[StepId]) -> Iterator[StepSpec]:
    by_id = {one.id: one for one in spec.steps}
    before: set[StepId] = set()
    left = list(step.depends_on)
    while left:
        one = left.pop()
        if one not in before:
            before.add(one)
            left += by_id[one].depends_on
    yield from (one for one in spec.steps if one.id in begun and one.id not in before and one.id != step.id)
