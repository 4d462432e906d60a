"""Reading foreign JSON: what is not as expected is absent, and never an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.monitor.arbitration.claims import bounded
from interlock.vocabulary.foreign_json import decode_object

Fields = Mapping[str, object]
_MAX_RECORD: Final = 4 * 1024 * 1024


def decode(record: object) -> Fields | None:
    """A record as its fields: from JSON text, or as it is. None if it is no object."""
    if isinstance(record, bytes | bytearray | str):
        record = _parse(record)
    return record if isinstance(record, Mapping) else None


def _parse(text: bytes | bytearray | str) -> object:
    if len(text) > _MAX_RECORD:
        return None
    return decode_object(text if isinstance(text, str) else bytes(text))


def text_of(fields: Fields, name: str) -> str:
    """A field as bounded text; empty where there is none."""
    value = fields.get(name)
    return bounded(value) if isinstance(value, str) else ""


def number_of(fields: Fields, name: str) -> float | None:
    """A field as a number. A JSON integer may be too large for one."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def mapping_of(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


def list_of(fields: Fields, name: str) -> list[object] | None:
    value = fields.get(name)
    return value if isinstance(value, list) else None
