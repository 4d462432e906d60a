"""Checks of workflows: is the spine whole, does each step prove its state, and does the end follow from the steps.

The plan itself is not in the log, so which steps are optional, or were never mentioned, cannot be known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from interlock.lifecycle.children.checkpoint import bound_checkpoint, checkpoint_id
from interlock.lifecycle.children.subagents import SubagentFold
from interlock.lifecycle.children.workflow import MACHINE, WORKFLOW_TIMEOUT
from interlock.lifecycle.children.workflow_step import NO_CLAIM, OUTCOMES, StepEvidence, step_evidence_from_child
from interlock.projections.checks.case import Case, Check, CheckId, Issue, failure, judged, of_type, warning
from interlock.projections.replay.tool_outcomes import WORKFLOW_TOOL, workflow_status
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.conversation import SubagentEvent, ToolCall, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import StepId, TurnId, WorkflowId
from interlock.vocabulary.states import StepState, WorkflowState

_K = WorkflowEventKind
_USABLE: Final = frozenset({StepState.CHECKPOINT_READY, StepState.PARTIAL})
_WAITS: Final = frozenset({StepState.HELD, StepState.NEEDS_ORCHESTRATOR})


@dataclass(frozen=True, slots=True)
class Spine:
    """All that a log says of one workflow."""

    id: WorkflowId
    facts: tuple[tuple[Event, WorkflowEvent], ...]
    steps: Mapping[StepId, StepState]
    """The last state of each step that is named."""

    def of(self, kind: WorkflowEventKind) -> list[tuple[Event, WorkflowEvent]]:
        return [(event, fact) for event, fact in self.facts if fact.kind is kind]


def _spines(case: Case) -> list[Spine]:
    found: dict[WorkflowId, list[tuple[Event, WorkflowEvent]]] = {}
    for event, fact in of_type(case.events, WorkflowEvent):
        found.setdefault(fact.workflow_id, []).append((event, fact))
    return [Spine(id, tuple(facts), _last_states(facts)) for id, facts in found.items()]


def _last_states(facts: Iterable[tuple[Event, WorkflowEvent]]) -> dict[StepId, StepState]:
    named = ((fact.step_id, fact.step_state) for _, fact in facts)
    return {step_id: state for step_id, state in named if step_id is not None and state is not None}


def check_workflow_events(case: Case) -> Check:
    """Each workflow has one start and one end, and its end is what its steps amount to."""
    spines = _spines(case)
    issues = [issue for spine in spines for issue in (*_spine_issues(case, spine), *_end_issues(case, spine))]
    passed = f"{len(spines)} workflows, each with a start and an end that fits"
    return judged(CheckId.WORKFLOW_EVENTS, issues, applies=bool(spines), passed=passed)


def _spine_issues(case: Case, spine: Spine) -> Iterator[Issue]:
    look = case.look_at_log()
    first, last = spine.facts[0][0], spine.facts[-1][0]
    starts, ends = spine.of(_K.WORKFLOW_STARTED), spine.of(_K.WORKFLOW_FINISHED)
    if len(starts) != 1 or starts[0][0] is not first:
        message = f"workflow {spine.id} has {len(starts)} starts, and begins with {spine.facts[0][1].kind.value}"
        yield warning("workflow_start", message, [first], next_actions=look)
    if len(ends) > 1:
        message = f"workflow {spine.id} ended {len(ends)} times"
        yield failure("several_ends", message, [event for event, _ in ends], next_actions=look)
    if ends and ends[-1][0] is not last:
        yield warning("fact_after_end", f"workflow {spine.id}: a fact came after its end", [last], next_actions=look)
    held = [event for event, fact in spine.facts if fact.step_id and spine.steps.get(fact.step_id) in _WAITS]
    if ends:
        return
    if held and not _is_left(case, spine):
        message = f"workflow {spine.id} is held: a step waits for a decision"
        yield warning("workflow_held", message, held, next_actions=(NextAction(NextActionKind.ASK_OPERATOR),))
    if not held and not _is_left(case, spine):
        message = f"workflow {spine.id} has no end yet; its steps: {_states(spine)}"
        yield warning("workflow_without_end", message, [last], next_actions=look)
    if _is_left(case, spine):
        message = f"workflow {spine.id} has no end, and {_who(case, spine)}"
        yield failure("unfinished_workflow", message, [last], next_actions=look)


def _states(spine: Spine) -> str:
    return ", ".join(f"{step_id} {state.value}" for step_id, state in spine.steps.items()) or "none"


def _is_left(case: Case, spine: Spine) -> bool:
    """Whether nobody works on it any more: its owner is dead or does not know it, or the turn that it belongs to is
    over."""
    turn = case.turn(spine.facts[-1][0])
    return not case.owner_alive or _is_unknown(case, spine) or (turn is not None and turn.state.is_terminal)


def _is_unknown(case: Case, spine: Spine) -> bool:
    return case.live_workflows is not None and spine.id not in case.live_workflows


def _who(case: Case, spine: Spine) -> str:
    if case.owner_alive and _is_unknown(case, spine):
        return "the server that is there does not run it: it stands still"
    return "no process is left to write one: how it stands is unknown"


def _end_issues(case: Case, spine: Spine) -> Iterator[Issue]:
    for event, fact in spine.of(_K.WORKFLOW_FINISHED)[-1:]:
        look = fact.next_actions or case.look_at_log()
        status = "nothing" if fact.status is None else fact.status.value
        if fact.status not in MACHINE.terminal:
            message = f"workflow {spine.id} ended, and says {status}, which is no end"
            yield failure("end_is_no_end", message, [event], next_actions=look)
            return
        if fact.status is not WorkflowState.COMPLETED:
            message = f"workflow {spine.id} ended {status}, not completed"
            yield warning(f"workflow_{status}", message, [event], next_actions=look)
            if not fact.next_actions:
                message = f"workflow {spine.id} ended {status}, and does not say what to do next"
                yield warning("workflow_without_next_actions", message, [event], next_actions=look)
        if contradiction := _contradiction(spine, fact):
            message = f"workflow {spine.id} ended {status}, and {contradiction}"
            yield failure("end_contradicts_steps", message, [event], next_actions=case.look_at_log())
        unready = [step for step, state in spine.steps.items() if state is not StepState.CHECKPOINT_READY]
        if fact.status is WorkflowState.COMPLETED and unready:
            message = f"workflow {spine.id} is completed, and these steps are not ready: {', '.join(unready)}"
            yield warning("completed_with_unready_steps", message, [event], next_actions=case.look_at_log())


def _contradiction(spine: Spine, end: WorkflowEvent) -> str:
    """How an end goes against the steps, by the rows of the workflow's table that need no plan."""
    states = set(spine.steps.values())
    if StepState.RUNNING in states:
        return "a step is still running"
    if end.status is WorkflowState.COMPLETED and StepState.CHECKPOINT_READY not in states:
        return "no step is ready"
    if end.status is WorkflowState.PARTIAL and states.isdisjoint(_USABLE):
        return "no step has anything to use"
    if end.status in (WorkflowState.FAILED, WorkflowState.TIMED_OUT) and not states.isdisjoint(_USABLE):
        return "a step has something to use"
    ran_out = end.reason == WORKFLOW_TIMEOUT or StepState.TIMED_OUT in states
    if end.status is WorkflowState.TIMED_OUT and not ran_out:
        return "nothing ran out of time"
    if end.status is WorkflowState.FAILED and ran_out:
        return "a step ran out of time"
    if end.status is WorkflowState.PARTIAL and states == {StepState.CHECKPOINT_READY}:
        return "every step that is named is ready"
    return ""


