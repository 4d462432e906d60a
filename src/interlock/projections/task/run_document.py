"""The session's state document, `{"__run": {...}}`: the run events of a log, folded by `reduce_state_actions`.

Laws:
1. The document depends on the log alone, and changes only by the patches that a step gives: applied in order to any
   earlier document they give the later one.
2. Whatever a log says, nothing here raises. An event that the reducer refuses changes nothing, and is a `refusal`.
3. Only the newest turn writes it. A run that never ended is cleared away when the run of a newer turn begins, as the
   state of a run is cleared at the next one; it would be shown for ever otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from interlock.lifecycle.envelope import (
    AnyStateAction,
    RunLifecycleAction,
    ScopeContext,
    reduce_state_actions,
    run_lifecycle_from_state,
)
from interlock.lifecycle.patch import apply_patch
from interlock.lifecycle.run import RunLifecycleState
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import RunState
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.wire.patch import DeleteOp, Patch, TrackedPatch

SOURCE: Final = "run_state"
OVERTAKEN: Final = "run_overtaken"


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The document, and the turn of the run in it."""

    state: Json = field(default_factory=dict)
    turn_id: TurnId | None = None


class Folded(NamedTuple):
    """The document after an event, what changed it, and why it was not changed; blank if nothing was refused."""

    document: RunDocument
    patches: tuple[TrackedPatch, ...] = ()
    refusal: str = ""


def fold_run_event(document: RunDocument, event: Event) -> Folded:
    """Fold one event that the classifier took, of the newest turn or of none. Any other event changes nothing."""
    said = event.data
    if not isinstance(said, RunState):
        return Folded(document)
    cleared = _overtaken(document, said, event.turn_id)
    base = _applied(document.state, cleared)
    action = AnyStateAction(RunLifecycleState, _action(said, event.ts))
    try:
        patches = reduce_state_actions([action], base, SOURCE, ScopeContext.run())
    except ContractError as refused:
        return Folded(document, refusal=str(refused))
    following = RunDocument(_applied(base, patches), event.turn_id or document.turn_id)
    return Folded(following, (*cleared, *patches))


def _action(said: RunState, at: Moment) -> RunLifecycleAction.Set:
    done_reason = None if said.reason is None else said.reason.to_run_status()[1]
    return RunLifecycleAction.Set(said.run_id, said.status, done_reason, max(0, round(at.timestamp() * 1000)))


def _overtaken(document: RunDocument, said: RunState, turn_id: TurnId | None) -> list[TrackedPatch]:
    """Clears the record of a run without an end, where the run of another turn begins."""
    record = run_lifecycle_from_state(document.state)
    is_open = record is not None and record.id != said.run_id and not record.status.is_terminal
    if not is_open or turn_id is None or turn_id == document.turn_id:
        return []
    return [TrackedPatch(Patch((DeleteOp((RunLifecycleState.PATH,)),)), OVERTAKEN)]


def _applied(state: Json, patches: list[TrackedPatch]) -> Json:
    for one in patches:
        state = apply_patch(state, one.patch())
    return state
