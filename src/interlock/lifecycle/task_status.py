"""Task status: what its words mean, what follows from them, and how a turn becomes one.

Laws:
1. Every status has one class. A missing or foreign word is `unknown`, which is an answer and never idle or done.
2. Flags are computed here and nowhere else, by server and clients alike.
3. `server_confirmed_no_stream` may turn `is_streaming` off, and no other flag.
4. The projection is total, and claims no end before the log holds one: the status of an abandoned turn is `UNKNOWN`,
   and so is that of one of which events are lost. No status at all (null) has one meaning: no prompt yet.
5. Flags advise people. The dispatcher asks the turn, the approvals and the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from interlock.vocabulary.states import TaskStatus, TurnState


class StatusClass(StrEnum):
    """The four kinds of status."""

    ACTIVE = "active"
    TERMINAL = "terminal"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class RuntimePhase(StrEnum):
    """What a client shows. `syncing` and `error` are of its connection: the server never produces them."""

    UNKNOWN = "unknown"
    SYNCING = "syncing"
    RUNNING = "running"
    STREAMING = "streaming"
    WAITING_FOR_USER = "waiting_for_user"
    TERMINAL = "terminal"
    ERROR = "error"


_CLASSES: Final[Mapping[str | None, StatusClass]] = {
    TaskStatus.PENDING: StatusClass.ACTIVE,
    TaskStatus.RUNNING: StatusClass.ACTIVE,
    TaskStatus.CANCELLING: StatusClass.ACTIVE,
    TaskStatus.PENDING_CONFIRMATION: StatusClass.WAITING,
    TaskStatus.COMPLETED: StatusClass.TERMINAL,
    TaskStatus.FAILED: StatusClass.TERMINAL,
    TaskStatus.CANCELLED: StatusClass.TERMINAL,
    TaskStatus.DELETE: StatusClass.TERMINAL,
    TaskStatus.UNKNOWN: StatusClass.UNKNOWN,
}
_WITH_OPEN_TURN: Final = frozenset({TaskStatus.RUNNING, TaskStatus.CANCELLING, TaskStatus.PENDING_CONFIRMATION})
CANCELLABLE: Final = frozenset({TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.PENDING_CONFIRMATION})


def classify(status: str | None) -> StatusClass:
    """The class of a status as it came: case matters, and nothing is trimmed."""
    return _CLASSES.get(status, StatusClass.UNKNOWN)


def has_open_turn(status: str | None) -> bool:
    """Whether a status says that a turn is open. While a cancel is asked for, that may be of a prompt without one."""
    return status in _WITH_OPEN_TURN


def is_under_way(status: str | None) -> bool:
    """Whether a status says that something is still to end: an open turn, or a prompt that waits for its own."""
    return classify(status) in (StatusClass.ACTIVE, StatusClass.WAITING)


def runtime_phase(status: str | None, *, has_stream: bool) -> RuntimePhase:
    """The phase that a status stands for. A stream shows only while the status is active."""
    match classify(status):
        case StatusClass.ACTIVE:
            return RuntimePhase.STREAMING if has_stream else RuntimePhase.RUNNING
        case StatusClass.TERMINAL:
            return RuntimePhase.TERMINAL
        case StatusClass.WAITING:
            return RuntimePhase.WAITING_FOR_USER
        case StatusClass.UNKNOWN:
            return RuntimePhase.UNKNOWN
        case unreachable:
            assert_never(unreachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What flags are computed from. `has_stream`: a stream is known; without it there may still be one.

    `is_verified`: the status was read from the server since the last doubt about it.
    """

    status: str | None
    has_stream: bool
    joined_room: bool
    is_reachable: bool
    is_verified: bool
    server_confirmed_no_stream: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFlags:
    """What a person may do, and what a client should."""

    is_terminal: bool
    is_streaming: bool
    blocks_queued_dispatch: bool
    can_queue_message: bool
    can_cancel_task: bool
    should_join_room: bool


def task_flags(facts: TaskFacts) -> TaskFlags:
    """The flags of a task. Before its first prompt nothing keeps one back, once that is verified. `UNKNOWN` and any
    foreign status count as unverified."""
    kind = classify(facts.status)
    is_free = kind is StatusClass.TERMINAL or facts.status is None
    is_active = kind is StatusClass.ACTIVE
    may_stream = facts.status == TaskStatus.RUNNING and not facts.server_confirmed_no_stream
    return TaskFlags(
        is_terminal=kind is StatusClass.TERMINAL,
        is_streaming=(is_active and facts.has_stream) or may_stream,
        blocks_queued_dispatch=not is_free or not facts.is_verified,
        can_queue_message=facts.is_reachable and facts.status != TaskStatus.DELETE,
        can_cancel_task=facts.status in CANCELLABLE,
        should_join_room=is_active and not facts.joined_room,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What the log says of a session, as far as its status goes.

    `turn`: the state of the turn that began last; `unknown` also where it is not known which that is.
    `prompt_accepted`: a prompt waits for a turn that has not begun. `is_blocked`: a dialog or an approval is open.
    `cancel_requested`: of the open turn or, with none open, of the accepted prompt, and its delivery has not failed;
    one that was recorded with a closed turn does not count.
    """

    turn: TurnState | None = None
    prompt_accepted: bool = False
    is_blocked: bool = False
    cancel_requested: bool = False
    is_deleted: bool = False


# An abandoned turn has no owner and no end: recovery may adopt its agent, and it runs on, or close it, and it failed.
STATUS_OF_TURN: Final[Mapping[TurnState, TaskStatus]] = {
    TurnState.RUNNING: TaskStatus.RUNNING,
    TurnState.WAITING: TaskStatus.PENDING_CONFIRMATION,
    TurnState.ABANDONED: TaskStatus.UNKNOWN,
    TurnState.UNKNOWN: TaskStatus.UNKNOWN,
    TurnState.COMPLETED: TaskStatus.COMPLETED,
    TurnState.PARTIAL_FAILED: TaskStatus.FAILED,
    TurnState.FAILED: TaskStatus.FAILED,
    TurnState.TIMED_OUT: TaskStatus.FAILED,
    TurnState.INTERRUPTED: TaskStatus.CANCELLED,
}


def task_status(facts: SessionFacts) -> TaskStatus | None:
    """The status of a session. None: no prompt yet. `UNKNOWN`: nothing is proven until recovery has closed the turn."""
    if facts.is_deleted:
        return TaskStatus.DELETE
    if facts.turn in (TurnState.ABANDONED, TurnState.UNKNOWN):
        return TaskStatus.UNKNOWN
    is_open = facts.turn is not None and not facts.turn.is_terminal
    if facts.cancel_requested and (is_open or facts.prompt_accepted):
        return TaskStatus.CANCELLING
    if is_open and facts.is_blocked:
        return TaskStatus.PENDING_CONFIRMATION
    if facts.prompt_accepted and not is_open:
        return TaskStatus.PENDING
    return None if facts.turn is None else STATUS_OF_TURN[facts.turn]
