"""A step of a workflow: where it stands, and what it has to show for itself.

Laws:
1. `checkpoint_ready`, `partial`, `failed` and `timed_out` are final. `held` and `needs_orchestrator` wait for a
   decision: `release` runs the step again, `give_up` fails it. A held step that depends on a lost one cannot be
   released: no decision makes its dependency ready.
2. A step starts only if the plan lets it. When a dependency is lost, or the workflow is over, a pending step is held.
3. What a child reports counts for the step that runs it, and for no other.
4. A checkpoint is explicit: an object whose `status` says `checkpoint_ready`, and words that say what is ready. Prose,
   a missing status or an unknown one make no checkpoint, and `dependent_safe: false` takes it back.
5. Nothing is assumed: a child that completed without an explicit checkpoint gives a `partial` step, and one that ended
   without any usable words a `failed` one.
6. A child that we let go of may still be running: its step needs a decision.
7. A gate is held as soon as its dependencies are ready, and asks. An answer makes it `checkpoint_ready`, with the
   decision as its evidence; the choice `stop` gives it up. It is never released: nothing runs behind it. One that
   nobody answers in time is given up where the plan says so, and waits on else: silence is never consent.
8. The step of a command has no child. Its end is proven by its exit code.
9. A round that leaves proofs missing is followed by another one of the same child, as long as the plan allows; the step
   runs on. An attempt that was lost, and not decided by its work, is retried as often as the plan says, by a new child.
   What is to be done once, and may have been begun, is not: a person decides.
10. A step that stands for one for each item runs nothing. It adds those steps once, as a fact, and is ready when all of
   them are. Where they cannot be made, it needs a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, TypeAlias, assert_never

from interlock.lifecycle.children.subagent import EMPTY_ANSWER
from interlock.lifecycle.children.subagent_evidence import has_checkpoint, missing_evidence
from interlock.lifecycle.children.workflow_plan import (
    GIVE_UP,
    StepSpec,
    StepStates,
    WorkflowSpec,
    due_expansions,
    lost_steps,
    ready_steps,
)
from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import StepId, SubagentId
from interlock.vocabulary.states import StepState, SubagentState

OUTCOMES: Final = frozenset(StepState) - {StepState.PENDING, StepState.RUNNING}
"""What a step that ran may come to."""

# A child that answered did not time out, whatever its checkpoint says.
_CLAIMABLE: Final = {state.value: state for state in OUTCOMES if state is not StepState.TIMED_OUT}

# What concerns the whole workflow, as it acts on one step.
DEPENDENCY_LOST: Final = "dependency_lost"
WORKFLOW_COMPLETED: Final = "workflow_completed"
WORKFLOW_EXPIRED: Final = "workflow_expired"
WORKFLOW_STOPPED: Final = "workflow_stopped"
WORKFLOW_SPENT: Final = "budget_used_up"
GATE_REACHED: Final = "gate_reached"
GATE_EXPIRED: Final = "gate_expired"
NO_CLAIM: Final = "no_explicit_checkpoint"
ITEMS_READY: Final = "items_ready"
NO_ITEMS: Final = "items_not_made"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvidence:
    """How a step ended, with what its state requires: words for what is usable, a reason for all that is not ready.

    `cause`: what its attempt was lost by, one of `RETRY_CAUSES`; blank: its work decided. `is_touched`: it may have had
    an effect. `again`: what to tell its child where another round can still prove it."""

    state: StepState
    summary: str = ""
    checkpoint: Json = None
    reason: str = ""
    timeout_ms: int | None = None
    elapsed_ms: int | None = None
    next_actions: tuple[NextAction, ...] = ()
    cause: str = ""
    again: str = ""
    is_touched: bool = True

    def __post_init__(self) -> None:
        if problem := _lack(self):
            raise ContractError(f"a step cannot end {self.state.value}: {problem}")


def _lack(shown: StepEvidence) -> str:
    """What evidence lacks of what its state requires, in words."""
    is_ready = shown.state is StepState.CHECKPOINT_READY
    if shown.state not in OUTCOMES:
        return "that is no end"
    if is_ready and _claims(shown.checkpoint) is not shown.state:
        return "no checkpoint says so"
    if (is_ready or shown.state is StepState.PARTIAL) and not _has_words(shown.summary, shown.checkpoint):
        return "nothing says what can be used"
    if not is_ready and not shown.reason.strip():
        return "no reason is given"
    if shown.state is StepState.TIMED_OUT and (shown.timeout_ms is None or shown.elapsed_ms is None):
        return "the timeout or the time it took is not given"
    return ""


@dataclass(frozen=True, slots=True)
class StartStep:
    """Run a step by a child, or without one if it is a command."""

    on: ClassVar[str] = "start"
    step_id: StepId
    child: SubagentId | None


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    """Decide that a step that waits is to run again."""

    on: ClassVar[str] = "release"
    step_id: StepId
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUpStep:
    """Decide that a step that waits is not to run."""

    on: ClassVar[str] = "give_up"
    step_id: StepId
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerGate:
    """Decide what a gate asks. `decided_by`: the person, as far as known."""

    on: ClassVar[str] = "answer_gate"
    step_id: StepId
    choice: str
    reason: str = ""
    decided_by: str = ""


@dataclass(frozen=True, slots=True)
class StepReported:
    """The child of a step ended, or its command did."""

    step_id: StepId
    child: SubagentId | None
    evidence: StepEvidence

    @property
    def on(self) -> str:
        return _reported(self.evidence.state)


StepCommand: TypeAlias = StartStep | ReleaseStep | GiveUpStep | AnswerGate


def _reported(state: StepState) -> str:
    return f"reported_{state.value}"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step: where it stands, which child ran it last, and what it has to show. `told`: with what the round began.
    `answer_by`: by when a gate is to be answered.
    `lost`: how many attempts were retried since it began, or since a person released it."""

    id: StepId
    state: StepState = StepState.PENDING
    child: SubagentId | None = None
    evidence: StepEvidence | None = None
    attempt: int = 1
    round: int = 1
    lost: int = 0
    told: str = ""
    answer_by: datetime | None = None

    def __post_init__(self) -> None:
        shown = None if self.evidence is None else self.evidence.state
        if shown is not (self.state if self.state in OUTCOMES else None):
            raise ContractError(f"step {self.id} cannot be {self.state.value} with evidence for {shown}")


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the guards of a step may ask."""

    spec: WorkflowSpec
    states: StepStates
    step: StepRecord
    child: SubagentId | None = None
    shown: StepEvidence | None = None
    now: datetime | None = None


def is_to_be_expanded(at: StepContext) -> bool:
    return at.step.id in due_expansions(at.spec, at.states)


def is_let_by_the_plan(at: StepContext) -> bool:
    return at.step.id in ready_steps(at.spec, at.states)


def _spec_of(at: StepContext) -> StepSpec:
    return next(step for step in at.spec.steps if step.id == at.step.id)


def can_run_again(at: StepContext) -> bool:
    return not _spec_of(at).gate and at.step.id not in lost_steps(at.spec, at.states)


def is_an_open_gate(at: StepContext) -> bool:
    needed = _spec_of(at).depends_on
    return bool(_spec_of(at).gate) and all(at.states[one] is StepState.CHECKPOINT_READY for one in needed)


def is_given_up_by_silence(at: StepContext) -> bool:
    until = at.step.answer_by
    is_due = until is not None and at.now is not None and at.now >= until
    return is_due and _spec_of(at).on_timeout == GIVE_UP and is_an_open_gate(at)


def is_of_its_child(at: StepContext) -> bool:
    return at.child == at.step.child


def a_round_is_left(at: StepContext) -> bool:
    can_go_on = at.shown is not None and bool(at.shown.again)
    return is_of_its_child(at) and can_go_on and at.step.round < _spec_of(at).rounds


def _is_lost(at: StepContext) -> bool:
    planned = _spec_of(at)
    cause = "" if at.shown is None else at.shown.cause
    return is_of_its_child(at) and cause in planned.retry_on and at.step.lost < planned.retries


def is_to_be_retried(at: StepContext) -> bool:
    is_touched = at.shown is None or at.shown.is_touched
    return _is_lost(at) and not (_spec_of(at).once and is_touched)


def may_have_been_done_once(at: StepContext) -> bool:
    return _is_lost(at) and not is_to_be_retried(at)


WAITING: Final = (StepState.HELD, StepState.NEEDS_ORCHESTRATOR)

_UNPROVEN: Final = (StepState.PARTIAL, StepState.FAILED)
_LOST: Final = (StepState.FAILED, StepState.TIMED_OUT, StepState.NEEDS_ORCHESTRATOR)

STEP_TRANSITIONS: Final[tuple[Edge[StepState, StepContext], ...]] = (
    Edge(StepState.PENDING, StartStep.on, StepState.RUNNING, is_let_by_the_plan),
    *(Edge(StepState.RUNNING, _reported(one), StepState.RUNNING, a_round_is_left) for one in _UNPROVEN),
    *(Edge(StepState.RUNNING, _reported(one), StepState.PENDING, is_to_be_retried) for one in _LOST),
    *(Edge(StepState.RUNNING, _reported(one), StepState.NEEDS_ORCHESTRATOR, may_have_been_done_once) for one in _LOST),
    *(Edge(StepState.RUNNING, _reported(state), state, is_of_its_child) for state in StepState if state in OUTCOMES),
    *from_each(WAITING, ReleaseStep.on, StepState.PENDING, can_run_again),
    *from_each(WAITING, GiveUpStep.on, StepState.FAILED),
    Edge(StepState.PENDING, GATE_REACHED, StepState.HELD),
    Edge(StepState.HELD, AnswerGate.on, StepState.CHECKPOINT_READY, is_an_open_gate),
    Edge(StepState.PENDING, ITEMS_READY, StepState.CHECKPOINT_READY),
    Edge(StepState.PENDING, NO_ITEMS, StepState.NEEDS_ORCHESTRATOR, is_to_be_expanded),
    Edge(StepState.HELD, GATE_EXPIRED, StepState.FAILED, is_given_up_by_silence),
    Edge(StepState.PENDING, DEPENDENCY_LOST, StepState.HELD),
    Edge(StepState.PENDING, WORKFLOW_EXPIRED, StepState.HELD),
    Edge(StepState.PENDING, WORKFLOW_STOPPED, StepState.HELD),
    Edge(StepState.PENDING, WORKFLOW_SPENT, StepState.HELD),
    Edge(StepState.PENDING, WORKFLOW_COMPLETED, StepState.HELD),
    Edge(StepState.RUNNING, WORKFLOW_EXPIRED, StepState.TIMED_OUT),
    Edge(StepState.RUNNING, WORKFLOW_STOPPED, StepState.FAILED),
)

STEP_MACHINE: Final[Machine[StepState, StepContext]] = Machine(
    name="workflow.step",
    title="Where one step of a workflow stands",
    states=StepState,
    initial=StepState.PENDING,
    edges=STEP_TRANSITIONS,
    laws=__doc__,
    commands=frozenset({StartStep.on, ReleaseStep.on, GiveUpStep.on, AnswerGate.on}),
    observations=frozenset(
        {
            GATE_REACHED,
            GATE_EXPIRED,
            ITEMS_READY,
            NO_ITEMS,
            DEPENDENCY_LOST,
            WORKFLOW_EXPIRED,
            WORKFLOW_STOPPED,
            WORKFLOW_SPENT,
            WORKFLOW_COMPLETED,
            *map(_reported, OUTCOMES),
        }
    ),
    terminal=frozenset({StepState.CHECKPOINT_READY, StepState.PARTIAL, StepState.FAILED, StepState.TIMED_OUT}),
)


def step_evidence_from_child(fact: SubagentEvent) -> StepEvidence | None:
    """What a child's last fact makes of its step; None while the child is open."""
    match fact.status:
        case SubagentState.QUEUED | SubagentState.RUNNING:
            return None
        case SubagentState.COMPLETED:
            return _from_completed(fact)
        case SubagentState.TIMED_OUT if fact.timeout_ms is not None and fact.elapsed_ms is not None:
            return _from(fact, StepState.TIMED_OUT, fact.reason or "timeout")
        case SubagentState.TIMED_OUT | SubagentState.FAILED | SubagentState.INTERRUPTED:
            # A timeout that does not say how long it was proves no more than that the child failed.
            return _from(fact, StepState.FAILED, fact.reason or f"child_{fact.status.value}")
        case SubagentState.DETACHED:
            return _from(fact, StepState.NEEDS_ORCHESTRATOR, "child_may_still_be_running")
        case unreachable:
            assert_never(unreachable)


