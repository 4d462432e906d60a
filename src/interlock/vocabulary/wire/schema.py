"""JSON Schemas of what a server sends: every field is required there, since every field is always sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]


def require_every_field(components: dict[str, Schema], sent: Iterable[Schema]) -> None:
    """Change the components that these schemas lead to: every property is required, and none has a default. What only
    requests lead to stays as it is."""
    todo, seen = [*sent], set[str]()
    while todo:
        for name in _referred(todo.pop()):
            if name in seen or name not in components:
                continue
            seen.add(name)
            one = components[name]
            todo.append(one)
            if "properties" in one:
                one["properties"] = {field: _without_default(made) for field, made in one["properties"].items()}
                one["required"] = list(one["properties"])


def spell_out_tuples(schema: Any) -> None:  # noqa: ANN401 - any part of a schema
    """Say of arrays of a fixed length what their items may be. `prefixItems` with `items: false` means the same, and
    generators of clients stumble over it."""
    if isinstance(schema, dict):
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list):
            kinds = [one for place, one in enumerate(prefix) if one not in prefix[:place]]
            schema["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
            schema["maxItems"] = len(prefix)
        for value in schema.values():
            spell_out_tuples(value)
    elif isinstance(schema, list):
        for value in schema:
            spell_out_tuples(value)


def _without_default(schema: Schema) -> Schema:
    return {word: value for word, value in schema.items() if word != "default"}


def _referred(schema: Any) -> Iterator[str]:  # noqa: ANN401 - any part of a schema
    """The names of the components that a schema refers to."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        for value in schema.values():
            yield from _referred(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _referred(value)
