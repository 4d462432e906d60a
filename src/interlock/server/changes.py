"""What turns changed, for routes: the turns with their trees as the log has them, and the difference of one.

Laws:
1. The turns of a task are those of its log up to the version that was asked for. Each question reads what is new.
2. Git is asked in a thread, for so many at a time; nothing here is in the way of a turn.
3. A patch is cut at a bound, at the end of a line, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from interlock.agents.git.comparing import TreeChange
from interlock.log.port import Log
from interlock.projections.workspace import TurnTrees, WorkspaceView
from interlock.runtime.workspace.turn_diffs import TurnDiff, diff_of
from interlock.server.http.problems import NotFound
from interlock.vocabulary.events.workspace import WorkspaceChanged
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.wire.workspace import MAX_PATCH, FileDiff, FileReviewState, TaskDiff, TurnChanges

_PAGE: Final = 2_000
_MAX_TASKS: Final = 50
_AT_ONCE: Final = 2


@dataclass(slots=True)
class _Known:
    version: int = 0
    trees: WorkspaceView = field(default_factory=WorkspaceView)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TaskChanges:
    """The turns of the tasks that were asked for last."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._tasks: dict[SessionId, _Known] = {}
        self._asking = asyncio.Semaphore(_AT_ONCE)

    async def turns(self, task_id: SessionId, version: int) -> Sequence[TurnTrees]:
        """Every turn of a task, at least as of `version`."""
        known = self._tasks[task_id] = self._tasks.pop(task_id) if task_id in self._tasks else _Known()
        while len(self._tasks) > _MAX_TASKS:
            del self._tasks[next(iter(self._tasks))]
        async with known.lock:
            is_end = False
            while known.version < version and not is_end:
                found = await self._log.read(task_id, after=known.version, limit=_PAGE)
                known.trees.feed(found.events)
                is_end = len(found.events) < _PAGE
                known.version = found.version if is_end else (found.events[-1].seq or known.version)
        return list(known.trees.turns.values())

    async def diff(
        self, turns: Sequence[TurnTrees], turn: TurnTrees, *, patch_of: str | None
    ) -> tuple[TurnDiff, TaskDiff]:
        """What a turn did, as it was computed and as it is told."""
        before = turns[turn.number - 2] if turn.number > 1 else None
        async with self._asking:
            found = await asyncio.to_thread(partial(diff_of, turn, before, patch_of=patch_of))
        return found, told_diff(found, len(turns))


def choose_turn(turns: Sequence[TurnTrees], named: str | None) -> TurnTrees:
    """The turn with that number or id; without a name the newest that has a record."""
    if named is None:
        found = next((one for one in reversed(turns) if one.has_record), None)
        why = "no turn of this task has a tree: its folder is in no git repository, or none was recorded"
    else:
        by_number = int(named) if named.isascii() and named.isdigit() and len(named) < 10 else 0
        found = next((one for one in turns if one.turn_id == TurnId(named) or one.number == by_number), None)
        why = f"there is no turn {named} in this task: it has {len(turns)}"
    if found is None:
        raise NotFound(why, remedy="list them: GET /api/tasks/{task_id}/changes")
    return found


def told_changes(turn: TurnTrees) -> TurnChanges:
    """How much a turn changed."""
    counted = turn.counted
    return TurnChanges(
        turn_id=turn.turn_id,
        number=turn.number,
        is_known=turn.is_known,
        is_certain=turn.is_certain,
        unknown=turn.unknown,
        file_count=None if counted is None else counted.file_count,
        added=None if counted is None else counted.added,
        removed=None if counted is None else counted.removed,
        reviewed=len(turn.reviews),
        doubts=turn.doubts,
    )


def told_diff(found: TurnDiff, turns: int) -> TaskDiff:
    """What a turn did, with its patch up to a bound."""
    turn, start, end = found.turn, found.turn.start, found.turn.end
    last = end or start
    patch = found.patch[:MAX_PATCH]
    is_cut = len(found.patch) > MAX_PATCH
    late = {path for told in (start, end) if told is not None for path in told.late}
    return TaskDiff(
        task_id=turn.session_id,
        turn_id=turn.turn_id,
        number=turn.number,
        turns=turns,
        is_known=not found.unknown,
        is_certain=turn.is_certain and not found.unknown,
        unknown=found.unknown,
        root="" if last is None else last.root,
        branch="" if last is None else last.branch,
        tree_before=_tree(start),
        tree_after=_tree(end),
        start_seq=turn.start_seq,
        end_seq=turn.end_seq,
        files=tuple(_file(one, turn, is_late=one.path in late) for one in found.changes),
        between=tuple(_file(one) for one in found.between),
        doubts=turn.doubts,
        patch=patch[: patch.rfind("\n") + 1] if is_cut else patch,
        is_cut=is_cut,
        patch_problem=found.trouble,
    )


def _tree(told: WorkspaceChanged | None) -> str:
    return "" if told is None else told.tree


def _file(change: TreeChange, turn: TurnTrees | None = None, *, is_late: bool = False) -> FileDiff:
    review = None if turn is None else turn.reviews.get(change.path)
    return FileDiff(
        path=change.path,
        change=change.change,
        before=change.before,
        after=change.after,
        added=change.added,
        removed=change.removed,
        is_late=is_late,
        review=FileReviewState.NEW if review is None else FileReviewState(review.act.value),
        reviewed_by="" if review is None else review.decided_by,
    )
