"""What must hold of every client, at every moment of a simulation and after it.

Laws while faults happen:
1. A client shows only a status, of a turn, that its server had at that version.
2. The version that a client knows never goes back while the task is open.
3. Text whose message has come never streams again, and a finished message never becomes an unfinished one.
4. Live text is always a beginning of what the server said of that stream.
5. A client without a socket says so, and does not call verified what it heard by that socket.
6. In a room, ticks never go back, and what is waiting to be taken lies ahead. What is in doubt has a deadline. What is
   over is not being stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from interlock.client.machine.inputs import CheckAnswered, Connected, Disconnected, JoinAcked, TaskInput
from interlock.client.machine.state import SyncState, TaskState
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.testing.sim.server import SimulatedServer
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.wire.frames import MessageStatus

_OPEN_MESSAGES: Final = frozenset({MessageStatus.RUNNING, MessageStatus.WAITING})


class SimulationLawBroken(AssertionError):
    """A law does not hold."""


@dataclass(slots=True)
class Witness:
    """What one client showed of one task so far."""

    server: SimulatedServer
    task_id: SessionId
    version: int = 0
    tick: int = 0
    told: set[StreamId] = field(default_factory=set)
    finished: dict[int, MessageStatus] = field(default_factory=dict)
    is_out_of_touch: bool = True

    def see(self, state: TaskState | None, input: TaskInput | None, *, has_socket: bool) -> None:
        """Hold a state against the laws; `input` is what led to it, where that is known. None: it was closed."""
        if state is None:
            self.version = self.tick = 0
            self.told.clear()
            self.finished.clear()
            return
        if isinstance(input, CheckAnswered | JoinAcked):
            self.is_out_of_touch = False
        elif isinstance(input, Disconnected):
            self.is_out_of_touch = True  # what was known is not known any more
        self._see_status(state)
        self._see_messages(state)
        self._see_stream(state)
        self._see_room(state, input)
        if state.is_connected is not has_socket:
            raise SimulationLawBroken(f"it says is_connected={state.is_connected}, and its socket says {has_socket}")
        if self.is_out_of_touch and (state.is_verified or (state.connection != "disconnected" and not has_socket)):
            raise SimulationLawBroken(
                f"nothing was heard since the socket went, and it is {state.connection}, {state.is_verified=}"
            )

    def _see_status(self, state: TaskState) -> None:
        if state.version < self.version:
            raise SimulationLawBroken(f"version went back from {self.version} to {state.version}")
        self.version = state.version
        if state.status_version == 0 and state.status is None:
            return
        had = self.server.statuses[self.task_id].get(state.status_version, set())
        if (state.status, state.turn_id) not in had:
            raise SimulationLawBroken(
                f"it shows {state.status} of {state.turn_id} at version {state.status_version}, where the server had "
                f"{sorted(map(str, had))}"
            )

    def _see_room(self, state: TaskState, input: TaskInput | None) -> None:
        if isinstance(input, Connected | Disconnected) or state.tick is None:
            self.tick = 0
        elif state.tick < self.tick:
            raise SimulationLawBroken(f"tick went back from {self.tick} to {state.tick}")
        self.tick = state.tick or 0
        if any(frame.tick <= self.tick for frame in state.early):
            raise SimulationLawBroken(
                f"at tick {self.tick} it still waits to take {[frame.tick for frame in state.early]}"
            )
        if state.is_unstable and state.deadline is None:
            raise SimulationLawBroken("it doubts, and nothing is due")
        if state.is_stopping and classify(state.status) is StatusClass.TERMINAL:
            raise SimulationLawBroken(f"it is {state.status}, and stopping")

    def _see_messages(self, state: TaskState) -> None:
        for message in state.messages:
            if message.stream_id is not None:
                self.told.add(message.stream_id)
            before = self.finished.get(message.message_id)
            if before is not None and before not in _OPEN_MESSAGES and message.status in _OPEN_MESSAGES:
                raise SimulationLawBroken(
                    f"message {message.message_id} was {before.value} and is {message.status.value}"
                )
            self.finished[message.message_id] = message.status
        for copy in state.interrupted:
            if copy.status is not MessageStatus.INTERRUPTED:
                raise SimulationLawBroken(f"text that broke off is shown as {copy.status.value}")

    def _see_stream(self, state: TaskState) -> None:
        stream = state.stream
        if stream is None:
            return
        if stream.stream_id in self.told:
            raise SimulationLawBroken(f"stream {stream.stream_id} has its message, and streams")
        said = self.server.texts.get(stream.stream_id, [])
        if stream.text and not any(text.startswith(stream.text) for text in said):
            raise SimulationLawBroken(
                f"stream {stream.stream_id} shows {stream.text!r}, of which the server said {said!r}"
            )


def settled(state: TaskState) -> str:
    """What is still open in a state that should be at rest; empty if nothing is."""
    waits = {
        "a check": state.check is not None and not state.is_blocked_here,  # a held message asks again and again
        "a follow-up": state.follow_up is not None,
        "a join": state.joining is not None,
        "early frames": bool(state.early),
        "a socket": state.sync is SyncState.WAITING_SOCKET,
        "a stop": state.is_stopping,
        "a prompt of its own": state.awaiting_send,
        "verification": not state.is_verified,
    }
    return ", ".join(name for name, is_open in waits.items() if is_open)
