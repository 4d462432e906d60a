"""The lines of `interlock debug shim`: what the program in its terminal reported, when it began and how it ended.

A record (OSC 7501: the state that a program writes to its own terminal) with an `id` is about a child, and claims
nothing: what a child's block means for a person stands in the program's own record, and on its screen. A record that
does not count (`monitor.observer.native_status`) claims nothing, and is kept as an anomaly that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from interlock.monitor.arbitration.claims import Claim, SourceReading, bounded, not_understood
from interlock.monitor.observer.native_status import REASONS, RecordOrigin, refusal_of
from interlock.screen.profile import NativeStatus
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

_OSC: Final = "osc7501"


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
        return not_understood(_OSC, "unknown state", f"{record.state} {record.app} {record.kind}")
    return SourceReading() if record.id else SourceReading((_claim(record, at_seconds, spawn_id),))


def _claim(record: StatusFields, at_seconds: float, spawn_id: SpawnId | None) -> Claim:
    # A blocked program goes on doing what it did, so a block says nothing on activity. One of unknown kind still asks.
    is_dialog = record.state == _BLOCKED
    activity, attention = _STATES.get(record.state, (None, None))
    return Claim(
        rung=EvidenceSource.NATIVE_STATUS,
        at_seconds=at_seconds,
        rule=f"{_OSC}.{record.state}",
        activity=activity,
        attention=_KINDS.get(record.kind, Attention.QUESTION) if is_dialog else attention,
        is_dialog=is_dialog,
        withdraws=record.state == CLEAR,
        where=bounded(f"{_OSC} {record.app}".strip()),
        excerpt=bounded(record.message or record.title),
        spawn_id=spawn_id,
    )


_SHIM: Final = "shim"


class _Line(Struct, frozen=True):
    type: str
    state: str | None = None
    app: str | None = None
    kind: str | None = None
    id: str | None = None
    title: str | None = None
    message: str | None = None
    code: int | None = None
    signal: int | None = None
    pid: int = 0
    is_own: bool = False
    has_asked: bool = False
    greeted_as: str = ""


@dataclass(frozen=True, slots=True)
class Began:
    """The program runs, and what it reports is heard."""


@dataclass(frozen=True, slots=True)
class ShimEnded:
    """The program ended. The shim is its parent: this is proof."""

    code: int | None
    signal: int | None


ShimNews: TypeAlias = Began | ShimEnded | SourceReading


def read_shim_line(
    line: bytes, *, at_seconds: float, declared: NativeStatus | None, pid: int | None = None
) -> ShimNews:
    """What a line tells of a CLI whose profile declares this. One that cannot be read is kept as an anomaly.

    `pid` is the process that we started, where it is known: what a shim tells of another one is not its own.
    """
    try:
        told = msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError as error:
        return not_understood(_SHIM, f"not a line of the shim: {error}")
    match told.type:
        case "started":
            return Began()
        case "exited":
            return ShimEnded(told.code, told.signal)
        case "status":
            fields = StatusFields(
                told.state or "", told.app or "", told.kind or "", told.message or "", told.id or "", told.title or ""
            )
            is_own = told.is_own and pid in (None, told.pid)
            return _read_status(fields, RecordOrigin(is_own, told.has_asked, told.greeted_as), at_seconds, declared)
        case "probe":
            return SourceReading()
        case _:
            return not_understood(_SHIM, "unknown line", told.type)


def _read_status(
    record: StatusFields, origin: RecordOrigin, at_seconds: float, declared: NativeStatus | None
) -> SourceReading:
    # A record of a child inherits the app of its parent; one that takes all back says nothing that needs a name.
    may_omit_app = bool(record.id) or record.state == CLEAR
    refusal = refusal_of(record.app, origin, declared, may_omit_app=may_omit_app)
    if refusal is None:
        return read_status(record, at_seconds=at_seconds)
    said = bounded(f"{record.state} {record.app} {record.kind} {record.id}")
    anomaly = Anomaly(
        kind="native_status_refused",
        source=_SHIM,
        message=f"a status record (OSC 7501) decides nothing: {REASONS[refusal]}",
        details={"reason": refusal.value, "excerpt": said},
    )
    return SourceReading(anomalies=(anomaly,))
