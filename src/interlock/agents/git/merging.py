"""Takes the work of a worktree into a branch, all of it or nothing.

Laws:
1. The branch moves by one compare-and-set, from the commit that was looked at to the merged one. Nobody ever sees half.
2. Where the branch is checked out, that work tree must be clean, and follows first: a merge that is broken off leaves
   the new content as changes that are not committed, and the branch as it was.
3. Nothing is fetched or pushed, and nothing that the repository configures runs. Files that a filter makes are refused
   where they would have to be written or committed.
4. A conflict changes nothing. It is told by its paths.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.git.looking import decoded
from interlock.agents.git.repository import format_of, own_excludes, stored_objects
from interlock.agents.git.running import Git, GitFailed
from interlock.agents.git.worktree_state import WorktreeState, filtered_of, neutral_tree, state_of
from interlock.agents.git.worktrees import OurWorktree, await_index, common_git, repository_lock
from interlock.vocabulary.errors import UsageError

_SECONDS: Final = 300.0
_DURABLE: Final = ("core.fsync=committed",)
_LISTED: Final = 10
_NAME_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What moves a branch: `target` from `before` to `after`. `checkout`: the work tree that has it checked out."""

    common: Path
    target: str
    before: str
    after: str
    head: str
    checkout: str = ""


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The paths that two sides changed differently."""

    paths: tuple[str, ...]


def plan_merge(common: Path, head: str, target: str, *, is_squash: bool, message: str) -> Merge | Conflicts | None:
    """How the target takes in a commit; None: it has it already. `UsageError` where that cannot be done."""
    before = _tip(common, target)
    if not before:
        raise UsageError(f"there is no branch {target!r}", remedy="name the branch with --into, or use --branch NAME")
    if _leads(common, head, before):
        return None
    if _leads(common, before, head):
        after: str = head
        if is_squash:
            after = _commit(common, _tree_of(common, head), (before,), message)
    elif is_squash:
        merged = _merged_tree(common, before, head)
        if isinstance(merged, Conflicts):
            return merged
        after = _commit(common, merged, (before,), message)
    else:
        raise UsageError(
            f"{target} has commits that the worktree's branch lacks: it cannot be moved forward",
            remedy="use --squash, or rebase in the worktree first",
        )
    found = checkout_of(common, target)
    merge = Merge(
        common=common,
        target=target,
        before=before,
        after=after,
        head=head,
        checkout="" if found is None else str(found.path),
    )
    if found is not None:
        _refuse_unclean(merge, found)
    return merge


def _refuse_unclean(merge: Merge, found: OurWorktree) -> None:
    """Law 2, and law 3."""
    state = state_of(found)
    with neutral_tree(merge.common, found.path, merge.after) as git:
        git.run("read-tree", merge.after, seconds=_SECONDS)
        told = git.run("diff-tree", "-r", "--name-only", "--no-renames", "-z", merge.before, merge.after)
        filtered = filtered_of(git, [one for one in told.split(b"\0") if one])
        known = {decoded(one) for one in filtered_of(git, [os.fsencode(one) for one in state.changed])}
    if filtered:
        _refuse_filtered(found.path, tuple(decoded(one) for one in filtered))
    changed = [one for one in state.changed if one not in known]
    going_on = [one for one in state.unfinished if not one.startswith("submodules")]
    if changed or going_on:
        raise UsageError(
            f"{merge.target} is checked out in {found.path}, which is not clean: {_some((*changed, *going_on))}",
            remedy="commit or stash that first, or use --branch NAME",
        )


def _refuse_filtered(place: Path, paths: tuple[str, ...]) -> None:
    raise UsageError(
        f"a filter of the repository, such as Git LFS, makes {_some(paths)}, and no filter is run here",
        remedy=f"do it with git itself, in {place}",
    )


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def apply_merge(merge: Merge) -> None:
    """Move the branch. `GitFailed` where something came between; then it is as it was."""
    with repository_lock(merge.common):
        found = checkout_of(merge.common, merge.target) if merge.checkout else None
        if found is not None:
            _follow(merge, found, merge.before, merge.after)
        try:
            _move(merge)
        except GitFailed:
            if found is not None:
                _follow(merge, found, merge.after, merge.before)
            raise


def _follow(merge: Merge, found: OurWorktree, old: str, new: str) -> None:
    """Bring the files and the index from one commit to another. What was changed meanwhile refuses it whole."""
    with stored_objects(merge.common, format_of(old)) as objects:
        more = {"GIT_WORK_TREE": str(found.path), "GIT_INDEX_FILE": str(found.admin / "index")}
        git = Git(found.path, {**objects.environment, **more})
        git.line("update-index", "-q", "--refresh")
        git.run("read-tree", "-m", "-u", old, new, seconds=_SECONDS)


def _move(merge: Merge) -> None:
    words = ("-m", "interlock: merge", f"refs/heads/{merge.target}", merge.after, merge.before)
    common_git(merge.common).run("update-ref", *words)


def finish_merge(merge: Merge) -> str:
    """After a server that died in the midst of it: blank where the branch has moved, else why it has not. What is in
    the checked-out work tree is left as it is: nothing of it is lost, and nothing is written over."""
    with repository_lock(merge.common):
        if _leads(merge.common, merge.after, _tip(merge.common, merge.target)):
            return ""
        if _tip(merge.common, merge.target) != merge.before:
            return f"{merge.target} went on while it was merged"
        found = checkout_of(merge.common, merge.target) if merge.checkout else None
        if found is not None:
            await_index(found.admin)
        if found is None:
            return "the server died before the branch was moved: it is as it was"
        ahead = _index_tree(found, merge) == _tree_of(merge.common, merge.after)
        if ahead:
            _move(merge)
            return ""
        state = state_of(found)
        if state.changed:
            return f"the server died while {found.path} was written: see `git status` there for {_some(state.changed)}"
        return "the server died before the branch was moved: it is as it was"


def _index_tree(found: OurWorktree, merge: Merge) -> str:
    with stored_objects(merge.common, format_of(merge.before)) as objects:
        git = Git(found.path, {**objects.environment, "GIT_INDEX_FILE": str(found.admin / "index")})
        return git.line("write-tree")


def keep_as_branch(common: Path, head: str, name: str) -> None:
    """A new branch at a commit. One that is there is refused."""
    if not common_git(common).line("check-ref-format", "--branch", name):
        raise UsageError(f"{name!r} cannot name a branch", remedy="give another one")
    if _tip(common, name):
        raise UsageError(f"there is a branch {name} already", remedy="give another name")
    common_git(common).run("update-ref", f"refs/heads/{name}", head, "")


def commit_all(ours: OurWorktree, state: WorktreeState, message: str) -> str:
    """Commit every file that is not ignored to the worktree's branch, and give the commit."""
    nested = [one for one in state.untracked if one.endswith("/")]
    if nested or state.unfinished or not state.branch:
        what = _some((*nested, *state.unfinished)) or "no branch is checked out"
        raise UsageError(f"what is in {ours.path} cannot be committed: {what}", remedy="commit it there with git")
    with neutral_tree(ours.common, ours.path, state.head) as git:
        git.run("read-tree", state.head, seconds=_SECONDS)
        git.run("add", "--all", seconds=_SECONDS, settings=(*own_excludes(), *_DURABLE))
        paths = [os.fsencode(one) for one in (*state.changed, *state.untracked)]
        filtered = filtered_of(git, paths)
        if filtered:
            _refuse_filtered(ours.path, tuple(decoded(one) for one in filtered))
        tree = git.run("write-tree", settings=_DURABLE).decode().strip()
    made = _commit(ours.common, tree, (state.head,), message)
    with repository_lock(ours.common):
        common_git(ours.common).run("update-ref", f"refs/heads/{state.branch}", made, state.head)
        with stored_objects(ours.common, format_of(made)) as objects:
            more = {"GIT_WORK_TREE": str(ours.path), "GIT_INDEX_FILE": str(ours.admin / "index")}
            Git(ours.path, {**objects.environment, **more}).run("read-tree", made, seconds=_SECONDS)
    return made