def check_workflow_checkpoints(case: Case) -> Check:
    """Each step that ended was begun, and carries what its state requires."""
    spines = _spines(case)
    issues = [issue for spine in spines for issue in _checkpoint_issues(case, spine)]
    issues += _borne_out_issues(case)
    return judged(CheckId.WORKFLOW_CHECKPOINTS, issues, applies=bool(spines), passed="every step proves its state")


def _checkpoint_issues(case: Case, spine: Spine) -> Iterator[Issue]:
    look = case.look_at_log()
    states: dict[StepId, StepState | None] = {}
    for event, fact in spine.facts:
        if fact.kind in (_K.WORKFLOW_STARTED, _K.WORKFLOW_FINISHED):
            continue
        if fact.step_id is None:
            message = f"workflow {spine.id}: {fact.kind.value} names no step"
            yield failure("step_not_named", message, [event], next_actions=look)
            continue
        if problem := _step_problem(fact, states):
            message = f"step {fact.step_id} of workflow {spine.id}: {problem}"
            yield failure("step_without_evidence", message, [event], next_actions=look)
        states[fact.step_id] = fact.step_state
    if spine.of(_K.WORKFLOW_FINISHED) and not states:
        message = f"workflow {spine.id} ended without a word about any step"
        yield failure("no_steps_recorded", message, [event for event, _ in spine.facts], next_actions=look)


