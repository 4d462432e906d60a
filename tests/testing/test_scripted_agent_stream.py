"""The scripted agent as a JSON stream: each verb, as a plain reader of its lines sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from interlock.testing.scripted_agent import Gates, prompts_in, read_ledger
from interlock.testing.scripted_agent.face import AgentWire
from interlock.testing.scripted_agent.language import VERBS
from interlock.testing.scripted_agent.player import _DEEDS
from tests.testing.scripted_agent_client import AGENT, Client, Message, agent


def prompt(client: Client, text: str) -> None:
    client.send({"type": "user", "message": {"role": "user", "content": text}})


def turn(client: Client, text: str) -> list[Message]:
    """Everything that one prompt brings about, up to its result."""
    start = len(client.seen)
    prompt(client, text)
    client.next(type="result")
    return client.seen[start:]


def control(client: Client, subtype: str, request_id: str = "r1") -> None:
    client.send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype}})


def decide(client: Client, asked: Message, **answer: object) -> None:
    response = {"subtype": "success", "request_id": asked["request_id"], "response": answer}
    client.send({"type": "control_response", "response": response})


def kinds(messages: Iterable[Message]) -> list[str]:
    return [message["subtype"] if message["type"] == "system" else message["type"] for message in messages]


def deltas(messages: Iterable[Message], kind: str = "text") -> list[str]:
    events = [message["event"] for message in messages if message["type"] == "stream_event"]
    found = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return [delta[kind] for delta in found if delta["type"] == f"{kind}_delta"]


def blocks(messages: Iterable[Message], role: str = "assistant") -> list[Message]:
    return [block for message in messages if message["type"] == role for block in message["message"]["content"]]


def test_every_verb_is_played() -> None:
    assert _DEEDS.keys() == VERBS.keys()


def test_a_turn_names_the_session_streams_the_text_and_ends_with_all_of_it() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, "think 0 hmm; say Hello wörld")
    assert kinds(seen)[0] == "init"
    assert deltas(seen, "thinking") == ["hmm"]
    assert deltas(seen) == ["Hello ", "wörld"]
    assert [block["type"] for block in blocks(seen)] == ["thinking", "text"]
    result = seen[-1]
    assert (result["subtype"], result["is_error"], result["result"]) == ("success", False, "Hello wörld")


def test_prompts_that_come_at_once_are_played_one_by_one_in_one_session() -> None:
    with agent("--stream-json") as client:
        prompt(client, "say one")
        prompt(client, "say two")
        results = [client.next(type="result") for _ in range(2)]
        client.hang_up()
        assert client.exit_code() == 0
    assert [result["result"] for result in results] == ["one", "two"]
    assert kinds(client.seen).count("init") == 2
    assert len({message["session_id"] for message in client.seen}) == 1


def test_prose_is_said_as_it_stands() -> None:
    with agent("--stream-json") as client:
        assert turn(client, "Fix the flaky test\\; and then stop")[-1]["result"] == "Fix the flaky test; and then stop"


def test_content_blocks_are_a_prompt_too() -> None:
    with agent("--stream-json") as client:
        client.send(
            {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "say in blocks"}]}}
        )
        assert client.next(type="result")["result"] == "in blocks"


def test_tool_calls_are_paired_with_their_results() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, 'call Bash {"command": "ls"} -> a.txt; call Read -> !no such file; say done')
    calls = [block for block in blocks(seen) if block["type"] == "tool_use"]
    results = blocks(seen, "user")
    assert [(call["name"], call["input"]) for call in calls] == [("Bash", {"command": "ls"}), ("Read", {})]
    assert [call["id"] for call in calls] == [result["tool_use_id"] for result in results]
    assert [(result["content"], result["is_error"]) for result in results] == [("a.txt", False), ("no such file", True)]


def test_calls_may_be_open_together_and_end_in_any_order() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, "begin Bash; begin Read; finish Read -> second; finish -> first; begin Lost; say done")
    names = {block["id"]: block["name"] for block in blocks(seen) if block["type"] == "tool_use"}
    ended = [(names[result["tool_use_id"]], result["content"]) for result in blocks(seen, "user")]
    assert ended == [("Read", "second"), ("Bash", "first")]
    assert "Lost" in names.values()


@pytest.mark.parametrize(
    ("answer", "output", "subtype"),
    [
        ({"behavior": "allow", "updatedInput": {}}, "made", "success"),
        ({"behavior": "deny", "message": "not now"}, "not now", "success"),
        ({"behavior": "deny", "message": "stop", "interrupt": True}, "stop", "error_during_execution"),
    ],
)
def test_a_request_waits_for_the_decision_and_keeps_to_it(answer: Message, output: str, subtype: str) -> None:
    with agent("--stream-json") as client:
        prompt(client, 'request Write {"path": "a"} -> made; say done')
        asked = client.next(type="control_request")
        assert (asked["request"]["subtype"], asked["request"]["input"]) == ("can_use_tool", {"path": "a"})
        decide(client, asked, **answer)
        result = client.next(type="result")
    tool_result = next(block for block in blocks(client.seen, "user") if block["type"] == "tool_result")
    assert (tool_result["tool_use_id"], tool_result["content"]) == (asked["request"]["tool_use_id"], output)
    assert result["subtype"] == subtype
    assert len(result["permission_denials"]) == (answer["behavior"] == "deny")


def test_a_question_offers_its_options(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with agent("--stream-json", "--ledger", str(ledger)) as client:
        prompt(client, "ask Which colour? | Red | Blue; say thanks")
        asked = client.next(type="control_request")["request"]
        assert asked["tool_name"] == "AskUserQuestion"
        (question,) = asked["input"]["questions"]
        assert [option["label"] for option in question["options"]] == ["Red", "Blue"]
        updated = {**asked["input"], "answers": {"Which colour?": "Red"}}
        decide(client, client.seen[-1], behavior="allow", updatedInput=updated)
        assert client.next(type="result")["result"] == "thanks"
    (answer,) = read_ledger(ledger, "answer")
    assert "Red" in json.dumps(answer.data)


@pytest.mark.parametrize(
    "script",
    ["think 600", "say half; gate never", "hang", "begin Bash; gate never", "request Bash", "pace 600; say a b"],
)
def test_an_interrupt_ends_the_turn_in_every_phase_and_the_next_prompt_is_taken(script: str, tmp_path: Path) -> None:
    with agent("--stream-json", "--gates", str(tmp_path), "--ledger", str(tmp_path / "ledger")) as client:
        prompt(client, script)
        client.next(type="system", subtype="init")
        if "request" in script:
            client.next(type="control_request")
        control(client, "interrupt")
        assert client.next(type="control_response")["response"]["subtype"] == "success"
        result = client.next(type="result")
        assert (result["subtype"], result["is_error"]) == ("error_during_execution", True)
        if "request" in script:
            assert "control_cancel_request" in kinds(client.seen)
        open_calls = {block["id"] for block in blocks(client.seen) if block["type"] == "tool_use"}
        assert open_calls == {block["tool_use_id"] for block in blocks(client.seen, "user") if "tool_use_id" in block}
        assert turn(client, "say again")[-1]["result"] == "again"
    assert [entry.data["in_turn"] for entry in read_ledger(tmp_path / "ledger", "interrupt")] == [True]


def test_an_interrupt_between_turns_is_confirmed_and_does_nothing() -> None:
    with agent("--stream-json") as client:
        turn(client, "say one")
        control(client, "interrupt")
        client.next(type="control_response")
        assert turn(client, "say two")[-1]["subtype"] == "success"


def test_control_requests_that_it_does_not_know_are_refused() -> None:
    with agent("--stream-json") as client:
        control(client, "initialize", "a")
        control(client, "teleport", "b")
        answers = [client.next(type="control_response")["response"] for _ in range(2)]
    assert [(answer["request_id"], answer["subtype"]) for answer in answers] == [("a", "success"), ("b", "error")]


def test_a_provider_error_says_success_and_is_one() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, "say half; fail 500 no luck; say never")
    assert (seen[-1]["subtype"], seen[-1]["is_error"], seen[-1]["terminal_reason"]) == ("success", True, "api_error")
    assert blocks(seen)[-1]["text"] == "API Error: 500 no luck"


def test_a_turn_ends_as_it_is_told() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, "say half; result error_max_turns too many")
    assert (seen[-1]["subtype"], seen[-1]["is_error"]) == ("error_max_turns", True)


def test_a_turn_may_have_several_results_or_none() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, "say one; end; background child; settled child; say two")
        seen += [client.next(type="system", subtype="background_tasks_changed") for _ in range(2)]
        assert [len(message["tasks"]) for message in seen[-2:]] == [1, 0]
        assert client.next(type="result")["result"] == "two"
        prompt(client, "say nothing of it; silent")
        assert turn(client, "say next")[-1]["result"] == "next"
    assert kinds(client.seen).count("result") == 3
    assert kinds(client.seen).count("init") == 4


def test_a_retry_leaves_the_dead_message_open_and_begins_another() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, "say half of; retry Overloaded; say whole")
    assert "api_retry" in kinds(seen)
    assert [block["text"] for block in blocks(seen)] == ["whole"]
    starts = [message for message in seen if message.get("event", {}).get("type") == "message_start"]
    stops = [message for message in seen if message.get("event", {}).get("type") == "message_stop"]
    assert (len(starts), len(stops), seen[-1]["result"]) == (2, 1, "whole")


def test_a_relayed_message_names_its_call_and_usage_is_as_told() -> None:
    with agent("--stream-json") as client:
        seen = turn(client, "usage 1200 34 0.5; relay toolu_1 from below; say mine")
    relayed = [message for message in seen if message.get("parent_tool_use_id") == "toolu_1"]
    assert [block["text"] for block in blocks(relayed)] == ["from below"]
    assert seen[-1]["usage"] == {"input_tokens": 1200, "output_tokens": 34}
    assert (seen[-1]["total_cost_usd"], seen[-1]["result"]) == (0.5, "mine")


def test_a_cut_ends_the_process_in_the_middle_of_a_line() -> None:
    with agent("--stream-json") as client:
        prompt(client, "say whole; cut 7")
        *whole, rest = client.drain().split(b"\n")
        assert [json.loads(line)["type"] for line in whole]
        assert rest
        with pytest.raises(ValueError, match=r"."):
            json.loads(rest)
        assert client.exit_code() == 7


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("crash", -9), ("crash SEGV", -11), ("crash TERM", -15)])
def test_it_dies_as_it_is_told(script: str, code: int) -> None:
    with agent("--stream-json") as client:
        prompt(client, f"say before; {script}; say never")
        assert b"never" not in client.drain()
        assert client.exit_code() == code


def test_a_deaf_agent_hears_no_interrupt_and_no_end_of_input() -> None:
    with agent("--stream-json") as client:
        prompt(client, "say now; deaf")
        client.until(lambda message: deltas([message]) == ["now"])
        control(client, "interrupt")
        client.hang_up()
        os.killpg(client.process.pid, signal.SIGTERM)
        assert b"control_response" not in client.drain()
        assert client.exit_code() == 143


def test_a_signal_that_is_ignored_does_not_end_it() -> None:
    with agent("--stream-json") as client:
        prompt(client, "ignore TERM INT; say ready; hang")
        client.until(lambda message: deltas([message]) == ["ready"])
        client.process.send_signal(signal.SIGTERM)
        client.process.send_signal(signal.SIGINT)
        control(client, "interrupt")
        assert client.next(type="result")["is_error"]


def test_the_interrupt_signal_ends_the_turn_and_the_process() -> None:
    with agent("--stream-json") as client:
        prompt(client, "say half; hang")
        client.until(lambda message: deltas([message]) == ["half"])
        client.process.send_signal(signal.SIGINT)
        assert client.next(type="result")["terminal_reason"] == "aborted_streaming"
        assert client.exit_code() == 0


def test_what_is_no_message_stands_between_the_messages() -> None:
    with agent("--stream-json") as client:
        prompt(client, "raw not json; garbage 3000; stderr oh dear; stderr 100000; split wörld; big 3000000")
        assert client.next(type="system", subtype="init")
        assert client.line() == b"not json\n"
        assert client.process.stderr is not None
        assert client.process.stderr.read(8) == b"oh dear\n"
        noise = b""
        while len(noise) < 100_000:
            noise += client.process.stderr.read(1 << 16)
        rest = client.unread
        while not rest.endswith(b"\n") or b'"type":"result"' not in rest.rsplit(b"\n", 2)[-2]:
            rest += client.line()
    lines = rest.split(b"\n")
    readable = [json.loads(line) for line in lines if line.startswith(b'{"type"')]
    assert len(lines) > len(readable) + 3
    assert deltas(readable) == ["wörld", "ä" * 1_500_000]
    assert len(noise) == 100_000


def test_a_split_text_is_written_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    wire = AgentWire()
    wire.byte_seconds = 0.0

    def write(_fd: int, data: bytes) -> int:
        written.append(data)
        return len(data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        wire.send("wörld")
    assert written == [bytes([byte]) for byte in '"wörld"\n'.encode()]


def test_a_gate_holds_the_agent_until_it_is_opened(tmp_path: Path) -> None:
    gates = Gates(tmp_path)
    with agent("--stream-json", "--gates", str(tmp_path)) as client:
        prompt(client, "say before; gate here; say after")
        assert gates.await_reached("here") == [client.process.pid]
        assert b"after" not in client.unread
        gates.open("here")
        assert client.next(type="result")["result"] == "beforeafter"
        assert turn(client, "gate here; say again")[-1]["result"] == "again"
    with pytest.raises(TimeoutError):
        gates.await_reached("nowhere", timeout_seconds=0.0)


def test_a_script_file_says_what_each_prompt_does(tmp_path: Path) -> None:
    script, ledger = tmp_path / "script", tmp_path / "ledger"
    script.write_text("say first\n\nsay ever after\n", encoding="utf-8")
    with agent("--stream-json", "--script", str(script), "--ledger", str(ledger)) as client:
        said = [turn(client, f"exit {number}")[-1]["result"] for number in range(3)]
    assert said == ["first", "ever after", "ever after"]
    assert prompts_in(ledger) == ["exit 0", "exit 1", "exit 2"]


def test_it_may_die_before_the_first_prompt() -> None:
    with agent("--stream-json", "--start", "stderr no key; exit 5") as client:
        assert client.exit_code() == 5
        assert client.process.stderr is not None
        assert client.process.stderr.read() == b"no key\n"


def test_a_session_is_resumed_under_its_name_unless_nobody_knows_it() -> None:
    with agent("--stream-json", "-p", "--verbose", "--model", "x", "--resume", "ses-1") as client:
        assert turn(client, "say hi")[0]["session_id"] == "ses-1"
    with agent("--stream-json", "--resume", "ses-1", "--stale-resume") as client:
        assert client.exit_code() == 1
        assert client.process.stderr is not None
        assert b"No conversation found with session ID: ses-1" in client.process.stderr.read()


def test_prompts_are_replayed_and_partial_messages_left_out_where_asked() -> None:
    with agent("--stream-json", "--replay-user-messages", "--whole-messages") as client:
        client.send({"type": "user", "uuid": "u-1", "message": {"role": "user", "content": "say hi"}})
        client.next(type="result")
    replayed = next(message for message in client.seen if message["type"] == "user")
    assert (replayed["uuid"], replayed["isReplay"], replayed["message"]["content"]) == ("u-1", True, "say hi")
    assert kinds(client.seen) == ["init", "user", "assistant", "result"]


def test_its_life_is_bounded() -> None:
    with agent("--stream-json", "--lifetime", "1", "--start", "ignore TERM; deaf") as client:
        assert client.exit_code() == -signal.SIGALRM


def test_its_life_has_no_bound_unless_a_test_asks_for_one() -> None:
    looked = "import signal; from interlock.testing.scripted_agent import __main__ as program; "
    looked += "program._live(program.read_options(['--stream-json'])); print(signal.alarm(0))"
    done = subprocess.run((sys.executable, "-c", looked), capture_output=True, timeout=100, check=True)
    assert done.stdout == b"0\n"


def test_its_start_imports_nothing_heavy() -> None:
    argv = (sys.executable, "-X", "importtime", *AGENT[1:], "--stream-json")
    done = subprocess.run(argv, input=b"", capture_output=True, timeout=100, check=True)
    imported = {line.rsplit(b"|", 1)[1].strip().decode() for line in done.stderr.splitlines()}
    assert "json" in imported
    heavy = {
        "asyncio",
        "acp",
        "argparse",
        "dataclasses",
        "inspect",
        "msgspec",
        "pathlib",
        "pydantic",
        "subprocess",
        "uuid",
    }
    assert imported & heavy == set()
    assert {name for name in imported if name.startswith("interlock.")} == {
        "interlock.testing",
        "interlock.testing.scripted_agent",
        *(name for name in imported if name.startswith("interlock.testing.scripted_agent.")),
    }


def test_its_help_names_every_verb() -> None:
    with agent("--help") as client:
        shown = client.drain().decode()
        assert client.exit_code() == 0
    assert all(f"\n  {verb} " in shown for verb in VERBS)
