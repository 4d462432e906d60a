"""The tables of styles and conditions, in which rules, endings and key steps of a profile are written."""

from __future__ import annotations

from msgspec import Struct


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
