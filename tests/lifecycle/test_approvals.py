"""The calls of a turn: one result each, decisions used once and only after they are written, nothing run twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.decisions import approvals
from interlock.lifecycle.decisions.approvals import (
    ApprovalTimerFired,
    CallDecided,
    CallFinished,
    CallRequested,
    CallsInput,
    CallSuspended,
    DecisionRejected,
    Output,
    Persist,
    StartCall,
)
from interlock.lifecycle.decisions.decisions import MAX_EARLY_DECISIONS, RejectReason, ToolCalls, evolve
from interlock.lifecycle.decisions.toolcall import CallKey, EndKind, Execute, ToolCallState
from interlock.testing.explore import Exploration, explore
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import (
    Anomaly,
    DecisionAction,
    PendingCall,
    ResumeMode,
    Suspension,
    SuspensionTicket,
    ToolCallDecided,
    ToolCallSuspended,
)
from interlock.vocabulary.events.conversation import ToolCall, ToolError, ToolResult, UserMessage
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import CallId, TurnId
from interlock.vocabulary.states import ToolCallStatus as Status
from tests.each_row import each_row

TURN: Final = TurnId("trn_1")
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
LATER: Final = NOW + timedelta(seconds=30)
EMPTY: Final = ToolCalls(TURN)
BROKEN: Final = ToolError(kind="exit_code", message="1")
YES, NO = DecisionAction.RESUME, DecisionAction.CANCEL


def key(call_id: str = "c1", occurrence: int = 1) -> CallKey:
    return CallKey(TURN, CallId(call_id), occurrence)


def asks(call_id: str = "c1", arguments: Json = None) -> CallRequested:
    return CallRequested(TURN, CallId(call_id), "Bash", arguments)


def ticket(suspension: str, pending: str, mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL) -> SuspensionTicket:
    return SuspensionTicket(
        suspension=Suspension(id=suspension, action="ask"),
        pending=PendingCall(id=pending, name="Confirm"),
        resume_mode=mode,
    )


def decides(
    target: str = "c1", action: DecisionAction = YES, id: str = "", result: Json = None, reason: str = ""
) -> CallDecided:
    return CallDecided(ToolCallDecided(target_id=target, action=action, decision_id=id, result=result, reason=reason))


def run(*inputs: CallsInput, state: ToolCalls = EMPTY, now: datetime = NOW) -> tuple[ToolCalls, list[Output]]:
    """The state after the inputs, and the outputs of the last one."""
    outputs: tuple[Output, ...] = ()
    for given_input in inputs:
        state, outputs = approvals.step(state, given_input, now)
    return state, list(outputs)


def next_deadline(state: ToolCalls) -> datetime | None:
    return min((call.deadline_at for call in state.calls if call.deadline_at is not None), default=None)


def time_is_up(state: ToolCalls) -> tuple[ToolCalls, tuple[Output, ...]]:
    return approvals.cancel_open(state, EndKind.RUN_TIMED_OUT, "the time of the run is up")


def statuses(state: ToolCalls) -> list[Status]:
    return [call.status for call in state.calls]


def rejections(outputs: Sequence[Output]) -> list[RejectReason]:
    return [output.reason for output in outputs if isinstance(output, DecisionRejected)]


def records(outputs: Sequence[Output]) -> list[Payload]:
    return [output.record for output in outputs if isinstance(output, Persist)]


def denied(message: str = "User denied the action", call_id: str = "c1", occurrence: int = 1) -> ToolResult:
    error = ToolError(kind="approval_denied", message=message)
    return ToolResult(call_id=CallId(call_id), ok=False, error=error, occurrence=occurrence)


# The plain way


def test_a_call_is_recorded_run_and_finished() -> None:
    state, outputs = run(asks(arguments={"command": "ls"}))
    assert outputs == [Persist(ToolCall(call_id=CallId("c1"), name="Bash", args={"command": "ls"}))]
    state, outputs = run(StartCall(key()), state=state)
    assert (outputs, statuses(state)) == ([Execute(key(), "Bash", {"command": "ls"})], [Status.RUNNING])
    state, outputs = run(CallFinished(key(), output="a.txt"), state=state)
    assert outputs == [Persist(ToolResult(call_id=CallId("c1"), ok=True, output="a.txt"))]
    assert statuses(state) == [Status.SUCCEEDED]


def test_a_suspended_call_waits_and_its_decision_is_written_before_it_runs() -> None:
    state, outputs = run(asks(), StartCall(key()), CallSuspended(key(), deadline_at=LATER))
    (written,) = records(outputs)
    assert isinstance(written, ToolCallSuspended)
    assert (written.ticket.suspension.id, written.ticket.suspension.action, written.deadline_at) == (
        "c1",
        "tool:Bash",
        LATER,
    )
    assert [call.key for call in approvals.open_suspended(state)] == [key()]
    assert next_deadline(state) == LATER
    state, outputs = run(decides(id="d1"), state=state)
    assert outputs == [
        Persist(ToolCallDecided(target_id="c1", action=YES, decision_id="d1", result=True)),
        Execute(key(), "Bash", None, ResumeMode.REPLAY_TOOL_CALL),
    ]
    assert (statuses(state), approvals.open_suspended(state)) == ([Status.RUNNING], ())
    assert next_deadline(state) is None


def test_a_cancel_gives_one_error_result_and_runs_nothing() -> None:
    state, outputs = run(asks(), CallSuspended(key()), decides(action=NO, reason="not today"))
    decided = ToolCallDecided(target_id="c1", action=NO, decision_id="c1", result=False, reason="not today")
    assert outputs == [Persist(decided), Persist(denied("not today"))]
    assert statuses(state) == [Status.CANCELLED]


def test_an_answer_can_be_the_result_and_the_tool_never_runs() -> None:
    question = CallSuspended(key(), ticket("s", "p", ResumeMode.USE_DECISION_AS_TOOL_RESULT))
    state, outputs = run(asks(), question, decides(result={"picked": 2}))
    assert records(outputs)[1:] == [ToolResult(call_id=CallId("c1"), ok=True, output={"picked": 2})]
    assert len(outputs) == 2
    assert statuses(state) == [Status.SUCCEEDED]


def test_an_answer_can_be_the_arguments() -> None:
    question = CallSuspended(key(), ticket("s", "p", ResumeMode.PASS_DECISION_TO_TOOL))
    _, outputs = run(asks(arguments={"a": 1}), question, decides(result={"a": 2}))
    assert outputs[-1] == Execute(key(), "Bash", {"a": 2}, ResumeMode.PASS_DECISION_TO_TOOL)


def test_a_resumed_call_may_ask_again() -> None:
    state, _ = run(asks(), CallSuspended(key()), decides(id="d1"), CallSuspended(key(), ticket("s2", "p2")))
    assert statuses(state) == [Status.SUSPENDED]
    assert state.calls[0].decision is None
    _, outputs = run(decides("s2", id="d2"), state=state)
    assert isinstance(outputs[-1], Execute)


# Which call a decision means


@pytest.mark.parametrize("target", ["c1", "s1", "p1"])
def test_a_decision_matches_by_call_suspension_or_pending_id(target: str) -> None:
    state, outputs = run(asks(), CallSuspended(key(), ticket("s1", "p1")), decides(target))
    assert isinstance(outputs[-1], Execute)
    assert statuses(state) == [Status.RUNNING]


def test_a_call_id_comes_before_the_ids_of_a_ticket() -> None:
    """A tool that names its question like another call must not get that call's answer, early or late."""
    thief = CallSuspended(key("c2"), ticket("c1", "c1"))
    state, outputs = run(asks("c1"), asks("c2"), decides("c1"), thief)
    assert statuses(state) == [Status.NEW, Status.SUSPENDED]
    state, outputs = run(asks("c1"), asks("c2"), thief, CallSuspended(key("c1")), decides("c1"))
    assert [output.key for output in outputs if isinstance(output, Execute)] == [key("c1")]
    state, outputs = run(asks("c1"), asks("c2"), thief, CallFinished(key("c1")), decides("c1"))
    assert rejections(outputs) == [RejectReason.ALREADY_ENDED]


