"""One line of a board, from the fold of a task. Its badge is computed here, on the server, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import record_of
from interlock.projections.approvals import called_with
from interlock.projections.badge import badge_of
from interlock.vocabulary.events.audit import SessionOpened
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import QueueView, TaskSummary

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_ENDING: Final = 200


def with_facts(
    summary: TaskSummary,
    *,
    opened: SessionOpened | None,
    turn: TurnFacts | None,
    turn_state: TurnState | None,
    asked: Sequence[Approval],
    queue: QueueView,
    now: datetime | None,
) -> TaskSummary:
    """A line with what its parts say, and the badge of the whole. Without a time it is the time of its last event."""
    is_held = bool(queue.waiting) and not queue.is_open
    line = structs.replace(
        summary,
        turn_state=turn_state,
        agent="" if opened is None else opened.agent,
        driver="" if opened is None else opened.driver,
        title="" if opened is None else opened.title,
        question=asked[0].question if asked else "",
        called_with=called_with(asked[0]) if asked else "",
        approval_id=asked[0].approval_id if asked else "",
        undelivered=asked[0].undelivered if asked else 0,
        question_problem=asked[0].problem if asked else "",
        open_approvals=len(asked),
        queued=len(queue.waiting),
        held=(queue.gate_reason or "the queue is paused") if is_held else "",
        waits_for=queue.waits_for,
        ending="" if turn is None else _ending(turn),
    )
    return structs.replace(line, badge=badge_of(line, now or summary.last_at or _EPOCH))


def _ending(turn: TurnFacts) -> str:
    """Why a turn did not complete, or is not known, on one line: its message, or its kind where it has none."""
    if turn.state is TurnState.COMPLETED or not (turn.is_terminal or turn.state is TurnState.UNKNOWN):
        return ""
    record = record_of(turn)
    said = " ".join((record.error_message or record.error_kind.replace("_", " ")).split())
    return said if len(said) <= _MAX_ENDING else f"{said[: _MAX_ENDING - 3]}..."
