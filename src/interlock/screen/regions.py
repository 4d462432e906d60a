"""Where things stand on a screen: a region is a range of rows, found by the chrome around it.

A profile names its regions; each is one of these:
- *block* (`start`, with `top` and `bottom`): the lowest run of rows whose first row matches `start`. `top` must match
  the row right above it and `bottom` ends it; neither border belongs to it. `requires_below` must match some row below
  it, and `forbids_below` none: what looks alike further up in the transcript has other things below it.
- *from* (`from`): the lowest row that matches, and all below it (or up to `above`).
- *above*, *below*: the rows on that side of another region; `rows` bounds how many that are not blank.
- *last* (`last`): the last rows of the screen that are not blank.
Where its chrome is not there, or the region it hangs on, a region is missing, which a rule may ask for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from interlock.screen.snapshot import Row

Rows: TypeAlias = tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RegionSpec:
    """How to find one region. Which fields are set says which kind it is; `profile.py` checks that it is one."""

    name: str
    start: re.Pattern[str] | None = None
    top: re.Pattern[str] | None = None
    bottom: re.Pattern[str] | None = None
    requires_below: re.Pattern[str] | None = None
    forbids_below: re.Pattern[str] | None = None
    from_: re.Pattern[str] | None = None
    above: str | None = None
    below: str | None = None
    stop: re.Pattern[str] | None = None
    rows: int | None = None
    last: int | None = None
    max_rows: int = 60

    @property
    def hangs_on(self) -> str | None:
        return self.above or self.below


SCREEN = RegionSpec("screen")


class Located:
    """The regions of one screen, each looked for when it is first asked for."""

    __slots__ = ("_found", "_specs", "rows")

    def __init__(self, rows: Rows, specs: Mapping[str, RegionSpec]) -> None:
        self.rows = rows
        self._specs = specs
        self._found: dict[str, range | None] = {SCREEN.name: range(len(rows))}

    def __getitem__(self, name: str) -> range | None:
        if name not in self._found:
            self._found[name] = self._locate(self._specs[name])
        return self._found[name]

    def _locate(self, spec: RegionSpec) -> range | None:
        within = self._within(spec)
        if within is None:
            return None
        if spec.start is not None:
            return _block(self.rows, within, spec)
        if spec.from_ is not None:
            return _from(self.rows, within, spec.from_)
        if spec.last is not None:
            return _nearest(self.rows, within, spec.last, upward=True)
        return _bounded(self.rows, within, spec)

    def _within(self, spec: RegionSpec) -> range | None:
        """The rows in which to look: the whole screen, or one side of another region."""
        if spec.hangs_on is None:
            return range(len(self.rows))
        other = self[spec.hangs_on]
        if other is None:
            return None
        return range(other.start) if spec.above else range(other.stop, len(self.rows))


def _block(rows: Rows, within: range, spec: RegionSpec) -> range | None:
    for at in reversed(within):
        if spec.start and spec.start.search(rows[at].text) and (found := _block_at(rows, within, at, spec)):
            return found
    return None


def _block_at(rows: Rows, within: range, at: int, spec: RegionSpec) -> range | None:
    if spec.top and (at == within.start or not spec.top.search(rows[at - 1].text)):
        return None
    end = _end_of_block(rows, range(at + 1, min(within.stop, at + spec.max_rows + 1)), spec)
    if end is None:
        return None
    below = rows[end : within.stop]
    if spec.requires_below and not any(spec.requires_below.search(row.text) for row in below):
        return None
    # The row that ends it is its own border.
    if spec.forbids_below and any(spec.forbids_below.search(row.text) for row in below[bool(spec.bottom) :]):
        return None
    return range(at, end)


def _end_of_block(rows: Rows, candidates: range, spec: RegionSpec) -> int | None:
    if spec.bottom is None:
        return candidates.start
    return next((number for number in candidates if spec.bottom.search(rows[number].text)), None)


def _from(rows: Rows, within: range, pattern: re.Pattern[str]) -> range | None:
    found = next((number for number in reversed(within) if pattern.search(rows[number].text)), None)
    return None if found is None else range(found, within.stop)


def _bounded(rows: Rows, within: range, spec: RegionSpec) -> range:
    """The rows of one side that are near the other region: up to `rows` of them, and not beyond `stop`."""
    upward = spec.above is not None
    if spec.rows is not None:
        within = _nearest(rows, within, spec.rows, upward=upward)
    if spec.stop is None:
        return within
    for number in reversed(within) if upward else within:
        if spec.stop.search(rows[number].text):
            return range(number + 1, within.stop) if upward else range(within.start, number)
    return within


def _nearest(rows: Rows, within: range, count: int, *, upward: bool) -> range:
    left = count
    for number in reversed(within) if upward else within:
        if not rows[number].text:
            continue
        if left == 0:
            return range(number + 1, within.stop) if upward else range(within.start, number)
        left -= 1
    return within
