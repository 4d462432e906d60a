"""`diagnose`: each check by a history that breaks it and one that does not; total on any log; no noise."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json, structs

from interlock.lifecycle.turn import FindingKind
from interlock.lifecycle.turns import fold_turns, turn_states
from interlock.log.port import DamageKind, LogDamage
from interlock.projections.checks.case import Check, CheckId, CheckStatus
from interlock.projections.checks.diagnose import CHECKS, DiagnosisReport, ReportStatus, diagnose
from interlock.testing.strategies import structs_of
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.events.audit import (
    Anomaly,
    ProcessEvent,
    ProcessEventKind,
    ProviderUsage,
    SessionFork,
    ToolCallDecided,
    ToolCallSuspended,
    TurnFailed,
    TurnStarted,
    WorkflowEvent,
    WorkflowEventKind,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    BranchSummary,
    MessageMetadata,
    SeqRange,
    SubagentEvent,
    ToolCall,
    ToolError,
    ToolResult,
    Truncation,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, UnknownEvent
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import CallId, SessionId, StepId, StreamId, SubagentId, WorkflowId
from interlock.vocabulary.run import NATURAL_END
from interlock.vocabulary.states import DriverKind, ExitReason, StepState, SubagentState, TurnState, WorkflowState
from tests.each_row import each_row
from tests.projections.histories import (
    ANSWER,
    CASES,
    CHECKPOINT,
    LATER,
    NETWORK,
    Story,
    abandoned,
    child_completed,
    clean,
    error_after_text,
    failed_then_clean,
    waiting,
    workflow_completed,
)
from tests.projections.logs import WILD_LOGS

SESSION = SessionId("ses_scribe")


def check(report: DiagnosisReport, id: CheckId) -> Check:
    return next(one for one in report.checks if one.id is id)


def kinds(report: DiagnosisReport, id: CheckId | None = None) -> list[str]:
    return [issue.kind for one in report.checks if id in (None, one.id) for issue in one.issues]


def told(*payloads: Payload) -> list[Event]:
    """A completed turn in which all this was recorded."""
    story = Story()
    story.begin()
    story.tell(*payloads)
    story.end(NATURAL_END, text=ANSWER)
    return story.events


def damage(kind: DamageKind, first: int | None = None, last: int | None = None) -> LogDamage:
    return LogDamage(kind=kind, session_id=SESSION, message="the hash does not match", first_seq=first, last_seq=last)


@given(WILD_LOGS, st.lists(structs_of(LogDamage), max_size=2), st.booleans(), st.booleans())
def test_it_is_total(log: list[Event], broken: list[LogDamage], owner_alive: bool, is_late: bool) -> None:
    report = diagnose(
        log,
        broken,
        owner_alive=owner_alive,
        now=LATER if is_late else None,
        live_children=frozenset() if is_late else None,
    )
    assert json.decode(json.encode(report), type=DiagnosisReport) == report
    assert [one.id for one in report.checks] == list(dict.fromkeys(one.id for one in report.checks))
    assert report.turns == tuple(turn_states(log, owner_alive=owner_alive))
    assert report.ok == all(one.status is not CheckStatus.FAILED for one in report.checks)
    assert (report.status is ReportStatus.READY) == (not kinds(report))
    for one in report.checks:
        assert (one.status in (CheckStatus.WARNING, CheckStatus.FAILED)) == bool(one.issues)
        assert one.message
    assert set(report.next_actions) == {
        action for one in report.checks for issue in one.issues for action in issue.next_actions
    }


@given(WILD_LOGS)
def test_every_finding_of_the_classifier_is_reported(log: list[Event]) -> None:
    report = diagnose(log, owner_alive=True)
    reported = {issue.turn_id for one in report.checks for issue in one.issues if one.id is CheckId.TURN_EVIDENCE}
    unpaired = FindingKind.UNPAIRED_TOOL_CALLS
    assert {finding.turn_id for finding in fold_turns(log).findings if finding.kind is not unpaired} == reported


def test_every_check_of_the_contract_is_there_once() -> None:
    report = diagnose(clean().events, owner_alive=True)
    assert sorted(one.id for one in report.checks) == sorted(CheckId)
    assert len(CHECKS) == len(CheckId)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.status == "ready"])
def test_a_sound_session_makes_no_noise(name: str) -> None:
    report = diagnose(CASES[name].events, owner_alive=True, now=LATER)
    assert (report.status, report.ok, report.next_actions, kinds(report)) == (ReportStatus.READY, True, (), [])


def test_what_is_absent_is_not_applicable() -> None:
    statuses = {one.id: one.status for one in diagnose(clean().events, owner_alive=True).checks}
    assert {id for id, status in statuses.items() if status is CheckStatus.PASSED} == {
        CheckId.LOG,
        CheckId.SEQUENCE,
        CheckId.TURN_EVIDENCE,
        CheckId.TURN_COMPLETION,
        CheckId.ASSISTANT_CANONICALIZATION,
        CheckId.CONTINUATION,
        CheckId.TOOL_PAIRING,
        CheckId.PROVIDER_REPLAY,
    }


def test_an_empty_log_is_blocked() -> None:
    report = diagnose([], owner_alive=True)
    assert (report.status, kinds(report), report.session_id) == (ReportStatus.BLOCKED, ["empty_log"], None)


def test_a_damaged_log_is_diagnosed_and_doubted() -> None:
    events = failed_then_clean().events
    lost = events[:9] + events[10:]  # the turn_failed of the first turn
    report = diagnose(lost, [damage(DamageKind.UNREADABLE, 10)], owner_alive=True)
    assert report.status is ReportStatus.BLOCKED
    assert kinds(report, CheckId.LOG) == ["damage_unreadable"]
    assert kinds(report, CheckId.SEQUENCE) == ["sequence_gap"]  # also where the store has said it
    doubted = [issue.turn_id for issue in check(report, CheckId.TURN_EVIDENCE).issues if "damage" in issue.kind]
    assert doubted == ["t1"]
    assert [turn.state for turn in report.turns] == [TurnState.UNKNOWN, TurnState.COMPLETED]


def test_an_open_turn_may_have_ended_in_what_is_lost() -> None:
    report = diagnose(abandoned().events, [damage(DamageKind.MISSING, 6, 9)], owner_alive=True)
    assert "read_across_damage" in kinds(report, CheckId.TURN_EVIDENCE)


def test_damage_without_a_place_casts_doubt_on_the_turn_that_is_open_at_the_end() -> None:
    """Without a head nobody knows where the session ends. What ended before that is as final as ever."""
    unplaced = [damage(DamageKind.HEAD_MISMATCH)]
    ended = diagnose(failed_then_clean().events, unplaced, owner_alive=True)
    assert (kinds(ended, CheckId.TURN_EVIDENCE), ended.status) == ([], ReportStatus.BLOCKED)
    still_open = diagnose(abandoned().events, unplaced, owner_alive=True)
    assert kinds(still_open, CheckId.TURN_EVIDENCE) == ["read_across_damage"]


def _without(events: list[Event], *left_out: type[Payload]) -> list[Event]:
    """As if they had never been written: nothing is lost, so the rest is numbered without a gap."""
    kept = (event for event in events if not isinstance(event.data, left_out))
    return [structs.replace(event, seq=seq) for seq, event in enumerate(kept, start=1)]


def test_damage_alone_names_its_session_and_where_to_look() -> None:
    report = diagnose([], [damage(DamageKind.MISSING, 1, 3)], owner_alive=True)
    assert report.session_id == SESSION
    assert [action.command for action in report.next_actions] == ["interlock log show ses_scribe"]


@each_row(
    ("numbers", "expected"),
    [
        ([1, 2, 3], []),
        ([2, 3, 4], ["sequence_gap"]),
        ([1, 2, 5], ["sequence_gap"]),
        ([1, 1, 2], ["duplicate_seq"]),
        ([1, 3, 2], ["sequence_gap", "out_of_order"]),
        ([1, None, 2], ["unstamped_event"]),
    ],
)
def test_sequence_numbers(numbers: list[int | None], expected: list[str]) -> None:
    events = [structs.replace(event, seq=seq) for event, seq in zip(clean().events, numbers, strict=False)]
    assert kinds(diagnose(events, owner_alive=True), CheckId.SEQUENCE) == expected


@pytest.mark.parametrize("told", [(), (4, 5), (4, 6)])
def test_a_gap_is_a_gap_also_where_damage_explains_it(told: tuple[int, ...]) -> None:
    events = clean().events
    lost = events[:3] + events[6:]
    known = [damage(DamageKind.MISSING, *told)] if told else []
    assert kinds(diagnose(lost, known, owner_alive=True), CheckId.SEQUENCE) == ["sequence_gap"]


def test_what_is_lost_at_the_end_is_a_gap_too() -> None:
    events = clean().events
    lost = damage(DamageKind.MISSING, len(events), len(events))
    assert kinds(diagnose(events[:-1], [lost], owner_alive=True), CheckId.SEQUENCE) == ["sequence_gap"]


def test_what_does_not_belong_in_this_log() -> None:
    events = clean().events
    stranger = structs.replace(events[2], session_id=SessionId("ses_other"))
    live = Story().write(TextDelta(stream_id=StreamId("s"), offset=0, text="x"))
    report = diagnose([*events[:2], stranger, *events[3:], *live], owner_alive=True)
    assert {"foreign_session", "ephemeral_event"} <= set(kinds(report, CheckId.SEQUENCE))


def test_unknown_events_and_anomalies_are_told_by_kind() -> None:
    strange = UnknownEvent(type="hologram", body=None)
    report = diagnose(told(strange, strange, Anomaly(kind="late_line", message="x")), owner_alive=True)
    assert kinds(report) == ["unknown_event", "anomaly_late_line"]
    assert check(report, CheckId.LOG).issues[0].seqs == (4, 5)


# Turns.


def test_a_prompt_of_which_nothing_came() -> None:
    story = clean()
    story.write(UserMessage(text="and then?"), turn="t2")
    assert kinds(diagnose(story.events, owner_alive=True)) == []
    report = diagnose(story.events, owner_alive=False)
    assert kinds(report) == ["no_activity"]
    assert report.turns[-1].settles_as is TurnState.FAILED


def test_half_a_closing_batch() -> None:
    events = error_after_text().events[:-1]
    assert "end_not_recorded" in kinds(diagnose(events, owner_alive=True))


def test_a_turn_whose_process_is_gone() -> None:
    story = Story()
    story.begin()
    story.write(ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CRASHED), spawn="s0")
    assert kinds(diagnose(story.events, owner_alive=True)) == []
    story.write(ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CRASHED), spawn="s1")
    assert kinds(diagnose(story.events, owner_alive=True)) == ["open_turn_of_dead_process"]


def test_a_turn_that_says_nothing_for_long() -> None:
    story = Story()
    story.begin()
    soon = story.clock() + timedelta(seconds=299)
    assert kinds(diagnose(story.events, owner_alive=True, now=soon)) == []
    assert kinds(diagnose(story.events, owner_alive=True, now=soon + timedelta(seconds=1))) == ["silent_turn"]


def test_two_turns_at_once() -> None:
    story = Story()
    story.begin("t1")
    story.begin("t2")
    assert kinds(diagnose(story.events, owner_alive=True)) == ["overlapping_turns"]


def test_a_partial_that_nobody_explains() -> None:
    events = _without(error_after_text().events, TurnFailed)
    report = diagnose(events, owner_alive=True)
    assert "partial_without_failure" in kinds(report)
    assert "failure_not_recorded" in kinds(report)
    assert report.status is ReportStatus.BLOCKED


def test_a_decision_that_is_open_overdue_or_made() -> None:
    story = waiting()
    report = diagnose(story.events, owner_alive=True)
    assert kinds(report) == ["decision_open"]
    assert report.next_actions[0].kind is NextActionKind.DECIDE
    asked = story.events[4]
    assert isinstance(asked.data, ToolCallSuspended)
    with_deadline = structs.replace(asked, data=structs.replace(asked.data, deadline_at=LATER))
    overdue = [*story.events[:4], with_deadline, story.events[5]]
    assert kinds(diagnose(overdue, owner_alive=True, now=LATER)) == ["decision_overdue"]
    story.tell(ToolCallDecided(target_id="susp_1", action="resume"))  # type: ignore[arg-type]
    assert kinds(diagnose(story.events, owner_alive=True)) == ["turn_waits"]
    answered_elsewhere = waiting()
    answered_elsewhere.tell(ToolResult(call_id=CallId("c1"), ok=True))
    assert kinds(diagnose(answered_elsewhere.events, owner_alive=True)) == ["turn_waits"]


# Tools and children.


def call(name: str = "read") -> ToolCall:
    return ToolCall(call_id=CallId("c9"), name=name)


def result(output: object = None) -> ToolResult:
    return ToolResult(call_id=CallId("c9"), ok=True, output=output)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        ((call(), result()), []),
        ((result(),), ["result_without_call"]),
        ((call(), result(), result()), ["second_result"]),
        ((call(), call(), result()), ["repeated_tool_call", "repaired_tool_call"]),
    ],
)
def test_tool_pairing(payloads: tuple[Payload, ...], expected: list[str]) -> None:
    report = diagnose(told(*payloads), owner_alive=True)
    assert kinds(report, CheckId.TOOL_PAIRING) == expected
    named = {issue.turn_id for check in report.checks if check.id is CheckId.TOOL_PAIRING for issue in check.issues}
    assert named <= {report.turns[0].turn_id}, "each says in which turn"


@each_row(
    ("output", "expected"),
    [
        ({"status": "completed"}, ["inconsistent_wait_outcome"]),  # of no child at all
        ({"status": "nothing_to_wait_for"}, []),
        ({"status": "incomplete"}, ["inconsistent_wait_outcome"]),
        ("completed", ["missing_structured_wait_outcome"]),
        ({"status": "completed", "counts": {"failed": 1}}, ["inconsistent_wait_outcome", "inconsistent_wait_counts"]),
    ],
)
def test_a_wait_claims_no_more_than_the_log_knows(output: object, expected: list[str]) -> None:
    report = diagnose(told(call("wait_agent"), result(output)), owner_alive=True)
    assert kinds(report, CheckId.PARENT_WAITS) == expected


def open_child(**more: object) -> SubagentEvent:
    return SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.RUNNING, **more)  # type: ignore[arg-type]


def test_an_open_child_is_overdue_stale_or_alone() -> None:
    child = SessionId("ses_c")
    events = told(
        SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.QUEUED),
        open_child(child_session_id=child, deadline_at=LATER),
    )
    assert kinds(diagnose(events, owner_alive=True)) == []
    assert kinds(diagnose(events, owner_alive=False)) == ["subagent_without_owner"]
    assert kinds(diagnose(events, owner_alive=True, now=LATER)) == ["overdue_subagent"]
    before = LATER - timedelta(seconds=1)
    activity = {child: LATER - timedelta(seconds=301)}
    assert kinds(diagnose(events, owner_alive=True, now=before, child_activity=activity)) == ["stale_subagent"]
    assert kinds(diagnose(events, owner_alive=True, child_activity={child: None})) == ["missing_child_log"]


def test_the_owner_and_the_log_disagree_about_children() -> None:
    running = child_completed().events[:-4]
    unknown = diagnose(running, owner_alive=True, live_children=frozenset())
    assert kinds(unknown, CheckId.SUBAGENT_MANAGER_RUNTIME) == ["child_unknown_to_owner"]
    alive = frozenset({SubagentId("sub_1")})
    assert kinds(diagnose(running, owner_alive=True, live_children=alive), CheckId.SUBAGENT_MANAGER_RUNTIME) == []
    ended = diagnose(child_completed().events, owner_alive=True, live_children=alive)
    assert kinds(ended, CheckId.SUBAGENT_MANAGER_RUNTIME) == ["child_not_open_in_log"]
    homeless = diagnose(told(open_child()), owner_alive=True)
    assert kinds(homeless, CheckId.SUBAGENT_MANAGER_RUNTIME) == ["running_without_session"]


def test_a_success_without_proof_blocks_and_a_failure_without_proof_warns() -> None:
    fact = SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.COMPLETED)
    completed = check(diagnose(told(fact), owner_alive=True), CheckId.SUBAGENT_TERMINAL_STATES)
    assert completed.status is CheckStatus.FAILED
    failed = structs.replace(fact, status=SubagentState.FAILED)
    report = check(diagnose(told(failed), owner_alive=True), CheckId.SUBAGENT_TERMINAL_STATES)
    assert report.status is CheckStatus.WARNING
    assert "incomplete_evidence" in [issue.kind for issue in report.issues]


def test_facts_of_a_child_that_are_out_of_order_are_told_in_words() -> None:
    fact = SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.FAILED, reason="no")
    report = check(diagnose(told(fact, open_child()), owner_alive=True), CheckId.SUBAGENT_TERMINAL_STATES)
    said = {issue.kind: issue.message for issue in report.issues}
    order = "its first fact is failed; after its end: failed (attempt 1) to running (attempt 1)"
    assert said["subagent_facts_out_of_order"] == f"child sub_1: {order}"


# Workflows, relatives, provider.


def fact(kind: WorkflowEventKind, **more: object) -> WorkflowEvent:
    return WorkflowEvent(kind=kind, workflow_id=WorkflowId("wf"), **more)  # type: ignore[arg-type]


K = WorkflowEventKind


@each_row(
    ("facts", "expected"),
    [
        ((fact(K.WORKFLOW_STARTED),), "unfinished_workflow"),
        ((fact(K.WORKFLOW_FINISHED, status=WorkflowState.COMPLETED),), "workflow_start"),
        ((fact(K.WORKFLOW_STARTED), fact(K.WORKFLOW_FINISHED)), "end_is_no_end"),
        ((fact(K.WORKFLOW_STARTED), fact(K.WORKFLOW_FINISHED, status=WorkflowState.COMPLETED)), "no_steps_recorded"),
        ((fact(K.WORKFLOW_STARTED), fact(K.WORKFLOW_FINISHED, status=WorkflowState.PARTIAL)), "end_contradicts_steps"),
        ((fact(K.WORKFLOW_STARTED), fact(K.STEP_SCHEDULED)), "step_not_named"),
        (
            (fact(K.WORKFLOW_STARTED), fact(K.CHECKPOINT_DECIDED, step_id=StepId("a"), step_state=StepState.FAILED)),
            "step_without_evidence",
        ),
    ],
)
def test_the_spine_of_a_workflow(facts: tuple[WorkflowEvent, ...], expected: str) -> None:
    report = diagnose(told(*facts), owner_alive=True)
    assert expected in kinds(report)
    assert not report.ok or expected == "workflow_start"


def test_a_workflow_at_work_and_one_that_is_held() -> None:
    events = workflow_completed().events[:7]
    assert kinds(diagnose(events, owner_alive=True)) == ["workflow_without_end"]
    assert "unfinished_workflow" in kinds(diagnose(events, owner_alive=False))
    story = Story()
    story.begin()
    held = fact(K.STEP_HELD, step_id=StepId("a"), step_state=StepState.HELD, reason="ask me")
    story.tell(fact(K.WORKFLOW_STARTED), held)
    report = diagnose(story.events, owner_alive=True)
    assert kinds(report) == ["workflow_held"]
    assert [action.kind for action in report.next_actions] == [NextActionKind.ASK_OPERATOR]


def fork(parent: str) -> SessionFork:
    root = SessionId("ses_root")
    return SessionFork(
        parent_session_id=SessionId(parent), fork_root_session_id=root, parent_range=SeqRange(from_seq=1, to_seq=2)
    )


def test_where_a_session_came_from() -> None:
    story = Story()
    summary = BranchSummary(parent_session_id=SessionId("ses_p"), range=SeqRange(from_seq=1, to_seq=2), summary="x")
    story.write(fork("ses_p"), summary)
    assert kinds(diagnose(story.events, owner_alive=True)) == []
    story.write(fork("ses_scribe"), structs.replace(summary, parent_session_id=SessionId("ses_x")))
    assert kinds(diagnose(story.events, owner_alive=True)) == [
        "own_parent",
        "late_fork",
        "several_parents",
        "foreign_branch_summary",
    ]


def usage(truncation: Truncation) -> ProviderUsage:
    return ProviderUsage(model="m", truncation=truncation)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([Truncation.UNKNOWN, Truncation.UNKNOWN], []),
        ([Truncation.NOT_TRUNCATED], []),
        ([Truncation.TRUNCATED], ["provider_output_truncated"]),
        ([Truncation.NOT_TRUNCATED, Truncation.UNKNOWN], ["provider_output_completeness_unknown"]),
    ],
)
def test_whether_the_provider_cut_its_output(said: list[Truncation], expected: list[str]) -> None:
    assert kinds(diagnose(told(*map(usage, said)), owner_alive=True)) == expected


def test_what_the_model_would_be_told_instead_of_a_result() -> None:
    story = Story()
    story.begin("t1")
    story.tell(call(), turn="t1")
    story.write(UserMessage(text="next"), turn="t2")
    story.write(TurnStarted(driver=DriverKind.MODEL), turn="t2")
    assert kinds(diagnose(story.events, owner_alive=False), CheckId.PROVIDER_REPLAY) == ["synthetic_closure"]
    assert kinds(diagnose(told(result()), owner_alive=True), CheckId.PROVIDER_REPLAY) == ["result_without_call"]


def test_a_check_names_the_worst_of_what_it_found() -> None:
    report = diagnose(told(result(), call(), result(), result()), owner_alive=True)
    pairing = check(report, CheckId.TOOL_PAIRING)
    assert pairing.status is CheckStatus.FAILED
    assert pairing.message == "call c9 of turn t1 has a second result (and 1 more)"


def test_text_that_departs_from_what_was_streamed() -> None:
    events = error_after_text().events
    at = next(i for i, e in enumerate(events) if isinstance(e.data, AssistantMessage) and e.data.metadata.partial)
    events[at] = structs.replace(events[at], data=structs.replace(events[at].data, text="dead words"))
    assert "text_departs_from_stream" in kinds(diagnose(events, owner_alive=True))


def test_each_history_of_the_gauntlet_gives_just_these_issues() -> None:
    found = {name: kinds(diagnose(case.events, owner_alive=case.owner_alive)) for name, case in CASES.items()}
    assert {name: issues for name, issues in found.items() if issues} == {
        "error_after_text": ["partial_kept", "turn_failed"],
        "error_before_text": ["turn_failed"],
        "interrupted": ["partial_kept", "turn_failed", "repaired_tool_call"],
        "timed_out": ["partial_kept", "turn_failed"],
        "empty_answer": ["turn_failed"],
        "abandoned": ["abandoned_turn", "call_without_result", "synthetic_closure"],
        "recovered": ["partial_kept", "turn_failed", "repaired_tool_call"],
        "waiting": ["decision_open"],
        "failed_then_clean": ["partial_kept", "turn_failed"],
        "child_timed_out": ["subagent_timed_out"],
        "workflow_partial": ["workflow_partial"],
    }


def test_a_call_of_a_closed_turn_without_a_result_blocks() -> None:
    events = _without(CASES["interrupted"].events, ToolResult)
    pairing = check(diagnose(events, owner_alive=True), CheckId.TOOL_PAIRING)
    assert ([issue.kind for issue in pairing.issues], pairing.status) == (["call_without_result"], CheckStatus.FAILED)


def test_the_same_id_twice_and_fields_of_another_version() -> None:
    events = clean().events
    events[3] = structs.replace(events[3], id=events[2].id, unknown_fields=((("colour",), "red"),))
    assert kinds(diagnose(events, owner_alive=True)) == ["unknown_fields", "duplicate_event_id"]


def test_two_answers_and_a_clean_one_that_speaks_of_failure() -> None:
    assert kinds(diagnose(told(AssistantMessage(text="one")), owner_alive=True)) == ["several_answers"]
    events = clean().events
    meta = MessageMetadata(terminal_status=TurnState.FAILED)
    events[7] = structs.replace(events[7], data=AssistantMessage(text=ANSWER, metadata=meta))
    assert kinds(diagnose(events, owner_alive=True)) == ["failure_on_clean_message"]


def test_a_wait_that_was_cut_off_is_told() -> None:
    repaired = ToolResult(
        call_id=CallId("c9"), ok=False, error=ToolError(kind="orphan_tool_call", message="x"), synthetic=True
    )
    report = diagnose(told(call("wait_agent"), repaired), owner_alive=True)
    assert kinds(report, CheckId.PARENT_WAITS) == ["synthetic_wait_result"]


def test_two_failure_records() -> None:
    story = Story()
    story.begin()
    story.tell(TurnFailed(terminal_status=TurnState.FAILED, error_kind="network", error_message="x"))
    story.end(NETWORK, error_kind="network", error_message="y")
    assert "several_failures" in kinds(diagnose(story.events, owner_alive=True))


def test_a_completed_workflow_with_a_step_that_is_not_ready() -> None:
    a, b = StepId("a"), StepId("b")
    ready = {"step_id": a, "step_state": StepState.CHECKPOINT_READY, "checkpoint": CHECKPOINT, "summary": "done"}
    events = told(
        fact(K.WORKFLOW_STARTED),
        fact(K.STEP_SCHEDULED, step_id=a, step_state=StepState.RUNNING),
        fact(K.CHECKPOINT_DECIDED, **ready),
        fact(K.STEP_HELD, step_id=b, step_state=StepState.HELD, reason="optional"),
        fact(K.WORKFLOW_FINISHED, status=WorkflowState.COMPLETED),
    )
    assert kinds(diagnose(events, owner_alive=True)) == ["completed_with_unready_steps"]


def test_a_call_that_waits_is_not_said_to_have_its_result() -> None:
    story = Story()
    story.begin()
    story.tell(ToolCall(call_id=CallId("c9"), name="bash"))
    pairing = check(diagnose(story.events, owner_alive=True), CheckId.TOOL_PAIRING)
    assert (pairing.status, pairing.message) == (
        CheckStatus.PASSED,
        "1 calls wait for their result, every other has one",
    )


def test_a_true_wait_that_names_no_child_is_not_refuted_by_another_child_that_works() -> None:
    facts = [one.data for one in child_completed().events if isinstance(one.data, SubagentEvent)]
    other = SubagentEvent(subagent_id=SubagentId("sub_2"), status=SubagentState.QUEUED)
    wait = ToolCall(call_id=CallId("w9"), name="wait_agent")
    result = ToolResult(call_id=CallId("w9"), ok=True, output={"status": "completed"})
    beside = diagnose(told(wait, *facts, other, result), owner_alive=True)
    assert kinds(beside, CheckId.PARENT_WAITS) == []
    alone = diagnose(told(wait, other, result), owner_alive=True)
    assert kinds(alone, CheckId.PARENT_WAITS) == ["inconsistent_wait_outcome"]


def test_a_wait_is_judged_by_the_children_that_it_names() -> None:
    facts = [one.data for one in child_completed().events if isinstance(one.data, SubagentEvent)]
    other = SubagentEvent(subagent_id=SubagentId("sub_2"), status=SubagentState.QUEUED)
    result = ToolResult(call_id=CallId("w9"), ok=True, output={"status": "completed"})
    rows: tuple[tuple[Json, list[str]], ...] = (
        ({"ids": ["sub_1"]}, []),
        ({"ids": ["sub_2"]}, ["inconsistent_wait_outcome"]),
        ({"ids": ["sub_2"], "all": True}, []),  # of all that it saw: another one may have begun meanwhile
    )
    for args, found in rows:
        wait = ToolCall(call_id=CallId("w9"), name="wait_agent", args=args)
        assert kinds(diagnose(told(*facts, other, wait, result), owner_alive=True), CheckId.PARENT_WAITS) == found, args


def test_a_step_that_the_server_checked_needs_no_claim_of_its_child_and_is_denied_by_its_own_alone() -> None:
    """The child completed in words; what it claimed of another attempt is no claim."""
    facts = [one.data for one in child_completed().events if isinstance(one.data, SubagentEvent)]
    step = {"step_id": StepId("a"), "subagent_id": facts[-1].subagent_id}
    checked: Json = {"status": "checkpoint_ready", "proof": "checked", "checks": []}
    claimed: Json = {"status": "checkpoint_ready", "proof": "claimed"}
    half: dict[str, Json] = {"checkpoint_id": "sub_other.1", "status": "partial", "summary": "half"}
    other: Json = {**half}
    own: Json = {**half, "checkpoint_id": f"{facts[-1].subagent_id}.{facts[-1].attempt}"}
    rows: tuple[tuple[Json, Json, list[str]], ...] = (
        (None, checked, []),
        (other, checked, []),
        (own, checked, ["claim_not_borne_out"]),
        (None, claimed, ["claim_not_borne_out"]),
    )
    for claim, proof, found in rows:
        ended = structs.replace(facts[-1], checkpoint=claim)
        report = diagnose(
            told(
                fact(K.WORKFLOW_STARTED),
                fact(K.STEP_SCHEDULED, step_state=StepState.RUNNING, **step),
                *facts[:-1],
                ended,
                fact(
                    K.CHECKPOINT_DECIDED,
                    **step,
                    step_state=StepState.CHECKPOINT_READY,
                    checkpoint=proof,
                    summary="done",
                ),
                fact(K.WORKFLOW_FINISHED, status=WorkflowState.COMPLETED),
            ),
            owner_alive=True,
        )
        assert kinds(report, CheckId.WORKFLOW_CHECKPOINTS) == found, claim
