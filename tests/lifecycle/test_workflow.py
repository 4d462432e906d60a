"""Workflows: every plan of up to three steps on every path, and what each result claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import pytest

from interlock.lifecycle.children.workflow import (
    MACHINE,
    AddSteps,
    BudgetUsedUp,
    Output,
    StopWorkflow,
    WorkflowInput,
    WorkflowRecord,
    WorkflowTimerFired,
    begin,
    step,
    workflow_result,
)
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.lifecycle.children.workflow_step import (
    OUTCOMES,
    STEP_MACHINE,
    AnswerGate,
    GiveUpStep,
    ReleaseStep,
    StartStep,
    StepEvidence,
    StepRecord,
    StepReported,
)
from interlock.testing.explore import Exploration, check_table, explore, labelled_by
from interlock.vocabulary.actions import NextActionKind, inspect_child
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import Anomaly, WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.ids import SessionId, StepId, SubagentId
from interlock.vocabulary.states import StepState, WorkflowState
from tests.lifecycle.children import at
from tests.lifecycle.plans import A, B, C, gate, one, plan, plans_of

S = StepState
W = WorkflowState
NOW: Final = at(0)
DUE: Final = at(1)
CHILD: Final = SubagentId("sub_1")
LOOK: Final = inspect_child(SessionId("ses_child"))

ENDS: Final = {
    state: StepEvidence(
        state=state,
        summary="words",
        checkpoint={"status": "checkpoint_ready"} if state is S.CHECKPOINT_READY else None,
        reason="" if state is S.CHECKPOINT_READY else "why",
        timeout_ms=1000,
        elapsed_ms=1000,
        next_actions=() if state is S.CHECKPOINT_READY else (LOOK,),
    )
    for state in StepState
    if state in OUTCOMES
}

LOST: Final = tuple(
    replace(ENDS[state], cause="crash", is_touched=is_touched)
    for state in (S.FAILED, S.TIMED_OUT, S.NEEDS_ORCHESTRATOR)
    for is_touched in (True, False)
)
AGAIN: Final = replace(ENDS[S.PARTIAL], again="make test exited 1")


@dataclass(frozen=True, slots=True)
class Walked:
    """A workflow that can be put in a set: what tells it from another. `record` and `outputs` come along."""

    number: int
    steps: tuple[tuple[StepState, SubagentId | None, int, int], ...]
    status: WorkflowState
    closed: str
    deadline: datetime | None
    record: WorkflowRecord = field(compare=False, repr=False)
    outputs: tuple[Output, ...] = field(default=(), compare=False, repr=False)

    @property
    def states(self) -> Mapping[StepId, StepState]:
        return self.record.states


def walked(number: int, record: WorkflowRecord, outputs: tuple[Output, ...] = ()) -> Walked:
    # How many attempts a person released decides nothing: without it the walk has an end.
    steps = tuple((step.state, step.child, step.lost, step.round) for step in record.steps)
    return Walked(number, steps, record.status, record.closed, record.deadline, record, outputs)


Move = tuple[WorkflowInput, datetime]


def every_input(before: Walked) -> Iterator[Move]:
    """Every command and every report for every step, and the clock, also with something else to tell."""
    for known in before.record.steps:
        yield StartStep(known.id, CHILD), NOW
        yield ReleaseStep(known.id, "go on"), NOW
        yield GiveUpStep(known.id, "not needed"), NOW
        if next(planned.gate for planned in before.record.spec.steps if planned.id == known.id):
            yield AnswerGate(known.id, "go"), NOW
            yield AnswerGate(known.id, "stop", reason="not now"), NOW
        yield StepReported(known.id, SubagentId("sub_other"), ENDS[S.CHECKPOINT_READY]), NOW
        # Where nothing can be reported, one report that would claim most stands for all.
        for state in ENDS if known.state is S.RUNNING else (S.CHECKPOINT_READY,):
            yield StepReported(known.id, CHILD, ENDS[state]), NOW
        if known.state is S.RUNNING:
            for shown in (*LOST, AGAIN):
                yield StepReported(known.id, CHILD, shown), NOW
            yield StepReported(known.id, SubagentId("sub_other"), LOST[0]), NOW
            yield StepReported(known.id, SubagentId("sub_other"), AGAIN), NOW
    yield StopWorkflow("enough"), NOW
    yield BudgetUsedUp("budget_used_up: 9 of 8 USD"), NOW
    for planned in before.record.spec.steps:
        if planned.each:
            items = (one(f"{planned.id}:0", *planned.depends_on), one(f"{planned.id}:1", *planned.depends_on))
            yield AddSteps(planned.id, items), NOW
            yield AddSteps(planned.id), NOW
            yield AddSteps(planned.id, problem="it is no list"), NOW
    yield WorkflowTimerFired(), NOW
    yield WorkflowTimerFired(), DUE
    yield StepReported(A, CHILD, ENDS[S.CHECKPOINT_READY]), DUE


def walk_step(before: Walked, move: Move) -> Walked:
    """A refused command changes nothing, which is all that a walk along the workflow's own table needs to know."""
    try:
        record, outputs = step(before.record, *move)
    except ContractError:
        record, outputs = before.record, ()
    return walked(before.number, record, outputs)


