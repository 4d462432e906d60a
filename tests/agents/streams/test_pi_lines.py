"""What pi prints: the recording, and the courses of a prompt that it does not hold."""

from __future__ import annotations

import json

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    MessageEnded,
    Observation,
    OptionKind,
    RetryBegun,
    SessionNamed,
    TextArrived,
    TextVoided,
    ToolReturned,
    Traced,
    TurnEnded,
    TurnEnding,
    UsageReported,
)
from interlock.agents.port import AgentSpec, Decision
from interlock.agents.streams.pi.driver import pi_argv
from interlock.agents.streams.pi.lines import PiLines, answer
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import Attention
from tests.agents.acp.golden import check, printed, short
from tests.each_row import each_row

AT_REST: Json = {
    "type": "response",
    "command": "get_state",
    "success": True,
    "data": {"sessionId": "s1", "sessionFile": "/s1.jsonl", "isStreaming": False, "model": {"id": "m"}},
}


def told(reader: PiLines, *events: Json) -> list[Observation]:
    return [seen for event in events for seen in reader.feed(json.dumps(event).encode())]


def run_end(reason: str, error: str = "") -> Json:
    return {"type": "agent_end", "messages": [{"role": "assistant", "stopReason": reason, "errorMessage": error}]}


def piece(text: str) -> Json:
    return {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": text}}


def test_the_recording_means_what_is_on_file() -> None:
    reader = PiLines()
    check("pi/slow", short([seen for line in printed("pi/slow") for seen in reader.feed(line)]))


def test_only_the_end_of_the_run_ends_the_prompt() -> None:
    reader = PiLines()
    assert told(reader, {"type": "turn_end", "message": {"stopReason": "stop"}}) == []
    assert told(reader, run_end("stop")) == [TurnEnded(ending=TurnEnding.NATURAL)]


@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        ("aborted", TurnEnded(ending=TurnEnding.INTERRUPTED)),
        ("length", TurnEnded(ending=TurnEnding.STOPPED, stop_code="token_budget")),
    ],
)
def test_the_last_message_says_how_the_run_ended(reason: str, ended: TurnEnded) -> None:
    assert told(PiLines(), run_end(reason)) == [ended]


def test_a_run_that_failed_is_held_until_the_agent_is_known_to_be_at_rest() -> None:
    reader = PiLines()
    assert not [one for one in told(reader, run_end("error", "500 boom")) if isinstance(one, TurnEnded)]
    assert reader.wants_state
    ended = told(reader, AT_REST)[-1]
    assert ended == TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message="500 boom")


def test_a_retry_takes_the_prompt_up_again_and_voids_the_text_of_the_dead_run() -> None:
    reader = PiLines()
    seen = told(
        reader,
        piece("half "),
        run_end("error", "terminated"),
        {"type": "auto_retry_start", "attempt": 1, "errorMessage": "terminated"},
        AT_REST,
    )
    assert TextVoided(reason="terminated") in seen
    assert RetryBegun(message="terminated", attempt=1) in seen
    assert not [one for one in seen if isinstance(one, TurnEnded)]
    assert told(reader, {"type": "agent_start"}, run_end("stop"))[-1] == TurnEnded(ending=TurnEnding.NATURAL)


def test_a_retry_that_is_called_off_ends_the_prompt() -> None:
    seen = told(
        PiLines(),
        run_end("error", "terminated"),
        {"type": "auto_retry_start", "attempt": 1, "errorMessage": "terminated"},
        {"type": "auto_retry_end", "success": False, "finalError": "Retry cancelled"},
    )
    assert seen[-1] == TurnEnded(ending=TurnEnding.INTERRUPTED)


@pytest.mark.parametrize(("will_retry", "ends"), [(True, 0), (False, 1)])
def test_a_compaction_decides_whether_a_failed_run_goes_on(will_retry: bool, ends: int) -> None:
    seen = told(
        PiLines(),
        run_end("error", "too long"),
        {"type": "compaction_start", "reason": "overflow"},
        {"type": "compaction_end", "willRetry": will_retry},
    )
    assert len([one for one in seen if isinstance(one, TurnEnded)]) == ends


