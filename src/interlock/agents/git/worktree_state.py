"""What a worktree holds that would be lost with it: every file against its commit, and commits that nothing else keeps.

Laws:
1. Nothing that the repository configures runs, and what it says is not taken at its word: files are compared with the
   commit through a neutral git directory and an index of its own, so that no mark in the user's index hides a change.
2. What cannot be told counts as something that would be lost.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.git.looking import decoded
from interlock.agents.git.repository import format_of, own_excludes, stored_objects
from interlock.agents.git.running import Git, GitFailed
from interlock.agents.git.submodules import git_directory_of, modules_at, unkept_in
from interlock.agents.git.worktrees import OurWorktree, common_git

_STATUS: Final = (
    "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--ignore-submodules=all",
    "--no-renames",
)  # fmt: skip
_SECONDS: Final = 300.0
_LISTED: Final = 3
_UNFINISHED: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeState:
    """`changed` are tracked files that differ from the commit, in the work tree or as they are staged; `unfinished`
    what is going on in it, such as a rebase. `submodules`: those that are checked out, and no loss."""

    head: str
    branch: str
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    submodules: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether every file that is not ignored is as the commit has it."""
        return not (self.changed or self.untracked or self.unfinished)


@contextmanager
def neutral_tree(common: Path, path: Path, commit: str) -> Iterator[Git]:
    """Git over the files at a path as if they were a checkout of a commit, with nothing of the repository but its
    objects, its list of excluded files and an index of its own, which is empty."""
    with stored_objects(common, format_of(commit)) as objects:
        (objects.folder / "HEAD").write_text(f"{commit}\n")
        (objects.folder / "info").mkdir()
        excludes = common / "info" / "exclude"
        if excludes.is_file() and not excludes.is_symlink():
            shutil.copyfile(excludes, objects.folder / "info" / "exclude")
        more = {"GIT_WORK_TREE": str(path), "GIT_INDEX_FILE": str(objects.folder / "index")}
        yield Git(path, {**objects.environment, **more})


def state_of(ours: OurWorktree, path: Path | None = None) -> WorktreeState:
    """How a worktree stands; `path`: where its folder is now, if it was moved. `GitFailed` where it cannot be told."""
    place, head = path or ours.path, ours.head
    if not head or not place.is_dir():
        raise GitFailed(f"the worktree {place} has no folder, or no commit")
    with neutral_tree(ours.common, place, head) as git:
        git.run("read-tree", head, seconds=_SECONDS)
        told = git.run(*_STATUS, seconds=_SECONDS, settings=own_excludes())
        lines = [(one[:2], decoded(one[3:])) for one in told.split(b"\0") if one]
        staged = _staged(git, ours, head)
    proven, doubtful = _submodules(ours, place, head)
    lines = [(kind, path) for kind, path in lines if path.rstrip("/") not in proven]
    changed = [path for kind, path in lines if kind not in (b"??", b"!!")]
    return WorktreeState(
        head=head,
        branch=ours.branch,
        changed=tuple(dict.fromkeys((*changed, *staged))),
        untracked=tuple(path for kind, path in lines if kind == b"??"),
        ignored=tuple(path for kind, path in lines if kind == b"!!"),
        unfinished=(*_unfinished(ours.admin), *doubtful),
        submodules=proven,
    )


