"""Answers a question by the rules of a person, in the step in which it is asked.

Laws:
1. A question is judged once, when it is recorded. What the rules leave open waits for a person, and so does what they
   decided and the agent did not get: a rule never answers after a person, nor twice.
2. Only whether a tool may run, told with its call and its arguments, is answered by a rule: no plan, trust, login or
   question, no dialog read off a terminal, nothing that is asked again, nothing that wants words.
3. A rule allows once, and says no in its own words. The agent's options that last are never chosen.
4. After so many allowed calls in a turn, or so many times the same one, a person is asked.
5. The decision and the rule behind it are in the log together, before the agent is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interlock.agents.observations import OptionKind
from interlock.lifecycle.rules.verdict import AskedCall, RuleVerdict, arguments_digest
from interlock.runtime.session.effects import DecideForAgent
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.runtime.session.questions.question import Question
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import JudgedCommand, PermissionBehavior, PermissionDecision
from interlock.vocabulary.ids import CallId
from interlock.vocabulary.states import Attention, DriverKind

if TYPE_CHECKING:
    from interlock.runtime.session.state import Session

MOST_ALLOWED_IN_A_TURN: Final = 100
MOST_OF_THE_SAME: Final = 5
BY_RULE: Final = "rule:"
OPAQUE: Final = "opaque"


def answer(session: Session, question: Question) -> None:
    """Answer a question that was just recorded, if a rule does."""
    asked = question.asked
    if not _may_be_answered(session, question):
        return
    try:
        digest = arguments_digest(asked.name, asked.args)
    except (ValueError, TypeError, RecursionError):
        return
    worktree = session.book.worktree
    call = AskedCall(
        agent=session.spec.agent,
        tool=asked.name,
        arguments=asked.args,
        folder=session.spec.cwd,
        source="" if worktree is None else worktree.source,
    )
    verdict = session.rules(session.book.session_id, call, session.now.at.date())
    is_allowed = verdict.then is PermissionBehavior.ALLOW
    if verdict.then is PermissionBehavior.ASK or (is_allowed and _is_enough(session, digest)):
        return
    name = OPAQUE if verdict.rule is None else verdict.rule.id
    given = AnswerQuestion(
        approval_id=question.approval_id,
        is_allowed=is_allowed,
        option=_plain_option(question, OptionKind.ALLOW_ONCE if is_allowed else OptionKind.REJECT_ONCE),
        text="" if is_allowed else f"denied by rule {name}: {verdict.because}",
        decided_by=f"{BY_RULE}{name}",
    )
    try:
        decision = session.questions.answer(given, session.now)
    except UsageError as refused:
        session.note("rule_not_applied", f"rule {name}: {refused}")
        return
    if decision is not None:
        session.append(_record(question, verdict, name, digest))
        session.do(DecideForAgent(decision))


def _may_be_answered(session: Session, question: Question) -> bool:
    asked = question.asked
    is_plain = asked.attention is Attention.APPROVAL and not asked.problem and asked.response_schema is None
    is_whole = bool(asked.call_id and asked.name) and isinstance(asked.args, dict)
    once = [option.kind for option in asked.options]
    is_one_choice = once.count(OptionKind.ALLOW_ONCE) <= 1 and once.count(OptionKind.REJECT_ONCE) <= 1
    return (
        is_plain
        and is_whole
        and is_one_choice
        and OptionKind.CHOICE not in once
        and session.kind is not DriverKind.TERMINAL
    )


def _is_enough(session: Session, digest: str) -> bool:
    allowed = session.book.allowed_by_rule
    if allowed.total() < MOST_ALLOWED_IN_A_TURN and allowed[digest] < MOST_OF_THE_SAME:
        return False
    session.note(
        "rules_stopped", f"rules allowed {allowed.total()} calls in this turn, this one {allowed[digest]} times"
    )
    return True


def _plain_option(question: Question, kind: OptionKind) -> str:
    """The option of that kind, by its id. Blank where none is offered: the verdict speaks then."""
    found = next((option for option in question.asked.options if option.kind is kind), None)
    return "" if found is None else found.id or found.label


def _record(question: Question, verdict: RuleVerdict, name: str, digest: str) -> PermissionDecision:
    file = verdict.file
    return PermissionDecision(
        call_id=CallId(question.asked.call_id),
        decision=verdict.then,
        rule=name,
        decided_by=f"{BY_RULE}{name}",
        occurrence=1 if question.key is None else question.key.occurrence,
        approval_id=question.approval_id,
        layer="" if file is None else file.layer.value,
        file="" if file is None else file.path,
        file_digest="" if file is None else file.digest,
        arguments_digest=digest,
        because=verdict.because,
        commands=tuple(
            JudgedCommand(words=part.words, then=part.then, rule="" if part.rule is None else part.rule.id)
            for part in verdict.parts
        ),
    )
