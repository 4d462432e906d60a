"""Looks at every file of a work tree, and hashes those that may have changed since the last look.

Laws:
1. Files are read as they are: no filter, no change of line ends. Symbolic links are kept as links, and never followed.
2. A file is not read again only if its size, times, mode, inode and device are those of the last look, and its last
   change lay clearly before that look. In doubt it is read.
3. What cannot be kept (a nested repository, an unreadable or a huge file) is named. It is never taken for deleted.
4. A look that would cost more than its limits is given up.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from interlock.agents.git.repository import Repository, own_excludes
from interlock.vocabulary.errors import InterlockError

# Clocks of file systems tick; two changes within a tick have the same time.
_TICK_NS: Final = 50_000_000
_CHECK_EVERY: Final = 64
_CLOSED: Final = re.compile(r"^warning: could not open directory '(.*)': ", re.MULTILINE)
_LINK, _PROGRAM, _FILE = b"120000", b"100755", b"100644"


class TooMuch(InterlockError):
    """The look was given up at one of its limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookLimits:
    """What one look may cost: new content to keep, the largest file, and time."""

    files: int = 20_000
    total_bytes: int = 256 * 1024 * 1024
    file_bytes: int = 64 * 1024 * 1024
    seconds: float = 60.0


class Stamp(NamedTuple):
    """By what a file is known to be as it was."""

    device: int
    inode: int
    mode: int
    size: int
    modified_ns: int
    changed_ns: int


class KeptFile(NamedTuple):
    """A file of the tree. Without a stamp it is read at the next look."""

    mode: bytes
    object_id: str
    stamp: Stamp | None


Keep = Callable[[str, bytes], None]
"""Called with the id and the content of each object that the store may lack."""


@dataclass(slots=True)
class Look:
    """What was found. `changed_after`: files that changed after the moment that was asked about."""

    files: dict[bytes, KeptFile] = field(default_factory=dict)
    not_kept: dict[bytes, str] = field(default_factory=dict)
    changed_after: list[bytes] = field(default_factory=list)