def is_settled(at: Walked) -> bool:
    return at.status is not W.RUNNING


def required(at: Walked) -> set[StepState]:
    return {at.states[step.id] for step in at.record.spec.steps if step.required}


def result_is_derived(at: Walked) -> bool:
    result = workflow_result(at.record.spec, at.record.steps, closed=at.closed)
    is_full = is_settled(at) and required(at) == {S.CHECKPOINT_READY}
    return result.status is at.status and result.ok == (at.status is W.COMPLETED) == is_full


def result_names_each_step_once(at: Walked) -> bool:
    result = workflow_result(at.record.spec, at.record.steps, closed=at.closed)
    named = (
        *result.usable_checkpoints,
        *result.partial_steps,
        *result.failed_steps,
        *result.timed_out_steps,
        *result.held_steps,
        *result.needs_orchestrator_steps,
        *result.open_steps,
    )
    return sorted(named) == sorted(at.states)


def advice_is_given_when_it_is_needed(at: Walked) -> bool:
    result = workflow_result(at.record.spec, at.record.steps, closed=at.closed)
    return bool(result.safe_next_actions) == (at.status not in (W.RUNNING, W.COMPLETED))


def no_end_claims_too_much(at: Walked) -> bool:
    """The seed's words, restated without the table."""
    found = set(at.states.values())
    is_usable = not found.isdisjoint({S.CHECKPOINT_READY, S.PARTIAL})
    ran_out = S.TIMED_OUT in found or at.closed == "workflow_timeout"
    match at.status:
        case W.COMPLETED:
            return required(at) == {S.CHECKPOINT_READY}
        case W.PARTIAL:
            return is_usable
        case W.TIMED_OUT:
            return ran_out and not is_usable
        case W.FAILED:
            return not ran_out and not is_usable
        case W.HELD:
            return not found.isdisjoint({S.HELD, S.NEEDS_ORCHESTRATOR}) and S.RUNNING not in found
        case W.RUNNING:
            return S.RUNNING in found or S.PENDING in found


STATE_LAWS: Final = {
    "the status is the result's, and ok is full completion and nothing else": result_is_derived,
    "a result names each step once": result_names_each_step_once,
    "whoever is not done is told what is safe to do": advice_is_given_when_it_is_needed,
    "no end claims too much": no_end_claims_too_much,
    "a step runs only after all that it depends on is ready": lambda at: all(
        known.child is None or all(at.states[needed] is S.CHECKPOINT_READY for needed in planned.depends_on)
        for known, planned in zip(at.record.steps, at.record.spec.steps, strict=True)
    ),
    "no more steps run than may": lambda at: (
        list(at.states.values()).count(S.RUNNING) <= at.record.spec.max_concurrency
    ),
    "a workflow has a deadline exactly while it runs": lambda at: (at.deadline is not None) == (at.status is W.RUNNING),
    "at its end nothing is open": lambda at: (
        not at.record.is_terminal or not {S.PENDING, S.RUNNING} & set(at.states.values())
    ),
}


