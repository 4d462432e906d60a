"""The transcript of a task: which messages a history gives, and how far each says it can be trusted."""

from __future__ import annotations

import pytest

from interlock.projections.present.tool_text import LINE_MAX, one_line
from interlock.projections.task import message_store
from interlock.projections.task.view import TaskView
from interlock.testing.scribe import Scribe
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.events.audit import DecisionAction, RunState, ToolCallDecided, TurnFailed, TurnStarted
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    ToolCall,
    ToolError,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import CallId, PromptId, RunId, StreamId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus
from interlock.vocabulary.states import DriverKind, TurnState
from interlock.vocabulary.wire.frames import ChatMessage, Message, MessageStatus, Role
from tests.each_row import each_row
from tests.projections.histories import (
    ANSWER,
    CALL,
    CASES,
    ERROR,
    PARTIAL,
    RESULT,
    TIMEOUT,
    Story,
    clean,
    error_after_text,
    error_before_text,
    failed_then_clean,
    interrupted,
    terminal_without_text,
    timed_out,
    waiting,
)

Told = tuple[Role, MessageStatus, str]


def view_of(story: Scribe) -> TaskView:
    view = TaskView(story.session)
    for event in story.events:
        view.add(event)
    return view


def messages_of(story: Scribe) -> tuple[Message, ...]:
    return view_of(story).snapshot().messages


def told(story: Scribe) -> list[Told]:
    return [(one.role, one.status, one.text) for one in messages_of(story)]


def begun() -> Story:
    story = Story()
    story.begin()
    return story


def say(text: str, **metadata: object) -> AssistantMessage:
    return AssistantMessage(text=text, metadata=MessageMetadata(**metadata))  # type: ignore[arg-type]


PROMPT: Told = (Role.USER, MessageStatus.COMPLETED, "the prompt of t1")
LOOK: Told = (Role.COMMENTARY, MessageStatus.COMPLETED, "Let me look.")
READ: Told = (Role.TOOL, MessageStatus.COMPLETED, "path: a.txt")


def test_a_clean_turn_is_a_prompt_commentary_a_tool_and_an_answer() -> None:
    assert told(clean()) == [PROMPT, LOOK, READ, (Role.ANSWER, MessageStatus.COMPLETED, ANSWER)]


@pytest.mark.parametrize(
    ("story", "status", "kept"),
    [
        (error_after_text(), MessageStatus.PARTIAL, PARTIAL),
        (error_before_text(), MessageStatus.FAILED, ""),
        (interrupted(), MessageStatus.CANCELLED, PARTIAL),
        (timed_out(), MessageStatus.TIMED_OUT, PARTIAL),
    ],
)
def test_a_turn_that_did_not_complete_keeps_its_text_as_what_it_is_and_has_an_end(
    story: Story, status: MessageStatus, kept: str
) -> None:
    *rest, end = messages_of(story)
    answers = [(one.status, one.text) for one in rest if one.role is Role.ANSWER]
    assert answers == ([(status, kept)] if kept else [])
    assert (end.role, end.status) == (Role.END, status)


def test_an_end_is_in_its_own_words() -> None:
    end = messages_of(error_after_text())[-1]
    assert (end.text, end.error_kind, end.turn_id) == (ERROR, "network", "t1")
    assert NextActionKind.EXPLAIN_TURN in [action.kind for action in end.next_actions]
    assert end.message_id == end.version == len(error_after_text().events)


def test_a_clean_turn_after_a_failed_one_has_no_end() -> None:
    roles = [one.role for one in messages_of(failed_then_clean()) if one.turn_id == "t2"]
    assert roles == [Role.USER, Role.COMMENTARY, Role.TOOL, Role.ANSWER]


def test_a_terminal_turn_without_text_is_an_end_that_completed() -> None:
    assert told(terminal_without_text()) == [PROMPT, (Role.END, MessageStatus.COMPLETED, "")]


def test_clean_text_is_held_back_until_the_turn_is_closed() -> None:
    story = begun()
    story.tell(say(ANSWER))
    assert told(story) == [PROMPT]
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END))
    assert told(story) == [PROMPT, (Role.ANSWER, MessageStatus.COMPLETED, ANSWER)]


@pytest.mark.parametrize(
    ("failed_as", "status"),
    [
        (TurnState.FAILED, MessageStatus.FAILED),
        (TurnState.PARTIAL_FAILED, MessageStatus.PARTIAL),
        (TurnState.INTERRUPTED, MessageStatus.CANCELLED),
        (TurnState.TIMED_OUT, MessageStatus.TIMED_OUT),
    ],
)
def test_held_text_of_a_turn_that_failed_is_no_completed_answer(failed_as: TurnState, status: MessageStatus) -> None:
    story = begun()
    story.tell(say(ANSWER), TurnFailed(terminal_status=failed_as, error_kind="x", error_message="it broke"))
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END))
    assert told(story) == [PROMPT, (Role.ANSWER, status, ANSWER), (Role.END, status, "it broke")]


