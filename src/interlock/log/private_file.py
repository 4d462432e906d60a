"""Reading a file that must be nobody else's: tokens, and the address to which they are sent. Imports nothing heavy.

Law: what is read came from a plain file of this user that no one else can read or write, at the very path that was
asked for, and is no longer than was allowed. Anything else is refused: a secret in it would be none, and an address in
it may be a trap. No message repeats what is in the file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from interlock.vocabulary.errors import UsageError

_OTHERS = 0o077


def read_private_file(path: Path, *, max_bytes: int) -> bytes:
    """The whole file. `FileNotFoundError` where there is none, `UsageError` with what to do for any other trouble."""
    try:
        # Not blocking: a pipe by this name must not keep us for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        _refuse_odd(path, os.fstat(descriptor))
        found = os.read(descriptor, max_bytes + 1)  # of a plain file it is all, or as much as was asked for
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if len(found) > max_bytes:
        raise UsageError(f"{path} is larger than {max_bytes} bytes", remedy="look at what it is, and move it away")
    return found


def unreadable(path: Path, error: OSError) -> UsageError:
    """Why a file cannot be read, with what to do about that."""
    if error.errno == errno.ELOOP:
        return UsageError(f"{path} is a symlink", remedy="put the file itself there")
    if error.errno in (errno.ENXIO, errno.EISDIR):
        return UsageError(f"{path} is not a plain file", remedy="look at what it is, and move it away")
    if error.errno == errno.ENOTDIR:
        return UsageError(f"{path} cannot be read: a part of the path is not a folder", remedy="check the path")
    return UsageError(f"{path} cannot be read: {error.strerror}", remedy="run as its owner")


def _refuse_odd(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a plain file", remedy="look at what it is, and move it away")
    if found.st_uid != os.geteuid():
        raise UsageError(f"{path} belongs to another user", remedy="run as its owner, or name another home")
    if stat.S_IMODE(found.st_mode) & _OTHERS:
        raise UsageError(
            f"others can read or write {path}",
            remedy=f"run `chmod 600 {path}`; if it holds tokens, remove it and start the server again for new ones",
        )


def folder_key(folder: Path) -> str:
    """Which folder or file this is, wherever it is moved to in its file system. A copy of it has another key."""
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}"
