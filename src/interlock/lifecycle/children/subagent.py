"""The subagent: one child session, as its parent records it.

Laws:
1. What the log says is the state: a record is the child's last fact, and each move gives exactly one new fact.
2. `queued` means that nothing was started: `running` is recorded before anything runs. So a queued child can be closed
   (`interrupted`, reason `closed_before_start`) or fail to be set up, and cannot time out or be detached.
3. The deadline is armed at the start from `timeout_ms`, not in the queue, and again by each new input.
4. A due deadline comes before whatever input makes us look: the child is timed out, the input is not applied, and an
   anomaly says so. It holds even for a child that did finish, but late: its own log keeps its answer, and the next
   actions name it. A timer that fires early or twice changes nothing.
5. Each start after a retry and each new input is a new attempt. What a child reports names its attempt, and a report of
   another attempt changes nothing.
6. Commands are ours and strict. What the child did is an observation: late, it keeps the state and is an anomaly.
7. A child that ends without a word is not completed; it failed, with reason `empty_answer`.
8. Terminal is final. Only new input reopens a child, only one that has a session, and never a detached one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final, TypeAlias, assert_never

from interlock.lifecycle.children import subagent_evidence as evidence
from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.vocabulary.actions import NextAction, NextActionKind, inspect_child
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId, SubagentId, is_valid_id
from interlock.vocabulary.states import SubagentState

DEFAULT_TIMEOUT_MS: Final = 120_000
MAX_TIMEOUT_MS: Final = 366 * 24 * 60 * 60 * 1000

# Reasons that we write ourselves; all others come from a caller or from the child.
NEW_INPUT: Final = "new_input"
TIMEOUT: Final = "timeout"
EMPTY_ANSWER: Final = "empty_answer"
CHILD_TURN_FAILED: Final = "child_turn_failed"
INTERRUPTED_ELSEWHERE: Final = "interrupted_elsewhere"


@dataclass(frozen=True, slots=True)
class StartChild:
    """The child's session exists and is about to run."""

    on: ClassVar[str] = "start"
    child_session_id: SessionId


@dataclass(frozen=True, slots=True)
class SendInput:
    """Give an ended child more to do, in the session that it has."""

    on: ClassVar[str] = "send_input"


@dataclass(frozen=True, slots=True)
class Retry:
    """Give up this attempt and queue the next one, in a new session."""

    on: ClassVar[str] = "retry"
    reason: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Stop the child, or close it before it starts."""

    on: ClassVar[str] = "interrupt"
    reason: str


@dataclass(frozen=True, slots=True)
class Detach:
    """Let go of a child that may go on running."""

    on: ClassVar[str] = "detach"
    reason: str


@dataclass(frozen=True, slots=True)
class SetupFailed:
    """The child's session could not be made."""

    on: ClassVar[str] = "setup_failed"
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class ChildFinished:
    """The child's turn completed."""

    on: ClassVar[str] = "child_finished"
    attempt: int
    summary: str
    checkpoint: Json = None


@dataclass(frozen=True, slots=True)
class ChildFailed:
    """The child's turn ended in any other way than completed or interrupted."""

    on: ClassVar[str] = "child_failed"
    attempt: int
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ChildInterrupted:
    """Somebody stopped the child's turn without asking us."""

    on: ClassVar[str] = "child_interrupted"
    attempt: int


@dataclass(frozen=True, slots=True)
class SubagentTimerFired:
    """Look at the deadline."""

    on: ClassVar[str] = "timer_fired"


Command: TypeAlias = StartChild | SendInput | Retry | Interrupt | Detach
Report: TypeAlias = SetupFailed | ChildFinished | ChildFailed | ChildInterrupted
SubagentInput: TypeAlias = Command | Report | SubagentTimerFired

_COMMANDS: Final = (StartChild.on, SendInput.on, Retry.on, Interrupt.on, Detach.on)
_OBSERVATIONS: Final = (SetupFailed.on, ChildFinished.on, ChildFailed.on, ChildInterrupted.on, SubagentTimerFired.on)


@dataclass(frozen=True, slots=True)
class SubagentRecord:
    """One child: its last fact, read as a state. A fact that this machine could not have written is refused.

    `deadline` is set exactly while the child runs; a running child has a session; an ended one proves its end.
    """

    fact: SubagentEvent

    def __post_init__(self) -> None:
        problem = _problem(self.fact)
        if problem:
            raise ContractError(f"child {self.fact.subagent_id!r} cannot be {self.fact.status.value} with {problem}")

    @property
    def id(self) -> SubagentId:
        return self.fact.subagent_id

    @property
    def status(self) -> SubagentState:
        return self.fact.status

    @property
    def attempt(self) -> int:
        return self.fact.attempt

    @property
    def timeout_ms(self) -> int:
        return self.fact.timeout_ms or 0  # Never 0: see `__post_init__`.

    @property
    def deadline(self) -> datetime | None:
        return self.fact.deadline_at

    @property
    def started_at(self) -> datetime | None:
        """When this attempt began, for as long as it runs."""
        return None if self.deadline is None else self.deadline - timedelta(milliseconds=self.timeout_ms)

    @property
    def is_terminal(self) -> bool:
        return self.status in evidence.TERMINAL


