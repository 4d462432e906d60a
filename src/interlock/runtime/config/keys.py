"""The keys of the configuration by their dotted names: what may stand there, in words, and by which variable.

Laws:
1. The tables are the structs of `config_sections`; nothing else says what a key is.
2. Every key has one variable, and no two keys have the same.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from interlock.runtime.config.sections import OFF, Config

Path: TypeAlias = tuple[str, ...]
VARIABLE_PREFIX: Final = "INTERLOCK_"
_MIN_BEGINNING: Final = 3


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One value. `kind` is its type; `description` what it is for."""

    path: Path
    kind: object
    description: str = ""
    default: object = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Where `entry` is not None its keys are free (`name_kind` says how they are spelled), else `members`."""

    path: Path
    members: Mapping[str, ConfigKey | Table]
    entry: object = None
    name_kind: object = str
    description: str = ""


def dotted(path: Path) -> str:
    """The name of a key as a person would write it in TOML."""
    return ".".join(word if word.replace("-", "").replace("_", "").isalnum() else f'"{word}"' for word in path)


def table_of(kind: type[Struct], path: Path = ()) -> Table:
    """The table that a struct describes."""
    members = {field.encode_name: node_of(field.type, (*path, field.encode_name), field) for field in _fields(kind)}
    return Table(path, members, description=(kind.__doc__ or "").partition("\n")[0])


def node_of(kind: object, path: Path, field: msgspec.structs.FieldInfo | None = None) -> ConfigKey | Table:
    """What stands at a path: a table, or a value."""
    plain, metas = unwrapped(kind)
    description = next((meta.description for meta in metas if meta.description), "")
    if isinstance(plain, type) and issubclass(plain, Struct):
        return table_of(plain, path)
    if typing.get_origin(plain) is dict:
        name_kind, entry = typing.get_args(plain)
        return Table(path, {}, entry=entry, name_kind=name_kind, description=description)
    default = None if field is None or field.default is msgspec.NODEFAULT else field.default
    return ConfigKey(path, kind, description, default)


def known_keys(table: Table) -> Iterator[ConfigKey | Table]:
    """Every value of a table, however deep, and every table whose keys are free."""
    if table.entry is not None:
        yield table
    for member in table.members.values():
        if isinstance(member, Table):
            yield from known_keys(member)
        else:
            yield member


def variables(agents: Iterable[str]) -> dict[str, ConfigKey | Table]:
    """Every variable that is read, and the key that it sets; of agents, those that are named."""
    root = table_of(Config)
    found: list[ConfigKey | Table] = []
    for section in root.members.values():
        assert isinstance(section, Table), "the file has tables only"
        if section.path == ("agents",):
            found += [key for name in agents for key in known_keys(agent_table(section, name))]
        else:
            found += known_keys(section)
    return {variable_of(key.path): key for key in found}


def agent_table(section: Table, name: str) -> Table:
    """The table of one agent."""
    table = node_of(section.entry, (*section.path, name))
    assert isinstance(table, Table), "an agent has keys"
    return table


def variable_of(path: Path) -> str:
    return VARIABLE_PREFIX + "_".join(word.upper().replace("-", "_") for word in path)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; blank where none is near."""
    words = list(known)
    begun = [one for one in words if len(word) >= _MIN_BEGINNING and one.startswith(word)]
    return next(iter((*get_close_matches(word, words, n=1, cutoff=0.6), *begun)), "")


def unwrapped(kind: object) -> tuple[object, tuple[Meta, ...]]:
    """A type without its annotations, and the annotations, the outermost first."""
    metas: tuple[Meta, ...] = ()
    while typing.get_origin(kind) is Annotated:
        inner, *found = typing.get_args(kind)
        metas, kind = (*reversed([one for one in found if isinstance(one, Meta)]), *metas), inner
    return kind, metas


def is_optional(kind: object) -> bool:
    """Whether a value can be switched off."""
    plain, _ = unwrapped(kind)
    return typing.get_origin(plain) in (typing.Union, types.UnionType) and types.NoneType in typing.get_args(plain)


def expected(kind: object) -> str:
    """What may stand there, in words."""
    plain, metas = unwrapped(kind)
    title = next((meta.title for meta in metas if meta.title), "")
    if title:
        return title
    if is_optional(plain):
        (inner,) = (one for one in typing.get_args(plain) if one is not types.NoneType)
        return f'{expected(inner)}, or "{OFF}"'
    if typing.get_origin(plain) is tuple:
        return f"a list, each {expected(typing.get_args(plain)[0])}"
    if isinstance(plain, type) and issubclass(plain, Enum):
        return "one of " + ", ".join(str(member.value) for member in plain)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return words.get(plain, "a value") + _range(metas) if isinstance(plain, type) else "a value"


def _range(metas: Iterable[Meta]) -> str:
    for meta in metas:
        low = f"above {meta.gt:g}" if meta.gt is not None else f"from {meta.ge:g}" if meta.ge is not None else ""
        if low and meta.le is not None:
            return f" {low} to {meta.le:.16g}"
        if meta.min_length:
            return " that is not blank"
    return ""


@cache
def _fields(kind: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)  # it reads every annotation again each time
