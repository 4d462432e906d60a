"""Everything that a client decides about its tasks and its board, without a socket: what happened goes in, what to send
or to ask comes out. The shell carries it out.

Laws:
1. Each question goes out with the deadline that a task's machine gave it, and its answer comes back with its
   generation.
2. A refusal of 401, 403 or 404 is final; every other failure is asked again by the machine that asked.
3. A line of the board is a word on the status of a task that is open, and then news for whoever follows the board.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from interlock.client.machine.board import (
    Board,
    BoardOutput,
    BoardRefused,
    BoardRetryDue,
    BoardWanted,
    JoinBoard,
    LinesChanged,
    RetryBoard,
)
from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckFailed,
    CheckReason,
    Connected,
    Disconnected,
    EnsureConnected,
    Join,
    JoinAcked,
    JoinFailed,
    Leave,
    Output,
    PullRuntime,
    TaskInput,
)
from interlock.client.machine.manager import OnStep, Outputs, TaskStateManager, ignore_step
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import RuntimeCheck, TaskFrame, TaskSummary
from interlock.vocabulary.wire.requests import (
    BoardBehind,
    BoardJoin,
    BoardJoined,
    BoardTask,
    TaskBehind,
    TaskJoin,
    TaskJoined,
    TaskLeave,
    TaskResume,
)

FINAL_STATUSES: Final = frozenset({401, 403, 404})

PushedFrame: TypeAlias = TaskFrame | TaskBehind | BoardTask | BoardBehind
Question: TypeAlias = TaskJoin | TaskResume | TaskLeave | BoardJoin


@dataclass(frozen=True, slots=True)
class TaskFollowed:
    """Follow a task."""

    task_id: SessionId


@dataclass(frozen=True, slots=True)
class TaskLeft:
    """Follow it no longer."""

    task_id: SessionId


@dataclass(frozen=True, slots=True)
class TaskTold:
    """Something for the machine of a task alone, such as what a person did."""

    task_id: SessionId
    input: TaskInput = field(hash=False)


@dataclass(frozen=True, slots=True)
class LookedAgain:
    """Whatever was in the way may be gone."""

    reason: CheckReason


@dataclass(frozen=True, slots=True)
class FramePushed:
    """The server sent a frame that answers nothing."""

    frame: PushedFrame = field(hash=False)


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """The answer to a `SendRequest` of this task and generation (both None: to `board:join`)."""

    task_id: SessionId | None
    generation: int | None
    answer: TaskJoined | BoardJoined = field(hash=False)


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A `SendRequest` was refused, or not answered in time, or could not be sent. `status`: that of a refusal."""

    task_id: SessionId | None
    generation: int | None
    problem: str
    status: int | None = None


@dataclass(frozen=True, slots=True)
class CheckSucceeded:
    """The answer to a `CheckTask`."""

    task_id: SessionId
    generation: int
    check: RuntimeCheck


@dataclass(frozen=True, slots=True)
class CheckRefused:
    """A `CheckTask` was refused, or not answered in time. `status`: that of a refusal."""

    task_id: SessionId
    generation: int
    problem: str
    status: int | None = None


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A deadline may be due."""


@dataclass(frozen=True, slots=True)
class CheckTask:
    """GET the runtime check of a task, and give it up at the deadline."""

    task_id: SessionId
    generation: int
    deadline_at: float


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request by the socket, with an id of your own, and give it up at the deadline (None: your usual one). The
    answer to a `task:leave` is of no use."""

    request: Question
    task_id: SessionId | None = None
    generation: int | None = None
    deadline_at: float | None = None


@dataclass(frozen=True, slots=True)
class ReviveConnection:
    """A connection that is wanted and waits for its next attempt: try now."""


ClientInput: TypeAlias = (
    TaskFollowed
    | TaskLeft
    | TaskTold
    | LookedAgain
    | BoardWanted
    | Connected
    | Disconnected
    | FramePushed
    | RequestAnswered
    | RequestFailed
    | CheckSucceeded
    | CheckRefused
    | BoardRetryDue
    | TimePassed
)
ClientOutput: TypeAlias = CheckTask | SendRequest | EnsureConnected | ReviveConnection | RetryBoard | LinesChanged


