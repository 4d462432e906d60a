"""Words of ACP agents that no recording holds."""

from __future__ import annotations

import pytest

from interlock.agents.acp import calls
from interlock.agents.acp.translate import AcpTranslator
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    MessageEnded,
    Observation,
    TextArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
)
from interlock.vocabulary.events.registry import Json
from tests.each_row import each_row


def begun() -> AcpTranslator:
    translator = AcpTranslator()
    translator.session_id = "s"
    translator.sent({"id": 1, "method": "session/prompt", "params": {}})
    return translator


def update(translator: AcpTranslator, **fields: Json) -> list[Observation]:
    return translator.received({"method": "session/update", "params": {"sessionId": "s", "update": dict(fields)}})


def answer(translator: AcpTranslator, **result: Json) -> list[Observation]:
    return translator.received({"id": 1, "result": dict(result)})


@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        ("end_turn", TurnEnded(ending=TurnEnding.NATURAL)),
        ("max_tokens", TurnEnded(ending=TurnEnding.STOPPED, stop_code="token_budget")),
        ("max_turn_requests", TurnEnded(ending=TurnEnding.STOPPED, stop_code="max_rounds")),
        ("cancelled", TurnEnded(ending=TurnEnding.INTERRUPTED)),
    ],
)
def test_each_reason_of_the_protocol_is_an_ending(reason: str, ended: TurnEnded) -> None:
    assert answer(begun(), stopReason=reason)[-1] == ended


@pytest.mark.parametrize("reason", ["refusal", "something_new", "", None])
def test_a_refusal_and_a_reason_that_nobody_knows_are_errors(reason: Json) -> None:
    ended = answer(begun(), stopReason=reason)[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.ending is TurnEnding.ERROR


def test_a_call_that_has_returned_says_nothing_more() -> None:
    translator = begun()
    update(translator, sessionUpdate="tool_call", toolCallId="c", status="in_progress")
    update(translator, sessionUpdate="tool_call_update", toolCallId="c", status="completed")
    for status in ("in_progress", "completed", "failed"):
        seen = update(translator, sessionUpdate="tool_call_update", toolCallId="c", status=status)
        assert not [one for one in seen if isinstance(one, ToolCalled | ToolReturned)]


def test_a_call_that_was_only_announced_is_told_at_the_end_of_the_turn() -> None:
    translator = begun()
    update(translator, sessionUpdate="tool_call", toolCallId="c", status="pending", title="Shell")
    seen = answer(translator, stopReason="end_turn")
    assert [one.call_id for one in seen if isinstance(one, ToolCalled)] == ["c"]


def test_ids_of_both_directions_do_not_meet() -> None:
    translator = begun()
    params: Json = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": []}
    seen = translator.received({"id": 1, "method": "session/request_permission", "params": params})
    assert [one.request_id for one in seen if isinstance(one, ApprovalAsked)] == ["1"]
    assert translator.is_turn_open


def test_a_question_that_nobody_answered_is_taken_back_by_the_end_of_the_turn() -> None:
    translator = begun()
    translator.received({"id": "q", "method": "session/request_permission", "params": {"sessionId": "s"}})
    seen = answer(translator, stopReason="cancelled")
    assert ApprovalGone(request_id='"q"', is_answered=False) in seen


def test_another_session_s_words_are_not_ours() -> None:
    chunk: Json = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    seen = begun().received({"method": "session/update", "params": {"sessionId": "t", "update": chunk}})
    assert not [one for one in seen if isinstance(one, TextArrived)]


def test_a_new_message_id_ends_the_message_before() -> None:
    translator, seen = begun(), list[Observation]()
    for name in ("m1", "m2"):
        content: Json = {"type": "text", "text": name}
        seen = update(translator, sessionUpdate="agent_message_chunk", messageId=name, content=content)
    assert MessageEnded(text="m1", message_id="m1") in seen


def test_a_prompt_that_was_not_delivered_opens_no_turn() -> None:
    translator = begun()
    translator.unsent({"id": 1, "method": "session/prompt"})
    assert not translator.is_turn_open


def test_figures_of_a_resumed_session_are_not_claimed_for_its_first_turn() -> None:
    translator = AcpTranslator()
    translator.sent({"id": 0, "method": "session/resume", "params": {"sessionId": "s"}})
    translator.received({"id": 0, "result": {}})
    figures = []
    for number, total in ((1, 900), (2, 1000)):
        translator.sent({"id": number, "method": "session/prompt", "params": {}})
        usage: Json = {"inputTokens": total, "outputTokens": total}
        seen = translator.received({"id": number, "result": {"stopReason": "end_turn", "usage": usage}})
        figures.append([one.input_tokens for one in seen if isinstance(one, UsageReported)])
    assert figures == [[], [100]]


@each_row(
    ("error", "kind", "message"),
    [
        ({"code": -32603, "message": "Internal error"}, "agent_error", "Internal error"),
        ({"message": "Internal error", "data": {"details": "no luck"}}, "agent_error", "Internal error: no luck"),
        ({"message": "Internal error", "data": "no luck"}, "agent_error", "Internal error: no luck"),
        ({"message": "Internal error", "data": {"details": 3}}, "agent_error", "Internal error"),
        ({"data": {"details": "no luck"}}, "agent_error", "no luck"),
        ({"data": "no luck"}, "agent_error", "no luck"),
        ({"code": -32000, "message": "Sign in"}, "auth_required", "Sign in"),
        ({"code": "E7"}, "agent_error", "error E7"),
        ({}, "agent_error", "error unknown"),
        ("none", "agent_error", "error unknown"),
    ],
)
def test_an_error_ends_the_turn_in_its_own_words(error: Json, kind: str, message: str) -> None:
    (ended,) = begun().received({"id": 1, "error": error})
    assert ended == TurnEnded(ending=TurnEnding.ERROR, error_kind=kind, error_message=message)


def test_of_more_open_calls_than_are_kept_nothing_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "MAX_OPEN_CALLS", 2)
    translator = begun()
    for call_id in ("c1", "c2", "c3"):
        update(translator, sessionUpdate="tool_call", toolCallId=call_id, title="look", status="pending")
    told = [
        one
        for call_id in ("c3", "c1")
        for one in update(translator, sessionUpdate="tool_call_update", toolCallId=call_id, status="completed")
    ]
    assert [(type(one), one.call_id) for one in told if isinstance(one, ToolCalled | ToolReturned)] == [
        (ToolCalled, "c1"),
        (ToolReturned, "c1"),
    ]
