"""How a server writes what it sends: every field of every struct, also one that has its default value.

The log leaves default values out, and its lines must not change. Structs of the log that are part of an answer are
therefore copied into twins that leave nothing out. Which fields of a type may hold such a struct is found once a type:
text of a stream holds none, and is encoded as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from dataclasses import replace as replace_dataclass
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct, inspect, structs

_encoder: Final = msgspec.json.Encoder()
_Filler = Callable[[Any], Any]


def encode(value: object) -> bytes:
    """The JSON of an answer or a frame."""
    return _encoder.encode(fill(value))


def fill(value: Any) -> Any:  # noqa: ANN401 - what comes in goes out, of the same shape
    """The value, encoding to all of its fields."""
    kind: type = type(value)
    if kind is tuple:
        return tuple(map(fill, value)) if value else value
    filler = _filler(kind)
    return value if filler is None else filler(value)


@cache
def _filler(kind: type) -> _Filler | None:
    """How to fill values of a type; None where they send everything as they are."""
    if not (issubclass(kind, Struct) or is_dataclass(kind)):
        return None
    names = tuple(field.name for field in _fields(inspect.type_info(kind)) if _has_gaps(field.type, frozenset()))
    if not issubclass(kind, Struct):
        return _replacer(replace_dataclass, names) if names else None
    if kind.__struct_config__.omit_defaults:
        return _copier(kind, names)
    return _replacer(structs.replace, names) if names else None


def _replacer(replace: Callable[..., Any], names: tuple[str, ...]) -> _Filler:
    def filled(value: Any) -> Any:  # noqa: ANN401 - as `fill`
        return replace(value, **{name: fill(getattr(value, name)) for name in names})

    return filled


def _copier(kind: type[Struct], gaps: tuple[str, ...]) -> _Filler:
    names, config = kind.__struct_fields__, kind.__struct_config__
    twin = msgspec.defstruct(kind.__name__, [(name, Any) for name in names], tag=config.tag, tag_field=config.tag_field)
    places = tuple(names.index(name) for name in gaps)

    def filled(value: Any) -> Any:  # noqa: ANN401 - as `fill`
        fields = list(structs.astuple(value))
        for place in places:
            fields[place] = fill(fields[place])
        return twin(*fields)

    return filled


def _has_gaps(info: object, above: frozenset[type]) -> bool:
    """Whether a type holds, at any depth, a struct that leaves out default values."""
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        if info.cls in above:
            return False
        is_gapped = isinstance(info, inspect.StructType) and info.cls.__struct_config__.omit_defaults
        return is_gapped or any(_has_gaps(one.type, above | {info.cls}) for one in _fields(info))
    if isinstance(info, inspect.UnionType):
        return any(_has_gaps(one, above) for one in info.types)
    if isinstance(info, inspect.VarTupleType):
        return _has_gaps(info.item_type, above)
    return False


def _fields(info: object) -> tuple[inspect.Field, ...]:
    return info.fields if isinstance(info, inspect.StructType | inspect.DataclassType) else ()
