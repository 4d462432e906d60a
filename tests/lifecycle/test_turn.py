"""The turn table of the design, row by row, and the laws of the fold."""

from __future__ import annotations

import pytest

from interlock.lifecycle.closing import Ending, abandoned_ending, closing_batch
from interlock.lifecycle.turn import MAX_OPEN_CALLS, Basis, FindingKind, TurnFacts
from interlock.lifecycle.turns import TurnFold, TurnRecord, fold_turns, turn_states
from interlock.testing.scribe import Scribe
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import (
    ProviderUsage,
    RunState,
    StreamCheckpoint,
    TurnFailed,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    ToolCall,
    ToolError,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, StreamId
from interlock.vocabulary.run import (
    BEHAVIOR_REQUESTED,
    CANCELLED,
    NATURAL_END,
    SUSPENDED,
    RunStatus,
    TerminationReason,
)
from interlock.vocabulary.states import DriverKind, TurnState

RUN = RunId("run_1")
TIMEOUT = TerminationReason.stopped("timeout")
PROMPT = UserMessage(text="do it")
CALL = ToolCall(call_id=CallId("c1"), name="read")
RESULT = ToolResult(call_id=CallId("c1"), ok=True, output="text")
ANSWER = AssistantMessage(text="done")
BLANK = AssistantMessage(text="  \n")
PARTIAL = AssistantMessage(text="half an", metadata=MessageMetadata(partial=True))
INTERMEDIATE = AssistantMessage(text="I will look", metadata=MessageMetadata(intermediate=True))
NO_TEXT = AssistantMessage(text="", metadata=MessageMetadata(source=MessageSource.NONE))
RUNNING = RunState(run_id=RUN, status=RunStatus.RUNNING)
WAITING = RunState(run_id=RUN, status=RunStatus.WAITING, reason=SUSPENDED)


def done(reason: TerminationReason) -> RunState:
    return RunState(run_id=RUN, status=RunStatus.DONE, reason=reason)


def failed(state: TurnState, kind: str = "network") -> TurnFailed:
    return TurnFailed(terminal_status=state, error_kind=kind, error_message="it broke")


def started(driver: DriverKind = DriverKind.STREAM) -> TurnStarted:
    return TurnStarted(driver=driver)


def only(*payloads: Payload, owner_alive: bool = True) -> TurnRecord:
    scribe = Scribe()
    scribe.write(PROMPT, *payloads, turn="t1")
    (record,) = turn_states(scribe.events, owner_alive=owner_alive)
    return record


CLEAN = [
    NATURAL_END,
    BEHAVIOR_REQUESTED,
    TerminationReason.stopped("tool_called"),
    TerminationReason.stopped("content_matched"),
]
STOPS = [TerminationReason.stopped(code) for code in ("max_rounds", "token_budget", "loop_detected", "max_turns")]


@pytest.mark.parametrize("reason", CLEAN)
def test_a_clean_end_with_an_answer_is_completed(reason: TerminationReason) -> None:
    record = only(started(), RUNNING, CALL, RESULT, ANSWER, done(reason))
    assert record.state is TurnState.COMPLETED
    assert [proof.where for proof in record.evidence] == ["assistant_message", "run_state"]
    assert record.findings == ()
    assert record.error_kind == ""


@pytest.mark.parametrize("reason", CLEAN)
@pytest.mark.parametrize("driver", [DriverKind.STREAM, DriverKind.ACP, DriverKind.MODEL])
@pytest.mark.parametrize("text", [(), (BLANK,), (INTERMEDIATE,), (NO_TEXT,)])
def test_a_clean_end_without_an_answer_fails_where_we_own_the_text(
    reason: TerminationReason, driver: DriverKind, text: tuple[AssistantMessage, ...]
) -> None:
    record = only(started(driver), RUNNING, *text, done(reason))
    assert (record.state, record.error_kind) == (TurnState.FAILED, "empty_answer")


@pytest.mark.parametrize("events", [(ANSWER, CALL, RESULT), (CALL, ANSWER, RESULT)])
def test_an_answer_before_the_last_tool_result_is_no_answer(events: tuple[Payload, ...]) -> None:
    record = only(started(), RUNNING, *events, done(NATURAL_END))
    assert record.state is TurnState.PARTIAL_FAILED


@pytest.mark.parametrize("text", [(NO_TEXT,), ()])
def test_a_terminal_turn_completes_without_text(text: tuple[AssistantMessage, ...]) -> None:
    assert only(started(DriverKind.TERMINAL), RUNNING, *text, done(NATURAL_END)).state is TurnState.COMPLETED


def test_a_terminal_turn_with_only_a_partial_text_is_not_completed() -> None:
    record = only(started(DriverKind.TERMINAL), RUNNING, PARTIAL, done(NATURAL_END))
    assert record.state is TurnState.PARTIAL_FAILED


@pytest.mark.parametrize("reason", [TerminationReason.error("boom"), *STOPS])
def test_an_unclean_end_keeps_useful_text_as_partial(reason: TerminationReason) -> None:
    record = only(started(), RUNNING, PARTIAL, failed(TurnState.PARTIAL_FAILED), done(reason))
    assert (record.state, record.error_kind, record.findings) == (TurnState.PARTIAL_FAILED, "network", ())


@pytest.mark.parametrize("reason", [TerminationReason.error("boom"), *STOPS])
def test_an_unclean_end_without_useful_text_is_failed(reason: TerminationReason) -> None:
    record = only(started(), RUNNING, failed(TurnState.FAILED), done(reason))
    assert (record.state, record.findings) == (TurnState.FAILED, ())


@pytest.mark.parametrize("text", [(), (PARTIAL,), (ANSWER,)])
@pytest.mark.parametrize(("reason", "state"), [(CANCELLED, TurnState.INTERRUPTED), (TIMEOUT, TurnState.TIMED_OUT)])
def test_cancel_and_timeout_win_over_any_text(
    text: tuple[AssistantMessage, ...], reason: TerminationReason, state: TurnState
) -> None:
    record = only(started(), RUNNING, *text, failed(state), done(reason))
    assert (record.state, record.findings) == (state, ())


def test_a_stop_without_its_failure_record_names_its_code_and_says_what_is_missing() -> None:
    record = only(started(), RUNNING, done(TerminationReason.stopped("max_rounds_reached")))
    assert (record.state, record.error_kind) == (TurnState.FAILED, "max_rounds")
    assert [finding.kind for finding in record.findings] == [FindingKind.FAILURE_NOT_RECORDED]


@pytest.mark.parametrize(
    ("evidence", "said", "weaker"),
    [
        ((ANSWER, done(NATURAL_END)), TurnState.FAILED, TurnState.FAILED),
        ((ANSWER, done(NATURAL_END)), TurnState.PARTIAL_FAILED, TurnState.PARTIAL_FAILED),
        ((ANSWER, done(NATURAL_END)), TurnState.INTERRUPTED, TurnState.INTERRUPTED),
        ((done(TerminationReason.error("x")),), TurnState.PARTIAL_FAILED, TurnState.FAILED),
        ((done(CANCELLED),), TurnState.TIMED_OUT, TurnState.TIMED_OUT),
        ((PARTIAL, done(TIMEOUT)), TurnState.PARTIAL_FAILED, TurnState.TIMED_OUT),
    ],
)
def test_where_records_disagree_the_weaker_state_holds_and_is_reported(
    evidence: tuple[Payload, ...], said: TurnState, weaker: TurnState
) -> None:
    record = only(started(), RUNNING, *evidence[:-1], failed(said), evidence[-1])
    assert record.state is weaker
    assert FindingKind.STATES_DISAGREE in {finding.kind for finding in record.findings}


def test_an_unpaired_tool_call_is_never_completed() -> None:
    record = only(started(), RUNNING, CALL, ANSWER, done(NATURAL_END))
    assert (record.state, record.error_kind) == (TurnState.PARTIAL_FAILED, "unpaired_tool_call")
    assert FindingKind.UNPAIRED_TOOL_CALLS in {finding.kind for finding in record.findings}


def test_one_of_two_parallel_results_leaves_the_other_unpaired() -> None:
    other = ToolCall(call_id=CallId("c2"), name="read")
    assert only(started(), RUNNING, CALL, other, RESULT, ANSWER, done(NATURAL_END)).error_kind == "unpaired_tool_call"


def test_a_reused_call_id_is_told_apart_by_its_occurrence() -> None:
    again = ToolCall(call_id=CallId("c1"), name="read", occurrence=2)
    record = only(started(), RUNNING, CALL, RESULT, again, ANSWER, done(NATURAL_END))
    assert record.error_kind == "unpaired_tool_call"


def test_two_open_calls_of_one_name_need_two_results() -> None:
    twice = (started(), RUNNING, CALL, CALL, RESULT)
    assert only(*twice, ANSWER, done(NATURAL_END)).error_kind == "unpaired_tool_call"
    assert only(*twice, RESULT, ANSWER, done(NATURAL_END)).state is TurnState.COMPLETED


def test_a_result_of_another_occurrence_closes_nothing() -> None:
    second = ToolCall(call_id=CallId("c1"), name="read", occurrence=2)
    record = only(started(), RUNNING, CALL, RESULT, second, RESULT, ANSWER, done(NATURAL_END))
    assert record.error_kind == "unpaired_tool_call"


def test_more_open_calls_than_can_be_counted_are_never_proven_paired() -> None:
    calls = [ToolCall(call_id=CallId(f"c{n}"), name="read") for n in range(MAX_OPEN_CALLS + 1)]
    results = [ToolResult(call_id=call.call_id, ok=True) for call in calls]
    record = only(started(), RUNNING, *calls, *results, ANSWER, done(NATURAL_END))
    assert (record.state, record.error_kind) == (TurnState.PARTIAL_FAILED, "unpaired_tool_call")
    assert "more than can be counted" in record.findings[0].message
    assert only(started(), RUNNING, *calls[1:], *results, ANSWER, done(NATURAL_END)).state is TurnState.COMPLETED


def test_what_another_spawn_said_is_no_answer_of_this_one() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, turn="t1")
    scribe.write(started(), RUNNING, ANSWER, turn="t1", spawn="spn_1")
    scribe.write(started(), done(NATURAL_END), turn="t1", spawn="spn_2")
    assert [record.error_kind for record in turn_states(scribe.events)] == ["empty_answer"]


