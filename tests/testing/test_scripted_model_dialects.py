"""The four wire formats: the same script says the same in each, streamed or whole."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from interlock.testing.scripted_model import Error, RequestKind, ScriptedCall, ScriptedModel, Shell, Text, Think
from tests.testing.scripted_model_client import CHAT, CLIENTS, GEMINI, MESSAGES, RESPONSES, Client, ask, events

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
LOOK = ScriptedCall("look", {"at": "the “sea”"})


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    scripts = {
        "talk": (Think("Hm."), Text("Grüße ", "an\n\n", "alle 🌊.")),
        "tool": (Text("I look."), LOOK, ScriptedCall("listen"), Text("I saw it.")),
        "shell": (Shell("touch made.txt"),),
        "late_error": (Text("Half"), Error(500, "went wrong")),
        "early_error": (Error(429, "too much"),),
    }
    with ScriptedModel(scripts) as model:
        yield model
        assert model.faults == ()


@every_client
def test_a_streamed_answer_says_the_chunks_in_order(model: ScriptedModel, client: Client) -> None:
    status, stream = client.ask(model, "SCN:talk")
    assert (status, client.streamed_text(stream)) == (200, "Grüße an\n\nalle 🌊.")
    assert b"Hm." in stream


@every_client
def test_a_whole_answer_says_the_same(model: ScriptedModel, client: Client) -> None:
    status, body = client.ask(model, "SCN:talk", stream=False)
    assert (status, client.whole_text(json.loads(body))) == (200, "Grüße an\n\nalle 🌊.")


@every_client
def test_tool_calls_end_a_part_and_their_results_bring_the_next(model: ScriptedModel, client: Client) -> None:
    _, first = client.ask(model, "SCN:tool")
    assert client.called(first) == [("look", {"at": "the “sea”"}), ("listen", {})]
    _, second = client.ask(model, "SCN:tool", "=I look.", "!")
    assert client.streamed_text(second) == "I saw it."
    _, third = client.ask(model, "SCN:tool", "=I look.", "!", "=I saw it.", "<task-notification>done")
    assert client.streamed_text(third) == "That is all."
    assert [one.part for one in model.requests] == [0, 1, 2]


@every_client
def test_an_error_before_the_first_word_is_an_http_error(model: ScriptedModel, client: Client) -> None:
    status, body = client.ask(model, "SCN:early_error")
    assert (status, json.loads(body)["error"]["message"]) == (429, "too much")


@every_client
def test_an_error_after_the_first_word_comes_in_the_stream(model: ScriptedModel, client: Client) -> None:
    with_error = client.ask(model, "SCN:late_error")[1]
    assert "went wrong" in json.dumps(events(with_error)[-1])


@every_client
def test_an_error_in_mid_answer_is_an_http_error_for_who_asked_for_no_stream(
    model: ScriptedModel, client: Client
) -> None:
    assert client.ask(model, "SCN:late_error", stream=False)[0] == 500


def test_messages_come_as_anthropic_sends_them(model: ScriptedModel) -> None:
    stream = MESSAGES.ask(model, "SCN:tool")[1]
    assert [one["type"] for one in events(stream)] == [
        "message_start",
        *("content_block_start", "content_block_delta", "content_block_stop") * 3,
        "message_delta",
        "message_stop",
    ]
    assert [one["index"] for one in events(stream) if "index" in one] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert events(stream)[-2]["delta"]["stop_reason"] == "tool_use"
    assert stream.startswith(b"event: message_start\n")


def test_responses_end_with_everything_that_was_said(model: ScriptedModel) -> None:
    found = events(RESPONSES.ask(model, "SCN:tool")[1])
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    assert found[0]["type"] == "response.created"
    assert found[-1]["type"] == "response.completed"
    assert [item["type"] for item in found[-1]["response"]["output"]] == ["message", "function_call", "function_call"]


def test_a_custom_tool_of_responses_gets_its_input_as_text(model: ScriptedModel) -> None:
    body = RESPONSES.body(["SCN:tool"], True) | {"tools": [{"type": "custom", "name": "look"}]}
    items = [one["item"] for one in events(ask(model, "/v1/responses", body)[1]) if "item" in one]
    assert {"custom_tool_call", "function_call"} <= {item["type"] for item in items}


def test_chat_numbers_its_calls_and_says_that_it_is_done(model: ScriptedModel) -> None:
    stream = CHAT.ask(model, "SCN:tool")[1]
    calls = [call for one in events(stream) for call in one["choices"][0]["delta"].get("tool_calls", [])]
    assert [call["index"] for call in calls] == [0, 1]
    assert stream.endswith(b"data: [DONE]\n\n")


def test_gemini_names_the_model_of_the_path(model: ScriptedModel) -> None:
    body = json.loads(GEMINI.ask(model, "SCN:talk", stream=False)[1])
    assert body["modelVersion"] == "m"
    assert body["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("Bash", {"command": "touch made.txt", "description": "Run a scripted command"}),
        ("run_shell_command", {"command": "touch made.txt", "description": "Run a scripted command"}),
        (
            "exec_command",
            {
                "cmd": "touch made.txt",
                "sandbox_permissions": "require_escalated",
                "justification": "Run a scripted command?",
            },
        ),
        ("run_commands", {"commands": ["touch made.txt"]}),
        (
            "Execute",
            {
                "command": "touch made.txt",
                "summary": "Run a scripted command",
                "timeout": 60,
                "riskLevel": "medium",
                "riskLevelReason": "It writes a file in the project.",
            },
        ),
    ],
)
def test_a_shell_step_calls_the_tool_that_the_client_has(
    model: ScriptedModel, tool: str, expected: dict[str, object]
) -> None:
    tools = [{"name": name} for name in ("Read", "Write", "Edit", tool)]
    stream = ask(model, "/v1/messages", MESSAGES.body(["SCN:shell"], True) | {"tools": tools})[1]
    assert MESSAGES.called(stream) == [(tool, expected)]
    assert model.requests[-1].kind is RequestKind.MAIN
