"""The contract's gauntlet: histories that the real machines write, read by every reader, and broken in every way.

A mutation that nobody notices fails. Each history is swept: every event dropped, doubled and swapped with its
neighbour, with sequence numbers made good again, so that only what the events say can give the mutation away. The same
without making them good must always be noticed. Then come edits of single fields. What may go unnoticed is listed, with
the reason, and an entry of the list that is not needed fails too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
from msgspec import structs

from interlock.projections.checks.case import CheckId
from interlock.projections.checks.diagnose import DiagnosisReport, diagnose
from interlock.projections.present.display import DisplayChannel, Show, ShowTool, ToolStatus
from interlock.projections.present.presenter import present
from interlock.projections.why import why
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnFailed, TurnStarted, WorkflowEvent
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    SubagentEvent,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, audience, new_event
from interlock.vocabulary.events.registry import Audience, Payload
from interlock.vocabulary.ids import CallId, EventId, RunId, SpawnId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus, TerminationReason
from interlock.vocabulary.states import TURN_TERMINAL, DriverKind, StepState, SubagentState, TurnState, WorkflowState
from tests.each_row import each_row
from tests.projections.histories import ANSWER, CASES, ERROR, LATER, PARTIAL, Expected
from tests.projections.whole_logs import provider_input

NAMES: Final = list(CASES)
Log = list[Event]


def read(case: Expected, events: Log) -> DiagnosisReport:
    return diagnose(events, owner_alive=case.owner_alive, now=LATER)


# What every reader says of the histories as they are.


@pytest.mark.parametrize("name", NAMES)
def test_every_reader_says_the_same(name: str) -> None:
    case = CASES[name]
    report = read(case, case.events)
    assert report.turns[-1].state is case.state
    assert report.turns[-1].settles_as is case.settles_as
    assert report.status == case.status
    explained = why(case.events, owner_alive=case.owner_alive).record
    assert explained == report.turns[-1]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_an_answer_is_never_drawn_as_one(name: str) -> None:
    case = CASES[name]
    items = present(case.events, owner_alive=case.owner_alive)
    shown = [item for item in items if isinstance(item, Show)]
    assert tuple(item.text for item in shown if item.channel is DisplayChannel.ANSWER) == case.answers
    assert all(item.label for item in shown if item.channel is DisplayChannel.PARTIAL)
    for record in read(case, case.events).turns:
        ends = [item for item in shown if item.turn_id == record.turn_id and item.channel is DisplayChannel.ERROR]
        is_bad = record.state not in (TurnState.COMPLETED, TurnState.WAITING, TurnState.RUNNING)
        assert [item.state for item in ends] == [record.state] * is_bad
        assert all(item.next_actions == record.next_actions for item in ends)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("workflow_partial", ToolStatus.PARTIAL),
        ("child_timed_out", ToolStatus.PARTIAL),
        ("workflow_completed", ToolStatus.SUCCEEDED),
        ("child_completed", ToolStatus.SUCCEEDED),
    ],
)
def test_a_partial_wait_or_workflow_is_not_a_completed_tool(name: str, status: ToolStatus) -> None:
    tools = [item for item in present(CASES[name].events) if isinstance(item, ShowTool)]
    assert next(item.status for item in reversed(tools) if item.name in ("run_workflow", "wait_agent")) is status


@pytest.mark.parametrize("name", NAMES)
def test_audit_events_never_reach_the_model(name: str) -> None:
    events = CASES[name].events
    given = provider_input(events)
    assert ERROR.encode() not in given
    assert (PARTIAL.encode() in given) == (ANSWER.encode() in given)  # the answer begins with the words of the partial
    for index, event in enumerate(events):
        if audience(event) is not Audience.REPLAY:
            assert provider_input(events[:index] + events[index + 1 :]) == given


# What goes unnoticed, and why it may.

OPENS_NOTHING: Final = "a run that is not said to run does, from its start"
IDEMPOTENT: Final = "to say the same again changes nothing"
AUDIT: Final = "it decides about no turn"
OPTIONAL: Final = "a turn without it is a turn of another shape, and just as sound"
NO_PLAN: Final = "the plan of a workflow is not in the log, so a step that is never named is not missed"
RECOVERY: Final = "it is there for a crash; once the turn is closed, the kept text says it all"

DROPS: Final[Mapping[str, str]] = {
    "run_state:running": OPENS_NOTHING,
    "provider_usage": AUDIT,
    "process_event": AUDIT,
    "assistant_message:intermediate": OPTIONAL,
    "stream_checkpoint": RECOVERY,
    "tool_call of abandoned": OPTIONAL,
    "user_message of terminal_without_text": "a person may have typed it in the terminal",
    "assistant_message:none": "a terminal's completion claims no text",
    "workflow_event:step_held": NO_PLAN,
}
DOUBLES: Final[Mapping[str, str]] = {
    "run_state:running": IDEMPOTENT,
    "run_state:waiting": IDEMPOTENT,
    "turn_started": "the same owner may take a turn up again",
    "provider_usage": AUDIT,
    "process_event": AUDIT,
    "stream_checkpoint": IDEMPOTENT,
    "subagent_event:queued": IDEMPOTENT,
    "subagent_event:running": IDEMPOTENT,
    "subagent_event:completed": IDEMPOTENT,
    "subagent_event:timed_out": IDEMPOTENT,
    "tool_call_suspended": "a question may be asked again",
}
SWAPS: Final = frozenset(
    {
        ("user_message", "turn_started"),
        ("turn_started", "run_state:running"),
        ("run_state:running", "assistant_message:intermediate"),
        ("run_state:running", "assistant_message:none"),
        ("run_state:running", "tool_call"),
        ("run_state:running", "turn_failed"),
        ("run_state:done", "user_message"),  # of the next turn, which was waiting in the queue
        ("run_state:done", "process_event"),
        ("assistant_message:intermediate", "tool_call"),
        ("tool_result", "provider_usage"),
        ("tool_result", "assistant_message:partial"),
        ("provider_usage", "assistant_message"),
        ("provider_usage", "stream_checkpoint"),
        ("provider_usage", "turn_failed"),
        ("tool_call", "stream_checkpoint"),
        ("stream_checkpoint", "tool_result"),
        ("tool_call_suspended", "run_state:waiting"),
        ("tool_call", "subagent_event:queued"),
        ("tool_call", "workflow_event:workflow_started"),
        ("workflow_event:step_scheduled", "subagent_event:queued"),
        ("workflow_event:checkpoint_decided", "workflow_event:step_scheduled"),
        ("workflow_event:checkpoint_decided", "workflow_event:step_held"),
    }
)
"""Neighbours that may change places: neither rests on the other."""


def label(event: Event) -> str:
    match event.data:
        case RunState(status=status):
            return f"run_state:{status.value}"
        case AssistantMessage(metadata=MessageMetadata(partial=True)):
            return "assistant_message:partial"
        case AssistantMessage(metadata=MessageMetadata(intermediate=True)):
            return "assistant_message:intermediate"
        case AssistantMessage(metadata=MessageMetadata(source=MessageSource.NONE)):
            return "assistant_message:none"
        case SubagentEvent(status=status):
            return f"subagent_event:{status.value}"
        case WorkflowEvent(kind=kind):
            return f"workflow_event:{kind.value}"
        case _:
            return event.type


def made_good(events: Log) -> Log:
    """The same events as a log that was written so: ids and numbers are counted anew."""
    return [structs.replace(event, seq=seq, id=EventId(f"evt_{seq}")) for seq, event in enumerate(events, start=1)]


def is_noticed(case: Expected, mutated: Log) -> bool:
    """Whether some turn stands otherwise, or something is reported that was not before."""
    before, after = read(case, case.events), read(case, mutated)
    return _states(before) != _states(after) or bool(_issues(after) - _issues(before))


def _states(report: DiagnosisReport) -> list[tuple[TurnId, TurnState, TurnState | None]]:
    return [(turn.turn_id, turn.state, turn.settles_as) for turn in report.turns]


def _issues(report: DiagnosisReport) -> Counter[tuple[CheckId, str]]:
    return Counter((check.id, issue.kind) for check in report.checks for issue in check.issues)


def dropped(events: Log) -> Iterator[tuple[int, Log]]:
    for at in range(len(events)):
        yield at, events[:at] + events[at + 1 :]


def doubled(events: Log) -> Iterator[tuple[int, Log]]:
    for at in range(len(events)):
        yield at, events[: at + 1] + events[at:]


def swapped(events: Log) -> Iterator[tuple[int, Log]]:
    for at in range(len(events) - 1):
        yield at, [*events[:at], events[at + 1], events[at], *events[at + 2 :]]


def test_every_dropped_event_is_missed(record_property: Callable[[str, object], None]) -> None:
    unnoticed, count = _sweep(dropped, lambda name, events, at: _named(name, events[at], DROPS))
    assert unnoticed == set(DROPS)
    record_property("explored", f"gauntlet: {count} histories with one event dropped")


def test_every_doubled_event_is_seen(record_property: Callable[[str, object], None]) -> None:
    unnoticed, count = _sweep(doubled, lambda name, events, at: _named(name, events[at], DOUBLES))
    assert unnoticed == set(DOUBLES)
    record_property("explored", f"gauntlet: {count} histories with one event doubled")


def test_every_swap_of_neighbours_that_matters_is_seen(record_property: Callable[[str, object], None]) -> None:
    unnoticed, count = _sweep(swapped, lambda _, events, at: (label(events[at]), label(events[at + 1])))
    assert unnoticed == SWAPS
    record_property("explored", f"gauntlet: {count} histories with two neighbours swapped")


def _sweep(
    mutate: Callable[[Log], Iterator[tuple[int, Log]]], named: Callable[[str, Log, int], object]
) -> tuple[set[object], int]:
    unnoticed: set[object] = set()
    count = 0
    for name, case in CASES.items():
        for at, mutated in mutate(case.events):
            count += 1
            if not is_noticed(case, made_good(mutated)):
                unnoticed.add(named(name, case.events, at))
    return unnoticed, count


def _named(name: str, event: Event, listed: Mapping[str, str]) -> str:
    special = f"{label(event)} of {name}"
    return special if special in listed else label(event)


@pytest.mark.parametrize("mutate", [dropped, doubled, swapped])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_changed_in_a_numbered_log_without_notice(
    name: str, mutate: Callable[[Log], Iterator[tuple[int, Log]]]
) -> None:
    case = CASES[name]
    for at, mutated in mutate(case.events):
        is_tail = mutate is dropped and at == len(case.events) - 1  # only an anchor outside can show a cut tail
        assert is_tail or is_noticed(case, mutated), (at, label(case.events[at]))


# Single fields, edited.

Edit = Callable[[Log], Log]


def edit(kind: type[Payload], change: Callable[[Event], Event | None], *, nth: int = -1) -> Edit:
    """Change the n-th event that carries such a payload; None removes it."""

    def apply(events: Log) -> Log:
        at = [index for index, event in enumerate(events) if isinstance(event.data, kind)][nth]
        changed = change(events[at])
        return [*events[:at], *([] if changed is None else [changed]), *events[at + 1 :]]

    return apply


def data(**fields: object) -> Callable[[Event], Event]:
    return lambda event: structs.replace(event, data=structs.replace(event.data, **fields))


def metadata(**fields: object) -> Callable[[Event], Event]:
    def change(event: Event) -> Event:
        assert isinstance(event.data, AssistantMessage)
        replaced = structs.replace(event.data.metadata, **fields)
        return structs.replace(event, data=structs.replace(event.data, metadata=replaced))

    return change


def insert(payload: Payload, *, at: int | None = None, turn: str | None = "t1", spawn: str | None = "s1") -> Edit:
    def apply(events: Log) -> Log:
        place = len(events) if at is None else at % (len(events) + 1)
        new = new_event(
            payload,
            id=EventId("evt_new"),
            session_id=events[0].session_id,
            ts=events[place - 1].ts,
            turn_id=None if turn is None else TurnId(turn),
            spawn_id=None if spawn is None else SpawnId(spawn),
        )
        return [*events[:place], new, *events[place:]]

    return apply


def done(reason: TerminationReason) -> Callable[[Event], Event]:
    return data(reason=reason)


def on_envelope(**fields: object) -> Callable[[Event], Event]:
    return lambda event: structs.replace(event, **fields)


def a_child_is(state: SubagentState) -> Edit:
    return edit(SubagentEvent, data(status=state))


def a_workflow_is(state: WorkflowState) -> Edit:
    return edit(WorkflowEvent, data(status=state))


def a_step_is(state: StepState, *, nth: int) -> Edit:
    return edit(WorkflowEvent, data(step_state=state), nth=nth)


LATE_TEXT: Final = AssistantMessage(text="late words")
FAILURE: Final = TurnFailed(terminal_status=TurnState.FAILED, error_kind="x", error_message="y")
OTHER_RUN: Final = RunState(run_id=RunId("run_x"), status=RunStatus.DONE, reason=NATURAL_END)
CLEAN_METADATA: Final = MessageMetadata()
FAILED: Final = ("error_after_text", "error_before_text", "interrupted", "timed_out", "recovered", "empty_answer")
KEPT: Final = ("error_after_text", "interrupted", "timed_out", "recovered")
ANSWERED: Final = ("clean", "child_completed", "child_timed_out", "workflow_completed", "workflow_partial")
CHILD: Final = ("child_completed", "child_timed_out")
FLOW: Final = ("workflow_completed", "workflow_partial")
CLOSED: Final = (*FAILED, *ANSWERED)

EDITS: Final[tuple[tuple[str, tuple[str, ...], Edit], ...]] = (
    ("blank the answer", ANSWERED, edit(AssistantMessage, data(text=" \n"))),
    ("mark the answer partial", ANSWERED, edit(AssistantMessage, metadata(partial=True))),
    ("mark the answer intermediate", ANSWERED, edit(AssistantMessage, metadata(intermediate=True))),
    ("mark the partial clean", KEPT, edit(AssistantMessage, metadata(partial=False, lost_after_offset=None))),
    ("wash the partial", KEPT, edit(AssistantMessage, data(metadata=CLEAN_METADATA))),
    ("blank the partial", KEPT, edit(AssistantMessage, data(text=""))),
    ("put a dead attempt's text into the partial", KEPT, edit(AssistantMessage, data(text="of another try"))),
    ("let the partial claim another end", KEPT, edit(AssistantMessage, metadata(terminal_status=TurnState.FAILED))),
    ("drop turn_failed", FAILED, edit(TurnFailed, lambda _: None)),
    ("drop run_state done", CLOSED, edit(RunState, lambda _: None)),
    ("take the advice out of turn_failed", FAILED, edit(TurnFailed, data(next_actions=()))),
    ("take the message out of turn_failed", FAILED, edit(TurnFailed, data(error_message=""))),
    ("take the budget out of a timeout", ("timed_out",), edit(TurnFailed, data(details=None))),
    ("let the run end naturally", (*KEPT, "error_before_text"), edit(RunState, done(NATURAL_END))),
    ("let the run be cancelled", (*ANSWERED, "error_after_text", "timed_out"), edit(RunState, done(CANCELLED))),
    ("let the run end in error", ANSWERED, edit(RunState, done(TerminationReason.error("x")))),
    ("let another run end it", CLOSED, edit(RunState, data(run_id=RunId("run_x")))),
    ("let another spawn end it", CLOSED, edit(RunState, on_envelope(spawn_id=SpawnId("s0")))),
    ("file the end under another turn", CLOSED, edit(RunState, on_envelope(turn_id=TurnId("t9")))),
    ("add a failure to a completed turn", ANSWERED, insert(FAILURE, at=-2)),
    ("add a late event of an old spawn", CLOSED, insert(LATE_TEXT, at=4, spawn="s0")),
    ("add a late answer", CLOSED, insert(LATE_TEXT)),
    ("add a late end", CLOSED, insert(OTHER_RUN)),
    ("add a second owner", CLOSED, insert(TurnStarted(driver=DriverKind.MODEL), at=4, spawn="s2")),
    ("add a second prompt's turn before the end", CLOSED, insert(UserMessage(text="again"), at=3, turn="t0")),
    ("add a result that nobody asked for", CLOSED, insert(ToolResult(call_id=CallId("cx"), ok=True), at=3)),
    ("add a call that nobody answers", CLOSED, insert(ToolCall(call_id=CallId("cx"), name="read"), at=3)),
    ("rename a result's call", ("clean", "interrupted", *CHILD, *FLOW), edit(ToolResult, data(call_id=CallId("cx")))),
    ("count a result's occurrence up", ("clean", "timed_out", *CHILD), edit(ToolResult, data(occurrence=2))),
    ("say that a wait completed", ("child_timed_out",), edit(ToolResult, data(output={"status": "completed"}))),
    ("leave out what a wait came to", CHILD, edit(ToolResult, data(output="all children are completed"))),
    ("blank a child's summary", ("child_completed",), edit(SubagentEvent, data(summary=""))),
    ("take a child's session away", CHILD, edit(SubagentEvent, data(child_session_id=None))),
    ("take a child's times away", ("child_timed_out",), edit(SubagentEvent, data(elapsed_ms=None))),
    ("take a child's advice away", ("child_timed_out",), edit(SubagentEvent, data(next_actions=()))),
    ("turn a child's timeout into success", ("child_timed_out",), a_child_is(SubagentState.COMPLETED)),
    ("turn a child's success into failure", ("child_completed",), a_child_is(SubagentState.FAILED)),
    ("count a child's attempt up", CHILD, edit(SubagentEvent, data(attempt=2))),
    ("say that a workflow completed", ("workflow_partial",), a_workflow_is(WorkflowState.COMPLETED)),
    ("say that a workflow failed", FLOW, a_workflow_is(WorkflowState.FAILED)),
    ("say that a workflow timed out", FLOW, a_workflow_is(WorkflowState.TIMED_OUT)),
    ("say that an ended workflow is held", FLOW, a_workflow_is(WorkflowState.HELD)),
    ("take a workflow's advice away", ("workflow_partial",), edit(WorkflowEvent, data(next_actions=()))),
    ("say that a result is completed", ("workflow_partial",), edit(ToolResult, data(output={"status": "completed"}))),
    ("blank a checkpoint", FLOW, edit(WorkflowEvent, data(checkpoint=None, summary="", reason=""), nth=2)),
    ("say that a step is ready", ("workflow_partial",), a_step_is(StepState.CHECKPOINT_READY, nth=4)),
    ("say that a step failed", FLOW, a_step_is(StepState.FAILED, nth=2)),
)


EACH: Final = [(name, mutate) for _, names, mutate in EDITS for name in names]


@each_row(("name", "mutate"), EACH, ids=[f"{name}: {what}" for what, names, _ in EDITS for name in names])
def test_every_edit_is_noticed(name: str, mutate: Edit) -> None:
    case = CASES[name]
    mutated = made_good(mutate(case.events))
    assert mutated != made_good(case.events)
    assert is_noticed(case, mutated)


@pytest.mark.parametrize("terminal", sorted(TURN_TERMINAL - {TurnState.COMPLETED}))
@pytest.mark.parametrize("name", FAILED)
def test_a_failure_record_cannot_name_another_end(name: str, terminal: TurnState) -> None:
    case = CASES[name]
    mutated = edit(TurnFailed, data(terminal_status=terminal))(case.events)
    assert is_noticed(case, mutated) == (terminal is not case.state)


def test_a_lost_checkpoint_costs_the_partial_of_a_crash() -> None:
    case = CASES["abandoned"]
    mutated = made_good(edit(StreamCheckpoint, lambda _: None)(case.events))
    assert read(case, mutated).turns[-1].settles_as is TurnState.FAILED


@pytest.mark.parametrize("name", ["interrupted", "timed_out"])
def test_a_partial_that_is_lost_is_missed_by_its_length_alone(name: str) -> None:
    history = [
        event
        for event in CASES[name].events
        if not isinstance(event.data, StreamCheckpoint) and label(event) != "assistant_message:partial"
    ]
    kinds = {kind for _, kind in _issues(read(CASES[name], made_good(history)))}
    assert "partial_text_lost" in kinds
