"""Every open task of a client, each with its own machine, and one way in for what concerns them.

Laws:
1. A task has one machine while it is open. What comes for a task that is not open is dropped, and counted.
2. Generations go on across tasks and their reopening, so that no answer to a closed task fits an open one.
3. What happens to the socket or to the page happens to every task.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeAlias

from interlock.client.machine.inputs import (
    CheckReason,
    CheckRequested,
    Closed,
    Connected,
    DetailSynced,
    Disconnected,
    FellBehind,
    FrameArrived,
    Opened,
    Output,
    StatusHeard,
    TaskInput,
    TimerFired,
)
from interlock.client.machine.state import TaskState
from interlock.client.machine.task_machine import TaskStateMachine
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.wire.frames import TaskFrame
from interlock.vocabulary.wire.requests import TaskBehind

Outputs: TypeAlias = list[tuple[SessionId, Output]]
OnStep: TypeAlias = Callable[[SessionId, TaskState, TaskInput, TaskState], None]


def ignore_step(_task_id: SessionId, _before: TaskState, _input: TaskInput, _after: TaskState) -> None:
    """For a caller that looks at the states by itself."""


class TaskStateManager:
    """The machines by task id. Each call returns what is to be done, task by task. `on_step` is called after each step
    that changed something, with the states before and after it."""

    def __init__(self, *, is_connected: bool = False, on_step: OnStep = ignore_step) -> None:
        self.machines: dict[SessionId, TaskStateMachine] = {}
        self.is_connected = is_connected
        self.dropped = 0
        self._generation = 0
        self._on_step = on_step
        self._deadlines: dict[SessionId, float] = {}

    def state(self, task_id: SessionId) -> TaskState | None:
        """How a task stands; None if it is not open."""
        machine = self.machines.get(task_id)
        return None if machine is None else machine.state

    def open(self, task_id: SessionId, now: float) -> Outputs:
        """Look at a task. To open it again is to look again."""
        if task_id not in self.machines:
            self.machines[task_id] = TaskStateMachine(
                task_id, is_connected=self.is_connected, generation=self._generation
            )
        return self.step(task_id, Opened(), now)

    def close(self, task_id: SessionId, now: float) -> Outputs:
        """Look away. What is under way for it is void."""
        if task_id not in self.machines:
            return []
        outputs = self.step(task_id, Closed(), now)
        machine = self.machines.pop(task_id)
        self._deadlines.pop(task_id, None)
        self._generation = max(self._generation, machine.state.generation)
        return outputs

    def step(self, task_id: SessionId, input: TaskInput, now: float) -> Outputs:
        """Give an input to the machine of a task."""
        machine = self.machines.get(task_id)
        if machine is None:
            self.dropped += 1
            return []
        before = machine.state
        outputs = machine.step(input, now)
        if machine.state is not before:
            self._note_deadline(task_id, machine.deadline)
            self._on_step(task_id, before, input, machine.state)
        return [(task_id, output) for output in outputs]

    def sync_task_detail(
        self,
        task_id: SessionId,
        *,
        task_status: str | None,
        version: int,
        turn_id: TurnId | None = None,
        status_updated_at: Moment | None = None,
        now: float,
    ) -> Outputs:
        """Feed what another page of the server told of a task, such as its detail or its line in a list."""
        heard = DetailSynced(
            task_status=task_status, version=version, turn_id=turn_id, status_updated_at=status_updated_at
        )
        return self.step(task_id, heard, now)

    def handle_task_status(
        self,
        task_id: SessionId,
        *,
        task_status: str | None,
        version: int,
        turn_id: TurnId | None = None,
        status_updated_at: Moment | None = None,
        now: float,
    ) -> Outputs:
        """Feed a word on a task that was pushed outside its room, as by the board."""
        heard = StatusHeard(
            task_status=task_status, version=version, turn_id=turn_id, status_updated_at=status_updated_at
        )
        return self.step(task_id, heard, now)

    def route(self, frame: TaskFrame | TaskBehind, now: float) -> Outputs:
        """Hand a frame to the task that it is of."""
        if isinstance(frame, TaskBehind):
            return self.step(frame.task_id, FellBehind(frame.version, frame.tick), now)
        return self.step(frame.task_id, FrameArrived(frame), now)

    def connected(self, now: float) -> Outputs:
        """There is a new socket."""
        self.is_connected = True
        return self._tell_all(Connected(), now)

    def disconnected(self, now: float, reason: str = "") -> Outputs:
        """The socket is gone."""
        self.is_connected = False
        return self._tell_all(Disconnected(reason), now)

    def page_visible(self, now: float) -> Outputs:
        """Somebody looks again."""
        return self.look_again(CheckReason.PAGE_VISIBLE, now)

    def network_online(self, now: float) -> Outputs:
        """The machine is on a network again."""
        return self.look_again(CheckReason.NETWORK_ONLINE, now)

    def look_again(self, reason: CheckReason, now: float) -> Outputs:
        """Ask where every task stands."""
        return self._tell_all(CheckRequested(reason), now)

    def request_runtime_check(self, task_id: SessionId, reason: CheckReason, now: float) -> Outputs:
        """Ask where one task stands."""
        return self.step(task_id, CheckRequested(reason), now)

    @property
    def deadline(self) -> float | None:
        """When to call `fire`."""
        return min(self._deadlines.values(), default=None)

    def fire(self, now: float) -> Outputs:
        """Apply what is due by now, in the order in which the tasks were opened."""
        due = [task for task in self.machines if self._deadlines.get(task, inf) <= now]
        return [output for task in due for output in self.step(task, TimerFired(), now)]

    def _note_deadline(self, task_id: SessionId, due_at: float | None) -> None:
        if due_at is None:
            self._deadlines.pop(task_id, None)
        else:
            self._deadlines[task_id] = due_at

    def _tell_all(self, input: TaskInput, now: float) -> Outputs:
        return [output for task in tuple(self.machines) for output in self.step(task, input, now)]
