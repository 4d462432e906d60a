"""Task status, as the server keeps it for one session: what clients are told, and what a cancel leads to.

Laws:
1. Order comes from the log's version: an observation whose version is not higher than the last one changes nothing.
2. One turn at a time, fenced by its id. Only an opening (`prompt_accepted`, `turn_started`) brings another turn, and no
   turn that the task has left comes back; all else that names another turn is late. A turn that starts takes the task
   over. A prompt that is accepted while a turn is open waits for the end of that turn.
3. Terminal is final for its turn: only the opening of another one reopens the task. Nothing reopens `DELETE`.
4. Only the turn ends the task. The end of a stream never changes the status.
5. While CANCELLING, the same turn's running and waiting are remembered and do not show. A clean end that the agent
   reported before it confirmed the interrupt is COMPLETED, with `cancel_requested` recorded; a clean end after that,
   or in doubt, is settled as `interrupted`: CANCELLED. Any other end is CANCELLED or FAILED by its own state.
6. A cancel whose delivery failed is undone, back to what the turn shows by then, unless the agent confirmed it after
   all or the ladder was climbed meanwhile.
7. Every cancel has a deadline, then the next rung of the stop ladder, then an end: FAILED, and marked as not proven.
   The other waits are bounded elsewhere: a turn by its budget, an approval by its own deadline, a prompt by the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import ClassVar, Final, TypeAlias, assert_never

from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.lifecycle.task_status import CANCELLABLE
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import TaskStatus, TurnState


class TaskStage(StrEnum):
    """A task status, or `none` before the first prompt, which clients see as null."""

    NONE = "none"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PENDING_CONFIRMATION = "PENDING_CONFIRMATION"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DELETE = "DELETE"

    @property
    def status(self) -> TaskStatus | None:
        return None if self is TaskStage.NONE else TaskStatus(self.value)


class StopLevel(StrEnum):
    """How hard a turn is stopped, in the order in which it is tried."""

    INTERRUPT = "interrupt"
    TERMINATE = "terminate"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to stop, and how long the agent has to show that it worked."""

    level: StopLevel
    wait_seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.wait_seconds < inf:
            raise ContractError(f"a rung of the stop ladder needs a finite wait, got {self.wait_seconds}")


STOP_LADDER: Final = (Rung(StopLevel.INTERRUPT, 10.0), Rung(StopLevel.TERMINATE, 5.0), Rung(StopLevel.KILL, 5.0))


class TaskEventType(StrEnum):
    """What may be seen of a turn, its end apart.

    `prompt_accepted`: the turn has not begun. `turn_started`: an owner took it; said again of an open turn, it is no
    answer to what that one waits for. `interrupt_confirmed`: the agent took it, and the turn has yet to end.
    `stream_ended`: `chat:done`, `chat:error` or `chat:cancelled` went out (law 4).
    """

    PROMPT_ACCEPTED = "prompt_accepted"
    TURN_STARTED = "turn_started"
    TURN_WAITING = "turn_waiting"
    TURN_RESUMED = "turn_resumed"
    INTERRUPT_CONFIRMED = "interrupt_confirmed"
    CANCEL_DELIVERY_FAILED = "cancel_delivery_failed"
    STREAM_ENDED = "stream_ended"


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One observation, with its place in the log and the turn that it is about."""

    type: TaskEventType
    version: int
    turn_id: TurnId


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn ended. Where the order of the report and the interrupt is not known, the flag stays False.

    An end that is read back from the log has been settled already; for it the flag is True.
    """

    type: ClassVar[str] = "turn_ended"
    version: int
    turn_id: TurnId
    turn: TurnState
    reported_before_interrupt_confirmed: bool = False

    def __post_init__(self) -> None:
        if not self.turn.is_terminal:
            raise ContractError(f"a turn does not end as {self.turn.value}")


