"""The tables `[pace]`, `[keys]` and `[arguments]` of a profile, and `[[override]]`, which changes them by version.

A key that a table leaves out keeps the value that it has without the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from interlock.screen.conditions import Condition, ConditionTable, ProfilePart
from interlock.screen.keys import KEY_NAME, MODEL, SESSION, Arguments, Keys, KeyStep
from interlock.screen.profile import BrokenProfile, Override, Pace, Versions

Seconds = Annotated[float, Meta(ge=0, le=600)]
Wait = Annotated[float, Meta(gt=0, le=60)]
_MAX_STEPS = 8


class PaceTable(ProfilePart, frozen=True):
    idle_hold_seconds: Seconds | UnsetType = UNSET
    weak_idle_hold_seconds: Seconds | UnsetType = UNSET
    submit_grace_seconds: Seconds | UnsetType = UNSET
    answer_grace_seconds: Seconds | UnsetType = UNSET
    submit_pause_seconds: Seconds | UnsetType = UNSET


CompileConditions: TypeAlias = Callable[[Sequence[ConditionTable], str], tuple[Condition, ...]]


class KeyStepTable(ProfilePart, frozen=True):
    press: str
    when: tuple[ConditionTable, ...] | UnsetType = UNSET
    shows: tuple[ConditionTable, ...] | UnsetType = UNSET
    within_seconds: Wait = KeyStep("x").within_seconds
    pause_seconds: Wait | UnsetType = UNSET


class KeysTable(ProfilePart, frozen=True):
    submit: str | UnsetType = UNSET
    interrupt: tuple[str | KeyStepTable, ...] | UnsetType = UNSET
    quit: tuple[str | KeyStepTable, ...] | UnsetType = UNSET


class ArgumentsTable(ProfilePart, frozen=True):
    resume: tuple[str, ...] = ()
    model: tuple[str, ...] = ()


class VersionsTable(ProfilePart, frozen=True):
    start: str | None = msgspec.field(name="from", default=None)
    before: str | None = None


class OverrideTable(ProfilePart, frozen=True):
    versions: VersionsTable
    pace: PaceTable = PaceTable()
    keys: KeysTable = KeysTable()


def compile_pace(table: PaceTable, base: Pace) -> Pace:
    return replace(base, **_given(table))


def compile_keys(table: KeysTable, base: Keys, conditions: CompileConditions, path: str) -> Keys:
    if table.submit is not UNSET:
        base = replace(base, submit=_key(table.submit, f"{path}.submit"))
    if table.interrupt is not UNSET:
        if not table.interrupt:
            raise BrokenProfile(f"{path}.interrupt", '`interrupt` names no key; name one, such as ["Escape"]')
        base = replace(base, interrupt=_steps(table.interrupt, conditions, f"{path}.interrupt"))
    if table.quit is not UNSET:
        base = replace(base, quit=_steps(table.quit, conditions, f"{path}.quit"))
    return base


def compile_arguments(table: ArgumentsTable, path: str) -> Arguments:
    for name, words, blank in (("resume", table.resume, SESSION), ("model", table.model, MODEL)):
        if words and not any(blank in word for word in words):
            raise BrokenProfile(f"{path}.{name}", f"`{name}` needs {blank} in one of its words, where the value goes")
    return Arguments(table.resume, table.model)


def compile_override(
    table: OverrideTable, versions: Versions, pace: Pace, keys: Keys, conditions: CompileConditions, number: int
) -> Override:
    path = f".override[{number}]"
    if versions == Versions():
        raise BrokenProfile(f"{path}.versions", "`versions` of an override needs `from` or `before`")
    return Override(
        versions, compile_pace(table.pace, pace), compile_keys(table.keys, keys, conditions, f"{path}.keys")
    )


def _given(table: Struct) -> dict[str, Any]:
    values = ((name, getattr(table, name)) for name in table.__struct_fields__)
    return {name: value for name, value in values if value is not UNSET}


def _steps(tables: Sequence[str | KeyStepTable], conditions: CompileConditions, path: str) -> tuple[KeyStep, ...]:
    if len(tables) > _MAX_STEPS:
        raise BrokenProfile(path, f"`{path.rpartition('.')[2]}` has {len(tables)} steps, and {_MAX_STEPS} are allowed")
    return tuple(_step(table, conditions, f"{path}[{number}]") for number, table in enumerate(tables))


def _step(table: str | KeyStepTable, conditions: CompileConditions, path: str) -> KeyStep:
    if isinstance(table, str):
        return KeyStep(_key(table, path))
    return KeyStep(
        press=_key(table.press, f"{path}.press"),
        when=() if table.when is UNSET else conditions(table.when, f"{path}.when"),
        shows=() if table.shows is UNSET else conditions(table.shows, f"{path}.shows"),
        within_seconds=table.within_seconds,
        pause_seconds=0.0 if table.pause_seconds is UNSET else table.pause_seconds,
    )


def _key(name: str, path: str) -> str:
    if KEY_NAME.fullmatch(name) is None:
        raise BrokenProfile(path, f"{name!r} is no key; name it as tmux does: Escape, Enter, C-c, y")
    return name
