"""Fork: the child begins with what its parent's model had seen at the end of a turn, and with how its turns stood."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.lifecycle.turns import turn_states
from interlock.projections.replay.fork import FIRST_SEQ, LIMITATIONS, ForkPlan, NotABoundary, fork_points, plan_fork
from interlock.projections.replay.items import BranchMemory
from interlock.projections.replay.provider_input import PrefixRule, prefix_changes, provider_items
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.events.audit import RunState, SessionFork, TurnFailed, TurnStarted
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import AssistantMessage, BranchSummary, HistoryCompaction, SeqRange
from interlock.vocabulary.events.envelope import Event, audience
from interlock.vocabulary.events.registry import Audience
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.run import TerminationReason
from interlock.vocabulary.states import DriverKind, TurnState
from tests.projections.conversations import (
    PARTIAL,
    call,
    close_turn,
    compact,
    histories,
    result,
    said,
    user,
    whole_turn,
)
from tests.projections.whole_logs import provider_input

CHILD = SessionId("ses_child")


def ids() -> Iterator[EventId]:
    return (EventId(f"evt_child_{number}") for number in count())


def fork(log: list[Event], at_seq: int, *, child: SessionId = CHILD, branch_summary: str = "") -> ForkPlan:
    return plan_fork(log, at_seq=at_seq, child_session_id=child, ids=ids(), at=EPOCH, branch_summary=branch_summary)


def two_turns() -> Scribe:
    scribe = Scribe()
    whole_turn(scribe, "t1")
    whole_turn(scribe, "t2")
    return scribe


def test_a_fork_begins_with_its_lineage_and_copies_the_turns_before_it() -> None:
    log = two_turns().events
    plan = fork(log, 8)
    lineage = plan.events[0].data
    assert isinstance(lineage, SessionFork)
    assert (lineage.parent_session_id, lineage.fork_root_session_id) == ("ses_scribe", "ses_scribe")
    assert (lineage.parent_range, lineage.limitations) == (SeqRange(from_seq=1, to_seq=8), LIMITATIONS)
    assert [event.type for event in plan.events[1:]] == [
        *["turn_started", "user_message", "tool_call"],
        *["tool_result", "assistant_message", "run_state"],
    ]
    assert (plan.copied, plan.left_out) == (6, 2)


def test_copies_are_new_events_that_say_the_same() -> None:
    log = two_turns().events
    child = fork(log, 8).events
    assert [event.seq for event in child] == list(range(FIRST_SEQ, FIRST_SEQ + len(child)))
    assert {event.session_id for event in child} == {CHILD}
    assert len({event.id for event in child} | {event.id for event in log}) == len(child) + len(log)
    prompt, copy = log[1], child[2]
    assert (copy.data, copy.turn_id, copy.ts) == (prompt.data, prompt.turn_id, prompt.ts)
    for event in child:
        encode_event(event)


@pytest.mark.parametrize(
    ("at_seq", "before", "after"), [(1, None, 8), (3, None, 8), (7, None, 8), (9, 8, 16), (12, 8, 16), (99, 16, None)]
)
def test_inside_a_turn_it_is_refused_with_the_nearest_boundaries(
    at_seq: int, before: int | None, after: int | None
) -> None:
    with pytest.raises(NotABoundary, match="not the end of a turn; fork at seq") as refusal:
        fork(two_turns().events, at_seq)
    assert (refusal.value.before, refusal.value.after) == (before, after)


def test_without_any_boundary_the_refusal_says_what_to_wait_for() -> None:
    log = Scribe().write(TurnStarted(driver=DriverKind.MODEL), user(), turn="t1")
    with pytest.raises(NotABoundary, match="once its first turn has ended"):
        fork(log, 2)


def test_between_a_call_and_a_late_result_there_is_no_boundary() -> None:
    scribe = Scribe()
    scribe.write(
        user(), call("a"), TurnFailed(terminal_status=TurnState.FAILED, error_kind="x", error_message="x"), turn="t1"
    )
    assert fork_points(scribe.events) == (3,)
    scribe.write(result("a"), turn="t1")
    assert fork_points(scribe.events) == (4,)


def test_an_orphan_that_only_the_next_prompt_closes_is_forked_as_it_is() -> None:
    scribe = Scribe()
    scribe.write(
        user(), call("a"), TurnFailed(terminal_status=TurnState.FAILED, error_kind="x", error_message="x"), turn="t1"
    )
    scribe.write(user("next"), said(), turn="t2")
    assert fork_points(scribe.events) == (3, 5)
    assert provider_input(fork(scribe.events, 3).events) == provider_input(scribe.events[:3])


def test_a_fork_of_a_fork_keeps_the_root() -> None:
    child = list(fork(two_turns().events, 16).events)
    lineage = fork(child, child[-1].seq or 0, child=SessionId("ses_grandchild")).events[0].data
    assert isinstance(lineage, SessionFork)
    assert (lineage.parent_session_id, lineage.fork_root_session_id) == (CHILD, "ses_scribe")


def test_a_failed_turn_is_copied_with_its_failure_and_stays_failed() -> None:
    scribe = Scribe()
    scribe.write(TurnStarted(driver=DriverKind.MODEL), user(), turn="t1")
    close_turn(scribe, "t1", TerminationReason.error("gone"), text="half an answer")
    child = fork(scribe.events, len(scribe.events)).events
    assert [record.state for record in turn_states(child)] == [TurnState.PARTIAL_FAILED]
    assert [type(event.data) for event in child[3:]] == [AssistantMessage, TurnFailed, RunState]


def test_a_partial_text_without_its_failure_is_not_copied() -> None:
    scribe = Scribe()
    scribe.write(user("never answered"), PARTIAL)
    scribe.write(user("next"), said("done"))
    child = fork(scribe.events, 4).events
    assert PARTIAL not in [event.data for event in child]
    assert provider_input(child) == provider_input(scribe.events)


def test_the_range_of_a_compaction_is_that_of_the_copies() -> None:
    scribe = two_turns()
    compact(scribe, 1)
    whole_turn(scribe, "t3")
    child = fork(scribe.events, len(scribe.events)).events
    (copied,) = [event.data for event in child if isinstance(event.data, HistoryCompaction)]
    assert copied.range == SeqRange(from_seq=2, to_seq=7)
    assert provider_input(child) == provider_input(scribe.events)


def test_a_branch_summary_follows_what_was_copied() -> None:
    log = two_turns().events
    plan = fork(log, 8, branch_summary="the other way failed")
    last = plan.events[-1]
    assert last.seq == len(plan.events)
    assert last.data == BranchSummary(
        parent_session_id=SessionId("ses_scribe"),
        range=SeqRange(from_seq=9, to_seq=16),
        summary="the other way failed",
    )
    assert provider_items(plan.events) == (*provider_items(log[:8]), BranchMemory(summary="the other way failed"))


def test_a_branch_summary_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="without a branch summary"):
        fork(two_turns().events, 16, branch_summary="x")


def test_what_cannot_be_forked_says_why() -> None:
    log = two_turns().events
    with pytest.raises(UsageError, match="nothing to fork"):
        fork([], 1)
    with pytest.raises(ContractError, match="append the events first"):
        fork([structs.replace(log[0], seq=None)], 1)
    with pytest.raises(UsageError, match="out of order"):
        fork([log[1], log[0]], 1)
    with pytest.raises(ContractError, match="into itself"):
        fork(log, 8, child=SessionId("ses_scribe"))
    with pytest.raises(ContractError, match="too few ids"):
        plan_fork(log, at_seq=8, child_session_id=CHILD, ids=[EventId("one")], at=EPOCH)


def test_a_fork_says_that_it_cuts_the_prefix() -> None:
    assert [change.rule for change in prefix_changes(fork(two_turns().events, 8).events)] == [PrefixRule.FORK]


@given(histories(), st.data())
def test_the_child_is_given_what_the_parent_was_given_at_the_boundary(log: list[Event], data: st.DataObject) -> None:
    points = fork_points(log)
    if not points:
        return
    at_seq = data.draw(st.sampled_from(points))
    prefix = [event for event in log if (event.seq or 0) <= at_seq]
    child = list(fork(log, at_seq).events)
    assert provider_input(child, model="m") == provider_input(prefix, model="m")
    assert [_stand(record) for record in turn_states(child)] == [_stand(record) for record in turn_states(prefix)]
    assert fork_points(child)[-1] == child[-1].seq
    replayed = [event for event in child if audience(event) is Audience.REPLAY]
    assert len(replayed) == sum(audience(event) is Audience.REPLAY for event in prefix)


def _stand(record: object) -> tuple[object, ...]:
    names = ("turn_id", "state", "basis", "error_kind", "cancel_requested", "reason", "run_id")
    return tuple(getattr(record, name) for name in names)


@given(histories(), st.data())
def test_parent_and_child_go_on_alike(log: list[Event], data: st.DataObject) -> None:
    points = fork_points(log)
    if not points:
        return
    at_seq = data.draw(st.sampled_from(points))
    parent, child = Scribe(), Scribe("ses_child")
    parent.events = [event for event in log if (event.seq or 0) <= at_seq]
    child.events = list(fork(log, at_seq).events)
    for scribe in (parent, child):
        whole_turn(scribe, "t_next")
        compact(scribe, 1)
        whole_turn(scribe, "t_last")
    assert provider_input(parent.events, model="m") == provider_input(child.events, model="m")
