"""Removes a worktree that we made, and loses nothing with it.

Laws:
1. Without force it goes only if it is proven that nothing is lost: no file differs from its commit, nothing is ignored
   that was not copied there, and its commits are kept by something else, or its branch stays.
2. With force, what would be lost is kept first: files as a snapshot, commits by refs, and what git cannot keep, or what
   is too much for it, in a folder beside, the attic.
3. The folder is moved away before it is looked at for the last time, so that nobody writes to it by its path; and moved
   again once the proof holds. What a removal that was broken off left says by its name how far it came.
4. Git's own `worktree remove` is not used: it deletes ignored files, and runs what the repository configures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.git.looking import TooMuch, decoded
from interlock.agents.git.repository import Repository, format_of
from interlock.agents.git.running import GitFailed
from interlock.agents.git.snapshot import TreeSnapshots, ref_of
from interlock.agents.git.worktree_state import (
    WorktreeState,
    commits_between,
    keepers_of,
    neutral_tree,
    state_of,
    unlisted_in,
)
from interlock.agents.git.worktrees import OurWorktree, common_git, find_ours
from interlock.vocabulary.errors import UsageError

_LISTED: Final = 10
_MOVED, _PROVEN = ".removing-", ".removed-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is to be removed, and what is known of it. `merged`: the commit of its branch that was squashed into
    `merged_as`; `copied`: ignored files that we put there, from `source`, and `linked` links to what is there;
    `disposable`: ignored files and folders that can be made again, by name or, with a slash, by path."""

    common: Path
    path: Path
    branch: str
    base: str
    owner: str
    merged: str = ""
    merged_as: str = ""
    source: str = ""
    copied: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    disposable: tuple[str, ...] = ()
    keeps_branch: bool = False
    is_forced: bool = False

    @property
    def ours(self) -> OurWorktree | None:
        return find_ours(self.common, self.path, self.owner)

    @property
    def tip(self) -> str:
        """The commit of its branch; blank where the branch is gone."""
        return common_git(self.common).line("rev-parse", "--verify", "--quiet", f"refs/heads/{self.branch}^{{commit}}")


def losses_of(asked: Removal, ours: OurWorktree, state: WorktreeState, place: Path) -> tuple[str, ...]:
    """What would be lost, and why it is not removed."""
    own = [one for one in state.ignored if not _is_replaceable(asked, place, one)]
    told = [
        *_named("changed", state.changed),
        *_named("not tracked", state.untracked),
        *_named("ignored by git, and not copied there by us", own),
        *_named("not listed by git", unlisted_in(ours, place, state)),
        *state.unfinished,
    ]
    if state.branch != asked.branch and not keepers_of(asked.common, state.head):
        told.append(f"commit {state.head[:12]} is checked out, and on no branch")
    return (*told, *_unmerged(asked))


def _named(what: str, paths: tuple[str, ...] | list[str]) -> Iterator[str]:
    if paths:
        more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
        yield f"{what}: {', '.join(paths[:_LISTED])}{more}"


def _is_replaceable(asked: Removal, place: Path, name: str) -> bool:
    """Whether an ignored file or folder is no loss: it can be made again, or is as its original is."""
    return _is_disposable(asked, name) or _is_copy(asked, place, name) or _is_link(asked, place, name)


def _is_disposable(asked: Removal, name: str) -> bool:
    path = name.rstrip("/")
    for one in (given.strip("/") for given in asked.disposable):
        is_there = path == one or path.startswith(f"{one}/")
        if one and (is_there if "/" in one else one in path.split("/")):
            return True
    return False


def _is_copy(asked: Removal, place: Path, name: str) -> bool:
    """Whether an ignored file is the one that was copied there, still as its original is."""
    if name not in asked.copied:
        return False
    here, there = place / name, Path(asked.source) / name
    try:
        return not here.is_symlink() and not there.is_symlink() and here.read_bytes() == there.read_bytes()
    except OSError:
        return False


