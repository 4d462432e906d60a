"""Reading JSON that somebody else wrote: every question has an answer, whatever stands there."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from interlock.vocabulary.conversation import MAX_COUNT
from interlock.vocabulary.registry import Json

# A number that may not fit into 64 bits: neither the log nor most readers of JSON can hold it.
_LONG_NUMBER: Final = re.compile(r"\d{19}")
_NOTHING: Final[Mapping[str, Json]] = {}


def decode_object(line: bytes) -> Mapping[str, Json] | None:
    """The JSON object of a line; None where it is none. Bytes that are no UTF-8 are replaced, not refused."""
    text = line.decode("utf-8", "replace")
    try:
        value = _decode_loosely(text) if _LONG_NUMBER.search(text) else msgspec.json.decode(text)
    except RecursionError:
        return None
    except (msgspec.DecodeError, ValueError):
        value = _decode_loosely(text)
    return value if isinstance(value, dict) else None


def _decode_loosely(text: str) -> Json:
    """Programs in JavaScript cut text between the halves of a character: such halves are replaced.

    A number that is too large for others to hold is kept as text.
    """
    try:
        return _scrubbed(json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_float))
    except (ValueError, RecursionError):
        return None


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) < 19 else digits


def _float(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _scrubbed(value: Json) -> Json:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_scrubbed(item) for item in value]
        case dict():
            return {str(_scrubbed(name)): _scrubbed(item) for name, item in value.items()}
        case _:
            return value


def mapping(value: Json) -> Mapping[str, Json]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else _NOTHING


def sequence(value: Json) -> Sequence[Json]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else ()


def string(value: Json) -> str:
    """The value if it is text, else a blank."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """The value if it is a whole number of things, and one that the log can hold; else None, so that a missing figure
    is never a zero."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_count and isinstance(value, int) else None


def amount(value: Json) -> float | None:
    """The value if it is a quantity, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isinstance(value, int | float) and 0 <= value < 1e15 else None


def as_text(value: Json) -> str:
    """The value as JSON, for a person to look at; a note where it is nested too deeply to be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply)"
