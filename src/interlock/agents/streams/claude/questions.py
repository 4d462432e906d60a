"""What Claude Code asks over its control channel, what our answer looks like to it, and what its own answers prove.

A `can_use_tool` request is one of three questions: may this tool run (approval), which of these (`AskUserQuestion`), or
is this plan good (`ExitPlanMode`). An allowed call gets its own arguments back, with the answers of a person added.

Laws:
1. A question is open until its call has a result, the agent takes it back, or the agent has read our answer.
2. The agent reads its input in order. An answer to a request that we wrote after a decision therefore shows that the
   decision was read, also while the tool that it allowed runs on without a word.
3. A request that nobody here can answer is to be refused at once, or the agent waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interlock.agents.observations import (
    TRACE_MAX_CHARACTERS,
    ApprovalAsked,
    ApprovalGone,
    ApprovalOption,
    BecameReady,
    Observation,
    OptionKind,
    Warned,
)
from interlock.agents.port import Decision
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, inner, members, text
from interlock.vocabulary.states import Attention

ALLOW: Final = "allow"
DENY: Final = "deny"
_SUGGESTION: Final = "suggestion:"
_REFUSED: Final = "The user does not want this. Ask before you try anything like it again."
_MAX_SUGGESTIONS: Final = 16


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question with what its answer needs."""

    asked: ApprovalAsked
    args: Fields
    suggestions: tuple[Fields, ...]
    questions: tuple[Fields, ...]


def read_question(request_id: str, request: Fields, *, sub_agent: str, plan: str) -> OpenQuestion:
    """The question of a `can_use_tool` request. `plan` is what the agent wrote for `ExitPlanMode`, if it did."""
    name, args = text(request, "tool_name"), inner(request, "input")
    suggested = [one for one in members(request, "permission_suggestions") if isinstance(one, dict)]
    suggestions = tuple(suggested[:_MAX_SUGGESTIONS])
    questions = _questions(args) if name == "AskUserQuestion" else ()
    attention, words, options = Attention.APPROVAL, _why(request), _approval_options(suggestions)
    if questions:
        attention, words = Attention.QUESTION, "\n".join(text(one, "question") for one in questions)
        options = _choices(questions[0]) if len(questions) == 1 else ()
    elif name == "ExitPlanMode":
        attention, words = Attention.PLAN, plan or text(args, "plan") or "The agent's plan is ready."
    asked = ApprovalAsked(
        request_id=request_id,
        call_id=text(request, "tool_use_id"),
        name=name,
        args=args,
        attention=attention,
        question=words[:TRACE_MAX_CHARACTERS],
        options=options,
        response_schema=_schema(questions) if questions else None,
        sub_agent=sub_agent,
    )
    return OpenQuestion(asked, args, suggestions, questions)


def answer(question: OpenQuestion, decision: Decision) -> Fields:
    """The body of the answer. `UsageError` for an option that was not offered, or one that says the contrary."""
    option = _chosen(question.asked, decision)
    is_refusal = option is not None and option.kind in (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)
    if is_refusal == decision.is_allowed and option is not None and option.kind is not OptionKind.CHOICE:
        raise UsageError(f"{option.label!r} says the contrary of the decision", remedy="let the two agree")
    if not decision.is_allowed:
        return {"behavior": DENY, "message": decision.text or _REFUSED}
    if question.questions:
        return {"behavior": ALLOW, "updatedInput": {**question.args, "answers": _answers(question, decision, option)}}
    allowed: Fields = {"behavior": ALLOW, "updatedInput": dict(question.args)}
    if option is not None and option.id.startswith(_SUGGESTION):
        allowed["updatedPermissions"] = [question.suggestions[int(option.id.removeprefix(_SUGGESTION))]]
    return allowed


def _chosen(asked: ApprovalAsked, decision: Decision) -> ApprovalOption | None:
    if not decision.option_id and not decision.option_label:
        return None
    for option in asked.options:
        if decision.option_id == option.id or (not decision.option_id and decision.option_label == option.label):
            return option
    wanted = decision.option_id or decision.option_label
    raise UsageError(f"the question has no option {wanted!r}", remedy="choose one that it offers, or none")


def _answers(question: OpenQuestion, decision: Decision, option: ApprovalOption | None) -> Fields:
    """What was answered, by the text of each question."""
    if isinstance(decision.data, dict):
        return {name: _spoken(value) for name, value in decision.data.items()}
    said = option.label if option is not None else decision.text
    if not said or len(question.questions) > 1:
        raise UsageError("the question needs an answer", remedy="choose an option, or give `data` by question")
    return {text(question.questions[0], "question"): said}


def _spoken(value: Json) -> str:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _questions(args: Fields) -> tuple[Fields, ...]:
    return tuple(one for one in members(args, "questions") if isinstance(one, dict))


def _choices(question: Fields) -> tuple[ApprovalOption, ...]:
    labels = [text(one, "label") for one in members(question, "options") if isinstance(one, dict)]
    return tuple(ApprovalOption(label=label, id=label) for label in labels if label)