def test_a_ticket_id_that_two_calls_share_is_not_guessed() -> None:
    state, outputs = run(
        *(asks("c1"), CallSuspended(key("c1"), ticket("confirm", "p"))),
        *(asks("c2"), CallSuspended(key("c2"), ticket("confirm", "p"))),
        decides("confirm"),
    )
    assert rejections(outputs) == [RejectReason.AMBIGUOUS_TARGET]
    assert statuses(state) == [Status.SUSPENDED, Status.SUSPENDED]


def test_of_several_occurrences_the_latest_suspended_one_is_meant() -> None:
    state, _ = run(asks(arguments=1), asks(arguments=2), asks(arguments=3))
    assert [call.key.occurrence for call in state.calls] == [1, 2, 3]
    state, outputs = run(CallSuspended(key(occurrence=1)), CallSuspended(key(occurrence=2)), decides(), state=state)
    assert statuses(state) == [Status.SUSPENDED, Status.RUNNING, Status.NEW]
    assert outputs[-1] == Execute(key(occurrence=2), "Bash", 2, ResumeMode.REPLAY_TOOL_CALL)


def test_a_decision_for_another_turn_is_rejected() -> None:
    state, _ = run(asks(), CallSuspended(key()))
    late = replace(decides(), turn_id=TurnId("trn_0"))
    assert rejections(run(late, state=state)[1]) == [RejectReason.WRONG_TURN]
    right = replace(decides(), turn_id=TURN)
    assert isinstance(run(right, state=state)[1][-1], Execute)


