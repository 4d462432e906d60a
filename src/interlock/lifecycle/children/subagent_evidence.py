"""What a terminal fact about a child session must carry, and the only ways to write one.

Laws:
1. One constructor a terminal state. What the state requires is a required keyword, so a caller cannot forget it; what
   types cannot say (not blank, not empty) is checked, and a fact that lacks it is a `ContractError`.
2. The same requirements judge what is read: `missing_evidence` names what a terminal fact of a log lacks.
3. `failed` requires the child's session, with one exception that says so itself: `setup_failed`, where none was ever
   made. `interrupted` has the same one: `closed_before_start`.
4. Whether a model may see the end of a child is chosen once, when it is queued, and carried along. `detached` never is.
5. A constructor carries identity, agent, task, attempt and budget over from the child's last fact, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from msgspec import structs

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import SubagentState

CLOSED_BEFORE_START: Final = "closed_before_start"
SETUP_FAILED: Final = "setup_failed"

NextActions = tuple[NextAction, ...]


def has_checkpoint(checkpoint: Json) -> bool:
    """Whether a checkpoint says anything: text that is not blank, or an object or array that is not empty."""
    if isinstance(checkpoint, str):
        return bool(checkpoint.strip())
    return isinstance(checkpoint, list | dict) and bool(checkpoint)


def _names_its_child(fact: SubagentEvent) -> bool:
    return bool(fact.child_session_id)


_REQUIREMENTS: Final[Mapping[str, Callable[[SubagentEvent], bool]]] = {
    "subagent_id": lambda fact: bool(fact.subagent_id),
    "child_session_id": _names_its_child,
    "child_session_id unless setup_failed": lambda fact: fact.reason == SETUP_FAILED or _names_its_child(fact),
    "child_session_id unless closed_before_start": (
        lambda fact: fact.reason == CLOSED_BEFORE_START or _names_its_child(fact)
    ),
    "summary or checkpoint": lambda fact: bool(fact.summary.strip()) or has_checkpoint(fact.checkpoint),
    "reason": lambda fact: bool(fact.reason.strip()),
    "timeout_ms": lambda fact: fact.timeout_ms is not None,
    "elapsed_ms": lambda fact: fact.elapsed_ms is not None,
    "next_actions": lambda fact: bool(fact.next_actions),
    "next_actions with a command": lambda fact: any(action.command.strip() for action in fact.next_actions),
}

REQUIRED: Final[Mapping[SubagentState, tuple[str, ...]]] = {
    SubagentState.COMPLETED: ("subagent_id", "child_session_id", "summary or checkpoint"),
    SubagentState.FAILED: ("subagent_id", "child_session_id unless setup_failed", "reason", "next_actions"),
    SubagentState.TIMED_OUT: (
        "subagent_id",
        "child_session_id",
        "timeout_ms",
        "elapsed_ms",
        "reason",
        "next_actions",
    ),
    SubagentState.INTERRUPTED: ("subagent_id", "child_session_id unless closed_before_start", "reason"),
    SubagentState.DETACHED: ("subagent_id", "child_session_id", "next_actions with a command"),
}
"""What each terminal state must carry. Its keys are the terminal states."""

TERMINAL: Final = frozenset(REQUIRED)


def missing_evidence(fact: SubagentEvent) -> tuple[str, ...]:
    """Name what a terminal fact lacks of what its state requires. An open state requires nothing."""
    return tuple(name for name in REQUIRED.get(fact.status, ()) if not _REQUIREMENTS[name](fact))


def completed(
    last: SubagentEvent,
    *,
    child_session_id: SessionId,
    summary: str,
    checkpoint: Json = None,
    elapsed_ms: int | None,
) -> SubagentEvent:
    """The child answered: a summary, a checkpoint or both. `elapsed_ms` may be unknown, and must be said to be."""
    return _terminal(
        fact_after(
            last,
            SubagentState.COMPLETED,
            child_session_id=child_session_id,
            summary=summary,
            checkpoint=checkpoint,
            elapsed_ms=elapsed_ms,
        )
    )


def failed(
    last: SubagentEvent,
    *,
    child_session_id: SessionId,
    reason: str,
    next_actions: NextActions,
    summary: str = "",
    elapsed_ms: int | None = None,
) -> SubagentEvent:
    """The child ended, and not well."""
    return _terminal(
        fact_after(
            last,
            SubagentState.FAILED,
            child_session_id=child_session_id,
            reason=reason,
            next_actions=next_actions,
            summary=summary,
            elapsed_ms=elapsed_ms,
        )
    )


def setup_failed(last: SubagentEvent, *, summary: str, next_actions: NextActions) -> SubagentEvent:
    """The child's session could not be made: `failed`, and the reason says why no session is named."""
    return _terminal(
        fact_after(last, SubagentState.FAILED, reason=SETUP_FAILED, summary=summary, next_actions=next_actions)
    )


