"""The shell of the machines: does what they ask for, and tells them what came of it.

Laws:
1. One input at a time: what an output leads to at once waits until the input before it is through.
2. The shell decides nothing about a task. Each question goes out with the deadline that the machine gave it, and its
   answer comes back with its generation.
3. One timer, for the earliest deadline. It may ring too early, never too late.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol, assert_never

from interlock.client.board_feed import BoardFeed, OnLines
from interlock.client.errors import Refusal
from interlock.client.machine.board import Board
from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckFailed,
    CheckReason,
    CheckRequested,
    Connected,
    Disconnected,
    EnsureConnected,
    FellBehind,
    FrameArrived,
    Join,
    JoinAcked,
    JoinFailed,
    Leave,
    Output,
    PullRuntime,
    StatusHeard,
    TaskInput,
    TimerFired,
)
from interlock.client.machine.manager import TaskStateManager
from interlock.client.machine.state import TaskState
from interlock.client.timeouts import Chance, ClientTimeouts
from interlock.client.transport.api import Api
from interlock.client.transport.connection import Connection, Pushed
from interlock.client.transport.discovery import Address
from interlock.client.transport.http import Http
from interlock.client.transport.pending_answers import Answer
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import (
    BoardBehind,
    BoardTask,
    TaskBehind,
    TaskJoin,
    TaskJoined,
    TaskLeave,
    TaskResume,
)

_GONE: Final = frozenset({401, 403, 404})


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
        self._board = BoardFeed(self.connection, self._hear_lines, self._patience, chance)
        self._on_lines = on_lines
        self._on_edge = on_edge
        self._manager = TaskStateManager()
        self._watchers: dict[SessionId, TaskWatcher] = {}
        self._inbox: deque[tuple[SessionId, TaskInput]] = deque()
        self._is_deciding = False
        self._timer: asyncio.TimerHandle | None = None
        self._pulling: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._closing = asyncio.Lock()

    @property
    def board(self) -> Board:
        return self._board.board

    @property
    def problem(self) -> InterlockError | None:
        """Why there will be no connection, whatever is waited for."""
        return self.connection.problem

    # Tasks

    def open(self, task_id: SessionId, watcher: TaskWatcher) -> None:
        """Follow a task. One watcher a task."""
        self._refuse_if_closed()
        self._watchers[task_id] = watcher
        outputs = self._manager.open(task_id, self._now())
        self._carry_out(outputs)
        self._arm(task_id)

    def close_task(self, task_id: SessionId) -> None:
        """Follow it no longer."""
        self._watchers.pop(task_id, None)
        self._carry_out(self._manager.close(task_id, self._now()))

    def state(self, task_id: SessionId) -> TaskState | None:
        return self._manager.state(task_id)

    def feed(self, task_id: SessionId, input: TaskInput) -> None:
        """Tell the machine of a task something."""
        self._inbox.append((task_id, input))
        self._decide()

    def look_again(self, reason: CheckReason) -> None:
        """Whatever was in the way may be gone: connect, and check every task."""
        self.connection.revive()
        for task_id in tuple(self._manager.machines):
            self.feed(task_id, CheckRequested(reason))

    async def close(self) -> None:
        """Leave, and end everything that is under way. Nothing of it is left when this returns, also where another call
        began to close."""
        async with self._closing:
            await self._end()

    async def _end(self) -> None:
        self._is_closed = True
        for task_id in tuple(self._manager.machines):
            self.close_task(task_id)
        self._board.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._pulling:
            task.cancel()
        await asyncio.gather(*self._pulling, return_exceptions=True)
        await self.connection.close()
        await self._http.close()

    # Deciding

    def _decide(self) -> None:
        if self._is_deciding:
            return
        self._is_deciding = True
        try:
            while self._inbox:
                self._take(*self._inbox.popleft())
        finally:
            self._is_deciding = False

    def _take(self, task_id: SessionId, input: TaskInput) -> None:
        before = self._manager.state(task_id)
        outputs = self._manager.step(task_id, input, self._now())
        after = self._manager.state(task_id)
        watcher = self._watchers.get(task_id)
        if watcher is not None and before is not None and after is not None and after is not before:
            watcher.stepped(before, input, after)
        self._carry_out(outputs)
        self._arm(task_id)

    def _carry_out(self, outputs: Iterable[tuple[SessionId, Output]]) -> None:
        for task_id, output in outputs:
            match output:
                case PullRuntime():
                    self._pull(task_id, output)
                case Join():
                    self._join(task_id, output)
                case EnsureConnected():
                    self.connection.ensure()
                case Leave():
                    self._leave(task_id)
                case unreachable:
                    assert_never(unreachable)

    # The timer

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _arm(self, task_id: SessionId) -> None:
        """Have the timer ring by the deadline of a task. A deadline that went away is noticed when it does."""
        machine = self._manager.machines.get(task_id)
        due_at = None if machine is None else machine.deadline
        if due_at is None or self._is_closed or (self._timer is not None and self._timer.when() <= due_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._now()
        for task_id, machine in tuple(self._manager.machines.items()):
            if machine.deadline is not None and machine.deadline <= now:
                self._inbox.append((task_id, TimerFired()))
        self._decide()
        for task_id in self._manager.machines:
            self._arm(task_id)

    # Checks

    def _pull(self, task_id: SessionId, asked: PullRuntime) -> None:
        if self._is_closed:
            return
        task = asyncio.create_task(self._check(task_id, asked), name=f"interlock check {task_id}")
        self._pulling.add(task)
        task.add_done_callback(self._pulling.discard)

    async def _check(self, task_id: SessionId, asked: PullRuntime) -> None:
        seconds = max(0.001, asked.deadline_at - self._now())
        try:
            check = await self.api.runtime_check(task_id, seconds=seconds)
        except InterlockError as failed:
            is_gone = isinstance(failed, Refusal) and failed.status in _GONE
            self.feed(task_id, CheckFailed(asked.generation, str(failed), is_gone=is_gone))
        else:
            self.feed(task_id, CheckAnswered(asked.generation, check))

    # Rooms

    def _join(self, task_id: SessionId, asked: Join) -> None:
        def answered(outcome: Answer | InterlockError) -> None:
            if isinstance(outcome, TaskJoined):
                self.feed(task_id, JoinAcked(asked.generation, outcome.snapshot))
                return
            is_final = isinstance(outcome, Refusal) and outcome.status in _GONE
            self.feed(task_id, JoinFailed(asked.generation, str(outcome), is_final=is_final))

        request_id = self.connection.new_id()
        request: TaskJoin | TaskResume
        if asked.is_resume:
            request = TaskResume(
                id=request_id,
                task_id=task_id,
                version=asked.after_version or 0,
                stream_id=asked.stream_id,
                cursor=asked.cursor,
            )
        else:
            request = TaskJoin(id=request_id, task_id=task_id, after_version=asked.after_version)
        try:
            self.connection.post(request, answered, max(0.001, asked.deadline_at - self._now()))
        except (Unreachable, UsageError) as failed:
            self.feed(task_id, JoinFailed(asked.generation, str(failed)))

    def _leave(self, task_id: SessionId) -> None:
        if self.connection.is_connected:
            request = TaskLeave(id=self.connection.new_id(), task_id=task_id)
            try:
                self.connection.post(request, lambda _: None)
            except (Unreachable, UsageError):
                return  # whoever is not heard is no longer in the room either, or is told what is not wanted

    # The socket

    def _hear(self, pushed: Pushed) -> None:
        if isinstance(pushed, BoardTask | BoardBehind):
            self._board.hear(pushed)
            return
        before = self._manager.state(pushed.task_id)
        if before is None:
            self._manager.dropped += 1
        elif isinstance(pushed, TaskBehind):
            self.feed(pushed.task_id, FellBehind(pushed.version, pushed.tick))
        else:
            self.feed(pushed.task_id, FrameArrived(pushed))

    def _turn(self, is_connected: bool, reason: str) -> None:
        self._manager.is_connected = is_connected
        if not is_connected:
            self._board.disconnect()
        input = Connected() if is_connected else Disconnected(reason)
        for task_id in tuple(self._manager.machines):
            self.feed(task_id, input)
        if is_connected:
            self._board.connect()
        self._on_edge()

    # The board

    def want_board(self) -> None:
        """From now on, follow the lines of the board."""
        self._refuse_if_closed()
        self._board.want()

    def _hear_lines(self, lines: tuple[TaskSummary, ...]) -> None:
        for line in lines:
            if line.task_id in self._manager.machines:
                self.feed(
                    line.task_id,
                    StatusHeard(
                        task_status=line.task_status,
                        version=line.version,
                        turn_id=line.turn_id,
                        status_updated_at=line.status_updated_at,
                    ),
                )
        self._on_lines(lines)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise UsageError("this client is closed", remedy="make a new one")