# Early, repeated, contradicting


@pytest.mark.parametrize("target", ["c1", "s1", "p1"])
def test_an_early_approval_waits_for_its_question(target: str) -> None:
    state, outputs = run(decides(target, id="d1"))
    assert records(outputs) == [ToolCallDecided(target_id=target, action=YES, decision_id="d1")]
    state, outputs = run(asks(), StartCall(key()), state=state)
    assert statuses(state) == [Status.RUNNING]
    state, outputs = run(CallSuspended(key(), ticket("s1", "p1")), state=state)
    assert [type(output) for output in outputs] == [Persist, Execute]
    assert (state.early, len(state.used)) == ((), 1)
    assert run(decides(target, id="d1"), state=state) == (state, [])


@pytest.mark.parametrize("inputs", [(decides(action=NO), asks()), (asks(), decides(action=NO))])
def test_an_early_denial_ends_a_call_before_it_can_start(inputs: tuple[CallsInput, CallsInput]) -> None:
    state, outputs = run(*inputs)
    assert records(outputs)[-1] == denied()
    assert rejections(outputs) == []
    assert (statuses(state), state.early) == ([Status.CANCELLED], ())
    with pytest.raises(ContractError, match="cancelled"):
        run(StartCall(key()), state=state)
    assert run(decides(action=NO), state=state) == (state, [])


def test_a_denial_of_a_running_call_counts_when_it_asks() -> None:
    state, outputs = run(asks(), StartCall(key()), decides(action=NO))
    assert statuses(state) == [Status.RUNNING]
    state, outputs = run(CallSuspended(key()), state=state)
    assert records(outputs)[-1] == denied()


def test_an_early_decision_dies_with_its_call_and_never_meets_a_reused_id() -> None:
    state, outputs = run(asks(), decides(id="d1"), CallFinished(key()))
    assert rejections(outputs) == [RejectReason.ALREADY_ENDED]
    state, _ = run(asks(), CallSuspended(key(occurrence=2)), state=state)
    assert statuses(state) == [Status.SUCCEEDED, Status.SUSPENDED]


def test_an_early_decision_stays_while_another_occurrence_is_open() -> None:
    state, outputs = run(asks(arguments=1), asks(arguments=2), decides(id="d1"), CallFinished(key(occurrence=2)))
    assert rejections(outputs) == []
    _, outputs = run(CallSuspended(key(occurrence=1)), state=state)
    assert isinstance(outputs[-1], Execute)


def test_one_early_denial_ends_one_occurrence() -> None:
    state, _ = run(asks(arguments=1), asks(arguments=2), decides(action=NO, id="d1"))
    assert statuses(state) == [Status.NEW, Status.CANCELLED]
    assert state.early == ()


