"""The small part of JSON Schema, held against a validator that knows all of it."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from interlock.monitor.observer.json_shape import compile_schema
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from tests.each_row import each_row

SCALARS: Final = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, 1.5]), st.sampled_from(["", "a", "1"])
)
NAMES: Final = st.sampled_from(["a", "b", "c"])
VALUES: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
TYPES: Final = st.sampled_from(["null", "boolean", "number", "integer", "string", "array", "object"])


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "items": inner,
    }
    return st.fixed_dictionaries({}, optional=keywords)


SCHEMAS: Final = st.recursive(objects(st.booleans()), objects, max_leaves=4)


@given(SCHEMAS, VALUES)
def test_it_agrees_with_another_validator(schema: dict[str, Json], value: Json) -> None:
    assert compile_schema(schema)(value) == Draft202012Validator(schema).is_valid(value)


@each_row(
    ("schema", "value", "fits"),
    [
        ({"const": 1}, True, False),
        ({"const": 1}, 1.0, True),
        ({"enum": [[0]]}, [False], False),
        ({"const": {"a": None}}, {"a": None}, True),
        ({"const": "1"}, 1, False),
        ({"type": "integer"}, True, False),
        ({"type": "integer"}, 2.0, True),
    ],
)
def test_equality_is_that_of_json(schema: dict[str, Json], value: Json, fits: bool) -> None:
    assert compile_schema(schema)(value) is fits is Draft202012Validator(schema).is_valid(value)


@each_row(
    "schema",
    [
        {"minimum": 1},
        {"type": "strng"},
        {"type": []},
        {"type": 5},
        {"enum": "a"},
        {"required": "a"},
        {"required": [1]},
        {"properties": {"a": {"additionalProperties": False}}},
        {"properties": {"a": 1}},
        {"items": [{"type": "null"}]},
        {"items": {"$ref": "#"}},
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused_with_a_remedy(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        compile_schema(schema)
    assert refused.value.remedy
    assert str(refused.value).startswith("$")
