"""What changed in the main checkout of a repository while an agent worked in a worktree of it.

An agent that was given a worktree can still write to the main checkout by an absolute path. Nothing says who wrote a
file, so what is found is no claim about the agent: it says where to look.

Laws:
1. Nothing is read but names and times: the files stay unread, and nothing is kept of them.
2. A look that cannot be made says nothing, and not that nothing changed.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Final

from interlock.agents.git.looking import TooMuch
from interlock.agents.git.repository import NoRepository, Repository, find_repository, own_excludes

_SECONDS: Final = 20.0
_CHECK_EVERY: Final = 512


def main_checkout_of(repository: Repository) -> Repository | None:
    """The work tree that a linked one belongs to; None where this is the main one, or there is none."""
    if repository.git_dir == repository.common or repository.common.name != ".git":
        return None
    try:
        main = find_repository(repository.common.parent)
    except NoRepository:
        return None
    return main if main.common == repository.common and main.git_dir == main.common else None


def changed_since(main: Repository, since_ns: int) -> tuple[bytes, ...]:
    """Files that git does not ignore and that changed after a moment, by their times. A tracked file that is gone
    counts if its folder changed since. `GitFailed` or `TooMuch` where that cannot be told."""
    asked = ("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    listed = main.git.run(*asked, seconds=_SECONDS, settings=own_excludes())
    root, until = os.fsencode(main.root), time.monotonic() + _SECONDS
    found = []
    for number, path in enumerate(dict.fromkeys(one for one in listed.split(b"\0") if one)):
        if number % _CHECK_EVERY == 0 and time.monotonic() > until:
            raise TooMuch(f"looking at the main checkout took more than {_SECONDS:g} s")
        if not path.endswith(b"/") and _changed_ns(root, path) >= since_ns:
            found.append(path)
    return tuple(found)


def _changed_ns(root: bytes, path: bytes) -> int:
    """When a file changed last; 0 where that is not to be told."""
    try:
        seen = os.lstat(root + b"/" + path)
    except (FileNotFoundError, NotADirectoryError):
        return _folder_changed_ns(Path(os.fsdecode(root)), Path(os.fsdecode(path)))
    except OSError:
        return 0
    return 0 if stat.S_ISDIR(seen.st_mode) else seen.st_ctime_ns


def _folder_changed_ns(root: Path, path: Path) -> int:
    """When the nearest folder that is there changed last."""
    for parent in path.parents:
        try:
            return (root / parent).lstat().st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return 0
    return 0
