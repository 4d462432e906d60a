"""What Qwen Code prints by stream-json: the recordings, and lines that they do not hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    MessageEnded,
    Observation,
    OptionKind,
    TextArrived,
    ToolCalled,
    ToolReturned,
    Traced,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.port import AgentSpec
from interlock.agents.streams.qwen import QwenLines, qwen_argv
from tests.agents.acp.golden import RECORDINGS, check, printed, short
from tests.each_row import each_row


def told(*lines: bytes) -> list[Observation]:
    reader = QwenLines()
    return [seen for line in lines for seen in reader.feed(line)]


def dual() -> list[bytes]:
    """The file that Qwen Code writes beside its screen: plain lines."""
    with gzip.open(RECORDINGS / "qwen" / "dual_json.ndjson.gz", "rb") as file:
        return file.read().splitlines()


@pytest.mark.parametrize("name", ["slow", "tool"])
def test_a_recording_means_what_is_on_file(name: str) -> None:
    check(f"qwen/{name}", short(told(*printed(f"qwen/{name}"))))


def test_the_file_beside_the_screen_means_what_is_on_file() -> None:
    check("qwen/dual_json", short(told(*dual())))


def test_pieces_are_not_told_again_by_the_whole_message() -> None:
    seen = told(*printed("qwen/slow"))
    words = "".join(f"word{number:02} " for number in range(20))
    assert "".join(one.text for one in seen if isinstance(one, TextArrived)) == words
    assert [one.text for one in seen if isinstance(one, MessageEnded)] == [words]
    assert seen[-1] == TurnEnded(ending=TurnEnding.NATURAL, text=words)


def test_a_call_that_the_mode_declines_returns_as_denied() -> None:
    seen = told(*printed("qwen/tool"))
    (called,) = [one for one in seen if isinstance(one, ToolCalled)]
    (returned,) = [one for one in seen if isinstance(one, ToolReturned)]
    assert (called.call_id, called.name) == (returned.call_id, "run_shell_command")
    assert returned.error is not None
    assert returned.error.kind == "denied"


def test_the_question_on_the_screen_is_told_with_its_call_and_goes_when_it_is_answered() -> None:
    seen = told(*dual())
    (asked,) = [one for one in seen if isinstance(one, ApprovalAsked)]
    (called,) = [one for one in seen if isinstance(one, ToolCalled)]
    assert asked.call_id == called.call_id
    assert [option.kind for option in asked.options] == [OptionKind.ALLOW_ONCE, OptionKind.REJECT_ONCE]
    assert ApprovalGone(request_id=asked.request_id) in seen
    assert not [one for one in seen if isinstance(one, TurnEnded)]


@pytest.mark.parametrize(
    ("line", "ending", "message"),
    [
        (b'{"type":"result","subtype":"success","is_error":true,"result":"broke"}', TurnEnding.ERROR, "broke"),
        (
            b'{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"terminated"}}',
            TurnEnding.ERROR,
            "terminated",
        ),
        (b'{"type":"result","subtype":"error_max_turns","is_error":true}', TurnEnding.STOPPED, ""),
        (b'{"type":"result"}', TurnEnding.ERROR, ""),
    ],
)
def test_a_result_is_an_error_unless_it_is_a_success_in_both_words(
    line: bytes, ending: TurnEnding, message: str
) -> None:
    (ended,) = told(line)
    assert isinstance(ended, TurnEnded)
    assert (ended.ending, ended.error_message) == (ending, message)


def test_an_error_that_the_agent_writes_behind_the_text_is_no_text_and_leaves_the_message_open() -> None:
    piece = '{"type":"stream_event","event":{"delta":{"text":"%s"}}}'
    seen = told(
        (piece % "half ").encode(),
        (piece % "[API Error: terminated]").encode(),
        b'{"type":"assistant","message":{"content":[{"type":"text","text":"half [API Error: terminated]"}]}}',
        b'{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"terminated"}}',
    )
    assert [one.text for one in seen if isinstance(one, TextArrived)] == ["half "]
    assert [one.message for one in seen if isinstance(one, Warned)] == ["[API Error: terminated]"]
    assert not [one for one in seen if isinstance(one, MessageEnded)]


ERROR_LINE = "[API Error: 400 out of order]"
NOTHING_USED = {"input_tokens": 0, "output_tokens": 0}


def said(text: str) -> bytes:
    return json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}).encode()


def piece_of(text: str) -> bytes:
    return json.dumps({"type": "stream_event", "event": {"delta": {"type": "text_delta", "text": text}}}).encode()


def success(text: str, usage: Mapping[str, int]) -> bytes:
    return json.dumps({"type": "result", "subtype": "success", "result": text, "usage": usage}).encode()


def test_an_error_line_that_is_called_a_success_is_an_error() -> None:
    """Version 0.23 answers so."""
    seen = told(success(ERROR_LINE, NOTHING_USED))
    (ended,) = [one for one in seen if isinstance(one, TurnEnded)]
    assert (ended.ending, ended.error_kind, ended.error_message) == (TurnEnding.ERROR, "api_error", ERROR_LINE)


def test_an_answer_that_was_cut_and_is_called_a_success_is_an_error() -> None:
    seen = told(piece_of("half "), piece_of(ERROR_LINE), said(f"half {ERROR_LINE}"), success("half", NOTHING_USED))
    (ended,) = [one for one in seen if isinstance(one, TurnEnded)]
    assert (ended.ending, ended.error_message) == (TurnEnding.ERROR, ERROR_LINE)


def test_an_answer_that_quotes_an_error_line_is_an_answer() -> None:
    quoted = success(ERROR_LINE, {"input_tokens": 10, "output_tokens": 7})
    whole = (piece_of("half "), piece_of(ERROR_LINE), said(f"half {ERROR_LINE}"), said("half and whole"))
    for lines in ((quoted,), (success(f"It said {ERROR_LINE}", NOTHING_USED),), (*whole, quoted)):
        (ended,) = [one for one in told(*lines) if isinstance(one, TurnEnded)]
        assert ended.ending is TurnEnding.NATURAL


def test_what_a_child_writes_carries_its_name() -> None:
    seen = told(
        b'{"type":"assistant","parent_tool_use_id":"c1","message":{"content":[{"type":"text","text":"from below"}]}}'
    )
    assert MessageEnded(text="from below", sub_agent="c1") in seen


@each_row("line", [b"", b"\xff", b"[]", b'{"type":"new"}', b'{"type":"assistant"}', b'{"type":{}}'])
def test_what_is_not_known_is_kept_as_trace(line: bytes) -> None:
    (seen,) = told(line)
    assert isinstance(seen, Traced)


def test_the_program_is_always_told_its_approval_mode_and_once() -> None:
    assert qwen_argv(AgentSpec(agent="q", driver="qwen-stream")).count("--approval-mode") == 1