class Looker:
    """One look at a work tree. `known` is what the last one found; `since_ns`: files that changed later are told."""

    def __init__(
        self,
        repository: Repository,
        known: Mapping[bytes, KeptFile],
        keep: Keep,
        limits: LookLimits,
        since_ns: int | None = None,
        is_closed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._repository = repository
        self._root = os.fsencode(repository.root)
        self._known = known
        self._keep = keep
        self._limits = limits
        self._since_ns = since_ns
        self._is_closed = is_closed
        self._stored = {one.object_id for one in known.values()}
        self._began_ns = time.time_ns()
        self._until = time.monotonic() + limits.seconds
        self._folders: dict[bytes, bool] = {b"": True}
        self._kept_files = self._kept_bytes = 0
        self._closed: tuple[bytes, ...] = ()  # folders that git could not list
        self._found = Look()

    def look(self) -> Look:
        """Everything that git would take up, tracked or not, but for what is ignored."""
        for number, path in enumerate(self._paths()):
            if number % _CHECK_EVERY == 0:
                self._check_time()
            self._look_at(path)
        self._leave_out_closed()
        self._look_for_gone()
        return self._found

    def _check_time(self) -> None:
        if self._is_closed():
            raise TooMuch("the server ended before every file was looked at")
        if time.monotonic() > self._until:
            raise TooMuch(f"looking at the files took more than {self._limits.seconds:g} s")

    def trust_index(self) -> None:
        """Take the objects that the index names as stored, so that a first look writes only what is not committed."""
        listed = self._repository.git.run("ls-files", "--stage", "-z")
        self._stored |= {one.split(b" ", 2)[1].decode() for one in listed.split(b"\0") if one}

    def _paths(self) -> Iterator[bytes]:
        asked = ("ls-files", "--cached", "--others", "--exclude-standard", "-z")
        git, limits = self._repository.git, self._limits
        listed, warned = git.run_warned(*asked, seconds=limits.seconds, settings=own_excludes())
        self._closed = tuple(os.fsencode(one) for one in _CLOSED.findall(warned))
        return iter(dict.fromkeys(one for one in listed.split(b"\0") if one))

    def _look_at(self, path: bytes) -> None:
        if path.endswith(b"/"):
            self._found.not_kept[path] = "nested repository"
            return
        if not self._is_in_folder(path):
            return
        full = self._root + b"/" + path
        try:
            seen = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._leave_out(path, error.strerror or "unreadable")
            return
        # A plain tuple: to make a named one costs more than all the rest, and is only done for what changed.
        stamp = (seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        self._note_time(path, seen.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known.stamp == stamp:
            self._found.files[path] = known
        else:
            self._read(path, full, Stamp(*stamp))

    def _note_time(self, path: bytes, changed_ns: int) -> None:
        if self._since_ns is not None and changed_ns >= self._since_ns:
            self._found.changed_after.append(path)

    def _is_in_folder(self, path: bytes) -> bool:
        """Whether each folder on the way is one, and no link to somewhere else."""
        parent = path.rpartition(b"/")[0]
        known = self._folders.get(parent)
        if known is None:
            known = self._is_in_folder(parent) and _is_folder(self._root + b"/" + parent)
            self._folders[parent] = known
        return known

    def _read(self, path: bytes, full: bytes, stamp: Stamp) -> None:
        kind = stat.S_IFMT(stamp.mode)
        if kind == stat.S_IFDIR:  # where a file was, there is a folder now; what is in it is listed by itself
            if os.path.lexists(full + b"/.git") or self._is_filled_module(path, full):
                self._found.not_kept[path] = "submodule or nested repository"
            return
        if kind not in (stat.S_IFREG, stat.S_IFLNK):
            self._leave_out(path, "no regular file")
            return
        if stamp.size > self._limits.file_bytes:
            self._leave_out(path, f"larger than {self._limits.file_bytes} bytes")
            return
        try:
            content = _read(full, kind, self._limits.file_bytes)
        except OSError as error:
            self._leave_out(path, error.strerror or "unreadable")
            return
        object_id = object_id_of(content, self._repository.object_format)
        self._store(object_id, content)
        is_settled = max(stamp.changed_ns, stamp.modified_ns) < self._began_ns - _TICK_NS
        is_whole = len(content) == stamp.size
        kept = KeptFile(_kind_of(stamp.mode), object_id, stamp if is_settled and is_whole else None)
        self._found.files[path] = kept

    def _is_filled_module(self, path: bytes, full: bytes) -> bool:
        """Whether it is the folder of a submodule that is not checked out, with something in it: git lists none of
        that."""
        try:
            is_filled = bool(os.listdir(full))  # noqa: PTH208 (bytes)
        except OSError:
            return True
        told = self._repository.git.run("ls-files", "--stage", "-z", "--", os.fsdecode(path)) if is_filled else b""
        return told.startswith(b"160000 ")

    def _store(self, object_id: str, content: bytes) -> None:
        if object_id in self._stored:
            return
        self._stored.add(object_id)
        self._kept_files += 1
        self._kept_bytes += len(content)
        if self._kept_files > self._limits.files or self._kept_bytes > self._limits.total_bytes:
            most = f"{self._limits.files} new files or {self._limits.total_bytes} bytes"
            raise TooMuch(f"more than {most} would have to be kept")
        self._keep(object_id, content)

    def _leave_out(self, path: bytes, why: str) -> None:
        """It is there, and what is in it is not known: the tree keeps what it last had of it."""
        self._found.not_kept[path] = why
        if path in self._known:
            self._found.files[path] = self._known[path]._replace(stamp=None)

    def _leave_out_closed(self) -> None:
        """What is in a folder that cannot be read is not listed, and not gone."""
        for folder in self._closed:
            self._found.not_kept.setdefault(folder, "a folder that cannot be read")
            for path in self._known.keys() - self._found.files.keys():
                if path.startswith(folder):
                    self._leave_out(path, "in a folder that cannot be read")

    def _look_for_gone(self) -> None:
        """A file that is gone has no time any more. The folder that it was in has."""
        if self._since_ns is None:
            return
        for path in self._known.keys() - self._found.files.keys():
            folder = self._root + b"/" + path.rpartition(b"/")[0]
            try:
                changed_ns = os.lstat(folder).st_mtime_ns
            except OSError:
                changed_ns = self._since_ns  # gone as well: when is not known
            self._note_time(path, changed_ns)


def object_id_of(content: bytes, object_format: str) -> str:
    """The id that git gives to a file of this content."""
    digest = hashlib.new(object_format, b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _read(path: bytes, kind: int, most: int) -> bytes:
    return os.fsencode(os.readlink(path)) if kind == stat.S_IFLNK else _read_file(path, most)  # noqa: PTH115 (bytes)


def _read_file(path: bytes, most: int) -> bytes:
    """A regular file. Neither a link nor a pipe that took its place is followed or waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 (a descriptor has no path)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "no regular file any more")
        content = file.read(most + 1)
        while piece := file.read(most + 1 - len(content)):
            content += piece
    if len(content) > most:
        raise OSError(0, f"it grew beyond {most} bytes")
    return content


def look_at_one(repository: Repository, path: bytes) -> str:
    """A file as it is now, as `ls-tree` would tell it; blank where it is not there, or is none."""
    full = os.fsencode(repository.root) + b"/" + path
    try:
        mode = os.lstat(full).st_mode
        content = _read(full, stat.S_IFMT(mode), LookLimits().file_bytes)
    except OSError:
        return ""
    return f"{_kind_of(mode).decode()} blob {object_id_of(content, repository.object_format)}"


def _kind_of(mode: int) -> bytes:
    """The mode that git keeps of a file."""
    if stat.S_ISLNK(mode):
        return _LINK
    return _PROGRAM if mode & stat.S_IXUSR else _FILE


def decoded(path: bytes) -> str:
    """A path as text; bytes that are no text are written as escapes."""
    return path.decode("utf-8", "backslashreplace")


def path_in(root: Path, file: Path) -> bytes:
    """The path of a file below a root, as git writes it."""
    return os.fsencode(os.path.relpath(file, root)).replace(os.fsencode(os.sep), b"/")
