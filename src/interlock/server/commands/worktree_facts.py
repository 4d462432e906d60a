"""What is to be done with the git worktree of a task, as the log says. It blocks as long as git takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import structs

from interlock.agents.git.merging import Merge, commit_all
from interlock.agents.git.repository import NoRepository, find_repository, format_of, nearest_root, stored_objects
from interlock.agents.git.running import GitFailed
from interlock.agents.git.submodules import make_submodules
from interlock.agents.git.worktree_removal import Removal
from interlock.agents.git.worktree_setup import WorktreeSetupFailed, copy_ignored, link_ignored, run_setup
from interlock.agents.git.worktree_state import filtered_of, neutral_tree, state_of
from interlock.agents.git.worktrees import WorktreePlan, find_ours, make_worktree
from interlock.agents.processes.command import minimal_environment
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.workspace import WorktreeChanged, WorktreePhase
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.resources import MergeWorktree, RemoveWorktree

_LISTED: Final = 10
_TEARDOWN_SECONDS: Final = 600.0


def removal_of(task_id: SessionId, told: WorktreeChanged, merged: tuple[str, str], asked: RemoveWorktree) -> Removal:
    """What is to be removed, from what the log says of it."""
    return Removal(
        common=Path(told.repository),
        path=Path(told.path),
        branch=told.branch,
        base=told.base,
        owner=str(task_id),
        merged=merged[0],
        merged_as=merged[1],
        source=str(root_of(told)),
        copied=told.copy,
        linked=told.link,
        disposable=told.disposable,
        keeps_branch=asked.keep_branch,
        is_forced=asked.force,
    )


def new_attic(told: WorktreeChanged, task_id: SessionId) -> Path:
    """A folder for what is set aside, which is not there yet: what an attempt before kept is never written over."""
    folder = Path(told.path).parent.parent / "attic"
    count = len(attics(told, task_id))
    return folder / f"{Path(told.path).name}-{task_id}{f'-{count + 1}' if count else ''}"


def attics(told: WorktreeChanged, task_id: SessionId) -> list[Path]:
    """What was set aside of a worktree, so far."""
    folder = Path(told.path).parent.parent / "attic"
    name = f"{Path(told.path).name}-{task_id}"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [one for one in found if one.name == name or one.name.startswith(f"{name}-")]


def set_aside(*attics: Path) -> str:
    there = [str(one) for one in attics if one.exists()]
    return f"; what was set aside until then is in {' and '.join(there)}" if there else ""


def merge_of(told: WorktreeChanged) -> Merge:
    return Merge(
        common=Path(told.repository),
        target=told.target,
        before=told.before,
        after=told.after,
        head=told.head,
        checkout=told.checkout,
    )


def head_to_merge(task_id: SessionId, told: WorktreeChanged, asked: MergeWorktree) -> str:
    """The commit that has all the work of a worktree."""
    ours = find_ours(Path(told.repository), Path(told.path), str(task_id))
    if ours is None:
        raise UsageError(f"the worktree {told.path} is gone", remedy=f"merge branch {told.branch} with git")
    state = state_of(ours)
    if state.branch != told.branch:
        where = f"branch {state.branch}" if state.branch else f"no branch, at {state.head[:12]}"
        raise UsageError(f"in {told.path} {where} is checked out", remedy=f"git -C {told.path} switch {told.branch}")
    if state.is_clean:
        return state.head
    if asked.commit:
        return commit_all(ours, state, asked.message or f"Work of session {task_id}")
    files = [*state.changed, *state.untracked, *state.unfinished]
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    raise UsageError(
        f"not committed in {told.path}: {', '.join(files[:_LISTED])}{more}", remedy="use --commit, or commit it there"
    )


def plan_of(task_id: SessionId, told: WorktreeChanged) -> WorktreePlan:
    return WorktreePlan(
        common=Path(told.repository),
        source=root_of(told),
        path=Path(told.path),
        branch=told.branch,
        base=told.base,
        target=told.target,
        owner=str(task_id),
    )


def root_of(told: WorktreeChanged) -> Path:
    """The work tree from which it was asked for."""
    source = Path(told.source)
    return nearest_root(source) or source


def folder_in(plan: WorktreePlan, cwd: str) -> str:
    """The folder in the worktree that stands for the one that was asked for."""
    below = os.path.relpath(Path(cwd).resolve(), plan.source)
    if below == ".":
        return str(plan.path)
    with stored_objects(plan.common, format_of(plan.base)) as objects:
        if objects.line("cat-file", "-t", f"{plan.base}:{below}") != "tree":
            raise UsageError(f"there is no folder {below} in the base", remedy="begin in the root of the repository")
    return str(plan.path / below)


def filled(plan: WorktreePlan, told: WorktreeChanged) -> tuple[str, ...]:
    """Put into a new worktree what its base does not have. What could not be, with the reason."""
    notes = copy_ignored(plan.source, plan.path, told.copy) + link_ignored(plan.source, plan.path, told.link)
    ours = find_ours(plan.common, plan.path, plan.owner)
    return notes + (make_submodules(plan.source, ours, plan.base) if told.submodules and ours is not None else ())


def torn_down(told: WorktreeChanged, *, seconds: float = _TEARDOWN_SECONDS) -> tuple[str, ...]:
    """Run the teardown command in a worktree that is about to be removed. A failure is a warning."""
    if not told.teardown or not os.path.isdir(told.path):  # noqa: PTH112  (a path of the log)
        return ()
    try:
        run_setup(told.teardown, Path(told.path), {**minimal_environment(), **told.variables}, seconds, name="teardown")
    except WorktreeSetupFailed as error:
        return (str(error),)
    return ()


def made_again(task_id: SessionId, told: WorktreeChanged) -> WorktreeChanged:
    """Finish what a server that died had begun. Whether its setup command ran is not known: it is not run twice."""
    plan = plan_of(task_id, told)
    try:
        make_worktree(plan, is_again=True)
        filled(plan, told)
    except (GitFailed, UsageError, OSError) as error:
        return structs.replace(told, phase=WorktreePhase.FAILED, problem=str(error) or type(error).__name__)
    if told.setup:
        why = "the server died while it was made: whether its setup command ran is not known"
        return structs.replace(told, phase=WorktreePhase.FAILED, problem=why)
    assert find_ours(plan.common, plan.path, plan.owner) is not None
    return structs.replace(told, phase=WorktreePhase.CREATED)


# What a person should know of a worktree that was just made.

_SECONDS: Final = 60.0
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames")


def notes_of(plan: WorktreePlan, *, has_submodules: bool) -> tuple[str, ...]:
    """What is not in it that one may look for: changes that are not committed, submodules, what a filter makes."""
    return (*_uncommitted(plan), *_left_out(plan, has_submodules=has_submodules))


def _uncommitted(plan: WorktreePlan) -> tuple[str, ...]:
    try:
        source = find_repository(plan.source)
        with neutral_tree(source.common, source.root, source.head) as git:
            git.run("read-tree", source.head, seconds=_SECONDS)
            told = git.run(*_STATUS, seconds=_SECONDS)
    except (GitFailed, NoRepository, OSError):
        return ("whether there are changes that are not committed is not known: they are not in it",)
    count = sum(1 for one in told.split(b"\0") if one)
    return (f"{count} changed files of {plan.source} are not committed, and not in it",) if count else ()


def _left_out(plan: WorktreePlan, *, has_submodules: bool) -> tuple[str, ...]:
    with neutral_tree(plan.common, plan.path, plan.base) as git:
        git.run("read-tree", plan.base, seconds=_SECONDS)
        listed = [one for one in git.run("ls-files", "--stage", "-z").split(b"\0") if one]
        modules = sum(one.startswith(b"160000 ") for one in listed)
        filtered = filtered_of(git, [one.partition(b"\t")[2] for one in listed])
    notes = []
    if modules and not has_submodules:
        how = "set `submodules = true` below [worktree], or run `git submodule update --init`"
        notes.append(f"{modules} submodules are not checked out in it: {how}")
    if filtered:
        notes.append(f"{len(filtered)} files with a filter, such as Git LFS, are as they are stored: no filter is run")
    return tuple(notes)
