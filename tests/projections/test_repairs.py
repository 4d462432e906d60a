"""Results for calls that a dead runtime left open."""

from __future__ import annotations

from hypothesis import given

from interlock.lifecycle.decisions.toolcall import EndKind
from interlock.projections.replay.provider_input import fold_replay
from interlock.projections.replay.repairs import Repair, repairs_at_start
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import (
    PendingCall,
    RunState,
    Suspension,
    SuspensionTicket,
    ToolCallSuspended,
    TurnFailed,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import ToolCall, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId
from interlock.vocabulary.run import CANCELLED, RunStatus
from interlock.vocabulary.states import DriverKind, TurnState
from tests.projections.conversations import call, histories, result, said, user, whole_turn

STARTED = TurnStarted(driver=DriverKind.MODEL)
DONE = RunState(run_id=RunId("r"), status=RunStatus.DONE, reason=CANCELLED)
TICKET = SuspensionTicket(suspension=Suspension(id="q", action="ask"), pending=PendingCall(id="a", name="bash"))
ASKED = ToolCallSuspended(call_id=CallId("a"), name="bash", ticket=TICKET)


def kinds(*payloads: Payload, turn: str | None = "t1") -> list[tuple[str | None, str, str]]:
    return [_kind(repair) for repair in repairs_at_start(Scribe().write(*payloads, turn=turn))]


def _kind(repair: Repair) -> tuple[str | None, str, str]:
    assert repair.result.error is not None
    return repair.turn_id, repair.result.call_id, repair.result.error.kind


def test_a_call_that_a_dead_owner_left_open_is_ended_and_not_run_again() -> None:
    left_open = (STARTED, user(), call("a"), result("a"), call("b"))
    assert kinds(*left_open) == [("t1", "b", EndKind.ORPHAN_TOOL_CALL)]
    (repair,) = repairs_at_start(Scribe().write(*left_open, turn="t1"))
    assert repair.result.synthetic


def test_a_call_that_a_terminal_turn_left_unpaired_is_ended() -> None:
    assert kinds(STARTED, user(), call("a"), DONE) == [("t1", "a", EndKind.ORPHAN_TOOL_CALL)]


def test_a_suspended_call_waits_for_a_person_while_its_turn_is_not_over() -> None:
    assert kinds(STARTED, user(), call("a"), ASKED) == []
    assert kinds(STARTED, user(), call("a"), ASKED, DONE) == [("t1", "a", EndKind.RUN_CANCELLED)]


def test_nothing_is_left_to_repair_after_a_closing_batch() -> None:
    scribe = Scribe()
    whole_turn(scribe, "t1")
    assert repairs_at_start(scribe.events) == ()
    assert repairs_at_start([]) == ()


def test_without_turn_ids_only_the_last_turn_can_be_repaired() -> None:
    first = (user(), call("a"), TurnFailed(terminal_status=TurnState.FAILED, error_kind="x", error_message="x"))
    assert kinds(*first, turn=None) == [(None, "a", EndKind.ORPHAN_TOOL_CALL)]
    assert kinds(*first, user("next"), call("b"), turn=None) == [(None, "b", EndKind.ORPHAN_TOOL_CALL)]
    assert kinds(*first, user("next"), said(), turn=None) == []


@given(histories())
def test_with_its_repairs_a_log_is_settled_and_needs_no_more(log: list[Event]) -> None:
    scribe = Scribe()
    scribe.events = list(log)
    repairs = repairs_at_start(log)
    for repair in repairs:
        scribe.write(repair.result, turn=repair.turn_id)
    assert repairs_at_start(scribe.events) == ()
    assert fold_replay(scribe.events).conversation().is_settled
    asked = sum(isinstance(event.data, ToolCall) for event in log)
    answered = sum(isinstance(event.data, ToolResult) for event in scribe.events)
    assert asked == answered
