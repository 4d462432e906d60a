"""Many children: the fold over a log, and what a wait comes to."""

from __future__ import annotations

from itertools import product
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.lifecycle.children.subagent import (
    ChildFailed,
    ChildFinished,
    Detach,
    Interrupt,
    SendInput,
    SubagentTimerFired,
)
from interlock.lifecycle.children.subagent_evidence import TERMINAL
from interlock.lifecycle.children.subagents import WaitOutcome, WaitStatus, subagents_from, wait_outcome
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.ids import SubagentId
from interlock.vocabulary.states import SubagentState
from tests.each_row import each_row
from tests.lifecycle.children import after, queued, running

S = SubagentState
COMPLETED: Final = after(running(), ChildFinished(1, "done"), 1)
FACTS: Final = {
    S.QUEUED: queued().fact,
    S.RUNNING: running().fact,
    S.COMPLETED: COMPLETED.fact,
    S.FAILED: after(running(), ChildFailed(1, "crashed"), 1).fact,
    S.TIMED_OUT: after(running(), SubagentTimerFired(), 2).fact,
    S.INTERRUPTED: after(running(), Interrupt("stop"), 1).fact,
    S.DETACHED: after(running(), Detach("restart"), 1).fact,
}
REOPENED: Final = after(COMPLETED, SendInput(), 5).fact


def fact(status: SubagentState, attempt: int = 1) -> SubagentEvent:
    return structs.replace(FACTS[status], attempt=attempt)


@each_row(
    ("facts", "holds", "anomalies"),
    [
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.COMPLETED)], S.COMPLETED, []),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.RUNNING)], S.RUNNING, []),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.QUEUED, 2)], S.QUEUED, []),
        ([fact(S.RUNNING), fact(S.COMPLETED)], S.COMPLETED, ["first fact"]),
        ([fact(S.QUEUED), fact(S.COMPLETED)], S.COMPLETED, ["out of order"]),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.QUEUED)], S.QUEUED, ["out of order"]),
        ([fact(S.QUEUED), fact(S.RUNNING, 2)], S.RUNNING, ["out of order"]),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.COMPLETED), fact(S.FAILED)], S.COMPLETED, ["after its end"]),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.FAILED), fact(S.COMPLETED, 2)], S.FAILED, ["after its end"]),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.FAILED), fact(S.RUNNING)], S.FAILED, ["after its end"]),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.FAILED), fact(S.RUNNING, 2)], S.RUNNING, []),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.DETACHED), fact(S.RUNNING, 2)], S.DETACHED, ["after its end"]),
        ([fact(S.QUEUED), fact(S.RUNNING), fact(S.QUEUED, 2), fact(S.FAILED, 1)], S.QUEUED, ["older attempt"]),
    ],
)
def test_the_last_fact_holds_and_what_is_odd_is_noted(
    facts: list[SubagentEvent], holds: SubagentState, anomalies: list[str]
) -> None:
    reading = subagents_from(facts)[SubagentId("sub_1")]
    assert reading.fact.status is holds
    assert len(reading.anomalies) == len(anomalies)
    assert all(words in note for words, note in zip(anomalies, reading.anomalies, strict=True))


def test_children_are_read_apart_and_evidence_that_a_log_lacks_is_named() -> None:
    bare = SubagentEvent(subagent_id=SubagentId("sub_2"), status=S.TIMED_OUT)
    readings = subagents_from([FACTS[S.QUEUED], bare, FACTS[S.RUNNING]])
    assert list(readings) == ["sub_1", "sub_2"]
    assert readings[SubagentId("sub_1")].missing == ()
    assert "elapsed_ms" in readings[SubagentId("sub_2")].missing


@given(st.lists(st.builds(fact, st.sampled_from(SubagentState), st.integers(1, 4))))
def test_an_end_is_final_for_every_log_whatsoever(facts: list[SubagentEvent]) -> None:
    for length in range(1, len(facts)):
        before = subagents_from(facts[:length])[SubagentId("sub_1")]
        later = subagents_from(facts[: length + 1])[SubagentId("sub_1")]
        assert later.fact.attempt >= before.fact.attempt
        if before.fact.status in TERMINAL and later.fact != before.fact:
            assert later.fact.status is S.RUNNING
            assert later.fact.attempt > before.fact.attempt
            assert before.fact.status is not S.DETACHED


def outcome(*states: SubagentState, unknown: int = 0) -> WaitOutcome:
    names = [SubagentId(f"sub_{number}") for number in range(len(states) + unknown)]
    children = {
        name: structs.replace(FACTS[state], subagent_id=name) for name, state in zip(names, states, strict=False)
    }
    return wait_outcome(children, wanted=names)


def test_every_wait_for_up_to_three_children() -> None:
    for size in range(4):
        for states in product(SubagentState, repeat=size):
            found = outcome(*states)
            assert (found.status is WaitStatus.COMPLETED) == (set(states) == {S.COMPLETED})
            assert (found.status is WaitStatus.INCOMPLETE) == bool({S.QUEUED, S.RUNNING} & set(states))
            assert (found.status is WaitStatus.NOTHING_TO_WAIT_FOR) == (size == 0)
            assert found.counts == {state: states.count(state) for state in SubagentState}
            if found.status in (WaitStatus.INCOMPLETE, WaitStatus.PARTIAL):
                assert found.next_actions


def test_a_child_that_nobody_knows_is_reported_and_never_completed() -> None:
    found = outcome(S.COMPLETED, unknown=1)
    assert (found.status, found.unknown) == (WaitStatus.PARTIAL, ("sub_1",))
    assert NextActionKind.ASK_OPERATOR in [action.kind for action in found.next_actions]
    assert outcome(S.RUNNING, unknown=1).status is WaitStatus.INCOMPLETE
    assert outcome(unknown=2).status is WaitStatus.NOTHING_TO_WAIT_FOR


def test_a_completion_that_proves_nothing_does_not_complete_a_wait() -> None:
    bare = SubagentEvent(subagent_id=SubagentId("sub_1"), status=S.COMPLETED)
    found = wait_outcome({bare.subagent_id: bare}, wanted=[bare.subagent_id])
    assert (found.status, found.unproven) == (WaitStatus.PARTIAL, ("sub_1",))
    assert found.next_actions


def test_only_wanted_children_count_and_each_counts_once() -> None:
    children = {SubagentId("a"): FACTS[S.COMPLETED], SubagentId("b"): FACTS[S.RUNNING]}
    found = wait_outcome(children, wanted=[SubagentId("a"), SubagentId("a")])
    assert found.status is WaitStatus.COMPLETED
    assert found.buckets[S.COMPLETED] == ("a",)


def test_advice_says_to_wait_again_and_repeats_nothing() -> None:
    found = outcome(S.RUNNING, S.FAILED, S.FAILED)
    kinds = [action.kind for action in found.next_actions]
    assert kinds[0] is NextActionKind.WAIT_AGAIN
    assert len(found.next_actions) == len(set(found.next_actions))
    assert NextActionKind.RERUN_CHILD in kinds
