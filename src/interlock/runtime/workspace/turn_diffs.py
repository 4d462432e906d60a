"""What a turn did to the files: the difference between its own two trees, computed here and nowhere else.

It blocks for as long as git takes: an event loop calls it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.git.comparing import TreeChange, compare, damage_of, patch, patch_of_file
from interlock.agents.git.repository import format_of, stored_objects
from interlock.agents.git.running import Git, GitFailed
from interlock.projections.workspace import TurnTrees
from interlock.vocabulary.events.workspace import WorkspaceChanged

WHOLE: Final = ""


@dataclass(slots=True)
class TurnDiff:
    """What one turn did, as far as it is known. `between`: files that changed since the turn before, by others.
    `trouble`: why the patch is not here."""

    turn: TurnTrees
    unknown: str = ""
    changes: tuple[TreeChange, ...] = ()
    patch: str = ""
    between: tuple[TreeChange, ...] = ()
    damage: tuple[str, ...] = ()
    trouble: str = ""


def diff_of(
    turn: TurnTrees, before: TurnTrees | None, *, verify: bool = False, patch_of: str | None = WHOLE
) -> TurnDiff:
    """The difference of one turn; `before` is the turn before it. `patch_of`: the path of the file whose patch is
    wanted, `WHOLE` for that of all files, None for no patch."""
    told = TurnDiff(turn, turn.unknown)
    if turn.is_manifest and turn.end is not None:
        return _listed(told, turn.end, patch_of)
    kept = next((one for one in (turn.end, turn.start) if one is not None and one.tree), None)
    if kept is None:
        return told
    try:
        with objects_of(kept) as objects:
            told.damage = tuple(_damage(objects, turn)) if verify else ()
            base = _base_of(turn, before)
            told.between = compare(objects, base, turn.start.tree) if base and turn.start else ()
            if turn.is_known and turn.start and turn.end:
                told.changes = compare(objects, turn.start.tree, turn.end.tree)
                _add_patch(objects, told, patch_of)
    except GitFailed as error:
        told.unknown = f"its trees cannot be read: {error}"
    return told


def _listed(told: TurnDiff, end: WorkspaceChanged, patch_of: str | None) -> TurnDiff:
    """Of a folder without git the record itself has the files, and nothing has their lines."""
    told.changes = tuple(
        TreeChange(
            path=one.path,
            raw_path=one.path.encode(),
            change=one.change,
            before=one.before,
            after=one.after,
            mode_before="",
            mode_after="",
            added=None,
            removed=None,
        )
        for one in end.files
    )
    more = end.file_count - len(end.files)
    whole = "the folder is in no git repository: only hashes were kept" if patch_of is not None else ""
    told.trouble = "; ".join(one for one in (whole, f"{more} more files changed" if more else "") if one)
    return told


def _add_patch(objects: Git, told: TurnDiff, patch_of: str | None) -> None:
    start, end = told.turn.start, told.turn.end
    if patch_of is None or start is None or end is None:
        return
    try:
        if patch_of == WHOLE:
            told.patch = patch(objects, start.tree, end.tree)
        else:
            named = [one for one in told.changes if one.path == patch_of]
            told.patch = "".join(patch_of_file(objects, start.tree, end.tree, one.raw_path) for one in named)
    except GitFailed as error:
        told.trouble = str(error)


def _base_of(turn: TurnTrees, before: TurnTrees | None) -> str:
    """The last tree before the turn, in its own work tree; blank where none is known, or the turn has no start."""
    start, previous = turn.start, None if before is None else before.end
    if start is None or not start.tree:
        return ""
    return start.base or (previous.tree if previous is not None and previous.root == start.root else "")


@contextmanager
def objects_of(kept: WorkspaceChanged) -> Iterator[Git]:
    """Git over the objects that an event of the log names. They may be gone."""
    if not Path(kept.repository, "objects").is_dir():
        raise GitFailed(f"there is no repository {kept.repository} any more")
    with stored_objects(Path(kept.repository), format_of(kept.tree)) as objects:
        yield objects


def _damage(objects: Git, turn: TurnTrees) -> Iterator[str]:
    """What of the recorded trees is not there, or is not what the log says."""
    for told in (turn.start, turn.end):
        wrong = damage_of(objects, told.commit, told.tree) if told is not None and told.tree else ""
        if told is not None and wrong:
            yield f"the tree at its {told.phase.value}: {wrong}"
