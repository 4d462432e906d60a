"""Whose agents a home may touch: its id, and whether it is a copy of another home.

`identity.json` holds the id of a home and the folder that it was given to, by device and inode. A rename keeps both, so
a home that was moved within its file system is known again. A copy has another inode.

Laws:
1. A home owns what was started under its own ids. A copy gets an id of its own when it is first opened for writing, and
   owns nothing of its original: neither processes nor prompts that wait.
2. Only `take_over`, which a person asks for, gives a copy the id of its original, and not while the original is there.
3. What cannot be read proves nothing: such a home owns nothing.

Imports nothing heavy: `status` is typed all day.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from interlock.log.private_file import folder_key, read_private_file
from interlock.vocabulary.errors import Unreachable, UsageError

IDENTITY_FILE: Final = "identity.json"
_MAX_BYTES: Final = 64 * 1024


class NotOurs(Unreachable):
    """An agent or its pane belongs to another home, or to another process of this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeIdentity:
    """What `identity.json` says. `copied_from` is blank, or the path of the original; `original_id` is its id.

    `is_fresh`: a copy whose sessions were not gone through yet.
    """

    home_id: str
    path: str
    folder: str
    copied_from: str = ""
    original_id: str = ""
    taken_over: tuple[str, ...] = ()
    is_fresh: bool = False


@dataclass(frozen=True, slots=True)
class HomeStanding:
    """What a home is now. `home_id` marks what it starts; blank for a copy that was never opened for writing."""

    home_id: str = ""
    owned: frozenset[str] = frozenset()
    copied_from: str = ""
    is_fresh_copy: bool = False

    @property
    def is_copy(self) -> bool:
        return bool(self.copied_from)

    def owns(self, owner: str) -> bool:
        """Whether what bears this mark is ours. A log of before there were marks has none: it is ours unless copied."""
        return owner in self.owned if owner else not self.is_copy

    @property
    def refusal(self) -> str:
        """Why something of the original is left alone."""
        if self.is_copy:
            return f"this home is a copy of {self.copied_from}, to which this agent belongs"
        return "this agent belongs to another home"


def look_at_home(home: Path) -> HomeStanding:
    """What a home is, without a change to it. One that was never used owns what it will start."""
    try:
        kept = _read(home)
    except UsageError:
        return HomeStanding(copied_from="a home whose identity.json cannot be read")
    if kept is None:
        return HomeStanding()
    if not _is_of(kept, home):
        return HomeStanding(copied_from=kept.path)
    owned = frozenset({kept.home_id, *kept.taken_over})
    return HomeStanding(kept.home_id, owned, kept.copied_from, kept.is_fresh)


def settle_home(home: Path) -> HomeStanding:
    """Give a home an id if it has none of its own, and say what it is. For the process that has the writer lease."""
    kept = _read(home)
    path, folder = str(home.resolve()), folder_key(home)
    if kept is None:
        _write(home, HomeIdentity(home_id=_new_id(), path=path, folder=folder))
    elif not _is_of(kept, home):
        copy = HomeIdentity(home_id=_new_id(), path=path, folder=folder, is_fresh=True)
        _write(home, replace(copy, copied_from=kept.path, original_id=kept.home_id))
    elif (kept.path, kept.folder) != (path, folder):
        _write(home, replace(kept, path=path, folder=folder))
    return look_at_home(home)


def copy_is_settled(home: Path) -> None:
    """Every session of a fresh copy was gone through: its queue is held. From now on it is a home like any other."""
    kept = _read(home)
    if kept is not None and kept.is_fresh:
        _write(home, replace(kept, is_fresh=False))


def take_over(home: Path) -> str:
    """Make the agents and prompts of the original those of this home; returns where the original was."""
    kept = _read(home)
    if kept is None or (_is_of(kept, home) and not kept.copied_from):
        raise UsageError(f"{home} is not a copy of another home", remedy="start it without --take-over")
    original, original_id = (kept.copied_from, kept.original_id) if _is_of(kept, home) else (kept.path, kept.home_id)
    if _is_there(Path(original), original_id):
        raise UsageError(
            f"the original home is still at {original}, and owns its agents",
            remedy="use that one, or remove it first; a copy can be used beside it without --take-over",
        )
    ids = (*kept.taken_over, original_id) if _is_of(kept, home) else kept.taken_over
    taken = replace(
        kept,
        path=str(home.resolve()),
        folder=folder_key(home),
        copied_from="",
        original_id="",
        taken_over=ids,
        is_fresh=False,
    )
    _write(home, taken)
    return original


def _is_there(original: Path, original_id: str) -> bool:
    try:
        kept = _read(original)
    except (UsageError, NotADirectoryError):
        return True  # something is there that cannot be looked at
    return kept is not None and original_id in (kept.home_id, *kept.taken_over) and _is_of(kept, original)


def _is_of(kept: HomeIdentity, home: Path) -> bool:
    """Whether this is the folder that got the id. A reboot may number its device anew: then the path tells."""
    folder = folder_key(home)
    is_same_inode = kept.folder.partition(":")[2] == folder.partition(":")[2]
    return kept.folder == folder or (is_same_inode and kept.path == str(home.resolve()))


def _new_id() -> str:
    return f"hom_{os.urandom(8).hex()}"


def _read(home: Path) -> HomeIdentity | None:
    path = home / IDENTITY_FILE
    try:
        said: Any = json.loads(read_private_file(path, max_bytes=_MAX_BYTES))
        known = {field.name: said[field.name] for field in fields(HomeIdentity) if field.name in said}
        kept = HomeIdentity(**{**known, "taken_over": tuple(known.get("taken_over", ()))})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError) as error:
        raise _unclear(path) from error
    ids = (kept.home_id, kept.path, kept.folder, kept.copied_from, kept.original_id, *kept.taken_over)
    if not all(isinstance(one, str) for one in ids) or not kept.home_id:
        raise _unclear(path)
    return kept


def _unclear(path: Path) -> UsageError:
    return UsageError(f"{path} cannot be understood", remedy="restore it, or remove it: the home then gets another id")


def _write(home: Path, identity: HomeIdentity) -> None:
    draft = home / f".{IDENTITY_FILE}.{os.getpid()}"
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(json.dumps(asdict(identity)).encode())
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(home / IDENTITY_FILE)
