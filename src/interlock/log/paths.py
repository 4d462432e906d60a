"""Where the log lives, and that nobody else can touch it there: folder 0700, files 0600, no symlinks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from interlock.log.port import LogUnavailable

DATABASE_NAME: Final = "log.sqlite3"
_COMPANIONS: Final = ("", "-wal", "-shm", "-journal")
_CHOOSE: Final = "choose another folder with INTERLOCK_HOME"


def default_home(environ: Mapping[str, str]) -> Path:
    """`INTERLOCK_HOME`, or `interlock` in the XDG state folder."""
    if environ.get("INTERLOCK_HOME"):
        return Path(environ["INTERLOCK_HOME"])
    # By the XDG specification a relative path there is to be ignored.
    state = Path(environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "interlock"


@contextmanager
def _clear_errors(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LogUnavailable(f"{home} cannot be used: {error.strerror}", next_action=f"fix it, or {_CHOOSE}") from error


def prepare_home(home: Path) -> Path:
    """Make the folder and an empty database where they are missing; return the database's path, fit for a writer."""
    with _clear_errors(home):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = check_home(home)
        if home.stat().st_uid != os.geteuid():
            raise LogUnavailable(f"{home} belongs to another user", next_action=f"run as its owner, or {_CHOOSE}")
        home.chmod(0o700)
        _create(path)
        _close_to_others(path)
    return path


def check_home(home: Path) -> Path:
    """Return the database's path, or refuse a home that is missing, that others can write to, or that is not plain."""
    with _clear_errors(home):
        mode = home.lstat().st_mode
        if not stat.S_ISDIR(mode):
            what = "a symlink" if stat.S_ISLNK(mode) else "not a folder"
            raise LogUnavailable(f"{home} is {what}", next_action=f"name the folder itself, or {_CHOOSE}")
        if mode & 0o022:
            raise LogUnavailable(f"others can write to {home}", next_action=f"run `chmod 700 {home}`, or {_CHOOSE}")
        # SQLite refuses any symlink on the way to its file, so it is given the way without them.
        path = home.resolve(strict=True) / DATABASE_NAME
        for name in _COMPANIONS:
            _refuse_odd_file(path.with_name(path.name + name))
    return path


def _refuse_odd_file(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a symlink" if stat.S_ISLNK(mode) else "not a plain file"
        raise LogUnavailable(f"{path} is {what}", next_action=f"move it away, or {_CHOOSE}")


def _close_to_others(path: Path) -> None:
    """Take away what others may do. A file that its owner may not write stays so, as somebody has made it so."""
    mode = stat.S_IMODE(path.stat().st_mode) & 0o600
    for name in _COMPANIONS:
        # SQLite's own files follow the database: they may date from a time when it could not be written.
        companion = path.with_name(path.name + name)
        if companion.exists() and stat.S_IMODE(companion.stat().st_mode) != mode:
            companion.chmod(mode)


def _create(path: Path) -> None:
    """Make an empty file that only we can read, and make sure that it is still there after a power cut."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        return
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