def _problem(fact: SubagentEvent) -> str:
    is_running = fact.status is SubagentState.RUNNING
    if not is_valid_id(fact.subagent_id):
        return "an id that names nothing"
    if not 1 <= (fact.timeout_ms or 0) <= MAX_TIMEOUT_MS:
        return f"a timeout of {fact.timeout_ms} ms; it is 1 to {MAX_TIMEOUT_MS}"
    if is_running != (fact.deadline_at is not None):
        return "a deadline" if fact.deadline_at else "no deadline"
    if (is_running or fact.child_session_id is not None) and not is_valid_id(fact.child_session_id or ""):
        return f"the session {fact.child_session_id!r}"
    missing = evidence.missing_evidence(fact)
    return f"no {', no '.join(missing)}" if missing else ""


@dataclass(frozen=True, slots=True)
class Situation:
    """What guards may ask."""

    child: SubagentRecord
    input: SubagentInput
    now: datetime


def deadline_is_due(at: Situation) -> bool:
    return at.child.deadline is not None and at.now >= at.child.deadline


def is_of_this_attempt(at: Situation) -> bool:
    return isinstance(at.input, Report) and at.input.attempt == at.child.attempt


def brings_evidence(at: Situation) -> bool:
    if not isinstance(at.input, ChildFinished) or not is_of_this_attempt(at):
        return False
    return bool(at.input.summary.strip()) or evidence.has_checkpoint(at.input.checkpoint)


def has_a_session(at: Situation) -> bool:
    return at.child.fact.child_session_id is not None


_S = SubagentState
_REOPENABLE: Final = (_S.COMPLETED, _S.FAILED, _S.TIMED_OUT, _S.INTERRUPTED)

TRANSITIONS: Final[tuple[Edge[SubagentState, Situation], ...]] = (
    # First, so that a due deadline comes before the input, whatever it is (law 4).
    *(Edge(_S.RUNNING, on, _S.TIMED_OUT, deadline_is_due) for on in (*_COMMANDS, *_OBSERVATIONS)),
    Edge(_S.QUEUED, StartChild.on, _S.RUNNING),
    Edge(_S.QUEUED, SetupFailed.on, _S.FAILED, is_of_this_attempt),
    Edge(_S.QUEUED, Interrupt.on, _S.INTERRUPTED),
    Edge(_S.RUNNING, Retry.on, _S.QUEUED),
    Edge(_S.RUNNING, Interrupt.on, _S.INTERRUPTED),
    Edge(_S.RUNNING, Detach.on, _S.DETACHED),
    Edge(_S.RUNNING, ChildFinished.on, _S.COMPLETED, brings_evidence),
    Edge(_S.RUNNING, ChildFinished.on, _S.FAILED, is_of_this_attempt),
    Edge(_S.RUNNING, ChildFailed.on, _S.FAILED, is_of_this_attempt),
    Edge(_S.RUNNING, ChildInterrupted.on, _S.INTERRUPTED, is_of_this_attempt),
    *from_each(_REOPENABLE, SendInput.on, _S.RUNNING, has_a_session, reopens=True),
)

MACHINE: Final[Machine[SubagentState, Situation]] = Machine(
    name="subagent",
    title="Where a child session stands, as its parent records it",
    states=SubagentState,
    initial=SubagentState.QUEUED,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset(_COMMANDS),
    observations=frozenset(_OBSERVATIONS),
    terminal=evidence.TERMINAL,
)


def queue_child(
    subagent_id: SubagentId, *, agent: str, task: str, timeout_ms: int = DEFAULT_TIMEOUT_MS, model_visible: bool
) -> SubagentRecord:
    """A new child, in the queue; its `fact` is to be appended. `model_visible`: the parent's model may see its end."""
    fact = SubagentEvent(
        subagent_id=subagent_id,
        status=MACHINE.initial,
        agent=agent,
        task=task,
        timeout_ms=timeout_ms,
        model_visible=model_visible,
    )
    return SubagentRecord(fact)


def step(
    state: SubagentRecord, input: SubagentInput, now: datetime
) -> tuple[SubagentRecord, tuple[SubagentEvent | Anomaly, ...]]:
    """Apply one input. The outputs are what to append: the new fact, or an anomaly, or nothing."""
    status = MACHINE.next_state(state.status, input.on, Situation(state, input, now))
    if status is state.status:
        return state, () if isinstance(input, SubagentTimerFired) else (_anomaly("late_child_report", state, input),)
    if status is SubagentState.TIMED_OUT or isinstance(input, SubagentTimerFired):
        fact = _time_out(state, now)
        overtaken = () if isinstance(input, SubagentTimerFired) else (_anomaly("overtaken_by_deadline", state, input),)
        return SubagentRecord(fact), (fact, *overtaken)
    fact = _obey(state, input, now) if isinstance(input, Command) else _believe(state, input, status, now)
    return SubagentRecord(fact), (fact,)


