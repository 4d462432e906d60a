"""Files that hold, word for word, what a part of the product says.

`INTERLOCK_WRITE_GOLDEN=1 pytest ...` writes the files anew; a person reads the difference before it is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path

import msgspec


def check(path: Path, lines: Iterable[str]) -> None:
    """The lines are those on file."""
    told = "".join(f"{line}\n" for line in lines)
    if os.environ.get("INTERLOCK_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(told, encoding="utf-8")
    assert told.splitlines() == path.read_text(encoding="utf-8").splitlines()


def told(value: object) -> str:
    """A value on one line: fields that have their default are left out, enums are their values."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, msgspec.Struct):
        return _record(value, _defaults(type(value)))
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, {one.name: one.default for one in fields(value) if one.default is not MISSING})
    if isinstance(value, dict):
        return "{" + ", ".join(f"{told(key)}: {told(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(told(one) for one in value) + "]"
    if isinstance(value, frozenset | set):
        return "[" + ", ".join(sorted(told(one) for one in value)) + "]"
    return repr(value) if isinstance(value, str) else str(value)


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Kept: to ask for the fields of a struct evaluates its annotations each time, half of a walk's cost."""
    return {info.name: info.default for info in msgspec.structs.fields(kind)}


def _record(value: object, defaults: dict[str, object]) -> str:
    names = value.__struct_fields__ if isinstance(value, msgspec.Struct) else [one.name for one in fields(value)]  # type: ignore[arg-type]
    shown = ((name, getattr(value, name)) for name in names)
    said = [f"{name}={told(one)}" for name, one in shown if not _is_default(one, defaults.get(name, MISSING))]
    return f"{type(value).__name__}({', '.join(said)})"


def _is_default(value: object, default: object) -> bool:
    return value is None or value == () or (type(value) is type(default) and value == default)