class ClientMachine:
    """The tasks and the board of one client. `on_step` hears of each step of a task, before what it leads to."""

    def __init__(self, on_step: OnStep = ignore_step) -> None:
        self.manager = TaskStateManager(on_step=on_step)
        self.board = Board()

    @property
    def deadline(self) -> float | None:
        """When `TimePassed` is due."""
        return self.manager.deadline

    def step(self, input: ClientInput, now: float) -> list[ClientOutput]:
        """Take one input; what to do about it is returned, in order."""
        manager, board = self.manager, self.board
        match input:
            case TaskFollowed() | TaskLeft() | TaskTold() | CheckSucceeded() | CheckRefused():
                return self._take_of_task(input, now)
            case LookedAgain(reason):
                return [ReviveConnection(), *_requests(manager.look_again(reason, now))]
            case Connected():
                return [*_requests(manager.connected(now)), *self._follow(board.step(input), now)]
            case Disconnected(reason):
                board.step(input)
                return _requests(manager.disconnected(now, reason))
            case FramePushed(frame):
                return self._hear(frame, now)
            case RequestAnswered() | RequestFailed():
                return self._take_answer(input, now)
            case BoardWanted() | BoardRetryDue():
                return self._follow(board.step(input), now)
            case TimePassed():
                return _requests(manager.fire(now))
            case unreachable:
                assert_never(unreachable)

    def _take_of_task(
        self, input: TaskFollowed | TaskLeft | TaskTold | CheckSucceeded | CheckRefused, now: float
    ) -> list[ClientOutput]:
        manager = self.manager
        match input:
            case TaskFollowed(task_id):
                return _requests(manager.open(task_id, now))
            case TaskLeft(task_id):
                return _requests(manager.close(task_id, now))
            case TaskTold(task_id, told):
                return _requests(manager.step(task_id, told, now))
            case CheckSucceeded(task_id, generation, check):
                return _requests(manager.step(task_id, CheckAnswered(generation, check), now))
            case CheckRefused(task_id, generation, problem, status):
                failed = CheckFailed(generation, problem, is_gone=status in FINAL_STATUSES)
                return _requests(manager.step(task_id, failed, now))
            case unreachable:
                assert_never(unreachable)

    def _hear(self, frame: PushedFrame, now: float) -> list[ClientOutput]:
        if isinstance(frame, BoardTask | BoardBehind):
            return self._follow(self.board.step(frame), now)
        return _requests(self.manager.route(frame, now))

    def _take_answer(self, input: RequestAnswered | RequestFailed, now: float) -> list[ClientOutput]:
        match input:
            case RequestAnswered(task_id=None, answer=BoardJoined() as joined):
                return self._follow(self.board.step(joined), now)
            case RequestFailed(task_id=None):
                return self._follow(self.board.step(BoardRefused()), now)
            case RequestAnswered(str() as task_id, int() as generation, TaskJoined(snapshot=snapshot)):
                return _requests(self.manager.step(task_id, JoinAcked(generation, snapshot), now))
            case RequestFailed(str() as task_id, int() as generation, problem, status):
                failed = JoinFailed(generation, problem, is_final=status in FINAL_STATUSES)
                return _requests(self.manager.step(task_id, failed, now))
            case _:
                return []

    def _follow(self, outputs: Iterable[BoardOutput], now: float) -> list[ClientOutput]:
        """Carry out what the board asks for; its lines are news for the tasks that are open, too."""
        made: list[ClientOutput] = []
        for output in outputs:
            if isinstance(output, JoinBoard):
                made.append(SendRequest(BoardJoin(id="")))
                continue
            if isinstance(output, LinesChanged):
                for line in output.lines:
                    made += self._hear_line(line, now)
            made.append(output)
        return made

    def _hear_line(self, line: TaskSummary, now: float) -> list[ClientOutput]:
        if line.task_id not in self.manager.machines:
            return []
        heard = self.manager.handle_task_status(
            line.task_id,
            task_status=line.task_status,
            version=line.version,
            turn_id=line.turn_id,
            status_updated_at=line.status_updated_at,
            now=now,
        )
        return _requests(heard)


def _requests(outputs: Outputs) -> list[ClientOutput]:
    return [_request(task_id, output) for task_id, output in outputs]


def _request(task_id: SessionId, output: Output) -> ClientOutput:
    match output:
        case PullRuntime(generation, _, deadline_at):
            return CheckTask(task_id, generation, deadline_at)
        case Join():
            return SendRequest(_entry(task_id, output), task_id, output.generation, output.deadline_at)
        case Leave():
            return SendRequest(TaskLeave(id="", task_id=task_id), task_id)
        case EnsureConnected():
            return output
        case unreachable:
            assert_never(unreachable)


def _entry(task_id: SessionId, asked: Join) -> TaskJoin | TaskResume:
    if not asked.is_resume:
        return TaskJoin(id="", task_id=task_id, after_version=asked.after_version)
    version, cursor = asked.after_version or 0, asked.cursor
    return TaskResume(id="", task_id=task_id, version=version, stream_id=asked.stream_id, cursor=cursor)