def test_text_off_a_screen_is_no_answer_where_the_text_is_ours() -> None:
    seen = AssistantMessage(text="done", metadata=MessageMetadata(source=MessageSource.SURFACE))
    assert only(started(), RUNNING, seen, done(NATURAL_END)).state is TurnState.PARTIAL_FAILED
    assert only(started(DriverKind.TERMINAL), RUNNING, seen, done(NATURAL_END)).state is TurnState.COMPLETED


def test_an_answer_that_more_text_follows_was_not_the_answer() -> None:
    assert only(started(), RUNNING, ANSWER, INTERMEDIATE, done(NATURAL_END)).state is TurnState.PARTIAL_FAILED


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_failure_records_the_weaker_holds(order: int) -> None:
    records = [failed(TurnState.PARTIAL_FAILED), failed(TurnState.FAILED)][::order]
    assert only(started(), RUNNING, PARTIAL, *records, done(TerminationReason.error("x"))).state is TurnState.FAILED


def test_an_abandoned_turn_runs_again_when_an_owner_takes_it_up() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, turn="t1")
    scribe.write(PROMPT, turn="t2")
    assert turn_states(scribe.events)[0].state is TurnState.ABANDONED
    scribe.write(started(), turn="t1")
    assert turn_states(scribe.events)[0].state is TurnState.RUNNING


