"""The options of a dialog, as data. A caller chooses by text; which key or number stands for it is looked up here."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from interlock.screen.assessment import Option
from interlock.screen.profile import OptionsSpec
from interlock.screen.snapshot import Row

_MAX_OPTIONS: Final = 50


def read_options(spec: OptionsSpec, rows: tuple[Row, ...], region: range) -> tuple[Option, ...]:
    """The options in a region, in the order in which they stand."""
    return tuple(option for _, option in _placed(spec, rows, region))[:_MAX_OPTIONS]


def first_option_row(spec: OptionsSpec, rows: tuple[Row, ...], region: range) -> int | None:
    """Where the options of a region begin; None where there are none."""
    return next((number for number, _ in _placed(spec, rows, region)), None)


def _placed(spec: OptionsSpec, rows: tuple[Row, ...], region: range) -> list[tuple[int, Option]]:
    placed: list[tuple[int, Option]] = []
    for number in region:
        row = rows[number]
        found = _options_of(spec, row)
        if found:
            placed += ((number, option) for option in found)
        elif placed and spec.continued and (more := spec.continued.search(row.text)):
            at, option = placed[-1]
            placed[-1] = at, replace(option, text=f"{option.text} {more['text'].strip()}")
        elif spec.is_unbroken and row.text.strip() and not any(option.is_selected for _, option in placed):
            placed.clear()  # words that only stand where options do: the list holds the selected one
    return placed


def unselected(spec: OptionsSpec, text: str) -> str:
    """The row without the mark of a selected option."""
    found = spec.pattern.search(text)
    if found is None or not found.groupdict().get("selected"):
        return text
    return text[: found.start("selected")] + text[found.end("selected") :]


def _options_of(spec: OptionsSpec, row: Row) -> list[Option]:
    if spec.separator is None:
        found = spec.pattern.search(row.text)
        return [_option(spec, row, found, 0)] if found else []
    options, start = [], 0
    for part in [*(piece.span() for piece in spec.separator.finditer(row.text)), (len(row.text), len(row.text))]:
        text = row.text[start : part[0]]
        found = spec.pattern.search(text)
        if found and text.strip():
            options.append(_option(spec, row, found, start))
        start = part[1]
    return options


def _option(spec: OptionsSpec, row: Row, found: re.Match[str], offset: int) -> Option:
    groups = found.groupdict()
    column = offset + found.start("text")
    is_marked = bool((groups.get("selected") or "").strip())
    is_styled = spec.selected is not None and spec.selected.fits(row.style_at(column))
    text = spec.strip.sub("", found["text"]) if spec.strip else found["text"]
    return Option(text.strip(), is_marked or is_styled, groups.get("key"))
