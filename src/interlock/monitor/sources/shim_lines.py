"""The lines of `interlock debug shim`: what the program in its terminal reported, when it began and how it ended.

A record that does not count (`monitor.observer.native_status`) claims nothing, and is kept as an anomaly that says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from interlock.monitor.arbitration.claims import SourceReading, bounded, not_understood
from interlock.monitor.observer.native_status import REASONS, RecordOrigin, refusal_of
from interlock.monitor.sources.status_protocol import CLEAR, StatusFields, read_status
from interlock.screen.profile import NativeStatus
from interlock.vocabulary.events.audit import Anomaly

_SOURCE: Final = "shim"


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
        return not_understood(_SOURCE, f"not a line of the shim: {error}")
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
            return not_understood(_SOURCE, "unknown line", told.type)


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
        source=_SOURCE,
        message=f"a status record (OSC 7501) decides nothing: {REASONS[refusal]}",
        details={"reason": refusal.value, "excerpt": said},
    )
    return SourceReading(anomalies=(anomaly,))