def timed_out(
    last: SubagentEvent,
    *,
    child_session_id: SessionId,
    timeout_ms: int,
    elapsed_ms: int,
    reason: str,
    next_actions: NextActions,
) -> SubagentEvent:
    """The child used up the time that it was given."""
    fact = fact_after(
        last,
        SubagentState.TIMED_OUT,
        child_session_id=child_session_id,
        reason=reason,
        elapsed_ms=elapsed_ms,
        next_actions=next_actions,
    )
    return _terminal(structs.replace(fact, timeout_ms=timeout_ms))


def interrupted(
    last: SubagentEvent,
    *,
    child_session_id: SessionId,
    reason: str,
    elapsed_ms: int | None = None,
    next_actions: NextActions = (),
) -> SubagentEvent:
    """A parent or an operator stopped the child."""
    return _terminal(
        fact_after(
            last,
            SubagentState.INTERRUPTED,
            child_session_id=child_session_id,
            reason=reason,
            elapsed_ms=elapsed_ms,
            next_actions=next_actions,
        )
    )


def closed_before_start(last: SubagentEvent, *, summary: str, next_actions: NextActions = ()) -> SubagentEvent:
    """A queued child was closed: `interrupted`, and the reason says why no session is named."""
    return _terminal(
        fact_after(
            last, SubagentState.INTERRUPTED, reason=CLOSED_BEFORE_START, summary=summary, next_actions=next_actions
        )
    )


def detached(
    last: SubagentEvent,
    *,
    child_session_id: SessionId,
    reason: str,
    next_actions: NextActions,
    elapsed_ms: int | None = None,
) -> SubagentEvent:
    """We let go of a child that may still run. One of `next_actions` is a command that shows or resumes it."""
    fact = fact_after(
        last,
        SubagentState.DETACHED,
        child_session_id=child_session_id,
        reason=reason,
        elapsed_ms=elapsed_ms,
        next_actions=next_actions,
    )
    return _terminal(structs.replace(fact, model_visible=False))


def fact_after(
    last: SubagentEvent,
    status: SubagentState,
    *,
    child_session_id: SessionId | None = None,
    attempt: int | None = None,
    summary: str = "",
    checkpoint: Json = None,
    reason: str = "",
    elapsed_ms: int | None = None,
    deadline_at: datetime | None = None,
    next_actions: NextActions = (),
) -> SubagentEvent:
    """The next fact of the same child. What is not given is empty: nothing old is said again by accident."""
    return structs.replace(
        last,
        status=status,
        child_session_id=child_session_id,
        attempt=last.attempt if attempt is None else attempt,
        summary=summary,
        checkpoint=checkpoint,
        reason=reason,
        elapsed_ms=elapsed_ms,
        deadline_at=deadline_at,
        next_actions=next_actions,
    )


def _terminal(fact: SubagentEvent) -> SubagentEvent:
    missing = missing_evidence(fact)
    if missing:
        raise ContractError(f"a child that is {fact.status.value} must carry {', '.join(missing)}")
    return fact
