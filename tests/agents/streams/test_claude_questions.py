"""What Claude Code asks, and how an answer is put to it."""

from __future__ import annotations

import pytest

from interlock.agents.observations import ApprovalOption, OptionKind
from interlock.agents.port import Decision
from interlock.agents.streams.claude.questions import OpenQuestion, answer, read_question
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import Attention
from tests.each_row import each_row

RULE: dict[str, Json] = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "touch *"}, {"toolName": "Read"}],
    "destination": "localSettings",
}
MODE: dict[str, Json] = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
ARGS: dict[str, Json] = {"command": "touch x"}
COLOUR: Json = {"question": "Which?", "options": [{"label": "Red"}, {"label": "Blue"}, {"no": "label"}, 7]}
EXTRAS: Json = {"question": "What else?", "multiSelect": True, "options": [{"label": "Lint"}]}


def approval(*suggestions: Json) -> OpenQuestion:
    request: dict[str, Json] = {
        "tool_name": "Bash",
        "input": ARGS,
        "tool_use_id": "c",
        "description": "Make a file",
        "permission_suggestions": list(suggestions),
    }
    return read_question("q", request, sub_agent="", plan="")


def questions(*asked: Json) -> OpenQuestion:
    request: dict[str, Json] = {"tool_name": "AskUserQuestion", "input": {"questions": list(asked)}}
    return read_question("q", request, sub_agent="", plan="")


def yes(**more: str) -> Decision:
    return Decision(request_id="q", is_allowed=True, **more)


def test_an_approval_offers_yes_what_the_agent_suggests_and_no() -> None:
    asked = approval(RULE, MODE).asked
    assert asked.attention is Attention.APPROVAL
    assert asked.question == "Allow Bash? Make a file"
    assert asked.options == (
        ApprovalOption(label="Yes", id="allow", kind=OptionKind.ALLOW_ONCE),
        ApprovalOption(
            label="Yes, and always allow Bash(touch *), Read (localSettings)",
            id="suggestion:0",
            kind=OptionKind.ALLOW_ALWAYS,
        ),
        ApprovalOption(
            label="Yes, and switch to the mode acceptEdits (session)", id="suggestion:1", kind=OptionKind.ALLOW_ALWAYS
        ),
        ApprovalOption(label="No", id="deny", kind=OptionKind.REJECT_ONCE),
    )


def test_an_allowed_call_gets_its_arguments_back() -> None:
    allowed = {"behavior": "allow", "updatedInput": ARGS}
    assert answer(approval(), yes()) == allowed
    assert answer(approval(), yes(option_id="allow")) == allowed
    assert answer(approval(), yes(option_label="Yes")) == allowed


def test_a_suggestion_that_was_chosen_becomes_a_permission() -> None:
    given = answer(approval(RULE, MODE), yes(option_id="suggestion:1"))
    assert given == {"behavior": "allow", "updatedInput": ARGS, "updatedPermissions": [MODE]}


def test_a_denial_says_why() -> None:
    denied = answer(approval(), Decision(request_id="q", is_allowed=False, text="not today"))
    assert denied == {"behavior": "deny", "message": "not today"}
    assert answer(approval(), Decision(request_id="q", is_allowed=False, option_id="deny"))["message"]


@each_row(
    "decision",
    [
        yes(option_id="deny"),
        yes(option_id="suggestion:7"),
        yes(option_label="Maybe"),
        Decision(request_id="q", is_allowed=False, option_id="allow"),
        Decision(request_id="q", is_allowed=False, option_id="suggestion:0"),
    ],
)
def test_an_answer_that_cannot_be_meant_is_refused(decision: Decision) -> None:
    with pytest.raises(UsageError):
        answer(approval(RULE), decision)


def test_a_question_offers_its_choices() -> None:
    asked = questions(COLOUR).asked
    assert (asked.attention, asked.question) == (Attention.QUESTION, "Which?")
    assert [option.label for option in asked.options] == ["Red", "Blue"]


@pytest.mark.parametrize(
    ("decision", "answered"),
    [
        (yes(option_label="Blue"), "Blue"),
        (yes(option_id="Red"), "Red"),
        (yes(text="Green, rather"), "Green, rather"),
        (Decision(request_id="q", is_allowed=True, data={"Which?": "Blue"}), "Blue"),
    ],
)
def test_a_question_is_answered_by_its_own_words(decision: Decision, answered: str) -> None:
    given = answer(questions(COLOUR), decision)
    assert given == {"behavior": "allow", "updatedInput": {"questions": [COLOUR], "answers": {"Which?": answered}}}


def test_several_questions_are_answered_together() -> None:
    question = questions(COLOUR, EXTRAS)
    assert question.asked.options == ()
    assert question.asked.response_schema == {
        "type": "object",
        "required": ["Which?", "What else?"],
        "properties": {"Which?": {"type": ["string"]}, "What else?": {"type": ["string", "array"]}},
    }
    both: Json = {"Which?": "Red", "What else?": ["Lint", "Tests"]}
    given = answer(question, Decision(request_id="q", is_allowed=True, data=both))["updatedInput"]
    assert isinstance(given, dict)
    assert given["answers"] == {"Which?": "Red", "What else?": "Lint, Tests"}
    with pytest.raises(UsageError):
        answer(question, yes(text="Red"))


def test_a_question_without_an_answer_is_refused() -> None:
    with pytest.raises(UsageError):
        answer(questions(COLOUR), yes())


def test_a_plan_is_shown_as_the_agent_wrote_it() -> None:
    request: dict[str, Json] = {"tool_name": "ExitPlanMode", "input": {}}
    asked = read_question("q", request, sub_agent="", plan="1. Do it.").asked
    assert (asked.attention, asked.question) == (Attention.PLAN, "1. Do it.")
    assert [option.id for option in asked.options] == ["allow", "deny"]
