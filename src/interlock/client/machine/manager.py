"""Every open task of a client, each with its own machine, and one way in for what concerns them.

Laws:
1. A task has one machine while it is open. What comes for a task that is not open is dropped, and counted.
2. Generations go on across tasks and their reopening, so that no answer to a closed task fits an open one.
3. What happens to the socket or to the page happens to every task.
"""

from __future__ import annotations

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


class TaskStateManager:
    """The machines by task id. Whatever is called returns what is to be done, task by task."""

    def __init__(self, *, is_connected: bool = False) -> None:
        self.machines: dict[SessionId, TaskStateMachine] = {}
        self.is_connected = is_connected
        self.dropped = 0
        self._generation = 0

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
        self._generation = max(self._generation, machine.state.generation)
        return outputs

    def step(self, task_id: SessionId, input: TaskInput, now: float) -> Outputs:
        """Give an input to the machine of a task."""
        machine = self.machines.get(task_id)
        if machine is None:
            self.dropped += 1
            return []
        return [(task_id, output) for output in machine.step(input, now)]

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
        return self._tell_all(CheckRequested(CheckReason.PAGE_VISIBLE), now)

    def network_online(self, now: float) -> Outputs:
        """The machine is on a network again."""
        return self._tell_all(CheckRequested(CheckReason.NETWORK_ONLINE), now)

    def request_runtime_check(self, task_id: SessionId, reason: CheckReason, now: float) -> Outputs:
        """Ask where one task stands."""
        return self.step(task_id, CheckRequested(reason), now)

    @property
    def deadline(self) -> float | None:
        """When to call `fire`."""
        waits = (machine.deadline for machine in self.machines.values())
        return min((wait for wait in waits if wait is not None), default=None)

    def fire(self, now: float) -> Outputs:
        """Apply what is due by now."""
        due = [task for task, one in self.machines.items() if one.deadline is not None and one.deadline <= now]
        return [output for task in due for output in self.step(task, TimerFired(), now)]

    def _tell_all(self, input: TaskInput, now: float) -> Outputs:
        return [output for task in tuple(self.machines) for output in self.step(task, input, now)]