def test_of_early_decisions_for_one_question_the_first_counts() -> None:
    state, outputs = run(decides("s1", YES, "d1"), decides("p1", NO, "d2"), decides("c1", YES, "d3"), asks())
    state, outputs = run(CallSuspended(key(), ticket("s1", "p1")), state=state)
    assert rejections(outputs) == [RejectReason.ALREADY_DECIDED]
    assert (statuses(state), state.early) == ([Status.RUNNING], ())
    assert [used.decision.decision_id for used in state.used] == ["d1"]


def test_early_decisions_are_bounded_and_the_newest_is_refused() -> None:
    flood = [decides(f"x{number}") for number in range(MAX_EARLY_DECISIONS)]
    state, _ = run(*flood)
    full, outputs = run(decides("c1"), state=state)
    assert rejections(outputs) == [RejectReason.TOO_MANY_EARLY]
    assert full == state
    assert run(flood[0], state=state) == (state, [])


def suspended(*more: CallsInput) -> ToolCalls:
    return run(asks(), CallSuspended(key(), ticket("s1", "p1")), *more)[0]


BEFORE_AND_AFTER: Final = [
    pytest.param(run(decides(id="d1"))[0], id="early"),
    pytest.param(suspended(decides(id="d1")), id="running"),
    pytest.param(suspended(decides(id="d1"), CallFinished(key())), id="ended"),
]


@each_row("state", BEFORE_AND_AFTER)
@each_row("again", [decides(id="d1"), decides(id="d2"), decides(), decides(result=True)])
def test_a_repeat_changes_nothing(state: ToolCalls, again: CallDecided) -> None:
    assert run(again, state=state) == (state, [])


@each_row("state", BEFORE_AND_AFTER)
@each_row("other", [decides(action=NO, id="d1"), decides(action=NO), decides(result={"a": 1}, id="d1")])
def test_a_second_decision_that_says_otherwise_is_rejected(state: ToolCalls, other: CallDecided) -> None:
    later, outputs = run(other, state=state)
    assert later == state
    assert len(outputs) == 1
    assert rejections(outputs)[0] in {RejectReason.ALREADY_DECIDED, RejectReason.ALREADY_ENDED}


def test_a_decision_against_an_ended_call_is_rejected() -> None:
    state, _ = run(asks(), CallFinished(key(), error=BROKEN))
    assert rejections(run(decides(), state=state)[1]) == [RejectReason.ALREADY_ENDED]


@pytest.mark.parametrize("repeat", [decides("s1", id="d1"), decides("c1", id="d1")])
def test_a_repeat_never_answers_a_second_question(repeat: CallDecided) -> None:
    state = suspended(decides("s1", id="d1"), CallSuspended(key(), ticket("s2", "p2")))
    assert run(repeat, state=state) == (state, [])
    otherwise = CallDecided(decides(repeat.decision.target_id, NO, "d1").decision)
    assert rejections(run(otherwise, state=state)[1]) == [RejectReason.ALREADY_DECIDED]


def test_an_old_question_cannot_be_answered_anew() -> None:
    state = suspended(decides("s1", id="d1"), CallSuspended(key(), ticket("s2", "p2")))
    assert rejections(run(decides("s1", NO, "d9"), state=state)[1]) == [RejectReason.ALREADY_DECIDED]
    assert run(decides("s1", id="d9"), state=state) == (state, [])


@pytest.mark.parametrize(
    "second",
    [(CallSuspended(key()),), (CallFinished(key()), asks(), CallSuspended(key(occurrence=2)))],
    ids=["question", "occurrence"],
)
def test_without_an_id_a_second_answer_cannot_be_told_from_a_repeat(second: tuple[CallsInput, ...]) -> None:
    state, _ = run(asks(), CallSuspended(key()), decides(), *second)
    for unclear in (decides(), decides(action=NO)):
        assert rejections(run(unclear, state=state)[1]) == [RejectReason.DECISION_ID_NEEDED]
    assert isinstance(run(decides(id="d2"), state=state)[1][-1], Execute)


def test_one_decision_id_may_answer_several_calls() -> None:
    state, _ = run(asks("c1"), asks("c2"), CallSuspended(key("c1")), CallSuspended(key("c2")))
    state, _ = run(decides("c1", id="all"), decides("c2", id="all"), state=state)
    assert statuses(state) == [Status.RUNNING, Status.RUNNING]


# Deadlines


