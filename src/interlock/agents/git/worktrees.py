"""Makes a git worktree with a branch of its own, so that agents in one repository never meet.

Laws:
1. What is there already (a folder, a branch) is refused, never taken over and never removed.
2. Nothing that the repository configures runs: no hook, and no filter. Files are written by a neutral git directory, as
   they are stored, with line ends as `.gitattributes` asks; what a filter (such as Git LFS) would make of them is not.
3. Each step can be done again: a worktree that is half made is finished by the same plan, and by no other.
4. The base is one commit, found once. It is never read again from a branch that may have moved.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.git.repository import (
    NoRepository,
    OddRepository,
    Repository,
    find_repository,
    format_of,
    stored_objects,
)
from interlock.agents.git.running import Git, GitFailed
from interlock.vocabulary.errors import UsageError

BRANCHES: Final = "interlock/"
_FILL_SECONDS: Final = 600.0
LOCK_SECONDS: Final = 60.0
_ORPHAN_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
_LITTLE_SPACE: Final = 16 * 1024 * 1024
_MAX_SLUG: Final = 40
_MARK: Final = 6
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_UNFIT: Final = re.compile(r"[^a-z0-9]+")
_LOCK: Final = "interlock-worktrees.lock"
_BARE: Final = ("HEAD", "objects", "refs")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreePlan:
    """A worktree that is to be made. `common` is the git directory that all worktrees share, `source` the work tree
    from which it was asked for, `target` the branch that it began from; blank where the base was no branch."""

    common: Path
    source: Path
    path: Path
    branch: str
    base: str
    target: str
    owner: str


@dataclass(frozen=True, slots=True)
class OurWorktree:
    """A worktree that we made, with its own git directory, found by the mark that we left there."""

    common: Path
    path: Path
    admin: Path

    @property
    def git(self) -> Git:
        """Git in it. Only for commands that look at no file's content."""
        return Git(self.common, {"GIT_DIR": str(self.admin), "GIT_WORK_TREE": str(self.path)})

    @property
    def head(self) -> str:
        """The commit that is checked out; blank where none is."""
        return self.git.line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    @property
    def branch(self) -> str:
        """The branch that is checked out; blank where none is."""
        return self.git.line("symbolic-ref", "--quiet", "--short", "HEAD")


def plan_worktree(
    folder: str, home: Path, owner: str, *, name: str = "", title: str = "", base: str = ""
) -> WorktreePlan:
    """What is to be made for the repository of a folder. `UsageError` where that is not possible."""
    repository = _repository_of(folder)
    commit = repository.resolve(base or "HEAD")
    if not commit:
        what = f"{base!r} names no commit in {repository.root}" if base else f"{repository.root} has no commit yet"
        how = "name a branch or a commit with --base" if base else "make a first one: git commit --allow-empty -m first"
        raise UsageError(what, remedy=how)
    if name and not is_fit_name(name):
        raise UsageError(f"{name!r} cannot name a worktree", remedy="use letters, digits and . _ -, 80 at most")
    name = name or f"{_slug(title)}-{owner[-_MARK:]}"
    place = f"{_slug(repository.root.name)}-{hashlib.sha256(os.fsencode(repository.common)).hexdigest()[:8]}"
    plan = WorktreePlan(
        common=repository.common,
        source=repository.root,
        path=(home / "worktrees" / place).resolve() / name,  # git registers where its folder is, whatever links there
        branch=f"{BRANCHES}{name}",
        base=commit,
        target=_branch_named(repository, base) if base else repository.branch,
        owner=owner,
    )
    refuse_existing(plan)
    return plan


def is_fit_name(name: str) -> bool:
    """Whether a folder and a branch may be called so."""
    return bool(_NAME.fullmatch(name)) and ".." not in name and not name.endswith((".", ".lock"))


def refuse_existing(plan: WorktreePlan) -> None:
    """Law 1."""
    again = "choose another name: --worktree-name NAME"
    if os.path.lexists(plan.path):
        raise UsageError(f"there is something at {plan.path} already", remedy=again)
    if _commit_of(plan.common, plan.branch):
        raise UsageError(f"there is a branch {plan.branch} already", remedy=again)
    above = BRANCHES.rstrip("/")
    if _commit_of(plan.common, above):
        raise UsageError(
            f"there is a branch {above}, beside which git can have no branch {plan.branch}",
            remedy=f"rename it: git branch -m {above} NEW-NAME",
        )


def _repository_of(folder: str) -> Repository:
    try:
        return find_repository(folder)
    except NoRepository as error:
        place = Path(folder)
        if all((place / one).exists() for one in _BARE):
            raise UsageError(
                f"{place} is a bare repository: it has no work tree to begin from",
                remedy="give a clone of it with --cwd",
            ) from error
        is_there = isinstance(error, OddRepository)
        how = (
            "look at its `.git/config` with git" if is_there else "leave --worktree out, or make a repository: git init"
        )
        raise UsageError(f"no worktree can be made: {error}", remedy=how) from error


def _branch_named(repository: Repository, base: str) -> str:
    name = base.removeprefix("refs/heads/")
    return name if _commit_of(repository.common, name) else ""


def _commit_of(common: Path, branch: str) -> str:
    return common_git(common).line(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}"
    )


