"""What the classifier refuses is not given to a model: after the end of a turn, and of a spawn that does not own it."""

from __future__ import annotations

import pytest

from interlock.projections.replay.boundaries import find_cuts
from interlock.projections.replay.explain import ReplayRule, explain
from interlock.projections.replay.items import AssistantText, CallItem, ResultItem, UserText
from interlock.projections.replay.provider_input import provider_items
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnFailed, TurnStarted
from interlock.vocabulary.events.conversation import ToolError, ToolResult
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, StreamId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus
from interlock.vocabulary.states import DriverKind, TurnState
from tests.projections.conversations import FAILURE, call, fact, result, said, thought, user

START = TurnStarted(driver=DriverKind.MODEL)
DONE = RunState(run_id=RunId("run_1"), status=RunStatus.DONE, reason=NATURAL_END)
GONE = RunState(run_id=RunId("run_1"), status=RunStatus.DONE, reason=CANCELLED)
STOPPED = TurnFailed(terminal_status=TurnState.INTERRUPTED, error_kind="cancelled", error_message="stopped")


def texts(scribe: Scribe) -> list[str]:
    return [item.text for item in provider_items(scribe.events, model="m") if isinstance(item, AssistantText)]


def rule_of_last(scribe: Scribe) -> ReplayRule:
    return explain(scribe.events, model="m")[-1].rule


@pytest.mark.parametrize("closing", [(said("answer"), DONE), (STOPPED, GONE)], ids=["completed", "interrupted"])
@pytest.mark.parametrize("late", [said("late"), said("late", intermediate=True), user("late"), thought(), call("z")])
def test_after_the_end_of_its_run_nothing_of_a_turn_is_given(closing: tuple[Payload, ...], late: Payload) -> None:
    scribe = Scribe()
    scribe.write(START, user("do it"), *closing, turn="t1")
    before = provider_items(scribe.events, model="m")
    scribe.write(late, turn="t1")
    assert provider_items(scribe.events, model="m") == before
    told = explain(scribe.events, model="m")[-1]
    assert (told.rule, told.included) == (ReplayRule.LATE_EVENT, False)


def test_the_next_turn_and_the_facts_of_children_go_on_after_an_end() -> None:
    scribe = Scribe()
    scribe.write(START, user("do it"), said("answer"), DONE, fact("a child"), turn="t1")
    scribe.write(START, user("more"), said("and more"), turn="t2")
    assert texts(scribe) == ["answer", "and more"]
    assert "SubagentFact" in {type(item).__name__ for item in provider_items(scribe.events)}


def test_what_a_replaced_spawn_says_is_not_given_and_what_it_said_before_stays() -> None:
    scribe = Scribe()
    scribe.write(START, user("do it"), said("first try", intermediate=True), turn="t1", spawn="A")
    scribe.write(START, turn="t1", spawn="B")
    scribe.write(said("from the dead"), turn="t1", spawn="A")
    assert rule_of_last(scribe) is ReplayRule.STALE_SPAWN
    scribe.write(said("answer"), turn="t1", spawn="B")
    assert texts(scribe) == ["first try", "answer"]


def test_without_a_start_the_first_spawn_that_speaks_owns_the_turn() -> None:
    scribe = Scribe()
    scribe.write(user("do it"), turn="t1")
    scribe.write(said("mine", intermediate=True), turn="t1", spawn="A")
    scribe.write(said("not mine"), turn="t1", spawn="B")
    assert (texts(scribe), rule_of_last(scribe)) == (["mine"], ReplayRule.STALE_SPAWN)


def test_the_end_of_another_run_closes_nothing() -> None:
    scribe = Scribe()
    running = RunState(run_id=RunId("run_1"), status=RunStatus.RUNNING)
    foreign = RunState(run_id=RunId("run_2"), status=RunStatus.DONE, reason=NATURAL_END)
    scribe.write(START, user("do it"), running, foreign, said("answer"), turn="t1")
    assert texts(scribe) == ["answer"]


def test_a_failure_or_a_checkpoint_closes_nothing_and_owns_nothing() -> None:
    scribe = Scribe()
    scribe.write(StreamCheckpoint(stream_id=StreamId("st"), offset=4, text="half"), turn="t1", spawn="X")
    scribe.write(START, user("do it"), turn="t1", spawn="A")
    scribe.write(FAILURE, turn="t1", spawn="X")
    scribe.write(said("answer"), turn="t1", spawn="A")
    assert texts(scribe) == ["answer"]


def test_a_log_without_run_events_has_no_late_text() -> None:
    scribe = Scribe()
    scribe.write(user("do it"), said("one"), said("two"), FAILURE, said("three"))
    assert texts(scribe) == ["one", "two", "three"]


def test_without_turn_ids_a_prompt_begins_a_turn_that_is_open_again() -> None:
    scribe = Scribe()
    scribe.write(user("do it"), said("one"), DONE, said("late"), user("more"), said("two"))
    assert texts(scribe) == ["one", "two"]


def test_a_repair_after_the_end_still_answers_its_call() -> None:
    scribe = Scribe()
    error = ToolError(kind="orphan_tool_call", message="nobody knows")
    repair = ToolResult(call_id=CallId("a"), ok=False, error=error, synthetic=True)
    scribe.write(START, user("do it"), call("a"), GONE, repair, result("a"), turn="t1")
    items = provider_items(scribe.events)
    assert [type(item) for item in items] == [UserText, CallItem, ResultItem]
    assert isinstance(items[-1], ResultItem)
    assert items[-1].error == error


def test_a_late_call_does_not_keep_a_log_from_being_cut() -> None:
    scribe = Scribe()
    scribe.write(START, user("do it"), said("answer"), DONE, call("late"), turn="t1")
    scribe.write(fact("a child"))
    assert find_cuts(scribe.events).boundaries == [3, 4, 5]