def test_past_the_deadline_the_answer_is_no() -> None:
    state, _ = run(asks(), CallSuspended(key(), deadline_at=LATER))
    assert run(ApprovalTimerFired(), state=state, now=LATER - timedelta(microseconds=1)) == (state, [])
    expired, outputs = run(ApprovalTimerFired(), state=state, now=LATER)
    (written,) = records(outputs)
    assert isinstance(written, ToolResult)
    assert (written.synthetic, written.error and written.error.kind) == (True, "approval_expired")
    assert (statuses(expired), next_deadline(expired)) == ([Status.CANCELLED], None)


def test_a_due_deadline_is_applied_before_the_decision_that_comes_with_it() -> None:
    state, _ = run(asks(), CallSuspended(key(), deadline_at=LATER))
    state, outputs = run(decides(), state=state, now=LATER)
    assert [type(output) for output in outputs] == [Persist, DecisionRejected]
    assert statuses(state) == [Status.CANCELLED]


# Surprises, and our own mistakes


@each_row(
    "given_input",
    [
        CallFinished(key("nobody")),
        CallFinished(CallKey(TurnId("trn_0"), CallId("c1"))),
        CallFinished(key(occurrence=2)),
        CallFinished(key("done")),
        CallSuspended(key("nobody")),
        CallSuspended(key("done")),
        CallSuspended(key("waits")),
        CallRequested(TurnId("trn_0"), CallId("c9"), "Bash"),
    ],
)
def test_a_surprise_is_recorded_and_changes_nothing(given_input: CallsInput) -> None:
    state, _ = run(asks(), asks("done"), CallFinished(key("done")), asks("waits"), CallSuspended(key("waits")))
    later, outputs = run(given_input, state=state)
    assert later == state
    assert [type(record) for record in records(outputs)] == [Anomaly]


def test_the_same_request_twice_is_one_call_and_a_used_id_is_a_new_one() -> None:
    state, outputs = run(asks(arguments=1), asks(arguments=1))
    assert (len(state.calls), outputs) == (1, [])
    state, outputs = run(CallFinished(key()), asks(arguments=1), state=state)
    assert [call.key.occurrence for call in state.calls] == [1, 2]
    latest = state.latest(CallId("c1"))
    assert latest is not None
    assert latest.key == key(occurrence=2)


def test_a_result_while_suspended_proves_an_answer_given_elsewhere() -> None:
    state, outputs = run(asks(), CallSuspended(key()), CallFinished(key(), output="x"))
    assert (statuses(state), len(records(outputs))) == ([Status.SUCCEEDED], 1)


@pytest.mark.parametrize("state", [EMPTY, suspended(), suspended(decides()), run(asks(), CallFinished(key()))[0]])
def test_only_a_new_call_can_be_started(state: ToolCalls) -> None:
    with pytest.raises(ContractError, match="cannot start"):
        run(StartCall(key()), state=state)


# Start-up and the wall clock


def kinds(outputs: Sequence[Output]) -> list[str]:
    return [
        "" if record.error is None else record.error.kind
        for record in records(outputs)
        if isinstance(record, ToolResult)
    ]


def fold(log: Sequence[Payload], state: ToolCalls = EMPTY) -> ToolCalls:
    for record in log:
        state = evolve(state, record)
    return state


ASKED: Final = ToolCall(call_id=CallId("c1"), name="Bash")
DECIDED_YES: Final = ToolCallDecided(target_id="c1", action=YES)
DECIDED_NO: Final = ToolCallDecided(target_id="c1", action=NO)


def written_question(mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL) -> ToolCallSuspended:
    return ToolCallSuspended(call_id=CallId("c1"), name="Bash", ticket=ticket("s1", "p1", mode))


@each_row(
    ("log", "status", "kind"),
    [
        ([ASKED], Status.FAILED, ["orphan_tool_call"]),
        ([ASKED, written_question()], Status.SUSPENDED, []),
        ([ASKED, written_question(), DECIDED_YES], Status.FAILED, ["outcome_unknown"]),
        ([ASKED, written_question(), DECIDED_NO], Status.CANCELLED, ["approval_denied"]),
        (
            [ASKED, written_question(ResumeMode.USE_DECISION_AS_TOOL_RESULT), DECIDED_YES],
            Status.SUCCEEDED,
            [""],
        ),
        ([ASKED, written_question(), DECIDED_YES, denied()], Status.CANCELLED, []),
    ],
)
def test_orphans_are_settled_once_and_never_run(log: list[Payload], status: Status, kind: list[str]) -> None:
    state, outputs = approvals.settle_orphans(fold(log))
    assert (statuses(state), kinds(outputs)) == ([status], kind)
    assert not [output for output in outputs if isinstance(output, Execute)]
    assert approvals.settle_orphans(state) == (state, ())


