"""The way of one turn, from the dispatch of its prompt to its end, as far as the log does not say it.

Laws:
1. A prompt that may have reached the agent is never given again; one that provably did not is, a few times.
2. Whatever the agent does that only a running turn can do proves that the turn started; in a terminal not while the
   prompt is provably not typed, since the agent may have begun something by itself.
3. A turn that is asked to stop goes back to where it was if the request provably never reached the agent.
4. An agent that falls silent has a moment left in which the end of its process may say more.
5. A clean end that is reported while a question is open ends nothing: the turn is held until the question is gone.
6. Every stage but `held` has a deadline where its policy sets one; `held` waits for a person, as its question does.
   `kept_out` waits for what ends without us (a person's draft in the composer, a turn that the agent began by itself, a
   dialog): the prompt is given again as often as it takes, and the time in which it has to start begins anew.
7. `ended` is final.
8. A turn in which nothing moves is stalled until something does. What moves in a terminal is text, tokens, tools and
   children: a spinner shows that the program lives, and not that its turn gets on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias, assert_never

from interlock.agents.observations import TurnEnded
from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.runtime.deadlines import earliest
from interlock.runtime.policy import RunPolicy

# The pipes of a process that dies close a moment before its end is told, and that end says more than the silence.
_SILENT_SECONDS: Final = 1.0


class TurnStage(StrEnum):
    """How far the turn got."""

    DISPATCHED = "dispatched"
    RETRYING = "retrying"
    KEPT_OUT = "kept_out"
    SENT = "sent"
    STARTED = "started"
    STOPPING = "stopping"
    SILENT = "silent"
    HELD = "held"
    ENDED = "ended"


class TurnProgress(StrEnum):
    """Whether the agent gets on with its turn."""

    MOVING = "moving"
    STALLED = "stalled"


class TurnOrigin(StrEnum):
    """Who began the turn: a prompt of ours, the agent by itself, or an earlier runtime that died."""

    PROMPT = "prompt"
    UNASKED = "unasked"
    TAKEN_UP = "taken_up"


# Inputs


@dataclass(frozen=True, slots=True)
class PromptGiven:
    """The agent got the prompt, or may have."""

    on: ClassVar[str] = "prompt_given"


@dataclass(frozen=True, slots=True)
class PromptNotDelivered:
    """The agent certainly has nothing of the prompt."""

    on: ClassVar[str] = "prompt_not_delivered"


@dataclass(frozen=True, slots=True)
class PromptKeptOut:
    """The agent has nothing of the prompt, because of something that ends without us."""

    on: ClassVar[str] = "prompt_kept_out"


@dataclass(frozen=True, slots=True)
class WorkSeen:
    """The agent did what only a turn that started can do."""

    on: ClassVar[str] = "work_seen"


@dataclass(frozen=True, slots=True)
class SignSeen:
    """Some sign that the agent gets on with its turn."""

    on: ClassVar[str] = "sign_seen"


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """We ask the agent to end the turn."""

    on: ClassVar[str] = "cancel_requested"


@dataclass(frozen=True, slots=True)
class CancelUndelivered:
    """The request certainly never reached the agent, and is given up."""

    on: ClassVar[str] = "cancel_undelivered"


@dataclass(frozen=True, slots=True)
class FellSilent:
    """The agent stopped without a word."""

    on: ClassVar[str] = "fell_silent"
    report: TurnEnded


@dataclass(frozen=True, slots=True)
class EndReported:
    """The agent says that it is done, and a question is open."""

    on: ClassVar[str] = "end_reported"
    report: TurnEnded


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """What the turn was held for is decided: the agent goes on."""

    on: ClassVar[str] = "answer_given"


@dataclass(frozen=True, slots=True)
class AgentStopped:
    """We stop the process. `is_asked`: a question is open, and nobody will answer it."""

    on: ClassVar[str] = "agent_stopped"
    is_asked: bool


@dataclass(frozen=True, slots=True)
class TurnDeadlinePassed:
    """The time came for whichever deadline is due. `stall_at_seconds`: when silence becomes a stall, as things are."""

    on: ClassVar[str] = "deadline_passed"
    stall_at_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TurnWayClosed:
    """The end of the turn is written."""

    on: ClassVar[str] = "closed"


TurnInput: TypeAlias = (
    PromptGiven
    | PromptNotDelivered
    | PromptKeptOut
    | WorkSeen
    | SignSeen
    | CancelRequested
    | CancelUndelivered
    | FellSilent
    | EndReported
    | AnswerGiven
    | AgentStopped
    | TurnDeadlinePassed
    | TurnWayClosed
)


class TurnOutput(StrEnum):
    """What the session must do because of a step."""

    SUBMIT = "submit"
    SILENCE_OVER = "silence_over"
    BUDGET_SPENT = "budget_spent"
    NEVER_BEGAN = "never_began"
    STALLED = "stalled"
    RECOVERED = "recovered"


# The state


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWay:
    """One open turn. `report`: the end that the agent reported and that does not count yet. `submits`: how often the
    prompt was given. `watched_since_seconds`: since when this runtime watches it. `was_stopped_asking`: a question was
    open when we stopped the agent, and nobody answered it."""

    stage: TurnStage
    origin: TurnOrigin
    began_seconds: float
    watched_since_seconds: float
    progress: TurnProgress = TurnProgress.MOVING
    submits: int = 1
    report: TurnEnded | None = None
    was_stopped_asking: bool = False
    budget_ends_seconds: float | None = None
    start_by_seconds: float | None = None
    retry_at_seconds: float | None = None
    silent_by_seconds: float | None = None

    @property
    def deadline(self) -> float | None:
        """The next of its deadlines."""
        return earliest(self.budget_ends_seconds, self.start_by_seconds, self.retry_at_seconds, self.silent_by_seconds)

    @property
    def has_started(self) -> bool:
        return self.start_by_seconds is None


def dispatched(now: float, policy: RunPolicy) -> TurnWay:
    """A turn whose prompt is being given to the agent."""
    way = TurnWay(stage=TurnStage.DISPATCHED, origin=TurnOrigin.PROMPT, began_seconds=now, watched_since_seconds=now)
    return replace(way, budget_ends_seconds=_end(now, policy.turn_budget_seconds), start_by_seconds=_start(now, policy))


def unasked(now: float, policy: RunPolicy) -> TurnWay:
    """A turn that the agent began by itself."""
    way = TurnWay(stage=TurnStage.STARTED, origin=TurnOrigin.UNASKED, began_seconds=now, watched_since_seconds=now)
    return replace(way, budget_ends_seconds=_end(now, policy.turn_budget_seconds))


def taken_up(now: float, elapsed: float, budget: float | None, policy: RunPolicy, *, has_started: bool) -> TurnWay:
    """A turn that an earlier runtime began, `elapsed` seconds ago."""
    began = now - elapsed
    return TurnWay(
        stage=TurnStage.STARTED if has_started else TurnStage.SENT,
        origin=TurnOrigin.TAKEN_UP,
        began_seconds=began,
        watched_since_seconds=now,
        budget_ends_seconds=_end(began, budget),
        start_by_seconds=None if has_started else _start(now, policy),
    )


def _end(began: float, budget: float | None) -> float | None:
    return None if budget is None else began + budget


def _start(now: float, policy: RunPolicy) -> float:
    return now + policy.start_seconds


# The tables


def may_be_given_again(facts: tuple[TurnWay, RunPolicy]) -> bool:
    way, policy = facts
    return way.submits < policy.resubmit_attempts


def had_started(facts: tuple[TurnWay, RunPolicy]) -> bool:
    return facts[0].has_started


_S: Final = TurnStage
_UNSTARTED: Final = (_S.DISPATCHED, _S.RETRYING, _S.SENT)
_OPEN: Final = tuple(stage for stage in _S if stage is not _S.ENDED)
_UNGIVEN: Final = (_S.RETRYING, _S.KEPT_OUT)
RETRY_DUE: Final = "retry_due"

TRANSITIONS: Final[tuple[Edge[TurnStage, tuple[TurnWay, RunPolicy]], ...]] = (
    *from_each((_S.DISPATCHED, _S.RETRYING, _S.KEPT_OUT), PromptGiven.on, _S.SENT),
    *from_each((_S.DISPATCHED, _S.SENT), PromptKeptOut.on, _S.KEPT_OUT),
    Edge(_S.KEPT_OUT, RETRY_DUE, _S.DISPATCHED),
    *from_each((_S.DISPATCHED, _S.SENT), PromptNotDelivered.on, _S.RETRYING, may_be_given_again),
    Edge(_S.RETRYING, RETRY_DUE, _S.DISPATCHED),
    *from_each(_UNSTARTED, WorkSeen.on, _S.STARTED),
    *(Edge(stage, WorkSeen.on, stage) for stage in (_S.STOPPING, _S.SILENT)),
    *from_each((_S.DISPATCHED, _S.SENT, _S.STARTED, _S.HELD), CancelRequested.on, _S.STOPPING),
    *(Edge(stage, CancelRequested.on, stage) for stage in (*_UNGIVEN, _S.STOPPING, _S.SILENT)),
    Edge(_S.STOPPING, CancelUndelivered.on, _S.STARTED, had_started),
    Edge(_S.STOPPING, CancelUndelivered.on, _S.SENT),
    *from_each((*_UNSTARTED, _S.STARTED, _S.STOPPING, _S.HELD), FellSilent.on, _S.SILENT),
    *from_each((*_UNSTARTED, _S.STARTED, _S.SILENT), EndReported.on, _S.HELD),
    Edge(_S.HELD, AnswerGiven.on, _S.STARTED),
    *from_each(_OPEN, TurnWayClosed.on, _S.ENDED),
)

WAY: Final[Machine[TurnStage, tuple[TurnWay, RunPolicy]]] = Machine(
    name="turn_way",
    title="How far a turn got, from the dispatch of its prompt to its end",
    states=TurnStage,
    initial=TurnStage.DISPATCHED,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({CancelRequested.on, TurnWayClosed.on}),
    observations=frozenset(
        {
            PromptGiven.on,
            PromptNotDelivered.on,
            PromptKeptOut.on,
            RETRY_DUE,
            WorkSeen.on,
            CancelUndelivered.on,
            FellSilent.on,
            EndReported.on,
            AnswerGiven.on,
        }
    ),
    terminal=frozenset({TurnStage.ENDED}),
)

STALL_DUE: Final = "stall_due"

PROGRESS: Final[Machine[TurnProgress, None]] = Machine(
    name="turn_way.progress",
    title="Whether the agent gets on with its turn",
    states=TurnProgress,
    initial=TurnProgress.MOVING,
    edges=(
        Edge(TurnProgress.MOVING, STALL_DUE, TurnProgress.STALLED),
        Edge(TurnProgress.STALLED, SignSeen.on, TurnProgress.MOVING),
    ),
    laws=__doc__,
    observations=frozenset({STALL_DUE, SignSeen.on}),
)

MACHINES: Final = (WAY, PROGRESS)


# The step


def step(way: TurnWay, given: TurnInput, now: float, policy: RunPolicy) -> tuple[TurnWay, tuple[TurnOutput, ...]]:
    """Take one input. At most one deadline fires at a time: what it leads to may undo the others."""
    match given:
        case SignSeen():
            progress = PROGRESS.next_state(way.progress, given.on, None)
            return (way, ()) if progress is way.progress else (replace(way, progress=progress), (TurnOutput.RECOVERED,))
        case AgentStopped(is_asked=is_asked):
            return replace(way, was_stopped_asking=way.was_stopped_asking or is_asked), ()
        case TurnDeadlinePassed(stall_at_seconds=stall_at):
            return _fire(way, stall_at, now, policy)
        case _:
            return _move(way, given, now, policy), ()


def _move(
    way: TurnWay,
    given: PromptGiven
    | PromptNotDelivered
    | PromptKeptOut
    | WorkSeen
    | CancelRequested
    | CancelUndelivered
    | FellSilent
    | EndReported
    | AnswerGiven
    | TurnWayClosed,
    now: float,
    policy: RunPolicy,
) -> TurnWay:
    stage = WAY.next_state(way.stage, given.on, (way, policy))
    if not WAY.edges_for(way.stage, given.on):
        return way  # an observation that means nothing here
    way = replace(way, stage=stage)
    match given:
        case PromptGiven():
            return replace(way, retry_at_seconds=None)
        case WorkSeen():
            return replace(way, start_by_seconds=None, retry_at_seconds=None)
        case PromptNotDelivered():
            at = now + policy.resubmit_seconds if stage is _S.RETRYING else None
            return replace(way, retry_at_seconds=at)
        case PromptKeptOut():
            at = now + policy.resubmit_seconds
            return replace(way, retry_at_seconds=at, start_by_seconds=_start(at, policy))
        case FellSilent(report=report):
            return replace(way, report=report, silent_by_seconds=now + _SILENT_SECONDS)
        case EndReported(report=report):
            return replace(way, report=report, silent_by_seconds=None)
        case AnswerGiven() | CancelUndelivered() | CancelRequested():
            return way
        case TurnWayClosed():
            return replace(
                way,
                budget_ends_seconds=None,
                start_by_seconds=None,
                retry_at_seconds=None,
                silent_by_seconds=None,
            )
        case unreachable:
            assert_never(unreachable)


def _fire(
    way: TurnWay, stall_at: float | None, now: float, policy: RunPolicy
) -> tuple[TurnWay, tuple[TurnOutput, ...]]:
    def is_due(at: float | None) -> bool:
        return at is not None and at <= now

    if is_due(way.silent_by_seconds):
        return way, (TurnOutput.SILENCE_OVER,)
    if is_due(way.budget_ends_seconds):
        return way, (TurnOutput.BUDGET_SPENT,)
    if is_due(way.start_by_seconds):
        return way, (TurnOutput.NEVER_BEGAN,)
    if is_due(way.retry_at_seconds):
        stage = WAY.next_state(way.stage, RETRY_DUE, (way, policy))
        submits = way.submits + (way.stage is not _S.KEPT_OUT)  # what was kept out was not given
        return replace(way, stage=stage, submits=submits, retry_at_seconds=None), (TurnOutput.SUBMIT,)
    if is_due(stall_at):
        return replace(way, progress=PROGRESS.next_state(way.progress, STALL_DUE, None)), (TurnOutput.STALLED,)
    return way, ()
