"""Reading JSON that another program wrote: every question has an answer, whatever stands there.

One reader for every driver, transcript, hook and status file. Laws:
1. A line is an object, or it is None: text that is no JSON, another value, `NaN`, `Infinity`, and a line that is nested
   deeper than its reader can follow are None. Nothing is raised.
2. Part of an object that cannot be kept costs that part only. Half of a surrogate pair (programs in JavaScript cut text
   between the halves of a character), bytes that are no UTF-8 and NULs become U+FFFD; a number that may not fit into
   64 bits becomes its digits; what is nested deeper than `MAX_DEPTH` becomes a note.
3. Of a key that appears twice the last value counts.
4. What is read can be written to the log. How long a line may be is the business of whoever splits the lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from interlock.vocabulary.events.conversation import MAX_COUNT
from interlock.vocabulary.events.registry import Json

Fields = dict[str, Json]

MAX_DEPTH: Final = 64  # the log allows 100, and an event adds some of its own
TOO_DEEP: Final = "(nested too deeply)"
TOO_LARGE: Final = "(a number too large)"
_KEPT_BITS: Final = 63
_PRINTED_BITS: Final = 10_000
_ANY_DIGIT: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 19
_NUL: Final = rb"\u0000"
_NOTHING: Final[Mapping[str, Json]] = {}


def decode_object(line: bytes | str) -> Fields | None:
    """The JSON object of a line; None where it is none."""
    data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    try:
        value = _decode_loosely(data) if _needs_care(data) else msgspec.json.decode(data)
    except RecursionError:
        return None
    except (msgspec.DecodeError, ValueError):
        value = _decode_loosely(data)
    return value if isinstance(value, dict) else None


def _needs_care(data: bytes) -> bool:
    """Whether a line may hold what a quick reader takes and the log does not."""
    is_deep = data.count(b"[") + data.count(b"{") > MAX_DEPTH
    return is_deep or _NUL in data or _LONG_NUMBER in data.translate(_ANY_DIGIT)


def _decode_loosely(data: bytes) -> Json:
    text = data.decode("utf-8", "replace")
    try:
        return keepable_json(json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_float))
    except (ValueError, RecursionError):
        return None


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) < 19 else digits


def _float(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def scrub_text(text: str) -> str:
    """Make foreign text fit for an event: lone surrogates and NULs become U+FFFD."""
    if text.isascii():
        return text.replace("\x00", "\ufffd")
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\x00", "\ufffd")


def keepable_json(value: Json, room: int = MAX_DEPTH) -> Json:
    """The value as the log can keep it: numbers that it cannot hold become text, what is nested too deeply a note."""
    match value:
        case str():
            return scrub_text(value)
        case int() if value.bit_length() > _KEPT_BITS:
            return str(value) if value.bit_length() < _PRINTED_BITS else TOO_LARGE
        case float() if not math.isfinite(value):
            return str(value)
        case list() | dict() if room == 0:
            return TOO_DEEP
        case list():
            return [keepable_json(item, room - 1) for item in value]
        case dict():
            return {scrub_text(str(name)): keepable_json(item, room - 1) for name, item in value.items()}
        case _:
            return value


def text(of: Mapping[str, Json], name: str) -> str:
    """The string by this name; blank where there is none."""
    found = of.get(name)
    return found if isinstance(found, str) else ""


def inner(of: Mapping[str, Json], name: str) -> Fields:
    """The object by this name; an empty one where there is none."""
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def members(of: Mapping[str, Json], name: str) -> list[Json]:
    """The list by this name; an empty one where there is none."""
    found = of.get(name)
    return found if isinstance(found, list) else []


def count_of(of: Mapping[str, Json], name: str) -> int | None:
    """The count by this name; None for what is no count."""
    return count(of.get(name))


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
        return TOO_DEEP