def _step_problem(fact: WorkflowEvent, states: Mapping[StepId, StepState | None]) -> str:
    state = fact.step_state
    if state is not None and fact.step_id is not None and states.get(fact.step_id) is state:
        return f"it was {state.value} already"
    if fact.kind is _K.STEP_SCHEDULED:
        return "" if state in (None, StepState.RUNNING) else f"it is scheduled, and {state.value}"
    if state is StepState.PENDING and fact.kind is _K.CHECKPOINT_DECIDED:
        return "" if fact.reason.strip() else "it was released without a reason"
    if state not in OUTCOMES:
        return "its end is not said" if state is None else f"{state.value} is no end"
    if (fact.kind is _K.STEP_HELD) != (state is StepState.HELD):
        return f"{fact.kind.value} says {state.value}"
    if fact.kind is _K.CHECKPOINT_DECIDED and fact.step_id not in states:
        return f"it is {state.value} and was never begun"
    try:
        StepEvidence(
            state=state,
            summary=fact.summary,
            checkpoint=fact.checkpoint,
            reason=fact.reason,
            timeout_ms=fact.timeout_ms,
            elapsed_ms=fact.elapsed_ms,
        )
    except ContractError as lack:
        return str(lack)
    return ""


def _borne_out_issues(case: Case) -> Iterator[Issue]:
    """At the time of each claim, the facts that it rests on are in the log: a step's child, a result's workflow."""
    look = case.look_at_log()
    children = SubagentFold()
    ended: dict[TurnId | None, WorkflowState | None] = {}
    calls: set[tuple[object, ...]] = set()
    for event in case.events:
        problem = ""
        match event.data:
            case SubagentEvent() as fact:
                children.add(fact)
            case WorkflowEvent(kind=_K.WORKFLOW_FINISHED, status=status):
                ended[event.turn_id] = status
            case WorkflowEvent(subagent_id=child) as fact if child in children.last:
                problem = _child_problem(fact, children.last[child])
            case ToolCall(name=name) as call if name == WORKFLOW_TOOL:
                calls.add((event.turn_id, call.call_id, call.occurrence))
            case ToolResult() as result if (event.turn_id, result.call_id, result.occurrence) in calls:
                problem = _result_problem(result, ended.get(event.turn_id))
            case _:
                pass
        if problem:
            yield failure("claim_not_borne_out", problem, [event], turn_id=event.turn_id, next_actions=look)


def _child_problem(fact: WorkflowEvent, told: SubagentEvent) -> str:
    """A step has no more to show than the child that ran it, as far as this log knows the child."""
    if fact.step_state not in _USABLE:
        return ""
    is_checked = isinstance(fact.checkpoint, dict) and fact.checkpoint.get("proof") == "checked"
    if is_checked:  # a claim of another attempt is none, and a child without one does not deny what was checked
        ours = bound_checkpoint(told.checkpoint, checkpoint_id(told.subagent_id, told.attempt))
        told = structs.replace(told, checkpoint=ours)
    shown = step_evidence_from_child(told)
    if shown is not None and (shown.state is fact.step_state or shown.state is StepState.CHECKPOINT_READY):
        return ""
    if is_checked and shown is not None and shown.reason == NO_CLAIM:
        return ""
    child = f"its child {fact.subagent_id} is {told.status.value}"
    return f"step {fact.step_id} of workflow {fact.workflow_id} is {fact.step_state}, and {child}"


def _result_problem(result: ToolResult, ended: WorkflowState | None) -> str:
    said = None if result.error is not None else workflow_status(result.output)
    if result.error is not None or said is ended:
        return ""
    was = "no end is recorded" if ended is None else f"it ended {ended.value}"
    return f"the workflow of call {result.call_id} is said to be {said.value if said else 'unknown'}, and {was}"
