"""Between our items and the library's messages: nothing added, nothing lost, hostile answers tamed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from interlock.agents.model.calls import CallFault, CallUsage, FaultKind
from interlock.agents.model.provider import fault_of
from interlock.agents.model.wire import answer_of, messages_of
from interlock.projections.replay.items import (
    AssistantText,
    BranchMemory,
    CallItem,
    CompactionMemory,
    ReasoningItem,
    ReplayItem,
    ResultItem,
    UserText,
)
from interlock.vocabulary.events.conversation import Resource, ToolError
from interlock.vocabulary.ids import CallId
from tests.each_row import each_row

ITEMS: list[ReplayItem] = [
    CompactionMemory(summary="before", limitations=("short",)),
    BranchMemory(summary="branch"),
    UserText(text="hello", resources=(Resource(name="a.png"),)),
    ReasoningItem(item={"content": "hm", "signature": "s", "provider_name": "anthropic"}),
    ReasoningItem(item=["not", "ours"]),
    AssistantText(text="looking"),
    CallItem(call_id=CallId("x"), name="look", args={"a": 1}),
    CallItem(call_id=CallId("y"), name="look", args="{"),
    ResultItem(call_id=CallId("y"), ok=False, error=ToolError(kind="bad", message="no"), output="some"),
    ResultItem(call_id=CallId("x"), ok=True, output={"b": 1, "a": 2}),
    AssistantText(text="done"),
    UserText(text="again"),
    CallItem(call_id=CallId("x"), name="other"),
    ResultItem(call_id=CallId("x"), ok=True, output="text"),
]


def shape(items: list[ReplayItem]) -> list[list[tuple[Any, ...]]]:
    return [[_shape(part) for part in message.parts] for message in messages_of(items, "be brief")]


def _shape(part: object) -> tuple[Any, ...]:
    match part:
        case UserPromptPart(content=content) | TextPart(content=content) | ThinkingPart(content=content):
            return type(part).__name__, content
        case ToolCallPart(tool_name=name, args=args, tool_call_id=call_id):
            return "call", name, args, call_id
        case ToolReturnPart(tool_name=name, content=content, tool_call_id=call_id, outcome=outcome):
            return "return", name, content, call_id, outcome
        case _:
            raise AssertionError(part)


def test_every_item_has_its_place_and_ids_are_unique_on_the_wire() -> None:
    assert shape(ITEMS) == [
        [
            ("UserPromptPart", "[Summary of the conversation so far]\nbefore\n(short)"),
            ("UserPromptPart", "[Summary of the branch this conversation came from]\nbranch"),
            ("UserPromptPart", "hello\n[attached: a.png]"),
        ],
        [
            ("ThinkingPart", "hm"),
            ("TextPart", "looking"),
            ("call", "look", {"a": 1}, "x"),
            ("call", "look", {"unreadable": "{"}, "y"),
        ],
        [
            ("return", "look", "bad: no\nsome", "y", "failed"),
            ("return", "look", '{"a": 2, "b": 1}', "x", "success"),
        ],
        [("TextPart", "done")],
        [("UserPromptPart", "again")],
        [("call", "other", {}, "x~2")],
        [("return", "other", "text", "x~2", "success")],
    ]
    requests = [message for message in messages_of(ITEMS, "be brief") if isinstance(message, ModelRequest)]
    assert {message.instructions for message in requests} == {"be brief"}


@each_row("cut", range(len(ITEMS)))
def test_a_longer_conversation_begins_with_the_parts_of_a_shorter_one(cut: int) -> None:
    whole = [part for message in shape(ITEMS) for part in message]
    shorter = [part for message in shape(ITEMS[:cut]) for part in message]
    assert whole[: len(shorter)] == shorter


def test_an_answer_in_pieces_is_one_text_and_its_calls() -> None:
    parts: list[ModelResponsePart] = [
        TextPart("a"),
        ThinkingPart("t", id="1"),
        TextPart("b"),
        ToolCallPart("f", '{"x":1}', "c"),
    ]
    answer = answer_of(ModelResponse(parts=parts, usage=RequestUsage(input_tokens=3, output_tokens=2)))
    assert (answer.text, answer.reasoning) == ("ab", ({"content": "t", "id": "1"},))
    assert answer.calls[0].args == {"x": 1}
    assert answer.usage == CallUsage(input_tokens=3, output_tokens=2)


@each_row("args", ["{", "[1]", '"x"', "nul", '{"a":\ud800}', {"a": object()}, {"a": float("nan"), 1: 2}])
def test_arguments_that_are_no_json_object_are_kept_as_text_and_not_run(args: str | dict[str, Any]) -> None:
    (call,) = answer_of(ModelResponse(parts=[ToolCallPart("f", args, "c")])).calls
    assert call.unreadable or call.args is not None
    msgspec.json.encode((call.args, call.unreadable, call.name))


def test_usage_that_was_not_reported_is_missing() -> None:
    assert answer_of(ModelResponse(parts=[], usage=RequestUsage())).usage == CallUsage()
    assert answer_of(ModelResponse(parts=[], usage=RequestUsage(unmeasured_requests=1))).usage == CallUsage()


TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)


@given(text=TEXTS, name=TEXTS, args=TEXTS | st.dictionaries(TEXTS, TEXTS | st.floats() | st.none(), max_size=2))
def test_whatever_a_model_sends_can_be_written(text: str, name: str, args: str | dict[str, Any]) -> None:
    parts: list[ModelResponsePart] = [TextPart(text), ThinkingPart(text), ToolCallPart(name, args, name)]
    answer = answer_of(ModelResponse(parts=parts))
    call = answer.calls[0]
    msgspec.json.encode((answer.text, answer.reasoning, call.args, call.unreadable, call.name, call.call_id))


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (TimeoutError(), FaultKind.TIMEOUT),
        (ConnectionResetError("gone"), FaultKind.CONNECTION),
        (RuntimeError("what?"), FaultKind.CLIENT),
        (ValueError("maximum context length is 8"), FaultKind.CONTEXT_OVERFLOW),
    ],
)
def test_what_the_library_lets_through_has_a_name_too(wrong: Exception, kind: FaultKind) -> None:
    fault = fault_of(wrong)
    assert isinstance(fault, CallFault)
    assert fault.kind is kind
