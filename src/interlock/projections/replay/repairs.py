"""Results for the calls that a dead runtime left open, to be written when a session starts again.

A turn's own closing batch repairs its calls, so this finds work only where a turn has no batch yet (its owner died), or
has one that left calls unpaired (an imported or foreign log). The words are those of `lifecycle.decisions.approvals`. A
suspended
call of a turn that has not ended keeps waiting for a person; once the turn has ended nobody can decide it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from interlock.lifecycle.decisions.approvals import Persist, cancel_open, settle_orphans
from interlock.lifecycle.decisions.decisions import ToolCalls, evolve
from interlock.lifecycle.decisions.toolcall import EndKind
from interlock.lifecycle.turns import TurnFold
from interlock.vocabulary.events.audit import DecisionUndelivered, ToolCallDecided, ToolCallSuspended
from interlock.vocabulary.events.conversation import ToolCall, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import IMPORTED_TURN_PREFIX, SessionId, TurnId

_FOLDED = ToolCall | ToolResult | ToolCallSuspended | ToolCallDecided | DecisionUndelivered
_OVER = "The turn ended before anyone decided about this call"


@dataclass(frozen=True, slots=True)
class Repair:
    """One result to append, and the turn that its event belongs to (None: a log without turn ids)."""

    turn_id: TurnId | None
    result: ToolResult


def repairs_at_start(events: Iterable[Event]) -> tuple[Repair, ...]:
    """One result for every call that nothing can answer any more, given that no owner of an open turn lives.

    Append them before the next prompt; with them in the log there is nothing left to repair.
    """
    turns = TurnFold()
    calls: dict[tuple[SessionId, TurnId], ToolCalls] = {}
    for event in events:
        turn = turns.add(event)
        turn_id = event.turn_id if turn is None else turn.turn_id
        if turn_id is not None and isinstance(event.data, _FOLDED):
            key = (event.session_id, turn_id)
            calls[key] = evolve(calls.get(key) or ToolCalls(turn_id), event.data)
    last = next(reversed(turns.turns), None)
    return tuple(
        Repair(None if _is_imported(key[1]) else key[1], result)
        for key, state in calls.items()
        # Position alone ties a result to an imported turn, and only the last one can still be given any.
        if key == last or not _is_imported(key[1])
        for result in _settled(state, is_over=key in turns.turns and turns.turns[key].is_over)
    )


def _is_imported(turn_id: TurnId) -> bool:
    return turn_id.startswith(IMPORTED_TURN_PREFIX)


def _settled(state: ToolCalls, *, is_over: bool) -> Iterable[ToolResult]:
    state, outputs = settle_orphans(state)
    if is_over:
        outputs += cancel_open(state, EndKind.RUN_CANCELLED, _OVER)[1]
    records = (output.record for output in outputs if isinstance(output, Persist))
    return [record for record in records if isinstance(record, ToolResult)]