def test_orphan_results_are_marked_synthetic() -> None:
    _, outputs = approvals.settle_orphans(fold([ASKED]))
    assert [record.synthetic for record in records(outputs) if isinstance(record, ToolResult)] == [True]


def test_a_decision_in_the_log_is_not_run_again_even_by_command() -> None:
    with pytest.raises(ContractError, match="resuming"):
        run(StartCall(key()), state=fold([ASKED, written_question(), DECIDED_YES]))


def test_the_wall_clock_settles_every_open_call_with_one_result() -> None:
    state, _ = run(asks("new"), asks("runs"), StartCall(key("runs")), asks("waits"), CallSuspended(key("waits")))
    state, _ = run(asks("done"), CallFinished(key("done")), state=state)
    state, outputs = time_is_up(state)
    assert kinds(outputs) == ["run_timed_out"] * 3
    assert statuses(state) == [Status.CANCELLED] * 3 + [Status.SUCCEEDED]
    assert time_is_up(state) == (state, ())


def test_a_run_can_cancel_its_calls_but_not_call_them_orphans() -> None:
    state, _ = run(asks())
    cancelled, outputs = approvals.cancel_open(state, EndKind.RUN_CANCELLED, "stopped by the operator")
    assert (statuses(cancelled), kinds(outputs)) == ([Status.CANCELLED], ["run_cancelled"])
    with pytest.raises(ContractError, match="orphan_tool_call"):
        approvals.cancel_open(state, EndKind.ORPHAN_TOOL_CALL, "")


def test_the_fold_ignores_what_is_not_about_tool_calls() -> None:
    assert fold([UserMessage(text="hi"), written_question(), denied(), ASKED, ASKED]) == fold([ASKED])


# Every path


@dataclass(frozen=True)
class Crash:
    """The runtime dies and comes back."""


@dataclass(frozen=True)
class WallClock:
    """The run's time is up."""


Happening = CallsInput | Crash | WallClock


@dataclass(frozen=True)
class Walk:
    """A state with a hash that tells more of them apart."""

    state: ToolCalls
    mark: int = 0


def take(state: ToolCalls, given_input: Happening) -> tuple[ToolCalls, tuple[Output, ...]]:
    match given_input:
        case Crash():
            return approvals.settle_orphans(state)
        case WallClock():
            return time_is_up(state)
        case _:
            return approvals.step(state, given_input, LATER if isinstance(given_input, ApprovalTimerFired) else NOW)


def happen(walk: Walk, given_input: Happening) -> Walk:
    state, outputs = take(walk.state, given_input)
    check_outputs(walk.state, outputs, state)
    marks = [*state.early, *(used.decision for used in state.used)]
    return Walk(state, hash(tuple((d.target_id, d.decision_id, d.action) for d in marks)))


def check_outputs(before: ToolCalls, outputs: Sequence[Output], after: ToolCalls) -> None:
    """What a log and an executor may rely on in one step; by induction, on every path."""
    was_open = {call.key for call in before.calls if call.is_open}
    known = {call.key for call in before.calls}
    results = [CallKey(TURN, r.call_id, r.occurrence) for r in records(outputs) if isinstance(r, ToolResult)]
    assert len(set(results)) == len(results), "two results for one call"
    for call in after.calls:
        is_allowed = call.key in was_open or call.key not in known
        assert (call.key in results) == (is_allowed and not call.is_open), "a result for each end, and for nothing else"
    new_uses = after.used[len(before.used) :]
    for place, output in enumerate(outputs):
        if isinstance(output, Execute):
            check_run(before, outputs[:place], output, after)
            assert output.key not in results, "a call that ended runs"
    for used in new_uses:
        assert is_written(before, outputs, used.decision), "a decision was used that is not in the log"
    assert all(is_written(before, outputs, early) for early in after.early), "an early decision is not in the log"