@dataclass(frozen=True, slots=True)
class Deleted:
    """The session was deleted, whatever its turns do."""

    type: ClassVar[str] = "deleted"
    version: int


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The timer fired. It has no version: it is no fact of the log until its output is written."""

    type: ClassVar[str] = "deadline_passed"


@dataclass(frozen=True, slots=True)
class RequestCancel:
    """The command: stop the turn. `version` is where it is written; a driver may bring its own ladder."""

    type: ClassVar[str] = "request_cancel"
    version: int
    turn_id: TurnId
    ladder: tuple[Rung, ...] = STOP_LADDER

    def __post_init__(self) -> None:
        if not self.ladder:
            raise ContractError("a stop ladder needs a rung")


TaskInput: TypeAlias = TaskEvent | TurnEnded | Deleted | DeadlinePassed | RequestCancel


@dataclass(frozen=True, slots=True)
class Stopping:
    """A cancel under way: the ladder, the rung it stands on, and when that rung's wait is over."""

    ladder: tuple[Rung, ...]
    rung: int
    deadline_at: float
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """Where a task stands, by the highest version seen (-1: none).

    `turn_id` is the task's turn, `turn` how it stands, None while only its prompt was accepted. `prompts` are turns
    that were accepted after it and wait, `past_turns` those that are over; an id a turn is what the fence costs.
    `cancel_requested` belongs to the task's turn and outlives its end.
    """

    stage: TaskStage = TaskStage.NONE
    version: int = -1
    turn_id: TurnId | None = None
    turn: TurnState | None = None
    prompts: tuple[TurnId, ...] = ()
    past_turns: frozenset[TurnId] = frozenset()
    cancel_requested: bool = False
    stopping: Stopping | None = None

    @property
    def status(self) -> TaskStatus | None:
        return self.stage.status

    @property
    def deadline_at(self) -> float | None:
        """When the next `DeadlinePassed` is due."""
        return None if self.stopping is None else self.stopping.deadline_at


@dataclass(frozen=True, slots=True)
class StopLadder:
    """Stop the turn by this means; without an end by `deadline_at` the next rung follows."""

    turn_id: TurnId
    level: StopLevel
    deadline_at: float


@dataclass(frozen=True, slots=True)
class TurnSettled:
    """What the closing batch has to say. Publish the new state once it is appended, not before.

    Not proven: the ladder is spent and nothing was heard; whether the agent still works is unknown.
    """

    turn_id: TurnId
    turn: TurnState
    cancel_requested: bool
    is_proven: bool = True


TaskOutput: TypeAlias = StopLadder | TurnSettled


@dataclass(frozen=True, slots=True)
class Context:
    """What guards may ask: the state before, the turn that the input names, and how that turn is settled."""

    state: TaskState
    turn_id: TurnId | None = None
    settled: TurnState | None = None


def names_a_new_turn(context: Context) -> bool:
    return context.turn_id != context.state.turn_id and context.turn_id not in context.state.past_turns


def another_prompt_waits(context: Context) -> bool:
    return bool(context.state.prompts)


def turn_has_not_begun(context: Context) -> bool:
    return context.state.turn is None


def turn_waits(context: Context) -> bool:
    return context.state.turn is TurnState.WAITING


def settled_as_completed(context: Context) -> bool:
    return context.settled is TurnState.COMPLETED


def settled_as_interrupted(context: Context) -> bool:
    return context.settled is TurnState.INTERRUPTED


def stop_got_through(context: Context) -> bool:
    stopping = context.state.stopping
    return stopping is not None and (stopping.is_confirmed or stopping.rung > 0)


def rung_is_left(context: Context) -> bool:
    stopping = context.state.stopping
    return stopping is not None and stopping.rung + 1 < len(stopping.ladder)


_CANCELLABLE: Final = tuple(stage for stage in TaskStage if stage.status in CANCELLABLE)
_OPEN: Final = (*_CANCELLABLE, TaskStage.CANCELLING)
_ENDED: Final = (TaskStage.COMPLETED, TaskStage.FAILED, TaskStage.CANCELLED)