def test_an_open_turn_is_running_or_waiting_and_says_what_to_do() -> None:
    assert only(started(), RUNNING, PARTIAL).state is TurnState.RUNNING
    waiting = only(started(), RUNNING, CALL, WAITING)
    assert waiting.state is TurnState.WAITING
    assert NextActionKind.DECIDE in {action.kind for action in waiting.next_actions}
    assert only(started(), RUNNING, CALL, WAITING, RUNNING).state is TurnState.RUNNING


@pytest.mark.parametrize(
    "payloads", [(started(), RUNNING, ANSWER), (started(), RUNNING, ANSWER, failed(TurnState.FAILED)), (started(),)]
)
def test_nothing_but_run_done_closes_a_turn_whose_run_is_logged(payloads: tuple[Payload, ...]) -> None:
    assert only(*payloads).state is TurnState.RUNNING


def test_an_open_turn_without_an_owner_is_read_as_abandoned() -> None:
    checkpoint = StreamCheckpoint(stream_id=StreamId("s"), offset=4, text="half")
    with_text = only(started(), RUNNING, checkpoint, owner_alive=False)
    assert (with_text.state, with_text.settles_as) == (TurnState.ABANDONED, TurnState.PARTIAL_FAILED)
    without = only(started(), RUNNING, owner_alive=False)
    assert (without.state, without.settles_as) == (TurnState.ABANDONED, TurnState.FAILED)
    assert only(started(), RUNNING, ANSWER, done(NATURAL_END), owner_alive=False).state is TurnState.COMPLETED