def check_run(before: ToolCalls, written: Sequence[Output], run_now: Execute, after: ToolCalls) -> None:
    call = after.find(run_now.key)
    assert call is not None
    assert call.status is Status.RUNNING
    earlier = before.find(run_now.key)
    if earlier is not None and earlier.status is Status.NEW and run_now.mode is None:
        return
    assert call.decision is not None, "a call ran again, or after its question, without a decision"
    assert call.decision.action is YES, "a denied call runs"
    assert is_written(before, written, call.decision), "a call runs by a decision that is not yet in the log"
    uses = [used for used in after.used[len(before.used) :] if used.key == run_now.key]
    assert len(uses) == 1, "each run but the first takes a decision of its own"


def is_written(before: ToolCalls, outputs: Sequence[Output], decision: ToolCallDecided) -> bool:
    written = [*before.early, *(record for record in records(outputs) if isinstance(record, ToolCallDecided))]
    return any((w.target_id, w.action) == (decision.target_id, decision.action) for w in written)


def every_decision(targets: str, ids: str) -> list[CallsInput]:
    return [decides(target, action, id) for target in targets.split() for action in (YES, NO) for id in ids.split()]


def two_calls(walk: Walk, decisions: Sequence[CallsInput]) -> Iterator[Happening]:
    """Two calls, and decisions about each at any time."""
    yield from (ApprovalTimerFired(), Crash(), WallClock())
    yield from (asks(call_id) for call_id in ("c1", "c2") if walk.state.latest(CallId(call_id)) is None)
    yield from decisions
    for call in walk.state.calls:
        yield from (StartCall(call.key), CallSuspended(call.key, deadline_at=LATER), CallFinished(call.key))


def one_id_used_twice(walk: Walk, decisions: Sequence[CallsInput]) -> Iterator[Happening]:
    """One call id for two calls, open together or one after the other, and decisions by the names of both."""
    yield from (*decisions, Crash(), WallClock())
    if len(walk.state.calls) < 2:
        yield from (asks("c1", 1), asks("c1", 2))
    for call in walk.state.calls:
        question = CallSuspended(call.key, ticket("s1", "p1"))
        yield from (StartCall(call.key), question, CallFinished(call.key, error=BROKEN))


def walk_all(inputs: Callable[[Walk], Iterator[Happening]]) -> Exploration[Walk, Happening]:
    return explore(
        start=[Walk(EMPTY)],
        inputs=inputs,
        step=happen,
        named=lambda given_input: type(given_input).__name__,
        label=lambda walk: " ".join(status.value for status in statuses(walk.state)),
        state_laws={
            "no decision is used twice": lambda walk: (
                len({(used.key, used.decision.target_id, used.decision.decision_id) for used in walk.state.used})
                == len(walk.state.used)
            ),
            "no call rests in resuming": lambda walk: Status.RESUMING not in statuses(walk.state),
            "no early decision waits for an ended call": lambda walk: all(
                any(call.is_open for call in walk.state.calls if call.key.call_id == early.target_id)
                or walk.state.latest(CallId(early.target_id)) is None
                for early in walk.state.early
            ),
        },
        step_laws={
            "ended calls stay as they are": lambda before, _, later: all(
                call == later.state.find(call.key) for call in before.state.calls if not call.is_open
            )
        },
    )


def is_over(walk: Walk) -> bool:
    return all(not call.is_open for call in walk.state.calls)


def test_every_path_of_two_calls(record_property: Callable[[str, object], None]) -> None:
    decisions = [*every_decision("c1", "d1"), *every_decision("c2", "d1")]
    found = walk_all(lambda walk: two_calls(walk, decisions))
    assert not found.stuck(is_over)
    assert found.summary("two calls") == "two calls: 1060 states, 11672 transitions, 1788 refused"
    record_property("explored", found.summary("two tool calls with decisions"))