def facts_say_what_moved(before: Walked, _: Move, after: Walked) -> bool:
    told = [output for output in after.outputs if isinstance(output, WorkflowEvent)]
    added = [fact for fact in told if fact.kind is WorkflowEventKind.STEPS_ADDED]
    if bool(added) is not (after.record.spec != before.record.spec):
        return False
    spent = [fact for fact in told if fact.kind is WorkflowEventKind.BUDGET_USED_UP]
    facts = [fact for fact in told if fact not in (*added, *spent)]
    if bool(spent) is not (after.closed != before.closed and after.closed.startswith("budget")):
        return False
    said = {fact.step_id: fact.step_state for fact in facts if fact.step_id is not None}
    ends = [fact.status for fact in facts if fact.kind is WorkflowEventKind.WORKFLOW_FINISHED]
    ended = after.record.is_terminal and not before.record.is_terminal
    known = {step.id: step for step in before.record.steps}
    moved = {new.id: new.state for new in after.record.steps if new != known.get(new.id, StepRecord(new.id))}
    return said == moved and ends == ([after.status] if ended else []) and len(facts) == len(said) + len(ends)


def bounds_hold(_: Walked, __: Move, after: Walked) -> bool:
    """No step has more rounds than its plan gives it, and none is retried more often."""
    return all(
        known.round <= planned.rounds and known.lost <= planned.retries
        for planned, known in zip(after.record.spec.steps, after.record.steps, strict=True)
    )


def what_is_done_once_is_not_retried(before: Walked, move: Move, after: Walked) -> bool:
    given = move[0]
    if not isinstance(given, StepReported) or after.record == before.record or after.closed:
        return True
    planned = next(one for one in before.record.spec.steps if one.id == given.step_id)
    is_retried = after.states[given.step_id] is S.PENDING
    return not is_retried or (bool(given.evidence.cause) and not (planned.once and given.evidence.is_touched))


STEP_LAWS: Final = {
    "an end is final": lambda before, _, after: not before.record.is_terminal or after.record == before.record,
    "the end of a step is final": lambda before, _, after: all(
        state not in STEP_MACHINE.terminal or after.states[name] is state for name, state in before.states.items()
    ),
    "each step that moves, and the end, are one fact each": facts_say_what_moved,
    "a due deadline is applied before anything else": lambda before, move, after: (
        before.deadline is None or move[1] < before.deadline or (after.closed and after.record.is_terminal)
    ),
    "rounds and retries are bounded": bounds_hold,
    "what is done once is not retried": what_is_done_once_is_not_retried,
}


MOVES: Final = {(edge.source, edge.target) for edge in STEP_MACHINE.edges}


def walk(specs: Iterable[WorkflowSpec]) -> Exploration[Walked, Move]:
    """Walk all paths of all plans, and hold what was seen against both tables."""
    moves: set[tuple[StepState, StepState]] = set()

    def moves_along_the_table(before: Walked, _: Move, after: Walked) -> bool:
        pairs = zip(before.record.steps, after.record.steps, strict=False)
        seen = {(old.state, new.state) for old, new in pairs if old != new}
        moves.update(seen)
        return seen <= MOVES

    found: Exploration[Walked, Move] = explore(
        start=[walked(number, begin(spec, NOW)[0]) for number, spec in enumerate(specs)],
        inputs=every_input,
        step=walk_step,
        label=labelled_by("status"),
        named=lambda _: "steps_changed",
        state_laws=STATE_LAWS,
        step_laws={**STEP_LAWS, "a step moves only along its table": moves_along_the_table},
    )
    check_table(found, MACHINE)
    assert moves == MOVES
    assert found.stuck(lambda at: at.record.is_terminal) == []
    return found


CHECKS: Final = (("make", "test"),)
AGAIN_PLANS: Final = (
    plan(replace(one("a"), rounds=3, checks=CHECKS, retries=2, once=False), one("b", "a")),
    plan(replace(one("a"), rounds=2, checks=CHECKS, retries=1, once=True), one("b")),
    plan(replace(gate("a"), timeout_ms=1000, on_timeout="give_up"), one("b", "a")),
    plan(replace(gate("a"), timeout_ms=1000), one("b", "a")),
    plan(one("a"), replace(one("b", "a"), task="", each="a.list", each_max=3), one("c", "b")),
)


def is_chain(spec: WorkflowSpec) -> bool:
    """Each step needs the one before it: what ends the first reaches the last through another."""
    names = [step.id for step in spec.steps]
    return [step.depends_on for step in spec.steps] == [(), *((name,) for name in names[:-1])]


