"""OSC 7501 records: the state that a program writes to its own terminal.

A record with an `id` is about a child, and claims nothing: what a child's block means for a person stands in the
program's own record, and on its screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interlock.monitor.arbitration.claims import Claim, SourceReading, bounded, not_understood
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

_SOURCE: Final = "osc7501"


@dataclass(frozen=True, slots=True)
class StatusFields:
    """The fields of one record, as written. `message` is decoded already."""

    state: str
    app: str = ""
    kind: str = ""
    message: str = ""
    id: str = ""
    title: str = ""


_STATES: Final[Mapping[str, tuple[Activity, Attention]]] = {
    "idle": (Activity.QUIET, Attention.NONE),
    "working": (Activity.WORKING, Attention.NONE),
    "done": (Activity.QUIET, Attention.NONE),
    "error": (Activity.QUIET, Attention.ERROR),
}
_KINDS: Final[Mapping[str, Attention]] = {"permission": Attention.APPROVAL, "question": Attention.QUESTION}
_BLOCKED: Final = "blocked"
CLEAR: Final = "clear"
_KNOWN: Final = frozenset({*_STATES, _BLOCKED, CLEAR})


def read_status(record: StatusFields, *, at_seconds: float, spawn_id: SpawnId | None = None) -> SourceReading:
    """What a record claims. A state that we do not know claims nothing."""
    if record.state not in _KNOWN:
        return not_understood(_SOURCE, "unknown state", f"{record.state} {record.app} {record.kind}")
    return SourceReading() if record.id else SourceReading((_claim(record, at_seconds, spawn_id),))


def _claim(record: StatusFields, at_seconds: float, spawn_id: SpawnId | None) -> Claim:
    # A blocked program goes on doing what it did, so a block says nothing on activity. One of unknown kind still asks.
    is_dialog = record.state == _BLOCKED
    activity, attention = _STATES.get(record.state, (None, None))
    return Claim(
        rung=EvidenceSource.NATIVE_STATUS,
        at_seconds=at_seconds,
        rule=f"{_SOURCE}.{record.state}",
        activity=activity,
        attention=_KINDS.get(record.kind, Attention.QUESTION) if is_dialog else attention,
        is_dialog=is_dialog,
        withdraws=record.state == CLEAR,
        where=bounded(f"{_SOURCE} {record.app}".strip()),
        excerpt=bounded(record.message or record.title),
        spawn_id=spawn_id,
    )