def _from_completed(fact: SubagentEvent) -> StepEvidence:
    claim = _claims(fact.checkpoint)
    is_usable = claim in (None, StepState.PARTIAL, StepState.CHECKPOINT_READY)
    if is_usable and not _has_words(fact.summary, fact.checkpoint):
        return _from(fact, StepState.FAILED, EMPTY_ANSWER)
    if claim is StepState.CHECKPOINT_READY:
        is_proven = not missing_evidence(fact)
        return _from(fact, claim, "") if is_proven else _from(fact, StepState.NEEDS_ORCHESTRATOR, "unproven_child")
    if claim is None:
        return _from(fact, StepState.PARTIAL, NO_CLAIM)
    return _from(fact, claim, "its_checkpoint_says_so")


def _from(fact: SubagentEvent, state: StepState, reason: str) -> StepEvidence:
    return StepEvidence(
        state=state,
        summary=fact.summary,
        checkpoint=fact.checkpoint,
        reason=reason,
        timeout_ms=fact.timeout_ms,
        elapsed_ms=fact.elapsed_ms,
        next_actions=fact.next_actions,
    )


def _claims(checkpoint: Json) -> StepState | None:
    """What a checkpoint says its step came to, if it says so at all. A ready one that is not safe to use is partial."""
    status = checkpoint.get("status") if isinstance(checkpoint, dict) else None
    claimed = _CLAIMABLE.get(status) if isinstance(status, str) else None
    if isinstance(checkpoint, dict) and checkpoint.get("dependent_safe", True) is not True:
        return StepState.PARTIAL if claimed is StepState.CHECKPOINT_READY else claimed
    return claimed


def _has_words(summary: str, checkpoint: Json) -> bool:
    """Whether there is anything to use: the child's summary, or the checkpoint's."""
    said = checkpoint.get("summary") if isinstance(checkpoint, dict) else checkpoint
    return bool(summary.strip()) or has_checkpoint(said)
