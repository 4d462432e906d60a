"""What the result of a tool call amounts to. That a tool returned is not that what it was asked for is done.

Some tools report on work that others do: one waits for subagents, others run a workflow or a plan. Their result may be
`ok` (the tool itself did its duty) and tell of a partial outcome. They count as succeeded only if they say, in a
`status` field, that all is completed; prose is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from interlock.lifecycle.children.subagents import WaitStatus
from interlock.lifecycle.decisions.toolcall import CANCELLING_KINDS
from interlock.vocabulary.events.conversation import ToolResult
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import WorkflowState

WAIT_TOOL: Final = "wait_agent"
WORKFLOW_TOOL: Final = "run_workflow"
PLAN_TOOL: Final = "run_plan"


class ToolOutcome(StrEnum):
    """How a call ended. `unknown`: nothing says."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


_WORKFLOW_OUTCOMES: Final[Mapping[WorkflowState, ToolOutcome]] = {
    WorkflowState.COMPLETED: ToolOutcome.SUCCEEDED,
    WorkflowState.PARTIAL: ToolOutcome.PARTIAL,
    WorkflowState.HELD: ToolOutcome.PARTIAL,
    WorkflowState.RUNNING: ToolOutcome.PARTIAL,
    WorkflowState.FAILED: ToolOutcome.FAILED,
    WorkflowState.TIMED_OUT: ToolOutcome.FAILED,
}
_WAIT_OUTCOMES: Final[Mapping[WaitStatus, ToolOutcome]] = {
    WaitStatus.COMPLETED: ToolOutcome.SUCCEEDED,
    WaitStatus.PARTIAL: ToolOutcome.PARTIAL,
    WaitStatus.INCOMPLETE: ToolOutcome.PARTIAL,
    WaitStatus.NOTHING_TO_WAIT_FOR: ToolOutcome.UNKNOWN,
}


def outcome_of(tool_name: str, result: ToolResult) -> ToolOutcome:
    """Read a result, given which tool it came from."""
    if result.error is not None:
        return ToolOutcome.CANCELLED if result.error.kind in CANCELLING_KINDS else ToolOutcome.FAILED
    if tool_name == WAIT_TOOL:
        waited = wait_status(result.output)
        return ToolOutcome.UNKNOWN if waited is None else _WAIT_OUTCOMES[waited]
    if tool_name in (WORKFLOW_TOOL, PLAN_TOOL):
        ended = workflow_status(result.output)
        return ToolOutcome.UNKNOWN if ended is None else _WORKFLOW_OUTCOMES[ended]
    return ToolOutcome.SUCCEEDED


def workflow_outcome(status: WorkflowState | None) -> ToolOutcome:
    """What the end of a workflow amounts to; only full completion succeeds."""
    return ToolOutcome.UNKNOWN if status is None else _WORKFLOW_OUTCOMES[status]


def wait_status(output: Json) -> WaitStatus | None:
    """What a wait says it came to; None if it does not say so in so many words."""
    said = output.get("status") if isinstance(output, dict) else None
    return WaitStatus(said) if isinstance(said, str) and said in _WAITS else None


def workflow_status(output: Json) -> WorkflowState | None:
    """What a workflow's result says it came to. One that says `completed` and not `ok` contradicts itself."""
    said = output.get("status") if isinstance(output, dict) else None
    try:
        status = WorkflowState(said) if isinstance(said, str) else None
    except ValueError:
        return None
    is_denied = isinstance(output, dict) and output.get("ok", True) is not True
    return None if status is WorkflowState.COMPLETED and is_denied else status


_WAITS: Final = frozenset(status.value for status in WaitStatus)
