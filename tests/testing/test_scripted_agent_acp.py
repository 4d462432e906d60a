"""The scripted agent as an agent of the Agent Client Protocol, with the traps of real ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from interlock.testing.scripted_agent import Gates, read_ledger
from interlock.testing.scripted_agent.acp import TRAPS
from tests.testing.scripted_agent_client import Client, Message, agent


def request(client: Client, number: int, method: str, **parameters: object) -> None:
    client.send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})


def answer(client: Client, number: int) -> Message:
    """The answer to a request of ours: requests of the agent may bear the same number."""
    return client.until(lambda message: message.get("id") == number and "method" not in message)


def prompt(client: Client, number: int, text: str, session: str) -> None:
    request(client, number, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


@contextmanager
def session(*arguments: str) -> Iterator[tuple[Client, str]]:
    """An agent with a new session. Everything that it sends has to satisfy the schema."""
    with agent("--acp", *arguments) as client:
        request(client, 0, "initialize", protocolVersion=1)
        schema.InitializeResponse.model_validate(answer(client, 0)["result"])
        request(client, 1, "session/new", cwd="/", mcpServers=[])
        name = answer(client, 1)["result"]["sessionId"]
        yield client, name
    for message in client.seen:
        if message.get("method") == "session/update":
            schema.SessionNotification.model_validate(message["params"])
        if message.get("method") == "session/request_permission":
            schema.RequestPermissionRequest.model_validate(message["params"])


def updates(client: Client) -> list[Message]:
    return [message["params"]["update"] for message in client.seen if message.get("method") == "session/update"]


def kinds(client: Client) -> list[tuple[str, str | None]]:
    return [(update["sessionUpdate"], update.get("status")) for update in updates(client)]


def said(client: Client) -> str:
    chunks = [update for update in updates(client) if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


def decide(client: Client, asked: Message, **outcome: str) -> None:
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}})


def test_a_turn_thinks_speaks_and_answers_the_prompt() -> None:
    with session() as (client, name):
        prompt(client, 2, "think 0 hmm; say Hello wörld; usage 7 8", name)
        result = answer(client, 2)["result"]
        assert result["stopReason"] == "end_turn"
        assert result["usage"] == {"inputTokens": 7, "outputTokens": 8, "totalTokens": 15}
        assert updates(client)[0]["sessionUpdate"] == "agent_thought_chunk"
        assert said(client) == "Hello wörld"


def test_a_tool_call_runs_and_completes_or_fails() -> None:
    with session() as (client, name):
        prompt(client, 2, 'call Bash {"command": "ls"} -> a.txt; call Read -> !none; begin Lost', name)
        answer(client, 2)
    assert kinds(client) == [
        ("tool_call", "in_progress"),
        ("tool_call_update", "completed"),
        ("tool_call", "in_progress"),
        ("tool_call_update", "failed"),
        ("tool_call", "in_progress"),
    ]


@pytest.mark.parametrize(
    ("outcome", "status", "stop"),
    [
        ({"outcome": "selected", "optionId": "yes"}, "completed", "end_turn"),
        ({"outcome": "selected", "optionId": "yes-always"}, "completed", "end_turn"),
        ({"outcome": "selected", "optionId": "no"}, "failed", "end_turn"),
        ({"outcome": "cancelled"}, "failed", "cancelled"),
    ],
)
def test_a_permission_is_waited_for_and_kept_to(outcome: dict[str, str], status: str, stop: str) -> None:
    with session() as (client, name):
        prompt(client, 2, "request Bash; say done", name)
        asked = client.next(method="session/request_permission")
        assert asked["id"] == 0
        decide(client, asked, **outcome)
        assert answer(client, 2)["result"]["stopReason"] == stop
    assert ("tool_call", "pending") in kinds(client)
    assert [kind for kind in kinds(client) if kind[0] == "tool_call_update"][-1][1] == status


def test_a_question_is_asked_by_its_options(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with session("--ledger", str(ledger)) as (client, name):
        prompt(client, 2, "ask Which? | Red | Blue; say thanks", name)
        asked = client.next(method="session/request_permission")
        assert [option["name"] for option in asked["params"]["options"]] == ["Red", "Blue", "Reject"]
        decide(client, asked, outcome="selected", optionId="Blue")
        answer(client, 2)
    (entry,) = read_ledger(ledger, "answer")
    given: Any = entry.data["answer"]
    assert given["outcome"]["optionId"] == "Blue"


@pytest.mark.parametrize("script", ["hang", "gate never", "begin Bash; think 600", "request Bash"])
def test_a_cancel_ends_the_turn_in_every_phase_and_the_next_prompt_is_taken(script: str, tmp_path: Path) -> None:
    with session("--gates", str(tmp_path)) as (client, name):
        prompt(client, 2, f"say begun; {script}", name)
        client.until(lambda message: "begun" in str(message))
        if "request" in script:
            client.next(method="session/request_permission")
        client.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": name}})
        assert answer(client, 2)["result"]["stopReason"] == "cancelled"
        prompt(client, 3, "say again", name)
        assert answer(client, 3)["result"]["stopReason"] == "end_turn"


def test_a_second_prompt_during_a_turn_is_refused_and_never_played(tmp_path: Path) -> None:
    gates, ledger = Gates(tmp_path), tmp_path / "ledger"
    with session("--gates", str(tmp_path), "--ledger", str(ledger)) as (client, name):
        prompt(client, 2, "gate here; say first", name)
        gates.await_reached("here")
        prompt(client, 3, "say second", name)
        assert answer(client, 3)["error"]["message"] == "A turn is already running"
        prompt(client, 4, "say third", "another session")
        assert "error" in answer(client, 4)
        gates.open("here")
        answer(client, 2)
        assert said(client) == "first"
    assert [entry.data["text"] for entry in read_ledger(ledger, "refused")] == ["say second", "say third"]


def test_failures_stop_reasons_and_what_comes_after_an_end() -> None:
    with session() as (client, name):
        prompt(client, 2, "say half; fail no luck", name)
        assert answer(client, 2)["error"] == {"code": -32603, "message": "no luck"}
        prompt(client, 3, "result max_tokens", name)
        assert answer(client, 3)["result"]["stopReason"] == "max_tokens"
        prompt(client, 5, "say one; end; background child; relay call_1 below; say late", name)
        assert answer(client, 5)["result"]["stopReason"] == "end_turn"
        client.until(lambda message: "late" in str(message))


def test_a_retry_is_told_and_silence_answers_nothing() -> None:
    with session() as (client, name):
        prompt(client, 2, "retry connection reset; say whole; silent", name)
        assert client.next(method="_session/retrying")["params"]["detail"] == "connection reset"
        client.hang_up()
        assert b"stopReason" not in client.drain()
        assert client.exit_code() == 0


def test_a_session_is_loaded_with_its_history_unless_nobody_knows_it() -> None:
    with agent("--acp") as client:
        request(client, 0, "session/load", sessionId="ses-1", cwd="/", mcpServers=[])
        assert answer(client, 0)["result"] == {}
        assert len(updates(client)) == 2
        prompt(client, 1, "say hi", "ses-1")
        assert answer(client, 1)["result"]["stopReason"] == "end_turn"
    with agent("--acp", "--stale-resume") as client:
        request(client, 0, "session/load", sessionId="ses-1", cwd="/", mcpServers=[])
        assert "ses-1" in answer(client, 0)["error"]["message"]


def test_what_it_does_not_know_is_refused_and_what_is_no_request_passed_over() -> None:
    with agent("--acp") as client:
        client.send({"jsonrpc": "2.0", "method": "notifications/odd"})
        assert client.process.stdin is not None
        client.process.stdin.write(b"not json\n[1]\n")
        request(client, 0, "session/fork")
        assert answer(client, 0)["error"]["code"] == -32601


def test_the_trap_of_progress_before_approval() -> None:
    with session("--traps", "in-progress,bare-permission") as (client, name):
        prompt(client, 2, "request Bash", name)
        asked = client.next(method="session/request_permission")
        assert kinds(client) == [("tool_call", "in_progress")]
        assert asked["params"]["toolCall"].keys() == {"toolCallId"}


def test_the_trap_of_a_call_that_was_never_announced() -> None:
    with session("--traps", "unannounced") as (client, name):
        prompt(client, 2, "request Bash", name)
        asked = client.next(method="session/request_permission")
        assert updates(client) == []
        assert asked["params"]["toolCall"]["rawInput"] == {}


def test_the_trap_of_requests_that_nobody_knows() -> None:
    with session("--traps", "odd-requests") as (client, name):
        prompt(client, 2, "say hi; request Bash", name)
        odd = client.next(method="odd/drainQueue")
        client.send({"jsonrpc": "2.0", "id": odd["id"], "error": {"code": -32601, "message": "Method not found"}})
        asked = client.next(method="session/request_permission")
        assert (odd["id"], asked["id"]) == (0, 1)
        decide(client, asked, outcome="selected", optionId="yes")
        assert answer(client, 2)["result"]["stopReason"] == "end_turn"


def test_the_trap_of_a_word_after_the_end() -> None:
    with session("--traps", "late-update") as (client, name):
        prompt(client, 2, "say hi", name)
        answer(client, 2)
        assert said(client) == "hi"
        client.until(lambda message: "one thing more" in str(message))


def test_the_traps_of_a_session_that_cannot_be_had() -> None:
    with agent("--acp", "--traps=no-load,needs-login") as client:
        request(client, 0, "initialize", protocolVersion=1)
        assert answer(client, 0)["result"]["agentCapabilities"]["loadSession"] is False
        request(client, 1, "session/load", sessionId="ses-1", cwd="/", mcpServers=[])
        request(client, 2, "session/new", cwd="/", mcpServers=[])
        assert [answer(client, number)["error"]["code"] for number in (1, 2)] == [-32601, -32000]


def test_a_trap_that_does_not_exist_is_told() -> None:
    with agent("--acp", "--traps", "bear") as client:
        assert client.exit_code() == 1
        assert client.process.stderr is not None
        told = client.process.stderr.read().decode()
    assert all(name in told for name in ("bear", *TRAPS))


@pytest.mark.parametrize(("script", "code"), [("cut 4", 4), ("crash", -9), ("exit 2", 2)])
def test_it_dies_in_mid_turn_as_it_is_told(script: str, code: int) -> None:
    with session() as (client, name):
        prompt(client, 2, f"say before; {script}", name)
        client.until(lambda message: "before" in str(message))
        rest = client.drain()
        assert (b"\n" not in rest and rest != b"") == (script == "cut 4")
        assert client.exit_code() == code
