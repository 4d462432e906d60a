"""From TOML and variables to values that were checked, each with where it came from. Pure.

Laws:
1. A value that stands was checked by the type of its key. What is wrong is said with the key's full name, what was
   expected there, and the nearest known key; nothing wrong is ever left out or corrected in silence.
2. Variables win over the file, the file over defaults.
3. A line is named only where cutting the file there shows that the key stands in it.
4. No message repeats a value: it may be a secret.
"""

from __future__ import annotations

import shlex
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from enum import StrEnum
from typing import Final

import msgspec

from interlock.runtime.config.keys import (
    ConfigKey,
    Path,
    Table,
    dotted,
    expected,
    is_optional,
    known_keys,
    nearest,
    node_of,
    table_of,
    unwrapped,
    variable_of,
    variables,
)
from interlock.runtime.config.sections import BUILTIN_AGENTS, OFF, Config

_AGENTS: Final = variable_of(("agents", ""))
_PROGRAM: Final = "_ARGV"
_NEW_AGENT: Final = f" (a new agent is made by {_AGENTS}NAME{_PROGRAM}, or in the file by [agents.NAME])"


class Source(StrEnum):
    """Where a value came from."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Value:
    """A value that was checked. `where` is the variable that it came by."""

    value: object
    source: Source
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """What is wrong with one key. `near` is a known one that was perhaps meant."""

    key: str
    expected: str
    found: str = ""
    near: str = ""
    line: int | None = None
    variable: str = ""


@dataclass(slots=True)
class ConfigReading:
    """What was read so far."""

    values: dict[Path, Value] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    agents: list[str] = field(default_factory=lambda: list(BUILTIN_AGENTS))


class _Wrong(Exception):
    """A value that its key does not take."""


def read(text: str, environ: Mapping[str, str]) -> ConfigReading:
    """Read a file's text and the variables. What is wrong is in `mistakes`; the rest was understood."""
    reading = ConfigReading()
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reading.mistakes.append(_syntax(str(error)))
        tree = {}
    _read_table(reading, table_of(Config), tree, text)
    _read_variables(reading, environ)
    return reading


def line_of(text: str, path: Path) -> int | None:
    """The line on which a key stands; None where that cannot be shown."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if path[-1] in line and not _stands(lines[: number - 1], path) and _stands(lines[:number], path):
            return number
    return None


def _stands(lines: list[str], path: Path) -> bool:
    try:
        place: object = tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    for word in path:
        if not isinstance(place, dict) or word not in place:
            return False
        place = place[word]
    return True


def _syntax(said: str) -> Mistake:
    reason, _, where = said.partition(" (at line ")
    number = where.partition(",")[0]
    return Mistake(key="", expected=f"TOML ({reason})", line=int(number) if number.isdecimal() else None)


def _read_table(reading: ConfigReading, table: Table, tree: Mapping[str, object], text: str) -> None:
    for name, given in tree.items():
        path = (*table.path, name)
        try:
            _read_member(reading, _member(table, name), given, text)
        except KeyError:
            reading.mistakes.append(_unknown(table, path, line_of(text, path)))


def _read_member(reading: ConfigReading, member: ConfigKey | Table, given: object, text: str) -> None:
    if isinstance(member, Table) and isinstance(given, dict):
        if member.path[:-1] == ("agents",) and member.path[-1] not in reading.agents:
            reading.agents.append(member.path[-1])
        _read_table(reading, member, given, text)
        return
    try:
        if isinstance(member, Table):
            raise _Wrong
        reading.values[member.path] = Value(_checked(member.kind, given), Source.FILE)
    except _Wrong:
        line = line_of(text, member.path)
        reading.mistakes.append(
            Mistake(key=dotted(member.path), expected=_wanted(member), found=_found(given, _wanted(member)), line=line)
        )


def _wanted(member: ConfigKey | Table) -> str:
    return "a table" if isinstance(member, Table) else expected(member.kind)


def _member(table: Table, name: str) -> ConfigKey | Table:
    """What stands under a name. `KeyError` where nothing may."""
    if table.entry is None:
        return table.members[name]
    try:
        msgspec.convert(name, table.name_kind)
    except msgspec.ValidationError as error:
        raise KeyError(name) from error
    return node_of(table.entry, (*table.path, name))


def _unknown(table: Table, path: Path, line: int | None) -> Mistake:
    if table.entry is not None:
        return Mistake(key=dotted(path), expected=f"a name: {expected(table.name_kind)}", line=line)
    near = nearest(path[-1], table.members)
    if not near:  # perhaps in another table
        known = {key.path[-1]: dotted(key.path) for key in known_keys(table_of(Config))}
        near = known.get(nearest(path[-1], known), "")
    else:
        near = dotted((*table.path, near))
    known_here = ", ".join(table.members)
    return Mistake(key=dotted(path), expected=f"one of {known_here}", found="an unknown key", near=near, line=line)


def _read_variables(reading: ConfigReading, environ: Mapping[str, str]) -> None:
    reading.agents += _new_agents(reading.agents, environ)
    known = variables(reading.agents)
    sections = tuple(f"INTERLOCK_{name.upper()}_" for name in table_of(Config).members)
    for variable, text in sorted(environ.items()):
        if not variable.startswith(sections):
            continue
        key = known.get(variable)
        if key is None:
            near = nearest(variable, known)
            is_agent = variable.startswith(_AGENTS)
            wanted = f"the variable of a key{_NEW_AGENT if is_agent else ''}"
            mistake = Mistake(key=variable, expected=wanted, found="an unknown one", near=near, variable=variable)
            reading.mistakes.append(mistake)
            continue
        try:
            _set(reading, key, text, variable)
        except _Wrong:
            mistake = Mistake(
                key=dotted(key.path), expected=_wanted(key), found="a text that does not fit", variable=variable
            )
            reading.mistakes.append(mistake)


def _new_agents(known: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The agents that variables alone describe: those whose program one of them names. Any other key alone would take a
    misspelt name for a new agent."""
    taken, table, found = variables(known), table_of(Config).members["agents"], list[str]()
    assert isinstance(table, Table), "agents have tables"
    for variable in sorted(environ):
        if variable.startswith(_AGENTS) and variable.endswith(_PROGRAM) and variable not in taken:
            stem = variable.removeprefix(_AGENTS).removesuffix(_PROGRAM).removesuffix("_ACP")
            name = stem.lower().replace("_", "-")
            found += [name] if _is_name(name, table) and name not in found else []
    return found


