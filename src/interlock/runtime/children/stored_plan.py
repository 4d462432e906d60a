"""What the log keeps of a workflow's plan, so that another runtime can take the workflow up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

import msgspec

from interlock.lifecycle.children import workflow as machine
from interlock.lifecycle.children.workflow import WorkflowRecord
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.lifecycle.children.workflow_step import OUTCOMES, StepEvidence, StepRecord
from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import SessionOpened, WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import StepState, WorkflowState
from interlock.vocabulary.wire.resources import AskedWorktree


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps, the folder in which they work, and each agent as sessions have it in their logs: without the values of
    variables. `text` and `params` are what a person gave, `digest` is that of the text. `bases`: the commits that its
    names of bases were when it began; none where it has no trees of its own. `worktree`: how those are prepared."""

    spec: WorkflowSpec
    folder: str
    agents: dict[str, SessionOpened] = {}
    text: str = ""
    params: dict[str, Json] = {}
    digest: str = ""
    bases: dict[str, str] = {}
    worktree: AskedWorktree | None = None


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def plan_in(started: WorkflowEvent) -> StoredPlan | None:
    """The plan that the start of a workflow has; None: it has none that can be read."""
    try:
        return None if started.plan is None else msgspec.convert(started.plan, StoredPlan)
    except (msgspec.ValidationError, UsageError):
        return None


def taken_up(begun: WorkflowRecord, spine: Sequence[WorkflowEvent]) -> WorkflowRecord:
    """The workflow as its facts have it. `UsageError` if it is over, or if they are not those of this plan."""
    steps = {step.id: step for step in begun.steps}
    deadline, closed = begun.deadline, ""
    for fact in spine:
        deadline = fact.deadline_at or deadline
        if fact.kind is WorkflowEventKind.WORKFLOW_FINISHED:
            raise UsageError(f"workflow {fact.workflow_id} is over", remedy="give each run an id of its own")
        if fact.kind is WorkflowEventKind.BUDGET_USED_UP:
            closed = fact.reason
        if fact.kind is WorkflowEventKind.STEPS_ADDED and fact.step_id is not None:
            added = msgspec.convert(fact.plan, tuple[StepSpec, ...])
            begun = machine.with_added(begun, fact.step_id, added)
            steps |= {one.id: StepRecord(one.id) for one in added}
        if fact.step_id is None or fact.step_state is None:
            continue
        if fact.step_id not in steps:
            raise UsageError(f"step {fact.step_id!r} is not in this plan", remedy="begin it again with the same plan")
        steps[fact.step_id] = _step_of(fact, steps[fact.step_id], fact.step_state)
    record = replace(begun, steps=tuple(steps.values()), closed=closed)
    status = machine.MACHINE.next_state(record.status, machine.STEPS_CHANGED, record)
    return replace(record, status=status, deadline=deadline if status is WorkflowState.RUNNING else None)


@dataclass(frozen=True, slots=True)
class StoredWorkflow:
    """A workflow as its log has it, also one that is over. `reason`: why it was cut short, if it was."""

    plan: StoredPlan
    record: WorkflowRecord
    status: WorkflowState
    reason: str
    next_actions: tuple[NextAction, ...]


def workflow_in(spine: Sequence[WorkflowEvent], began_at: datetime) -> StoredWorkflow | None:
    """Read a workflow from its facts; None: its plan is not among them."""
    plan = plan_in(spine[0]) if spine else None
    if plan is None:
        return None
    begun, _ = machine.begin(plan.spec, began_at)
    ends = [fact for fact in spine if fact.kind is WorkflowEventKind.WORKFLOW_FINISHED]
    record = taken_up(begun, [fact for fact in spine if fact.kind is not WorkflowEventKind.WORKFLOW_FINISHED])
    if not ends or ends[0].status is None:
        advice = machine.workflow_result(record.spec, record.steps).safe_next_actions
        return StoredWorkflow(plan, record, record.status, "", advice)
    return StoredWorkflow(plan, record, ends[0].status, ends[0].reason, ends[0].next_actions)


def _step_of(fact: WorkflowEvent, known: StepRecord, state: StepState) -> StepRecord:
    is_round = fact.kind is WorkflowEventKind.ROUND_BEGUN
    lost = known.lost + (fact.kind is WorkflowEventKind.STEP_RETRIED)
    if state is StepState.PENDING and fact.kind is not WorkflowEventKind.STEP_RETRIED:
        lost = 0
    record = StepRecord(
        known.id,
        state if state not in OUTCOMES else StepState.PENDING,
        fact.subagent_id,
        attempt=fact.attempt or 1,
        round=fact.round or 1,
        lost=lost,
        told=fact.summary if is_round else "",
        answer_by=fact.answer_by,
    )
    if state not in OUTCOMES:
        return record
    evidence = StepEvidence(
        state=state,
        summary=fact.summary,
        checkpoint=fact.checkpoint,
        reason=fact.reason,
        timeout_ms=fact.timeout_ms,
        elapsed_ms=fact.elapsed_ms,
        next_actions=fact.next_actions,
    )
    return replace(record, state=state, evidence=evidence)
