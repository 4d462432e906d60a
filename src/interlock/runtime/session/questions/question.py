"""One question of an agent, from the request to the evidence that the agent went on.

Laws:
1. A decision counts as given when the driver says so, and as taken by what the agent does next. Without a sign of that
   by `confirm_by_seconds` the question is unconfirmed, and somebody is told.
2. A decision that certainly did not reach the agent is tried `MAX_DELIVERIES` times. Then it decides nothing: the
   question is open again, with the reason.
3. A decision that may have reached the agent is never given again.
4. Past `deadline_at` the answer is no, and that is given like any other.
5. A decision that was on its way when the agent died or took its question back is unconfirmed for good: that is noted.
6. Only `decide` is a command of ours: it is refused unless the question is open. The rest comes from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias, assert_never

from interlock.agents.observations import ApprovalAsked
from interlock.agents.port import Decision
from interlock.lifecycle.decisions.toolcall import CallKey
from interlock.lifecycle.table import Edge, Machine, from_each

MAX_DELIVERIES: Final = 3
_OVER: Final = "the question was over before anything showed that the agent took the decision"
_TOO_LATE: Final = "No decision came before the deadline"


class QuestionState(StrEnum):
    """Where one question stands."""

    OPEN = "open"
    DECIDED = "decided"
    EXPIRED = "expired"
    GIVEN = "given"
    UNCONFIRMED = "unconfirmed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Question:
    """One question of this spawn: what is asked, and what stands for it in the log. It is to be answered by
    `deadline_at`; the agent is to go on by `confirm_by_seconds` once a decision is on its way. `problem` says what is
    wrong with the delivery of a decision."""

    approval_id: str
    asked: ApprovalAsked
    key: CallKey | None
    deadline_at: datetime | None
    answer_seconds: float | None = None
    state: QuestionState = QuestionState.OPEN
    decision: Decision | None = None
    confirm_by_seconds: float | None = None
    attempts: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DecideQuestion:
    """A person decided, and the log has it."""

    on: ClassVar[str] = "decide"
    decision: Decision
    confirm_by_seconds: float


@dataclass(frozen=True, slots=True)
class Expire:
    """The time for an answer is up."""

    on: ClassVar[str] = "expire"
    confirm_by_seconds: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """The driver gave the decision to the agent."""

    on: ClassVar[str] = "delivered"
    confirm_by_seconds: float


@dataclass(frozen=True, slots=True)
class AnswerNotDelivered:
    """The decision certainly did not reach the agent."""

    on: ClassVar[str] = "not_delivered"
    reason: str
    confirm_by_seconds: float


@dataclass(frozen=True, slots=True)
class AnswerDeliveryUnknown:
    """The decision may have reached the agent."""

    on: ClassVar[str] = "delivery_unknown"
    reason: str


@dataclass(frozen=True, slots=True)
class ConfirmDue:
    """Nothing shows in time that the agent took the decision."""

    on: ClassVar[str] = "confirm_due"


@dataclass(frozen=True, slots=True)
class MovedOn:
    """The agent did something else: what it was given has been taken."""

    on: ClassVar[str] = "moved_on"


@dataclass(frozen=True, slots=True)
class AskerGone:
    """The agent took the answer, or ended its turn cleanly."""

    on: ClassVar[str] = "gone"


@dataclass(frozen=True, slots=True)
class Dropped:
    """The question is over, and nothing shows that a decision was taken: the agent died, or took it back."""

    on: ClassVar[str] = "dropped"


QuestionInput: TypeAlias = (
    DecideQuestion
    | Expire
    | Delivered
    | AnswerNotDelivered
    | AnswerDeliveryUnknown
    | ConfirmDue
    | MovedOn
    | AskerGone
    | Dropped
)


@dataclass(frozen=True, slots=True)
class Give:
    """Give the agent this decision."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Reopen:
    """Record that the decision did not reach the agent, and that the question is open again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Record an anomaly."""

    kind: str
    message: str


QuestionOutput: TypeAlias = Give | Reopen | Note


def may_be_given_again(question: Question) -> bool:
    return question.attempts + 1 < MAX_DELIVERIES


