"""What a task's machine is told, and what it asks for. Time is no part of an input: it is an argument of `step`.

A question that goes out bears a generation, and its answer brings it back: an answer to anything but the question that
is open now changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, StreamId, TurnId
from interlock.vocabulary.wire.frames import RuntimeCheck, TaskFrame, TaskSnapshot


class CheckReason(StrEnum):
    """Why a check is made. It is recorded, and changes nothing else."""

    PAGE_VISIBLE = "page-visible"
    WEBSOCKET_RECONNECT = "websocket-reconnect"
    QUEUED_MESSAGE_BLOCKED = "queued-message-blocked"
    TASK_SELECTED = "task-selected"
    MANUAL_REFRESH = "manual-refresh"
    NETWORK_ONLINE = "network-online"
    RUNTIME_INSTABILITY_PROBE = "runtime-instability-probe"


@dataclass(frozen=True, slots=True)
class Opened:
    """Somebody looks at the task."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Nobody looks at it any more."""


@dataclass(frozen=True, slots=True)
class CheckRequested:
    """Look where the task stands. Every trigger from outside comes this way."""

    reason: CheckReason


@dataclass(frozen=True, slots=True)
class CheckAnswered:
    """The server said where the task stands."""

    generation: int
    check: RuntimeCheck


@dataclass(frozen=True, slots=True)
class CheckFailed:
    """It did not. `is_gone`: it said that there is no such task for us."""

    generation: int
    problem: str
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class JoinAcked:
    """We are in the room, and this is all that was said before."""

    generation: int
    snapshot: TaskSnapshot = field(hash=False)  # it holds JSON, which has no hash


@dataclass(frozen=True, slots=True)
class JoinFailed:
    """We are not. `is_final`: asking again would change nothing."""

    generation: int
    problem: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """The room said something."""

    frame: TaskFrame = field(hash=False)


@dataclass(frozen=True, slots=True)
class FellBehind:
    """Frames up to `tick` were not sent to us."""

    version: int
    tick: int


@dataclass(frozen=True, slots=True)
class Connected:
    """There is a socket, and it is a new one."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The socket is gone."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailSynced:
    """Some other page of the server told this of the task."""

    task_status: str | None
    version: int
    turn_id: TurnId | None = None
    status_updated_at: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHeard:
    """A word on the task came from outside its room, as from the board."""

    task_status: str | None
    version: int
    turn_id: TurnId | None = None
    status_updated_at: Moment | None = None


@dataclass(frozen=True, slots=True)
class SendAccepted:
    """The server took a prompt of ours."""

    prompt_id: PromptId


@dataclass(frozen=True, slots=True)
class StopPressed:
    """Somebody wants the task to stop."""


@dataclass(frozen=True, slots=True)
class CancelAcked:
    """The server took the stop. Delivered is not stopped."""

    is_delivered: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CancelFailed:
    """The stop was not taken."""

    problem: str


@dataclass(frozen=True, slots=True)
class QueueHeld:
    """So many messages wait in this client for the task to be free."""

    count: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Time passed."""


OpenInput: TypeAlias = (
    Closed
    | CheckRequested
    | CheckAnswered
    | CheckFailed
    | JoinAcked
    | JoinFailed
    | FrameArrived
    | FellBehind
    | DetailSynced
    | StatusHeard
    | SendAccepted
    | StopPressed
    | CancelAcked
    | CancelFailed
    | QueueHeld
)
"""What means nothing to a task that is closed."""

TaskInput: TypeAlias = Opened | Connected | Disconnected | TimerFired | OpenInput


@dataclass(frozen=True, slots=True)
class PullRuntime:
    """Ask the runtime check, by HTTP. No answer by `deadline_at` is a failure."""

    generation: int
    reason: CheckReason
    deadline_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Enter the room by the socket. A resume leaves out what is known: messages up to `after_version`, and of the
    stream `stream_id` the text before `cursor`."""

    generation: int
    is_resume: bool
    after_version: int | None = None
    stream_id: StreamId | None = None
    cursor: int = 0
    deadline_at: float


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the room."""


@dataclass(frozen=True, slots=True)
class EnsureConnected:
    """A socket is needed now. With one there already this asks for nothing."""


Output: TypeAlias = PullRuntime | Join | Leave | EnsureConnected
