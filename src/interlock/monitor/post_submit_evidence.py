"""Post-submit evidence: what shows that a submitted prompt set something going.

Laws:
1. It counts on every frame, whatever the availability, and is never taken back within a turn.
2. Working is evidence. So is a text that differs from the baseline, which is the projection at the submit.
3. A turn that was inferred has no submit, and the dialog from which it was inferred changes the text when it closes:
   only work that is shown is evidence of it. A mark that it was interrupted or failed ends one that was open when we
   first looked, and no other: else the mark may be an older turn's.
4. Where the prompt is known, what lies only in the composer or in rows that hold the prompt is no evidence, nor is that
   the rows above scrolled away to make room for it. Where it is not known, any change counts.

What depends on the submit alone is worked out once, with it; a frame that shows the same rows as the one before is not
judged again; and one row that neither the baseline nor the prompt can explain settles the question by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias

from interlock.monitor.observation import ShadowObservation
from interlock.monitor.results import ObserverPayload
from interlock.screen.assessment import BusinessState, SurfaceAssessment, TurnEnd
from interlock.screen.projection import MASK, DialogProjection
from interlock.vocabulary.ids import TurnId

# What a terminal draws beside a prompt: its mark, and the frame of its box.
MARKS: Final = "❯›>│┃▌|"
_WORKING: Final = BusinessState.WORKING
_BEFORE_TEXT: Final = MARKS + "".join(chr(code) for code in range(0x3001) if chr(code).isspace())


@dataclass(frozen=True, slots=True)
class Submit:
    """A prompt was submitted: a turn begins. `observer` is pure; it is given each observation and this submit.

    `is_inferred`: nobody is known to have submitted it. `was_found`: it was open when we first looked.
    `spelled_prompt` and `other_rows` follow from the rest: the prompt without blanks, and the rows of the baseline that
    are neither blank, nor the composer's, nor the prompt's.
    """

    on: ClassVar[str] = "submit"
    turn_id: TurnId
    baseline: DialogProjection
    prompt: str | None = None
    observer: Observer | None = None
    is_inferred: bool = False
    was_found: bool = False
    spelled_prompt: str = field(init=False, repr=False, compare=False)
    other_rows: tuple[str, ...] = field(init=False, repr=False, compare=False)
    known_rows: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prompt = spelled(self.prompt or "")
        rows, _ = _other_rows(self.baseline, prompt)
        object.__setattr__(self, "spelled_prompt", prompt)
        object.__setattr__(self, "other_rows", rows)
        object.__setattr__(self, "known_rows", frozenset(rows))


# What a turn's observer found in an observation of that turn.
Observer: TypeAlias = Callable[[ShadowObservation, Submit], ObserverPayload | None]


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
    if turn.is_inferred:
        return _SHOWN if evidence.saw_working or _shows_work(observation.assessment) else evidence
    saw_working = evidence.saw_working or observation.assessment.business_state is _WORKING
    saw_change = evidence.saw_projection_change
    if not saw_change and (before is None or not _shows_as_little(turn, before.projection, observation.projection)):
        saw_change = shows_change(turn, observation.projection)
    if saw_working is evidence.saw_working and saw_change is evidence.saw_projection_change:
        return evidence
    return PostSubmitEvidence(saw_working, saw_change)


_SHOWN: Final = PostSubmitEvidence(saw_working=True)


def names_end_of_found(turn: Submit, surface: SurfaceAssessment) -> bool:
    """Whether the surface says now of a turn that was found open that it did not complete."""
    return turn.was_found and surface.turn_end in (TurnEnd.INTERRUPTED, TurnEnd.FAILED)


def _shows_work(surface: SurfaceAssessment) -> bool:
    return surface.business_state is _WORKING and not surface.is_weak


def _shows_the_same(before: DialogProjection, seen: DialogProjection) -> bool:
    """Whether nothing but volatile tokens differs, which are no change of a text."""
    return before is seen or (
        before.key == seen.key
        and before.composer_rows == seen.composer_rows
        and before.prompt_rows == seen.prompt_rows
        and before.rows == seen.rows
    )


def _shows_as_little(turn: Submit, before: DialogProjection, seen: DialogProjection) -> bool:
    """Whether what was judged no change is still all that is shown, but for a draft that is no part of the prompt.

    No run of rows that spells the prompt reaches into such a draft, so the other rows are judged as they were.
    """
    if _shows_the_same(before, seen):
        return True
    hidden = seen.composer_rows
    if not hidden or before.composer_rows != hidden or before.prompt_rows != seen.prompt_rows:
        return False
    start, end = min(hidden), max(hidden) + 1
    is_block = len(hidden) == end - start
    if not is_block or before.rows[:start] != seen.rows[:start] or before.rows[end:] != seen.rows[end:]:
        return False
    for row in before.rows[start:end] + seen.rows[start:end]:
        # What is masked is not known here.
        if MASK in row or not (text := spelled(row)) or text in turn.spelled_prompt:
            return False
    return before.key != turn.baseline.key


def shows_change(turn: Submit, seen: DialogProjection) -> bool:
    """Whether the text changed since the submit in a way that the prompt itself does not explain."""
    if seen.key == turn.baseline.key:
        return False
    if not turn.spelled_prompt or _shows_what_nothing_explains(turn, seen):
        return True
    rows, held = _other_rows(seen, turn.spelled_prompt)
    baseline = turn.other_rows
    only_scrolled = held and 0 < len(rows) < len(baseline) and baseline[-len(rows) :] == rows
    return rows != baseline and not only_scrolled


def has_scrolled(turn: Submit, seen: DialogProjection) -> bool:
    """Whether the screen begins with another row than at the submit."""
    return next(filter(None, seen.rows), "") != next(filter(None, turn.baseline.rows), "")


def has_same_transcript(turn: Submit, seen: DialogProjection) -> bool:
    """Whether the same text as at the submit stands above the composer. Its footer may differ: a draft changes it."""
    above = _above_composer(seen, 0)
    return above is not None and above == _above_composer(turn.baseline, 0)


def ends_with_same_prompt(turn: Submit, seen: DialogProjection) -> bool:
    """Whether the latest prompt that is shown is the one before the submit, with the same rows between it and the
    composer, but for what a profile masks. What was said later cannot scroll away before it."""
    was, now = max(turn.baseline.prompt_rows, default=None), max(seen.prompt_rows, default=None)
    if was is None or now is None:
        return False
    before, after = _above_composer(turn.baseline, was), _above_composer(seen, now)
    if before is None or after is None or len(before) != len(after):
        return False
    return all(one == other or (MASK in one and MASK in other) for one, other in zip(before, after, strict=True))


def _above_composer(projection: DialogProjection, start: int) -> tuple[str, ...] | None:
    """The rows from `start` to the composer; None where there is none below it."""
    end = min(projection.composer_rows, default=-1)
    return tuple(filter(None, projection.rows[start:end])) if end > start else None


def _shows_what_nothing_explains(turn: Submit, seen: DialogProjection) -> bool:
    """Whether some row is new and can be no part of the prompt: the cheap look, which settles most frames."""
    known, hidden = turn.known_rows, seen.composer_rows | seen.prompt_rows
    new = [number for number, row in enumerate(seen.rows) if row and row not in known and number not in hidden]
    if not new:
        return False
    texts = seen.normalized_text.split("\n")
    return any(spelled(texts[number]) not in turn.spelled_prompt for number in new)


def _other_rows(projection: DialogProjection, prompt: str) -> tuple[tuple[str, ...], bool]:
    """The rows that are neither blank, nor the composer's, nor the prompt's; and whether any row holds the prompt."""
    held = rows_that_hold(projection.normalized_text.split("\n"), prompt) | projection.prompt_rows
    hidden = held | projection.composer_rows
    return tuple(row for number, row in enumerate(projection.rows) if row and number not in hidden), bool(held)


def rows_that_hold(rows: Sequence[str], prompt: str) -> frozenset[int]:
    """Every run of rows that spells the whole prompt, however it was wrapped and framed.

    `rows` are not masked: a prompt may well contain what looks like a clock. `prompt` is spelled already.
    """
    if not prompt:
        return frozenset()
    held: set[int] = set()
    first = prompt[0]
    for start, row in enumerate(rows):
        if row.lstrip(_BEFORE_TEXT).startswith(first) and start not in held:
            held.update(_run_from(rows, start, prompt))
    return frozenset(held)


def _run_from(rows: Sequence[str], start: int, prompt: str) -> range:
    at = 0
    for number in range(start, len(rows)):
        text = spelled(rows[number])
        if not prompt.startswith(text, at):
            break
        at += len(text)
        while at < len(prompt) and prompt[at] in MARKS:
            at += 1
        if at == len(prompt):
            return range(start, number + 1)
    return range(0)


@lru_cache(maxsize=4096)
def spelled(text: str) -> str:
    """Without blanks, and marks at the ends: a wrapped row has lost the blank at its end, or was cut inside a word."""
    return "".join(text.split()).strip(MARKS)