def test_a_dead_attempts_text_is_not_kept() -> None:
    first = StreamCheckpoint(stream_id=StreamId("s"), offset=4, text="dead")
    retry = StreamCheckpoint(stream_id=StreamId("s"), offset=0, text="", attempt=2)
    assert only(started(), RUNNING, first, retry, first, owner_alive=False).settles_as is TurnState.FAILED


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (("s1", "old", 2), ("s2", "new text", 1), "new text"),
        (("s1", "long text", 1), ("s1", "long", 1), "long text"),
        (("s1", "long text", 1), ("s1", "new", 2), "new"),
    ],
)
def test_the_newest_checkpoint_is_kept(first: tuple[str, str, int], second: tuple[str, str, int], kept: str) -> None:
    checkpoints = [
        StreamCheckpoint(stream_id=StreamId(stream), offset=len(text), text=text, attempt=attempt)
        for stream, text, attempt in (first, second)
    ]
    scribe = Scribe()
    scribe.write(PROMPT, started(), RUNNING, *checkpoints, turn="t1")
    (facts,) = fold_turns(scribe.events).turns.values()
    assert abandoned_ending(facts, RUN, "killed").text == kept


def test_messages_alone_classify_a_log_without_run_events() -> None:
    assert (only(ANSWER).state, only(ANSWER).basis) == (TurnState.COMPLETED, Basis.MESSAGES_ONLY)
    assert only(CALL, RESULT, ANSWER).state is TurnState.COMPLETED
    assert only(CALL, ANSWER).state is TurnState.RUNNING
    assert only(INTERMEDIATE).state is TurnState.RUNNING
    assert only(BLANK).state is TurnState.RUNNING
    assert only(PARTIAL).state is TurnState.RUNNING
    assert only(PARTIAL, failed(TurnState.PARTIAL_FAILED)).state is TurnState.PARTIAL_FAILED
    assert only(failed(TurnState.PARTIAL_FAILED)).state is TurnState.FAILED
    assert only(PARTIAL, failed(TurnState.TIMED_OUT)).state is TurnState.TIMED_OUT


