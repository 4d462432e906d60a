"""The shell of the client's machine: does what it asks for, and feeds back what came of it.

Laws:
1. One input at a time: what an output leads to at once waits until the input before it is through.
2. The shell decides nothing: see `ClientMachine`. It keeps the time, the ids of requests and the chance in a delay.
3. One timer, for the earliest deadline. It may ring too early, never too late.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias, assert_never

from msgspec import structs

from interlock.client.errors import Refusal
from interlock.client.machine.board import Board, BoardRetryDue, BoardWanted, LinesChanged, RetryBoard
from interlock.client.machine.client_machine import (
    CheckRefused,
    CheckSucceeded,
    CheckTask,
    ClientInput,
    ClientMachine,
    ClientOutput,
    FramePushed,
    LookedAgain,
    PushedFrame,
    RequestAnswered,
    RequestFailed,
    ReviveConnection,
    SendRequest,
    TaskFollowed,
    TaskLeft,
    TaskTold,
    TimePassed,
)
from interlock.client.machine.inputs import CheckReason, Connected, Disconnected, EnsureConnected, TaskInput
from interlock.client.machine.state import TaskState
from interlock.client.timeouts import Chance, ClientTimeouts, delay_before
from interlock.client.transport.api import Api
from interlock.client.transport.connection import Connection
from interlock.client.transport.discovery import Address
from interlock.client.transport.http import Http
from interlock.client.transport.pending_answers import Answer
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardJoined, TaskJoined, TaskLeave

OnLines: TypeAlias = Callable[[tuple[TaskSummary, ...]], None]


class TaskWatcher(Protocol):
    """Somebody who wants to know what happens to a task."""

    def stepped(self, before: TaskState, input: TaskInput, after: TaskState) -> None: ...


class ClientShell:
    """Every task that one client has open, over one connection. `on_lines` hears of lines of the board that changed,
    `on_edge` of each change of the connection."""

    def __init__(
        self,
        address: Address,
        *,
        patience: ClientTimeouts | None = None,
        chance: Chance = random.random,
        on_lines: OnLines = lambda _: None,
        on_edge: Callable[[], None] = lambda: None,
    ) -> None:
        self._patience = patience or ClientTimeouts()
        self._http = Http(address, patience=self._patience, chance=chance)
        self.api = Api(self._http)
        self.connection = Connection(
            address, on_push=self._hear, on_edge=self._turn, patience=self._patience, chance=chance
        )
        self._on_lines = on_lines
        self._on_edge = on_edge
        self._chance = chance
        self._machine = ClientMachine(self._tell)
        self._watchers: dict[SessionId, TaskWatcher] = {}
        self._inbox: deque[ClientInput] = deque()
        self._is_deciding = False
        self._timer: asyncio.TimerHandle | None = None
        self._board_timer: asyncio.TimerHandle | None = None
        self._pulling: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._closing = asyncio.Lock()

    @property
    def board(self) -> Board:
        return self._machine.board

    @property
    def problem(self) -> InterlockError | None:
        """Why there will be no connection, whatever is waited for."""
        return self.connection.problem

    # What a client asks for

    def open(self, task_id: SessionId, watcher: TaskWatcher) -> None:
        """Follow a task. One watcher a task."""
        self._refuse_if_closed()
        self._take(TaskFollowed(task_id))
        self._watchers[task_id] = watcher

    def close_task(self, task_id: SessionId) -> None:
        """Follow it no longer."""
        self._watchers.pop(task_id, None)
        self._take(TaskLeft(task_id))

    def state(self, task_id: SessionId) -> TaskState | None:
        return self._machine.manager.state(task_id)

    def feed(self, task_id: SessionId, input: TaskInput) -> None:
        """Tell the machine of a task something."""
        self._take(TaskTold(task_id, input))

    def look_again(self, reason: CheckReason) -> None:
        """Whatever was in the way may be gone: connect, and check every task."""
        self._take(LookedAgain(reason))

    def want_board(self) -> None:
        """From now on, follow the lines of the board."""
        self._refuse_if_closed()
        self._take(BoardWanted())

    async def close(self) -> None:
        """Leave, and end everything that is under way. Nothing of it is left when this returns, also where another call
        began to close."""
        async with self._closing:
            await self._end()

    async def _end(self) -> None:
        self._is_closed = True
        for task_id in tuple(self._machine.manager.machines):
            self.close_task(task_id)
        for timer in (self._timer, self._board_timer):
            if timer is not None:
                timer.cancel()
        for task in self._pulling:
            task.cancel()
        await asyncio.gather(*self._pulling, return_exceptions=True)
        await self.connection.close()
        await self._http.close()

    # Deciding

    def _take(self, input: ClientInput) -> None:
        self._inbox.append(input)
        if self._is_deciding:
            return
        self._is_deciding = True
        try:
            while self._inbox:
                for output in self._machine.step(self._inbox.popleft(), self._now()):
                    self._carry_out(output)
        finally:
            self._is_deciding = False
        self._arm()

    def _tell(self, task_id: SessionId, before: TaskState, input: TaskInput, after: TaskState) -> None:
        watcher = self._watchers.get(task_id)
        if watcher is not None:
            watcher.stepped(before, input, after)

    def _carry_out(self, output: ClientOutput) -> None:
        match output:
            case CheckTask():
                self._pull(output)
            case SendRequest():
                self._send(output)
            case EnsureConnected():
                self.connection.ensure()
            case ReviveConnection():
                self.connection.revive()
            case RetryBoard(failures):
                self._delay_board(failures)
            case LinesChanged(lines):
                self._on_lines(lines)
            case unreachable:
                assert_never(unreachable)

    # Time

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _arm(self) -> None:
        """Have the timer ring by the earliest deadline. A deadline that went away is noticed when it does."""
        due_at = self._machine.deadline
        if due_at is None or self._is_closed or (self._timer is not None and self._timer.when() <= due_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._take(TimePassed())

    def _delay_board(self, failures: int) -> None:
        if self._is_closed:
            return
        if self._board_timer is not None:
            self._board_timer.cancel()
        delay = delay_before(failures, self._chance, self._patience)
        self._board_timer = asyncio.get_running_loop().call_later(delay, self._take, BoardRetryDue())

    # Questions

    def _pull(self, asked: CheckTask) -> None:
        if self._is_closed:
            return
        task = asyncio.create_task(self._check(asked), name=f"interlock check {asked.task_id}")
        self._pulling.add(task)
        task.add_done_callback(self._pulling.discard)

    async def _check(self, asked: CheckTask) -> None:
        seconds = max(0.001, asked.deadline_at - self._now())
        try:
            check = await self.api.runtime_check(asked.task_id, seconds=seconds)
        except InterlockError as failed:
            self._take(CheckRefused(asked.task_id, asked.generation, str(failed), _status(failed)))
        else:
            self._take(CheckSucceeded(asked.task_id, asked.generation, check))

    def _send(self, asked: SendRequest) -> None:
        def answered(outcome: Answer | InterlockError) -> None:
            if isinstance(outcome, TaskJoined | BoardJoined):
                self._take(RequestAnswered(asked.task_id, asked.generation, outcome))
            elif not isinstance(asked.request, TaskLeave):
                status = _status(outcome) if isinstance(outcome, InterlockError) else None
                self._take(RequestFailed(asked.task_id, asked.generation, str(outcome), status))

        request = structs.replace(asked.request, id=self.connection.new_id())
        seconds = None if asked.deadline_at is None else max(0.001, asked.deadline_at - self._now())
        try:
            self.connection.post(request, answered, seconds)
        except (Unreachable, UsageError) as failed:
            answered(failed)

    # The socket

    def _hear(self, pushed: PushedFrame) -> None:
        self._take(FramePushed(pushed))

    def _turn(self, is_connected: bool, reason: str) -> None:
        self._take(Connected() if is_connected else Disconnected(reason))
        self._on_edge()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise UsageError("this client is closed", remedy="make a new one")


def _status(failed: InterlockError) -> int | None:
    return failed.status if isinstance(failed, Refusal) else None