def test_the_exit_of_the_process_lets_a_held_end_go() -> None:
    reader = PiLines()
    told(reader, run_end("error", "boom"))
    assert [type(one) for one in reader.ended()] == [TurnEnded]
    assert reader.ended() == []


def test_a_message_that_broke_off_is_not_whole_and_one_without_a_price_has_none() -> None:
    usage: Json = {"input": 10, "output": 2, "cacheRead": 1, "cost": {"total": 0}}
    message: dict[str, Json] = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "usage": usage}
    whole = told(PiLines(), {"type": "message_end", "message": {**message, "stopReason": "stop"}})
    broken = told(PiLines(), {"type": "message_end", "message": {**message, "stopReason": "error"}})
    assert MessageEnded(text="Hi") in whole
    assert not [one for one in broken if isinstance(one, MessageEnded)]
    (used,) = [one for one in whole if isinstance(one, UsageReported)]
    assert (used.input_tokens, used.cached_input_tokens, used.cost_usd) == (10, 1, None)


def test_a_tool_that_fails_returns_its_words_as_the_error() -> None:
    result: Json = {"content": [{"type": "text", "text": "exited with code 3"}]}
    (returned,) = told(PiLines(), {"type": "tool_execution_end", "toolCallId": "c", "result": result, "isError": True})
    assert isinstance(returned, ToolReturned)
    assert returned.error is not None
    assert returned.error.message == "exited with code 3"


def test_the_state_names_the_session_once() -> None:
    reader = PiLines()
    named = SessionNamed(native_session_id="s1", model="m", transcript_path="/s1.jsonl")
    assert told(reader, AT_REST, AT_REST) == [named]


@each_row(
    ("method", "decision", "said"),
    [
        ("confirm", Decision(request_id="u1", is_allowed=True), {"confirmed": True}),
        ("confirm", Decision(request_id="u1", is_allowed=False), {"confirmed": False}),
        ("select", Decision(request_id="u1", is_allowed=True, option_id="Allow"), {"value": "Allow"}),
        ("select", Decision(request_id="u1", is_allowed=False), {"cancelled": True}),
        ("input", Decision(request_id="u1", is_allowed=True, text="my words"), {"value": "my words"}),
    ],
)
def test_a_dialog_of_an_extension_is_a_question(method: str, decision: Decision, said: dict[str, Json]) -> None:
    event: Json = {"type": "extension_ui_request", "id": "u1", "method": method, "title": "Sure?", "options": ["Allow"]}
    (asked,) = told(PiLines(), event)
    assert isinstance(asked, ApprovalAsked)
    assert (asked.attention is Attention.APPROVAL) == (method == "confirm")
    assert (asked.options[0].kind is OptionKind.ALLOW_ONCE) == (method == "confirm")
    assert answer(asked, decision) == {"type": "extension_ui_response", "id": "u1", **said}


def test_a_notice_of_an_extension_is_no_question() -> None:
    event: Json = {"type": "extension_ui_request", "id": "u1", "method": "notify", "message": "done"}
    (seen,) = told(PiLines(), event)
    assert isinstance(seen, Traced)


@each_row("line", [b"", b"\xff", b"[]", b'{"type":"new"}', b'{"type":7}', b'{"type":"message_update"}'])
def test_what_is_not_known_is_kept_as_trace(line: bytes) -> None:
    (seen,) = PiLines().feed(line)
    assert isinstance(seen, Traced)


def test_pieces_of_text_come_as_they_are() -> None:
    assert told(PiLines(), piece("a"), piece("b")) == [TextArrived(text="a"), TextArrived(text="b")]


def test_the_program_is_started_for_a_session() -> None:
    spec = AgentSpec(agent="p", driver="pi", model="stub/m", resume="s1")
    assert pi_argv(spec) == ("pi", "--mode", "rpc", "--model", "stub/m", "--session", "s1")
    with pytest.raises(UsageError):
        pi_argv(AgentSpec(agent="p", driver="pi", options={"colour": "red"}))