def test_imported_turns_are_grouped_by_position() -> None:
    scribe = Scribe()
    scribe.write(ANSWER, PROMPT, CALL, PROMPT, ANSWER)
    first, second = turn_states(scribe.events)
    assert (first.state, second.state) == (TurnState.ABANDONED, TurnState.COMPLETED)
    assert (first.turn_id, second.turn_id) == ("@1", "@2")


def test_an_event_without_a_turn_never_touches_a_turn_that_has_an_id() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, started(), RUNNING, turn="t1")
    scribe.write(ANSWER, done(NATURAL_END))
    (record,) = turn_states(scribe.events)
    assert record.state is TurnState.RUNNING


def test_a_late_event_changes_nothing_and_is_reported() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, started(), RUNNING, ANSWER, done(NATURAL_END), turn="t1")
    before = turn_states(scribe.events)
    scribe.write(failed(TurnState.FAILED), done(TerminationReason.error("late")), CALL, turn="t1")
    fold = fold_turns(scribe.events)
    assert fold.records() == before
    assert [finding.kind for finding in fold.findings] == [FindingKind.LATE_EVENT] * 3


def test_audit_events_after_the_end_are_not_late() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, started(), ANSWER, done(NATURAL_END), ProviderUsage(model="m"), turn="t1")
    assert fold_turns(scribe.events).findings == []


def test_events_of_another_spawn_change_nothing() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, turn="t1")
    scribe.write(started(), RUNNING, turn="t1", spawn="spn_1")
    scribe.write(started(), turn="t1", spawn="spn_2")
    scribe.write(done(TerminationReason.error("the old process died")), turn="t1", spawn="spn_1")
    fold = fold_turns(scribe.events)
    assert [record.state for record in fold.records()] == [TurnState.RUNNING]
    assert [finding.kind for finding in fold.findings] == [FindingKind.STALE_SPAWN]


def test_events_of_another_run_change_nothing() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, started(), RUNNING, turn="t1")
    scribe.write(RunState(run_id=RunId("run_0"), status=RunStatus.DONE, reason=CANCELLED), turn="t1")
    fold = fold_turns(scribe.events)
    assert [record.state for record in fold.records()] == [TurnState.RUNNING]
    assert [finding.kind for finding in fold.findings] == [FindingKind.FOREIGN_RUN]


def test_a_cancel_that_came_too_late_is_recorded_on_a_completed_turn() -> None:
    asked = RunState(run_id=RUN, status=RunStatus.RUNNING, cancel_requested=True)
    record = only(started(), RUNNING, asked, ANSWER, done(NATURAL_END))
    assert (record.state, record.cancel_requested) == (TurnState.COMPLETED, True)


def test_sessions_do_not_share_turns() -> None:
    one, two = Scribe("ses_1"), Scribe("ses_2")
    one.write(PROMPT, started(), turn="t")
    two.write(PROMPT, started(), RUNNING, ANSWER, done(NATURAL_END), turn="t")
    assert [record.state for record in turn_states(one.events + two.events)] == [TurnState.RUNNING, TurnState.COMPLETED]


# The closing batch.


def close(turn_events: tuple[Payload, ...], ending: Ending) -> tuple[TurnFacts, tuple[Payload, ...]]:
    scribe = Scribe()
    scribe.write(PROMPT, *turn_events, turn="t1")
    fold = fold_turns(scribe.events)
    (facts,) = fold.turns.values()
    batch = closing_batch(facts, ending)
    for event in scribe.write(*batch, turn="t1"):
        fold.add(event)
    (closed,) = fold.turns.values()
    return closed, batch


