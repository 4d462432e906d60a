"""The words for states, shared by the log, the machines and every surface. Their tables live in `lifecycle/`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class AgentState(StrEnum):
    """What a living agent is doing: the substate of a spawn."""

    IDLE = "idle"
    THINKING = "thinking"
    RUNNING_TOOL = "running_tool"
    RESPONDING = "responding"


class Lifecycle(StrEnum):
    """Whether an agent's process lives, and in what shape."""

    SPAWNING = "spawning"
    WORKING = "working"
    IDLE = "idle"
    KILLED = "killed"


class ExitReason(StrEnum):
    """Why a spawn ended. `unclean` is what is left when nobody saw the end."""

    CLEAN = "clean"
    IDLE_TTL = "idle_ttl"
    STOPPED = "stopped"
    CRASHED = "crashed"
    OOM = "oom"
    REPLACED = "replaced"
    UNCLEAN = "unclean"


class TurnState(StrEnum):
    """How a turn stands. Two are readings and never a record: `abandoned`, of an open turn whose owner is known to be
    dead, and `unknown`, of a turn of which events are lost."""

    RUNNING = "running"
    WAITING = "waiting"
    ABANDONED = "abandoned"
    UNKNOWN = "unknown"
    COMPLETED = "completed"
    PARTIAL_FAILED = "partial_failed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    TIMED_OUT = "timed_out"

    @property
    def is_terminal(self) -> bool:
        return self in TURN_TERMINAL


TURN_TERMINAL: Final = frozenset(
    {
        TurnState.COMPLETED,
        TurnState.PARTIAL_FAILED,
        TurnState.FAILED,
        TurnState.INTERRUPTED,
        TurnState.TIMED_OUT,
    }
)


class ToolCallStatus(StrEnum):
    """Where one tool call stands."""

    NEW = "new"
    RUNNING = "running"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SubagentState(StrEnum):
    """Where a child session stands, as its parent records it. `cancelled` is read as `interrupted`."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    DETACHED = "detached"

    @classmethod
    def _missing_(cls, value: object) -> SubagentState | None:
        return _SUBAGENT_SPELLINGS.get(value)


_SUBAGENT_SPELLINGS: Final[Mapping[object, SubagentState]] = {
    "cancelled": SubagentState.INTERRUPTED,
    "finished": SubagentState.COMPLETED,
}


class StepState(StrEnum):
    """Where one step of a workflow stands."""

    PENDING = "pending"
    RUNNING = "running"
    CHECKPOINT_READY = "checkpoint_ready"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    HELD = "held"
    NEEDS_ORCHESTRATOR = "needs_orchestrator"


class WorkflowState(StrEnum):
    """How a workflow stands. The seed's second spellings are read as the first."""

    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    HELD = "held"

    @classmethod
    def _missing_(cls, value: object) -> WorkflowState | None:
        return _WORKFLOW_SPELLINGS.get(value)


_WORKFLOW_SPELLINGS: Final[Mapping[object, WorkflowState]] = {
    "completion_ready": WorkflowState.COMPLETED,
    "partial_outcome_ready": WorkflowState.PARTIAL,
    "needs_orchestrator": WorkflowState.HELD,
}


class TaskStatus(StrEnum):
    """What clients call the state of a session. None at all (null): no prompt was ever accepted. `UNKNOWN`: a turn
    began, and nobody can say how it stands, because no server runs it or events of it are lost."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    PENDING_CONFIRMATION = "PENDING_CONFIRMATION"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DELETE = "DELETE"
    UNKNOWN = "UNKNOWN"


class Activity(StrEnum):
    """The first axis of what a person sees: what the agent is doing."""

    STARTING = "starting"
    WORKING = "working"
    SETTLING = "settling"
    QUIET = "quiet"
    STALLED = "stalled"
    GONE = "gone"
    UNKNOWN = "unknown"


class Attention(StrEnum):
    """The second axis: whether, and for what, the agent needs a person. `decision` and `held` are said of a badge only:
    a step of a workflow waits for a decision, and prompts wait behind a closed gate."""

    NONE = "none"
    APPROVAL = "approval"
    QUESTION = "question"
    PLAN = "plan"
    DECISION = "decision"
    AUTH = "auth"
    QUOTA = "quota"
    ERROR = "error"
    HELD = "held"


class Outcome(StrEnum):
    """How the last turn of a session ended. `new`: there never was a prompt. `unknown`: events of it are lost."""

    NEW = "new"
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class BoardGroup(StrEnum):
    """Where a session stands on a board, in the order of the board. `done`: its last turn completed, and nobody has
    looked at it yet; once somebody has, it is `idle`."""

    NEEDS_YOU = "needs_you"
    STUCK = "stuck"
    WORKING = "working"
    DONE = "done"
    IDLE = "idle"
    ENDED = "ended"


class DriverKind(StrEnum):
    """How we talk to an agent. A terminal is the one kind whose answer text we do not own."""

    TERMINAL = "terminal"
    STREAM = "stream"
    ACP = "acp"
    MODEL = "model"


class PromptState(StrEnum):
    """Where one prompt stands."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    REMOVED = "removed"
