"""The presenter: what is drawn, on which channel, and what is taken back. No answer that is not one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json, structs

from interlock.lifecycle.turns import turn_states
from interlock.projections.present.display import (
    BeginStream,
    DisplayChannel,
    EndStream,
    Item,
    Retract,
    Show,
    ShowTool,
    StreamEnding,
    ToolKind,
    ToolStatus,
)
from interlock.projections.present.notice_items import SILENT
from interlock.projections.present.presenter import CUT_SHORT, UNCONFIRMED, UNVERIFIED, Presenter, present
from interlock.testing.strategies import structs_of
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.ending_words import BROKE_OFF, STILL_WRITTEN
from interlock.vocabulary.events.audit import (
    Anomaly,
    ProcessEvent,
    ProcessEventKind,
    ProviderUsage,
    RunState,
    StreamCheckpoint,
    ToolCallSuspended,
    TurnFailed,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    SubagentEvent,
    ToolCall,
    ToolError,
    ToolResult,
    Truncation,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, UnknownEvent, new_event
from interlock.vocabulary.events.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.events.registry import DECLARATIONS
from interlock.vocabulary.ids import CallId, EventId, RunId, SessionId, StreamId, SubagentId
from interlock.vocabulary.run import NATURAL_END, ReasonType, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind, ExitReason, SubagentState, TurnState
from interlock.vocabulary.wire.frames import Role
from tests.each_row import each_row
from tests.parity.faces import live_of
from tests.projections.histories import (
    ANSWER,
    CASES,
    ERROR,
    NETWORK,
    PARTIAL,
    Story,
    abandoned,
    error_after_text,
    failed_then_clean,
    waiting,
)
from tests.projections.logs import LOGS, WILD_LOGS


def on(items: list[Item], channel: DisplayChannel) -> list[str]:
    return [item.text for item in items if isinstance(item, Show) and item.channel is channel]


def delta(text: str, offset: int, stream: str = "st1") -> TextDelta:
    return TextDelta(stream_id=StreamId(stream), offset=offset, text=text)


def screen(items: list[Item]) -> dict[StreamId, str]:
    """What an honest client shows of each stream: its live text, or the message that took its place."""
    shown: dict[StreamId, str] = {}
    said: dict[int | None, str] = {}
    for item in items:
        if isinstance(item, Retract):
            shown[item.stream_id] = shown.get(item.stream_id, "")[: item.offset]
        elif isinstance(item, EndStream) and item.message_seq is not None:
            shown[item.stream_id] = said[item.message_seq]
        elif isinstance(item, Show) and item.stream_id is not None:
            live = shown.get(item.stream_id, "") + item.text
            shown[item.stream_id] = item.text if item.offset is None else live
        if isinstance(item, Show) and item.role is not None:
            said[item.seq] = item.text
    return {stream: text for stream, text in shown.items() if text}


def ends(items: list[Item]) -> list[EndStream]:
    return [item for item in items if isinstance(item, EndStream)]


def live(*payloads: object) -> tuple[Story, Presenter, list[Item]]:
    """A turn that has begun, and what these events of it draw."""
    story, presenter = Story(), Presenter()
    story.begin()
    story.tell(*payloads)  # type: ignore[arg-type]
    return story, presenter, [item for event in story.events for item in presenter.add(event)]


# Text that carries a mark of where it came from, so that it can be found wherever it ends up.


def marked(event: Event, index: int) -> Event:
    match event.data:
        case AssistantMessage() as message:
            mark = "P" if message.metadata.partial else "C"
            text = f"{mark}{index}." if message.text.strip() else message.text
            meta = structs.replace(message.metadata, error_message=f"E{index}.")
            return structs.replace(event, data=AssistantMessage(text=text, metadata=meta))
        case TurnFailed() as failed:
            return structs.replace(event, data=structs.replace(failed, error_message=f"E{index}."))
        case ToolResult(error=ToolError()) as result:
            error = ToolError(kind="x", message=f"E{index}.")
            return structs.replace(event, data=structs.replace(result, error=error))
        case RunState(reason=TerminationReason(type=ReasonType.ERROR)) as run:
            return structs.replace(event, data=structs.replace(run, reason=TerminationReason.error(f"E{index}.")))
        case TextDelta() as text:
            return structs.replace(event, data=structs.replace(text, text=f"D{index}."))
        case _:
            return event


@given(st.one_of(LOGS, WILD_LOGS))
def test_no_answer_is_partial_an_error_or_of_a_turn_that_did_not_complete(log: list[Event]) -> None:
    log = [marked(event, index) for index, event in enumerate(log)]
    items = present(log)
    completed = sum(record.state is TurnState.COMPLETED for record in turn_states(log))
    answers = on(items, DisplayChannel.ANSWER)
    assert len(answers) <= completed
    assert all(text.startswith("C") for text in answers)
    assert all(item.label for item in items if isinstance(item, Show) and item.channel is DisplayChannel.PARTIAL)
    kept = {f"P{index}." for index in range(len(log))}
    assert all(item.channel is DisplayChannel.PARTIAL for item in items if isinstance(item, Show) and item.text in kept)
    assert not on(present(log, with_partials=False), DisplayChannel.PARTIAL)


@given(WILD_LOGS)
def test_it_is_total_and_every_item_is_json(log: list[Event]) -> None:
    for item in present(log, owner_alive=False):
        assert json.decode(json.encode(item), type=Item) == item


@given(LOGS)
def test_a_turn_that_failed_is_drawn_once_with_its_own_words_and_advice(log: list[Event]) -> None:
    log = [marked(event, index) for index, event in enumerate(log)]
    ends = [item for item in present(log) if isinstance(item, Show) and item.channel is DisplayChannel.ERROR]
    for record in turn_states(log):
        if record.state.is_terminal and record.state is not TurnState.COMPLETED:
            (end,) = (item for item in ends if item.turn_id == record.turn_id)
            assert (end.state, end.next_actions) == (record.state, record.next_actions)
            assert record.error_message in ("", end.text)


def test_a_failure_shows_the_advice_of_its_own_turn_only() -> None:
    story = error_after_text()
    story.begin("t2")
    story.end(NETWORK, turn="t2", error_kind="network", error_message="again")
    ends = [item for item in present(story.events) if isinstance(item, Show) and item.channel is DisplayChannel.ERROR]
    assert [(item.turn_id, item.text) for item in ends] == [("t1", ERROR), ("t2", "again")]
    assert "t1" not in str(ends[1].next_actions)


def test_a_transcript_leaves_partial_text_out_or_labels_it() -> None:
    events = failed_then_clean().events
    said = [item for item in present(events) if isinstance(item, Show) and item.role is Role.ANSWER]
    (partial,) = (item for item in said if item.channel is DisplayChannel.PARTIAL)
    assert (partial.text, partial.label) == (PARTIAL, CUT_SHORT)
    transcript = present(events, with_partials=False)
    assert PARTIAL not in on(transcript, DisplayChannel.PARTIAL)
    assert on(transcript, DisplayChannel.ANSWER) == [ANSWER]
    assert on(transcript, DisplayChannel.ERROR) == [ERROR]


def test_live_text_is_partial_until_its_answer_takes_its_place() -> None:
    story, presenter, items = live(delta("The answer ", 0), delta("is 42.", 11))
    labels = [item.label for item in items if isinstance(item, Show) and item.channel is DisplayChannel.PARTIAL]
    assert labels == [STILL_WRITTEN, STILL_WRITTEN]
    assert not on(items, DisplayChannel.ANSWER)
    story.end(NATURAL_END, text=ANSWER)
    items += [item for event in story.events[-2:] for item in presenter.add(event)]
    assert on(items, DisplayChannel.ANSWER) == [ANSWER]
    assert screen(items) == {"st1": ANSWER}
    assert not [item for item in items if isinstance(item, Retract)]


def test_a_stream_that_starts_again_is_taken_back_to_where_it_starts() -> None:
    _, _, items = live(delta("dead words", 0), delta("alive", 0))
    (retract,) = (item for item in items if isinstance(item, Retract))
    assert (retract.stream_id, retract.offset, retract.reason) == ("st1", 0, "the stream started again")
    assert screen(items) == {"st1": "alive"}


def test_a_retry_keeps_what_both_attempts_share() -> None:
    _, _, items = live(delta("same ", 0), delta("dead", 5), delta("alive", 5))
    assert screen(items) == {"st1": "same alive"}


def test_another_stream_takes_the_place_of_one_that_died() -> None:
    _, _, items = live(delta("dead words", 0), delta("alive", 0, "st2"))
    assert screen(items) == {"st2": "alive"}


def test_a_stream_whose_message_came_is_not_taken_back_by_the_next_one() -> None:
    looks = AssistantMessage(text="Let me look.", metadata=MessageMetadata(intermediate=True))
    _, _, items = live(delta("Let me look.", 0), looks, delta("alive", 0, "st2"))
    assert screen(items) == {"st1": "Let me look.", "st2": "alive"}
    assert on(items, DisplayChannel.COMMENTARY) == ["Let me look."]


def test_live_text_of_which_a_turn_kept_nothing_is_said_to_have_broken_off() -> None:
    story, presenter, items = live(delta("dead words", 0))
    story.end(NETWORK, error_kind="network", error_message=ERROR)
    items += [item for event in story.events[-2:] for item in presenter.add(event)]
    (end,) = ends(items)
    assert (end.ending, end.message_seq, end.label) == (StreamEnding.BROKEN_OFF, None, BROKE_OFF)
    assert (end.error_kind, end.error_message) == ("network", ERROR)
    assert on(items, DisplayChannel.ERROR) == [ERROR]


def test_kept_partial_text_takes_the_place_of_the_live_text() -> None:
    story, presenter, items = live(delta("The answer is dead", 0))
    story.end(NETWORK, text=PARTIAL, error_kind="network", error_message=ERROR)
    items += [item for event in story.events[-3:] for item in presenter.add(event)]
    assert screen(items) == {"st1": PARTIAL}


@pytest.mark.parametrize("is_answer", [True, False])
def test_live_text_that_a_message_without_words_ends_is_never_called_whole(is_answer: bool) -> None:
    blank = AssistantMessage(text=" ", metadata=MessageMetadata(intermediate=not is_answer))
    story, presenter, items = live(delta("dead", 0), blank)
    story.end(NATURAL_END)
    items += [item for event in story.events[5:] for item in presenter.add(event)]
    (end,) = ends(items)
    assert (end.message_seq, end.label) == (None, BROKE_OFF)
    assert not on(items, DisplayChannel.ANSWER)


def test_a_message_of_another_stream_leaves_live_text_as_partial_as_it_was() -> None:
    kept = AssistantMessage(text="words", metadata=MessageMetadata(stream_id=StreamId("st2"), intermediate=True))
    story, presenter, items = live(delta("half", 0), kept)
    assert screen(items) == {"st1": "half", "st2": "words"}
    assert not ends(items)
    story.end(NATURAL_END, text=ANSWER, stream_id=StreamId("st3"))
    items += [item for event in story.events[5:] for item in presenter.add(event)]
    (end,) = ends(items)
    assert (end.stream_id, end.message_seq, end.label) == ("st1", None, BROKE_OFF)
    assert on(items, DisplayChannel.ANSWER) == [ANSWER]


def test_what_comes_after_the_message_of_a_stream_is_dropped() -> None:
    """Also while the message is held back: the text is then all there."""
    _, presenter, items = live(delta("whole", 0), AssistantMessage(text="whole"), delta(" and more", 5))
    assert on(items, DisplayChannel.PARTIAL) == ["whole"]
    assert on(items, DisplayChannel.DIAGNOSTIC) == ["live text was dropped: this stream is over"]
    stream = presenter.live(Story().session)
    assert stream is not None
    assert stream.text == "whole"


def test_a_checkpoint_gives_the_text_of_which_the_beginning_was_missed() -> None:
    kept = StreamCheckpoint(stream_id=StreamId("st1"), offset=11, text="The answer ")
    _, _, items = live(delta("answer ", 4), kept, delta("is 42.", 11))
    assert on(items, DisplayChannel.DIAGNOSTIC) == ["4 code points of live text did not arrive"]
    assert screen(items) == {"st1": "The answer is 42."}
    (begun,) = (item for item in items if isinstance(item, BeginStream))
    assert begun.label == STILL_WRITTEN


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 6), st.text("xyz", max_size=4)), max_size=8))
def test_the_screen_never_holds_two_attempts(deltas: list[tuple[str, int, str]]) -> None:
    """Whatever arrives: who draws what is told shows one stream of the open turn at most, and its living text alone."""
    _, presenter, items = live(*(delta(text, offset, stream) for stream, offset, text in deltas))
    stream, shown = presenter.live(Story().session), live_of(items).open
    assert (None if shown is None else (shown.stream_id, shown.text)) == (
        None if stream is None else (stream.stream_id, stream.text)
    )


@pytest.mark.parametrize("is_late", [True, False])
def test_live_text_of_a_closed_turn_or_another_spawn_is_dropped_once_told(is_late: bool) -> None:
    story, presenter, _ = live()
    if is_late:
        story.end(NATURAL_END, text=ANSWER)
    late = story.write(delta("x", 0), delta("y", 1), turn="t1", spawn="s1" if is_late else "s0")
    for event in story.events[3 : -len(late)]:
        presenter.add(event)
    items = [item for event in late for item in presenter.add(event)]
    (told,) = items
    assert told.channel is DisplayChannel.DIAGNOSTIC


def test_lost_live_text_is_told() -> None:
    _, _, items = live(delta("abc", 0), delta("ghi", 6))
    assert on(items, DisplayChannel.DIAGNOSTIC) == ["3 code points of live text did not arrive"]


def test_thoughts_are_thoughts_and_stay_when_the_agent_acts() -> None:
    def thought(text: str, stream: str) -> ReasoningDelta:
        return ReasoningDelta(stream_id=StreamId(stream), offset=0, text=text)

    call = ToolCall(call_id=CallId("c1"), name="read")
    _, _, items = live(thought("dead", "r1"), thought("hm", "r1"), call, thought("so", "r2"))
    assert on(items, DisplayChannel.THOUGHT) == ["dead", "hm", "so"]
    assert screen(items) == {"r1": "hm", "r2": "so"}


def test_thoughts_go_on_in_their_stream_after_a_tool() -> None:
    """As the runtime publishes them: one stream of thoughts a turn."""

    def thought(text: str, offset: int) -> ReasoningDelta:
        return ReasoningDelta(stream_id=StreamId("r1"), offset=offset, text=text)

    _, _, items = live(thought("hm", 0), ToolCall(call_id=CallId("c1"), name="read"), thought(", so", 2))
    assert on(items, DisplayChannel.THOUGHT) == ["hm", ", so"]
    assert screen(items) == {"r1": "hm, so"}
    assert not on(items, DisplayChannel.DIAGNOSTIC)


def test_a_clean_answer_waits_for_the_end_of_its_turn() -> None:
    story, presenter, items = live(AssistantMessage(text=ANSWER))
    assert not on(items, DisplayChannel.ANSWER)
    (pending,) = presenter.pending()
    assert isinstance(pending, Show)
    assert (pending.channel, pending.label) == (DisplayChannel.PARTIAL, UNCONFIRMED)
    story.end(NETWORK, error_kind="network", error_message=ERROR)
    items = [item for event in story.events[4:] for item in presenter.add(event)]
    assert not on(items, DisplayChannel.ANSWER)
    assert on(items, DisplayChannel.PARTIAL) == [ANSWER]
    assert presenter.pending() == []


def test_partial_text_is_labelled_at_once_and_whatever_comes_after_it() -> None:
    cut = AssistantMessage(text=PARTIAL, metadata=MessageMetadata(partial=True))
    _, _, items = live(cut, AssistantMessage(text=ANSWER), ToolCall(call_id=CallId("c1"), name="read"))
    assert on(items, DisplayChannel.PARTIAL) == [PARTIAL]
    assert on(items, DisplayChannel.COMMENTARY) == [ANSWER]


def test_text_before_a_tool_is_commentary_and_not_the_answer() -> None:
    _, _, items = live(AssistantMessage(text="first"), ToolCall(call_id=CallId("c1"), name="read"))
    assert on(items, DisplayChannel.COMMENTARY) == ["first"]


def test_an_unverified_answer_says_so() -> None:
    story = Story()
    story.begin(driver=DriverKind.TERMINAL)
    story.end(NATURAL_END, text=ANSWER, source=MessageSource.SURFACE)
    (answer,) = (item for item in present(story.events) if item.channel is DisplayChannel.ANSWER)
    assert isinstance(answer, Show)
    assert answer.label == UNVERIFIED


def test_results_are_paired_by_call_id_and_occurrence() -> None:
    def call(occurrence: int) -> ToolCall:
        return ToolCall(call_id=CallId("c1"), name="read", occurrence=occurrence)

    def result(occurrence: int) -> ToolResult:
        return ToolResult(call_id=CallId("c1"), ok=True, occurrence=occurrence)

    _, _, items = live(call(1), call(2), result(2), result(2), result(3), call(1))
    tools = [(item.occurrence, item.status) for item in items if isinstance(item, ShowTool)]
    assert tools == [(1, ToolStatus.RUNNING), (2, ToolStatus.RUNNING), (2, ToolStatus.SUCCEEDED)]
    assert on(items, DisplayChannel.DIAGNOSTIC) == [
        "a second result for call c1, which is not awaited",
        "a result for call c1, which is not awaited",
        "call c1 was recorded twice",
    ]


@each_row(
    ("name", "output", "status"),
    [
        ("wait_agent", {"status": "completed"}, ToolStatus.SUCCEEDED),
        ("wait_agent", {"status": "incomplete"}, ToolStatus.PARTIAL),
        ("wait_agent", {"status": "nothing_to_wait_for"}, ToolStatus.UNKNOWN),
        ("wait_agent", "all completed", ToolStatus.UNKNOWN),
        ("wait_agent", {"status": ["completed"]}, ToolStatus.UNKNOWN),
        ("run_workflow", {"status": "completion_ready", "ok": True}, ToolStatus.SUCCEEDED),
        ("run_workflow", {"status": "completed", "ok": False}, ToolStatus.UNKNOWN),
        ("run_workflow", {"status": "partial_outcome_ready"}, ToolStatus.PARTIAL),
        ("run_workflow", {"status": "timed_out"}, ToolStatus.FAILED),
        ("run_workflow", {"status": "splendid"}, ToolStatus.UNKNOWN),
        ("run_workflow", None, ToolStatus.UNKNOWN),
        ("run_plan", {"status": "held", "ok": False}, ToolStatus.PARTIAL),
        ("read", {"status": "failed"}, ToolStatus.SUCCEEDED),
    ],
)
def test_a_wait_and_a_workflow_succeed_only_in_so_many_words(name: str, output: object, status: ToolStatus) -> None:
    call = ToolCall(call_id=CallId("c1"), name=name)
    _, _, items = live(call, ToolResult(call_id=CallId("c1"), ok=True, output=output))  # type: ignore[arg-type]
    assert isinstance(items[-1], ShowTool)
    assert items[-1].status is status


def test_a_call_without_a_result_ends_unknown() -> None:
    _, _, items = live(
        ToolCall(call_id=CallId("c1"), name="read"),
        TurnFailed(terminal_status=TurnState.FAILED, error_kind="x", error_message="y"),
        RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NETWORK),
    )
    tools = [item.status for item in items if isinstance(item, ShowTool)]
    assert tools == [ToolStatus.RUNNING, ToolStatus.UNKNOWN]


def test_a_child_that_proves_nothing_is_not_drawn_as_succeeded() -> None:
    fact = SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.COMPLETED)
    _, _, items = live(fact, structs.replace(fact, child_session_id=SessionId("ses_1"), summary="done"))
    tools = [(item.kind, item.status) for item in items if isinstance(item, ShowTool)]
    assert tools == [(ToolKind.SUBAGENT, ToolStatus.UNKNOWN), (ToolKind.SUBAGENT, ToolStatus.SUCCEEDED)]


def test_a_waiting_turn_says_what_it_asks_and_how_to_answer() -> None:
    items = present(waiting().events)
    asked = next(item for item in items if isinstance(item, ShowTool) and item.status is ToolStatus.WAITING)
    assert (asked.text, asked.next_actions[0].kind) == ("May I?", NextActionKind.DECIDE)
    assert on(items, DisplayChannel.STATUS)[-1] == "waiting for a decision"


def test_an_abandoned_turn_is_an_error_with_its_advice() -> None:
    assert not on(present(abandoned().events), DisplayChannel.ERROR)
    items = present(abandoned().events, owner_alive=False)
    (end,) = (item for item in items if isinstance(item, Show) and item.channel is DisplayChannel.ERROR)
    assert (end.state, end.label) == (TurnState.ABANDONED, "abandoned: it has no end, and no owner lives")
    assert end.next_actions


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (UnknownEvent(type="hologram", body=None), "an event of type 'hologram', which this version does not know"),
        (Anomaly(kind="late_line", message="after exit"), "late_line: after exit"),
        (
            ProviderUsage(truncation=Truncation.TRUNCATED),
            "the provider cut its own output; the text may be incomplete",
        ),
        (ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.OOM), "the process exited: oom"),
    ],
)
def test_what_is_odd_is_a_diagnostic(payload: object, text: str) -> None:
    _, _, items = live(payload)
    assert on(items, DisplayChannel.DIAGNOSTIC) == [text]


HANDLED_BY_THE_FOLD = (
    AssistantMessage,
    RunState,
    ToolCall,
    ToolCallSuspended,
    ToolResult,
    TurnFailed,
    TextDelta,
    ReasoningDelta,
    UserMessage,
)


@pytest.mark.parametrize("type_name", sorted(DECLARATIONS))
@given(draw=st.data())
def test_every_declared_type_is_drawn_or_silent_on_purpose(type_name: str, draw: st.DataObject) -> None:
    declared = DECLARATIONS[type_name].payload
    payload = draw.draw(structs_of(declared))
    event = new_event(payload, id=EventId("e"), session_id=SessionId("s"), ts=Story().clock(), seq=1)
    items = Presenter().add(event)
    assert not any("nothing is known of how to draw" in text for text in on(items, DisplayChannel.DIAGNOSTIC))
    if declared in SILENT:
        assert not items
    elif declared not in (*HANDLED_BY_THE_FOLD, ProviderUsage):
        assert items


def test_every_case_of_the_gauntlet_can_be_drawn_live_and_gives_the_same_as_at_once() -> None:
    for case in CASES.values():
        presenter = Presenter()
        items = [item for event in case.events for item in presenter.add(event)]
        assert items + presenter.pending() == present(case.events)


def test_a_partial_workflow_and_its_steps_are_drawn_as_what_they_are() -> None:
    tools = [item for item in present(CASES["workflow_partial"].events) if isinstance(item, ShowTool)]
    last = {(item.kind, item.id): item.status for item in tools}
    assert last[ToolKind.WORKFLOW, "wf_1"] is ToolStatus.PARTIAL
    steps = [last[ToolKind.STEP, f"wf_1/{name}"] for name in "abc"]
    assert steps == [ToolStatus.SUCCEEDED, ToolStatus.PARTIAL, ToolStatus.WAITING]


@pytest.mark.parametrize(
    ("kind", "status"), [("approval_denied", ToolStatus.CANCELLED), ("no_such_file", ToolStatus.FAILED)]
)
def test_a_refused_call_is_cancelled_and_a_broken_one_failed(kind: str, status: ToolStatus) -> None:
    refused = ToolResult(call_id=CallId("c1"), ok=False, error=ToolError(kind=kind, message="no"))
    _, _, items = live(ToolCall(call_id=CallId("c1"), name="read"), refused)
    assert isinstance(items[-1], ShowTool)
    assert (items[-1].status, items[-1].text) == (status, "no")
