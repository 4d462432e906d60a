"""Titles: how far a pane's title is believed against its screen.

Any output can set a title, as any output can write a status record: a `cat` of a file is enough. A title is read twice,
by the rules of a profile that ask for one, and by its marks on the ladder. So:

1. Where the screen says the same without the title, or says nothing, the title stands: nothing contradicts it.
2. A title that says that a person is asked, over a screen that is idle or at work without it, asks nobody: unknown.
3. A title that says work, over a screen that is idle without it, is believed while the screen moves: in an open turn,
   or once the dialog text has changed under it, and for `native_doubt_seconds` after each change. Else it is unknown.
4. A title that says nothing takes nothing away: no rule is believed for what a title leaves out (`TuiTrackerSession`
   asks the screen before it trusts that a title ever spun).
5. An unknown that a title made ends when the title changes, or when the screen shows the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from interlock.screen.assessment import BusinessState, InputMode, SurfaceAssessment, SurfaceEvidence
from interlock.screen.conditions import RowMatches, TitleMatches
from interlock.screen.engine import ScreenReading
from interlock.screen.profile import Profile, ProfileRule
from interlock.vocabulary.evidence import TITLE_CONTRADICTED

_SAYS: Final = {BusinessState.WORKING: "work", BusinessState.AWAITING_OPERATOR: "a question"}
_SHOWS: Final = {
    BusinessState.WORKING: "work",
    BusinessState.AWAITING_OPERATOR: "a dialog",
    BusinessState.IDLE: "an idle composer",
}


@dataclass(frozen=True, slots=True)
class TitleWord:
    """What the title was last heard to say, over which screen. `has_moved`: the screen moved under it, at
    `moved_at_seconds`. `contradicted`: what it says and what the screen shows, while that makes it unknown.
    `deadline`: when a screen that stands still takes the word down."""

    says: BusinessState | None = None
    key: str = ""
    has_moved: bool = False
    moved_at_seconds: float = 0.0
    contradicted: str = ""
    deadline: float | None = None


def rules_by_title(profile: Profile) -> frozenset[str]:
    """The rules that rest on the title alone: they read no row of a region."""
    return frozenset(rule.id for rule in profile.rules if _is_by_title(rule))


def _is_by_title(rule: ProfileRule) -> bool:
    has_title = any(isinstance(one, TitleMatches) and not one.is_absent for one in rule.when)
    reads = any(isinstance(one, RowMatches) and not one.is_absent and one.region != "screen" for one in rule.when)
    return has_title and not reads


def weigh(
    word: TitleWord,
    reading: ScreenReading,
    says: BusinessState | None,
    bare: Callable[[], ScreenReading],
    now: float,
    *,
    has_turn: bool,
    bound_seconds: float,
) -> tuple[TitleWord, ScreenReading]:
    """What is believed of a reading in which the title says something. `bare` reads the same screen without it."""
    key = reading.projection.key
    if says is None:
        return TitleWord(key=key), reading
    word = _heard(word, says, key, now, has_turn=has_turn)
    due = word.moved_at_seconds + bound_seconds
    if says is BusinessState.WORKING and word.has_moved and now < due:
        return replace(word, contradicted="", deadline=due), reading
    without = bare()
    shown = without.assessment.business_state
    if shown is BusinessState.AWAITING_OPERATOR and says is not shown:
        return replace(word, contradicted="", deadline=None), without  # a dialog stands there, whatever the title says
    if shown in (says, BusinessState.UNKNOWN):
        return replace(word, contradicted="", moved_at_seconds=now, deadline=now + bound_seconds), reading
    words = f"its title says {_SAYS[says]}, its screen shows {_SHOWS[shown]}"
    doubted = replace(reading, assessment=_unknown(reading.assessment))
    return replace(word, contradicted=words, deadline=None), doubted


def _heard(word: TitleWord, says: BusinessState, key: str, now: float, *, has_turn: bool) -> TitleWord:
    """The word with what the screen did since: a change under the same word, or since nothing was said."""
    if word.says is not says:
        has_moved = has_turn or (word.key != "" and word.key != key)
        return TitleWord(says, key, has_moved, now)
    return word if word.key == key else replace(word, key=key, has_moved=True, moved_at_seconds=now)


def _unknown(surface: SurfaceAssessment) -> SurfaceAssessment:
    return replace(
        surface,
        business_state=BusinessState.UNKNOWN,
        input_mode=InputMode.UNKNOWN,
        ui_context="unknown",
        evidence=(SurfaceEvidence(TITLE_CONTRADICTED),),
        operator_excerpt=None,
        turn_end=None,
        block=None,
    )