def common_git(common: Path) -> Git:
    """Git over what all worktrees of a repository share: for refs and history."""
    return Git(common, {"GIT_DIR": str(common)})


def _slug(text: str) -> str:
    return _UNFIT.sub("-", text.lower())[:_MAX_SLUG].strip("-") or "work"


def reason_of(owner: str) -> str:
    """With what we lock a worktree that we made for a session: git then neither prunes nor removes it by itself."""
    return f"interlock {owner}"


@contextmanager
def repository_lock(common: Path) -> Iterator[None]:
    """One at a time in a repository: git's own commands fail when they meet."""
    descriptor = os.open(common / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _await_lock(descriptor, common)
        yield
    finally:
        os.close(descriptor)


def _await_lock(descriptor: int, common: Path) -> None:
    """Any program that may write there, such as an agent, can hold the lock for ever."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= until:
                raise GitFailed(f"another process has held {common / _LOCK} for {LOCK_SECONDS:g} s") from error
            time.sleep(_LOOK_SECONDS)
        else:
            return


def make_worktree(plan: WorktreePlan, *, is_again: bool = False) -> None:
    """Make it; `is_again`: it may be half made, and is finished then (law 3). `UsageError` or `GitFailed` where that is
    not possible; what was made until then is taken back."""
    with repository_lock(plan.common):
        was_begun = is_again and _commit_of(plan.common, plan.branch) == plan.base
        if not was_begun:
            refuse_existing(plan)
        try:
            if not was_begun:
                common_git(plan.common).run("update-ref", f"refs/heads/{plan.branch}", plan.base, "")
            _register(plan)
        except (GitFailed, OSError):
            _take_back(plan)
            raise
    try:
        _fill(plan)
    except (GitFailed, OSError):
        with repository_lock(plan.common):
            _take_back(plan)
        raise


def _register(plan: WorktreePlan) -> None:
    found = find_ours(plan.common, plan.path, plan.owner)
    if found is not None and (plan.path / ".git").is_file() and found.head:
        return
    _clear_half_made(plan)
    if os.path.lexists(plan.path):
        raise GitFailed(f"there is something at {plan.path} already")
    for folder in (plan.path.parent.parent, plan.path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    reason = reason_of(plan.owner)
    common_git(plan.common).run(
        "worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", reason, str(plan.path), plan.branch
    )
    plan.path.chmod(0o700)


def _fill(plan: WorktreePlan) -> None:
    """Write the files of the base. Only files that are not there yet, or that we wrote before, are in the way."""
    ours = find_ours(plan.common, plan.path, plan.owner)
    if ours is None:
        raise GitFailed(f"the worktree {plan.path} is not registered")
    await_index(ours.admin)
    (ours.admin / "index.lock").unlink(missing_ok=True)  # of one that was killed: nobody else works here yet
    with stored_objects(plan.common, format_of(plan.base)) as objects:
        more = {"GIT_WORK_TREE": str(plan.path), "GIT_INDEX_FILE": str(ours.admin / "index")}
        git = Git(plan.path, {**objects.environment, **more})
        try:
            git.run("read-tree", "--reset", "-u", plan.base, seconds=_FILL_SECONDS)
        except GitFailed as error:  # which names the files that it could not write, and not why
            free = shutil.disk_usage(plan.path).free
            if free < _LITTLE_SPACE:
                raise GitFailed(f"{free} bytes are free at {plan.path.parent}: {error}") from error
            raise


def await_index(admin: Path) -> None:
    """A git that a dead server had begun may still write: wait until it is done, or is not to be waited for."""
    until = time.monotonic() + _ORPHAN_SECONDS
    while (admin / "index.lock").exists() and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def find_ours(common: Path, path: Path, owner: str) -> OurWorktree | None:
    """The worktree at a path, if it is one that we made for this session."""
    for admin in _admins(common):
        if _text(admin / "locked") == reason_of(owner) and _text(admin / "gitdir") == str(path / ".git"):
            return OurWorktree(common, path, admin)
    return None


def _admins(common: Path) -> Iterator[Path]:
    folder = common / "worktrees"
    if folder.is_dir() and not folder.is_symlink():
        yield from sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "surrogateescape").removesuffix("\n")
    except OSError:
        return ""


def _clear_half_made(plan: WorktreePlan) -> None:
    """What a git that was killed left of this very worktree: no more than its registration and an empty folder."""
    for admin in _admins(plan.common):
        if _text(admin / "locked") == reason_of(plan.owner) and not (admin / "index").exists():
            shutil.rmtree(admin)
    if plan.path.is_dir() and not plan.path.is_symlink() and {one.name for one in plan.path.iterdir()} <= {".git"}:
        (plan.path / ".git").unlink(missing_ok=True)
        plan.path.rmdir()


def _take_back(plan: WorktreePlan) -> None:
    """Nobody has worked in it: what is there is what was written a moment ago. The branch goes if it is still there."""
    ours = find_ours(plan.common, plan.path, plan.owner)
    if ours is not None:
        shutil.rmtree(ours.path, ignore_errors=True)
        shutil.rmtree(ours.admin, ignore_errors=True)
    else:
        _clear_half_made(plan)
    common_git(plan.common).line("update-ref", "-d", f"refs/heads/{plan.branch}", plan.base)
