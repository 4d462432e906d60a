"""Post-submit evidence: what shows that a submitted prompt set something going.

Laws:
1. It counts on every frame, whatever the availability, and is never taken back within a turn.
2. Working is evidence. So is a text that differs from the baseline, which is the projection at the submit.
3. Where the prompt is known, what lies only in the composer or in rows that hold the prompt is no evidence, nor is that
   the rows above scrolled away to make room for it. Where it is not known, any change counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from interlock.monitor.observation import ShadowObservation
from interlock.monitor.results import ObserverPayload
from interlock.screen.assessment import BusinessState
from interlock.screen.projection import DialogProjection
from interlock.vocabulary.ids import TurnId

# What a terminal draws beside a prompt: its mark, and the frame of its box.
_MARKS: Final = "❯›>│┃▌|"

Observer: TypeAlias = Callable[[ShadowObservation, DialogProjection], ObserverPayload | None]


@dataclass(frozen=True, slots=True)
class Submit:
    """A prompt was submitted: a turn begins. `observer` is pure; it is given each observation and the baseline."""

    on: ClassVar[str] = "submit"
    turn_id: TurnId
    baseline: DialogProjection
    prompt: str | None = None
    observer: Observer | None = None


@dataclass(frozen=True, slots=True)
class PostSubmitEvidence:
    """What was seen since the submit."""

    saw_working: bool = False
    saw_projection_change: bool = False

    @property
    def has_activity(self) -> bool:
        return self.saw_working or self.saw_projection_change


def accumulate(
    evidence: PostSubmitEvidence, turn: Submit, observation: ShadowObservation, before: ShadowObservation | None
) -> PostSubmitEvidence:
    """Add what `observation` shows. `before` is the one before it in the same turn, which was judged already."""
    saw_working = evidence.saw_working or observation.assessment.business_state is BusinessState.WORKING
    saw_change = evidence.saw_projection_change
    if not saw_change and (before is None or before.projection != observation.projection):
        saw_change = shows_change(turn, observation.projection)
    if saw_working is evidence.saw_working and saw_change is evidence.saw_projection_change:
        return evidence
    return PostSubmitEvidence(saw_working, saw_change)


def shows_change(turn: Submit, seen: DialogProjection) -> bool:
    """Whether the text changed since the submit in a way that the prompt itself does not explain."""
    if seen.key == turn.baseline.key:
        return False
    prompt = _squeezed(turn.prompt or "")
    if not prompt:
        return True
    rows, held = _other_rows(seen, prompt)
    baseline, _ = _other_rows(turn.baseline, prompt)
    only_scrolled = held and 0 < len(rows) < len(baseline) and baseline[-len(rows) :] == rows
    return rows != baseline and not only_scrolled


def _other_rows(projection: DialogProjection, prompt: str) -> tuple[list[str], bool]:
    """The rows that are neither blank, nor the composer's, nor the prompt's; and whether any row holds the prompt."""
    held = _rows_that_hold(projection.rows, prompt) | projection.prompt_rows
    hidden = held | projection.composer_rows
    rows = [row for number, row in enumerate(projection.rows) if row and number not in hidden]
    return rows, bool(held)


def _rows_that_hold(rows: tuple[str, ...], prompt: str) -> frozenset[int]:
    """Every run of rows that spells the whole prompt, however it was wrapped and framed."""
    texts = [_squeezed(row) for row in rows]
    held: set[int] = set()
    for start, text in enumerate(texts):
        if text and start not in held:
            held.update(_run_from(texts, start, prompt))
    return frozenset(held)


def _run_from(texts: list[str], start: int, prompt: str) -> range:
    rest = prompt
    for number in range(start, len(texts)):
        if not rest.startswith(texts[number]):
            break
        rest = rest[len(texts[number]) :].lstrip(_MARKS)
        if not rest:
            return range(start, number + 1)
    return range(0)


def _squeezed(text: str) -> str:
    """Without blanks and marks at the ends: a wrapped row has lost the blank at its end, or was cut inside a word."""
    return "".join(text.split()).strip(_MARKS)