TRANSITIONS: Final[tuple[Edge[TaskStage, Context], ...]] = (
    Edge(TaskStage.NONE, TaskEventType.PROMPT_ACCEPTED, TaskStage.PENDING),
    *from_each((TaskStage.NONE, TaskStage.PENDING), TaskEventType.TURN_STARTED, TaskStage.RUNNING),
    *from_each((TaskStage.PENDING, TaskStage.RUNNING), TaskEventType.TURN_WAITING, TaskStage.PENDING_CONFIRMATION),
    *from_each((TaskStage.PENDING, TaskStage.PENDING_CONFIRMATION), TaskEventType.TURN_RESUMED, TaskStage.RUNNING),
    *from_each(
        (TaskStage.PENDING_CONFIRMATION, TaskStage.CANCELLING),
        TaskEventType.TURN_STARTED,
        TaskStage.RUNNING,
        names_a_new_turn,
    ),
    *from_each(_OPEN, RequestCancel.type, TaskStage.CANCELLING),
    *(
        Edge(TaskStage.CANCELLING, TaskEventType.CANCEL_DELIVERY_FAILED, target, guard)
        for target, guard in (
            (TaskStage.CANCELLING, stop_got_through),
            (TaskStage.PENDING, turn_has_not_begun),
            (TaskStage.PENDING_CONFIRMATION, turn_waits),
            (TaskStage.RUNNING, None),
        )
    ),
    Edge(TaskStage.CANCELLING, DeadlinePassed.type, TaskStage.CANCELLING, rung_is_left),
    Edge(TaskStage.CANCELLING, DeadlinePassed.type, TaskStage.PENDING, another_prompt_waits),
    Edge(TaskStage.CANCELLING, DeadlinePassed.type, TaskStage.FAILED),
    *from_each(_OPEN, TurnEnded.type, TaskStage.PENDING, another_prompt_waits),
    *from_each(_OPEN, TurnEnded.type, TaskStage.COMPLETED, settled_as_completed),
    *from_each(_OPEN, TurnEnded.type, TaskStage.CANCELLED, settled_as_interrupted),
    *from_each(_OPEN, TurnEnded.type, TaskStage.FAILED),
    *from_each(_ENDED, TaskEventType.PROMPT_ACCEPTED, TaskStage.PENDING, names_a_new_turn, reopens=True),
    *from_each(_ENDED, TaskEventType.TURN_STARTED, TaskStage.RUNNING, names_a_new_turn, reopens=True),
    *from_each((TaskStage.NONE, *_OPEN), Deleted.type, TaskStage.DELETE),
    *from_each(_ENDED, Deleted.type, TaskStage.DELETE, reopens=True),
)

MACHINE: Final[Machine[TaskStage, Context]] = Machine(
    name="task",
    title="What clients are told of a session, and what a cancel leads to",
    states=TaskStage,
    initial=TaskStage.NONE,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({RequestCancel.type}),
    observations=frozenset({*TaskEventType, TurnEnded.type, Deleted.type, DeadlinePassed.type}),
    terminal=frozenset({*_ENDED, TaskStage.DELETE}),
)

Step: TypeAlias = tuple[TaskState, tuple[TaskOutput, ...]]


def step(state: TaskState, input: TaskInput, now: float) -> Step:
    """Apply one input, after a deadline that is due. Raises `ContractError` for a cancel that is not legal."""
    state, due = _pass_deadline(state, now)
    outputs: tuple[TaskOutput, ...] = ()
    match input:
        case DeadlinePassed():
            pass
        case RequestCancel():
            state, outputs = _cancel(state, input, now)
        case _ if input.version <= state.version:
            pass
        case Deleted():
            stage = MACHINE.next_state(state.stage, input.type, Context(state))
            state = replace(state, version=input.version, stage=stage, prompts=(), stopping=None)
        case TaskEvent() | TurnEnded():
            state, outputs = _observe(replace(state, version=input.version), input)
        case unreachable:
            assert_never(unreachable)
    return state, (*due, *outputs)


def _pass_deadline(state: TaskState, now: float) -> Step:
    """Climb one rung, or give up. One at a time: each rung gets its whole wait, however late the timer fired."""
    stopping = state.stopping
    if stopping is None or now < stopping.deadline_at:
        return state, ()
    stage = MACHINE.next_state(state.stage, DeadlinePassed.type, Context(state))
    if stage is TaskStage.CANCELLING:
        return _climb(state, replace(stopping, rung=stopping.rung + 1), now)
    return _end(state, stage, TurnState.FAILED, is_proven=False)


def _climb(state: TaskState, stopping: Stopping, now: float) -> Step:
    """Stop by the rung that `stopping` stands on, from now on."""
    rung = stopping.ladder[stopping.rung]
    stopping = replace(stopping, deadline_at=now + rung.wait_seconds)
    return replace(state, stopping=stopping), (StopLadder(_turn_id(state), rung.level, stopping.deadline_at),)


