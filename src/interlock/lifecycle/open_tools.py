"""The tools in flight of one agent: an immutable set whose next version costs the same, however many are open.

Laws:
1. A set never changes. `opened` and `closed` give another one, which shares all but one path with the old one.
2. Looking up, opening, closing and `oldest` cost the depth of the tree: a few steps, also with 40,000 open tools.
3. Two sets with the same tools are equal and have the same hash, however they came about. These two cost all of it.
4. A tool with an id is known by that id. Tools without one are known by name and time, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

_BITS: Final = 4
_WIDTH: Final = 1 << _BITS
_LEAF_MAX: Final = 8
_HASH_BITS: Final = 60
Key: TypeAlias = "str | tuple[float, str]"


class OpenTool(NamedTuple):
    """A tool that was called and has not returned: since when, its name and its id. `copies` is above 1 only without
    an id."""

    since: float
    name: str = ""
    id: str = ""
    copies: int = 1

    @property
    def key(self) -> Key:
        return self.id or (self.since, self.name)


class _Branch(NamedTuple):
    children: tuple[_Node, ...]
    oldest: OpenTool


class _Leaf(NamedTuple):
    tools: tuple[OpenTool, ...]
    oldest: OpenTool | None


_Node: TypeAlias = _Branch | _Leaf
_EMPTY: Final = _Leaf((), None)


@dataclass(frozen=True, slots=True, eq=False)
class OpenTools:
    """See the laws. `total` counts every tool, also those that share name and time."""

    root: _Node = _EMPTY
    total: int = 0

    def get(self, id: str) -> OpenTool | None:
        """The open tool with this id."""
        return _find(self.root, id, hash(id))

    @property
    def oldest(self) -> OpenTool | None:
        """The tool that runs longest."""
        return self.root.oldest

    def opened(self, tool: OpenTool) -> OpenTools:
        """With one more tool. One that was open keeps its time; a name that was missing is filled in."""
        known = _find(self.root, tool.key, hash(tool.key))
        if known is None:
            return OpenTools(_put(self.root, tool, hash(tool.key), 0), self.total + 1)
        if not tool.id:
            more = known._replace(copies=known.copies + 1)
            return OpenTools(_put(self.root, more, hash(more.key), 0), self.total + 1)
        if known.name or not tool.name:
            return self
        return OpenTools(_put(self.root, known._replace(name=tool.name), hash(tool.id), 0), self.total)

    def closed(self, tool: OpenTool) -> OpenTools:
        """Without this tool, which must be open; of several that share name and time, without one."""
        if tool.copies > 1:
            return OpenTools(_put(self.root, tool._replace(copies=tool.copies - 1), hash(tool.key), 0), self.total - 1)
        return OpenTools(_drop(self.root, tool.key, hash(tool.key), 0), self.total - 1)

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[OpenTool]:
        """Every open tool, oldest first."""
        return iter(sorted(_walk(self.root)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpenTools):
            return NotImplemented
        return self is other or (self.total == other.total and set(_walk(self.root)) == set(_walk(other.root)))

    def __hash__(self) -> int:
        return hash(frozenset(_walk(self.root)))

    def __repr__(self) -> str:
        return f"OpenTools({', '.join(map(repr, self))})"


NO_TOOLS: Final = OpenTools()


def _slot(hashed: int, depth: int) -> int:
    return (hashed >> depth * _BITS) & (_WIDTH - 1)


def _find(node: _Node, key: Key, hashed: int) -> OpenTool | None:
    depth = 0
    while isinstance(node, _Branch):
        node, depth = node.children[_slot(hashed, depth)], depth + 1
    return next((tool for tool in node.tools if tool.key == key), None)


def _put(node: _Node, tool: OpenTool, hashed: int, depth: int) -> _Node:
    """With `tool` in the place of the one of the same key."""
    if isinstance(node, _Branch):
        at = _slot(hashed, depth)
        return _with_child(node, at, _put(node.children[at], tool, hashed, depth + 1))
    tools = (*(one for one in node.tools if one.key != tool.key), tool)
    if len(tools) <= _LEAF_MAX or depth * _BITS >= _HASH_BITS:
        return _Leaf(tools, min(tools))
    branch: _Node = _Branch((_EMPTY,) * _WIDTH, tool)
    for one in tools:
        branch = _put(branch, one, hash(one.key), depth)
    return branch


def _drop(node: _Node, key: Key, hashed: int, depth: int) -> _Node:
    """Without the tool of this key. A branch that has none left becomes a leaf again."""
    if isinstance(node, _Branch):
        at = _slot(hashed, depth)
        return _with_child(node, at, _drop(node.children[at], key, hashed, depth + 1))
    tools = tuple(one for one in node.tools if one.key != key)
    return _Leaf(tools, min(tools)) if tools else _EMPTY


def _with_child(node: _Branch, at: int, child: _Node) -> _Node:
    children = (*node.children[:at], child, *node.children[at + 1 :])
    ages = [one.oldest for one in children if one.oldest is not None]
    return _Branch(children, min(ages)) if ages else _EMPTY


def _walk(node: _Node) -> Iterator[OpenTool]:
    if isinstance(node, _Leaf):
        yield from node.tools
        return
    for child in node.children:
        yield from _walk(child)
