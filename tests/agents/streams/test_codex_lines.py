"""Every kind of line that `codex exec --json` prints, and what it tells."""

from __future__ import annotations

import json

from interlock.agents.observations import (
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
from interlock.agents.processes.lines import Line
from interlock.agents.streams.codex.exec_lines import CodexLines
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from tests.each_row import each_row


def told(*messages: dict[str, Json]) -> list[Observation]:
    """What the lines tell, without the end of the stream."""
    parser = CodexLines()
    return [seen for message in messages for seen in parser.read(Line(json.dumps(message).encode()))]


def item(when: str, **fields: Json) -> dict[str, Json]:
    return {"type": f"item.{when}", "item": fields}


def message(when: str, text: str, item_id: str = "m") -> dict[str, Json]:
    return item(when, id=item_id, type="agent_message", text=text)


def test_a_session_is_named_once() -> None:
    named: dict[str, Json] = {"type": "thread.started", "thread_id": "t"}
    first, *rest = told(named, named)
    assert first == SessionNamed(native_session_id="t")
    assert [type(seen) for seen in rest] == [Traced]


def test_a_turn_is_told_to_have_begun() -> None:
    assert told({"type": "turn.started"}) == [PromptReached(stage=DeliveryStage.STARTED)]


@each_row("when", ["created", "started"])
@each_row(
    ("fields", "called"),
    [
        (
            {"type": "function_call", "name": "look", "call_id": "c", "arguments": '{"a": 1}'},
            ToolCalled(call_id="c", name="look", args='{"a": 1}'),
        ),
        (
            {"type": "mcp_tool_call", "id": "c", "server": "docs", "tool": "find", "arguments": {"q": "x"}},
            ToolCalled(call_id="c", name="docs.find", args={"q": "x"}),
        ),
        (
            {"type": "mcp_tool_call", "id": "c", "server": "docs", "tool": "list", "arguments": {}},
            ToolCalled(call_id="c", name="docs.list"),
        ),
        (
            {"type": "command_execution", "id": "c", "command": "ls"},
            ToolCalled(call_id="c", name="Shell", args={"command": "ls"}),
        ),
        (
            {"type": "web_search", "id": "c", "query": "weather"},
            ToolCalled(call_id="c", name="WebSearch", args={"query": "weather"}),
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_a_tool_is_told_when_it_begins(when: str, fields: dict[str, Json], called: ToolCalled) -> None:
    assert told(item(when, **fields)) == [called]


@each_row(
    ("fields", "output", "error"),
    [
        ({"type": "command_execution", "aggregated_output": "hi\n", "exit_code": 0}, "hi\n", ""),
        ({"type": "command_execution", "aggregated_output": "no\n", "exit_code": 2}, "no\n", "exit_code"),
        ({"type": "command_execution", "aggregated_output": "", "status": "declined"}, "", "denied"),
        (
            {"type": "mcp_tool_call", "result": {"content": [{"text": "a"}, {"text": "b"}, 7]}, "status": "completed"},
            "a\nb",
            "",
        ),
        ({"type": "mcp_tool_call", "error": {"message": "gone"}, "status": "failed"}, None, "failed"),
        ({"type": "web_search", "query": "q", "action": {"queries": ["one", "two"]}}, ["one", "two"], ""),
        ({"type": "web_search", "query": "q"}, "q", ""),
        ({"type": "file_change", "changes": [], "status": "failed"}, [], "failed"),
    ],
)
def test_a_tool_is_told_when_it_ends(fields: dict[str, Json], output: Json, error: str) -> None:
    began, ended = told(item("started", id="c", **fields), item("completed", id="c", **fields))
    assert isinstance(began, ToolCalled)
    assert isinstance(ended, ToolReturned)
    assert (ended.call_id, ended.output) == ("c", output)
    assert (ended.error.kind if ended.error else "") == error


def test_the_exit_code_of_a_command_is_kept() -> None:
    fields: dict[str, Json] = {"id": "c", "type": "command_execution", "aggregated_output": "", "exit_code": 2}
    expected = ToolError(kind="exit_code", message="the command ended with code 2", details={"exit_code": 2})
    assert told(item("started", **fields), item("completed", **fields))[1] == ToolReturned(
        call_id="c", output="", error=expected
    )


def test_the_result_of_a_function_is_paired_by_its_call() -> None:
    called = item("started", type="function_call", name="look", call_id="c")
    output = item("completed", type="function_call_output", call_id="c", output="seen")
    assert told(called, output)[1] == ToolReturned(call_id="c", output="seen")
    assert [type(seen) for seen in told(output)] == [Traced]


def test_an_end_without_a_beginning_tells_both_and_a_second_end_nothing() -> None:
    ended = item("completed", id="c", type="web_search", query="q")
    assert [type(seen) for seen in told(ended, ended)] == [ToolCalled, ToolReturned, Traced]


def test_text_comes_as_the_tail_that_is_new() -> None:
    seen = told(message("updated", "One"), message("updated", "One, two"), message("updated", "One, two"))
    assert seen == [TextArrived(text="One", message_id="m"), TextArrived(text=", two", message_id="m")]


def test_a_message_that_is_written_anew_voids_what_came() -> None:
    seen = told(message("updated", "One"), message("updated", "Two"), message("completed", "Two!"))
    assert seen == [
        TextArrived(text="One", message_id="m"),
        TextVoided(reason="the message was rewritten"),
        TextArrived(text="Two", message_id="m"),
        MessageEnded(text="Two!", message_id="m"),
    ]


def test_a_retry_voids_the_text_of_the_dead_attempt() -> None:
    words = "Reconnecting... 1/5 (gone)"
    seen = told(message("updated", "Half"), {"type": "error", "message": words}, message("completed", "Whole", "n"))
    assert seen[1:] == [
        RetryBegun(message=words, attempt=1),
        TextVoided(reason=words),
        MessageEnded(text="Whole", message_id="n"),
    ]


def test_a_retry_before_any_text_voids_nothing() -> None:
    assert told({"type": "error", "message": "Reconnecting... 2/5"}) == [
        RetryBegun(message="Reconnecting... 2/5", attempt=2)
    ]


def test_reasoning_is_a_thought_and_an_error_item_a_warning() -> None:
    assert told(
        item("completed", id="r", type="reasoning", text="Hm."),
        item("completed", id="e", type="error", message="Model metadata not found."),
    ) == [ThoughtArrived(text="Hm."), Warned(kind="agent_warning", message="Model metadata not found.")]


def test_the_end_tells_the_usage_and_the_last_message() -> None:
    usage: Json = {"input_tokens": 7, "cached_input_tokens": 5, "output_tokens": 3}
    seen = told(message("completed", "One"), message("completed", "Two"), {"type": "turn.completed", "usage": usage})
    assert seen[2:] == [
        UsageReported(scope=UsageScope.TURN, input_tokens=7, output_tokens=3, cached_input_tokens=5),
        TurnEnded(ending=TurnEnding.NATURAL, text="Two"),
    ]


def test_a_figure_that_is_missing_or_no_figure_is_not_a_zero() -> None:
    usage: Json = {"input_tokens": 7, "output_tokens": -1, "cached_input_tokens": True}
    [used, _] = told({"type": "turn.completed", "usage": usage})
    assert used == UsageReported(scope=UsageScope.TURN, input_tokens=7)
    assert told({"type": "turn.completed"}) == [TurnEnded(ending=TurnEnding.NATURAL)]


def test_a_turn_ends_once() -> None:
    failed: dict[str, Json] = {"type": "turn.failed", "error": {"message": "out"}}
    parser = CodexLines()
    seen = [one for _ in range(2) for one in parser.read(Line(json.dumps(failed).encode()))] + parser.ended()
    assert seen[0] == TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message="out")
    assert [type(one) for one in seen[1:]] == [Traced]


def test_an_error_is_the_end_only_if_nothing_follows_it() -> None:
    parser = CodexLines()
    assert [type(one) for one in parser.read(Line(b'{"type": "error", "message": "out"}'))] == [Traced]
    assert parser.ended() == [TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message="out")]
    assert CodexLines().ended() == [TurnEnded(ending=TurnEnding.SILENT)]


def test_calls_that_are_open_at_the_end_get_their_results() -> None:
    running = item("started", id="c", type="command_execution", command="sleep 9")
    calling = item("started", id="d", type="mcp_tool_call", server="s", tool="t")
    seen = told(running, calling, {"type": "turn.failed"})[2:]
    assert [one.call_id for one in seen if isinstance(one, ToolReturned)] == ["c", "d"]


@each_row(
    "data",
    [b"Reading prompt...", b"{", b"[]", b'{"type": "ping"}', b'{"type": "item.completed"}', b"\xff", b"[" * 9999],
)
def test_what_is_not_known_is_traced(data: bytes) -> None:
    assert [type(seen) for seen in CodexLines().read(Line(data))] == [Traced]


def test_a_torn_line_is_a_warning_and_a_trace() -> None:
    seen = CodexLines().read(Line(b'{"type": "turn.completed"}', is_whole=False))
    assert [type(one) for one in seen] == [Warned, Traced]
