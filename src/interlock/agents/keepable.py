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
    kind: Any = type(value)
    if kind is str:
        text = cast("str", value)
        return text if _is_fit(text) else scrub_text(text)
    if kind in (dict, list, int, float):
        kept = keepable_json(cast("Any", value))
        return value if kept == value else kept
    if kind in (tuple, frozenset):
        items = [_fit(item) for item in cast("tuple[object, ...]", value)]
        return value if all(now is was for now, was in zip(items, cast("Any", value), strict=True)) else kind(items)
    changed: dict[str, object] = {}
    for name in _names(kind):
        was = getattr(value, name)
        if type(was) is str and was.isascii() and "\x00" not in was:
            continue
        if was and (now := _fit(was)) is not was:
            changed[name] = now
    if not changed:
        return value
    return structs.replace(value, **changed) if isinstance(value, Struct) else replace(cast("Any", value), **changed)


@cache
def _names(kind: type) -> tuple[str, ...]:
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()


def _is_fit(text: str) -> bool:
    if "\x00" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