@each_row("following", [CALL, RESULT, say("more"), say("less", partial=True), say("on", intermediate=True)])
def test_text_that_something_follows_is_commentary(following: AssistantMessage | ToolCall | ToolResult) -> None:
    story = begun()
    story.tell(say("first"), following)
    assert told(story)[1] == (Role.COMMENTARY, MessageStatus.COMPLETED, "first")
    assert messages_of(story)[1].version == len(story.events)


def test_what_the_classifier_does_not_take_for_a_follower_leaves_the_answer_an_answer_in_its_place() -> None:
    story = begun()
    story.tell(say(ANSWER), UserMessage(text="and?"), TurnStarted(driver=DriverKind.MODEL))
    asked = (Role.USER, MessageStatus.COMPLETED, "and?")
    assert told(story) == [PROMPT, asked]
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END))
    assert told(story) == [PROMPT, (Role.ANSWER, MessageStatus.COMPLETED, ANSWER), asked]


def test_what_another_process_said_is_no_answer() -> None:
    story = begun()
    story.tell(say("said by s1"))
    story.write(TurnStarted(driver=DriverKind.MODEL), turn="t1", spawn="s2")
    assert told(story)[1] == (Role.COMMENTARY, MessageStatus.COMPLETED, "said by s1")


def test_partial_text_that_a_clean_answer_follows_stays_partial() -> None:
    story = begun()
    story.tell(say("Half a", partial=True))
    assert told(story) == [PROMPT]
    story.tell(say(ANSWER))
    half = (Role.ANSWER, MessageStatus.PARTIAL, "Half a")
    assert told(story) == [PROMPT, half]
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END))
    assert told(story) == [PROMPT, half, (Role.ANSWER, MessageStatus.COMPLETED, ANSWER)]


def test_partial_text_that_was_told_is_told_again_as_its_turn_ended() -> None:
    story = begun()
    story.tell(say("Half a", partial=True), CALL, RESULT)
    story.end(CANCELLED, text="")
    assert (Role.ANSWER, MessageStatus.CANCELLED, "Half a") in told(story)


def test_blank_text_is_no_message() -> None:
    story = begun()
    story.tell(say(" \n", intermediate=True), say("\t", partial=True), say(""))
    assert told(story) == [PROMPT]


def test_text_off_the_screen_is_not_verified() -> None:
    story = Story()
    story.begin(driver=DriverKind.TERMINAL)
    story.tell(say("seen", source=MessageSource.SURFACE))
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END))
    prompt, answer = messages_of(story)
    assert (answer.status, answer.is_verified, prompt.is_verified) == (MessageStatus.COMPLETED, False, True)


def test_a_message_names_its_prompt_its_stream_and_its_time() -> None:
    story = Story()
    story.write(UserMessage(text="hi", prompt_id=PromptId("p1")), turn="t1")
    story.write(say("so", intermediate=True, stream_id=StreamId("st1")), turn="t1")
    prompt, text = messages_of(story)
    assert (prompt.prompt_id, prompt.message_id, prompt.at) == ("p1", 1, story.events[0].ts)
    assert (text.stream_id, text.message_id, text.at, text.turn_id) == ("st1", 2, story.events[1].ts, "t1")


# Tools


def test_a_call_runs_waits_goes_on_and_is_settled() -> None:
    story = waiting()
    seen = [_tool(story).status]
    story.tell(ToolCallDecided(target_id="susp_1", action=DecisionAction.RESUME))
    seen.append(_tool(story).status)
    story.tell(RESULT)
    seen.append(_tool(story).status)
    assert seen == [MessageStatus.WAITING, MessageStatus.RUNNING, MessageStatus.COMPLETED]
    assert (_tool(story).name, _tool(story).version) == ("read", len(story.events))


def test_a_stale_spawn_does_not_make_a_call_wait() -> None:
    story = begun()
    story.tell(CALL)
    story.write(waiting().events[4].data, turn="t1", spawn="s0")
    assert _tool(story).status is MessageStatus.RUNNING


def test_a_call_of_an_imported_turn_waits_too() -> None:
    scribe = Scribe()
    scribe.write(UserMessage(text="one"), CALL, waiting().events[4].data)
    assert [one.status for one in messages_of(scribe)] == [MessageStatus.COMPLETED, MessageStatus.WAITING]


