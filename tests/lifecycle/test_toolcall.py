"""One call: every edge of its table is walked, and each way through it gives what the laws promise."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import pytest

from interlock.lifecycle.decisions import toolcall
from interlock.lifecycle.decisions.toolcall import (
    MACHINE,
    TERMINAL,
    CallKey,
    Cancel,
    DecideCall,
    EndKind,
    Execute,
    Fail,
    Succeed,
    Suspend,
    ToolCallInput,
    ToolCallState,
    ToolStarted,
)
from interlock.testing.explore import check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import (
    DecisionAction,
    PendingCall,
    ResumeMode,
    Suspension,
    SuspensionTicket,
    ToolCallDecided,
)
from interlock.vocabulary.events.conversation import ToolError, ToolResult
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import CallId, TurnId
from interlock.vocabulary.states import ToolCallStatus as Status
from tests.each_row import each_row

KEY: Final = CallKey(TurnId("trn_1"), CallId("c1"))
CALL: Final = ToolCallState(KEY, "Bash", {"command": "ls"})
YES: Final = ToolCallDecided(target_id="c1", action=DecisionAction.RESUME, decision_id="d1", result=True)
NO: Final = ToolCallDecided(target_id="c1", action=DecisionAction.CANCEL, decision_id="d1", result=False)
SOON: Final = datetime(2026, 1, 1, tzinfo=UTC)
EVERY: Final[tuple[ToolCallInput, ...]] = (
    ToolStarted(),
    Suspend(),
    Suspend(deadline_at=SOON),
    DecideCall(YES),
    DecideCall(NO),
    DecideCall(),
    Succeed(),
    Fail(),
    Cancel(),
)


def after(*inputs: ToolCallInput, call: ToolCallState = CALL) -> ToolCallState:
    for given in inputs:
        call, _ = toolcall.step(call, given)
    return call


def ticket(mode: ResumeMode, suspension: str = "s1", action: str = "ask", pending: str = "p1") -> SuspensionTicket:
    return SuspensionTicket(
        suspension=Suspension(id=suspension, action=action),
        pending=PendingCall(id=pending, name="Confirm"),
        resume_mode=mode,
    )


def test_the_walk_takes_every_edge_and_no_other(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[CALL],
        inputs=lambda _: EVERY,
        step=lambda call, given: toolcall.step(call, given)[0],
        label=labelled_by("status"),
        named=lambda given: given.on,
        state_laws={
            "only a suspended call has a deadline": lambda c: c.deadline_at is None or c.status is Status.SUSPENDED,
            "a suspended call has a question and no decision": lambda c: (
                c.status is not Status.SUSPENDED or (c.ticket is not None and c.decision is None)
            ),
        },
        step_laws={
            "terminal is final": lambda before, _, __: before.is_open,
            "running keeps the decision only from resuming": lambda before, _, later: (
                later.status is not Status.RUNNING
                or later.decision == (before.decision if before.status is Status.RESUMING else None)
            ),
        },
    )
    check_table(found, MACHINE)
    assert not found.stuck(lambda call: not call.is_open)
    assert found.summary("toolcall") == "toolcall: 33 states, 83 transitions, 214 refused"
    record_property("explored", found.summary("toolcall"))


def test_the_table_is_the_one_of_the_design() -> None:
    targets = {state: {edge.target for edge in MACHINE.edges if edge.source is state} for state in Status}
    assert targets == {
        Status.NEW: set(Status) - {Status.NEW},
        Status.RUNNING: {Status.SUSPENDED, *TERMINAL},
        Status.SUSPENDED: {Status.RESUMING, Status.CANCELLED},
        Status.RESUMING: {Status.RUNNING, Status.SUSPENDED, *TERMINAL},
        Status.SUCCEEDED: set(),
        Status.FAILED: set(),
        Status.CANCELLED: set(),
    }


@each_row("given", EVERY, ids=lambda given: given.on)
@each_row("last", [Succeed(), Fail(), Cancel()], ids=lambda given: given.on)
def test_an_ended_call_refuses_every_command(last: ToolCallInput, given: ToolCallInput) -> None:
    call = after(last)
    with pytest.raises(ContractError, match=call.status.value):
        toolcall.step(call, given)


def test_a_state_with_json_in_it_can_be_hashed_and_compared() -> None:
    call = after(Suspend(ticket(ResumeMode.PASS_DECISION_TO_TOOL)), DecideCall(YES))
    same = after(Suspend(ticket(ResumeMode.PASS_DECISION_TO_TOOL)), DecideCall(YES))
    assert len({call, same}) == 1
    assert call != after(Suspend(ticket(ResumeMode.PASS_DECISION_TO_TOOL)), DecideCall(NO))


def test_a_first_run_takes_the_arguments_and_no_mode() -> None:
    assert toolcall.step(CALL, ToolStarted())[1] == (Execute(KEY, "Bash", {"command": "ls"}, None),)


ASKED: Final[Json] = {"command": "ls"}
EDITED: Final[Json] = {"command": "ls -l"}


@each_row(
    ("mode", "answer", "arguments"),
    [
        (ResumeMode.REPLAY_TOOL_CALL, True, ASKED),
        (ResumeMode.REPLAY_TOOL_CALL, EDITED, ASKED),
        (ResumeMode.PASS_DECISION_TO_TOOL, EDITED, EDITED),
        (ResumeMode.PASS_DECISION_TO_TOOL, "text", "text"),
        (ResumeMode.PASS_DECISION_TO_TOOL, True, ASKED),
        (ResumeMode.PASS_DECISION_TO_TOOL, False, ASKED),
        (ResumeMode.PASS_DECISION_TO_TOOL, 0, 0),
    ],
)
def test_a_resumed_run_takes_the_arguments_of_its_mode(mode: ResumeMode, answer: Json, arguments: Json) -> None:
    decision = ToolCallDecided(target_id="c1", action=DecisionAction.RESUME, result=answer)
    resumed = after(ToolStarted(), Suspend(ticket(mode)), DecideCall(decision))
    _, outputs = toolcall.step(resumed, ToolStarted())
    assert outputs == (Execute(KEY, "Bash", arguments, mode),)


def test_the_default_ticket_asks_whether_to_run_the_call_as_it_stands() -> None:
    assert after(Suspend()).ticket == SuspensionTicket(
        suspension=Suspension(id="c1", action="tool:Bash"),
        pending=PendingCall(id="c1", name="Bash", arguments={"command": "ls"}),
        resume_mode=ResumeMode.REPLAY_TOOL_CALL,
    )


def test_blank_parts_of_a_ticket_are_filled_from_the_call_and_the_rest_is_kept() -> None:
    given = SuspensionTicket(
        suspension=Suspension(id="", action=" ", message="Really?"),
        pending=PendingCall(id=" ", name="", arguments={"x": 1}),
        resume_mode=ResumeMode.PASS_DECISION_TO_TOOL,
    )
    assert after(Suspend(given)).ticket == SuspensionTicket(
        suspension=Suspension(id="c1", action="tool:Bash", message="Really?"),
        pending=PendingCall(id="c1", name="Bash", arguments={"x": 1}),
        resume_mode=ResumeMode.PASS_DECISION_TO_TOOL,
    )
    kept = ticket(ResumeMode.REPLAY_TOOL_CALL)
    assert after(Suspend(kept)).ticket == kept


@pytest.mark.parametrize(
    ("action", "result", "filled"),
    [
        (DecisionAction.RESUME, None, True),
        (DecisionAction.CANCEL, None, False),
        (DecisionAction.RESUME, {"a": 1}, {"a": 1}),
        (DecisionAction.RESUME, False, False),
    ],
)
def test_blank_parts_of_a_decision_are_filled(action: DecisionAction, result: Json, filled: Json) -> None:
    whole = toolcall.complete_decision(CALL, ToolCallDecided(target_id="s1", action=action, result=result))
    assert (whole.decision_id, whole.result, whole.target_id) == ("c1", filled, "s1")
    named = ToolCallDecided(target_id="s1", action=action, decision_id="d9")
    assert toolcall.complete_decision(CALL, named).decision_id == "d9"


@each_row(("reason", "message"), [("", "User denied the action"), ("too risky", "too risky")])
@each_row("mode", list(ResumeMode))
def test_a_cancel_alone_gives_the_error_result(mode: ResumeMode, reason: str, message: str) -> None:
    decision = ToolCallDecided(target_id="c1", action=DecisionAction.CANCEL, reason=reason)
    assert toolcall.result_of_decision(after(Suspend(ticket(mode)), DecideCall(decision))) == ToolResult(
        call_id=CallId("c1"), ok=False, error=ToolError(kind="approval_denied", message=message)
    )


def test_only_one_mode_makes_the_answer_the_result() -> None:
    decision = ToolCallDecided(target_id="c1", action=DecisionAction.RESUME, result={"picked": 2})
    results = {m: toolcall.result_of_decision(after(Suspend(ticket(m)), DecideCall(decision))) for m in ResumeMode}
    assert results == {
        ResumeMode.REPLAY_TOOL_CALL: None,
        ResumeMode.PASS_DECISION_TO_TOOL: None,
        ResumeMode.USE_DECISION_AS_TOOL_RESULT: ToolResult(call_id=CallId("c1"), ok=True, output={"picked": 2}),
    }


def result(kind: str = "") -> ToolResult:
    error = ToolError(kind=kind, message="m") if kind else None
    return ToolResult(call_id=CallId("c1"), ok=error is None, error=error)


@each_row("before", [(), (ToolStarted(),), (Suspend(),), (Suspend(), DecideCall(YES))])
@each_row(
    ("kind", "status"),
    [
        ("", Status.SUCCEEDED),
        ("exit_code", Status.FAILED),
        (EndKind.ORPHAN_TOOL_CALL, Status.FAILED),
        (EndKind.OUTCOME_UNKNOWN, Status.FAILED),
        (EndKind.APPROVAL_DENIED, Status.CANCELLED),
        (EndKind.APPROVAL_EXPIRED, Status.CANCELLED),
        (EndKind.RULE_DENIED, Status.CANCELLED),
        (EndKind.RUN_TIMED_OUT, Status.CANCELLED),
        (EndKind.RUN_CANCELLED, Status.CANCELLED),
    ],
)
def test_a_result_ends_any_open_call(before: tuple[ToolCallInput, ...], kind: str, status: Status) -> None:
    ended = toolcall.finish(after(*before), result(kind))
    assert ended.status is status
    with pytest.raises(ContractError):
        toolcall.finish(ended, result(kind))
