"""Claude Code's `sessions/<pid>.json`: its state, written by itself when it changes.

Only the fields named here are read, so nothing secret that the file may hold is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from interlock.monitor.arbitration.claims import Claim, SourceReading, not_understood, unknown_record
from interlock.monitor.sources.fields import Fields, decode, number_of, text_of
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

_SOURCE: Final = "claude.session_file"
# `shell`: at its prompt, while a command of an earlier turn runs in the background.
_STATUSES: Final[Mapping[str, Activity | None]] = {
    "idle": Activity.QUIET,
    "shell": Activity.QUIET,
    "busy": Activity.WORKING,
    "waiting": None,
}
_WAITING: Final = "waiting"
_PERMISSION: Final = "permission"
# Above this, a time since 1970 is in milliseconds: as seconds it would lie thousands of years ahead.
_FIRST_MILLISECONDS: Final = 1e11


@dataclass(frozen=True, slots=True)
class FileRead:
    """When a file was read, by both clocks, and when it was last written by the wall clock, if that is known."""

    at_seconds: float
    unix_seconds: float
    modified_unix_seconds: float | None = None
    where: str = ""


def read_claude_status(text: bytes | str, read: FileRead, *, spawn_id: SpawnId | None = None) -> SourceReading:
    """What the file claims. A file that does not say since when, and whose age nobody knows, claims nothing. A status
    that we do not know takes back the one before it, which is over, whatever the new one means."""
    fields = decode(text)
    status = "" if fields is None else text_of(fields, "status")
    if fields is None or not status:
        return not_understood(_SOURCE, "no status", status)
    if status not in _STATUSES:
        told = unknown_record(_SOURCE, "unknown status", status)
        return SourceReading((_taken_back(read, spawn_id),), anomalies=(told,))
    written = _written_at(fields, read)
    if written is None:
        return not_understood(_SOURCE, "a status of unknown age", status)
    waiting_for = text_of(fields, "waitingFor")
    is_waiting = status == _WAITING
    claim = Claim(
        rung=EvidenceSource.NATIVE_FILE,
        at_seconds=written,
        rule=f"{_SOURCE}.{status}",
        activity=_STATUSES[status],
        attention=_asked_for(waiting_for) if is_waiting else Attention.NONE,
        is_dialog=is_waiting,
        where=read.where,
        excerpt=waiting_for if is_waiting else "",
        spawn_id=spawn_id,
        session_id=text_of(fields, "sessionId"),
    )
    return SourceReading((claim,))


def _taken_back(read: FileRead, spawn_id: SpawnId | None) -> Claim:
    return Claim(
        rung=EvidenceSource.NATIVE_FILE,
        at_seconds=read.at_seconds,
        rule=f"{_SOURCE}.unknown",
        withdraws=True,
        where=read.where,
        spawn_id=spawn_id,
    )


def _asked_for(waiting_for: str) -> Attention:
    return Attention.APPROVAL if _PERMISSION in waiting_for.casefold() else Attention.QUESTION


def _written_at(fields: Fields, read: FileRead) -> float | None:
    """When the status was written, by the clock of the machine. Never later than it was read."""
    unix = _unix_seconds(fields)
    if unix is None:
        unix = read.modified_unix_seconds
    if unix is None or not math.isfinite(unix):
        return None
    return read.at_seconds - max(0.0, read.unix_seconds - unix)


def _unix_seconds(fields: Fields) -> float | None:
    number = number_of(fields, "statusUpdatedAt")
    if number is not None:
        return number / 1000 if number >= _FIRST_MILLISECONDS else number
    try:
        moment = datetime.fromisoformat(text_of(fields, "statusUpdatedAt"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
