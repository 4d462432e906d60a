"""What is done in a new worktree before an agent works there: ignored files are copied or linked, and a command of the
user runs. Another one may run before it is removed.

Laws:
1. Only what git ignores in the source is copied or linked, by its name. No link is followed on the way, and nothing
   that is there is written over. A link is made only where git ignores the link itself.
2. A command ends: by itself, or at its deadline, with all it started. The end of its output is kept.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from interlock.agents.git.repository import NoRepository, find_repository, own_excludes
from interlock.agents.git.running import GitFailed
from interlock.agents.processes.command import run_command
from interlock.vocabulary.errors import PeerFault


class WorktreeSetupFailed(PeerFault):
    """The setup command failed. The message has its last words."""


def copy_ignored(source: Path, target: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Copy files by their paths in the work tree, and give what was not copied, each with the reason."""
    left = []
    for name in names:
        why = _copy_one(source, target, name)
        if why:
            left.append(f"{name} was not copied: {why}")
    return tuple(left)


def _copy_one(source: Path, target: Path, name: str) -> str:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or ".git" in parts:
        return "it is no path inside the repository"
    if not _is_ignored(source, name):
        return "git does not ignore it, or it is not there"
    try:
        with _open_at(source, parts) as reading:
            found = os.fstat(reading.fileno())
            if not stat.S_ISREG(found.st_mode):
                return "it is no regular file"
            return _write_at(target, parts, reading, stat.S_IMODE(found.st_mode))
    except OSError as error:
        return error.strerror or "it cannot be read"


def link_ignored(source: Path, target: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Link files and folders to those of the source, and give what was not linked, each with the reason."""
    return tuple(
        f"{name} was not linked: {why}"
        for name, why in ((name, _link_one(source, target, name)) for name in names)
        if why
    )


def _link_one(source: Path, target: Path, name: str) -> str:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or ".git" in parts:
        return "it is no path inside the repository"
    if not _is_ignored(source, name, "--directory"):
        return "git does not ignore it, or it is not there"
    try:
        above = _folder_at(source, parts[:-1], makes=False)
        try:
            mode = os.stat(parts[-1], dir_fd=above, follow_symlinks=False).st_mode
        finally:
            os.close(above)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return "it is no regular file and no folder"
        return _link_at(target, parts, str(source / name))
    except OSError as error:
        return error.strerror or "it cannot be read"


def _link_at(target: Path, parts: Sequence[str], original: str) -> str:
    above = _folder_at(target, parts[:-1], makes=True)
    try:
        os.symlink(original, parts[-1], dir_fd=above)
        if _is_ignored(target, "/".join(parts)):
            return ""
        os.unlink(parts[-1], dir_fd=above)
        return "git would not ignore the link: in .gitignore, write its name without a / at the end"
    except FileExistsError:
        is_ours = _reads_as(parts[-1], above) == original
        return "" if is_ours else "there is something of that name in the worktree"
    finally:
        os.close(above)


def _reads_as(name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def _is_ignored(source: Path, name: str, *more: str) -> bool:
    """Whether git ignores a file; with `--directory`, a file or a folder."""
    asked = ("ls-files", "--others", "--ignored", "--exclude-standard", *more, "-z", "--", name)
    try:
        told = find_repository(source).git.run(*asked, settings=own_excludes()).split(b"\0")
    except (GitFailed, NoRepository):
        return False
    path = os.fsencode(name)
    return path in told or path + b"/" in told


def _folder_at(root: Path, parts: Sequence[str], *, makes: bool) -> int:
    """A descriptor of a folder below a root, by folders that are no links."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open(root, flags)
    for part in parts:
        try:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=here)
            below = os.open(part, flags, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _open_at(root: Path, parts: Sequence[str]) -> IO[bytes]:
    folder = _folder_at(root, parts[:-1], makes=False)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.fdopen(os.open(parts[-1], flags, dir_fd=folder), "rb")
    finally:
        os.close(folder)


def _write_at(root: Path, parts: Sequence[str], reading: IO[bytes], mode: int) -> str:
    """Written beside its place, and linked there: half a file is never in the way of a whole one."""
    folder = _folder_at(root, parts[:-1], makes=True)
    beside = f".{parts[-1]}.interlock"
    try:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, 0o600, dir_fd=folder), "wb") as writing:
            shutil.copyfileobj(reading, writing)
            os.fchmod(writing.fileno(), mode)
        try:
            os.link(beside, parts[-1], src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return ""  # it is there, from a first attempt: nothing is written over
        finally:
            os.unlink(beside, dir_fd=folder)
    finally:
        os.close(folder)
    return ""


def run_setup(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float, *, name: str = "setup"
) -> None:
    """Run a command in the worktree. `WorktreeSetupFailed` where it fails, hangs or is not there."""
    try:
        end = run_command(argv, folder, environment, seconds)
    except (OSError, ValueError) as error:
        raise WorktreeSetupFailed(f"the {name} command cannot be run: {error}") from error
    words = end.output[-1000:] or "nothing"
    if end.exit_code is None:
        raise WorktreeSetupFailed(f"the {name} command was ended: it took more than {seconds:g} s. It said: {words}")
    if end.exit_code != 0:
        raise WorktreeSetupFailed(f"the {name} command failed with {end.exit_code}. It said: {words}")
