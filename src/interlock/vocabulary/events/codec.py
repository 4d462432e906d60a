"""Events to bytes and back, strictly.

A line that encodes back to itself needs no second look: nothing in it is unknown, doubled or odd. Every other line is
read again with care: duplicated keys, NULs, lone surrogates, numbers out of range and deep nesting are refused with
the field named; unknown fields are kept, wherever they stand; an unknown type becomes an `UnknownEvent`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn, TypeAlias

import msgspec
from msgspec import Struct, structs

from interlock.vocabulary.errors import ContractError, MalformedEvent
from interlock.vocabulary.events.envelope import AnyEvent, Event, UnknownEvent, UnknownField, UnknownWire
from interlock.vocabulary.events.registry import DECLARATIONS, Json

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 100
MAX_INTEGER: Final = 2**63 - 1
MAX_FIELD_NAME: Final = 200

_NUL: Final = rb"\u0000"
_ANY_DIGIT: Final = bytes.maketrans(b"123456789", b"000000000")
_HUGE: Final = b"0" * len(str(MAX_INTEGER))
_AT: Final = re.compile(r"(?s)(?P<reason>.*) - at `\$\.?(?P<field>.*)`\Z")

_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(AnyEvent)


def encode_event(event: Event) -> bytes:
    """One line of JSON, without its newline. What is written is proven to read back as the same event."""
    try:
        line = _encoder.encode(_with_unknown_parts(event))
        is_same = _reads_back(line, event) or decode_event(line) == event
    except (MalformedEvent, UnicodeEncodeError, TypeError, RecursionError) as error:
        raise ContractError(f"event {event.id} ({event.type}) cannot be written: {error}") from error
    if not is_same:
        raise ContractError(f"event {event.id} ({event.type}) cannot be written: it would read back as another event")
    return line


def _reads_back(line: bytes, event: Event) -> bool:
    """Whether a line that our encoder wrote is this event again, by one reading. False: it needs the careful one."""
    if event.unknown_fields or len(line) > MAX_LINE_BYTES or not _is_plain(line):
        return False
    try:
        return _decoder.decode(line) == event
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def decode_event(line: bytes) -> Event:
    """Read one line. Raises `MalformedEvent`, which names the field, and nothing else."""
    if len(line) > MAX_LINE_BYTES:
        raise MalformedEvent(f"{len(line)} bytes; a line holds at most {MAX_LINE_BYTES}")
    try:
        event = _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_with_care(line)
    if _is_plain(line) and not event.unknown_fields and _encoder.encode(event) == line:
        return event
    return _decode_with_care(line)


def decode_lines(lines: Iterable[bytes]) -> Iterator[Event | MalformedEvent]:
    """Read NDJSON. A bad line yields its fault, with its number, in its place; the others are not lost."""
    for number, line in enumerate(lines, start=1):
        try:
            yield decode_event(line.rstrip(b"\r\n"))
        except MalformedEvent as fault:
            yield fault.at_line(number)


def _is_plain(line: bytes) -> bool:
    """Whether a line, by its bytes alone, holds none of the things that only the careful path can judge."""
    if _NUL in line or _HUGE in line.translate(_ANY_DIGIT):
        return False
    return line.count(b"[") + line.count(b"{") <= MAX_DEPTH


def _decode_with_care(line: bytes) -> Event:
    raw = _parse(line)
    if not isinstance(raw, dict):
        raise MalformedEvent(f"expected an object, got {type(raw).__name__}")
    _refuse_odd_values(raw)
    try:
        event = _build(raw)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _fault(error) from error
    unknown = tuple(_unknown_fields(raw, event))
    return structs.replace(event, unknown_fields=unknown) if unknown else event


def _build(raw: dict[str, Json]) -> Event:
    # Our own name for kept fields means nothing on the wire: a line that uses it has an unknown field of that name.
    fields = {key: value for key, value in raw.items() if key != "unknown_fields"}
    name = fields.get("type")
    if isinstance(name, str) and name not in DECLARATIONS:
        body: dict[str, Json] = {"type": name, "body": fields.get("data")}
        return msgspec.convert({**fields, "type": UnknownWire.__struct_config__.tag, "data": body}, UnknownWire)
    event: Event = msgspec.convert(fields, AnyEvent)
    return event


def _parse(line: bytes) -> Json:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedEvent(f"not UTF-8 at byte {error.start}") from error
    try:
        raw: Json = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise MalformedEvent(f"nested more than {MAX_DEPTH} deep") from error
    except json.JSONDecodeError as error:
        raise MalformedEvent(f"not JSON: {error.msg} at character {error.pos}") from error
    except ValueError as error:  # int() refuses thousands of digits by a ValueError of its own
        raise MalformedEvent(f"a number out of range: {error}") from error
    return raw


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in pairs:
        if key in found:
            raise MalformedEvent("the key appears twice", field=key[:MAX_FIELD_NAME])
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedEvent(f"{name} is not JSON")


_Place: TypeAlias = "tuple[_Place, str | int] | None"


def can_be_kept(value: Json) -> bool:
    """Whether a value from outside can stand in a payload: without NULs, lone surrogates, huge numbers, great depth."""
    try:
        _refuse_odd_values(value, MAX_DEPTH // 2)
    except MalformedEvent:
        return False
    return True


def _refuse_odd_values(root: Json, depth: int = 0) -> None:
    """Walk without recursion, and spell a path only for what is odd, so that a hostile line costs its own length."""
    todo: list[tuple[_Place, int, Json]] = [(None, depth, root)]
    while todo:
        place, depth, value = todo.pop()
        reason = _oddity(value, depth)
        if reason:
            raise MalformedEvent(reason, field=_spelled(place))
        if isinstance(value, dict):
            for key, item in value.items():
                todo += [(place, depth, key), ((place, key), depth + 1, item)]
        elif isinstance(value, list):
            todo += [((place, index), depth + 1, item) for index, item in enumerate(value)]


def _spelled(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step[:MAX_FIELD_NAME]}")
    return "".join(reversed(steps)).lstrip(".")[:MAX_FIELD_NAME] or "$"


def _oddity(value: Json, depth: int) -> str:
    if depth > MAX_DEPTH:
        return f"nested more than {MAX_DEPTH} deep"
    if isinstance(value, str):
        if "\x00" in value:
            return "holds a NUL"
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return "holds a lone surrogate"
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        return "an integer beyond 64 bits"
    elif isinstance(value, float) and not abs(value) < float("inf"):
        return "a number out of range"
    return ""


def _fault(error: Exception) -> MalformedEvent:
    match = _AT.match(str(error))
    return MalformedEvent(match["reason"], field=match["field"] or "$") if match else MalformedEvent(str(error))


def _unknown_fields(raw: Json, known: object, path: tuple[str | int, ...] = ()) -> Iterator[UnknownField]:
    """Compare what came with what was understood, and yield the fields that no struct has a place for."""
    if isinstance(known, UnknownEvent):
        return  # its body is kept whole
    if isinstance(raw, dict) and isinstance(known, Struct):
        config, places = known.__struct_config__, {field.encode_name: field.name for field in structs.fields(known)}
        for key, value in raw.items():
            if key in places and key != "unknown_fields":
                yield from _unknown_fields(value, getattr(known, places[key]), (*path, key))
            elif key != config.tag_field or config.tag is None:
                yield (*path, key), value
    elif isinstance(raw, list) and isinstance(known, tuple):
        for index, (item, understood) in enumerate(zip(raw, known, strict=True)):
            yield from _unknown_fields(item, understood, (*path, index))


def _with_unknown_parts(event: Event) -> object:
    if not event.unknown_fields and not isinstance(event.data, UnknownEvent):
        return event
    raw: dict[str, Json] = msgspec.json.decode(_encoder.encode(structs.replace(event, unknown_fields=())))
    if isinstance(event.data, UnknownEvent):
        raw["type"], raw["data"] = event.data.type, event.data.body
    for path, value in event.unknown_fields:
        _put(raw, path, value)
    return raw


def _put(root: dict[str, Json], path: tuple[str | int, ...], value: Json) -> None:
    place: Json = root
    for step in path[:-1]:
        # A struct that equals its default was left out; its unknown field still needs somewhere to stand.
        place = place.setdefault(str(step), {}) if isinstance(place, dict) else _item(place, step)
    if not isinstance(place, dict):
        raise ContractError(f"unknown field at {path} has no object to stand in")
    place[str(path[-1])] = value


def _item(place: Json, step: str | int) -> Json:
    if isinstance(place, list) and isinstance(step, int) and step < len(place):
        return place[step]
    raise ContractError(f"unknown field has no place at {step!r}")
