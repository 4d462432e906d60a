"""Finds the repository of a folder, and reads its objects without its configuration.

Law: objects are read and written through a neutral git directory, made for the occasion, whose only tie to the
repository is its store of objects. There is no configuration, no attribute, no hook and no remote in it, so that no
filter, diff driver or promisor of the repository has a say in what is compared.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from interlock.agents.git.running import Git, GitFailed
from interlock.vocabulary.errors import InterlockError

_FORMATS: Final = {"sha1": 40, "sha256": 64}
_DISCOVERY: Final = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-object-format")
_NONE: Final = "not a git repository (or any"  # for git, an empty folder `.git` is nothing
_EXCLUDES_SECONDS: Final = 10.0


class NoRepository(InterlockError):
    """The folder is in no work tree of git: no folder above it has a `.git`."""


class OddRepository(NoRepository):
    """There is a repository, and it cannot be taken at its word. The message says why."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One work tree with its git directory. `common` is the git directory that all its work trees share."""

    root: Path
    git_dir: Path
    common: Path
    object_format: str

    @property
    def git(self) -> Git:
        """Git in the work tree. Only for commands that look at no file's content."""
        return Git(self.root, {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.root)})

    @property
    def branch(self) -> str:
        """The branch that is checked out; blank where none is."""
        return self.git.line("symbolic-ref", "--quiet", "--short", "HEAD")

    @property
    def head(self) -> str:
        """The commit that is checked out; blank before the first one."""
        return self.git.line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def resolve(self, name: str) -> str:
        """The commit that a ref, a branch or an id names; blank where it names none."""
        return self.git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def resolve_all(self, *names: str) -> tuple[str, ...]:
        """As `resolve`, of several in one call of git."""
        with tempfile.TemporaryFile() as asked:
            asked.write("".join(f"{name}^{{commit}}\n" for name in names).encode())
            asked.seek(0)
            told = self.git.run("cat-file", "--batch-check=%(objectname)", stdin=asked).decode().splitlines()
        length = _FORMATS[self.object_format]
        return tuple(one if len(one) == length else "" for one in told)

    @contextmanager
    def objects(self) -> Iterator[Git]:
        """Git over the objects of this repository, and nothing else of it."""
        with stored_objects(self.common, self.object_format) as objects:
            yield objects


@contextmanager
def stored_objects(common: Path, object_format: str) -> Iterator[Git]:
    """Git over the objects of the repository with this common git directory, and nothing else of it."""
    with tempfile.TemporaryDirectory(prefix="interlock-git-") as folder:
        neutral = Path(folder)
        for name in ("objects", "refs"):
            (neutral / name).mkdir()
        (neutral / "HEAD").write_text("ref: refs/heads/none\n")
        is_plain = object_format == "sha1"
        lines = ["[core]", f"repositoryformatversion = {0 if is_plain else 1}", "bare = true"]
        lines += [] if is_plain else ["[extensions]", f"objectFormat = {object_format}"]
        (neutral / "config").write_text("\n".join(lines) + "\n")
        yield Git(neutral, {"GIT_DIR": folder, "GIT_OBJECT_DIRECTORY": str(common / "objects")})


def format_of(object_id: str) -> str:
    """The object format of an id, by its length."""
    return next(name for name, length in _FORMATS.items() if length >= len(object_id))


def find_repository(folder: str | Path) -> Repository:
    """The work tree that a folder is in. `NoRepository` where there is none, `OddRepository` where git does not take
    it, or git's answer is not to be believed."""
    place = _place(folder)
    nearest = nearest_root(place)
    if nearest is None:
        raise NoRepository(f"{place} is in no git repository")
    try:
        told = Git(place).run("rev-parse", *_DISCOVERY)
    except GitFailed as error:
        kind = NoRepository if _NONE in str(error) else OddRepository
        raise kind(f"{place} is in no git work tree: {error}") from error
    lines = told.decode("utf-8", "surrogateescape").splitlines()
    if len(lines) != len(_DISCOVERY):
        raise OddRepository(f"git does not say where the repository of {place} is")
    root, git_dir, object_format = Path(lines[0]), Path(lines[1]), lines[3]
    if object_format not in _FORMATS:
        raise OddRepository(f"objects of {root} have the format {object_format!r}, which is not known here")
    if root != nearest:  # `core.worktree` may name any folder, such as a home
        raise OddRepository(f"the repository of {place} names another work tree: {root}")
    return Repository(root, git_dir, (place / lines[2]).resolve(), object_format)


def _place(folder: str | Path) -> Path:
    try:
        return Path(folder).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise NoRepository(f"there is no folder {folder}") from error


def nearest_root(place: Path) -> Path | None:
    """The nearest folder, upwards, with a `.git` in it."""
    return next((one for one in (place, *place.parents) if os.path.lexists(one / ".git")), None)


@cache
def own_excludes() -> tuple[str, ...]:
    """The user's own list of ignored files, as a setting for git: `core.excludesFile` of the global configuration."""
    command = ["git", "config", "--global", "--type=path", "--get", "core.excludesFile"]
    try:
        told = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_EXCLUDES_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    path = told.stdout.decode("utf-8", "surrogateescape").strip()
    return (f"core.excludesFile={path}",) if told.returncode == 0 and path else ()
