"""What an answer to a question means: the option it chooses, and what the log says of it.

Laws:
1. An answer names its verdict. An option that says otherwise, or one that is not offered, is refused. So is a yes to a
   question that has no plain yes among its options: it would answer nothing, or leave the choice to the driver.
2. An allow that lasts is never offered for a shell, nor for a tool that nobody can name, which may be one: it would
   cover commands that nobody has read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from interlock.agents.observations import ApprovalAsked, ApprovalOption, OptionKind
from interlock.lifecycle.decisions.shell_commands import is_shell_tool
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DecisionAction, DialogAnswered, DialogOption, ToolCallDecided
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import Attention

UNNAMED_TOOL: Final = "tool"  # what a call is recorded as whose tool the agent did not name
REJECTIONS: Final = frozenset({OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS})


def without_lasting_allow(asked: ApprovalAsked, tool: str) -> ApprovalAsked:
    """A question as it may be put to a person. Law 2. `tool`: its name, blank where it is not known."""
    if asked.attention is not Attention.APPROVAL or (tool not in ("", UNNAMED_TOOL) and not is_shell_tool(tool)):
        return asked
    kept = tuple(option for option in asked.options if option.kind is not OptionKind.ALLOW_ALWAYS)
    return asked if kept == asked.options else replace(asked, options=kept)


def chosen_option(asked: ApprovalAsked, given: AnswerQuestion) -> ApprovalOption | None:
    """The option that an answer means: the one it names, else the one for this once that says the same."""
    options = asked.options
    if not given.option:
        wanted = OptionKind.ALLOW_ONCE if given.is_allowed else OptionKind.REJECT_ONCE
        plain = next((option for option in options if option.kind is wanted), None)
        is_choice = bool(options) or asked.attention is Attention.QUESTION
        if plain is None and given.is_allowed and is_choice and not given.text and given.data is None:
            told = ", ".join(repr(option.label) for option in options)
            raise UsageError("the question needs an answer", remedy=f"choose one of {told}" if told else "give a text")
        return plain
    named = [option for option in options if given.option in (option.label, option.id)]
    if not named:
        told = ", ".join(repr(option.label) for option in options) or "none"
        raise UsageError(f"there is no option {given.option!r}", remedy=f"it offers {told}")
    refuse_contradiction(named[0].kind, given.option, is_allowed=given.is_allowed)
    return named[0]


def refuse_contradiction(kind: str, option: str, *, is_allowed: bool) -> None:
    """An option that allows, or answers, with a verdict that denies; or the other way round."""
    if (kind in REJECTIONS) is is_allowed:
        said, means = ("allows", "denies") if is_allowed else ("denies", "allows")
        raise UsageError(
            f"the decision contradicts itself: it {said}, and its option {option!r} {means}",
            remedy=f"send is_allowed {'false' if is_allowed else 'true'} with this option, or choose another one",
        )


def offered(options: tuple[ApprovalOption, ...]) -> tuple[DialogOption, ...]:
    """The options of a question, as the log keeps them."""
    return tuple(
        DialogOption(label=option.label, id=option.id, kind=option.kind.value) for option in options if option.label
    )


def dialog_answer(given: AnswerQuestion, option: ApprovalOption | None) -> DialogAnswered:
    """An answer to a dialog, as the log keeps it."""
    label = "" if option is None else option.label
    return DialogAnswered(
        dialog_id=given.approval_id,
        option=label,
        text=given.text or ("" if label else "yes" if given.is_allowed else "no"),
        decision_id=given.decision_id,
        decided_by=given.decided_by,
        is_allowed=given.is_allowed,
    )


def tool_decision(given: AnswerQuestion, option: ApprovalOption | None) -> ToolCallDecided:
    """A decision about a tool call, as the log keeps it."""
    result: Json = given.data
    if result is None and option is not None and option.kind is OptionKind.CHOICE:
        result = option.label
    return ToolCallDecided(
        target_id=given.approval_id,
        action=DecisionAction.RESUME if given.is_allowed else DecisionAction.CANCEL,
        decision_id=given.decision_id or given.approval_id,
        result=result if given.is_allowed else None,
        reason=given.text,
        decided_by=given.decided_by,
        option="" if option is None else option.label,
    )
