"""The workflow: steps over children, and a result that follows from what the steps have to show.

Laws:
1. How the workflow stands is decided by the table, in this order, whenever a step changes:

   | # | If | it is |
   | --- | --- | --- |
   | 1 | a step runs, or one could start | `running` |
   | 2 | every required step is `checkpoint_ready` | `completed` |
   | 3 | it is not closed, and a step that is not lost waits for a decision | `held` |
   | 4 | some step is `checkpoint_ready` or `partial` | `partial` |
   | 5 | a step timed out, or the workflow did | `timed_out` |
   | 6 | nothing of all this | `failed` |

2. `ok` means `completed`, and nothing else does. Optional steps are waited for, and do not decide.
3. `completed`, `partial`, `failed` and `timed_out` are final: nothing that is reported later changes anything.
   `held` is no end: a decision leads on, and so does `stop`.
4. A gate has a deadline of its own, from when it asks: what is due is given up before the input is looked at.
   A workflow that runs has a deadline, which is its whole `timeout_ms` again after a decision; a held one has none, for
   the time that a person takes is not the workflow's. A due deadline comes before the input: running steps are timed
   out, pending ones held, the workflow is closed, and the input is not applied but noted.
   When its budget is used up it is closed as well, and what runs goes on to its end: no further step, round or attempt.
5. Each step that moves, or begins another round, gives one fact. Nothing else moves a step but the table of
   `workflow_step`.
6. Commands are strict: one that the tables do not allow is a `ContractError` and changes nothing. Reports that come
   late, or from a child that does not run the step, are noted and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar, Final, TypeAlias, assert_never

from msgspec import json, structs

from interlock.lifecycle.children.workflow_plan import (
    GIVE_UP,
    STOP_CHOICE,
    StepSpec,
    WorkflowSpec,
    due_expansions,
    due_gates,
    due_joins,
    held_steps,
    lost_steps,
    ready_steps,
    with_items,
)
from interlock.lifecycle.children.workflow_step import (
    DEPENDENCY_LOST,
    GATE_EXPIRED,
    GATE_REACHED,
    ITEMS_READY,
    NO_ITEMS,
    STEP_MACHINE,
    WAITING,
    WORKFLOW_COMPLETED,
    WORKFLOW_EXPIRED,
    WORKFLOW_SPENT,
    WORKFLOW_STOPPED,
    AnswerGate,
    GiveUpStep,
    ReleaseStep,
    StartStep,
    StepCommand,
    StepContext,
    StepEvidence,
    StepRecord,
    StepReported,
    a_round_is_left,
)
from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import Anomaly, WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import StepId
from interlock.vocabulary.states import StepState, WorkflowState

WORKFLOW_TIMEOUT: Final = "workflow_timeout"
NOBODY_ANSWERED: Final = "nobody_answered_in_time"


@dataclass(frozen=True, slots=True)
class StopWorkflow:
    """End the whole workflow now."""

    on: ClassVar[str] = "stop"
    reason: str


@dataclass(frozen=True, slots=True)
class AddSteps:
    """Make a step for each item; `problem`: why that cannot be."""

    on: ClassVar[str] = "add_steps"
    step_id: StepId
    steps: tuple[StepSpec, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class BudgetUsedUp:
    """Nothing more may start: what runs goes on to its end."""

    on: ClassVar[str] = "budget_used_up"
    reason: str


@dataclass(frozen=True, slots=True)
class WorkflowTimerFired:
    """Look at the deadline."""

    on: ClassVar[str] = "timer_fired"


WorkflowInput: TypeAlias = StepCommand | StopWorkflow | BudgetUsedUp | AddSteps | StepReported | WorkflowTimerFired
Output: TypeAlias = WorkflowEvent | Anomaly


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    """A workflow that was begun. `deadline` is set exactly while it runs; `closed` says why it was cut short."""

    spec: WorkflowSpec
    steps: tuple[StepRecord, ...]
    status: WorkflowState
    deadline: datetime | None
    closed: str = ""

    def __post_init__(self) -> None:
        if [step.id for step in self.steps] != [step.id for step in self.spec.steps]:
            raise ContractError(f"the steps of workflow {self.spec.id} are not those of its plan")

    @property
    def states(self) -> Mapping[StepId, StepState]:
        return {step.id: step.state for step in self.steps}

    @property
    def next_deadline(self) -> datetime | None:
        """When the clock decides something, if it ever does: about the workflow, or about a gate."""
        gates = (one.answer_by for one in self.steps if one.state is StepState.HELD and self._is_given_up(one))
        return min((one for one in (self.deadline, *gates) if one is not None), default=None)

    def _is_given_up(self, step: StepRecord) -> bool:
        return next(one.on_timeout for one in self.spec.steps if one.id == step.id) == GIVE_UP and not self.closed

    @property
    def is_terminal(self) -> bool:
        return self.status in MACHINE.terminal


def work_is_left(at: WorkflowRecord) -> bool:
    is_due = bool(ready_steps(at.spec, at.states) or due_expansions(at.spec, at.states))
    return is_due or StepState.RUNNING in at.states.values()


def every_required_step_is_ready(at: WorkflowRecord) -> bool:
    return all(at.states[step.id] is StepState.CHECKPOINT_READY for step in at.spec.steps if step.required)


def a_decision_is_awaited(at: WorkflowRecord) -> bool:
    lost = lost_steps(at.spec, at.states)
    return not at.closed and any(step.state in WAITING and step.id not in lost for step in at.steps)


def something_is_usable(at: WorkflowRecord) -> bool:
    return not {StepState.CHECKPOINT_READY, StepState.PARTIAL}.isdisjoint(at.states.values())


def time_ran_out(at: WorkflowRecord) -> bool:
    return at.closed == WORKFLOW_TIMEOUT or StepState.TIMED_OUT in at.states.values()


STEPS_CHANGED: Final = "steps_changed"
_OPEN: Final = (WorkflowState.RUNNING, WorkflowState.HELD)

TRANSITIONS: Final[tuple[Edge[WorkflowState, WorkflowRecord], ...]] = (
    *from_each(_OPEN, STEPS_CHANGED, WorkflowState.RUNNING, work_is_left),
    *from_each(_OPEN, STEPS_CHANGED, WorkflowState.COMPLETED, every_required_step_is_ready),
    *from_each(_OPEN, STEPS_CHANGED, WorkflowState.HELD, a_decision_is_awaited),
    *from_each(_OPEN, STEPS_CHANGED, WorkflowState.PARTIAL, something_is_usable),
    *from_each(_OPEN, STEPS_CHANGED, WorkflowState.TIMED_OUT, time_ran_out),
    *from_each(_OPEN, STEPS_CHANGED, WorkflowState.FAILED),
)

MACHINE: Final[Machine[WorkflowState, WorkflowRecord]] = Machine(
    name="workflow",
    title="How a workflow stands, by the evidence of its steps",
    states=WorkflowState,
    initial=WorkflowState.RUNNING,
    edges=TRANSITIONS,
    laws=__doc__,
    observations=frozenset({STEPS_CHANGED}),
    terminal=frozenset(WorkflowState) - set(_OPEN),
)

MACHINES: Final = (MACHINE, STEP_MACHINE)


def begin(spec: WorkflowSpec, now: datetime) -> tuple[WorkflowRecord, tuple[WorkflowEvent, ...]]:
    """A workflow of which nothing has run yet."""
    steps = tuple(StepRecord(step.id) for step in spec.steps)
    record = WorkflowRecord(spec, steps, MACHINE.initial, _deadline(spec, now))
    started = WorkflowEvent(
        kind=WorkflowEventKind.WORKFLOW_STARTED,
        workflow_id=spec.id,
        status=record.status,
        summary=spec.name,
        timeout_ms=spec.timeout_ms,
    )
    settled = _settle(record, now)
    started = structs.replace(started, status=settled.status, deadline_at=settled.deadline)
    return settled, (started, *_facts(record, settled))


def step(state: WorkflowRecord, input: WorkflowInput, now: datetime) -> tuple[WorkflowRecord, tuple[Output, ...]]:
    """Apply one input. The outputs are what to append, in order: a fact for each step that moved, and the end."""
    if state.deadline is not None and now >= state.deadline:
        expired = _settle(_close(state, WORKFLOW_EXPIRED, WORKFLOW_TIMEOUT, now), now)
        overtaken = () if isinstance(input, WorkflowTimerFired) else (_anomaly("overtaken_by_deadline", state, input),)
        return expired, (*_facts(state, expired), *overtaken)
    expired = _expire_gates(state, now)
    if expired is not state:
        after, outputs = step(expired, input, now)
        return after, (*_facts(state, expired), *outputs)
    match input:
        case WorkflowTimerFired():
            return state, ()
        case StepReported():
            moved = _believe(state, input)
        case BudgetUsedUp() | AddSteps():
            return _alter(state, input, now)
        case StopWorkflow(reason):
            _refuse_if_terminal(state, input)
            moved = _close(state, WORKFLOW_STOPPED, _said(reason), now)
        case StartStep() | ReleaseStep() | GiveUpStep() | AnswerGate():
            _refuse_if_terminal(state, input)
            if state.closed:
                raise ContractError(f"workflow {state.spec.id} is ending ({state.closed}): {input.on!r} comes too late")
            moved = _obey(state, input)
        case unreachable:
            assert_never(unreachable)
    if moved == state:
        return state, (_anomaly("late_step_report", state, input),)
    settled = _settle(moved, now)
    return settled, _facts(state, settled, _why(input))


def _why(input: WorkflowInput) -> str:
    """Why a step is to run again."""
    match input:
        case ReleaseStep(_, reason):
            return reason
        case StepReported(_, _, shown):
            return f"{shown.cause}: {shown.reason}" if shown.cause else shown.reason
        case _:
            return ""


def _obey(state: WorkflowRecord, input: StepCommand) -> WorkflowRecord:
    known = _step(state, input.step_id)
    if known is None:
        raise ContractError(f"workflow {state.spec.id} has no step {input.step_id!r}")
    target = STEP_MACHINE.next_state(known.state, input.on, StepContext(state.spec, state.states, known))
    match input:
        case StartStep(_, child):
            return _with(state, StepRecord(known.id, target, child, attempt=known.attempt, lost=known.lost))
        case ReleaseStep(_, reason):
            _said(reason)
            return _with(state, StepRecord(known.id, target, attempt=known.attempt + 1))
        case AnswerGate():
            return _with(state, _answered(state, known, target, input))
        case GiveUpStep(_, reason):
            return _with(state, replace(known, state=target, evidence=StepEvidence(state=target, reason=_said(reason))))
        case unreachable:
            assert_never(unreachable)


def _answered(state: WorkflowRecord, known: StepRecord, target: StepState, input: AnswerGate) -> StepRecord:
    choices = next(step.choices for step in state.spec.steps if step.id == known.id)
    if input.choice not in choices:
        raise ContractError(f"gate {known.id} takes {', '.join(choices)}, not {input.choice!r}")
    is_stopped = input.choice == STOP_CHOICE
    state_after = StepState.FAILED if is_stopped else target
    checkpoint: Json = {
        "status": state_after.value,
        "proof": "decision",
        "choice": input.choice,
        "reason": input.reason,
        "decided_by": input.decided_by,
    }
    if is_stopped:
        reason = input.reason.strip() or "answered: stop"
        given_up = StepEvidence(state=state_after, reason=reason, checkpoint=checkpoint)
        return replace(known, state=state_after, evidence=given_up)
    shown = StepEvidence(state=target, summary=f"answered: {input.choice}", checkpoint=checkpoint)
    return replace(known, state=target, evidence=shown)


def _believe(state: WorkflowRecord, input: StepReported) -> WorkflowRecord:
    known = _step(state, input.step_id)
    if known is None:
        return state
    shown = input.evidence
    if state.closed:  # nothing of it starts once more
        shown = replace(shown, again="", cause="")
    context = StepContext(state.spec, state.states, known, input.child, shown)
    target = STEP_MACHINE.next_state(known.state, input.on, context)
    if target is StepState.RUNNING and a_round_is_left(context):
        return _with(state, replace(known, round=known.round + 1, told=shown.again))
    if target is known.state:
        return state
    if target is StepState.PENDING:
        again = StepRecord(known.id, target, attempt=known.attempt + 1, lost=known.lost + 1)
        return _with(state, again)
    if target is not shown.state:
        reason = f"to_be_done_once: {shown.reason}; look at what it did before it runs again"
        shown = replace(shown, state=target, reason=reason)
    return _with(state, replace(known, state=target, evidence=shown))


def _close(state: WorkflowRecord, on: str, reason: str, now: datetime) -> WorkflowRecord:
    """Cut short: what runs ends, what is pending is held, what waits for a decision keeps what it has to show."""
    for one in state.steps:
        state = _signal(state, one, on, reason, now)
    return replace(state, closed=reason)


def _expire_gates(state: WorkflowRecord, now: datetime) -> WorkflowRecord:
    """Give up the gates that nobody answered in time, where the plan says so."""
    expired = state
    for known in () if state.is_terminal or state.closed else state.steps:
        context = StepContext(expired.spec, expired.states, known, now=now)
        target = STEP_MACHINE.next_state(known.state, GATE_EXPIRED, context)
        if target is not known.state and known.answer_by is not None:
            shown = StepEvidence(state=target, reason=NOBODY_ANSWERED)
            expired = _with(expired, replace(known, state=target, evidence=shown))
    return state if expired is state else _settle(expired, now)


def with_added(state: WorkflowRecord, step_id: StepId, steps: tuple[StepSpec, ...]) -> WorkflowRecord:
    """The workflow with the steps that one stands for, none of which has begun."""
    spec = with_items(state.spec, step_id, steps)
    return replace(state, spec=spec, steps=(*state.steps, *(StepRecord(one.id) for one in steps)))


def _alter(
    state: WorkflowRecord, input: BudgetUsedUp | AddSteps, now: datetime
) -> tuple[WorkflowRecord, tuple[Output, ...]]:
    return _spend(state, input.reason, now) if isinstance(input, BudgetUsedUp) else _add_steps(state, input, now)


def _add_steps(state: WorkflowRecord, input: AddSteps, now: datetime) -> tuple[WorkflowRecord, tuple[Output, ...]]:
    """Once, and only while the step is to be expanded."""
    if state.closed or input.step_id not in due_expansions(state.spec, state.states):
        return state, (_anomaly("late_items", state, input),)
    if input.problem:
        known = next(one for one in state.steps if one.id == input.step_id)
        refused = _settle(_signal(state, known, NO_ITEMS, input.problem, now), now)
        return refused, _facts(state, refused)
    added = with_added(state, input.step_id, input.steps)
    fact = WorkflowEvent(
        kind=WorkflowEventKind.STEPS_ADDED,
        workflow_id=state.spec.id,
        step_id=input.step_id,
        plan=json.decode(json.encode(input.steps)),
    )
    settled = _settle(added, now)
    return settled, (fact, *_facts(added, settled))


def _join(state: WorkflowRecord) -> WorkflowRecord:
    """Those that stand for others are ready when all of these are; that may make further ones ready."""
    while due := due_joins(state.spec, state.states):
        known = next(one for one in state.steps if one.id == due[0])
        target = STEP_MACHINE.next_state(known.state, ITEMS_READY, StepContext(state.spec, state.states, known))
        items: list[Json] = [one.id for one in state.spec.steps if one.id.startswith(f"{known.id}:")]
        checkpoint: Json = {"status": target.value, "proof": "items", "items": items}
        shown = StepEvidence(state=target, summary=f"{len(items)} items are ready", checkpoint=checkpoint)
        state = _with(state, replace(known, state=target, evidence=shown))
    return state


def _spend(state: WorkflowRecord, reason: str, now: datetime) -> tuple[WorkflowRecord, tuple[Output, ...]]:
    """Hold what is pending, and let what runs end; told once."""
    if state.closed or state.is_terminal:
        return state, ()
    fact = WorkflowEvent(
        kind=WorkflowEventKind.BUDGET_USED_UP, workflow_id=state.spec.id, reason=reason, status=state.status
    )
    spent = _settle(_close(state, WORKFLOW_SPENT, reason, now), now)
    return spent, (fact, *_facts(state, spent))


def _settle(state: WorkflowRecord, now: datetime) -> WorkflowRecord:
    """Hold what is lost, ask the gates that are due, then let the table say how the workflow stands."""
    state = state if state.closed else _join(state)
    for gate in () if state.closed else due_gates(state.spec, state.states):
        known = next(step for step in state.steps if step.id == gate)
        timeout_ms = next(step.timeout_ms for step in state.spec.steps if step.id == gate)
        if timeout_ms is not None:
            known = replace(known, answer_by=now + timedelta(milliseconds=timeout_ms))
        state = _signal(state, known, GATE_REACHED, GATE_REACHED, now)
    held = frozenset(held_steps(state.spec, state.states))
    for one in state.steps:
        if one.id in held:
            state = _signal(state, one, DEPENDENCY_LOST, DEPENDENCY_LOST, now)
    status = MACHINE.next_state(state.status, STEPS_CHANGED, state)
    if status is WorkflowState.COMPLETED:
        # Optional steps may still be pending, behind one that waits for a decision: nobody will start them now.
        for one in state.steps:
            state = _signal(state, one, WORKFLOW_COMPLETED, WORKFLOW_COMPLETED, now)
    deadline = None
    if status is WorkflowState.RUNNING:
        deadline = state.deadline or _deadline(state.spec, now)
    return replace(state, status=status, deadline=deadline)


def _signal(state: WorkflowRecord, known: StepRecord, on: str, reason: str, now: datetime) -> WorkflowRecord:
    """Let something that concerns the whole workflow act on one step."""
    target = STEP_MACHINE.next_state(known.state, on, StepContext(state.spec, state.states, known))
    if target is known.state:
        return state
    timeout_ms = elapsed_ms = None
    if target is StepState.TIMED_OUT:
        timeout_ms = state.spec.timeout_ms
        started_at = (state.deadline or now) - timedelta(milliseconds=timeout_ms)
        elapsed_ms = (now - started_at) // timedelta(milliseconds=1)
    evidence = StepEvidence(state=target, reason=reason, timeout_ms=timeout_ms, elapsed_ms=elapsed_ms)
    return _with(state, replace(known, state=target, evidence=evidence))


def _step(state: WorkflowRecord, step_id: StepId) -> StepRecord | None:
    return next((step for step in state.steps if step.id == step_id), None)


def _with(state: WorkflowRecord, changed: StepRecord) -> WorkflowRecord:
    return replace(state, steps=tuple(changed if step.id == changed.id else step for step in state.steps))


def _deadline(spec: WorkflowSpec, now: datetime) -> datetime:
    return now + timedelta(milliseconds=spec.timeout_ms)


def _said(reason: str) -> str:
    if not reason.strip():
        raise ContractError("a decision about a workflow needs a reason")
    if reason == WORKFLOW_TIMEOUT:
        raise ContractError(f"{WORKFLOW_TIMEOUT!r} is what the clock says; give a reason of your own")
    return reason


def _refuse_if_terminal(state: WorkflowRecord, input: StepCommand | StopWorkflow) -> None:
    if state.is_terminal:
        raise ContractError(f"workflow {state.spec.id} is {state.status.value}: {input.on!r} comes too late")


def _anomaly(kind: str, state: WorkflowRecord, input: WorkflowInput) -> Anomaly:
    of = "" if isinstance(input, StopWorkflow | BudgetUsedUp | WorkflowTimerFired) else f" of step {input.step_id}"
    message = f"{input.on}{of} was not applied: workflow {state.spec.id} was {state.status.value}"
    return Anomaly(kind=kind, source="workflow", message=message)


_KINDS: Final[Mapping[StepState, WorkflowEventKind]] = {
    StepState.RUNNING: WorkflowEventKind.STEP_SCHEDULED,
    StepState.HELD: WorkflowEventKind.STEP_HELD,
}


def _facts(before: WorkflowRecord, after: WorkflowRecord, decided: str = "") -> tuple[WorkflowEvent, ...]:
    """A fact for each step that moved, and one for the end that this led to. No step moves twice by one input."""
    moved = [(old, new) for old, new in zip(before.steps, after.steps, strict=True) if old != new]
    facts = [_step_fact(after.spec, old, new, decided) for old, new in moved]
    if facts and after.deadline is not None and after.deadline != before.deadline:
        facts[-1] = structs.replace(facts[-1], deadline_at=after.deadline)
    if after.is_terminal:
        result = workflow_result(after.spec, after.steps, closed=after.closed)
        finished = WorkflowEvent(
            kind=WorkflowEventKind.WORKFLOW_FINISHED,
            workflow_id=after.spec.id,
            status=after.status,
            reason=after.closed,
            next_actions=result.safe_next_actions,
        )
        facts.append(finished)
    return tuple(facts)


def _kind(old: StepRecord, new: StepRecord) -> WorkflowEventKind:
    if old.state is StepState.RUNNING and new.state is StepState.RUNNING:
        return WorkflowEventKind.ROUND_BEGUN
    if old.state is StepState.RUNNING and new.state is StepState.PENDING:
        return WorkflowEventKind.STEP_RETRIED
    return _KINDS.get(new.state, WorkflowEventKind.CHECKPOINT_DECIDED)


def _step_fact(spec: WorkflowSpec, old: StepRecord, moved: StepRecord, decided: str) -> WorkflowEvent:
    shown, kind = moved.evidence, _kind(old, moved)
    fact = WorkflowEvent(
        kind=kind,
        workflow_id=spec.id,
        step_id=moved.id,
        step_state=moved.state,
        subagent_id=moved.child,
        reason=decided if moved.state is StepState.PENDING or kind is WorkflowEventKind.ROUND_BEGUN else "",
        summary=moved.told if kind is WorkflowEventKind.ROUND_BEGUN else "",
        attempt=moved.attempt if moved.attempt > 1 else None,
        round=moved.round if moved.round > 1 else None,
    )
    if shown is None:
        return fact
    if moved.state is StepState.HELD and shown.reason == GATE_REACHED:
        gate = next(step for step in spec.steps if step.id == moved.id)
        fact = structs.replace(fact, question=gate.gate, choices=gate.choices, answer_by=moved.answer_by)
    return structs.replace(
        fact,
        summary=shown.summary,
        reason=shown.reason,
        checkpoint=shown.checkpoint,
        timeout_ms=shown.timeout_ms,
        elapsed_ms=shown.elapsed_ms,
        next_actions=shown.next_actions,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowResult:
    """What a workflow came to, or how it stands: its status, its steps by how they ended, and what is safe to do."""

    status: WorkflowState
    usable_checkpoints: tuple[StepId, ...]
    partial_steps: tuple[StepId, ...]
    failed_steps: tuple[StepId, ...]
    timed_out_steps: tuple[StepId, ...]
    held_steps: tuple[StepId, ...]
    needs_orchestrator_steps: tuple[StepId, ...]
    open_steps: tuple[StepId, ...]
    safe_next_actions: tuple[NextAction, ...]

    @property
    def ok(self) -> bool:
        """Full completion, and nothing less."""
        return self.status is WorkflowState.COMPLETED


def workflow_result(spec: WorkflowSpec, steps: tuple[StepRecord, ...], *, closed: str = "") -> WorkflowResult:
    """Derive the result from what the steps have to show. `closed`: why the workflow was cut short, if it was."""
    record = WorkflowRecord(spec, steps, MACHINE.initial, None, closed)
    status = MACHINE.next_state(record.status, STEPS_CHANGED, record)

    def those(*states: StepState) -> tuple[StepId, ...]:
        return tuple(step.id for step in steps if step.state in states)

    return WorkflowResult(
        status=status,
        usable_checkpoints=those(StepState.CHECKPOINT_READY),
        partial_steps=those(StepState.PARTIAL),
        failed_steps=those(StepState.FAILED),
        timed_out_steps=those(StepState.TIMED_OUT),
        held_steps=those(StepState.HELD),
        needs_orchestrator_steps=those(StepState.NEEDS_ORCHESTRATOR),
        open_steps=those(StepState.PENDING, StepState.RUNNING),
        safe_next_actions=_advice(record, status),
    )


def _advice(record: WorkflowRecord, status: WorkflowState) -> tuple[NextAction, ...]:
    """General advice first, then what the steps that are not ready advise themselves; each once."""
    if status in (WorkflowState.RUNNING, WorkflowState.COMPLETED):
        return ()
    kinds = {
        NextActionKind.ASK_OPERATOR: status is WorkflowState.HELD,
        NextActionKind.USE_PARTIAL_RESULT: something_is_usable(record),
        NextActionKind.RAISE_TIMEOUT: time_ran_out(record),
        NextActionKind.RETRY_STEPS: status is not WorkflowState.HELD,
    }
    general = (NextAction(kind) for kind, is_apt in kinds.items() if is_apt)
    shown = (step.evidence for step in record.steps if step.evidence and step.state is not StepState.CHECKPOINT_READY)
    return tuple(dict.fromkeys((*general, *(action for evidence in shown for action in evidence.next_actions))))
