"""Where a step of a workflow works, what its tree began with, and what its work there comes to.

Laws:
1. The tree of a step is a worktree of a session, made and told as any other one, and nothing here removes it. One that
   is gone is said to be: nothing goes on in the main checkout instead.
2. What a step left is kept as a commit, whose parent is what is checked out there. Branch and index are moved only
   where the step is to give a commit.
3. Nothing that the repository configures runs: see `agents/git`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from interlock.agents.git.comparing import compare, patch
from interlock.agents.git.looking import TooMuch
from interlock.agents.git.merging import Conflicts, commit_all, keep_tree, merge_all
from interlock.agents.git.repository import NoRepository, Repository, find_repository
from interlock.agents.git.running import GitFailed
from interlock.agents.git.snapshot import TreeSnapshot, TreeSnapshots, ref_of
from interlock.agents.git.worktree_state import state_of
from interlock.agents.git.worktrees import OurWorktree, find_ours
from interlock.lifecycle.children.workflow_plan import STEP_BASE, StepSpec
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.events.workspace import WorktreeChanged
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.resources import OpenTask

_WORK: Final = "refs/interlock/steps/"
_MOST_NAMED: Final = 5


class TreeKeeper(Protocol):
    """Makes the worktrees of sessions."""

    async def open(
        self, asked: OpenTask, task_id: SessionId, begin: Callable[[OpenTask, WorktreeChanged], Awaitable[None]]
    ) -> None:
        """Plan one, and have the session begun with it."""
        ...

    async def make(self, task_id: SessionId, asked: OpenTask) -> tuple[str, ...]:
        """Make what was planned."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlace:
    """`folder`: where a step works. In a tree of its own or of another step: `root` of that tree, the session that owns
    it, its branch, and `base`, the commit that this step began with."""

    folder: Path
    root: Path | None = None
    owner: SessionId | None = None
    branch: str = ""
    base: str = ""
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Json]:
        """What is recorded of it."""
        return {
            "folder": str(self.folder),
            "root": str(self.root),
            "session_id": self.owner,
            "branch": self.branch,
            "base": self.base,
        }


def place_in(told: WorktreeChanged, folder: str, owner: SessionId, base: str) -> StepPlace:
    """The place that a session's worktree is."""
    return StepPlace(
        folder=Path(folder),
        root=Path(told.path),
        owner=owner,
        branch=told.branch,
        base=base or told.base,
        variables=told.variables,
    )


def place_of(checkpoint: Json) -> StepPlace | None:
    """The tree in which a step was ready, with its work as the base; None: it had none."""
    tree = checkpoint.get("tree") if isinstance(checkpoint, dict) else None
    if not isinstance(tree, dict) or not tree.get("commit"):
        return None
    return StepPlace(
        folder=Path(str(tree["folder"])),
        root=Path(str(tree["root"])),
        owner=SessionId(str(tree["session_id"])),
        branch=str(tree["branch"]),
        base=str(tree["commit"]),
    )


def head_of(folder: str) -> str:
    """The commit that is checked out in a folder; blank where it is in no repository, or there is none."""
    try:
        return find_repository(folder).head
    except (NoRepository, GitFailed, OSError):
        return ""


def resolve_bases(folder: str, names: tuple[str, ...]) -> dict[str, str]:
    """The commit of each base that is no step, as it is now. `UsageError` for one that names none."""
    repository = find_repository(folder)
    found = {"head": repository.head}
    for name in names:
        if name.startswith(STEP_BASE) or name in found:
            continue
        commit = repository.resolve("refs/remotes/origin/HEAD" if name == "default" else name)
        if name == "default":
            commit = commit or repository.head
        if not commit:
            raise UsageError(f"base {name!r} names no commit in {repository.root}", remedy="name a branch or a commit")
        found[name] = commit
    return found


def merged_base(folder: str, commits: tuple[str, ...], step: StepSpec) -> str:
    """The commit with which the tree of a step begins. `UsageError`, with the paths, where they cannot be merged."""
    found = merge_all(find_repository(folder).common, commits, f"Base of step {step.id}")
    if isinstance(found, Conflicts):
        more = f" and {len(found.paths) - _MOST_NAMED} more" if len(found.paths) > _MOST_NAMED else ""
        raise UsageError(
            f"what step {step.id} begins with conflicts in {', '.join(found.paths[:_MOST_NAMED])}{more}",
            remedy="change one of the steps that it needs, or give it one base",
        )
    return found


@dataclass(frozen=True, slots=True)
class PlaceLook:
    """Looks at the files of one place, for one step of a plan in that folder."""

    place: StepPlace
    plan_folder: Path
    snapshots: TreeSnapshots
    name: str

    def tree(self) -> TreeSnapshot | None:
        """All files as they are now; None: it is in no repository. `GitFailed`, `TooMuch` where they cannot be kept."""
        if self.place.root is not None:
            repository, _ = tree_of_ours(self.place, self.plan_folder)
            return self.snapshots.take(repository, ref_of(self.name), message=self.name)
        try:
            return self.snapshots.take(find_repository(self.place.folder), ref_of(self.name), message=self.name)
        except NoRepository:
            return None

    def changed(self, before: str, after: str) -> tuple[str, ...]:
        """The files in which two trees or commits differ, relative to the folder of the place."""
        repository = find_repository(self.place.folder)
        base = os.path.realpath(self.place.folder)
        with repository.objects() as objects:
            paths = [one.path for one in compare(objects, before, after)]
        return tuple(os.path.relpath(repository.root / one, base) for one in paths)

    def keep(self, seen: TreeSnapshot, message: str, *, is_on_branch: bool) -> str:
        """The commit that has the work."""
        repository, ours = tree_of_ours(self.place, self.plan_folder)
        if is_on_branch:
            state = state_of(ours)
            if state.branch != self.place.branch:
                told = f"branch {state.branch}" if state.branch else "no branch"
                raise UsageError(
                    f"{told} is checked out in {repository.root}, and not {self.place.branch}",
                    remedy=f"check out {self.place.branch} there",
                )
            commit = state.head if state.is_clean else commit_all(ours, state, message)
            if self.changed(seen.tree, commit):
                raise UsageError("its files changed while they were proven", remedy="run the step again")
            return commit
        ref = f"{_WORK}{ref_of(self.name).rpartition('/')[2]}"
        return keep_tree(repository.common, seen.tree, seen.head, ref, message)


def tree_of_ours(place: StepPlace, plan_folder: Path) -> tuple[Repository, OurWorktree]:
    """Law 1. The worktree of a place, if it is still the one that we made for its session in the plan's own repository.
    `UsageError` where it is not."""
    try:
        repository, origin = find_repository(place.folder), find_repository(plan_folder)
    except (NoRepository, GitFailed, OSError) as error:
        raise UsageError(f"the worktree {place.root} is gone: {error}", remedy="run the step again") from error
    ours = find_ours(repository.common, repository.root, str(place.owner))
    is_there = place.root is not None and repository.root == place.root.resolve()
    is_there = is_there and repository.common == origin.common
    if not is_there or ours is None or repository.git_dir != ours.admin:
        raise UsageError(f"the worktree {place.root} is gone, or not ours any more", remedy="run the step again")
    return repository, ours


def diff_text(folder: Path, before: str, after: str) -> str:
    """What changed, as a patch; blank where that cannot be told any more."""
    try:
        with find_repository(folder).objects() as objects:
            return patch(objects, before, after)
    except (NoRepository, GitFailed, OSError):
        return ""


PLACE_ERRORS: Final = (InterlockError, TooMuch, OSError)
