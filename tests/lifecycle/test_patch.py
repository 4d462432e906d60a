"""Patches: each rule of each op, and the engine against a second, naive one."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.patch import PatchError, apply_patch
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.wire.patch import (
    AppendOp,
    DeleteOp,
    IncrementOp,
    MergeObjectOp,
    Op,
    Patch,
    Path,
    SetOp,
    TrackedPatch,
)

INT_MAX = 2**63 - 1


def apply(doc: Json, *ops: Op) -> Json:
    return apply_patch(doc, Patch(ops))


APPLIED: list[tuple[str, Json, Op, Json]] = [
    ("set a key", {"a": 1}, SetOp(("b",), 2), {"a": 1, "b": 2}),
    ("set over a key", {"a": 1}, SetOp(("a",), None), {"a": None}),
    ("set makes objects on the way", {}, SetOp(("a", "b", "c"), 1), {"a": {"b": {"c": 1}}}),
    ("set replaces a scalar in the way", {"a": 1}, SetOp(("a", "b"), 2), {"a": {"b": 2}}),
    ("set replaces an array in the way", {"a": [1, 2]}, SetOp(("a", "b"), 2), {"a": {"b": 2}}),
    ("set replaces null in the way", {"a": None}, SetOp(("a", "b"), 2), {"a": {"b": 2}}),
    ("set replaces a root that is no object", [1], SetOp(("a",), 2), {"a": 2}),
    ("set at an index", [1, 2, 3], SetOp((1,), 9), [1, 9, 3]),
    ("set below an index", [{"a": 1}], SetOp((0, "b"), 2), [{"a": 1, "b": 2}]),
    ("set without a path", {"a": 1}, SetOp((), [1]), [1]),
    ("delete a key", {"a": 1, "b": 2}, DeleteOp(("a",)), {"b": 2}),
    ("delete a deep key", {"a": {"b": {"c": 1, "d": 2}}}, DeleteOp(("a", "b", "c")), {"a": {"b": {"d": 2}}}),
    ("delete an item", {"a": [1, 2, 3]}, DeleteOp(("a", 1)), {"a": [1, 3]}),
    ("delete nothing: no key", {"a": 1}, DeleteOp(("b",)), {"a": 1}),
    ("delete nothing: no object on the way", {"a": 1}, DeleteOp(("a", "b", "c")), {"a": 1}),
    ("delete nothing: out of range", {"a": [1]}, DeleteOp(("a", 1)), {"a": [1]}),
    ("delete nothing: negative", {"a": [1]}, DeleteOp(("a", -1)), {"a": [1]}),
    ("delete nothing: index in an object", {"a": {}}, DeleteOp(("a", 0)), {"a": {}}),
    ("delete nothing: key in an array", {"a": [1]}, DeleteOp(("a", "0")), {"a": [1]}),
    ("delete without a path", {"a": 1}, DeleteOp(()), None),
    ("append", {"a": [1]}, AppendOp(("a",), 2), {"a": [1, 2]}),
    ("append makes the array", {}, AppendOp(("a", "b"), 1), {"a": {"b": [1]}}),
    ("append to an item", [[1]], AppendOp((0,), 2), [[1, 2]]),
    ("append to the root", [], AppendOp((), 1), [1]),
    ("merge_object", {"a": {"b": 1, "c": 1}}, MergeObjectOp(("a",), {"b": 2, "d": 2}), {"a": {"b": 2, "c": 1, "d": 2}}),
    ("merge_object is shallow", {"a": {"b": {"c": 1}}}, MergeObjectOp(("a",), {"b": {"d": 2}}), {"a": {"b": {"d": 2}}}),
    ("merge_object makes the object", {}, MergeObjectOp(("a", "b"), {"c": 1}), {"a": {"b": {"c": 1}}}),
    ("merge_object into the root", {"a": 1}, MergeObjectOp((), {"b": 2}), {"a": 1, "b": 2}),
    ("increment", {"a": 1}, IncrementOp(("a",), 2), {"a": 3}),
    ("increment downwards", {"a": [1]}, IncrementOp(("a", 0), -2), {"a": [-1]}),
    ("increment by a float", {"a": 1}, IncrementOp(("a",), 0.5), {"a": 1.5}),
    ("increment up to 64 bits", {"a": INT_MAX - 1}, IncrementOp(("a",), 1), {"a": INT_MAX}),
    ("increment down to 64 bits", {"a": -INT_MAX}, IncrementOp(("a",), -1), {"a": -INT_MAX - 1}),
    ("increment the root", 1, IncrementOp((), 1), 2),
]

REFUSED: list[tuple[str, Json, Op, str]] = [
    ("set: index without an array", {"a": {}}, SetOp(("a", 0), 1), "index 0 needs an array, found an object"),
    ("set: index where nothing is", {}, SetOp(("a", 0), 1), "index 0 needs an array, found nothing"),
    ("set: index at the end", {"a": [1]}, SetOp(("a", 1), 1), "index 1 is out of range, the array holds 1"),
    ("set: negative index", {"a": [1]}, SetOp(("a", -1), 1), "index -1 is out of range"),
    ("set: index out of range on the way", {"a": []}, SetOp(("a", 0, "b"), 1), "index 0 is out of range"),
    ("append: an object", {"a": {}}, AppendOp(("a",), 1), "append needs an array, found an object"),
    ("append: null", {"a": None}, AppendOp(("a",), 1), "append needs an array, found null"),
    ("append: a string", {"a": "x"}, AppendOp(("a",), 1), "append needs an array, found a string"),
    ("append: at the end", [[]], AppendOp((1,), 1), "index 1 is out of range"),
    ("merge_object: an array", {"a": []}, MergeObjectOp(("a",), {}), "merge_object needs an object, found an array"),
    ("merge_object: null", {"a": None}, MergeObjectOp(("a",), {}), "merge_object needs an object, found null"),
    ("increment: nothing", {}, IncrementOp(("a",), 1), "increment needs a number, found nothing"),
    ("increment: nothing below", {"a": 1}, IncrementOp(("a", "b"), 1), "increment needs a number, found nothing"),
    ("increment: out of range", {"a": [1]}, IncrementOp(("a", 1), 1), "index 1 is out of range"),
    ("increment: a boolean", {"a": True}, IncrementOp(("a",), 1), "increment needs a number, found a boolean"),
    ("increment: by a boolean", {"a": 1}, IncrementOp(("a",), True), "got a boolean"),
    ("increment: a string", {"a": "1"}, IncrementOp(("a",), 1), "increment needs a number, found a string"),
    ("increment: overflow", {"a": INT_MAX}, IncrementOp(("a",), 1), "does not fit 64 bits"),
    ("increment: underflow", {"a": -INT_MAX - 1}, IncrementOp(("a",), -1), "does not fit 64 bits"),
    ("increment: by infinity", {"a": 1}, IncrementOp(("a",), math.inf), "not finite"),
    ("increment: by no number", {"a": 1}, IncrementOp(("a",), math.nan), "not finite"),
    ("increment: to infinity", {"a": 1.7e308}, IncrementOp(("a",), 1.7e308), "not finite"),
    ("increment: a hostile integer", {"a": 10**400}, IncrementOp(("a",), 0.5), "out of range"),
]


@pytest.mark.parametrize(("doc", "op", "after"), [case[1:] for case in APPLIED], ids=[case[0] for case in APPLIED])
def test_an_op_is_applied(doc: Json, op: Op, after: Json) -> None:
    assert apply(doc, op) == after


@pytest.mark.parametrize(("doc", "op", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_an_op_is_refused(doc: Json, op: Op, reason: str) -> None:
    before = copy.deepcopy(doc)
    with pytest.raises(PatchError) as caught:
        apply(doc, SetOp(("touched",), 1), op) if isinstance(doc, dict) else apply(doc, op)
    assert reason in caught.value.reason
    assert caught.value.path == op.path
    assert doc == before


def test_integers_and_floats_stay_what_they_are() -> None:
    assert type(apply(1, IncrementOp((), 1))) is int
    assert type(apply(1.0, IncrementOp((), 1))) is float


def test_ops_are_applied_in_order_and_the_failing_one_is_named() -> None:
    assert apply({}, SetOp(("a",), [1]), AppendOp(("a",), 2), DeleteOp(("a", 0))) == {"a": [2]}
    with pytest.raises(PatchError, match=r"^op 1 at \['a', 'b'\]: append needs an array, found a number$") as caught:
        apply({}, SetOp(("a", "b"), 1), AppendOp(("a", "b"), 2), SetOp(("c",), 3))
    assert (caught.value.op_index, caught.value.path) == (1, ("a", "b"))
    assert isinstance(caught.value, ContractError)


@pytest.mark.parametrize("op", [SetOp, AppendOp])
def test_a_path_is_at_most_as_long_as_a_log_line_is_deep(op: type[SetOp | AppendOp]) -> None:
    deep: Any = apply({}, op(("a",) * 100, 1))
    for _ in range(100):
        deep = deep["a"]
    assert deep in (1, [1])
    with pytest.raises(PatchError, match="more than 100 segments"):
        apply({}, op(("a",) * 101, 1))


def test_nothing_is_shared_with_the_document_or_the_patch() -> None:
    doc: Any = {"kept": [{"a": 1}], "gone": 1}
    value: dict[str, Json] = {"list": [1]}
    after: Any = apply(doc, SetOp(("set",), value), AppendOp(("added",), value), MergeObjectOp(("merged",), value))
    after["kept"][0]["a"] = after["set"]["list"] = after["added"][0]["list"] = after["merged"]["list"] = "changed"
    assert doc == {"kept": [{"a": 1}], "gone": 1}
    assert value == {"list": [1]}
    untouched: Any = apply_patch(doc, Patch())
    untouched["kept"].append(2)
    assert doc == {"kept": [{"a": 1}], "gone": 1}


def test_a_later_op_does_not_reach_into_the_value_of_an_earlier_one() -> None:
    value: Json = {"list": []}
    patch = Patch((SetOp(("a",), value), AppendOp(("a", "list"), 1)))
    assert apply_patch({}, patch) == apply_patch({}, patch) == {"a": {"list": [1]}}
    assert value == {"list": []}


@pytest.mark.parametrize(
    ("op", "line"),
    [
        (SetOp(("a", 0), None), '{"op":"set","path":["a",0],"value":null}'),
        (DeleteOp(()), '{"op":"delete","path":[]}'),
        (AppendOp(("a",), [1]), '{"op":"append","path":["a"],"value":[1]}'),
        (MergeObjectOp(("a",), {"b": 1}), '{"op":"merge_object","path":["a"],"value":{"b":1}}'),
        (IncrementOp(("a",), -1.5), '{"op":"increment","path":["a"],"amount":-1.5}'),
    ],
)
def test_ops_are_tagged_in_json(op: Op, line: str) -> None:
    patch = Patch((op,))
    assert msgspec.json.encode(patch).decode() == f'{{"ops":[{line}]}}'
    assert msgspec.json.decode(msgspec.json.encode(patch), type=Patch) == patch


@pytest.mark.parametrize(
    "line",
    [
        '{"ops":[{"op":"explode","path":[]}]}',
        '{"ops":[{"path":[],"value":1}]}',
        '{"ops":[{"op":"set","path":[]}]}',
        '{"ops":[{"op":"set","path":[true],"value":1}]}',
        '{"ops":[{"op":"set","path":[1.5],"value":1}]}',
        '{"ops":[{"op":"merge_object","path":[],"value":[]}]}',
        '{"ops":[{"op":"increment","path":[],"amount":"1"}]}',
        '{"ops":[{"op":"increment","path":[],"amount":true}]}',
    ],
)
def test_a_malformed_patch_is_not_read(line: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(line, type=Patch)


def test_a_tracked_patch_knows_its_source() -> None:
    patch = Patch((DeleteOp(("a",)),))
    tracked = TrackedPatch(patch, "agent_loop")
    assert tracked.patch() == patch
    assert tracked.source == "agent_loop"


class NaiveError(Exception):
    """The naive engine refuses."""


def naive_apply(doc: Json, op: Op) -> Json:
    """A second engine: the document as a flat map from path to value, and built anew from the leaf for every op."""
    places = dict(walk(doc))
    match op:
        case SetOp(path, value):
            return grow(doc, path, value)
        case DeleteOp(path):
            if path and path not in places:
                return doc
            return grow(doc, path[:-1], without(places[path[:-1]], path[-1])) if path else None
        case AppendOp(path, value):
            items = places.get(path, [])
            return grow(doc, path, [*items, value]) if isinstance(items, list) else refuse()
        case MergeObjectOp(path, value):
            fields = places.get(path, {})
            return grow(doc, path, fields | value) if isinstance(fields, dict) else refuse()
        case IncrementOp(path, amount):
            return grow(doc, path, total(places.get(path), amount))


def refuse() -> NoReturn:
    raise NaiveError


def walk(value: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, (*path, index))


def grow(doc: Json, path: Path, value: Json) -> Json:
    """Put a value at a path from the leaf upwards: each level is built from what was there and the level below."""
    places = dict(walk(doc))
    for depth in reversed(range(len(path))):
        here, key = places.get(path[:depth]), path[depth]
        if isinstance(key, int):
            if not isinstance(here, list) or key not in range(len(here)):
                refuse()
            value = [*here[:key], value, *here[key + 1 :]]
        else:
            value = {**(here if isinstance(here, dict) else {}), key: value}
    return value


def without(place: Json, segment: str | int) -> Json:
    if isinstance(place, dict):
        return {key: value for key, value in place.items() if key != segment}
    return [value for index, value in enumerate(place) if index != segment] if isinstance(place, list) else refuse()


def total(number: Json, amount: float) -> Json:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        refuse()
    found = number + amount
    if isinstance(found, int):
        return found if found in range(-INT_MAX - 1, INT_MAX + 1) else refuse()
    return found if math.isfinite(found) else refuse()


KEYS = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([INT_MAX, -INT_MAX - 1, 0.5, 1.7e308, -1.7e308])
DOCUMENTS: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "x"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(KEYS, children, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, DOCUMENTS, max_size=3)
PATHS: st.SearchStrategy[Path] = st.lists(KEYS | st.integers(-1, 2), max_size=4).map(tuple)


OPS: st.SearchStrategy[Op] = st.one_of(
    st.builds(SetOp, PATHS, DOCUMENTS),
    st.builds(DeleteOp, PATHS),
    st.builds(AppendOp, PATHS, DOCUMENTS),
    st.builds(MergeObjectOp, PATHS, OBJECTS),
    st.builds(IncrementOp, PATHS, NUMBERS | st.sampled_from([math.inf, math.nan])),
)


def somewhere(op: Op, doc: Json, choice: int | None) -> Op:
    """The same op at one of the paths that the document has; as it is without a choice."""
    paths = [path for path, _ in walk(doc)]
    return op if choice is None else msgspec.structs.replace(op, path=paths[choice % len(paths)])


@given(DOCUMENTS | OBJECTS, st.lists(st.tuples(OPS, st.none() | st.integers(0, 20)), max_size=4))
def test_the_engine_agrees_with_a_naive_one_and_never_touches_its_input(
    doc: Json, choices: list[tuple[Op, int | None]]
) -> None:
    patch = Patch(tuple(somewhere(op, doc, choice) for op, choice in choices))
    doc_before, ops_before = copy.deepcopy(doc), repr(patch)
    expected, applied = doc, 0
    with suppress(NaiveError):
        for op in patch.ops:
            expected = naive_apply(expected, op)
            applied += 1
    if applied == len(patch.ops):
        # As text, since 1 equals True.
        assert json.dumps(apply_patch(doc, patch), sort_keys=True) == json.dumps(expected, sort_keys=True)
    else:
        with pytest.raises(PatchError) as caught:
            apply_patch(doc, patch)
        assert caught.value.op_index == applied
    assert doc == doc_before
    assert repr(patch) == ops_before