def test_every_path_of_every_small_plan_keeps_the_laws(record_property: Callable[[str, object], None]) -> None:
    tight = [
        plan(one("a"), one("b"), max_concurrency=1),
        plan(one("a", writes=("src",)), one("b", writes=("src/x",))),
        plan(gate("a"), one("b", "a"), one("c")),
        plan(one("a"), gate("b", "a"), one("c", "b")),
        plan(one("a"), gate("b", "a")),
        *AGAIN_PLANS,
    ]
    small = [*plans_of(1), *plans_of(2), *filter(is_chain, plans_of(3))]
    record_property("explored", walk([*tight, *small]).summary("workflow, small plans"))


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_every_path_of_every_plan_of_three_steps(record_property: Callable[[str, object], None]) -> None:
    gated = [plan(gate("a"), one("b", "a")), plan(one("a"), gate("b", "a"))]
    record_property(
        "explored", walk([*gated, *AGAIN_PLANS, *plans_of(3)]).summary("workflow, every plan of three steps")
    )


def play(spec: WorkflowSpec, *inputs: WorkflowInput, now: datetime = NOW) -> WorkflowRecord:
    record, _ = begin(spec, NOW)
    for given in inputs:
        record, _ = step(record, given, now)
    return record


def ran(name: StepId, state: StepState) -> tuple[WorkflowInput, WorkflowInput]:
    return StartStep(name, CHILD), StepReported(name, CHILD, ENDS[state])


def kinds(record: WorkflowRecord) -> list[NextActionKind]:
    result = workflow_result(record.spec, record.steps, closed=record.closed)
    return [action.kind for action in result.safe_next_actions]


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (S.CHECKPOINT_READY, S.CHECKPOINT_READY, W.COMPLETED),
        (S.CHECKPOINT_READY, S.FAILED, W.PARTIAL),
        (S.CHECKPOINT_READY, S.TIMED_OUT, W.PARTIAL),
        (S.PARTIAL, S.PARTIAL, W.PARTIAL),
        (S.PARTIAL, S.FAILED, W.PARTIAL),
        (S.FAILED, S.FAILED, W.FAILED),
        (S.FAILED, S.TIMED_OUT, W.TIMED_OUT),
        (S.TIMED_OUT, S.TIMED_OUT, W.TIMED_OUT),
        (S.CHECKPOINT_READY, S.NEEDS_ORCHESTRATOR, W.HELD),
        (S.FAILED, S.HELD, W.HELD),
        (S.TIMED_OUT, S.NEEDS_ORCHESTRATOR, W.HELD),
    ],
)
def test_the_result_of_two_steps(first: StepState, second: StepState, status: WorkflowState) -> None:
    spec = plan(one("a"), one("b"))
    assert play(spec, *ran(A, first), *ran(B, second)).status is status
    assert play(spec, *ran(A, second), *ran(B, first)).status is status


def test_a_failed_step_holds_its_dependents_and_leaves_the_rest_usable() -> None:
    record = play(plan(one("c", "b"), one("b"), one("a")), *ran(A, S.CHECKPOINT_READY), *ran(B, S.FAILED))
    result = workflow_result(record.spec, record.steps)
    assert (result.ok, result.status) == (False, W.PARTIAL)
    assert (result.usable_checkpoints, result.failed_steps, result.held_steps) == ((A,), (B,), (C,))
    assert kinds(record) == [
        NextActionKind.USE_PARTIAL_RESULT,
        NextActionKind.RETRY_STEPS,
        NextActionKind.INSPECT_CHILD,
    ]


def test_optional_steps_are_waited_for_and_do_not_decide() -> None:
    spec = plan(one("a"), one("b", required=False))
    assert play(spec, *ran(A, S.CHECKPOINT_READY)).status is W.RUNNING
    assert play(spec, *ran(A, S.CHECKPOINT_READY), *ran(B, S.FAILED)).status is W.COMPLETED
    assert play(spec, *ran(B, S.CHECKPOINT_READY), *ran(A, S.FAILED)).status is W.PARTIAL


def test_a_completed_workflow_leaves_nothing_pending_behind_an_optional_question() -> None:
    spec = plan(one("a"), one("b", required=False), one("c", "b", required=False))
    record = play(spec, *ran(B, S.NEEDS_ORCHESTRATOR), *ran(A, S.CHECKPOINT_READY))
    assert (record.status, record.states[C]) == (W.COMPLETED, S.HELD)


