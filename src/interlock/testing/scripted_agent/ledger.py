"""What an agent really received and did, written down by the agent itself: the truth that a test compares with.

Laws:
1. A prompt is in the ledger before the agent shows any sign of it, and once for each time that it came.
2. A line is written whole, by one append, and is on the disk before the agent goes on: no kill tears or loses it.
"""

from __future__ import annotations

import json
import os
from typing import Final, NamedTuple

from interlock.testing.scripted_agent.language import Json

PROMPT: Final = "prompt"
SPAWNED: Final = "spawned"


class Entry(NamedTuple):
    """One line. `what` is start, prompt, refused, answer, interrupt or spawned; `pid` is the agent that wrote it."""

    what: str
    pid: int
    data: dict[str, Json]


class Ledger:
    """The writing side. Without a path nothing is written. Several agents may share one file."""

    def __init__(self, path: str | None = None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = None if path is None else os.open(path, flags, 0o600)

    def record(self, what: str, **data: Json) -> None:
        if self._fd is None:
            return
        line = json.dumps({"what": what, "pid": os.getpid(), **data})
        os.write(self._fd, line.encode() + b"\n")
        os.fsync(self._fd)


def read_ledger(path: str | os.PathLike[str], what: str | None = None) -> list[Entry]:
    """Everything that was written down, or only one kind of it, in order. No file yet: nothing."""
    from pathlib import Path  # here, as it would cost the agent more than all of this module

    try:
        lines = Path(path).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    entries = []
    for line in lines:
        data = json.loads(line)
        entry = Entry(data.pop("what"), data.pop("pid"), data)
        if what in (None, entry.what):
            entries.append(entry)
    return entries


def prompts_in(path: str | os.PathLike[str]) -> list[str]:
    """The text of each prompt that any agent received, in order."""
    return [str(entry.data["text"]) for entry in read_ledger(path, PROMPT)]
