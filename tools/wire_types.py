"""The types that go over a wire, as sections of a page: every struct that some others hold, each with its fields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import inspect

from tools.markdown import class_name, default, table, told, type_name

VALUES: Final = (
    "`datetime` is a string as in RFC 3339, with its offset. What ends in `Id` is a string: names that are ours are up"
    " to 128 letters, digits and `. _ : -`. Lengths and offsets of text count Unicode code points."
)
"""How plain values are written."""


def held_types(roots: Iterable[Any]) -> tuple[type, ...]:
    """The structs and dataclasses that these types hold, at any depth, they themselves included; by name."""
    found: dict[type, None] = {}
    for root in roots:
        _collect(inspect.type_info(root), found)
    return tuple(sorted(found, key=class_name))


def _collect(info: object, found: dict[type, None]) -> None:
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        if info.cls in found:
            return
        found[info.cls] = None
    for inner in _inner(info):
        _collect(inner, found)


def _inner(info: object) -> Iterator[object]:
    """The types that a type is made of. What is not named here is made of none."""
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        yield from (field.type for field in info.fields)
    elif isinstance(info, inspect.UnionType):
        yield from info.types
    elif isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.FrozenSetType):
        yield info.item_type
    elif isinstance(info, inspect.DictType):
        yield info.value_type


def sections(types: Iterable[type], linked: Collection[type], *, level: int = 3) -> str:
    """A section a type. A field whose type is one of `linked` leads to it."""
    return "\n\n".join(section(one, linked, level=level) for one in types)


def section(kind: type, linked: Collection[type], *, level: int = 3, more: str = "", name: str = "") -> str:
    """One type: what it is, and its fields."""
    rows = list(field_rows(kind, linked))
    fields = table(("Field", "Type", "Default"), rows) if rows else "No fields."
    head = f"{'#' * level} {name or kind.__name__}"
    return "\n\n".join(part for part in (head, told(kind), more, fields) if part)


def field_rows(kind: type, linked: Collection[type]) -> Iterator[tuple[str, str, str]]:
    """Name, type and default of each field."""

    def named(one: type) -> str:
        return link(one) if one in linked else one.__name__

    if issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield f"`{field.encode_name}`", type_name(field.type, named), default(field)
        return
    hints = get_type_hints(kind)
    for one in dataclass_fields(kind):  # type: ignore[arg-type]  # msgspec found it to be one
        value = "required" if one.default is MISSING else f"`{msgspec.json.encode(one.default).decode()}`"
        yield f"`{one.name}`", type_name(hints[one.name], named), value


def link(kind: type) -> str:
    """A link to the section of a type on the same page."""
    return f"[{kind.__name__}](#{kind.__name__.lower()})"