def test_a_held_workflow_has_no_deadline_and_goes_on_after_a_decision_with_its_whole_time() -> None:
    spec = plan(one("a"), one("b", "a"))
    held = play(spec, *ran(A, S.NEEDS_ORCHESTRATOR))
    assert (held.status, held.deadline, held.states[B]) == (W.HELD, None, S.PENDING)
    assert kinds(held)[0] is NextActionKind.ASK_OPERATOR
    assert step(held, WorkflowTimerFired(), at(10**6)) == (held, ())
    going, (fact,) = step(held, ReleaseStep(A, "yes, drop the table"), at(50))
    assert (going.status, going.deadline) == (W.RUNNING, at(51))
    assert isinstance(fact, WorkflowEvent)
    assert (fact.kind, fact.step_state, fact.reason) == (
        WorkflowEventKind.CHECKPOINT_DECIDED,
        S.PENDING,
        "yes, drop the table",
    )
    given_up, _ = step(held, GiveUpStep(A, "no"), at(50))
    assert (given_up.status, given_up.states) == (W.FAILED, {A: S.FAILED, B: S.HELD})


def test_a_step_that_depends_on_a_lost_one_cannot_be_released() -> None:
    spec = plan(one("a"), one("b", "a"), one("c"))
    record = play(spec, *ran(A, S.PARTIAL))
    assert record.states[B] is S.HELD
    with pytest.raises(ContractError, match="release"):
        step(record, ReleaseStep(B, "go on"), NOW)


def test_time_that_runs_out_ends_what_runs_and_holds_what_waits() -> None:
    running = play(plan(one("a"), one("b"), one("c", "b")), *ran(A, S.CHECKPOINT_READY), StartStep(B, CHILD))
    record, outputs = step(running, WorkflowTimerFired(), at(1.5))
    assert (record.status, record.closed) == (W.PARTIAL, "workflow_timeout")
    assert record.states == {A: S.CHECKPOINT_READY, B: S.TIMED_OUT, C: S.HELD}
    facts = [output for output in outputs if isinstance(output, WorkflowEvent)]
    assert [fact.kind for fact in facts] == ["checkpoint_decided", "step_held", "workflow_finished"]
    assert (facts[0].timeout_ms, facts[0].elapsed_ms, facts[0].reason) == (1000, 1500, "workflow_timeout")
    assert NextActionKind.RAISE_TIMEOUT in kinds(record)
    assert step(play(plan(one("a"))), WorkflowTimerFired(), DUE)[0].status is W.TIMED_OUT


def test_work_that_goes_on_does_not_move_the_deadline() -> None:
    spec = plan(one("a"), one("b", "a"))
    record = play(spec, *ran(A, S.CHECKPOINT_READY), StartStep(B, CHILD), now=at(0.5))
    assert (record.status, record.deadline) == (W.RUNNING, DUE)


def test_an_answer_after_the_deadline_is_noted_and_not_believed() -> None:
    running = play(plan(one("a")), StartStep(A, CHILD))
    record, outputs = step(running, StepReported(A, CHILD, ENDS[S.CHECKPOINT_READY]), DUE)
    assert (record.status, record.states[A]) == (W.TIMED_OUT, S.TIMED_OUT)
    assert isinstance(outputs[-1], Anomaly)
    assert outputs[-1].kind == "overtaken_by_deadline"


def test_a_stop_ends_it_in_one_command_and_keeps_what_was_asked() -> None:
    record = play(plan(one("a"), one("b"), one("c", "b")), *ran(A, S.NEEDS_ORCHESTRATOR), StartStep(B, CHILD))
    stopped, _ = step(record, StopWorkflow("enough"), NOW)
    assert stopped.states == {A: S.NEEDS_ORCHESTRATOR, B: S.FAILED, C: S.HELD}
    assert (stopped.status, stopped.closed) == (W.FAILED, "enough")


def test_a_report_counts_only_for_the_step_that_the_child_runs() -> None:
    record = play(plan(one("a"), one("b")), StartStep(A, CHILD))
    for late in (
        StepReported(A, SubagentId("sub_other"), ENDS[S.CHECKPOINT_READY]),
        StepReported(B, CHILD, ENDS[S.CHECKPOINT_READY]),
        StepReported(StepId("zzz"), CHILD, ENDS[S.CHECKPOINT_READY]),
    ):
        kept, (anomaly,) = step(record, late, NOW)
        assert kept is record
        assert isinstance(anomaly, Anomaly)
        assert anomaly.kind == "late_step_report"


