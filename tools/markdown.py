"""What the generated pages are built of: a page, a table, a type in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NewType, Union, get_args, get_origin

import msgspec

MARKER: Final = "<!-- Made by `make docs` from the code. Edits here are overwritten. -->"


def page(title: str, *parts: str) -> str:
    return "\n\n".join((MARKER, f"# {title}", *(part for part in parts if part))) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def told(thing: object) -> str:
    """What its docstring says, the whole of it."""
    return cleandoc(thing.__doc__ or "")


def summary(thing: object) -> str:
    """The first line of its docstring."""
    return told(thing).partition("\n")[0]


def default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{msgspec.json.encode(value).decode()}`"


def class_name(kind: type) -> str:
    return kind.__name__


def type_name(kind: object, named: Callable[[type], str] = class_name) -> str:
    """A field's type in words. Raises for a shape that it does not know, rather than printing a Python repr."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_name(args[0], named) + "".join(_constraint(meta) for meta in args[1:])
    if origin in (Union, UnionType):
        return " or ".join(type_name(arg, named) for arg in args)
    if origin in (tuple, list, frozenset):
        return f"list of {type_name(args[0], named)}"
    if origin is dict:
        return f"map to {type_name(args[1], named)}"
    return _plain_name(kind, named)


def _plain_name(kind: object, named: Callable[[type], str]) -> str:
    if kind is Any:
        return "any JSON"
    if kind is NoneType:
        return "null"
    if isinstance(kind, NewType):
        return kind.__name__
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(f"`{member.value}`" for member in kind)
    if isinstance(kind, type):
        return named(kind)
    raise TypeError(f"tools/markdown.py cannot put {kind!r} into words")


def _constraint(meta: object) -> str:
    if not isinstance(meta, msgspec.Meta):
        return ""
    least = "" if meta.ge is None else f", at least {meta.ge}"
    longest = "" if meta.max_length is None else f", up to {meta.max_length} long"
    return least + (", not empty" if meta.min_length == 1 else "") + longest
