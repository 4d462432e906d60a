"""The run envelope in a state document: how it is read, and the one reducer that may write it.

Laws:
1. Reading never raises: what is absent or cannot be read is None.
2. A record moves only as the table of `run` allows; staying is allowed, and so is a clock that went backwards, for
   `updated_at` decides nothing. A `done` record never changes at all: the same again is accepted and does nothing.
3. Another id is another run. It may begin where there is no record, in any status, or after one that is `done`,
   `running` or `waiting`.
4. Only `done` has a `done_reason`. It may lack one, as in the seed: the `run_state` event always carries it.
5. A record that cannot be read is never overwritten: it may be the only trace of a run.
6. What is refused changes nothing: one illegal action, and no patch at all is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from interlock.lifecycle.patch import apply_patch
from interlock.lifecycle.run import RunLifecycleState
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.wire.patch import Patch, SetOp, TrackedPatch


class RunLifecycleAction:
    """The actions of `RunLifecycleState`: there is one."""

    class Set(Struct, frozen=True, tag="Set"):
        """Set the whole record in one step."""

        id: str
        status: RunStatus
        done_reason: str | None
        updated_at: int


@dataclass(frozen=True, slots=True)
class AnyStateAction:
    """An action together with the state that it is for."""

    state: type[RunLifecycleState]
    action: RunLifecycleAction.Set


@dataclass(frozen=True, slots=True)
class ScopeContext:
    """Which scope's states may be written."""

    scope: str

    @classmethod
    def run(cls) -> ScopeContext:
        return cls(RunLifecycleState.SCOPE)


def run_lifecycle_from_state(state: object) -> RunLifecycleState | None:
    """The run's record in a state document; None if there is none, or none that can be read."""
    if not isinstance(state, dict):
        return None
    try:
        return msgspec.convert(state.get(RunLifecycleState.PATH), RunLifecycleState)
    except (msgspec.ValidationError, UnicodeError, RecursionError):
        return None


def reduce_state_actions(
    actions: Iterable[AnyStateAction], base: Json, source: str, scope: ScopeContext
) -> list[TrackedPatch]:
    """Reduce each action against what the ones before it made, and return the patches that change something.

    Applied to `base` in order they give the final document. Raises `ContractError` for an illegal action.
    """
    snapshot = base
    patches: list[TrackedPatch] = []
    for wrapped in actions:
        if scope.scope != wrapped.state.SCOPE:
            raise ContractError(f"{wrapped.state.PATH} is {wrapped.state.SCOPE} state, not {scope.scope} state")
        before = _existing(snapshot)
        after = _requested(wrapped.action)
        if before is not None:
            _check_follows(before, after)
        if after != before:
            patch = Patch((SetOp((wrapped.state.PATH,), msgspec.to_builtins(after)),))
            snapshot = apply_patch(snapshot, patch)
            patches.append(TrackedPatch(patch, source))
    return patches


def _existing(snapshot: Json) -> RunLifecycleState | None:
    """The record that is there. Null is nothing; anything else that cannot be read stops the reducer."""
    if snapshot is None:
        return None
    if not isinstance(snapshot, dict):
        raise ContractError(f"a state document is an object, not {type(snapshot).__name__}")
    record = run_lifecycle_from_state(snapshot)
    if record is None and snapshot.get(RunLifecycleState.PATH) is not None:
        raise ContractError(f"the record at {RunLifecycleState.PATH} cannot be read, and is not overwritten")
    return record


def _requested(action: RunLifecycleAction.Set) -> RunLifecycleState:
    try:
        # By way of JSON, since a record that could not be written must not be made.
        record = msgspec.json.decode(msgspec.json.encode(action), type=RunLifecycleState)
    except (msgspec.MsgspecError, UnicodeError, TypeError, OverflowError) as error:
        raise ContractError(f"not a run record: {error}") from error
    if record.done_reason is not None and record.status is not RunStatus.DONE:
        raise ContractError(f"run {record.id!r} is {record.status.value} and cannot have a done_reason")
    return record


def _check_follows(before: RunLifecycleState, after: RunLifecycleState) -> None:
    if before.id == after.id:
        if not before.status.can_transition_to(after.status):
            raise ContractError(f"run {before.id!r} cannot go from {before.status.value} to {after.status.value}")
        if before.status is RunStatus.DONE and before != after:
            raise ContractError(f"run {before.id!r} is done, and stays as it is")
    elif before.status is not RunStatus.DONE:
        raise ContractError(f"run {after.id!r} cannot begin: run {before.id!r} is {before.status.value}, not done")
    elif after.status is RunStatus.DONE:
        raise ContractError(f"run {after.id!r} cannot begin as done")
