"""How the workflow of a session stands, as one line of a board counts it.

Laws:
1. Of several workflows the one shown is open, or else the one that began last.
2. A step counts as ready only if it is `checkpoint_ready`, and as held while a person has to decide about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.lifecycle.children.workflow import MACHINE
from interlock.vocabulary.events.audit import WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.ids import StepId, WorkflowId
from interlock.vocabulary.states import StepState, WorkflowState
from interlock.vocabulary.wire.frames import WorkflowCounts

WAITS_FOR_DECISION = (StepState.HELD, StepState.NEEDS_ORCHESTRATOR)


@dataclass(slots=True)
class _Known:
    """One workflow. `planned`: how many steps its plan has, as far as the log tells."""

    planned: int
    end: WorkflowState | None = None
    steps: dict[StepId, StepState] = field(default_factory=dict)

    def counts(self, workflow_id: WorkflowId) -> WorkflowCounts:
        states = list(self.steps.values())
        held = sum(state in WAITS_FOR_DECISION for state in states)
        is_running = StepState.RUNNING in states
        open_status = WorkflowState.HELD if held and not is_running else WorkflowState.RUNNING
        return WorkflowCounts(
            id=workflow_id,
            status=self.end or open_status,
            ready=states.count(StepState.CHECKPOINT_READY),
            total=max(self.planned, len(states)),
            held=held,
        )


@dataclass(slots=True)
class WorkflowFold:
    """Feed it every fact of the session's workflows, in order."""

    _known: dict[WorkflowId, _Known] = field(default_factory=dict)
    _told: WorkflowCounts | None = None

    def add(self, fact: WorkflowEvent) -> None:
        known = self._known.get(fact.workflow_id)
        if known is None:
            known = self._known[fact.workflow_id] = _Known(_steps_of(fact))
        if fact.step_id is not None and fact.step_state is not None:
            known.steps[fact.step_id] = fact.step_state
        if fact.kind is WorkflowEventKind.WORKFLOW_FINISHED:
            known.end = fact.status
        self._told = None

    @property
    def shown(self) -> WorkflowCounts | None:
        if self._told is None and self._known:
            is_open = [one for one, known in self._known.items() if known.end not in MACHINE.terminal]
            chosen = (is_open or list(self._known))[-1]
            self._told = self._known[chosen].counts(chosen)
        return self._told


def _steps_of(started: WorkflowEvent) -> int:
    """How many steps the plan of a start has; 0 where the log has no plan."""
    spec = started.plan.get("spec") if isinstance(started.plan, dict) else None
    steps = spec.get("steps") if isinstance(spec, dict) else None
    return len(steps) if isinstance(steps, list) else 0