def _cancel(state: TaskState, command: RequestCancel, now: float) -> Step:
    stage = MACHINE.next_state(state.stage, command.type, Context(state))
    if command.turn_id != state.turn_id:
        raise ContractError(f"task: cannot cancel turn {command.turn_id}: the task's turn is {state.turn_id}")
    if state.stopping is not None:  # asked twice: the first ladder goes on
        return replace(state, version=max(state.version, command.version)), ()
    if command.version <= state.version:
        raise ContractError(f"task: cancel at version {command.version}, and the log is at {state.version}")
    state = replace(state, stage=stage, version=command.version, cancel_requested=True)
    return _climb(state, Stopping(command.ladder, 0, now), now)


def _observe(state: TaskState, given: TaskEvent | TurnEnded) -> Step:
    """Tell apart what is about the open turn, what brings another turn, and what is late."""
    turn_id = given.turn_id
    if turn_id == state.turn_id and state.stage in _OPEN:
        return _follow(state, given)
    if state.stage is TaskStage.DELETE or not names_a_new_turn(Context(state, turn_id)):
        return state, ()
    if isinstance(given, TurnEnded):  # a prompt that waited was withdrawn, or went into another turn
        prompts = tuple(prompt for prompt in state.prompts if prompt != turn_id)
        return replace(state, prompts=prompts, past_turns=state.past_turns | {turn_id}), ()
    if given.type not in (TaskEventType.PROMPT_ACCEPTED, TaskEventType.TURN_STARTED):
        return state, ()
    stage = MACHINE.next_state(state.stage, given.type, Context(state, turn_id))
    if given.type is TaskEventType.TURN_STARTED:
        is_over = state.stage is not TaskStage.PENDING  # a prompt that is passed over still waits
        return _move_on(state, stage, turn_id, TurnState.RUNNING, is_over=is_over), ()
    if state.stage in _OPEN:
        return replace(state, prompts=tuple(dict.fromkeys((*state.prompts, turn_id)))), ()
    return _move_on(state, stage, turn_id), ()


def _move_on(
    state: TaskState, stage: TaskStage, turn_id: TurnId, turn: TurnState | None = None, *, is_over: bool = True
) -> TaskState:
    """Make another turn the task's own. The one that is left is over, or else goes back to those that wait."""
    left = () if state.turn_id is None else (state.turn_id,)
    waiting = state.prompts if is_over else (*left, *state.prompts)
    return TaskState(
        stage=stage,
        version=state.version,
        turn_id=turn_id,
        turn=turn,
        prompts=tuple(prompt for prompt in waiting if prompt != turn_id),
        past_turns=state.past_turns.union(left) if is_over else state.past_turns,
    )


def _follow(state: TaskState, given: TaskEvent | TurnEnded) -> Step:
    """An observation of the open turn: run the table, and remember what it says of the turn."""
    settled = _settled(state, given) if isinstance(given, TurnEnded) else None
    stage = MACHINE.next_state(state.stage, given.type, Context(state, given.turn_id, settled))
    if settled is not None:
        return _end(state, stage, settled)
    turn, stopping = state.turn, state.stopping
    match given.type:
        case TaskEventType.TURN_STARTED:
            turn = turn or TurnState.RUNNING
        case TaskEventType.TURN_RESUMED:
            turn = TurnState.RUNNING
        case TaskEventType.TURN_WAITING:
            turn = TurnState.WAITING
        case TaskEventType.INTERRUPT_CONFIRMED if stopping is not None:
            stopping = replace(stopping, is_confirmed=True)
    if stage is not TaskStage.CANCELLING:  # also where a cancel was undone
        stopping = None
    return replace(state, stage=stage, turn=turn, stopping=stopping, cancel_requested=stopping is not None), ()


def _settled(state: TaskState, given: TurnEnded) -> TurnState:
    """How the end is recorded (law 5): a clean end that may have come after the interrupt is no proof of the work."""
    is_cancelling = state.stage is TaskStage.CANCELLING
    if is_cancelling and given.turn is TurnState.COMPLETED and not given.reported_before_interrupt_confirmed:
        return TurnState.INTERRUPTED
    return given.turn


def _end(state: TaskState, stage: TaskStage, turn: TurnState, *, is_proven: bool = True) -> Step:
    settled = TurnSettled(_turn_id(state), turn, state.cancel_requested, is_proven)
    if stage is TaskStage.PENDING:
        return _move_on(state, stage, state.prompts[0]), (settled,)
    return replace(state, stage=stage, turn=turn, stopping=None), (settled,)


def _turn_id(state: TaskState) -> TurnId:
    if state.turn_id is None:
        raise ContractError(f"task: no turn in state {state.stage.value}")
    return state.turn_id