def _schema(questions: tuple[Fields, ...]) -> Json:
    """An answer for each question. The labels are not an enum: a person may always answer in their own words."""
    properties: Fields = {}
    for one in questions:
        kinds: list[Json] = ["string", "array"] if one.get("multiSelect") is True else ["string"]
        properties[text(one, "question")] = {"type": kinds}
    return {"type": "object", "required": list(properties), "properties": properties}


def _why(request: Fields) -> str:
    name = text(request, "display_name") or text(request, "tool_name")
    told = text(request, "description") or text(request, "decision_reason")
    return f"Allow {name}? {told}".strip()


def _approval_options(suggestions: tuple[Fields, ...]) -> tuple[ApprovalOption, ...]:
    always = [
        ApprovalOption(label=_suggested(one), id=f"{_SUGGESTION}{number}", kind=OptionKind.ALLOW_ALWAYS)
        for number, one in enumerate(suggestions)
    ]
    yes = ApprovalOption(label="Yes", id=ALLOW, kind=OptionKind.ALLOW_ONCE)
    return (yes, *always, ApprovalOption(label="No", id=DENY, kind=OptionKind.REJECT_ONCE))


def _suggested(suggestion: Fields) -> str:
    """What a rule that the agent suggests would allow from now on."""
    match text(suggestion, "type"):
        case "setMode":
            what = f"switch to the mode {text(suggestion, 'mode')}"
        case "addDirectories":
            what = f"allow {', '.join(str(one) for one in members(suggestion, 'directories'))}"
        case "addRules":
            rules = [one for one in members(suggestion, "rules") if isinstance(one, dict)]
            what = f"always allow {', '.join(_rule(one) for one in rules)}"
        case kind:
            what = f"change the permissions ({kind})"
    return f"Yes, and {what} ({text(suggestion, 'destination') or 'session'})"[:256]


def _rule(rule: Fields) -> str:
    content = text(rule, "ruleContent")
    return f"{text(rule, 'toolName')}({content})" if content else text(rule, "toolName")


# The control channel of one process: what the agent asks and has not been told, and what its answers to us prove.

# Ids of our own control requests; the answer to each is an observation.
INITIALIZE: Final = "interlock:initialize"
INTERRUPT: Final = "interlock:interrupt:"
DECIDED: Final = "interlock:decided:"
_MAX_OPEN: Final = 256


class Asking:
    """The open questions, by the agent's own request ids."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self._refusals: list[str] = []
        self._plan = ""

    def question(self, request_id: str) -> OpenQuestion | None:
        return self._open.get(request_id)

    def take_refusals(self) -> list[str]:
        """The requests to be refused, each told once."""
        taken, self._refusals = self._refusals, []
        return taken

    def plan_written(self, plan: str) -> None:
        """The agent wrote a plan; the question about it does not repeat it."""
        self._plan = plan[:TRACE_MAX_CHARACTERS]

    def request(self, frame: Fields, call_of: Callable[[str], str]) -> list[Observation]:
        """A `control_request` of the agent. `call_of` names the call that started a sub-agent."""
        request_id, request = text(frame, "request_id"), inner(frame, "request")
        subtype = text(request, "subtype")
        if subtype != "can_use_tool" or len(self._open) >= _MAX_OPEN:
            self._refusals.append(request_id)
            return [Warned(kind="unanswerable_request", message=f"the agent asks for {subtype[:64]!r}")]
        agent_id = text(request, "agent_id")
        question = read_question(request_id, request, sub_agent=call_of(agent_id) if agent_id else "", plan=self._plan)
        self._open[request_id] = question
        return [question.asked]

    def response(self, frame: Fields) -> list[Observation]:
        """A `control_response`: the agent answers one of our requests."""
        response = inner(frame, "response")
        request_id, error = text(response, "request_id"), text(response, "error")[:TRACE_MAX_CHARACTERS]
        if request_id.startswith(DECIDED):
            # The request is a mere probe: also a refusal of it was read after the decision.
            return self.close(request_id.removeprefix(DECIDED))
        seen: list[Observation] = [BecameReady()] if request_id == INITIALIZE else []
        if error:
            seen.append(Warned(kind="request_refused", message=f"{request_id[:64]}: {error}"))
        return seen

    def close(self, request_id: str, *, is_answered: bool = True) -> list[Observation]:
        """The question is not open any more, if it was."""
        if self._open.pop(request_id, None) is None:
            return []
        return [ApprovalGone(request_id=request_id, is_answered=is_answered)]

    def call_returned(self, call_id: str) -> list[Observation]:
        """A tool call has its result, so what was asked about it is decided."""
        about = [request_id for request_id, one in self._open.items() if one.asked.call_id == call_id]
        return [gone for request_id in about for gone in self.close(request_id)]

    def turn_ended(self) -> list[Observation]:
        """The agent waits for nothing more in this turn. A question of a background agent outlives it."""
        own = [request_id for request_id, one in self._open.items() if not one.asked.sub_agent]
        return [gone for request_id in own for gone in self.close(request_id, is_answered=False)]

    def end(self) -> list[Observation]:
        """Nobody is there to be answered."""
        return [gone for request_id in list(self._open) for gone in self.close(request_id, is_answered=False)]
