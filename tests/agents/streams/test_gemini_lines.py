"""What Gemini CLI prints by stream-json: the recordings, and lines that they do not hold."""

from __future__ import annotations

import pytest

from interlock.agents.observations import (
    MessageEnded,
    Observation,
    PromptReached,
    TextArrived,
    ToolReturned,
    Traced,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.port import AgentSpec
from interlock.agents.streams.gemini import GeminiLines, gemini_argv
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from tests.agents.acp.golden import check, printed, short


def told(*lines: bytes) -> list[Observation]:
    reader = GeminiLines()
    return [seen for line in lines for seen in reader.feed(line)]


@pytest.mark.parametrize("name", ["slow", "tool_yolo"])
def test_a_recording_means_what_is_on_file(name: str) -> None:
    check(f"gemini/{name}", short(told(*printed(f"gemini/{name}"))))


def test_the_answer_comes_in_pieces_and_whole_before_the_end() -> None:
    seen = told(*printed("gemini/slow"))
    words = "".join(f"word{number:02} " for number in range(20))
    assert "".join(one.text for one in seen if isinstance(one, TextArrived)) == words
    assert [one.text for one in seen if isinstance(one, MessageEnded)] == [words]
    assert seen[-1] == TurnEnded(ending=TurnEnding.NATURAL)


def test_a_result_without_success_ends_the_turn_by_its_error_and_leaves_the_message_open() -> None:
    seen = told(
        b'{"type":"message","role":"assistant","content":"half","delta":true}',
        b'{"type":"result","status":"error","error":{"type":"Error","message":"[API Error: terminated]"}}',
    )
    assert seen == [
        PromptReached(stage=DeliveryStage.STARTED),
        TextArrived(text="half"),
        TurnEnded(
            ending=TurnEnding.ERROR,
            error_kind="agent_error",
            error_message="[API Error: terminated]",
            details={"type": "Error", "message": "[API Error: terminated]"},
        ),
    ]


@pytest.mark.parametrize(
    ("kind", "ending", "detail"),
    [
        ("FatalCancellationError", TurnEnding.INTERRUPTED, ""),
        ("FatalTurnLimitedError", TurnEnding.STOPPED, "max_rounds"),
        ("FatalAuthenticationError", TurnEnding.ERROR, "auth_required"),
    ],
)
def test_errors_with_a_meaning_of_their_own_keep_it(kind: str, ending: TurnEnding, detail: str) -> None:
    (ended,) = told(f'{{"type":"result","status":"error","error":{{"type":"{kind}","message":"m"}}}}'.encode())
    assert isinstance(ended, TurnEnded)
    assert (ended.ending, ended.stop_code or ended.error_kind) == (ending, detail)


def test_an_error_line_warns_and_ends_nothing() -> None:
    assert told(b'{"type":"error","severity":"error","message":"Loop detected"}') == [
        Warned(kind="gemini_error", message="Loop detected")
    ]


def test_a_tool_that_was_not_offered_fails_by_its_own_name() -> None:
    (returned,) = told(
        b'{"type":"tool_result","tool_id":"t1","status":"error",'
        b'"error":{"type":"tool_not_registered","message":"no such tool"}}'
    )
    assert isinstance(returned, ToolReturned)
    assert returned.error is not None
    assert returned.error.kind == "tool_not_registered"


@pytest.mark.parametrize("line", [b"", b"\xff", b"[]", b"null", b'{"type":"new"}', b'{"type":"init"}', b'{"type":[1]}'])
def test_what_is_not_known_is_kept_as_trace(line: bytes) -> None:
    (seen,) = told(line)
    assert isinstance(seen, Traced)


def test_the_program_is_started_for_one_prompt_and_the_prompt_is_no_argument() -> None:
    spec = AgentSpec(agent="g", driver="gemini-stream", model="m", resume="r", options={"approval_mode": "yolo"})
    words = "gemini --output-format stream-json --approval-mode yolo --model m --resume r"
    assert gemini_argv(spec) == tuple(words.split())


@pytest.mark.parametrize("options", [{"approval_mode": "wild"}, {"colour": "red"}])
def test_an_option_that_is_not_known_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="approval_mode"):
        gemini_argv(AgentSpec(agent="g", driver="gemini-stream", options=options))