def test_the_old_child_of_a_released_step_is_not_heard() -> None:
    record = play(plan(one("a")), *ran(A, S.NEEDS_ORCHESTRATOR), ReleaseStep(A, "go on"))
    assert step(record, StepReported(A, CHILD, ENDS[S.CHECKPOINT_READY]), NOW)[0] is record
    again = play(record.spec, *ran(A, S.HELD), ReleaseStep(A, "go on"), StartStep(A, SubagentId("sub_2")))
    assert step(again, StepReported(A, CHILD, ENDS[S.CHECKPOINT_READY]), NOW)[0] is again


@pytest.mark.parametrize(
    "command",
    [
        StartStep(B, CHILD),
        StartStep(StepId("zzz"), CHILD),
        ReleaseStep(A, "go on"),
        GiveUpStep(A, "no"),
        StopWorkflow(" "),
    ],
)
def test_a_command_that_is_not_allowed_is_refused(command: WorkflowInput) -> None:
    with pytest.raises(ContractError):
        step(play(plan(one("a"), one("b", "a"))), command, NOW)


@pytest.mark.parametrize("command", [ReleaseStep(A, " "), GiveUpStep(A, "")])
def test_a_decision_says_why(command: WorkflowInput) -> None:
    with pytest.raises(ContractError, match="reason"):
        step(play(plan(one("a")), *ran(A, S.HELD)), command, NOW)


@pytest.mark.parametrize("command", [StartStep(A, CHILD), ReleaseStep(A, "x"), GiveUpStep(A, "x"), StopWorkflow("x")])
def test_a_finished_workflow_takes_no_command(command: WorkflowInput) -> None:
    with pytest.raises(ContractError, match="too late"):
        step(play(plan(one("a")), *ran(A, S.FAILED)), command, NOW)


def test_a_workflow_says_that_it_began_and_what_its_steps_showed() -> None:
    record, (started,) = begin(plan(one("a")), NOW)
    assert (started.kind, started.status, started.timeout_ms) == ("workflow_started", W.RUNNING, 1000)
    record, (scheduled,) = step(record, StartStep(A, CHILD), NOW)
    record, (decided, finished) = step(record, StepReported(A, CHILD, ENDS[S.CHECKPOINT_READY]), NOW)
    assert all(isinstance(fact, WorkflowEvent) for fact in (scheduled, decided, finished))
    assert isinstance(decided, WorkflowEvent)
    assert (decided.summary, decided.checkpoint) == ("words", {"status": "checkpoint_ready"})


def test_a_result_is_only_made_of_the_steps_of_its_plan() -> None:
    spec = plan(one("a"), one("b"))
    for steps in ((), (StepRecord(A),), (StepRecord(B), StepRecord(A)), (StepRecord(A), StepRecord(A))):
        with pytest.raises(ContractError, match="not those of its plan"):
            workflow_result(spec, steps)


def test_a_gate_asks_at_once_also_while_other_steps_run_and_an_answer_unlocks_what_needs_it() -> None:
    record, facts = begin(plan(gate("a"), one("b", "a"), one("c")), NOW)
    assert [(fact.step_id, fact.step_state) for fact in facts] == [(None, None), (A, S.HELD)]
    assert record.status is W.RUNNING  # for c can start
    record = play(record.spec, AnswerGate(A, "go", decided_by="ann"))
    shown = record.steps[0].evidence
    assert record.states[A] is S.CHECKPOINT_READY
    assert shown is not None
    assert shown.checkpoint == {
        "status": "checkpoint_ready",
        "proof": "decision",
        "choice": "go",
        "reason": "",
        "decided_by": "ann",
    }
    record, _ = step(record, StartStep(B, CHILD), NOW)
    assert record.states[B] is S.RUNNING


def test_a_plan_that_begins_with_a_gate_is_held_without_a_deadline() -> None:
    record, _ = begin(plan(gate("a"), one("b", "a")), NOW)
    assert (record.status, record.deadline) == (W.HELD, None)


