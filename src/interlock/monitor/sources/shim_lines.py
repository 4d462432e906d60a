"""The lines of `interlock shim`: what the program in its terminal reported, when it began and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from interlock.monitor.arbitration_claims import SourceReading, not_understood
from interlock.monitor.sources.status_protocol import StatusFields, read_status

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


@dataclass(frozen=True, slots=True)
class Began:
    """The program runs, and what it reports is heard."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The program ended. The shim is its parent: this is proof."""

    code: int | None
    signal: int | None


ShimNews: TypeAlias = Began | Ended | SourceReading


def read_shim_line(line: bytes, *, at_seconds: float) -> ShimNews:
    """What a line tells. One that cannot be read is kept as an anomaly."""
    try:
        told = msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError as error:
        return not_understood(_SOURCE, f"not a line of the shim: {error}")
    match told.type:
        case "started":
            return Began()
        case "exited":
            return Ended(told.code, told.signal)
        case "status":
            fields = StatusFields(
                told.state or "", told.app or "", told.kind or "", told.message or "", told.id or "", told.title or ""
            )
            return read_status(fields, at_seconds=at_seconds)
        case "probe":
            return SourceReading()
        case _:
            return not_understood(_SOURCE, "unknown line", told.type)
