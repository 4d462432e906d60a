"""The frames of one task for one reader: each in order, none twice, and what was lost made up for.

Laws:
1. A frame is told when the machine took it: what it drops as a double, or puts off, is not told.
2. After a join or a resume the reader is told the difference. Messages that the server left out because they are many
   are a `Hole`, which the reader fills from the pages of the transcript before it goes on.
3. What waits for a reader is bounded. One that is too slow loses frames, not facts: it is told the difference.
4. The status is told by what the room says, after what it is about; a check that is quicker does not overtake it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from interlock.client.machine.catching_up import frames_between, status_frame
from interlock.client.machine.inputs import FrameArrived, JoinAcked, TaskInput
from interlock.client.machine.state import TaskState
from interlock.vocabulary.ids import StreamId, TurnId
from interlock.vocabulary.wire.frames import (
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatStart,
    TaskFrame,
    TaskStatusChanged,
)

MAX_UNREAD: Final = 1_000


@dataclass(frozen=True, slots=True)
class Hole:
    """Messages that are not here: those after `after`, up to and without `before`."""

    after: int
    before: int


Told: TypeAlias = TaskFrame | Hole


class FrameFeed:
    """One reader. `told` is what it knows when it has read all that waits."""

    def __init__(self, state: TaskState, *, has_history: bool = False, limit: int = MAX_UNREAD) -> None:
        self._limit = limit
        self._waiting: deque[Told] = deque()
        self._is_behind = False
        is_new = has_history or not state.synced_version  # what nobody has seen yet is news
        self._told = TaskState(task_id=state.task_id) if is_new else state
        self._told_status: tuple[str | None, TurnId | None] = (None, None) if is_new else _status(state)
        self._stream = self._told.stream
        self._has_history = has_history
        if has_history and state.synced_version:
            self._catch_up(state)

    def step(self, before: TaskState, input: TaskInput, after: TaskState) -> None:
        """See what one input did to the machine."""
        if self._is_behind:
            return
        if isinstance(input, FrameArrived):
            taken = _taken(before, input.frame, after)
            if taken and not self._has_room_for(len(taken)):
                self._is_behind = True
            elif taken:
                self._tell(_readable(before, taken))
                self._told = after
                self._follow_stream(taken, after)
        elif isinstance(input, JoinAcked) and _is_accepted(before, input):
            self._catch_up(after)

    def next(self, state: TaskState) -> Told | None:
        """What the reader is told next; None if it knows everything that `state` has to tell."""
        if not self._waiting and self._is_behind:
            self._is_behind = False
            self._catch_up(state)
        return self._waiting.popleft() if self._waiting else None

    def _has_room_for(self, count: int) -> bool:
        return len(self._waiting) + count <= self._limit

    def _catch_up(self, state: TaskState) -> None:
        """Tell the difference. It is bounded by what a state holds, and replaces whatever more would have come."""
        hole = _hole(self._told, state, has_history=self._has_history)
        more: list[Told] = [*(() if hole is None else (hole,)), *frames_between(self._told, state, self._stream)]
        if self._waiting and not self._has_room_for(len(more)):
            self._is_behind = True
            return
        self._tell(more)
        if state.status_version <= state.room_version:  # else it is a check's, and the room has more to say before it
            self._tell((status_frame(state),))
        self._told, self._stream = state, state.stream

    def _follow_stream(self, taken: Iterable[TaskFrame], after: TaskState) -> None:
        """For the machine a stream is over when its message is there; for the reader, when its end was told."""
        ended = {frame.stream_id for frame in taken if isinstance(frame, ChatDone | ChatError | ChatCancelled)}
        if after.stream is not None:
            self._stream = after.stream
        elif self._stream is not None and self._stream.stream_id in ended:
            self._stream = None

    def _tell(self, more: Iterable[Told]) -> None:
        for one in more:
            if isinstance(one, TaskStatusChanged):
                status = (one.task_status, one.turn_id)
                if status == self._told_status:
                    continue
                self._told_status = status
            self._waiting.append(one)


def _status(state: TaskState) -> tuple[str | None, TurnId | None]:
    return state.status, state.turn_id


def _taken(before: TaskState, frame: TaskFrame, after: TaskState) -> list[TaskFrame]:
    """The frames that the machine took in one step: the new one, and those that had waited for it."""
    if before.tick is None or after.tick is None or after.tick <= before.tick:
        return []
    known = {one.tick: one for one in (frame, *before.early)}
    return [known[tick] for tick in range(before.tick + 1, after.tick + 1) if tick in known]


def _readable(before: TaskState, frames: Iterable[TaskFrame]) -> Iterable[TaskFrame]:
    """Leave out text that has no place: the machine does not take it either, and asks for what is missing."""
    live: dict[StreamId, int] = {} if before.stream is None else {before.stream.stream_id: before.stream.cursor}
    for frame in frames:
        if isinstance(frame, ChatStart):
            live = {frame.stream_id: 0}
        elif isinstance(frame, ChatChunk):
            if frame.stream_id in before.ended_streams or frame.offset > live.get(frame.stream_id, 0):
                continue
            live = {frame.stream_id: frame.offset + len(frame.text)}
        yield frame


def _is_accepted(before: TaskState, input: JoinAcked) -> bool:
    return before.joining is not None and before.joining.generation == input.generation


def _hole(told: TaskState, state: TaskState, *, has_history: bool) -> Hole | None:
    """Where the messages that are told and those that are here do not meet."""
    if state.history_before is None or not state.messages:
        return None
    last = max((message.message_id for message in told.messages), default=0)
    is_apart = state.messages[0].message_id > last and (last > 0 or has_history)
    is_new = told.history_before != state.history_before or not told.messages
    return Hole(last, state.history_before) if is_apart and is_new else None
