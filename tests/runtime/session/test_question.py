"""One question: every edge of its table is walked, and each way through it gives what the laws promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from interlock.agents.observations import ApprovalAsked
from interlock.agents.port import Decision
from interlock.runtime.session.questions.question import (
    MACHINE,
    MAX_DELIVERIES,
    AnswerDeliveryUnknown,
    AnswerNotDelivered,
    AskerGone,
    ConfirmDue,
    DecideQuestion,
    Delivered,
    Dropped,
    Expire,
    Give,
    MovedOn,
    Question,
    QuestionInput,
    QuestionState,
    Reopen,
    step,
)
from interlock.testing.explore import check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError

YES: Final = Decision(request_id="r1", is_allowed=True)
ASKED: Final = Question("apr_1", ApprovalAsked(request_id="r1"), None, None)
EVERY: Final[tuple[QuestionInput, ...]] = (
    DecideQuestion(YES, 1.0),
    Expire(1.0),
    Delivered(1.0),
    AnswerNotDelivered("broken pipe", 1.0),
    AnswerDeliveryUnknown("who knows"),
    ConfirmDue(),
    MovedOn(),
    AskerGone(),
    Dropped(),
)


def after(*inputs: QuestionInput) -> Question:
    question = ASKED
    for given in inputs:
        question, _ = step(question, given)
    return question


def test_the_walk_takes_every_edge_and_no_other(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[ASKED],
        inputs=lambda _: EVERY,
        step=lambda question, given: step(question, given)[0],
        label=labelled_by("state"),
        named=lambda given: given.on,
        state_laws={
            "an open question has no decision": lambda q: (q.state is QuestionState.OPEN) <= (q.decision is None),
            "what is on its way has a deadline": lambda q: (
                (q.state in (QuestionState.DECIDED, QuestionState.EXPIRED, QuestionState.GIVEN))
                <= (q.confirm_by_seconds is not None)
            ),
            "deliveries are bounded": lambda q: q.attempts < MAX_DELIVERIES,
        },
        step_laws={
            "closed is final": lambda before, _, later: before.state is not QuestionState.CLOSED or later == before
        },
    )
    check_table(found, MACHINE)
    assert not found.stuck(lambda question: question.state is QuestionState.CLOSED)
    record_property("explored", found.summary("question"))


def test_a_decision_is_given_only_while_the_question_is_open() -> None:
    with pytest.raises(ContractError):
        step(after(DecideQuestion(YES, 1.0)), DecideQuestion(YES, 1.0))


def test_a_decision_that_did_not_arrive_is_given_again_and_then_taken_back() -> None:
    question, outputs = step(ASKED, DecideQuestion(YES, 1.0))
    given = [one for one in outputs if isinstance(one, Give)]
    for _ in range(MAX_DELIVERIES - 1):
        question, outputs = step(question, AnswerNotDelivered("broken pipe", 2.0))
        given += [one for one in outputs if isinstance(one, Give)]
    assert given == [Give(YES)] * MAX_DELIVERIES
    question, outputs = step(question, AnswerNotDelivered("broken pipe", 3.0))
    assert outputs == (Reopen("broken pipe"),)
    assert (question.state, question.decision, question.attempts) == (QuestionState.OPEN, None, 0)
    assert "broken pipe" in question.problem


def test_a_decision_that_may_have_arrived_is_never_given_again() -> None:
    question = after(DecideQuestion(YES, 1.0), AnswerDeliveryUnknown("who knows"))
    for given in EVERY[1:]:
        if not isinstance(given, AskerGone | MovedOn | AnswerNotDelivered):
            assert not any(isinstance(one, Give) for one in step(question, given)[1])


def test_nothing_that_the_agent_does_closes_a_question_that_it_was_not_given_an_answer_to() -> None:
    for question in (ASKED, after(DecideQuestion(YES, 1.0)), after(Expire(1.0))):
        assert step(question, MovedOn())[0] == question
