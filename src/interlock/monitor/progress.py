"""Progress: when a watched agent was last seen to get on, and by what.

Laws:
1. A row above the composer that was not seen before is new text, which is progress. What a profile masks (a spinner, an
   elapsed counter, a tip) is none, nor is a row that comes back, what is typed, and what stands below the composer.
2. A figure that the profile names, such as the tokens that a model wrote, is progress where its value is new.
3. A hook that fired is progress. So is a native file that says something else than before. A native status is none: any
   output can be one.
4. A look, a timer and a change of what we believe are none: they tell of us, and not of the agent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple

from interlock.monitor.arbitration.claims import Claim
from interlock.screen.projection import DialogProjection
from interlock.vocabulary.evidence import EvidenceSource

# A turn that wrote more rows than this knows only those of its last screens.
_KEPT_ROWS: Final = 1024
_Told = tuple[object, ...]


class AgentProgress(NamedTuple):
    """A sign that the agent got on: when it was seen, and what it was."""

    at_seconds: float
    source: EvidenceSource
    rule: str


@dataclass(frozen=True, slots=True)
class ProgressState:
    """What was seen so far. `last` is None before anything was."""

    last: AgentProgress | None = None
    key: str = ""
    figures: tuple[str, ...] = ()
    rows: frozenset[str] = frozenset()
    told: Mapping[EvidenceSource, _Told] = field(default_factory=dict)


def begin(state: ProgressState, projection: DialogProjection | None, now: float, rule: str) -> ProgressState:
    """A turn begins: what stands on the screen then is no work of it."""
    rows = frozenset() if projection is None else _text_rows(projection)
    key = "" if projection is None else projection.key
    return replace(state, last=AgentProgress(now, EvidenceSource.OPERATOR, rule), key=key, figures=(), rows=rows)


def see(
    state: ProgressState, projection: DialogProjection, figures: tuple[re.Pattern[str], ...], now: float
) -> ProgressState:
    """Take in a screen. `figures` are those of its profile."""
    found = _figures(projection, figures) if figures else ()
    if projection.key == state.key and found == state.figures:
        return state
    rows = _text_rows(projection) if projection.key != state.key else frozenset()
    is_new_text, is_new_figure = not rows <= state.rows, not state.rows.issuperset(found)
    last = state.last
    if is_new_text or is_new_figure:
        last = AgentProgress(now, EvidenceSource.SCREEN, "screen.new_text" if is_new_text else "screen.new_tokens")
    known = state.rows.union(rows, found)
    if len(known) > _KEPT_ROWS:
        known = rows.union(found)
    return replace(state, last=last, key=projection.key, figures=found, rows=known)


def hear(state: ProgressState, claim: Claim, now: float) -> ProgressState:
    """Take in what another source says."""
    if claim.rung is EvidenceSource.HOOK:
        return replace(state, last=AgentProgress(now, claim.rung, claim.rule))
    if claim.rung is not EvidenceSource.NATIVE_FILE:
        return state
    said = (claim.activity, claim.attention, claim.children, claim.withdraws)
    if state.told.get(claim.rung) == said:
        return state
    return replace(state, last=AgentProgress(now, claim.rung, claim.rule), told={**state.told, claim.rung: said})


def _above_composer(projection: DialogProjection) -> int:
    return min(projection.composer_rows, default=len(projection.rows))


def _text_rows(projection: DialogProjection) -> frozenset[str]:
    return frozenset(row for row in projection.rows[: _above_composer(projection)] if _has_text(row))


@lru_cache(maxsize=4096)
def _has_text(row: str) -> bool:
    return any(one.isalnum() for one in row)


def _figures(projection: DialogProjection, patterns: tuple[re.Pattern[str], ...]) -> tuple[str, ...]:
    read = _figure_reader(patterns)
    rows = projection.normalized_text.split("\n")[: _above_composer(projection)]
    return tuple([found for row in rows if (found := read(row)) is not None])


@lru_cache(maxsize=64)
def _figure_reader(patterns: tuple[re.Pattern[str], ...]) -> Callable[[str], str | None]:
    """What a row counts, told apart from text. It remembers rows: most of a screen stand in the next one too."""

    def read(row: str) -> str | None:
        found = next((one for pattern in patterns if (one := pattern.search(row)) is not None), None)
        return None if found is None else f"\0{found[1]}"

    return lru_cache(maxsize=2048)(read)
