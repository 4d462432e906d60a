"""The plan of a workflow: what is refused, what may run, and what is lost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, permutations, product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.children.workflow_plan import (
    InvalidWorkflow,
    StepOutput,
    StepSpec,
    WorkflowSpec,
    held_steps,
    lost_steps,
    ready_steps,
    waves,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import StepId, WorkflowId
from interlock.vocabulary.states import StepState
from tests.each_row import each_row
from tests.lifecycle.plans import A, B, C, one, plan, plans_of

S = StepState


def refused(*steps: StepSpec, name: str = "wf_1", max_concurrency: int = 6, timeout_ms: int = 1000) -> InvalidWorkflow:
    with pytest.raises(InvalidWorkflow) as caught:
        WorkflowSpec(id=WorkflowId(name), steps=steps, max_concurrency=max_concurrency, timeout_ms=timeout_ms)
    return caught.value


@each_row(
    ("steps", "words"),
    [
        ((), ["no steps"]),
        ((one("a", required=False),), ["no step is required"]),
        ((one("a"), one("a")), ["2 steps are called 'a'"]),
        ((one("../a"),), ["'../a' is no id"]),
        ((one("a", "z"),), ["depends on 'z'"]),
        ((one("a", "a"),), ["'a' depends on itself"]),
        ((one("a", "b"), one("b", "a")), ["a -> b -> a"]),
        ((one("a", "b"), one("b", "c"), one("c", "b")), ["b -> c -> b"]),
        ((one("a", "b"), one("b", "a"), one("c", "d"), one("d", "c")), ["a -> b -> a", "c -> d -> c"]),
        ((StepSpec(id=A, task=" \n"),), ["no task"]),
        ((StepSpec(id=A, task="x", run=("make",), gate="y?"),), ["task and run and gate at once"]),
        ((StepSpec(id=A, gate=" "),), ["asks nothing"]),
        ((StepSpec(id=A, gate="y?", choices=("go",)),), ["offers ['go']"]),
        ((StepSpec(id=A, gate="y?", choices=("go", "go")),), ["offers ['go', 'go']"]),
        ((StepSpec(id=A, gate="y?", checks=(("true",),)),), ["a gate with checks"]),
        ((StepSpec(id=A, run=("",)),), ["a command without a name"]),
        ((StepSpec(id=A, task="x", checks=((),)),), ["an empty check"]),
        ((StepSpec(id=A, task="x", outputs=(StepOutput(name="o", path="../o"),)),), ["'../o'"]),
        ((StepSpec(id=A, task="x", outputs=(StepOutput(name="o", path="o", type="thing"),)),), ["'thing'"]),
        ((StepSpec(id=A, task="x", timeout_ms=0),), ["step 'a' has a timeout of 0 ms"]),
        ((StepSpec(id=A, task="x", timeout_ms=10**30),), ["timeout of 1000"]),
        ((one("a", writes=("/etc",)),), ["'/etc'"]),
        ((one("a", writes=("src/../..",)),), ["'src/../..'"]),
        ((one("a", writes=("src/*.py",)),), ["'src/*.py'"]),
        ((one("a", writes=(" ",)),), ["path ' '"]),
        ((StepSpec(id=A, task="x", read_set=("..",)),), ["'..'"]),
        ((one("a", "z", "a"), one("b", "c"), one("c", "b")), ["'z'", "itself", "b -> c -> b"]),
    ],
)
def test_a_plan_that_cannot_run_is_refused_with_every_reason(steps: tuple[StepSpec, ...], words: list[str]) -> None:
    error = refused(*steps)
    assert isinstance(error, UsageError)
    assert len(error.problems) == len(words)
    for word in words:
        assert sum(word in problem.message for problem in error.problems) == 1
        assert word in str(error)
    assert all(problem.remedy in str(error) for problem in error.problems)


def test_a_plan_itself_has_an_id_room_for_a_step_and_a_time() -> None:
    assert len(refused(one("a"), name="a b", max_concurrency=0, timeout_ms=0).problems) == 3


def test_a_long_circle_is_found_without_recursion() -> None:
    size = 5000
    circle = [one(f"s{number}", f"s{(number + 1) % size}") for number in range(size)]
    assert len(refused(*circle).problems) == 1
    line = plan(*(one(f"s{number}", *([f"s{number - 1}"] if number else [])) for number in range(size)))
    assert len(lost_steps(line, {StepId("s0"): S.FAILED})) == size


def has_order(needs: Mapping[str, set[str]]) -> bool:
    """The naive model: some order of all steps has each after what it needs."""
    return any(
        all(order.index(needed) < order.index(name) for name in order for needed in needs[name])
        for order in permutations(needs)
    )


GRAPHS: Final = st.integers(1, 6).flatmap(
    lambda size: st.fixed_dictionaries({name: st.sets(st.sampled_from("abcdef"[:size])) for name in "abcdef"[:size]})
)


@given(GRAPHS, st.integers(1, 3))
def test_a_plan_is_accepted_exactly_if_some_order_exists(needs: dict[str, set[str]], room: int) -> None:
    steps = tuple(one(name, *sorted(needed)) for name, needed in needs.items())
    if not has_order(needs):
        for problem in refused(*steps).problems:
            names = problem.message.partition(": ")[2].split(" -> ") if ": " in problem.message else []
            assert all(later in needs[earlier] for earlier, later in pairwise(names))
            assert not names or names[0] == names[-1]
        return
    spec = plan(*steps, max_concurrency=room)
    run: list[str] = []
    for wave in waves(spec):
        assert 1 <= len(wave) <= room
        assert all(needs[name] <= set(run) for name in wave)
        run += wave
    assert sorted(run) == sorted(needs)


def every_state(spec: WorkflowSpec) -> list[dict[StepId, StepState]]:
    names = [step.id for step in spec.steps]
    return [dict(zip(names, states, strict=True)) for states in product(StepState, repeat=len(names))]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_only_pending_steps_with_ready_dependencies_may_run_and_nothing_is_forgotten(size: int) -> None:
    for spec in (spec for spec in plans_of(size) if all(step.required for step in spec.steps)):
        for states in every_state(spec):
            ready, lost = ready_steps(spec, states), lost_steps(spec, states)
            for step in spec.steps:
                is_unlocked = all(states[needed] is S.CHECKPOINT_READY for needed in step.depends_on)
                assert (step.id in ready) == (states[step.id] is S.PENDING and is_unlocked)
            assert lost.isdisjoint(ready)
            assert held_steps(spec, states) == tuple(
                step.id for step in spec.steps if states[step.id] is S.PENDING and not lost.isdisjoint(step.depends_on)
            )


def test_steps_run_in_the_order_of_the_plan_as_far_as_there_is_room() -> None:
    spec = plan(one("c"), one("a"), one("b"), max_concurrency=2)
    assert ready_steps(spec, {}) == (C, A)
    assert ready_steps(spec, {C: S.RUNNING}) == (A,)
    assert ready_steps(spec, {C: S.RUNNING, A: S.RUNNING}) == ()
    assert ready_steps(spec, {C: S.CHECKPOINT_READY, A: S.RUNNING}) == (B,)


@each_row(
    ("first", "second", "clash"),
    [
        ("src", "src", True),
        ("src", "src/a.py", True),
        ("src/a/b.py", "src/a", True),
        (".", "docs/x.md", True),
        ("./src/", "src//a.py", True),
        ("src", "src2", False),
        ("src/a", "src/ab", False),
        ("src/a.py", "src/b.py", False),
    ],
)
def test_steps_that_write_the_same_path_run_one_after_the_other(first: str, second: str, clash: bool) -> None:
    for spec in (
        plan(one("a", writes=(first,)), one("b", writes=(second,))),
        plan(one("a", writes=(first,)), StepSpec(id=B, task="read", read_set=(second,))),
        plan(StepSpec(id=A, task="read", read_set=(first,)), one("b", writes=(second,))),
    ):
        assert waves(spec) == (((A,), (B,)) if clash else ((A, B),))
        assert ready_steps(spec, {A: S.RUNNING}) == (() if clash else (B,))


def test_steps_that_only_read_the_same_path_run_together() -> None:
    readers = [StepSpec(id=name, task="read", read_set=("src",)) for name in (A, B)]
    assert waves(plan(*readers)) == ((A, B),)


@each_row(
    ("states", "lost"),
    [
        ({A: S.FAILED}, {A, B, C}),
        ({A: S.PARTIAL}, {A, B, C}),
        ({A: S.TIMED_OUT, B: S.HELD}, {A, B, C}),
        ({A: S.CHECKPOINT_READY, B: S.FAILED}, {B, C}),
        ({A: S.NEEDS_ORCHESTRATOR}, set()),
        ({A: S.HELD}, set()),
        ({A: S.CHECKPOINT_READY, B: S.NEEDS_ORCHESTRATOR}, set()),
    ],
)
def test_what_depends_on_a_lost_step_is_lost_and_what_waits_is_not(
    states: dict[StepId, StepState], lost: set[StepId]
) -> None:
    assert lost_steps(plan(one("c", "b"), one("b", "a"), one("a")), states) == lost
