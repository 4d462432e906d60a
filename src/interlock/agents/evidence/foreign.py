"""Whole values of foreign JSON: what is not as expected is absent, and never an error.

Unlike `monitor.sources.fields`, which keeps excerpts, nothing is cut here: an answer is wanted whole.
"""

from __future__ import annotations

import msgspec

from interlock.agents.foreign_json import count
from interlock.monitor.sources.fields import Fields
from interlock.vocabulary.registry import Json


def object_of(line: bytes) -> dict[str, object] | None:
    """A line as a JSON object; None if it is none."""
    try:
        value = msgspec.json.decode(line)
    # A line of nothing but brackets is too deep; half of a surrogate pair is no UTF-8.
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None


def string_of(fields: Fields, name: str) -> str:
    """A field as text, whole; empty where there is none."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def count_of(fields: Fields, name: str) -> int | None:
    """A field as a count; None where there is none."""
    return count(fields.get(name))


def json_of(value: object) -> Json:
    """A decoded value, as the JSON that it came from."""
    return value  # type: ignore[return-value]  # it came from a JSON decoder