def _is_name(word: str, table: Table) -> bool:
    try:
        msgspec.convert(word, table.name_kind)
    except msgspec.ValidationError:
        return False
    return True


def _set(reading: ConfigReading, key: ConfigKey | Table, text: str, variable: str) -> None:
    if isinstance(key, ConfigKey):
        given = _spelled(key.kind, text)
        reading.values[key.path] = Value(_checked(key.kind, given), Source.ENVIRONMENT, variable)
        return
    entries = _toml(text)
    if not isinstance(entries, dict):
        raise _Wrong
    for name in entries:
        _checked(key.name_kind, name)
    added = {(*key.path, name): _checked(key.entry, given) for name, given in entries.items()}
    for path in [path for path in reading.values if path[: len(key.path)] == key.path]:
        del reading.values[path]
    reading.values |= {path: Value(given, Source.ENVIRONMENT, variable) for path, given in added.items()}


def _spelled(kind: object, text: str) -> object:
    """The value that the text of a variable stands for. Strings need no quotes there, and lists no brackets."""
    plain, _ = unwrapped(kind)
    if is_optional(plain):
        if text.strip() == OFF:
            return OFF
        (plain,) = (one for one in typing.get_args(plain) if one is not types.NoneType)
        plain, _ = unwrapped(plain)
    if typing.get_origin(plain) is tuple:
        return _toml(text) if text.lstrip().startswith("[") else _words(text)
    if plain in (bool, int, float):
        return {"1": True, "0": False}.get(text.strip(), _toml(text)) if plain is bool else _toml(text)
    return text


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise _Wrong from error


def _toml(text: str) -> object:
    try:
        found = tomllib.loads(f"value = {text.strip()}")
    except tomllib.TOMLDecodeError as error:
        raise _Wrong from error
    if list(found) != ["value"]:  # a text of several lines, with keys of its own
        raise _Wrong
    return found["value"]


def _checked(kind: object, given: object) -> object:
    if isinstance(given, str) and given == OFF and is_optional(kind):
        return None
    if not _is_plain(given):
        raise _Wrong
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _Wrong from error


def _is_plain(given: object) -> bool:
    """Whether JSON has such values too: no moments, and no numbers that are none."""
    if isinstance(given, dict):
        return all(map(_is_plain, given.values()))
    if isinstance(given, list):
        return all(map(_is_plain, given))
    if isinstance(given, float):
        return abs(given) < float("inf")
    return not isinstance(given, date | time)


def _found(given: object, wanted: str) -> str:
    """What stands there, without repeating it."""
    kinds = {bool: "true or false", dict: "a table", list: "a list that does not fit", str: "a string"}
    found = {**kinds, int: "a whole number", float: "a number"}.get(type(given), "a moment")
    if type(given) not in (int, float) or "number" not in wanted:
        return found
    is_whole = isinstance(given, int) or "whole" not in wanted
    return f"{found} out of range" if is_whole else f"{found} that is not whole"
