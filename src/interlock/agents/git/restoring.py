"""Puts one file of a work tree back to what a tree has of it.

Laws:
1. Only a file that is exactly what is expected is touched; anything else is refused, and stays as it is.
2. No link is followed on the way, and nothing outside of the work tree is touched.
3. The file is never half written, and never missing in between: what takes its place is complete before it does. What
   was there is looked at once more afterwards, and put back if it changed in that moment.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final

from interlock.agents.git.looking import LookLimits, decoded, object_id_of
from interlock.agents.git.running import Git
from interlock.vocabulary.errors import InterlockError

ABSENT: Final = "000000"
_LINK, _PROGRAM, _FILE = "120000", "100755", "100644"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotRestored(InterlockError):
    """The file was left as it is. The message says why."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as a tree has it. With the mode `ABSENT` it is not there."""

    mode: str
    object_id: str

    @property
    def is_there(self) -> bool:
        return self.mode != ABSENT


def restore_file(objects: Git, root: Path, path: bytes, *, expected: FileEntry, wanted: FileEntry) -> None:
    """Make the file as `wanted`, if it is as `expected` now. `NotRestored` where it is not, or cannot be made so."""
    for entry in (expected, wanted):
        if entry.is_there and entry.mode not in (_LINK, _PROGRAM, _FILE):
            raise NotRestored(f"{decoded(path)} is no file: mode {entry.mode}")
    content = objects.run("cat-file", "blob", wanted.object_id) if wanted.is_there else b""
    try:
        with _opened_folder(root, path, makes=not expected.is_there) as folder:
            _Place(folder, path.rpartition(b"/")[2], decoded(path), len(wanted.object_id)).put(
                expected, wanted, content
            )
    except OSError as error:
        raise NotRestored(f"{decoded(path)} cannot be put back: {error.strerror or error}") from error


@contextmanager
def _opened_folder(root: Path, path: bytes, *, makes: bool) -> Iterator[int]:
    """The folder that a path is in, reached step by step. Folders that are gone are made where `makes` says so."""
    folder = os.open(root, _FOLDER)
    try:
        parts = path.split(b"/")
        if any(name in (b"", b".", b"..", b".git") for name in parts):
            raise NotRestored(f"{decoded(path)} is not inside of the work tree")
        for name in parts[:-1]:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            inner = _open_inner(folder, name, path)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _open_inner(folder: int, name: bytes, path: bytes) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotRestored(f"{decoded(name)} on the way to {decoded(path)} is no folder now") from error
        raise


@dataclass(frozen=True, slots=True)
class _Place:
    """One name in an open folder. `id_length` is that of the repository's ids."""

    folder: int
    name: bytes
    shown: str
    id_length: int

    def put(self, expected: FileEntry, wanted: FileEntry, content: bytes) -> None:
        found = self._entry(self.name)
        if found != expected:
            now = "is not there now" if not found.is_there else "changed since"
            raise NotRestored(f"{self.shown} {now}: it is not what the turn left")
        mark = token_hex(6).encode()
        new, old = b".interlock-new-" + mark, b".interlock-old-" + mark
        try:
            if wanted.is_there:
                self._write(new, wanted, content)
            if expected.is_there:
                self._swap(new if wanted.is_there else None, old, expected)
            else:  # a link never takes the place of anything
                self._link(new, self.name)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=self.folder)

    def _swap(self, new: bytes | None, old: bytes, expected: FileEntry) -> None:
        self._link(self.name, old)
        try:
            if new is None:
                os.unlink(self.name, dir_fd=self.folder)
            else:
                os.rename(new, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except OSError:
            os.unlink(old, dir_fd=self.folder)
            raise
        if not self._is_still(old, expected):
            os.rename(old, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            raise NotRestored(f"{self.shown} changed in this moment: it is not what the turn left")
        os.unlink(old, dir_fd=self.folder)

    def _is_still(self, name: bytes, expected: FileEntry) -> bool:
        try:
            return self._entry(name) == expected
        except (OSError, NotRestored):
            return False

    def _link(self, source: bytes, target: bytes) -> None:
        os.link(source, target, src_dir_fd=self.folder, dst_dir_fd=self.folder, follow_symlinks=False)

    def _write(self, name: bytes, wanted: FileEntry, content: bytes) -> None:
        if wanted.mode == _LINK:
            os.symlink(content, name, dir_fd=self.folder)
            return
        descriptor = os.open(name, _NEW, 0o777 if wanted.mode == _PROGRAM else 0o666, dir_fd=self.folder)
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            file.write(content)
            file.flush()
            mode = self._mode(wanted)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())

    def _mode(self, wanted: FileEntry) -> int | None:
        """The permissions of the file that is there, but for the one that git keeps; None where there is none."""
        try:
            seen = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(seen.st_mode):
            return None
        mode = stat.S_IMODE(seen.st_mode) & 0o777
        readers = (mode & 0o444) >> 2
        return mode | readers if wanted.mode == _PROGRAM else mode & ~0o111

    def _entry(self, name: bytes) -> FileEntry:
        """The file as it is now, as a tree would have it."""
        try:
            seen = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return FileEntry(ABSENT, "0" * self.id_length)
        object_format = "sha1" if self.id_length == 40 else "sha256"
        if stat.S_ISLNK(seen.st_mode):
            target = os.readlink(name, dir_fd=self.folder)
            return FileEntry(_LINK, object_id_of(target, object_format))
        if not stat.S_ISREG(seen.st_mode):
            return FileEntry("", "")
        mode = _PROGRAM if seen.st_mode & stat.S_IXUSR else _FILE
        return FileEntry(mode, object_id_of(self._read(name), object_format))

    def _read(self, name: bytes) -> bytes:
        most = LookLimits().file_bytes
        descriptor = os.open(name, _READ, dir_fd=self.folder)
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor has no path)
            content = file.read(most + 1)
        if len(content) > most:
            raise NotRestored(f"{self.shown} is larger than {most} bytes")
        return content
