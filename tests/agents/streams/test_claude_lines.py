"""What Claude Code's lines mean: every recording as it was reviewed, and each rule by itself."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from interlock.agents.observations import (
    TRACE_MAX_CHARACTERS,
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChildrenChanged,
    MessageEnded,
    Observation,
    PromptReached,
    RetryBegun,
    SessionNamed,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    Traced,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    Warned,
)
from interlock.agents.streams.claude.lines import ClaudeLines
from interlock.agents.streams.claude.questions import DECIDED, INITIALIZE
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from tests.agents.streams.claude_recordings import FOLDER, NAMES, lines_of, play, told
from tests.each_row import each_row

Frame = dict[str, Json]
UUID: Final = "9a2b1f60-0000-4000-8000-000000000001"


def feed(reader: ClaudeLines, *frames: Frame) -> list[Observation]:
    return [seen for frame in frames for seen in reader.feed(msgspec.json.encode(frame))]


def prompted() -> ClaudeLines:
    reader = ClaudeLines()
    reader.prompt_written(UUID)
    return reader


def assistant(*blocks: Frame, message_id: str = "m", **more: Json) -> Frame:
    return {"type": "assistant", "message": {"id": message_id, "model": "big", "content": list(blocks)}, **more}


def user(*blocks: Frame, **more: Json) -> Frame:
    return {"type": "user", "message": {"role": "user", "content": list(blocks)}, **more}


def stream(event: Frame, **more: Json) -> Frame:
    return {"type": "stream_event", "event": event, **more}


def start(message_id: str = "m") -> Frame:
    return stream({"type": "message_start", "message": {"id": message_id, "model": "big"}})


def delta(piece: str, kind: str = "text") -> Frame:
    return stream({"type": "content_block_delta", "delta": {"type": f"{kind}_delta", kind: piece}})


def text(words: str) -> Frame:
    return {"type": "text", "text": words}


def call(call_id: str, name: str = "Bash") -> Frame:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"x": 1}}


def returned(call_id: str, content: Json = "ok", **more: Json) -> Frame:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def result(**more: Json) -> Frame:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", **more}


def lifecycle(state: str, uuid: str = UUID) -> Frame:
    return {"type": "command_lifecycle", "command_uuid": uuid, "state": state}


def ask(request_id: str, call_id: str, **more: Json) -> Frame:
    request: Json = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": call_id, **more}
    return {"type": "control_request", "request_id": request_id, "request": request}


def of_kind(kind: type[Observation], seen: list[Observation]) -> list[Observation]:
    return [one for one in seen if isinstance(one, kind)]


def the_end(seen: list[Observation]) -> TurnEnded:
    (ended,) = [one for one in seen if isinstance(one, TurnEnded)]
    return ended


# Every recording


@each_row("name", NAMES)
def test_a_recording_means_what_was_reviewed(name: str) -> None:
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert [told(seen) for seen in play(name)] == expected


@each_row("name", NAMES)
def test_the_pieces_of_a_recorded_message_are_the_whole(name: str) -> None:
    pieces: dict[str, str] = {}
    for seen in play(name):
        match seen:
            case TextArrived(text=piece, message_id=message_id):
                pieces[message_id] = pieces.get(message_id, "") + piece
            case MessageEnded(text=whole, message_id=message_id, sub_agent=""):
                assert pieces[message_id] == whole
            case _:
                pass


def test_every_line_of_the_recordings_is_a_sign_of_life() -> None:
    for name in NAMES:
        reader = prompted()
        assert all(reader.feed(line) for line in lines_of(name))


# Messages


def test_several_blocks_in_one_frame_all_come_out() -> None:
    frame = assistant({"type": "thinking", "thinking": "Hm."}, text("Both."), call("a"), call("b", "Read"))
    assert feed(prompted(), frame) == [
        ThoughtArrived(text="Hm."),
        MessageEnded(text="Both.", message_id="m", model="big"),
        ToolCalled(call_id="a", name="Bash", args={"x": 1}),
        ToolCalled(call_id="b", name="Read", args={"x": 1}),
    ]
    results = feed(prompted(), user(returned("a"), returned("b", is_error=True)))
    assert [one.call_id for one in results if isinstance(one, ToolReturned)] == ["a", "b"]


@each_row("kind", ["web_search_tool_result", "redacted_thinking", "image", "tool_result", "brand_new", ""])
def test_a_block_that_is_no_call_of_a_tool_is_kept_as_trace(kind: str) -> None:
    block: Frame = {"type": kind, "id": "a", "name": "Bash", "input": {}, "content": "found"}
    (seen,) = feed(prompted(), assistant(block))
    assert isinstance(seen, Traced)
    assert kind in seen.raw


def test_what_was_streamed_is_not_told_twice() -> None:
    thought = assistant({"type": "thinking", "thinking": "Hm."})
    seen = feed(prompted(), start(), delta("Hm.", "thinking"), thought, delta("He"), delta("y"), assistant(text("Hey")))
    assert of_kind(ThoughtArrived, seen) == [ThoughtArrived(text="Hm.")]
    assert of_kind(TextArrived, seen) == [
        TextArrived(text="He", message_id="m"),
        TextArrived(text="y", message_id="m"),
    ]
    assert of_kind(MessageEnded, seen) == [MessageEnded(text="Hey", message_id="m", model="big")]


def test_a_second_text_of_one_model_call_is_a_message_of_its_own() -> None:
    seen = feed(
        prompted(), start(), delta("A"), assistant(text("A")), assistant(call("c")), delta("B"), assistant(text("B"))
    )
    pieces = [one.message_id for one in seen if isinstance(one, TextArrived)]
    ended = [one.message_id for one in seen if isinstance(one, MessageEnded)]
    assert pieces == ended == ["m", "m:2"]


def test_a_retry_takes_back_what_the_dead_attempt_streamed() -> None:
    retry: Frame = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "error": "overloaded"}
    reader = prompted()
    assert feed(reader, start(), delta("Half"), retry)[-2:] == [
        RetryBegun(message="overloaded, attempt 1 of 2", attempt=1),
        TextVoided(reason="overloaded"),
    ]
    assert feed(reader, retry) == [RetryBegun(message="overloaded, attempt 1 of 2", attempt=1)]


@each_row(
    ("info", "warned"),
    [
        ({"status": "allowed_warning", "resetsAt": 9}, "allowed_warning"),
        ({"status": "rejected"}, "rejected"),
        ({"status": "r" * 99}, "r" * 64),
        *((info, None) for info in ({"status": "allowed"}, {"status": ""}, {"status": 3}, {}, None, "rejected")),
    ],
)
def test_a_limit_that_comes_near_or_is_met_is_a_warning_with_its_facts(info: Json, warned: str | None) -> None:
    seen = of_kind(Warned, feed(prompted(), {"type": "rate_limit_event", "rate_limit_info": info}))
    assert seen == ([] if warned is None else [Warned(kind="rate_limit", message=warned, details=info)])


def test_another_attempt_without_a_word_takes_it_back_too() -> None:
    seen = feed(
        prompted(),
        start("one"),
        delta("Half"),
        start("two"),
        delta("Whole"),
        assistant(text("Whole"), message_id="two"),
    )
    assert [type(one) for one in seen if not isinstance(one, Traced)] == [
        TextArrived,
        TextVoided,
        TextArrived,
        MessageEnded,
    ]
    # The other attempt may come in one piece.
    seen = feed(prompted(), start("one"), delta("Half"), assistant(text("Whole"), message_id="two"))
    assert [type(one) for one in seen if not isinstance(one, Traced)] == [TextArrived, TextVoided, MessageEnded]


def test_an_aborted_text_stays_a_partial() -> None:
    seen = feed(prompted(), start(), delta("Hal"), assistant(text("Hal"), aborted=True))
    assert not of_kind(MessageEnded, seen)
    assert not of_kind(TextVoided, seen)
    # Where it was not streamed, it is told at least so far.
    assert feed(prompted(), assistant(text("Hal"), aborted=True)) == [TextArrived(text="Hal", message_id="m")]


def test_the_text_of_an_interrupted_turn_is_not_taken_back_by_the_next() -> None:
    reader = prompted()
    feed(reader, start("one"), delta("Half"), result(terminal_reason="aborted_streaming", is_error=True))
    reader.prompt_written(UUID)
    assert not of_kind(TextVoided, feed(reader, start("two"), delta("New")))


def test_an_error_in_the_models_name_is_no_answer() -> None:
    frame = assistant(text("API Error: 529"), is_api_error_message=True, error="overloaded")
    reader = prompted()
    seen = feed(reader, start(), delta("Half"), frame)
    assert seen[-1] == Warned(kind="api_error", message="API Error: 529", details={"error": "overloaded"})
    assert not of_kind(TextVoided, seen)  # The last attempt's text is all there is of an answer.
    assert the_end(feed(reader, result(is_error=True, terminal_reason="api_error"))).error_kind == "overloaded"


def test_a_sub_agents_lines_name_it() -> None:
    seen = feed(
        prompted(),
        assistant(text("From below."), call("c"), parent_tool_use_id="toolu_1"),
        user(returned("c"), parent_tool_use_id="toolu_1"),
    )
    assert [getattr(one, "sub_agent", None) for one in seen] == ["toolu_1"] * 3


# Tools


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image", "source": {}}], [{"type": "image", "source": {}}]),
        (None, ""),
    ],
)
def test_a_tool_result_is_text_where_it_is_nothing_else(content: Json, output: Json) -> None:
    assert feed(prompted(), user(returned("c", content))) == [ToolReturned(call_id="c", output=output)]


@pytest.mark.parametrize(
    ("meta", "kind"),
    [
        ({}, "tool_error"),
        ({"non_execution_kind": "permission-rule"}, "denied"),
        ({"non_execution_kind": "user-rejected"}, "interrupted"),
    ],
)
def test_a_failed_call_says_why_it_did_not_run(meta: Frame, kind: str) -> None:
    frame = user(returned("c", "no", is_error=True), tool_result_meta=[{"id": "c", **meta}])
    (seen,) = feed(prompted(), frame)
    assert isinstance(seen, ToolReturned)
    assert seen.error is not None
    assert (seen.error.kind, seen.error.message) == (kind, "no")


def test_a_call_that_a_rule_denied_is_a_denial() -> None:
    reader = prompted()
    denied: Frame = {
        "type": "system",
        "subtype": "permission_denied",
        "tool_use_id": "c",
        "tool_name": "Bash",
        "message": "no",
    }
    (warned,) = feed(reader, denied)
    assert isinstance(warned, Warned)
    assert warned.kind == "permission_denied"
    (seen,) = feed(reader, user(returned("c", "no", is_error=True)))
    assert isinstance(seen, ToolReturned)
    assert seen.error is not None
    assert seen.error.kind == "denied"


# The session and the prompt


def test_only_another_session_id_is_news() -> None:
    init: Frame = {"type": "system", "subtype": "init", "session_id": "s", "model": "big", "claude_code_version": "2"}
    reader = ClaudeLines()
    named = SessionNamed(native_session_id="s", model="big", version="2")
    assert feed(reader, init) == [named]
    assert of_kind(SessionNamed, feed(reader, init)) == []
    assert of_kind(SessionNamed, feed(reader, {**init, "session_id": "t"})) != []


def test_the_answer_to_initialize_is_readiness() -> None:
    reader = ClaudeLines()
    assert feed(reader, {"type": "control_response", "response": {"request_id": INITIALIZE}}) == [BecameReady()]


def test_a_prompt_is_followed_by_its_id() -> None:
    reader = prompted()
    assert not of_kind(PromptReached, feed(reader, lifecycle("queued", "another"), lifecycle("started", "another")))
    assert feed(reader, lifecycle("queued"), lifecycle("started")) == [
        PromptReached(stage=DeliveryStage.ACCEPTED),
        PromptReached(stage=DeliveryStage.STARTED),
    ]
    assert not of_kind(PromptReached, feed(reader, lifecycle("queued")))


def test_a_turn_of_the_agents_own_is_not_taken_for_the_prompts() -> None:
    reader = prompted()
    feed(reader, lifecycle("queued"))
    init: Frame = {"type": "system", "subtype": "init", "session_id": "s"}
    assert not of_kind(PromptReached, feed(reader, init))
    assert not of_kind(TurnEnded, feed(reader, result()))  # It had not begun with the prompt.
    assert reader.has_open_turn
    assert the_end(feed(reader, lifecycle("started"), result())).ending is TurnEnding.NATURAL


def test_a_version_that_does_not_follow_prompts_starts_them_with_init() -> None:
    reader = prompted()
    init: Frame = {"type": "system", "subtype": "init", "session_id": "s"}
    assert of_kind(PromptReached, feed(reader, init)) == [PromptReached(stage=DeliveryStage.STARTED)]
    follow_up = result(origin={"kind": "task-notification"})
    assert not of_kind(TurnEnded, feed(reader, follow_up))
    assert the_end(feed(reader, result())).ending is TurnEnding.NATURAL


def test_a_prompt_that_was_cancelled_in_the_queue_is_interrupted() -> None:
    assert the_end(feed(prompted(), lifecycle("queued"), lifecycle("cancelled"))).ending is TurnEnding.INTERRUPTED


def test_a_prompt_that_the_session_had_before_ends_at_once() -> None:
    ended = the_end(feed(prompted(), lifecycle("completed")))
    assert (ended.ending, ended.error_kind) == (TurnEnding.SILENT, "prompt_known_already")


def test_a_prompt_that_was_queued_and_then_known_already_is_accepted_once() -> None:
    seen = feed(prompted(), lifecycle("queued"), lifecycle("completed"))
    assert [one.stage for one in seen if isinstance(one, PromptReached)] == [DeliveryStage.ACCEPTED]


# How a turn ends


@each_row(
    ("more", "ending", "kind", "code"),
    [
        ({}, TurnEnding.NATURAL, "", ""),
        ({"is_error": True}, TurnEnding.ERROR, "success", ""),
        ({"is_error": True, "terminal_reason": "api_error"}, TurnEnding.ERROR, "api_error", ""),
        ({"subtype": "error_during_execution"}, TurnEnding.ERROR, "error_during_execution", ""),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, TurnEnding.INTERRUPTED, "", ""),
        ({"is_error": True, "terminal_reason": "aborted_streaming"}, TurnEnding.INTERRUPTED, "", ""),
        ({"subtype": "error_max_turns"}, TurnEnding.STOPPED, "", "max_rounds"),
        ({"subtype": "error_max_budget_usd", "is_error": True}, TurnEnding.STOPPED, "", "token_budget"),
        ({"is_error": "yes", "subtype": 7, "result": []}, TurnEnding.NATURAL, "", ""),
    ],
)  # fmt: skip
def test_a_result_says_how_the_turn_ended(more: Frame, ending: TurnEnding, kind: str, code: str) -> None:
    reader = prompted()
    ended = the_end(feed(reader, result(**more)))
    assert (ended.ending, ended.error_kind, ended.stop_code) == (ending, kind, code)
    assert ended.text == ("Done." if ending is TurnEnding.NATURAL and "result" not in more else None)
    assert not reader.has_open_turn


def test_an_interrupt_is_known_also_where_the_result_does_not_say_so() -> None:
    note = user(text("[Request interrupted by user]"))
    failed = result(subtype="error_during_execution", is_error=True)
    assert the_end(feed(prompted(), note, failed)).ending is TurnEnding.INTERRUPTED
    # The note of a sub-agent, or a prompt that reads like one, is no interrupt of this turn.
    assert the_end(feed(prompted(), {**note, "parent_tool_use_id": "t"}, failed)).ending is TurnEnding.ERROR
    assert the_end(feed(prompted(), {**note, "isReplay": True}, failed)).ending is TurnEnding.ERROR


def test_only_the_first_of_several_results_ends_the_turn() -> None:
    reader = prompted()
    feed(reader, lifecycle("started"))
    seen = feed(reader, result(), result(), result(origin={"kind": "task-notification"}))
    assert len(of_kind(TurnEnded, seen)) == 1
    assert len(of_kind(BecameReady, seen)) == 2


def test_a_failure_without_a_prompt_is_no_end_of_a_turn() -> None:
    failed = result(is_error=True, errors=["No conversation found with session ID: x"], result=None)
    reader = ClaudeLines(is_resumed=True)
    assert feed(reader, failed) == [
        Warned(kind="failed_without_prompt", message="No conversation found with session ID: x")
    ]
    assert reader.is_stale_resume


def test_no_result_at_all_is_silence() -> None:
    reader = prompted()
    feed(reader, lifecycle("started"), ask("q", "c"))
    seen = reader.end()
    assert seen[0] == ApprovalGone(request_id="q", is_answered=False)
    assert the_end(seen).ending is TurnEnding.SILENT
    assert reader.end() == []


# Background work


def tasks(*names: str) -> Frame:
    return {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": name} for name in names]}


def task(subtype: str, name: str, **more: Json) -> Frame:
    return {"type": "system", "subtype": subtype, "task_id": name, **more}


def test_open_children_are_told_before_the_turn_ends() -> None:
    reader = prompted()
    assert feed(reader, tasks("a", "b")) == [ChildrenChanged(open=frozenset({"a", "b"}))]
    seen = [one for one in feed(reader, result()) if not isinstance(one, UsageReported)]
    assert [type(one) for one in seen] == [ChildrenChanged, TurnEnded]
    assert seen[0] == ChildrenChanged(open=frozenset({"a", "b"}))


def test_a_child_that_ended_stays_open_until_the_model_has_heard_of_it() -> None:
    reader = prompted()
    feed(reader, task("task_started", "a", is_backgrounded=True), result())
    seen = feed(reader, task("task_notification", "a", status="completed"), tasks())
    assert of_kind(ChildrenChanged, seen) == [ChildrenChanged(open=frozenset({"notice:a"}))]
    seen = feed(reader, result(origin={"kind": "task-notification"}))
    assert seen == [ChildrenChanged(open=frozenset()), BecameReady()]


def test_a_child_that_was_stopped_is_gone_at_once() -> None:
    reader = prompted()
    feed(reader, tasks("a"))
    assert feed(reader, task("task_notification", "a", status="stopped")) == [ChildrenChanged(open=frozenset())]


def test_a_sub_agent_in_the_foreground_is_no_background_work() -> None:
    seen = feed(prompted(), task("task_started", "a", is_backgrounded=False), task("task_notification", "a"))
    assert not of_kind(ChildrenChanged, seen)


def state(name: str) -> Frame:
    return {"type": "system", "subtype": "session_state_changed", "state": name}


def test_an_agent_that_tells_its_state_is_ready_when_it_says_so() -> None:
    reader = prompted()
    feed(reader, state("running"), lifecycle("started"), task("task_started", "a", is_backgrounded=True), result())
    feed(reader, task("task_notification", "a", status="completed"))
    # A result is not yet rest: the agent says itself when it has come to it.
    assert not of_kind(BecameReady, feed(reader, result(origin={"kind": "task-notification"})))
    assert feed(reader, state("idle")) == [ChildrenChanged(open=frozenset()), BecameReady()]


def test_rest_before_a_prompt_was_read_is_not_readiness() -> None:
    reader = prompted()
    assert not of_kind(BecameReady, feed(reader, state("idle")))
    assert reader.has_open_turn


# Questions


def test_a_question_is_open_until_its_call_has_a_result() -> None:
    reader = prompted()
    (asked,) = feed(reader, ask("q", "c"))
    assert isinstance(asked, ApprovalAsked)
    assert asked.call_id == "c"
    assert feed(reader, user(returned("c")))[0] == ApprovalGone(request_id="q")
    assert reader.asking.question("q") is None


def test_the_probe_after_a_decision_shows_that_it_was_read() -> None:
    reader = prompted()
    feed(reader, ask("q", "c"), ask("r", "d"))
    probe: Frame = {
        "type": "control_response",
        "response": {"subtype": "error", "error": "?", "request_id": f"{DECIDED}q"},
    }
    assert feed(reader, probe) == [ApprovalGone(request_id="q")]
    assert not of_kind(ApprovalGone, feed(reader, probe))


def test_a_question_that_is_taken_back_was_not_answered() -> None:
    reader = prompted()
    feed(reader, ask("q", "c"))
    cancel: Frame = {"type": "control_cancel_request", "request_id": "q"}
    assert feed(reader, cancel) == [ApprovalGone(request_id="q", is_answered=False)]


def test_a_background_agents_question_outlives_the_turn() -> None:
    reader = prompted()
    feed(reader, task("task_started", "agent", tool_use_id="toolu_1", is_backgrounded=True))
    (asked,) = feed(reader, ask("q", "c", agent_id="agent"))
    assert isinstance(asked, ApprovalAsked)
    assert asked.sub_agent == "toolu_1"
    feed(reader, ask("own", "d"))
    assert of_kind(ApprovalGone, feed(reader, result())) == [ApprovalGone(request_id="own", is_answered=False)]
    assert reader.asking.question("q") is not None


def test_a_request_that_nobody_can_answer_is_to_be_refused() -> None:
    reader = prompted()
    unknown: Frame = {"type": "control_request", "request_id": "h", "request": {"subtype": "hook_callback"}}
    (warned,) = feed(reader, unknown)
    assert isinstance(warned, Warned)
    assert warned.kind == "unanswerable_request"
    assert reader.asking.take_refusals() == ["h"]
    assert reader.asking.take_refusals() == []


# Usage


def test_the_cost_of_a_turn_is_what_was_added_to_the_total() -> None:
    reader = prompted()
    first = feed(reader, result(total_cost_usd=0.25))
    reader.prompt_written(UUID)
    second = feed(reader, result(total_cost_usd=0.75))
    assert [one.cost_usd for one in (*first, *second) if isinstance(one, UsageReported)] == [0.25, 0.5]


def test_the_cost_of_what_was_before_a_resume_is_not_this_turns() -> None:
    reader = ClaudeLines(is_resumed=True)
    reader.prompt_written(UUID)
    usage: Json = {"input_tokens": 3, "cache_read_input_tokens": 40, "output_tokens": 5}
    (told_usage,) = of_kind(UsageReported, feed(reader, result(total_cost_usd=9.0, usage=usage)))
    assert told_usage == UsageReported(
        scope=UsageScope.TURN, input_tokens=43, output_tokens=5, cached_input_tokens=40, cost_usd=None
    )


def test_zeros_do_not_wipe_out_what_the_calls_reported() -> None:
    zeros: Json = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0}
    assert not of_kind(UsageReported, feed(prompted(), result(usage=zeros, total_cost_usd=0)))


@each_row("figure", [-1, True, "7", 2**60, None, [], 1.5])
def test_a_figure_that_is_no_count_is_missing(figure: Json) -> None:
    (usage,) = of_kind(UsageReported, feed(prompted(), result(usage={"input_tokens": figure, "output_tokens": 1})))
    assert isinstance(usage, UsageReported)
    assert usage.input_tokens is None


# Hostile and damaged lines


def test_a_line_of_megabytes_is_read_whole() -> None:
    words = "ä" * 4_000_000
    assert feed(prompted(), assistant(text(words))) == [MessageEnded(text=words, message_id="m", model="big")]
    (trace,) = prompted().feed(b'{"type":"new","x":"' + b"y" * 4_000_000 + b'"}')
    assert isinstance(trace, Traced)
    assert len(trace.raw) == TRACE_MAX_CHARACTERS


@each_row("line", [b"", b"Warning: something", b"[]", b"null", b'"text"', b"\xff\xfe", b"7", b"[" * 100_000])
def test_what_is_no_object_is_kept_as_trace(line: bytes) -> None:
    assert [type(one) for one in prompted().feed(line)] == [Traced]


@pytest.mark.parametrize("line", [b'{"type":"result","subty', b'{"a":' * 100_000, b'{"type": NaN}'])
def test_a_broken_object_is_said_to_be_broken(line: bytes) -> None:
    seen = prompted().feed(line)
    assert [type(one) for one in seen] == [Warned, Traced]


def test_half_an_emoji_does_not_lose_the_line() -> None:
    line = msgspec.json.encode(delta("a?")).replace(b"?", rb"\ud83d")
    assert prompted().feed(line) == [TextArrived(text="a\ufffd")]
    assert prompted().feed(line.replace(b"\\ud83d", b"\xf0\x9f")) == [TextArrived(text="a\ufffd")]


def test_a_frame_of_an_unknown_type_is_kept_as_it_is() -> None:
    assert prompted().feed(b'{"type":"brand_new","x":1}') == [Traced(raw='{"type":"brand_new","x":1}')]


def test_a_flood_of_questions_and_tasks_is_bounded() -> None:
    reader = prompted()
    seen = feed(reader, *(ask(f"q{number}", "c") for number in range(2000)))
    assert len(of_kind(ApprovalAsked, seen)) < 1000
    feed(reader, *(task("task_started", f"t{number}", is_backgrounded=True) for number in range(3000)))
    (children,) = of_kind(ChildrenChanged, feed(reader, result()))
    assert isinstance(children, ChildrenChanged)
    assert len(children.open) < 2000