def test_a_refused_call_waits_for_its_result() -> None:
    story = waiting()
    story.tell(ToolCallDecided(target_id="p1", action=DecisionAction.CANCEL))
    assert _tool(story).status is MessageStatus.WAITING


def _tool(story: Story) -> Message:
    (tool,) = [one for one in messages_of(story) if one.role is Role.TOOL]
    return tool


@each_row(
    ("name", "result", "status"),
    [
        ("read", {"ok": True}, MessageStatus.COMPLETED),
        ("read", {"ok": False, "error": ToolError(kind="io", message="no")}, MessageStatus.FAILED),
        ("read", {"ok": False, "error": ToolError(kind="run_cancelled", message="no")}, MessageStatus.CANCELLED),
        ("wait_agent", {"ok": True, "output": {"status": "partial"}}, MessageStatus.PARTIAL),
        ("wait_agent", {"ok": True, "output": "all done!"}, MessageStatus.UNKNOWN),
    ],
)
def test_a_result_counts_for_what_it_says(name: str, result: dict[str, object], status: MessageStatus) -> None:
    story = begun()
    story.tell(ToolCall(call_id=CallId("c9"), name=name), ToolResult(call_id=CallId("c9"), **result))  # type: ignore[arg-type]
    assert _tool(story).status is status


def test_a_call_without_a_result_is_unknown_once_the_turn_is_over() -> None:
    story = begun()
    story.tell(CALL, CALL, RESULT)
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=CANCELLED))
    statuses = [one.status for one in messages_of(story) if one.role is Role.TOOL]
    assert statuses == [MessageStatus.UNKNOWN]  # recorded twice, and one result: of one of the two nothing is known


def test_calls_that_share_a_name_are_all_unknown_without_a_result() -> None:
    story = begun()
    story.tell(CALL, CALL, CALL)
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=CANCELLED))
    assert {one.status for one in messages_of(story) if one.role is Role.TOOL} == {MessageStatus.UNKNOWN}


def test_a_result_of_no_call_is_no_message() -> None:
    story = begun()
    story.tell(RESULT)
    assert told(story) == [PROMPT]


@each_row(
    ("args", "line"),
    [
        (None, ""),
        ("ls -l\n  | wc", "ls -l | wc"),
        ({"path": "a\tb", "all": True, "n": 3, "f": 0.5, "x": None}, "path: a b, all: true, n: 3, f: 0.5, x: null"),
        ({"a": [1, {"b": [[2]]}]}, "a: [1, {b: \N{HORIZONTAL ELLIPSIS}}]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, \N{HORIZONTAL ELLIPSIS}]"),
        ("\x1b[31mred\x00", "[31mred"),
        ([10**5000], "[\N{HORIZONTAL ELLIPSIS}]"),
    ],
)
def test_arguments_fit_on_a_line(args: Json, line: str) -> None:
    assert one_line(args) == line


def test_a_line_is_bounded_and_says_that_it_was_cut() -> None:
    cut = one_line({"text": "word " * 100_000})
    assert len(cut) == LINE_MAX
    assert cut.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert one_line("x" * LINE_MAX) == "x" * LINE_MAX


# What does not count, and what has no names


def test_what_the_classifier_refuses_is_no_message() -> None:
    story = clean()
    before = told(story)
    story.tell(say("too late"), CALL, TurnFailed(terminal_status=TurnState.FAILED, error_kind="x", error_message="x"))
    assert told(story) == before


def test_what_a_stale_spawn_says_is_no_message() -> None:
    story = begun()
    story.write(say("of the past", intermediate=True), CALL, turn="t1", spawn="s0")
    assert told(story) == [PROMPT]


def test_an_imported_log_without_turn_ids_reads_the_same() -> None:
    scribe = Scribe()
    scribe.write(UserMessage(text="one"), CALL, RESULT, say("first"), UserMessage(text="two"), say("second"))
    assert [(one.turn_id, one.role, one.text) for one in messages_of(scribe)] == [
        ("@1", Role.USER, "one"),
        ("@1", Role.TOOL, "path: a.txt"),
        ("@1", Role.ANSWER, "first"),
        ("@2", Role.USER, "two"),
        ("@2", Role.ANSWER, "second"),
    ]


def test_held_text_of_a_turn_that_another_overtakes_is_unknown_until_its_end_comes() -> None:
    story = begun()
    story.tell(say(ANSWER))
    story.begin("t2")
    assert (Role.ANSWER, MessageStatus.UNKNOWN, ANSWER) in told(story)
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END))
    assert (Role.ANSWER, MessageStatus.COMPLETED, ANSWER) in told(story)