def test_a_gate_takes_only_its_choices_and_is_never_released_and_stop_gives_it_up() -> None:
    spec = plan(gate("a"), one("b", "a"))
    with pytest.raises(ContractError, match="takes go, stop, not 'yes'"):
        play(spec, AnswerGate(A, "yes"))
    with pytest.raises(ContractError, match="release"):
        play(spec, ReleaseStep(A, "again"))
    stopped = play(spec, AnswerGate(A, "stop", reason="not now"))
    assert (stopped.states[A], stopped.states[B], stopped.status) == (S.FAILED, S.HELD, W.FAILED)
    with pytest.raises(ContractError, match="too late"):
        step(stopped, AnswerGate(A, "go"), NOW)


def test_a_gate_behind_a_lost_step_cannot_be_answered() -> None:
    spec = plan(one("a"), gate("b", "a"), one("c"), gate("d"))
    record = play(spec, StartStep(A, CHILD), StepReported(A, CHILD, ENDS[S.FAILED]))
    assert record.states[B] is S.HELD
    with pytest.raises(ContractError):
        step(record, AnswerGate(B, "go"), NOW)


def test_the_step_of_a_command_runs_without_a_child() -> None:
    spec = plan(StepSpec(id=A, run=("make", "test")))
    record = play(spec, StartStep(A, None))
    assert record.states[A] is S.RUNNING
    record, _ = step(record, StepReported(A, None, ENDS[S.CHECKPOINT_READY]), NOW)
    assert record.status is W.COMPLETED


def rounds(count: int, retries: int = 0, *, once: bool = False) -> WorkflowSpec:
    return plan(replace(one("a"), rounds=count, checks=CHECKS, retries=retries, once=once))


def test_a_round_that_is_not_proven_is_followed_by_another_one_of_the_same_child() -> None:
    running = play(rounds(2), StartStep(A, CHILD))
    record, (fact,) = step(running, StepReported(A, CHILD, AGAIN), NOW)
    assert isinstance(fact, WorkflowEvent)
    assert (fact.kind, fact.round, fact.subagent_id) == ("round_begun", 2, CHILD)
    assert (fact.summary, fact.reason) == ("make test exited 1", "why")
    assert (record.states[A], record.steps[0].told, record.deadline) == (S.RUNNING, "make test exited 1", DUE)
    record, (decided, _) = step(record, StepReported(A, CHILD, AGAIN), NOW)
    assert isinstance(decided, WorkflowEvent)
    assert (record.states[A], decided.round, record.status) == (S.PARTIAL, 2, W.PARTIAL)


def test_a_lost_attempt_is_retried_by_a_new_child_as_often_as_the_plan_says() -> None:
    lost = StepReported(A, CHILD, LOST[0])
    record, (fact,) = step(play(rounds(1, 1), StartStep(A, CHILD)), lost, NOW)
    assert isinstance(fact, WorkflowEvent)
    assert (fact.kind, fact.attempt, fact.subagent_id, fact.reason) == ("step_retried", 2, None, "crash: why")
    record, _ = step(record, StartStep(A, SubagentId("sub_2")), NOW)
    assert step(record, lost, NOW)[0] is record  # of the attempt before
    record, _ = step(record, StepReported(A, SubagentId("sub_2"), LOST[0]), NOW)
    assert (record.states[A], record.status) == (S.FAILED, W.FAILED)


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (ENDS[S.FAILED], S.FAILED),  # by its claim
        (replace(LOST[0], cause="quota"), S.FAILED),
        (LOST[0], S.NEEDS_ORCHESTRATOR),
        (LOST[1], S.PENDING),
    ],
)
def test_what_is_not_retried(shown: StepEvidence, state: StepState) -> None:
    spec = plan(replace(one("a"), retries=1, retry_on=("crash",), once=True))
    record = play(spec, StartStep(A, CHILD), StepReported(A, CHILD, shown))
    assert record.states[A] is state
    if state is S.NEEDS_ORCHESTRATOR:
        assert record.steps[0].evidence is not None
        assert record.steps[0].evidence.reason == "to_be_done_once: why; look at what it did before it runs again"