@pytest.mark.deep
def test_every_path_of_two_calls_with_two_decisions_of_one(record_property: Callable[[str, object], None]) -> None:
    decisions = [*every_decision("c1", "d1 d2"), *every_decision("c2", "d1")]
    found = walk_all(lambda walk: two_calls(walk, decisions))
    assert not found.stuck(is_over)
    assert found.summary("two calls") == "two calls: 2953 states, 38404 transitions, 5259 refused"
    record_property("explored", found.summary("two tool calls with two decisions of one"))


def test_every_path_of_an_id_that_is_used_twice(record_property: Callable[[str, object], None]) -> None:
    decisions = [*every_decision("c1", "d1"), decides("s1", NO, "d1")]
    found = walk_all(lambda walk: one_id_used_twice(walk, decisions))
    assert not found.stuck(is_over)
    assert found.summary("one id") == "one id: 957 states, 8789 transitions, 1642 refused"
    record_property("explored", found.summary("a call id that is used twice"))


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_every_path_of_an_id_used_twice_with_every_decision(
    record_property: Callable[[str, object], None],
) -> None:
    decisions = [*every_decision("c1 s1", "d1 d2"), decides("p1", NO)]
    found = walk_all(lambda walk: one_id_used_twice(walk, decisions))
    assert not found.stuck(is_over)
    assert found.summary("one id") == "one id: 54335 states, 818547 transitions, 103740 refused"
    record_property("explored", found.summary("a call id that is used twice, every decision"))


# Any order of anything

CALL_IDS: Final = st.sampled_from(["c1", "c2"])
KEYS: Final = st.builds(key, CALL_IDS, st.integers(1, 2))
MODES: Final = st.sampled_from(ResumeMode)
TICKETS: Final = st.none() | st.builds(
    ticket, st.sampled_from(["s1", "c1", ""]), st.sampled_from(["p1", "c2", ""]), MODES
)
DECISIONS: Final = st.builds(
    decides,
    st.sampled_from(["c1", "c2", "s1", "p1", "x"]),
    st.sampled_from(DecisionAction),
    st.sampled_from(["", "d1", "d2"]),
    st.sampled_from([None, True, {"a": 1}]),
)
INPUTS: Final[st.SearchStrategy[Happening]] = st.one_of(
    st.builds(asks, CALL_IDS, st.integers(1, 2)),
    st.builds(StartCall, KEYS),
    st.builds(CallSuspended, KEYS, TICKETS, st.sampled_from([None, LATER])),
    DECISIONS,
    st.builds(CallFinished, KEYS, error=st.sampled_from([None, BROKEN])),
    st.sampled_from([ApprovalTimerFired(), Crash(), WallClock()]),
)


def as_written(state: ToolCalls) -> ToolCalls:
    """What the log knows of a state: not that a tool was started."""

    def forget(call: ToolCallState) -> ToolCallState:
        if call.status is not Status.RUNNING:
            return call
        return replace(call, status=Status.NEW if call.decision is None else Status.RESUMING)

    return replace(state, calls=tuple(forget(call) for call in state.calls))


@given(st.lists(INPUTS, max_size=25))
def test_any_order_gives_one_result_a_call_and_a_log_that_tells_it_all(inputs: list[Happening]) -> None:
    state, log = EMPTY, list[Payload]()
    for given_input in inputs:
        before = state
        try:
            state, outputs = take(state, given_input)
        except ContractError:
            assert isinstance(given_input, StartCall)
            continue
        check_outputs(before, outputs, state)
        log += records(outputs)
    assert fold(log) == as_written(state)
    assert approvals.settle_orphans(fold(log)) == approvals.settle_orphans(state)
    state, outputs = time_is_up(state)
    log += records(outputs)
    results = [(record.call_id, record.occurrence) for record in log if isinstance(record, ToolResult)]
    assert sorted(results) == sorted((call.key.call_id, call.key.occurrence) for call in state.calls)
    assert fold(log) == state


@given(st.lists(INPUTS, max_size=25), st.randoms(use_true_random=False))
def test_the_fold_reads_any_log_however_damaged(inputs: list[Happening], chance: Random) -> None:
    state, log = EMPTY, list[Payload]()
    for given_input in inputs:
        with suppress(ContractError):
            state, outputs = take(state, given_input)
            log += records(outputs)
    log += log
    chance.shuffle(log)
    settled, _ = time_is_up(fold(log))
    assert not [call for call in settled.calls if call.is_open]