def _staged(git: Git, ours: OurWorktree, head: str) -> tuple[str, ...]:
    """Files whose staged content is not that of the commit."""
    if not (ours.admin / "index").is_file():
        return ()
    copy = Path(git.environment["GIT_INDEX_FILE"]).with_name("staged")
    shutil.copyfile(ours.admin / "index", copy)
    asked = Git(git.folder, {**git.environment, "GIT_INDEX_FILE": str(copy)})
    told = asked.run("diff-index", "--cached", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", head)
    return tuple(decoded(one) for one in told.split(b"\0") if one)


def _unfinished(admin: Path) -> Iterator[str]:
    yield from (f"{name} is there" for name in _UNFINISHED if os.path.lexists(admin / name))


def _submodules(ours: OurWorktree, place: Path, head: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The submodules that are no loss, and what would be lost with the others."""
    if not (ours.admin / "modules").is_dir():
        return (), ()
    proven, doubtful, seen = [], [], set()
    for path, wanted in modules_at(ours.common, head).items():
        name = os.fsdecode(path)
        admin = git_directory_of(ours, place, name)
        if admin is not None:
            seen.add(admin)
            why = _submodule_loss(OurWorktree(admin, place / name, admin), wanted)
            doubtful += [f"submodule {decoded(path)}: {why}"] if why else []
            proven += [] if why else [decoded(path)]
    if not _git_directories(ours.admin / "modules") <= seen:
        doubtful.append("repositories of submodules are in it that its commit does not name")
    return tuple(proven), tuple(doubtful)


def _git_directories(folder: Path) -> set[Path]:
    """The outermost git directories below a folder."""
    found: set[Path] = set()
    for here, folders, files in os.walk(folder):
        if "HEAD" in files or "objects" in folders:
            found.add(Path(here).resolve())
            folders.clear()
    return found


def _submodule_loss(module: OurWorktree, wanted: str) -> str:
    """Why a submodule may hold what nothing else has; blank: it does not. In doubt it does."""
    try:
        state = state_of(module)
        more = (*state.ignored, *unlisted_in(module, module.path, state))
        files = (*state.changed, *state.untracked, *more)
        if files:
            return f"it has changes: {', '.join(files[:_LISTED])}"
        if state.unfinished:
            return state.unfinished[0]
        return unkept_in(module.admin) or ("" if state.head == wanted else "another commit is checked out")
    except (GitFailed, OSError, ValueError) as error:
        return f"it cannot be looked at: {error}"


def unlisted_in(ours: OurWorktree, place: Path, state: WorktreeState) -> tuple[str, ...]:
    """What git lists nowhere, and would be lost unseen: another repository in a folder whose files are tracked, or in
    the place of the worktree's own `.git`; what is in the folder of a submodule; folders that cannot be read."""
    modules = modules_at(ours.common, state.head)
    listed = {*state.untracked, *state.ignored}
    root, found = os.fsencode(place), []

    def unreadable(error: OSError) -> None:
        found.append(decoded(os.path.relpath(os.fsencode(error.filename), root)) + "/")

    for folder, folders, files in os.walk(root, onerror=unreadable):
        inside = folder[len(root) + 1 :]
        if inside in modules and decoded(inside) in state.submodules:
            folders.clear()
            continue
        if inside in modules:
            found += [decoded(inside) + "/"] if folders or files else []
            folders.clear()
            continue
        if b".git" in (*folders, *files) and not (folder == root and _is_own_git(ours, place)):
            found.append(decoded(os.path.join(inside, b".git")))  # noqa: PTH118 (bytes)
        folders[:] = [
            one
            for one in folders
            if one != b".git" and decoded(os.path.join(inside, one)) + "/" not in listed  # noqa: PTH118 (bytes)
        ]
    return tuple(sorted(found))


def _is_own_git(ours: OurWorktree, place: Path) -> bool:
    """Whether `.git` still is what git wrote there: a file that leads to the worktree's own git directory."""
    file = place / ".git"
    try:
        said = file.read_text("utf-8", "surrogateescape").removesuffix("\n") if not file.is_symlink() else ""
    except OSError:
        return False
    return (place / said.removeprefix("gitdir: ")).resolve() == ours.admin.resolve() and said.startswith("gitdir: ")


def keepers_of(common: Path, commit: str, *, besides: str = "") -> tuple[str, ...]:
    """Branches, remote branches and tags that lead to a commit, but for one branch. They keep it."""
    told = common_git(common).run(
        "for-each-ref", "--contains", commit, "--format=%(refname)", "refs/heads", "refs/remotes", "refs/tags"
    )
    found = told.decode("utf-8", "surrogateescape").splitlines()
    return tuple(one for one in found if one != f"refs/heads/{besides}")


def commits_between(common: Path, old: str, new: str) -> int:
    """How many commits lead to one and not to the other."""
    return int(common_git(common).run("rev-list", "--count", new, f"^{old}", "--") or 0)


def filtered_of(git: Git, paths: Sequence[bytes]) -> tuple[bytes, ...]:
    """The paths for which the attributes in an index name a filter."""
    with tempfile.TemporaryFile() as asked:
        asked.writelines(one + b"\0" for one in paths)
        asked.seek(0)
        told = git.run("check-attr", "--cached", "-z", "--stdin", "filter", stdin=asked).split(b"\0")
    values = zip(told[::3], told[2::3], strict=False)
    return tuple(path for path, value in values if value not in (b"unspecified", b"unset"))
