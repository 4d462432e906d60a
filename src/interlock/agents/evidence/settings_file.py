"""A user's settings file, changed so that nothing of theirs can be lost.

Laws:
1. A file is replaced whole (write beside it, then rename) and keeps its mode and owner; nobody ever reads half of one.
2. What was read is compared again just before the rename: somebody else's edit in between is never overwritten.
3. A symlink stays one: the file that it names is replaced.
4. What was there before is kept beside it, readable by whoever could read the file itself.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.vocabulary.errors import UsageError

MAX_SETTINGS_BYTES: Final = 4 * 1024 * 1024
BACKUP_SUFFIX: Final = ".before-interlock"
_NEW_FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read. `data` is None where there is none."""

    path: Path
    data: bytes | None
    mode: int = _NEW_FILE_MODE
    owner: tuple[int, int] | None = None

    @property
    def content(self) -> bytes:
        return self.data or b""

    @property
    def backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)


def read_settings(path: Path) -> SettingsFile:
    """Read the file, wherever a symlink leads. `UsageError` for what is no plain file, or none of a sane size."""
    path = _target(path)
    try:
        found = path.stat()
    except FileNotFoundError:
        return SettingsFile(path, None)
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a plain file", remedy="move it away, or name another folder with --config-dir")
    if found.st_size > MAX_SETTINGS_BYTES:
        raise UsageError(f"{path} is larger than {MAX_SETTINGS_BYTES} bytes", remedy="see what is in it")
    return SettingsFile(path, path.read_bytes(), stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def _target(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of symlinks
        raise UsageError(f"{path} leads nowhere", remedy="fix the symlink") from error


def write_settings(file: SettingsFile, data: bytes | None) -> None:
    """Replace the content of a file that was read before; None removes it. `UsageError` if that cannot be done safely.

    The file is as it was, or as it should be; there is nothing in between.
    """
    _check_writable(file)
    if data is None:
        _check_unchanged(file)
        file.path.unlink(missing_ok=True)
        return
    file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = _written_beside(file, data)
    try:
        _check_unchanged(file)
        made.rename(file.path)
    finally:
        made.unlink(missing_ok=True)
    _sync_folder(file.path.parent)


def keep_backup(file: SettingsFile) -> None:
    """Keep what was read, beside the file. The newest backup replaces an older one."""
    _check_writable(file)
    if file.data is None:
        file.backup.unlink(missing_ok=True)  # of a file that somebody has removed since
        return
    _written_beside(file, file.data).rename(file.backup)


def read_backup(file: SettingsFile) -> bytes | None:
    """What `keep_backup` kept; None where there is none."""
    try:
        return file.backup.read_bytes()
    except OSError:
        return None


def _written_beside(file: SettingsFile, data: bytes) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{file.path.name}.", dir=file.path.parent)
    try:
        with os.fdopen(descriptor, "wb") as made:
            made.write(data)
            made.flush()
            if file.owner is not None:
                os.fchown(made.fileno(), *file.owner)  # else root would take a user's settings away from them
            os.fchmod(made.fileno(), file.mode)
            os.fsync(made.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _check_writable(file: SettingsFile) -> None:
    if not file.mode & stat.S_IWUSR:
        raise UsageError(f"{file.path} is read-only", remedy=f"run `chmod u+w {file.path}` if you want it changed")


def _check_unchanged(file: SettingsFile) -> None:
    try:
        now: bytes | None = file.path.read_bytes()
    except FileNotFoundError:
        now = None
    if now != file.data:
        raise UsageError(f"somebody else changed {file.path} just now; nothing was written", remedy="try again")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
