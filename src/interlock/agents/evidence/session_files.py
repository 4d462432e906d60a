"""Claude Code's `sessions/<pid>.json`, looked at cheaply: a claim when the agent has written a new status.

Laws:
1. Only the file of this very name is opened. What else lies in that folder, a token among it, is never read.
2. A file that is half written is read again at the next look; only one that stays unreadable is an anomaly.
3. A file that is gone takes back what it said: an agent removes it when it ends.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Final

from interlock.monitor.arbitration.claims import Claim, SourceReading
from interlock.monitor.sources.claude_status import FileRead, read_claude_status
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId

_FOLDER: Final = "sessions"
_MAX_BYTES: Final = 256 * 1024
_PATIENCE_LOOKS: Final = 5


class SessionFile:
    """The status file of one process. `look` at it as often as you like: an unchanged file is not read."""

    def __init__(self, config_dir: Path, pid: int, spawn_id: SpawnId | None = None) -> None:
        self.path = config_dir / _FOLDER / f"{pid}.json"
        self._spawn_id = spawn_id
        self._seen: tuple[int, int, int] | None = None
        self._unread = 0

    def look(self, at_seconds: float, unix_seconds: float | None = None) -> SourceReading:
        """What the file says, if it says something new. `at_seconds` is now, by the clock that claims are dated by."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return self._gone(at_seconds)
        except OSError:
            return SourceReading()  # it cannot be read now, which says nothing
        try:
            found = os.fstat(descriptor)
            now = (found.st_ino, found.st_size, found.st_mtime_ns)
            if not stat.S_ISREG(found.st_mode) or now == self._seen:
                return SourceReading()
            text = os.read(descriptor, _MAX_BYTES)
        finally:
            os.close(descriptor)
        read = FileRead(at_seconds, unix_seconds or time.time(), found.st_mtime, str(self.path))
        return self._judged(read_claude_status(text, read, spawn_id=self._spawn_id), now)

    def _judged(self, reading: SourceReading, now: tuple[int, int, int]) -> SourceReading:
        if reading.anomalies and self._unread < _PATIENCE_LOOKS:
            self._unread += 1
            return SourceReading()
        self._seen, self._unread = now, 0
        return reading

    def _gone(self, at_seconds: float) -> SourceReading:
        was_there, self._seen, self._unread = self._seen is not None, None, 0
        if not was_there:
            return SourceReading()
        taken_back = Claim(
            rung=EvidenceSource.NATIVE_FILE,
            at_seconds=at_seconds,
            rule="claude.session_file.removed",
            withdraws=True,
            where=str(self.path),
            spawn_id=self._spawn_id,
        )
        return SourceReading((taken_back,))
