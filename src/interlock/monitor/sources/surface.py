"""What a terminal shows: its screen, as read by a profile or judged by a tracker, and its title.

A title only counts where it marks a state: most say nothing of a dialog, and an idle one stands beside pickers and
start-up alike. So a title can claim that a turn runs or that a person is asked, and never that all is quiet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.monitor.arbitration.axes import ATTENTION_OF_BLOCK
from interlock.monitor.arbitration.claims import ChildNews, Claim, bounded
from interlock.screen.assessment import BlockKind, BusinessState, SurfaceAssessment, TurnEnd
from interlock.screen.profile import TitleMarks
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

_ACTIVITIES: Final[Mapping[BusinessState, Activity]] = {
    BusinessState.IDLE: Activity.QUIET,
    BusinessState.WORKING: Activity.WORKING,
}


BACKGROUND: Final = "background_task"
_SHOWN: Final = frozenset({"background"})


def claim_of_screen(
    assessment: SurfaceAssessment,
    *,
    at_seconds: float,
    verdict: BusinessState | None = None,
    is_stalled: bool = False,
    where: str = "",
    spawn_id: SpawnId | None = None,
) -> Claim:
    """What a captured screen claims.

    `verdict` is a tracker's, which saw more than this frame; without it a weak reading claims nothing. `is_stalled`: a
    tracker saw nothing usable for too long. A surface that cannot be read claims nothing; it is no proof of an exit.
    """
    state = _state(assessment, verdict)
    is_dialog = state is BusinessState.AWAITING_OPERATOR
    rule, rows = (assessment.evidence[0].rule, assessment.evidence[0].rows) if assessment.evidence else ("screen", ())
    return Claim(
        rung=EvidenceSource.SCREEN,
        at_seconds=at_seconds,
        rule=rule,
        activity=Activity.STALLED if is_stalled else _ACTIVITIES.get(state),
        attention=_attention(assessment, state),
        is_dialog=is_dialog,
        where=" ".join((where, f"rows {rows[0]}-{rows[-1]}")).strip() if rows else where,
        excerpt=bounded(assessment.operator_excerpt or "") if is_dialog else "",
        children=_children(assessment, state),
        spawn_id=spawn_id,
    )


def _children(assessment: SurfaceAssessment, state: BusinessState) -> ChildNews | None:
    """Some tools show that something goes on in the background after a turn; the screen does not tell what."""
    if state is not BusinessState.IDLE:
        return None
    if assessment.ui_context == BACKGROUND:
        return ChildNews(opened=_SHOWN)
    return ChildNews(closed=_SHOWN)


def _state(assessment: SurfaceAssessment, verdict: BusinessState | None) -> BusinessState:
    if assessment.is_gone:
        return BusinessState.UNKNOWN
    if assessment.operator_blocked:
        # A dialog that stands on the screen is there, whatever a tracker waits for.
        return BusinessState.AWAITING_OPERATOR
    if verdict is not None:
        return verdict
    is_usable = not assessment.is_weak and not assessment.unknown_for_stall
    return assessment.business_state if is_usable else BusinessState.UNKNOWN


def _attention(assessment: SurfaceAssessment, state: BusinessState) -> Attention | None:
    if state is BusinessState.AWAITING_OPERATOR:
        return ATTENTION_OF_BLOCK[BlockKind.OTHER if assessment.block is None else assessment.block.kind]
    if state is BusinessState.UNKNOWN:
        return None
    if state is BusinessState.IDLE and assessment.turn_end is TurnEnd.FAILED:
        return Attention.ERROR
    return Attention.NONE


def claim_of_title(title: str, marks: TitleMarks, *, at_seconds: float, spawn_id: SpawnId | None = None) -> Claim:
    """What a pane's title claims, by the marks that its tool sets. No mark, no claim on either axis.

    A title tells that a person is asked, and not for what: it is claimed as a question.
    """
    is_asking = marks.asking is not None and marks.asking.match(title) is not None
    is_working = not is_asking and marks.working is not None and marks.working.match(title) is not None
    return Claim(
        rung=EvidenceSource.PANE_TITLE,
        at_seconds=at_seconds,
        rule="title.asking" if is_asking else "title.working" if is_working else "title.unmarked",
        activity=Activity.WORKING if is_working else None,
        attention=Attention.QUESTION if is_asking else Attention.NONE if is_working else None,
        is_dialog=is_asking,
        where="pane title",
        excerpt=bounded(title),
        spawn_id=spawn_id,
    )
