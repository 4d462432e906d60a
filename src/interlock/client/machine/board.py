"""The board as a client follows it: one line for each task, joined when it is wanted, and again after each loss.

Laws:
1. While we are on the board its next tick is taken, an earlier one is a double, and a later one shows that a line was
   lost: then the board is asked for again, as a whole.
2. What is told is what changed: a line that is the same after a loss is no news.
3. Of two lines of one task the one with the higher version holds, whichever came first.
4. One question is open at a time. One that failed is asked again after a delay, which the caller draws from the number
   of failures in a row. A new connection has no failures, no question and no place on the board.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from interlock.client.machine.inputs import Connected, Disconnected, EnsureConnected
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardBehind, BoardJoined, BoardTask


@dataclass(frozen=True, slots=True)
class BoardWanted:
    """From now on, follow the board."""


@dataclass(frozen=True, slots=True)
class BoardRefused:
    """The question was not answered, or with a problem."""


@dataclass(frozen=True, slots=True)
class BoardRetryDue:
    """The delay after a failure is over."""


@dataclass(frozen=True, slots=True)
class JoinBoard:
    """Send `board:join`."""


@dataclass(frozen=True, slots=True)
class RetryBoard:
    """Come back with `BoardRetryDue` after a delay for so many failures in a row."""

    failures: int


@dataclass(frozen=True, slots=True)
class LinesChanged:
    """Lines that are new, or changed, in the order of their arrival."""

    lines: tuple[TaskSummary, ...]


BoardInput: TypeAlias = (
    BoardWanted | Connected | Disconnected | BoardJoined | BoardRefused | BoardTask | BoardBehind | BoardRetryDue
)
BoardOutput: TypeAlias = EnsureConnected | JoinBoard | RetryBoard | LinesChanged


class Board:
    """`tick` is None while we are not on the board: lines are then as they were last seen."""

    def __init__(self) -> None:
        self.tick: int | None = None
        self.tasks: dict[SessionId, TaskSummary] = {}
        self.failures = 0
        self.is_wanted = False
        self.is_connected = False
        self.is_asked = False
        self.is_delayed = False

    @property
    def is_joined(self) -> bool:
        return self.tick is not None

    def step(self, input: BoardInput) -> tuple[BoardOutput, ...]:
        """Take one input; what to do about it is returned."""
        match input:
            case BoardWanted():
                self.is_wanted = True
                return (EnsureConnected(), *self._ask())
            case Connected():
                self._lose_place(is_connected=True)
                return self._ask()
            case Disconnected():
                self._lose_place(is_connected=False)
                return ()
            case BoardJoined():
                return self._join(input) if self.is_asked else ()
            case BoardRefused():
                return self._fail() if self.is_asked else ()
            case BoardTask() | BoardBehind():
                return self._hear(input)
            case BoardRetryDue():
                self.is_delayed = False
                return self._ask()
            case unreachable:
                assert_never(unreachable)

    def _ask(self) -> tuple[BoardOutput, ...]:
        is_under_way = self.is_joined or self.is_asked or self.is_delayed
        if is_under_way or not (self.is_wanted and self.is_connected):
            return ()
        self.is_asked = True
        return (JoinBoard(),)

    def _lose_place(self, *, is_connected: bool) -> None:
        self.is_connected = is_connected
        self.tick, self.failures = None, 0
        self.is_asked = self.is_delayed = False

    def _join(self, joined: BoardJoined) -> tuple[BoardOutput, ...]:
        """Stand where the server stands."""
        self.tick, self.failures, self.is_asked = joined.tick, 0, False
        named = {line.task_id for line in joined.tasks}
        self.tasks = {task_id: line for task_id, line in self.tasks.items() if task_id in named}
        return self._take(joined.tasks)

    def _fail(self) -> tuple[BoardOutput, ...]:
        self.failures += 1
        self.is_asked, self.is_delayed = False, True
        return (RetryBoard(self.failures),)

    def _hear(self, frame: BoardTask | BoardBehind) -> tuple[BoardOutput, ...]:
        if self.tick is None or (isinstance(frame, BoardTask) and frame.tick <= self.tick):
            return ()
        if isinstance(frame, BoardTask) and frame.tick == self.tick + 1:
            self.tick = frame.tick
            return self._take((frame.task,))
        self.tick = None
        return self._ask()

    def _take(self, lines: Iterable[TaskSummary]) -> tuple[BoardOutput, ...]:
        changed = []
        for line in lines:
            known = self.tasks.get(line.task_id)
            if known is None or (line != known and line.version >= known.version):
                self.tasks[line.task_id] = line
                changed.append(line)
        return (LinesChanged(tuple(changed)),) if changed else ()
