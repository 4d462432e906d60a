"""The agent's own word that its turn is over: the one place that says which word counts, and for how much.

Laws:
1. A record of the session (a transcript) counts once it names the end of this very turn, with no tool call open. Who
   reads it proves that (`agents/terminal/beside`). It is kept until the next submit.
2. A status counts only where it may be trusted (`native_status.trusted_status`): it is what the screen shows, too, at
   work since the submit and at rest after that. Work that it shows later takes it back.
3. Neither ends a turn by itself: the screen must take a prompt. A status may be written by any output, so it shortens
   the wait only where the screen showed the work and marks its end; a record also where the screen has no such mark,
   and where its proof of idle is weak, after the hold of a strong one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.results import ObserverPayload
from interlock.screen.assessment import SurfaceAssessment, TurnEnd
from interlock.screen.profile import Pace
from interlock.vocabulary.states import Activity

HOLD_SECONDS: Final = 0.1
"""How long the screen must agree: a capture that was on its way when the word came is in by then."""


class NativeEnd(NamedTuple):
    """What the agent itself said since the submit. `has_worked`: its status, that it was at work."""

    has_worked: bool = False
    status: ObserverPayload | None = None
    record: ObserverPayload | None = None

    @property
    def found(self) -> ObserverPayload | None:
        return self.record or self.status


def see_status(state: NativeEnd, told: Claim | None) -> NativeEnd:
    """Take in what the agent reports of itself and its screen shows as well; None: nothing that counts."""
    match None if told is None else told.activity:
        case Activity.WORKING:
            return state._replace(has_worked=True, status=None)
        case Activity.QUIET if told is not None and state.has_worked and state.status is None:
            return state._replace(status=ObserverPayload("native_status", told.rule))
        case _:
            return state


def see_record(state: NativeEnd, found: ObserverPayload) -> NativeEnd:
    """Take in that the record of the session has the end of the turn."""
    return state._replace(record=found)


def hold_seconds(state: NativeEnd, surface: SurfaceAssessment, pace: Pace, *, shows_work: bool) -> float | None:
    """How long an idle surface must be seen to end the turn with this word; None: as long as without it."""
    if state.record is not None:
        return pace.idle_hold_seconds if surface.is_weak else HOLD_SECONDS
    is_marked = shows_work and surface.turn_end is TurnEnd.COMPLETED and not surface.is_weak
    return HOLD_SECONDS if state.status is not None and is_marked else None