_S: TypeAlias = QuestionState
_ON_ITS_WAY: Final = (_S.DECIDED, _S.EXPIRED)
_UNSEEN: Final = (*_ON_ITS_WAY, _S.GIVEN)
_UNCLOSED: Final = (_S.OPEN, *_UNSEEN, _S.UNCONFIRMED)
TRANSITIONS: Final[tuple[Edge[QuestionState, Question], ...]] = (
    Edge(_S.OPEN, DecideQuestion.on, _S.DECIDED),
    Edge(_S.OPEN, Expire.on, _S.EXPIRED),
    *from_each((*_ON_ITS_WAY, _S.UNCONFIRMED), Delivered.on, _S.GIVEN),
    *(Edge(source, AnswerNotDelivered.on, source, may_be_given_again) for source in _ON_ITS_WAY),
    *from_each((*_ON_ITS_WAY, _S.UNCONFIRMED), AnswerNotDelivered.on, _S.OPEN),
    *from_each(_ON_ITS_WAY, AnswerDeliveryUnknown.on, _S.UNCONFIRMED),
    *from_each(_UNSEEN, ConfirmDue.on, _S.UNCONFIRMED),
    *from_each((_S.GIVEN, _S.UNCONFIRMED), MovedOn.on, _S.CLOSED),
    *from_each(_UNCLOSED, AskerGone.on, _S.CLOSED),
    *from_each(_UNCLOSED, Dropped.on, _S.CLOSED),
)

MACHINE: Final[Machine[QuestionState, Question]] = Machine(
    name="question",
    title="A question of an agent: asked, decided, given, and taken by what the agent does next",
    states=QuestionState,
    initial=QuestionState.OPEN,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({DecideQuestion.on}),
    observations=frozenset(
        {
            Expire.on,
            Delivered.on,
            AnswerNotDelivered.on,
            AnswerDeliveryUnknown.on,
            ConfirmDue.on,
            MovedOn.on,
            AskerGone.on,
            Dropped.on,
        }
    ),
    terminal=frozenset({QuestionState.CLOSED}),
)


def step(question: Question, input: QuestionInput) -> tuple[Question, tuple[QuestionOutput, ...]]:
    """Take one input. Only `DecideQuestion` can be refused (`ContractError`)."""
    state = MACHINE.next_state(question.state, input.on, question)
    if not MACHINE.edges_for(question.state, input.on) or (state is question.state and not _repeats(input)):
        return question, ()
    moved = replace(question, state=state, confirm_by_seconds=None)
    match input:
        case DecideQuestion(decision, confirm_by):
            return replace(moved, decision=decision, confirm_by_seconds=confirm_by, problem=""), (Give(decision),)
        case Expire(confirm_by):
            no = Decision(request_id=question.asked.request_id, is_allowed=False, text=_TOO_LATE)
            return replace(moved, decision=no, confirm_by_seconds=confirm_by, problem=""), (Give(no),)
        case Delivered(confirm_by):
            return replace(moved, confirm_by_seconds=confirm_by, problem=""), ()
        case AnswerNotDelivered():
            return _not_delivered(moved, input)
        case AnswerDeliveryUnknown(reason):
            problem = f"it is unknown whether a decision reached the agent: {reason}"
            return replace(moved, problem=problem), (Note("decision_delivery_unknown", reason),)
        case ConfirmDue():
            problem = "an answer was given, and nothing shows that the agent took it"
            return replace(moved, problem=problem), (Note("decision_unconfirmed", problem),)
        case MovedOn() | AskerGone():
            return moved, ()
        case Dropped():
            return moved, () if question.state not in _UNSEEN else (Note("decision_unconfirmed", _OVER),)
        case unreachable:
            assert_never(unreachable)


def _repeats(input: QuestionInput) -> bool:
    """Whether an input may leave the state as it is and still do something."""
    return isinstance(input, AnswerNotDelivered)


def _not_delivered(moved: Question, input: AnswerNotDelivered) -> tuple[Question, tuple[QuestionOutput, ...]]:
    if moved.state is QuestionState.OPEN or moved.decision is None:
        problem = f"a decision did not reach the agent: {input.reason}"
        return replace(moved, decision=None, attempts=0, problem=problem), (Reopen(input.reason),)
    again = replace(moved, attempts=moved.attempts + 1, confirm_by_seconds=input.confirm_by_seconds)
    return again, (Note("decision_not_delivered_yet", input.reason), Give(moved.decision))
