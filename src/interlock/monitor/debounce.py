"""What to believe of a stream of screens: one frame may look idle while the tool is not.

Laws:
1. Working and a dialog are believed at once. So is idle, where no turn is open and its proof is not weak.
2. While a turn is open, idle is believed only once it has been seen for as long as this CLI's profile asks: a weak
   proof for longer, and without a change of the text; after a submit with no sign of work, or after a dialog was
   answered, for the grace that the CLI needs until it shows something. A mark that this turn ended shortens the wait.
3. Until then the verdict before it holds, except after a dialog: that is gone, and what follows it is not known yet.
4. A frame that says nothing keeps working and a dialog for `watched_gap_seconds`, a dialog also for as long as the
   screen is blank; then it is unknown. It never keeps idle. Two frames keep work for longer: a blank one after a
   submit, until the grace of the CLI is over; and one that shows this turn without the mark that the CLI sets below
   each that ended, for as long as it stands.
5. A submit opens a turn and is work that is due. Work, or a dialog that only work brings, opens a turn by itself. A
   submit that is answered by a picker opened no turn. Weak work, such as a prompt in a queue, is due and not shown.
6. A turn may be over before anybody looked: its prompt in the transcript and a mark below it prove that it ran.
   A screen that did not move at all since the submit was not painted yet: it has `FROZEN_SECONDS`.
7. A picker that came while no turn was open leaves none behind: after it, idle needs only the grace of an answer.
8. Where the agent itself says that the turn is over, idle needs no more than the hold of `native_end`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.screen.assessment import BlockKind, BusinessState, SurfaceAssessment
from interlock.screen.profile import Pace

FROZEN_SECONDS: Final = 30.0
_OF_A_TURN: Final = (BlockKind.APPROVAL, BlockKind.QUESTION, BlockKind.PLAN)


class TurnSource(StrEnum):
    """How we know that there is a turn."""

    SUBMITTED = "submitted"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class BelievedTurn:
    """A turn that has not ended. `shows_work`: since the last submit or answer."""

    source: TurnSource
    opened_at: float
    shows_work: bool = False
    was_answered: bool = False


@dataclass(frozen=True, slots=True)
class Steady:
    """What is believed. `idle_since` and `silent_since` are the first frames of the present run of such frames.

    `due`: when to look again, if the screen stays as it is.
    """

    believed: BusinessState = BusinessState.UNKNOWN
    turn: BelievedTurn | None = None
    idle_since: float | None = None
    idle_key: str | None = None
    silent_since: float | None = None
    due: float | None = None
    is_own_menu: bool = False


def submit(now: float, pace: Pace) -> Steady:
    """A prompt was submitted. Whatever was believed before, work is due; if nothing comes, look after the grace."""
    turn = BelievedTurn(TurnSource.SUBMITTED, now)
    return Steady(BusinessState.WORKING, turn, due=now + pace.submit_grace_seconds)


def close_turn(state: Steady) -> Steady:
    """The turn ended, or never began."""
    return replace(state, turn=None)


def see(
    state: Steady,
    surface: SurfaceAssessment,
    key: str,
    now: float,
    pace: Pace,
    policy: MonitorPolicy = DEFAULT_POLICY,
    *,
    is_blank: bool = False,
    is_echoed: bool = False,
    is_frozen: bool = False,
    reported_hold_seconds: float | None = None,
) -> Steady:
    """Take in one frame. `is_echoed`: the prompt of this turn stands in the transcript, so a mark below is its own.

    `is_frozen`: the text is still the one at the submit. `reported_hold_seconds`: the agent says that its turn is over.
    """
    if surface.is_gone:
        return Steady()
    match BusinessState.UNKNOWN if surface.unknown_for_stall else surface.business_state:
        case BusinessState.WORKING:
            return Steady(BusinessState.WORKING, _at_work(state.turn, surface, now))
        case BusinessState.AWAITING_OPERATOR:
            turn = _asked(state.turn, surface, now)
            was_idle = state.believed is BusinessState.IDLE or state.is_own_menu or state.turn is not None
            return Steady(BusinessState.AWAITING_OPERATOR, turn, is_own_menu=turn is None and was_idle)
        case BusinessState.IDLE:
            if is_frozen:
                pace = replace(pace, submit_grace_seconds=max(pace.submit_grace_seconds, FROZEN_SECONDS))
            state = _echoed(state, surface) if is_echoed else state
            return _see_idle(state, surface, key, now, pace, reported_hold_seconds)
        case _:
            runs_on = surface.is_unended and state.turn is not None and (is_echoed or state.turn.shows_work)
            return _see_nothing(state, now, policy, pace, is_blank=is_blank, runs_on=runs_on)


def _at_work(turn: BelievedTurn | None, surface: SurfaceAssessment, now: float) -> BelievedTurn:
    opened = turn or BelievedTurn(TurnSource.INFERRED, now)
    if surface.is_weak:
        return replace(opened, opened_at=now, shows_work=False)
    return opened if opened.shows_work else replace(opened, shows_work=True)


def _asked(turn: BelievedTurn | None, surface: SurfaceAssessment, now: float) -> BelievedTurn | None:
    if surface.block is not None and surface.block.kind in _OF_A_TURN:
        opened = turn or BelievedTurn(TurnSource.INFERRED, now)
        return replace(opened, shows_work=False, was_answered=True)
    # A picker that comes right after a submit is what was asked for: a command of the tool, and no turn.
    is_command = turn is not None and not turn.shows_work and not turn.was_answered
    return None if is_command else turn


def _echoed(state: Steady, surface: SurfaceAssessment) -> Steady:
    if state.turn is None or surface.turn_end is None or state.turn.shows_work:
        return state
    return replace(state, turn=replace(state.turn, shows_work=True))


def _see_idle(
    state: Steady, surface: SurfaceAssessment, key: str, now: float, pace: Pace, reported: float | None
) -> Steady:
    if state.turn is None and (not surface.is_weak or state.believed is BusinessState.IDLE):
        return Steady(BusinessState.IDLE)
    is_same = state.idle_since is not None and (not _is_weak(state.turn, surface) or state.idle_key == key)
    since = state.idle_since if is_same and state.idle_since is not None else now
    hold = _hold(state, surface, since, pace)
    due = since + (hold if reported is None else min(hold, reported))
    if now >= due:
        return Steady(BusinessState.IDLE, state.turn, since, key)
    was_asked = state.believed is BusinessState.AWAITING_OPERATOR
    believed = BusinessState.UNKNOWN if was_asked else state.believed
    return Steady(believed, state.turn, since, key, due=due, is_own_menu=state.is_own_menu)


def _hold(state: Steady, surface: SurfaceAssessment, since: float, pace: Pace) -> float:
    turn = state.turn
    if turn is None and state.is_own_menu:
        return max(pace.idle_hold_seconds, pace.answer_grace_seconds)
    hold = pace.weak_idle_hold_seconds if _is_weak(turn, surface) else pace.idle_hold_seconds
    if turn is None or turn.shows_work or (turn.was_answered and surface.turn_end is not None):
        return hold
    if turn.was_answered:
        return max(hold, pace.answer_grace_seconds)
    return max(hold, turn.opened_at + pace.submit_grace_seconds - since)


def _is_weak(turn: BelievedTurn | None, surface: SurfaceAssessment) -> bool:
    """A mark that the turn ended makes a weak proof strong, once this turn is on the screen; before, it is old."""
    is_on_screen = turn is not None and (turn.shows_work or turn.was_answered)
    return surface.is_weak and not (is_on_screen and surface.turn_end is not None)


def _see_nothing(
    state: Steady, now: float, policy: MonitorPolicy, pace: Pace, *, is_blank: bool, runs_on: bool
) -> Steady:
    since = now if state.silent_since is None else state.silent_since
    due = since + policy.watched_gap_seconds
    if state.believed is BusinessState.WORKING and runs_on:
        return Steady(state.believed, state.turn)
    if is_blank and state.turn is not None and not state.turn.shows_work and not state.turn.was_answered:
        due = max(due, state.turn.opened_at + pace.submit_grace_seconds)
    if state.believed is BusinessState.WORKING and now < due:
        return Steady(state.believed, state.turn, silent_since=since, due=due)
    if state.believed is BusinessState.AWAITING_OPERATOR and (is_blank or now < due):
        return Steady(state.believed, state.turn, silent_since=since, due=None if is_blank else due)
    return Steady(BusinessState.UNKNOWN, state.turn, silent_since=since)
