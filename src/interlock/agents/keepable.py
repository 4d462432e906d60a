"""Makes what an agent says fit for the log, at the one place where it enters the runtime.

A NUL, half a surrogate pair, a number beyond 64 bits or a deep value, in a line on standard error or in a tool's
arguments, is the agent's doing: it costs that character or that value, never the session.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast

from msgspec import Struct, structs

from interlock.vocabulary.foreign_json import keepable_json, scrub_text

T = TypeVar("T")


def keepable(told: T) -> T:
    """An observation, or what became of a call, as the log can keep it; the very same one where it can."""
    return cast("T", _fit(told))


def _fit(value: object) -> object:
    kind = type(value)
    if kind is str:
        text = cast("str", value)
        return text if _is_fit(text) else scrub_text(text)
    if kind in (dict, list, int, float):
        kept = keepable_json(cast("Any", value))
        return value if kept == value else kept
    if kind in (tuple, frozenset):
        items = [_fit(item) for item in cast("tuple[object, ...]", value)]
        return value if all(now is was for now, was in zip(items, cast("Any", value), strict=True)) else kind(items)
    if isinstance(value, Struct):
        changed = _changed(value, value.__struct_fields__)
        return structs.replace(value, **changed) if changed else value
    if is_dataclass(kind):
        changed = _changed(value, _names(kind))
        return replace(cast("Any", value), **changed) if changed else value
    return value


def _changed(value: object, names: tuple[str, ...]) -> dict[str, object]:
    found = ((name, was, _fit(was)) for name in names if (was := getattr(value, name)))
    return {name: now for name, was, now in found if now is not was}


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def _is_fit(text: str) -> bool:
    if "\x00" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