def checkout_of(common: Path, branch: str) -> OurWorktree | None:
    """The work tree that has a branch checked out."""
    told = common_git(common).run("worktree", "list", "--porcelain", "-z")
    for record in told.split(b"\0\0"):
        lines = record.split(b"\0")
        path = next((one[9:] for one in lines if one.startswith(b"worktree ")), b"")
        if path and f"branch refs/heads/{branch}".encode() in lines:
            place = Path(os.fsdecode(path))
            return OurWorktree(common, place, _admin_of(common, place))
    return None


def _admin_of(common: Path, place: Path) -> Path:
    for admin in (common / "worktrees").glob("*"):
        try:
            if (admin / "gitdir").read_text().strip() == str(place / ".git"):
                return admin
        except OSError:
            continue
    return common


def _tip(common: Path, branch: str) -> str:
    return common_git(common).line(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}"
    )


def _tree_of(common: Path, commit: str) -> str:
    return common_git(common).run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()


def _leads(common: Path, old: str, new: str) -> bool:
    """Whether one commit is in the history of another."""
    return bool(new) and common_git(common).ask("merge-base", "--is-ancestor", old, new)[0] == 0


def _merged_tree(common: Path, ours: str, theirs: str) -> str | Conflicts:
    with stored_objects(common, format_of(ours)) as objects:
        code, told = objects.ask("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    tree, *paths = [one for one in told.split(b"\0") if one] or [b""]
    if code == 0 and tree:
        return tree.decode()
    if code == 1:
        return Conflicts(tuple(decoded(one) for one in paths))
    raise GitFailed("git cannot merge the two: it needs version 2.38 or newer")


def _commit(common: Path, tree: str, parents: tuple[str, ...], message: str) -> str:
    """A commit in the name of the user, as git's global configuration has it."""
    name, mail = _configured("user.name") or "Interlock", _configured("user.email") or "interlock@localhost"
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name), ("EMAIL", mail))
    }
    with stored_objects(common, format_of(tree)) as objects:
        git = Git(objects.folder, {**objects.environment, **who})
        words = [word for parent in parents for word in ("-p", parent)]
        return git.run("commit-tree", tree, *words, "-m", message, settings=_DURABLE).decode().strip()


def _configured(name: str) -> str:
    command = ["git", "config", "--global", "--get", name]
    try:
        told = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_NAME_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.decode("utf-8", "replace").strip() if told.returncode == 0 else ""


# Trees of steps


def merge_all(common: Path, commits: tuple[str, ...], message: str) -> str | Conflicts:
    """One commit with the work of all of them: one of them where it has the others already."""
    merged = commits[0]
    for commit in commits[1:]:
        if _leads(common, commit, merged):
            continue
        if _leads(common, merged, commit):
            merged = commit
            continue
        tree = _merged_tree(common, merged, commit)
        if isinstance(tree, Conflicts):
            return tree
        merged = _commit(common, tree, (merged, commit), message)
    return merged


def keep_tree(common: Path, tree: str, parent: str, ref: str, message: str) -> str:
    """The commit that has a tree: its parent where that has it, else a new one, which the ref keeps."""
    if _tree_of(common, parent) == tree:
        return parent
    made = _commit(common, tree, (parent,), message)
    common_git(common).run("update-ref", "--no-deref", ref, made)
    return made
