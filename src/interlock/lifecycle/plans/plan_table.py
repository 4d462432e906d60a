"""Reads one table of a plan: each value has its type, or a problem says what was expected.

A value with a problem is read as its default, so that the rest of the plan is looked at too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.lifecycle.children.subagent import MAX_TIMEOUT_MS
from interlock.lifecycle.children.workflow_plan import PlanProblem

MAX_ITEMS: Final = 200
MAX_PATHS: Final = 20
_SHOWN: Final = 80
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_DURATION: Final = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
# Escapes of TOML can spell them. No argument of a program may hold a NUL, and no file or terminal a lone surrogate.
_UNPRINTED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def is_name(value: object) -> bool:
    """Whether a step, a parameter or an output may be called so. Templates and items of `for_each` use `.` and `:`."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def is_plain(text: str) -> bool:
    """Whether a text holds only characters that print, tabs and line ends."""
    return _UNPRINTED.search(text) is None


def shown(value: object) -> str:
    """A value as a message names it, never long."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(slots=True)
class PlanTable:
    """One table, the name that messages give it, and the problems of the whole plan so far."""

    name: str
    values: Mapping[str, object]
    problems: list[PlanProblem]

    def problem(self, message: str, remedy: str) -> None:
        self.problems.append(PlanProblem(f"{self.name} {message}", remedy))

    def wrong(self, key: str, expected: str) -> None:
        self.problem(f"has {key} = {shown(self.values.get(key))}", f"{key}: write {expected}")

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Name every key that means nothing here."""
        for key in sorted(self.values.keys() - set(known)):
            self.problem(f"has the unknown key {shown(key)}", f"the keys of {self.name} are {', '.join(known)}")

    def refuse_unsupported(self, remedies: Mapping[str, str]) -> None:
        """Name every key that the format has and this version cannot keep."""
        for key in sorted(self.values.keys() & remedies.keys()):
            self.problem(f"uses `{key}`, which is not supported yet", remedies[key])

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            self.wrong(key, "text")
            return default
        if not is_plain(value):
            self.wrong(key, "text without control characters")
            return default
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.wrong(key, "true or false")
            return default
        return value

    def number(self, key: str, default: int, highest: int) -> int:
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= highest:
            self.wrong(key, f"a whole number from 1 to {highest}")
            return default
        return value

    def amount(self, key: str, highest: float) -> float | None:
        """A positive number; None where there is none."""
        if key not in self.values:
            return None
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= highest:
            self.wrong(key, f"a number above 0, at most {highest:g}")
            return None
        return float(value)

    def duration_ms(self, key: str) -> int | None:
        """A time such as "90s", "10m" or "1h30m"; None where there is none."""
        if key not in self.values:
            return None
        value = self.values[key]
        found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
        if found is not None:
            hours, minutes, seconds = (int(part or 0) for part in found.groups())
            time_ms = ((hours * 60 + minutes) * 60 + seconds) * 1000
            if 1 <= time_ms <= MAX_TIMEOUT_MS:
                return time_ms
        self.wrong(key, 'a time such as "90s", "10m" or "1h30m", at most a year')
        return None

    def texts(self, key: str, most: int = MAX_ITEMS) -> tuple[str, ...]:
        value = self.values.get(key, [])
        read = texts_of(value, most)
        if read is None:
            self.wrong(key, f"a list of texts, at most {most}")
        return read or ()

    def commands(self, key: str) -> tuple[tuple[str, ...], ...]:
        """A list of commands, each a list of a program and its arguments."""
        value = self.values.get(key, [])
        read = [texts_of(one, MAX_ITEMS) for one in value] if isinstance(value, list) else [None]
        if len(read) > MAX_PATHS or not all(read):
            self.wrong(key, f'at most {MAX_PATHS} commands, each a list of words, as in [["make", "test"]]')
            return ()
        return tuple(one for one in read if one)

    def command(self, key: str) -> tuple[str, ...]:
        read = texts_of(self.values.get(key, []), MAX_ITEMS)
        if not read:
            self.wrong(key, 'one command as a list of words, as in ["make", "test"]; no shell reads it')
        return read or ()

    def tables(self, key: str) -> tuple[tuple[str, Mapping[str, object]], ...]:
        """The tables below a key, by their names."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.wrong(key, f"a table for each, as in {key}.NAME = {{ ... }}")
            return ()
        for name, one in value.items():
            if not isinstance(one, dict):
                self.problem(f"has {key}.{shown(name)} = {shown(one)}", "write a table: { type = ... }")
            elif not is_name(name):
                self.problem(f"names one of its {key} {shown(name)}", "use letters, digits, _ and - in names")
        return tuple((name, one) for name, one in value.items() if isinstance(one, dict) and is_name(name))


def texts_of(value: object, most: int) -> tuple[str, ...] | None:
    """A list of texts, none of them blank; None for anything else."""
    if not isinstance(value, list) or len(value) > most:
        return None
    read = tuple(one for one in value if isinstance(one, str) and one and is_plain(one))
    return read if len(read) == len(value) else None
