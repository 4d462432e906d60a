"""What the recorded ACP sessions of five agents amount to."""

from __future__ import annotations

import pytest

from interlock.agents.acp.questions import request_id_of
from interlock.agents.acp.translate import AcpTranslator
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    MessageEnded,
    Observation,
    OptionKind,
    RetryBegun,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.vocabulary.foreign_json import mapping
from tests.agents.acp.golden import check, records, short
from tests.each_row import each_row

AGENTS = ("gemini", "qwen", "opencode", "vibe", "claude-code-acp")


def told(agent: str) -> list[list[Observation]]:
    """The observations of a recorded session, apart for each prompt; what came before the first is the first."""
    translator, parts = AcpTranslator(), [list[Observation]()]
    for record in records(f"{agent}/acp"):
        message = mapping(record["msg"])
        if str(record["dir"]).startswith("agent"):
            parts[-1] += translator.received(message)
            continue
        if message.get("method") == "session/prompt":
            parts.append([])
        translator.sent(message)
        question = translator.questions.get(request_id_of(message.get("id")))
        if "method" not in message and question is not None:
            translator.answering(question, is_allowed=True)
    return parts


@each_row("agent", AGENTS)
def test_a_recorded_session_means_what_is_on_file(agent: str) -> None:
    check(f"{agent}/acp", [line for part in told(agent) for line in ["---", *short(part)]])


@each_row("agent", AGENTS)
def test_the_first_turn_is_one_whole_message(agent: str) -> None:
    words = "".join(f"word{number:02} " for number in range(20))
    turn = told(agent)[1]
    assert [one.text for one in turn if isinstance(one, MessageEnded)] == [words]
    assert "".join(one.text for one in turn if isinstance(one, TextArrived)) == words
    assert turn[-1] == TurnEnded(ending=TurnEnding.NATURAL)


@each_row("agent", AGENTS)
def test_the_tool_turn_has_one_call_which_returns_once(agent: str) -> None:
    turn = told(agent)[2]
    called = [one for one in turn if isinstance(one, ToolCalled)]
    returned = [one for one in turn if isinstance(one, ToolReturned)]
    assert [one.call_id for one in called] == [one.call_id for one in returned]
    assert "echo hi" in str(called[0].args)
    assert turn.index(called[0]) < turn.index(returned[0])
    assert [one.text for one in turn if isinstance(one, MessageEnded)] == [
        "I will run a command.",
        "Tool result received, all done now.",
    ]


@pytest.mark.parametrize("agent", ["gemini", "qwen", "opencode", "vibe"])
def test_a_question_names_its_call_and_its_options_by_kind(agent: str) -> None:
    turn = told(agent)[2]
    (asked,) = [one for one in turn if isinstance(one, ApprovalAsked)]
    (called,) = [one for one in turn if isinstance(one, ToolCalled)]
    assert (asked.call_id, asked.name) == (called.call_id, called.name)
    assert "echo hi" in str(asked.args)
    kinds = {option.kind for option in asked.options}
    assert {OptionKind.ALLOW_ONCE, OptionKind.REJECT_ONCE} <= kinds
    assert OptionKind.CHOICE not in kinds
    assert [one.is_answered for one in turn if isinstance(one, ApprovalGone)] == [True]


@each_row("agent", AGENTS)
def test_a_cancelled_turn_is_interrupted_and_leaves_no_whole_message(agent: str) -> None:
    turn = told(agent)[3]
    assert turn[-1] == TurnEnded(ending=TurnEnding.INTERRUPTED)
    assert not [one for one in turn if isinstance(one, MessageEnded)]


def test_an_attempt_that_the_agent_calls_dead_leaves_no_text() -> None:
    turn = told("vibe")[4]
    assert len([one for one in turn if isinstance(one, RetryBegun)]) == len(
        [one for one in turn if isinstance(one, TextVoided)]
    )
    assert isinstance(turn[-1], RetryBegun)


def test_an_answer_to_an_older_prompt_does_not_end_the_open_turn() -> None:
    endings = [[one.ending for one in part if isinstance(one, TurnEnded)] for part in told("opencode")]
    assert endings[4:] == [[], [], [TurnEnding.ERROR]]