def _is_link(asked: Removal, place: Path, name: str) -> bool:
    """Whether it still is the link that was put there, which goes without what it leads to."""
    try:
        return name in asked.linked and (place / name).readlink() == Path(asked.source) / name
    except OSError:
        return False


def _unmerged(asked: Removal) -> Iterator[str]:
    tip = asked.tip
    if tip and not asked.keeps_branch and not _is_kept(asked, tip):
        count = commits_between(asked.common, asked.base, tip)
        yield f"{count} commits of branch {asked.branch} that no other branch has"


def _is_kept(asked: Removal, tip: str) -> bool:
    if tip == asked.base or keepers_of(asked.common, tip, besides=asked.branch):
        return True
    return bool(asked.merged == tip and asked.merged_as and keepers_of(asked.common, asked.merged_as))


def users_of(path: Path) -> tuple[str, ...]:
    """Processes that work in a folder, as far as the kernel tells."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            place = str((one / "cwd").readlink())
            if place == str(path) or place.startswith(f"{path}/"):
                found.append(f"process {one.name} ({(one / 'comm').read_text().strip()}) works in it")
    return tuple(found[:_LISTED])


def check_removal(asked: Removal) -> str:
    """Refuse what would lose something; give the commit of the branch that goes with it, blank where it stays."""
    ours = asked.ours
    if ours is None or not _is_folder(asked.path):
        return _check_gone(asked)
    users = users_of(asked.path)
    if users:
        raise UsageError(_refusal(asked, users), remedy="end them, and try again")
    if not asked.is_forced:
        losses = losses_of(asked, ours, state_of(ours), asked.path)
        if losses:
            raise _would_lose(asked, losses)
    return "" if asked.keeps_branch else asked.tip


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _check_gone(asked: Removal) -> str:
    """Its folder is gone, or is not registered as ours: only the branch is left to be lost."""
    if os.path.lexists(asked.path):
        raise UsageError(
            f"{asked.path} is not the worktree that was made for {asked.owner}: it is a link, or git does not know it",
            remedy="look at it, and remove it yourself",
        )
    losses = () if asked.is_forced else tuple(_unmerged(asked))
    if losses:
        raise _would_lose(asked, losses)
    return "" if asked.keeps_branch else asked.tip


def _would_lose(asked: Removal, losses: tuple[str, ...]) -> UsageError:
    how = "commit and merge it first, or use --keep-branch to keep commits, --force to keep the rest aside"
    return UsageError(_refusal(asked, losses), remedy=how)


def _refusal(asked: Removal, reasons: tuple[str, ...]) -> str:
    return f"{asked.path} was not removed: {', and '.join(reasons)}"


def remove_worktree(asked: Removal, tip: str, attic: Path) -> tuple[str, ...]:
    """Remove it, after `check_removal`; `tip`: what that gave. Gives the refs and folders where something was kept."""
    ours, moved = asked.ours, _beside(asked, _MOVED)
    kept: list[str] = []
    if ours is not None and _is_folder(asked.path):
        asked.path.rename(moved)
        try:
            kept += _prove(asked, ours, moved, attic)
        except BaseException:
            moved.rename(asked.path)
            raise
        moved.rename(_beside(asked, _PROVEN))
    kept += _keep_commits(asked, tip)
    finish_removal(asked, tip)
    return tuple(kept)


def _beside(asked: Removal, mark: str) -> Path:
    return asked.path.with_name(f"{mark}{asked.path.name}")


def _prove(asked: Removal, ours: OurWorktree, moved: Path, attic: Path) -> list[str]:
    """Nothing is lost with what is in the folder now. What had to be kept, and where."""
    state = state_of(ours, moved)
    if asked.is_forced:
        return _keep_files(asked, ours, state, moved, attic)
    losses = losses_of(asked, ours, state, moved)
    if losses:
        raise _would_lose(asked, losses)
    return [*_keep_ref(asked, "head", state.head)]


def _keep_files(asked: Removal, ours: OurWorktree, state: WorktreeState, moved: Path, attic: Path) -> list[str]:
    kept = [*_keep_ref(asked, "head", state.head)]
    unlisted = unlisted_in(ours, moved, state)
    repository = Repository(moved, ours.admin, ours.common, format_of(state.head))
    ref = _ref(asked, "files")
    try:
        taken = TreeSnapshots().take(repository, ref, message=f"removed worktree of {asked.owner}\n")
    except TooMuch:  # then all of it is set aside
        left = [one for one in os.listdir(moved) if one != ".git"]  # noqa: PTH208 (names)
    else:
        kept.append(ref)
        left = [os.fsdecode(one).rstrip("/") for one in taken.not_kept if decoded(one) not in state.submodules]
        left += [one.rstrip("/") for one in state.ignored if not _is_replaceable(asked, moved, one)]
    for name in (*left, *(one.rstrip("/") for one in unlisted)):
        if os.path.lexists(moved / name):
            _make_private(attic)
            (attic / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.move(moved / name, attic / name)
    if state.unfinished:
        _make_private(attic)
        shutil.copytree(ours.admin, attic / ".git-of-worktree", symlinks=True, dirs_exist_ok=True)
    kept += _keep_staged(asked, ours, state.head)
    return [*kept, str(attic)] if attic.exists() else kept


def _make_private(attic: Path) -> None:
    """It may hold secrets, and be on another disk by a link."""
    for one in (attic.parent, attic):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)


def _keep_staged(asked: Removal, ours: OurWorktree, head: str) -> list[str]:
    """What is staged, as a tree. One with conflicts has none: its files are kept all the same."""
    if not (ours.admin / "index").is_file():
        return []
    with neutral_tree(ours.common, ours.common, head) as git:
        shutil.copyfile(ours.admin / "index", git.environment["GIT_INDEX_FILE"])
        tree = git.line("write-tree")
    return _keep_ref(asked, "staged", tree) if tree else []


def _ref(asked: Removal, what: str) -> str:
    return f"{ref_of(asked.owner).replace('/sessions/', '/removed/')}/{what}"


def _keep_ref(asked: Removal, what: str, object_id: str) -> list[str]:
    ref = _ref(asked, what)
    common_git(asked.common).run("update-ref", "--no-deref", ref, object_id)
    return [ref]


def _keep_commits(asked: Removal, tip: str) -> list[str]:
    return _keep_ref(asked, "branch", tip) if tip else []


def finish_removal(asked: Removal, tip: str) -> bool:
    """After the proof: delete. Safe to do again. False: it was broken off before the proof, and is back in place."""
    moved, proven = _beside(asked, _MOVED), _beside(asked, _PROVEN)
    if moved.is_dir():
        moved.rename(asked.path)
    if os.path.lexists(asked.path):
        return False
    if proven.is_dir():
        shutil.rmtree(proven, onerror=_open_up)
    ours = asked.ours
    if ours is not None:
        shutil.rmtree(ours.admin)
    if tip and asked.tip == tip and not _is_checked_out(asked):
        with suppress(GitFailed):  # it went on meanwhile: then it stays
            _keep_commits(asked, tip)
            common_git(asked.common).run("update-ref", "-d", f"refs/heads/{asked.branch}", tip)
    return True


def _is_checked_out(asked: Removal) -> bool:
    told = common_git(asked.common).run("worktree", "list", "--porcelain", "-z").split(b"\0")
    return f"branch refs/heads/{asked.branch}".encode() in told


def _open_up(function: object, path: str, error: object) -> None:
    """A folder that may not be written to is made ours, and what is in it deleted."""
    os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120  (as rmtree gives it)
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            os.chmod(path, 0o700)  # noqa: PTH101
            shutil.rmtree(path)
        else:
            os.unlink(path)  # noqa: PTH108