def _obey(state: SubagentRecord, input: Command, now: datetime) -> SubagentEvent:
    last = state.fact
    deadline = now + timedelta(milliseconds=state.timeout_ms)
    match input:
        case StartChild(child_session_id):
            return evidence.fact_after(last, _S.RUNNING, child_session_id=child_session_id, deadline_at=deadline)
        case SendInput():
            return evidence.fact_after(
                last,
                _S.RUNNING,
                child_session_id=last.child_session_id,
                attempt=last.attempt + 1,
                reason=NEW_INPUT,
                deadline_at=deadline,
            )
        case Retry(reason):
            return evidence.fact_after(last, _S.QUEUED, attempt=last.attempt + 1, reason=reason)
        case Interrupt(reason) if state.status is _S.QUEUED:
            return evidence.closed_before_start(last, summary=reason, next_actions=_advice(_S.INTERRUPTED, None))
        case Interrupt(reason):
            return _interrupted(state, reason, now)
        case Detach(reason):
            session, elapsed_ms = _so_far(state, now)
            advice = _advice(_S.DETACHED, session)
            return evidence.detached(
                last, child_session_id=session, reason=reason, next_actions=advice, elapsed_ms=elapsed_ms
            )
        case unreachable:
            assert_never(unreachable)


def _believe(state: SubagentRecord, input: Report, status: SubagentState, now: datetime) -> SubagentEvent:
    match input:
        case SetupFailed(_, message):
            return evidence.setup_failed(state.fact, summary=message, next_actions=_advice(_S.FAILED, None))
        case ChildFinished(_, summary, checkpoint) if status is _S.COMPLETED:
            session, elapsed_ms = _so_far(state, now)
            return evidence.completed(
                state.fact, child_session_id=session, summary=summary, checkpoint=checkpoint, elapsed_ms=elapsed_ms
            )
        case ChildFinished():
            return _failed(state, EMPTY_ANSWER, "", now)
        case ChildFailed(_, reason, message):
            return _failed(state, reason.strip() or CHILD_TURN_FAILED, message, now)
        case ChildInterrupted():
            return _interrupted(state, INTERRUPTED_ELSEWHERE, now)
        case unreachable:
            assert_never(unreachable)


def _time_out(state: SubagentRecord, now: datetime) -> SubagentEvent:
    session, elapsed_ms = _so_far(state, now)
    return evidence.timed_out(
        state.fact,
        child_session_id=session,
        timeout_ms=state.timeout_ms,
        elapsed_ms=elapsed_ms,
        reason=TIMEOUT,
        next_actions=_advice(_S.TIMED_OUT, session),
    )


def _failed(state: SubagentRecord, reason: str, message: str, now: datetime) -> SubagentEvent:
    session, elapsed_ms = _so_far(state, now)
    return evidence.failed(
        state.fact,
        child_session_id=session,
        reason=reason,
        next_actions=_advice(_S.FAILED, session),
        summary=message,
        elapsed_ms=elapsed_ms,
    )


def _interrupted(state: SubagentRecord, reason: str, now: datetime) -> SubagentEvent:
    session, elapsed_ms = _so_far(state, now)
    advice = _advice(_S.INTERRUPTED, session)
    return evidence.interrupted(
        state.fact, child_session_id=session, reason=reason, elapsed_ms=elapsed_ms, next_actions=advice
    )


_ADVICE: Final[Mapping[SubagentState, tuple[NextActionKind, ...]]] = {
    _S.FAILED: (NextActionKind.RERUN_CHILD, NextActionKind.REDUCE_SCOPE),
    _S.TIMED_OUT: (NextActionKind.RAISE_TIMEOUT, NextActionKind.REDUCE_SCOPE),
    _S.INTERRUPTED: (NextActionKind.RERUN_CHILD,),
    _S.DETACHED: (),
}


def _advice(status: SubagentState, session: SessionId | None) -> tuple[NextAction, ...]:
    look = () if session is None else (inspect_child(session),)
    return (*look, *(NextAction(kind) for kind in _ADVICE[status]))


def _so_far(state: SubagentRecord, now: datetime) -> tuple[SessionId, int]:
    """The session of a running child, and for how many milliseconds. A clock that went back has measured nothing."""
    session, started_at = state.fact.child_session_id, state.started_at
    if session is None or started_at is None:
        raise ContractError(f"child {state.id} is {state.status.value}, not running")
    return session, max(0, (now - started_at) // timedelta(milliseconds=1))


def _anomaly(kind: str, state: SubagentRecord, input: Command | Report) -> Anomaly:
    of = f" of attempt {input.attempt}" if isinstance(input, Report) else ""
    message = f"{input.on}{of} was not applied: child {state.id}, attempt {state.attempt}, was {state.status.value}"
    return Anomaly(kind=kind, source="subagent", message=message)
