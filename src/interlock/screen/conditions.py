"""What a rule may ask of a screen. All conditions of a rule must hold; each names the rows that it read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from msgspec import Struct

from interlock.screen.regions import Located
from interlock.screen.snapshot import Row, Snapshot, Style

Rows: TypeAlias = tuple[int, ...]
NO_ROWS: Final[Rows] = ()


@dataclass(frozen=True, slots=True)
class StyleSpec:
    """What a style must be; None is not asked. A colour may be one of several; "default" is the terminal's own."""

    fg: tuple[str, ...] | None = None
    bg: tuple[str, ...] | None = None
    bold: bool | None = None
    dim: bool | None = None
    italic: bool | None = None
    underline: bool | None = None
    reverse: bool | None = None

    def fits(self, style: Style) -> bool:
        if self.fg is not None and (style.fg or "default") not in self.fg:
            return False
        if self.bg is not None and (style.bg or "default") not in self.bg:
            return False
        asked = (self.bold, self.dim, self.italic, self.underline, self.reverse)
        return all(want is None or want is has for want, has in zip(asked, style[2:], strict=True))


@dataclass(frozen=True, slots=True)
class RowMatches:
    """Some row of the region matches; with a style, the first character of what matched has it.

    `is_absent` turns it round: no row does.
    """

    region: str
    pattern: re.Pattern[str]
    style: StyleSpec | None = None
    is_absent: bool = False


@dataclass(frozen=True, slots=True)
class RegionStands:
    """The region is there, or is missing."""

    region: str
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class TitleMatches:
    pattern: re.Pattern[str]
    is_absent: bool = False


@dataclass(frozen=True, slots=True)
class CommandMatches:
    """The program in the foreground of the pane. Holds for no pattern where nobody told which it is."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class CursorIs:
    """Shown or hidden, and perhaps in a region. What nobody told holds for neither."""

    is_visible: bool | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True)
class DraftIs:
    """A draft stands in the composer, or none does. A composer that is not there holds for neither."""

    is_empty: bool


Condition: TypeAlias = RowMatches | RegionStands | TitleMatches | CommandMatches | CursorIs | DraftIs


@dataclass(frozen=True, slots=True)
class ScreenScene:
    """One screen, as conditions see it."""

    snapshot: Snapshot
    located: Located
    draft: str | None


def check(condition: Condition, scene: ScreenScene) -> Rows | None:
    """The rows that the condition rests on, or None where it does not hold."""
    match condition:
        case RowMatches():
            return _check_rows(condition, scene)
        case RegionStands(region, is_missing):
            return _held((scene.located[region] is None) is is_missing)
        case TitleMatches(pattern, is_absent):
            return _held(bool(pattern.search(scene.snapshot.title)) is not is_absent)
        case CommandMatches(pattern):
            command = scene.snapshot.command
            return _held(command is not None and bool(pattern.search(command)))
        case CursorIs():
            return _check_cursor(condition, scene)
        case DraftIs(is_empty):
            return _held(scene.draft is not None and (scene.draft == "") is is_empty)
        case _:
            assert_never(condition)


def _held(holds: bool) -> Rows | None:
    return NO_ROWS if holds else None


def _check_rows(asked: RowMatches, scene: ScreenScene) -> Rows | None:
    found = rows_matching(asked, scene.located)
    if asked.is_absent:
        return _held(not found)
    return found or None


def rows_matching(asked: RowMatches, located: Located) -> Rows:
    """The numbers of the rows of its region that match; none where the region is missing."""
    return tuple([number for number in located[asked.region] or () if _matches(asked, located.rows[number])])


def _matches(asked: RowMatches, row: Row) -> bool:
    found = asked.pattern.search(row.text)
    if found is None:
        return False
    return asked.style is None or asked.style.fits(row.style_at(found.start()))


def _check_cursor(asked: CursorIs, scene: ScreenScene) -> Rows | None:
    if asked.is_visible is not None and scene.snapshot.cursor_visible is not asked.is_visible:
        return None
    if asked.region is None:
        return NO_ROWS
    region, cursor = scene.located[asked.region], scene.snapshot.cursor
    return (cursor[1],) if region is not None and cursor is not None and cursor[1] in region else None


# The tables of styles and conditions, in which rules, endings and key steps of a profile are written.


class ProfilePart(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a profile. A key that it does not know is refused."""


class StyleTable(ProfilePart, frozen=True):
    fg: str | tuple[str, ...] | None = None
    bg: str | tuple[str, ...] | None = None
    bold: bool | None = None
    dim: bool | None = None
    italic: bool | None = None
    underline: bool | None = None
    reverse: bool | None = None


class ConditionTable(ProfilePart, frozen=True):
    region: str | None = None
    match: str | None = None
    absent: str | None = None
    style: StyleTable | None = None
    present: str | None = None
    missing: str | None = None
    title: str | None = None
    title_absent: str | None = None
    command: str | None = None
    cursor: str | None = None
    cursor_in: str | None = None
    draft: bool | None = None