TEXTS = ["", "  ", "some text"]
HISTORIES: list[tuple[Payload, ...]] = [
    (started(), RUNNING),
    (started(DriverKind.TERMINAL), RUNNING),
    (started(), RUNNING, INTERMEDIATE, CALL),
    (started(), RUNNING, CALL, RESULT, ANSWER),
    (started(), RUNNING, CALL, WAITING),
    (started(), RUNNING, PARTIAL),
    (RUNNING,),
    (),
]


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("reason", [*CLEAN, *STOPS, CANCELLED, TIMEOUT, TerminationReason.error("boom")])
def test_a_closing_batch_reads_back_as_what_it_was_built_for(
    history: tuple[Payload, ...], text: str, reason: TerminationReason
) -> None:
    ending = Ending(run_id=RUN, reason=reason, text=text, budget_seconds=60, elapsed_seconds=61.5)
    closed, batch = close(history, ending)
    assert closed.is_terminal
    assert closed.findings == ()
    assert isinstance(batch[-1], RunState)
    failures = [payload for payload in batch if isinstance(payload, TurnFailed)]
    assert [failure.terminal_status for failure in failures] == (
        [] if closed.state is TurnState.COMPLETED else [closed.state]
    )
    assert all(failure.next_actions and failure.error_kind and failure.error_message for failure in failures)
    kept = [payload for payload in batch if isinstance(payload, AssistantMessage)]
    assert [message.text for message in kept] == ([text] if text.strip() else [])
    assert all(message.metadata.partial == (closed.state is not TurnState.COMPLETED) for message in kept)


def test_a_failure_recorded_before_the_batch_is_not_talked_away() -> None:
    history = (started(), RUNNING, failed(TurnState.FAILED))
    closed, _ = close(history, Ending(run_id=RUN, reason=NATURAL_END, text="all is well"))
    assert closed.state is TurnState.FAILED
    assert [finding.kind for finding in closed.findings] == [FindingKind.STATES_DISAGREE]


def test_a_batch_repairs_unpaired_calls_before_the_answer() -> None:
    closed, batch = close((started(), RUNNING, CALL), Ending(run_id=RUN, reason=NATURAL_END, text="answer"))
    assert closed.state is TurnState.COMPLETED
    repair = batch[0]
    assert isinstance(repair, ToolResult)
    assert (repair.ok, repair.synthetic, repair.call_id) == (False, True, "c1")
    assert isinstance(repair.error, ToolError)


def test_a_timed_out_batch_says_budget_elapsed_and_next_actions() -> None:
    ending = Ending(run_id=RUN, reason=TIMEOUT, text="half", budget_seconds=60, elapsed_seconds=61.5)
    _, batch = close((started(), RUNNING), ending)
    failure = batch[-2]
    assert isinstance(failure, TurnFailed)
    assert failure.details == {"budget_seconds": 60, "elapsed_seconds": 61.5, "partial_text_length": 4}
    assert {NextActionKind.RAISE_TIMEOUT, NextActionKind.EXPLAIN_TURN} <= {a.kind for a in failure.next_actions}


def test_a_known_loss_is_never_a_clean_answer() -> None:
    closed, batch = close((started(), RUNNING), Ending(run_id=RUN, reason=NATURAL_END, text="hal", lost_after_offset=3))
    assert closed.state is TurnState.PARTIAL_FAILED
    assert [message.metadata.partial for message in batch if isinstance(message, AssistantMessage)] == [True]


def test_a_cancel_that_came_too_late_is_in_the_batch() -> None:
    ending = Ending(run_id=RUN, reason=NATURAL_END, text="done", cancel_requested=True)
    closed, _ = close((started(), RUNNING), ending)
    assert (closed.state, closed.cancel_requested) == (TurnState.COMPLETED, True)


def test_recovery_closes_a_turn_that_died_before_it_began() -> None:
    scribe = Scribe()
    scribe.write(PROMPT, turn="t1")
    (facts,) = fold_turns(scribe.events).turns.values()
    scribe.write(*closing_batch(facts, abandoned_ending(facts, RUN, "owner died")), turn="t1")
    fold = fold_turns(scribe.events)
    (record,) = fold.records()
    assert (record.state, record.basis, record.error_kind) == (TurnState.FAILED, Basis.RUN_EVENTS, "abandoned")
    assert fold.findings == []


