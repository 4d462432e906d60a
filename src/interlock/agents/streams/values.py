"""Reading JSON of which nothing is certain: each function gives a value of the type asked for, or its blank."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from interlock.agents import foreign_json
from interlock.agents.processes.lines import Line
from interlock.vocabulary.registry import Json

Fields = dict[str, Json]

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def fields_of(line: Line) -> Fields | None:
    """The JSON object on a line; None for anything else, and for a line that is not all there."""
    if not line.is_whole or line.is_cut:
        return None
    try:
        read = msgspec.json.decode(line.data)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def text(of: Fields, name: str) -> str:
    """The string by this name; blank where there is none."""
    found = of.get(name)
    return found if isinstance(found, str) else ""


def inner(of: Fields, name: str) -> Fields:
    """The object by this name; an empty one where there is none."""
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def members(of: Fields, name: str) -> list[Json]:
    """The list by this name; an empty one where there is none."""
    found = of.get(name)
    return found if isinstance(found, list) else []


def count(of: Fields, name: str) -> int | None:
    """The count by this name; None for what is no count."""
    return foreign_json.count(of.get(name))


def snake(word: str) -> str:
    """`commandExecution` as `command_execution`: the two interfaces of Codex differ in this only."""
    return _HUMP.sub("_", word).lower()
