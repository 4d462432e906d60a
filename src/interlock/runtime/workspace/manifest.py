"""The files of a folder without git, as a list of hashes: which files changed between two looks, and nothing to undo.

Laws:
1. Files are read and never followed through a link; a link is what it names. Nothing of their content is kept.
2. A file is not read again only if its size, times, mode, inode and device are those of the last look, and its last
   change lay clearly before that look.
3. What cannot be read, other repositories and homes of Interlock are named, and never taken for deleted.
4. A look beyond its limits is given up: a list that is not whole proves nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from interlock.agents.git.looking import Stamp, TooMuch, decoded
from interlock.log.paths import DATABASE_NAME
from interlock.vocabulary.events.workspace import FileChange

_TICK_NS: Final = 50_000_000
_CHECK_EVERY: Final = 64
_CHUNK: Final = 1 << 20
_MAX_FOLDERS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestLimits:
    """What one look may cost: files that are there, bytes that are read, and time."""

    files: int = 20_000
    total_bytes: int = 200 * 1024 * 1024
    seconds: float = 20.0


class ListedFile(NamedTuple):
    """A file by its kind and the hash of its content. Without a stamp it is read at the next look."""

    kind: str
    digest: str
    stamp: Stamp | None


@dataclass(slots=True)
class Manifest:
    """What was there. `late`: files that changed after the moment that was asked about."""

    files: dict[bytes, ListedFile] = field(default_factory=dict)
    not_kept: dict[bytes, str] = field(default_factory=dict)
    late: list[bytes] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """The hash of the list: the same for the same files."""
        told = hashlib.sha256()
        for path in sorted(self.files):
            one = self.files[path]
            told.update(b"%s %s %s\0" % (one.kind.encode(), one.digest.encode(), path))
        return told.hexdigest()

    def changes_since(self, before: Manifest) -> tuple[FileChange, ...]:
        """Every file that differs, by path."""
        paths = sorted(path for path in {*before.files, *self.files} if _as_told(before, path) != _as_told(self, path))
        return tuple(_change(path, before.files.get(path), self.files.get(path)) for path in paths)


def digest_of(place: Path) -> str:
    """The hash of a file as it is now, as a manifest has it; blank where it is not there, or cannot be read."""
    try:
        seen = place.lstat()
        stamp = Stamp(seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        return _Look(place.parent, {}, ManifestLimits(), None, lambda: False).read(os.fsencode(place), stamp)[1]
    except (OSError, TooMuch):
        return ""


def _as_told(one: Manifest, path: bytes) -> tuple[str, str] | None:
    found = one.files.get(path)
    return None if found is None else found[:2]


def _change(path: bytes, before: ListedFile | None, after: ListedFile | None) -> FileChange:
    if before is None or after is None:
        word = "A" if before is None else "D"
    else:
        word = "T" if "link" in {before.kind, after.kind} and before.kind != after.kind else "M"
    digests = ("" if one is None else one.digest for one in (before, after))
    return FileChange(path=decoded(path), change=word, before=next(digests), after=next(digests))


class Manifests:
    """Takes manifests of folders. What it remembers of each makes the next one cheap, and decides nothing."""

    def __init__(self, limits: ManifestLimits | None = None) -> None:
        self._limits = limits or ManifestLimits()
        self._known: OrderedDict[Path, Manifest] = OrderedDict()
        self._is_closed = False

    def take(self, folder: str | Path, since_ns: int | None = None) -> Manifest:
        """The files as they are now. `TooMuch` or `OSError` where that is not possible."""
        root = Path(os.path.realpath(folder))
        known = self._known.get(root)
        look = _Look(root, {} if known is None else known.files, self._limits, since_ns, lambda: self._is_closed)
        self._known[root] = found = look.take()
        self._known.move_to_end(root)
        while len(self._known) > _MAX_FOLDERS:
            self._known.popitem(last=False)
        return found

    def close(self) -> None:
        """Have what is being taken given up."""
        self._is_closed = True


class _Look:
    def __init__(
        self,
        root: Path,
        known: Mapping[bytes, ListedFile],
        limits: ManifestLimits,
        since_ns: int | None,
        is_closed: Callable[[], bool],
    ) -> None:
        self._root = os.fsencode(root)
        self._known = known
        self._limits = limits
        self._since_ns = since_ns
        self._is_closed = is_closed
        self._began_ns = time.time_ns()
        self._until = time.monotonic() + limits.seconds
        self._read_bytes = 0
        self._found = Manifest()

    def take(self) -> Manifest:
        for number, path in enumerate(self._paths()):
            if number >= self._limits.files:
                raise TooMuch(f"there are more than {self._limits.files} files in the folder")
            self._check(number)
            self._look_at(path)
        self._look_for_gone()
        return self._found

    def _check(self, number: int) -> None:
        if number % _CHECK_EVERY == 0 and (self._is_closed() or time.monotonic() > self._until):
            raise TooMuch(f"looking at the files took more than {self._limits.seconds:g} s, or the server ended")

    def _paths(self) -> Iterator[bytes]:
        closed: list[bytes] = []

        def refuse(error: OSError) -> None:
            folder = os.fsencode(error.filename)
            if folder == self._root:
                raise error
            closed.append(folder[len(self._root) + 1 :])

        for here, folders, files in os.walk(self._root, onerror=refuse):
            inside = here[len(self._root) + 1 :]
            why = _foreign(folders, files) if inside else ""
            if why:
                self._leave_out_below(inside, why)
                folders.clear()
                continue
            links = [one for one in folders if os.path.islink(os.path.join(here, one))]  # noqa: PTH114, PTH118 (bytes)
            self._note_folder(here, inside)
            yield from (os.path.join(inside, one) for one in sorted((*files, *links)))  # noqa: PTH118 (bytes)
            self._check(0)
        for folder in closed:
            self._leave_out_below(folder, "a folder that cannot be read")

    def _note_folder(self, here: bytes, inside: bytes) -> None:
        """Of a first look: what went from a folder before it was never known here. The time of the folder tells."""
        if self._since_ns is not None and not self._known and os.lstat(here).st_mtime_ns >= self._since_ns:
            self._found.late.append((inside or b".") + b"/")

    def _look_at(self, path: bytes) -> None:
        full = self._root + b"/" + path
        try:
            seen = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        stamp = Stamp(seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        if self._since_ns is not None and seen.st_ctime_ns >= self._since_ns:
            self._found.late.append(path)
        known = self._known.get(path)
        if known is not None and known.stamp == stamp:
            self._found.files[path] = known
            return
        try:
            kind, digest = self.read(full, stamp)
        except OSError as error:
            self._leave_out(path, error.strerror or "unreadable")
            return
        is_settled = max(stamp.changed_ns, stamp.modified_ns) < self._began_ns - _TICK_NS
        self._found.files[path] = ListedFile(kind, digest, stamp if is_settled else None)

    def read(self, full: bytes, stamp: Stamp) -> tuple[str, str]:
        """The kind of a file and the hash of its content."""
        if stat.S_ISLNK(stamp.mode):
            return "link", hashlib.sha256(os.fsencode(os.readlink(full))).hexdigest()  # noqa: PTH115 (bytes)
        if not stat.S_ISREG(stamp.mode):
            raise OSError(0, "no regular file")
        told = hashlib.sha256()
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 (a descriptor has no path)
            while piece := file.read(_CHUNK):
                told.update(piece)
                self._read_bytes += len(piece)
                if self._read_bytes > self._limits.total_bytes:
                    raise TooMuch(f"there are more than {self._limits.total_bytes} bytes to read in the folder")
                self._check(0)
        return "program" if stamp.mode & stat.S_IXUSR else "file", told.hexdigest()

    def _leave_out(self, path: bytes, why: str) -> None:
        """It is there, and what is in it is not known: it counts as it was known last."""
        self._found.not_kept[path] = why
        if path in self._known:
            self._found.files[path] = self._known[path]._replace(stamp=None)

    def _leave_out_below(self, folder: bytes, why: str) -> None:
        self._found.not_kept[folder + b"/"] = why
        for path, one in self._known.items():
            if path.startswith(folder + b"/"):
                self._found.files[path] = one._replace(stamp=None)

    def _look_for_gone(self) -> None:
        """A file that is gone has no time any more. The folder that it was in has."""
        for path in self._known.keys() - self._found.files.keys() if self._since_ns is not None else ():
            try:
                changed_ns = os.lstat(os.path.dirname(self._root + b"/" + path)).st_mtime_ns  # noqa: PTH120 (bytes)
            except OSError:
                changed_ns = self._since_ns or 0
            if changed_ns >= (self._since_ns or 0):
                self._found.late.append(path)


def _foreign(folders: list[bytes], files: list[bytes]) -> str:
    if b".git" in folders or b".git" in files:
        return "nested repository"
    return "a home of Interlock" if os.fsencode(DATABASE_NAME) in files else ""