def test_recovery_closes_an_abandoned_turn_with_its_last_checkpoint() -> None:
    checkpoint = StreamCheckpoint(stream_id=StreamId("s"), offset=4, text="half")
    scribe = Scribe()
    scribe.write(PROMPT, started(), RUNNING, checkpoint, turn="t1")
    fold = fold_turns(scribe.events)
    (facts,) = fold.turns.values()
    batch = closing_batch(facts, abandoned_ending(facts, RUN, "the runtime was killed"))
    partial = batch[0]
    assert isinstance(partial, AssistantMessage)
    assert (partial.text, partial.metadata.partial, partial.metadata.lost_after_offset) == ("half", True, 4)
    assert partial.metadata.stream_id == "s"
    scribe.write(*batch, turn="t1")
    (record,) = turn_states(scribe.events)
    assert (record.state, record.error_kind) == (TurnState.PARTIAL_FAILED, "abandoned")


CHECKPOINT = StreamCheckpoint(stream_id=StreamId("kept"), offset=4, text="half")


@pytest.mark.parametrize("reason", [NATURAL_END, CANCELLED, TIMEOUT, TerminationReason.error("boom")])
@pytest.mark.parametrize(
    ("shown", "history", "named"),
    [
        ("live", (), "live"),
        ("live", (CHECKPOINT,), "live"),
        (None, (CHECKPOINT,), "kept"),
        (None, (), None),
        (None, (CHECKPOINT, INTERMEDIATE), None),
    ],
)
def test_the_message_names_the_stream_whose_place_it_takes(
    shown: str | None, history: tuple[Payload, ...], named: str | None, reason: TerminationReason
) -> None:
    stream = None if shown is None else StreamId(shown)
    ending = Ending(run_id=RUN, reason=reason, text="text", stream_id=stream, budget_seconds=1, elapsed_seconds=2)
    _, batch = close((started(), RUNNING, *history), ending)
    (message,) = [one for one in batch if isinstance(one, AssistantMessage)]
    assert message.metadata.stream_id == named


def test_a_message_without_text_takes_the_place_of_no_stream() -> None:
    ending = Ending(run_id=RUN, reason=NATURAL_END, source=MessageSource.NONE, stream_id=StreamId("live"))
    _, batch = close((started(DriverKind.TERMINAL), RUNNING, CHECKPOINT), ending)
    (message,) = [one for one in batch if isinstance(one, AssistantMessage)]
    assert (message.text, message.metadata.stream_id) == ("", None)


@pytest.mark.parametrize(
    ("history", "ending"),
    [
        ((started(), RUNNING, ANSWER, done(NATURAL_END)), Ending(run_id=RUN, reason=NATURAL_END, text="x")),
        ((started(), RUNNING), Ending(run_id=RUN, reason=SUSPENDED)),
        ((started(), RUNNING), Ending(run_id=RunId("run_2"), reason=NATURAL_END, text="x")),
        ((started(), RUNNING), Ending(run_id=RUN, reason=TIMEOUT)),
        ((started(), RUNNING), Ending(run_id=RUN, reason=NATURAL_END, source=MessageSource.NONE)),
        ((started(), RUNNING), Ending(run_id=RUN, reason=NATURAL_END, text="x", source=MessageSource.SURFACE)),
    ],
)
def test_an_illegal_closing_is_refused(history: tuple[Payload, ...], ending: Ending) -> None:
    with pytest.raises(ContractError):
        close(history, ending)


def test_folding_returns_the_turn_an_event_belongs_to() -> None:
    scribe = Scribe()
    fold = TurnFold()
    (prompt,) = scribe.write(PROMPT, turn="t1")
    facts = fold.add(prompt)
    assert facts is not None
    assert facts.turn_id == "t1"
    (usage,) = scribe.write(ProviderUsage(), turn="t9")
    assert fold.add(usage) is None
    assert len(fold.turns) == 1
