"""Hypothesis strategies for the whole vocabulary, derived from the types themselves.

A new event type is generated without a line here. Needs `hypothesis`, which Interlock itself does not install.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import msgspec.inspect as mi
from hypothesis import strategies as st
from msgspec import Struct

from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import StreamCheckpoint
from interlock.vocabulary.events.conversation import MAX_COUNT, SeqRange
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import DECLARATIONS, Json, Payload
from interlock.vocabulary.ids import EventId, SessionId, SpawnId, TurnId
from interlock.vocabulary.run import BEHAVIOR_REQUESTED, CANCELLED, NATURAL_END, SUSPENDED, TerminationReason

# Everything that an event may say: no lone surrogates (JSON has none) and no NUL (refused by the codec).
TEXT: Final = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
IDS: Final = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,8}", fullmatch=True)
MAYBE_IDS: Final = st.none() | IDS
JSON: Final[st.SearchStrategy[Json]] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
COUNTS: Final = st.integers(0, MAX_COUNT)
MOMENTS: Final = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001

# Structs whose fields depend on each other so closely that guessing would hardly ever hit.
_SPECIAL: Final[Mapping[type[Struct], st.SearchStrategy[Any]]] = {
    StreamCheckpoint: st.builds(
        lambda stream_id, text, attempt: StreamCheckpoint(
            stream_id=stream_id, offset=len(text), text=text, attempt=attempt
        ),
        IDS,
        TEXT,
        st.integers(1, 3),
    ),
    SeqRange: st.builds(lambda a, b: SeqRange(from_seq=min(a, b), to_seq=max(a, b)), COUNTS, COUNTS),
    TerminationReason: st.sampled_from([NATURAL_END, BEHAVIOR_REQUESTED, CANCELLED, SUSPENDED])
    | st.builds(TerminationReason.error, TEXT)
    | st.builds(TerminationReason.stopped, TEXT.filter(str.strip), st.none() | TEXT),
}


@cache
def payloads() -> st.SearchStrategy[Payload]:
    """Any payload of any declared type."""
    return st.one_of(*(structs_of(declaration.payload) for declaration in DECLARATIONS.values()))


@cache
def structs_of(cls: type[Struct]) -> st.SearchStrategy[Any]:
    """Any legal instance of a vocabulary struct."""
    if cls in _SPECIAL:
        return _SPECIAL[cls]
    info = mi.type_info(cls)
    assert isinstance(info, mi.StructType)
    required = {field.name: _values(field.type) for field in info.fields if field.required}
    optional = {field.name: _values(field.type) for field in info.fields if not field.required}
    fields = st.fixed_dictionaries(required, optional=optional)
    return fields.map(lambda given: _legal(cls, given)).filter(lambda made: made is not None)


def events(
    payload: st.SearchStrategy[Payload] | None = None,
    *,
    turn_ids: st.SearchStrategy[str | None] = MAYBE_IDS,
    spawn_ids: st.SearchStrategy[str | None] = MAYBE_IDS,
) -> st.SearchStrategy[Event]:
    """Any event. Narrow the payloads or the ids to make histories that hang together."""
    return st.builds(
        lambda data, id, session_id, seq, ts, turn_id, spawn_id: new_event(
            data,
            id=EventId(id),
            session_id=SessionId(session_id),
            seq=seq,
            ts=ts,
            turn_id=None if turn_id is None else TurnId(turn_id),
            spawn_id=None if spawn_id is None else SpawnId(spawn_id),
        ),
        payloads() if payload is None else payload,
        IDS,
        IDS,
        st.none() | COUNTS,
        MOMENTS,
        turn_ids,
        spawn_ids,
    )


def _legal(cls: type[Struct], given: dict[str, object]) -> Struct | None:
    try:
        return cls(**given)
    except ContractError:
        return None


def _values(info: mi.Type) -> st.SearchStrategy[Any]:
    match info:
        case mi.StrType():
            return IDS if info.pattern else TEXT.filter(lambda text: len(text) >= (info.min_length or 0))
        case mi.IntType():
            return st.integers(-MAX_COUNT if info.ge is None else info.ge, MAX_COUNT)
        case mi.FloatType():
            return st.floats(info.ge, allow_nan=False, allow_infinity=False)
        case mi.EnumType():
            return st.sampled_from(list(info.cls))
        case mi.VarTupleType():
            return st.lists(_values(info.item_type), max_size=2).map(tuple)
        case mi.UnionType():
            return st.one_of(*(_values(member) for member in info.types))
        case mi.StructType():
            return structs_of(info.cls)
        case mi.AnyType():
            return JSON
        case mi.DateTimeType():
            return MOMENTS
        case _:
            simple = {mi.BoolType: st.booleans(), mi.NoneType: st.none()}
            return simple[type(info)]