@pytest.mark.parametrize("on_timeout", ["hold", "give_up"])
def test_a_gate_that_nobody_answers_in_time_is_given_up_or_waits_on(on_timeout: str) -> None:
    spec = plan(replace(gate("a"), timeout_ms=3000, on_timeout=on_timeout), one("b", "a"))
    record, facts = begin(spec, NOW)
    assert [fact.answer_by for fact in facts] == [None, at(3)]
    assert step(record, WorkflowTimerFired(), at(2.9)) == (record, ())
    late, outputs = step(record, WorkflowTimerFired(), at(3))
    if on_timeout == "hold":
        assert (late, outputs, record.next_deadline) == (record, (), None)
        assert step(record, AnswerGate(A, "go"), at(9))[0].states[A] is S.CHECKPOINT_READY
        return
    assert record.next_deadline == at(3)
    assert (late.states, late.status) == ({A: S.FAILED, B: S.HELD}, W.FAILED)
    decided = outputs[0]
    assert isinstance(decided, WorkflowEvent)
    assert (decided.reason, decided.decided_by, decided.step_state) == ("nobody_answered_in_time", "", S.FAILED)
    with pytest.raises(ContractError):
        step(record, AnswerGate(A, "go"), at(3))
    assert step(record, AnswerGate(A, "go"), at(2.9))[0].states[A] is S.CHECKPOINT_READY


def test_a_budget_that_is_used_up_lets_what_runs_end_and_starts_nothing_more() -> None:
    spec = plan(one("a"), replace(one("b"), rounds=2, checks=CHECKS, retries=1, once=False), one("c", "a"))
    running = play(spec, *ran(A, S.CHECKPOINT_READY), StartStep(B, CHILD))
    record, facts = step(running, BudgetUsedUp("budget_used_up: 9 of 8 USD"), NOW)
    assert [getattr(fact, "kind", None) for fact in facts] == ["budget_used_up", "step_held"]
    assert (record.states, record.status) == ({A: S.CHECKPOINT_READY, B: S.RUNNING, C: S.HELD}, W.RUNNING)
    assert step(record, BudgetUsedUp("again"), NOW) == (record, ())
    for shown in (AGAIN, LOST[0]):  # no further round, and no further attempt
        ended, _ = step(record, StepReported(B, CHILD, shown), NOW)
        assert (ended.states[B], ended.status) == (shown.state, W.PARTIAL)
        assert ended.closed == "budget_used_up: 9 of 8 USD"


def test_steps_for_items_are_added_once_and_joined() -> None:
    spec = plan(one("a"), replace(one("b", "a"), task="", each="a.list", each_max=3), one("c", "b"))
    first = play(spec, *ran(A, S.CHECKPOINT_READY))
    assert (first.status, first.states[B]) == (W.RUNNING, S.PENDING)
    items = tuple(one(f"b:{number}", "a") for number in range(2))
    record, (fact,) = step(first, AddSteps(B, items), NOW)
    assert isinstance(fact, WorkflowEvent)
    assert (fact.kind, fact.step_id) == ("steps_added", "b")
    assert list(record.states) == ["a", "b", "c", "b:0", "b:1"]
    again, (anomaly,) = step(record, AddSteps(B, items), NOW)
    assert (again, isinstance(anomaly, Anomaly)) == (record, True)
    for item in items:
        assert record.states[B] is S.PENDING
        record = step(step(record, StartStep(item.id, CHILD), NOW)[0], *_ready(item.id))[0]
    assert (record.states[B], record.status) == (S.CHECKPOINT_READY, W.RUNNING)
    assert step(record, StartStep(C, CHILD), NOW)[0].states[C] is S.RUNNING
    empty, _ = step(first, AddSteps(B), NOW)
    assert empty.states[B] is S.CHECKPOINT_READY
    refused, _ = step(first, AddSteps(B, problem="it is no list"), NOW)
    assert (refused.states[B], refused.status) == (S.NEEDS_ORCHESTRATOR, W.HELD)
    running = step(step(first, AddSteps(B, items), NOW)[0], StartStep(items[0].id, CHILD), NOW)[0]
    lost, _ = step(running, StepReported(items[0].id, CHILD, ENDS[S.FAILED]), NOW)
    assert (lost.states[B], lost.states[C]) == (S.HELD, S.HELD)


def _ready(name: StepId) -> tuple[WorkflowInput, datetime]:
    return StepReported(name, CHILD, ENDS[S.CHECKPOINT_READY]), NOW
