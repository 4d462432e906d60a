"""The scripted model as a server: gates hold, faults are faults, side requests are no turns, the end is the end."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys

import pytest

from interlock.testing.scripted_model import (
    Cut,
    Error,
    Gate,
    Hang,
    RequestKind,
    RequestOutcome,
    ScriptedCall,
    ScriptedModel,
    Text,
    Think,
)
from interlock.vocabulary.errors import ContractError, Unreachable, UsageError
from tests.each_row import each_row
from tests.testing.scripted_model_client import CHAT, MESSAGES, RESPONSES, SECONDS, ask, asking, events


def outcomes(model: ScriptedModel) -> list[RequestOutcome]:
    return [one.outcome for one in model.requests]


def wait_outcome(model: ScriptedModel, outcome: RequestOutcome) -> None:
    model.wait_requests(lambda requests: bool(requests) and requests[-1].outcome is outcome)


def test_a_gate_holds_the_stream_until_it_is_released() -> None:
    with ScriptedModel({"held": (Text("before"), Gate("door"), Text(" after"))}) as model:
        with asking(model, "/v1/messages", MESSAGES.body(["SCN:held"], True)) as response:
            model.wait_reached("door")
            seen = b""
            while b"before" not in seen:
                seen += response.read1()
            assert outcomes(model) == [RequestOutcome.PENDING]
            model.release("door")
            rest = response.read()
        assert b"after" not in seen
        assert b"after" in rest
        assert outcomes(model) == [RequestOutcome.ANSWERED]


def test_a_gate_before_the_first_word_holds_the_head_back() -> None:
    with ScriptedModel({"held": (Gate("door"), Error(503, "closed"))}) as model:
        with asking(model, "/v1/messages", {}) as warm:
            assert warm.status == 200
        connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=SECONDS)
        connection.request("POST", "/v1/messages", json.dumps(MESSAGES.body(["SCN:held"], True)))
        model.wait_reached("door")
        model.release("door")
        assert connection.getresponse().status == 503
        connection.close()


def test_gates_can_be_awaited() -> None:
    async def run(model: ScriptedModel) -> bytes:
        asked = asyncio.create_task(asyncio.to_thread(CHAT.ask, model, "SCN:held"))
        await model.reached("door")
        model.release("door")
        return (await asked)[1]

    with ScriptedModel({"held": (Gate("door"), Text("open"))}) as model:
        assert CHAT.streamed_text(asyncio.run(run(model))) == "open"


def test_a_released_gate_stays_open() -> None:
    with ScriptedModel({"held": (Gate("door"), Text("open"))}) as model:
        model.release("door")
        for times in (1, 2):
            assert CHAT.streamed_text(CHAT.ask(model, "SCN:held")[1]) == "open"
            model.wait_reached("door", times=times)


def test_a_gate_that_nobody_reaches_is_named_with_what_came_instead() -> None:
    with ScriptedModel({"held": (Gate("door"),), "hello": (Text("hi"),)}) as model:
        CHAT.ask(model, "SCN:hello")
        with pytest.raises(Unreachable, match=r"(?s)'door'.*main /v1/chat/completions hello"):
            model.wait_reached("door", within_seconds=0.01)


def test_a_gate_that_nobody_releases_cuts_the_answer_and_is_a_fault() -> None:
    with ScriptedModel({"held": (Text("before"), Gate("door", limit_seconds=0.01), Text(" after"))}) as model:
        with pytest.raises(http.client.IncompleteRead):
            CHAT.ask(model, "SCN:held")
        wait_outcome(model, RequestOutcome.EXPIRED)
        assert "door" in model.faults[0]


def test_a_gate_that_is_in_no_script_cannot_be_released() -> None:
    with ScriptedModel({"held": (Gate("door"),)}) as model, pytest.raises(UsageError, match="'dor'"):
        model.release("dor")


def test_an_error_with_a_number_of_times_is_passed_over_by_later_tries() -> None:
    with ScriptedModel({"flaky": (Error(529, times=2), Text("there"))}) as model:
        assert [MESSAGES.ask(model, "SCN:flaky")[0] for _ in range(3)] == [529, 529, 200]
        assert [one.attempt for one in model.requests] == [0, 1, 2]
        assert outcomes(model) == [RequestOutcome.FAILED, RequestOutcome.FAILED, RequestOutcome.ANSWERED]


def test_a_cut_leaves_the_stream_without_its_end() -> None:
    with ScriptedModel({"cut": (Text("half"), Cut(times=1), Text(" whole"))}) as model:
        with pytest.raises(http.client.IncompleteRead) as cut:
            CHAT.ask(model, "SCN:cut")
        assert CHAT.streamed_text(cut.value.partial) == "half"
        wait_outcome(model, RequestOutcome.CUT)
        assert CHAT.streamed_text(CHAT.ask(model, "SCN:cut")[1]) == "half whole"


def test_a_client_that_hangs_up_is_on_record() -> None:
    with ScriptedModel({"hang": (Text("half"), Hang())}) as model:
        with asking(model, "/v1/chat/completions", CHAT.body(["SCN:hang"], True)) as response:
            assert response.read1()
        wait_outcome(model, RequestOutcome.DROPPED)
        assert model.faults == ()


def test_closing_ends_what_hangs_and_what_waits_at_a_gate() -> None:
    with ScriptedModel({"hang": (Text("half"), Hang()), "held": (Text("half"), Gate("door"))}) as model:
        with (
            asking(model, "/v1/chat/completions", CHAT.body(["SCN:hang"], True)) as hanging,
            asking(model, "/v1/chat/completions", CHAT.body(["SCN:held"], True)) as held,
        ):
            model.wait_reached("door")
            port = model.port
            model.close()
            for response in (hanging, held):
                with pytest.raises(http.client.IncompleteRead):
                    response.read()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        with pytest.raises(ContractError, match="not open"):
            model.release("door")
        assert outcomes(model) == [RequestOutcome.PENDING, RequestOutcome.PENDING]


def test_a_port_that_is_taken_is_refused_with_the_remedy() -> None:
    with ScriptedModel() as first, pytest.raises(UsageError, match="choose another port"):
        ScriptedModel(port=first.port).__enter__()


def test_prompts_without_a_key_take_scripts_from_the_queue() -> None:
    queue = ((ScriptedCall("look"), Text("one, after the tool")), (Text("two"),))
    with ScriptedModel(queue=queue) as model:
        CHAT.ask(model, "first")
        CHAT.ask(model, "first")  # A retry: the same prompt at the same place.
        assert CHAT.streamed_text(CHAT.ask(model, "first", "!")[1]) == "one, after the tool"
        assert CHAT.streamed_text(CHAT.ask(model, "first", "!", "=one", "second")[1]) == "two"
        assert CHAT.streamed_text(CHAT.ask(model, "first", "!", "=one", "second", "=two", "third")[1]) == "That is all."
        assert [one.script for one in model.requests] == ["queue 0", "queue 0", "queue 0", "queue 1", ""]


def test_text_that_a_cli_puts_beside_the_prompt_is_not_the_prompt() -> None:
    body = MESSAGES.body(["SCN:one", "=ok"], True)
    merged = [
        {"type": "tool_result", "tool_use_id": "t", "content": "old"},
        {"type": "text", "text": "SCN:two"},
        {"type": "text", "text": "<system-reminder>SCN:one</system-reminder>"},
    ]
    body["messages"] += [{"role": "user", "content": merged}, {"role": "system", "content": "SCN:one"}]
    with ScriptedModel({"one": (Text("one"),), "two": (Text("two"),)}) as model:
        assert MESSAGES.streamed_text(ask(model, "/v1/messages", body)[1]) == "two"
        assert (model.requests[0].prompt, model.requests[0].part) == ("SCN:two", 0)


def test_the_time_that_a_cli_writes_before_a_prompt_is_no_part_of_it() -> None:
    asked = "<current_datetime>2026-11-18T03:50:02.420+00:00</current_datetime>\n\nSCN:one"
    with ScriptedModel({"one": (Text("one"),)}) as model:
        assert CHAT.streamed_text(CHAT.ask(model, asked)[1]) == "one"
        assert model.requests[0].prompt == "SCN:one"


def test_a_key_without_a_script_is_a_fault() -> None:
    with ScriptedModel({"hello": (Text("hi"),)}) as model:
        assert "no script" in CHAT.streamed_text(CHAT.ask(model, "SCN:helo")[1])
        assert model.faults == ("no script is called 'helo'",)


TITLE = {"format": {"type": "json_schema", "name": "title", "schema": {}}}
SIDES = [
    ("/v1/responses", RESPONSES.body(["Generate a concise task title.\n\nSCN:hello"], True) | {"text": TITLE}, "title"),
    ("/v1/messages", MESSAGES.body(["SCN:hello"], True) | {"output_format": {"type": "json_schema"}}, "structured"),
    ("/v1/messages", MESSAGES.body(["SCN:hello"], True) | {"output_config": {"format": {"type": "x"}}}, "structured"),
    ("/v1/messages", MESSAGES.body(["quota"], False) | {"max_tokens": 1}, "probe"),
    ("/v1/messages", MESSAGES.body(["SCN:hello"], True) | {"system": "Is this a new topic? Answer in JSON."}, "topic"),
    ("/v1/chat/completions", CHAT.body(["You are a title generator. SCN:hello"], True), "title"),
    (
        "/v1/chat/completions",
        CHAT.body(["SCN:hello"], True) | {"response_format": {"type": "json_object"}},
        "structured",
    ),
    (
        "/v1/messages",
        MESSAGES.body(["SCN:hello"], True)
        | {"system": "You are a managed memory extraction subagent.", "tools": [{"name": name} for name in "abcd"]},
        "memory",
    ),
    (
        "/v1/chat/completions",
        CHAT.body(["Summarize the user's primary intent or goal in this conversation. User: SCN:hello"], True),
        "summary",
    ),
]


@each_row(("path", "body", "purpose"), SIDES, ids=[purpose for _, _, purpose in SIDES])
def test_a_side_request_is_answered_apart_and_takes_no_script(path: str, body: dict[str, object], purpose: str) -> None:
    with ScriptedModel({"hello": (Text("never"),)}, queue=((Text("kept"),),)) as model:
        status, answer = ask(model, path, body)
        assert status == 200
        assert b"never" not in answer
        assert (model.requests[0].kind, model.requests[0].purpose) == (RequestKind.SIDE, purpose)
        assert CHAT.streamed_text(CHAT.ask(model, "first")[1]) == "kept"


def test_the_answer_to_a_title_request_is_json_when_json_was_asked_for() -> None:
    with ScriptedModel() as model:
        path, body, _ = SIDES[0]
        title = RESPONSES.streamed_text(ask(model, path, body)[1])
        assert list(json.loads(title)) == ["title"]


def test_a_turn_whose_system_prompt_speaks_of_titles_is_a_turn() -> None:
    tools = [{"name": name} for name in ("Bash", "Read", "Edit", "Write")]
    body = MESSAGES.body(["SCN:hello"], True) | {"system": "Generate a title for each commit.", "tools": tools}
    with ScriptedModel({"hello": (Text("hi"),)}) as model:
        assert MESSAGES.streamed_text(ask(model, "/v1/messages", body)[1]) == "hi"


@each_row(
    ("method", "path", "status"),
    [
        ("HEAD", "/", 200),
        ("GET", "/v1/models?limit=5", 200),
        ("GET", "/v1beta/models", 200),
        ("POST", "/v1/messages/count_tokens?beta=true", 200),
        ("POST", "/v1beta/models/m:countTokens", 200),
        ("POST", "/api/event_logging/batch", 404),
    ],
)
def test_what_clients_ask_besides_is_served_and_is_no_turn(method: str, path: str, status: int) -> None:
    with ScriptedModel() as model:
        connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=SECONDS)
        connection.request(method, path, "{}" if method == "POST" else None)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        assert response.status == status
        assert bool(body) is (method != "HEAD")
        assert [one.kind for one in model.requests] == [RequestKind.SIDE]


def test_a_body_in_chunks_is_read() -> None:
    with ScriptedModel({"hello": (Text("hi"),)}) as model:
        connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=SECONDS)
        body = json.dumps(CHAT.body(["SCN:hello"], True)).encode()
        connection.request("POST", "/v1/chat/completions", iter([body[:7], body[7:]]), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})  # fmt: skip
        assert CHAT.streamed_text(connection.getresponse().read()) == "hi"
        connection.close()


def test_a_damaged_body_is_refused_and_a_fault() -> None:
    with ScriptedModel() as model:
        assert ask(model, "/v1/messages", {"messages": "no list"})[0] == 400
        assert "/v1/messages" in model.faults[0]


@pytest.mark.parametrize(
    "noise", [b"\x16\x03\x01 no http\r\n\r\n", b"POST /v1/messages HTTP/1.1\r\nContent-Length: -4\r\n\r\n"]
)
def test_noise_is_a_fault_and_the_server_lives_on(noise: bytes) -> None:
    with ScriptedModel({"hello": (Text("hi"),)}) as model:
        with socket.create_connection(("127.0.0.1", model.port), timeout=SECONDS) as raw:
            raw.sendall(noise)
            assert raw.recv(100) == b""
        assert len(model.faults) == 1
        assert CHAT.streamed_text(CHAT.ask(model, "SCN:hello")[1]) == "hi"


def test_two_conversations_are_held_and_released_apart() -> None:
    scripts = {name: (Think("hm"), Gate(name), Text(name)) for name in ("left", "right")}
    with (
        ScriptedModel(scripts) as model,
        asking(model, "/v1/chat/completions", CHAT.body(["SCN:left"], True)) as left,
        asking(model, "/v1/messages", MESSAGES.body(["SCN:right"], True)) as right,
    ):
        model.wait_reached("left")
        model.wait_reached("right")
        model.release("right")
        assert MESSAGES.streamed_text(right.read()) == "right"
        assert model.requests[0].outcome is RequestOutcome.PENDING
        model.release("left")
        assert CHAT.streamed_text(left.read()) == "left"


def test_by_hand_it_prints_how_to_start_a_client() -> None:
    command = [sys.executable, "-m", "interlock.testing.scripted_model", "--seconds", "0.1"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True, stdin=subprocess.DEVNULL)
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:" in run.stdout
    assert "SCN:NAME" in subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout


def test_a_stream_that_ends_is_told_from_one_that_is_cut() -> None:
    with ScriptedModel({"hello": (Text("hi"),)}) as model:
        stream = MESSAGES.ask(model, "SCN:hello")[1]
        assert events(stream)[-1] == {"type": "message_stop"}