def test_partial_text_of_a_turn_that_another_overtakes_is_told() -> None:
    story = begun()
    story.tell(say("Half a", partial=True))
    story.begin("t2")
    assert (Role.ANSWER, MessageStatus.PARTIAL, "Half a") in told(story)


def test_text_of_a_turn_that_was_overtaken_is_not_held_back_without_end() -> None:
    story = begun()
    story.begin("t2")
    story.tell(say(ANSWER))
    assert (Role.ANSWER, MessageStatus.UNKNOWN, ANSWER) in told(story)


@each_row("name", CASES)
def test_the_gauntlet_has_the_answers_that_it_should_and_no_other(name: str) -> None:
    case = CASES[name]
    answers = [
        text for role, status, text in told(case.tell()) if (role, status) == (Role.ANSWER, MessageStatus.COMPLETED)
    ]
    assert tuple(answers) == case.answers


# To be read


def test_messages_are_told_when_they_change_and_only_then() -> None:
    story = waiting()
    view = TaskView(story.session)
    told_ids = [
        (frame.message.message_id, frame.message.status)
        for event in story.events
        for frame in view.add(event)
        if isinstance(frame, ChatMessage)
    ]
    assert told_ids == [(1, MessageStatus.COMPLETED), (4, MessageStatus.RUNNING), (4, MessageStatus.WAITING)]


def test_what_did_not_change_is_not_told_again() -> None:
    story = begun()
    story.tell(say("Half a", partial=True), CALL, RESULT, CALL)
    view = TaskView(story.session)
    frames = [frame for event in story.events for frame in view.add(event) if isinstance(frame, ChatMessage)]
    assert [frame.message.text for frame in frames].count("Half a") == 1


def test_pages_go_back_to_the_first_message() -> None:
    view = view_of(failed_then_clean())
    everything = view.snapshot().messages
    newest, before = view.page(limit=3)
    assert newest == everything[-3:]
    assert before == newest[0].message_id
    older, before = view.page(before=before, limit=len(everything) - 3)
    assert (older + newest, before) == (everything, None)
    assert view.page(before=1) == ((), None)


def test_a_message_is_had_by_its_id() -> None:
    view = view_of(clean())
    assert [view.message(one.message_id) for one in view.snapshot().messages] == list(view.snapshot().messages)
    assert view.message(2) is None


def test_a_snapshot_after_a_version_holds_what_changed_since() -> None:
    story = waiting()
    view = view_of(story)
    asked_at = 5  # the call is message 4
    assert [one.message_id for one in view.snapshot(after_version=asked_at - 1).messages] == [4]
    later = view.snapshot(after_version=asked_at)
    assert (later.messages, later.is_whole, later.history_before) == ((), False, None)


def test_a_snapshot_that_would_be_too_long_is_whole_and_has_the_newest() -> None:
    view = view_of(failed_then_clean())
    everything = view.snapshot().messages
    for after in (None, 0):
        short = view.snapshot(after_version=after, limit=2)
        assert (short.messages, short.is_whole) == (everything[-2:], True)
        assert short.history_before == everything[-2].message_id
    assert view.snapshot().history_before is None


def test_a_client_that_claims_to_know_more_than_the_log_gets_everything() -> None:
    view = view_of(clean())
    assert view.snapshot(after_version=view.version + 1) == view.snapshot()
    assert not view.snapshot(after_version=view.version).is_whole


def test_timeouts_say_so() -> None:
    story = begun()
    story.end(TIMEOUT, text="", budget_seconds=1.0, elapsed_seconds=2.0)
    assert told(story)[-1][:2] == (Role.END, MessageStatus.TIMED_OUT)


def test_a_page_holds_no_more_text_than_a_client_can_take_and_the_rest_is_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_store, "PAGE_CHARACTERS", 100)
    scribe = Scribe()
    for number, size in enumerate((30, 30, 500, 60, 40)):
        scribe.write(UserMessage(text="x" * size), turn=f"t{number}")
    view = TaskView(scribe.session)
    for event in scribe.events:
        view.add(event)
    first = view.snapshot()
    assert [one.message_id for one in first.messages] == [4, 5]
    assert first.is_whole
    assert first.history_before == 4
    alone, before = view.page(before=4)
    assert [len(one.text) for one in alone] == [500], "a text is never cut, and goes alone"
    assert before == 3
    assert [one.message_id for one in view.page(before=before)[0]] == [1, 2]
    assert view.page(before=before)[1] is None
    after = view.snapshot(after_version=1)
    assert (after.is_whole, after.history_before) == (True, 4), "more than fits is told as from the start"
    assert not view.snapshot(after_version=3).is_whole
