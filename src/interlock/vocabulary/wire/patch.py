"""Changes of a JSON document as data: five ops, a patch of them, and who made it. `lifecycle.patch` applies them."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from interlock.vocabulary.events.registry import Json

Path: TypeAlias = tuple[str | int, ...]


class _Op(Struct, frozen=True, tag_field="op"):
    path: Path


class SetOp(_Op, frozen=True, tag="set"):
    """Put `value` at the path. An empty path replaces the document."""

    value: Json


class DeleteOp(_Op, frozen=True, tag="delete"):
    """Remove the key or the item. An empty path leaves null."""


class AppendOp(_Op, frozen=True, tag="append"):
    """Add `value` to the array at the path, which is made if nothing is there."""

    value: Json


class MergeObjectOp(_Op, frozen=True, tag="merge_object"):
    """Put each key of `value` into the object at the path, which is made if nothing is there. Not recursive."""

    value: dict[str, Json]


class IncrementOp(_Op, frozen=True, tag="increment"):
    """Add `amount` to the number at the path."""

    amount: int | float


Op: TypeAlias = SetOp | DeleteOp | AppendOp | MergeObjectOp | IncrementOp


class Patch(Struct, frozen=True):
    """An ordered list of ops."""

    ops: tuple[Op, ...] = ()


class TrackedPatch(Struct, frozen=True):
    """A patch and who made it."""

    tracked: Patch
    source: str

    def patch(self) -> Patch:
        return self.tracked
