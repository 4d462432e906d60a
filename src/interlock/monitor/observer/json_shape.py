"""The small part of JSON Schema with which a caller can say what a reply must look like.

`type`, `enum`, `const`, `required`, `properties`, `items`: each means what it means in JSON Schema. A schema that uses
another keyword is refused, since to leave a keyword out would be to accept what its author excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json

Check = Callable[[Json], bool]

_TYPES: Final[Mapping[str, Check]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def compile_schema(schema: Json | Mapping[str, Json], where: str = "$") -> Check:
    """A function that says whether a value fits. Refuses with `UsageError` what it does not understand."""
    if isinstance(schema, bool):
        return lambda _: schema
    if not isinstance(schema, Mapping):
        raise UsageError(f"{where} is no schema: {schema!r}", remedy="give an object, true or false")
    checks = [_compile_keyword(keyword, given, where) for keyword, given in schema.items()]
    return lambda value: all(fits(value) for fits in checks)


def _compile_keyword(keyword: str, given: Json, where: str) -> Check:
    at = f"{where}.{keyword}"
    match keyword, given:
        case "type", str() | list():
            return _type_check(given if isinstance(given, list) else [given], at)
        case "enum", list():
            return lambda value: any(is_same_json(value, allowed) for allowed in given)
        case "const", _:
            return lambda value: is_same_json(value, given)
        case "required", list() if all(isinstance(name, str) for name in given):
            return lambda value: not isinstance(value, dict) or all(name in value for name in given)
        case "properties", dict():
            return _property_check({name: compile_schema(part, f"{at}.{name}") for name, part in given.items()})
        case "items", _:
            fits = compile_schema(given, at)
            return lambda value: not isinstance(value, list) or all(map(fits, value))
        case _:
            known = "type, enum, const, required, properties, items"
            raise UsageError(f"{at} is not understood", remedy=f"use {known} in their simple form, or a function")


def _type_check(names: list[Json], at: str) -> Check:
    unknown = [name for name in names if not isinstance(name, str) or name not in _TYPES]
    if unknown or not names:
        raise UsageError(f"{at} names no type: {unknown}", remedy=f"use one of {', '.join(_TYPES)}")
    checks = [_TYPES[name] for name in names if isinstance(name, str)]
    return lambda value: any(is_of_type(value) for is_of_type in checks)


def _property_check(parts: Mapping[str, Check]) -> Check:
    return lambda value: (
        not isinstance(value, dict) or all(fits(value[name]) for name, fits in parts.items() if name in value)
    )


def is_same_json(one: Json, other: Json) -> bool:
    """Equality as JSON has it: true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same_json(value, other[name]) for name, value in one.items())
    return one == other
