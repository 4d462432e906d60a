"""What a server says of its start, before it can be asked: `starting.json` of its home. Imports nothing heavy.

Whoever starts a process that will be a server says so for it (`announce_start`), until it can say more itself.

Laws:
1. It is believed only while the very process that wrote it lives, by number and start time, and only in the folder
   where it was written: a copy of a home starts nothing.
2. `done` of `total` events are read. A total of 0 is one that is not known yet. Neither is ever more than was counted.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from interlock.log.private_file import folder_key, read_private_file
from interlock.vocabulary.errors import StillStarting, Unreachable, UsageError

STARTING_FILE: Final = "starting.json"
_MAX_BYTES: Final = 4096


class StartProgress(NamedTuple):
    """How far the start of a server is. `began` is Unix time, `process` when its process began, as the system says."""

    pid: int
    process: str
    folder: str
    began: float
    done: int = 0
    total: int = 0

    @property
    def percent(self) -> int | None:
        """Never 100: a server that has read everything is not yet one that answers."""
        return min(99, self.done * 100 // self.total) if self.total else None

    @property
    def seconds(self) -> float:
        return max(0.0, time.time() - self.began)

    @property
    def words(self) -> str:
        read = "opening its log" if self.percent is None else f"{self.percent} %"
        return f"{read}, {self.seconds:.0f} s"

    def as_json(self) -> dict[str, int | float | None]:
        """For an answer to a script."""
        return {
            "pid": self.pid,
            "percent": self.percent,
            "events_read": self.done,
            "events_to_read": self.total or None,
            "seconds": round(self.seconds, 3),
        }


def read_start(home: Path) -> StartProgress | None:
    """The start that goes on in a home; None: none is proven to."""
    try:
        said = json.loads(read_private_file(home / STARTING_FILE, max_bytes=_MAX_BYTES))
        found = StartProgress(
            int(said["pid"]),
            str(said["process"]),
            str(said["folder"]),
            float(said["began"]),
            int(said["done"]),
            int(said["total"]),
        )
        if found.folder != folder_key(home):
            return None
    except (OSError, UsageError, ValueError, TypeError, LookupError):
        return None
    from interlock.log.lease import process_start  # heavy, and needed only where there is such a file

    try:
        return found if process_start(found.pid) == found.process else None
    except Unreachable:
        return None


def write_start(home: Path, progress: StartProgress) -> None:
    """Say it, whole or not at all."""
    path = home / STARTING_FILE
    draft = path.with_name(f".{path.name}.{progress.pid}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(progress._asdict(), stream)
    draft.replace(path)


def announce_start(home: Path, pid: int) -> None:
    """Say that a process begins to start the server of a home, before it can say so itself. A start that goes on
    already is left as it is told, and one that cannot be told goes on all the same."""
    from interlock.log.lease import process_start

    if read_start(home) is None:
        with suppress(OSError, Unreachable):
            if began := process_start(pid):
                write_start(home, StartProgress(pid, began, folder_key(home), time.time()))


def remove_start(home: Path) -> None:
    """Take back what this process said; what another says stays."""
    try:
        said = json.loads(read_private_file(home / STARTING_FILE, max_bytes=_MAX_BYTES))
        if said["pid"] == os.getpid():
            (home / STARTING_FILE).unlink(missing_ok=True)
    except (OSError, UsageError, ValueError, TypeError, LookupError):
        return


def not_there(home: Path, otherwise: str) -> Unreachable:
    """Why no server of a home can be asked: it is starting, or what is said `otherwise`."""
    progress = read_start(home)
    if progress is None:
        return Unreachable(otherwise)
    return StillStarting(f"a server is starting in {home} ({progress.words}); ask again, or wait with `interlock up`")
