"""Patches over a JSON document: five ops, applied in order, all or none.

Laws:
1. `apply_patch` is pure. The result shares no list or object with the document or the patch.
2. The first op that fails fails the whole patch. `PatchError` names the op and its path.
3. `set`, `append` and `merge_object` make the objects that their path needs, and replace what is no object in the way.
4. No op makes or lengthens an array by index: an index must be in range already.
5. `delete` of what is not there does nothing. `increment` needs a number, and never wraps around or leaves the finite.
6. A path has at most as many segments as a line of the log may be deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final, TypeAlias, assert_never

from msgspec import UNSET, UnsetType

from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.codec import MAX_DEPTH
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.wire.patch import AppendOp, DeleteOp, IncrementOp, MergeObjectOp, Op, Patch, Path, SetOp

Found: TypeAlias = Json | UnsetType

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1
_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


class PatchError(ContractError):
    """An op could not be applied, and so the whole patch was not."""

    def __init__(self, reason: str, *, op_index: int, path: Path) -> None:
        super().__init__(f"op {op_index} at {list(path)}: {reason}")
        self.reason = reason
        self.op_index = op_index
        self.path = path


class _Refused(Exception):
    """Why one op fails; `apply_patch` adds which one."""


def apply_patch(doc: Json, patch: Patch) -> Json:
    """Return `doc` with every op of `patch` applied, or raise `PatchError`."""
    result = _copy(doc)
    for index, op in enumerate(patch.ops):
        try:
            result = _apply(result, op)
        except _Refused as refusal:
            raise PatchError(str(refusal), op_index=index, path=op.path) from None
    return result


def _apply(doc: Json, op: Op) -> Json:
    if len(op.path) > MAX_DEPTH:
        raise _Refused(f"a path of more than {MAX_DEPTH} segments")
    match op:
        case SetOp():
            return _edit(doc, op.path, lambda _: _copy(op.value))
        case DeleteOp():
            return _delete(doc, op.path)
        case AppendOp():
            return _edit(doc, op.path, lambda found: _append(found, op.value))
        case MergeObjectOp():
            return _edit(doc, op.path, lambda found: _merge(found, op.value))
        case IncrementOp():
            return _edit(doc, op.path, lambda found: _sum(found, op.amount))
        case unreachable:
            assert_never(unreachable)


def _edit(node: Found, path: Path, change: Callable[[Found], Json]) -> Json:
    """Replace what is at the path by what `change` makes of it, with objects made on the way. Works in place."""
    if not path:
        return change(node)
    segment, rest = path[0], path[1:]
    if isinstance(segment, str):
        fields = node if isinstance(node, dict) else {}
        fields[segment] = _edit(fields.get(segment, UNSET), rest, change)
        return fields
    if not isinstance(node, list):
        raise _Refused(f"index {segment} needs an array, found {_kind(node)}")
    if not 0 <= segment < len(node):
        raise _Refused(f"index {segment} is out of range, the array holds {len(node)}")
    node[segment] = _edit(node[segment], rest, change)
    return node


def _delete(doc: Json, path: Path) -> Json:
    if not path:
        return None
    parent: Found = doc
    for segment in path[:-1]:
        parent = _child(parent, segment)
    last = path[-1]
    if isinstance(parent, dict) and isinstance(last, str):
        parent.pop(last, None)
    elif isinstance(parent, list) and isinstance(last, int) and 0 <= last < len(parent):
        del parent[last]
    return doc


def _child(node: Found, segment: str | int) -> Found:
    if isinstance(node, dict) and isinstance(segment, str):
        return node.get(segment, UNSET)
    if isinstance(node, list) and isinstance(segment, int) and 0 <= segment < len(node):
        return node[segment]
    return UNSET


def _append(found: Found, value: Json) -> Json:
    items = [] if found is UNSET else found
    if not isinstance(items, list):
        raise _Refused(f"append needs an array, found {_kind(items)}")
    return [*items, _copy(value)]


def _merge(found: Found, value: dict[str, Json]) -> Json:
    fields = {} if found is UNSET else found
    if not isinstance(fields, dict):
        raise _Refused(f"merge_object needs an object, found {_kind(fields)}")
    return {**fields, **{key: _copy(item) for key, item in value.items()}}


def _sum(found: Found, amount: float) -> Json:
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise _Refused(f"increment needs a number, found {_kind(found)}")
    if isinstance(amount, bool):
        raise _Refused("increment needs a number to add, got a boolean")
    try:
        total = found + amount
    except OverflowError:
        raise _Refused("the sum is out of range") from None
    if isinstance(total, int) and not _INT_MIN <= total <= _INT_MAX:
        raise _Refused("the sum does not fit 64 bits")
    if not isfinite(total):
        raise _Refused("the sum is not finite")
    return total


def _kind(found: Found) -> str:
    return "nothing" if found is UNSET else _KINDS.get(type(found), type(found).__name__)


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
