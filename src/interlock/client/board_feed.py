"""Following the board over a connection: joined when it is wanted, again after each loss or gap, told as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from interlock.client.machine.board import Board
from interlock.client.timeouts import Chance, ClientTimeouts, delay_before
from interlock.client.transport.connection import Connection
from interlock.client.transport.pending_answers import Answer
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardBehind, BoardJoin, BoardJoined, BoardTask

OnLines: TypeAlias = Callable[[tuple[TaskSummary, ...]], None]


class BoardFeed:
    """`on_lines` is called with lines that changed. One question at a time; one that failed is asked again later."""

    def __init__(self, connection: Connection, on_lines: OnLines, patience: ClientTimeouts, chance: Chance) -> None:
        self.board = Board()
        self._connection = connection
        self._on_lines = on_lines
        self._patience = patience
        self._chance = chance
        self._is_wanted = False
        self._is_asked = False
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None

    def want(self) -> None:
        """From now on, follow it."""
        self._is_wanted = True
        self._connection.ensure()
        self._join()

    def connect(self) -> None:
        """There is a connection."""
        self._join()

    def disconnect(self) -> None:
        """There is none any more."""
        self.board.leave()
        self._is_asked = False

    def hear(self, frame: BoardTask | BoardBehind) -> None:
        """The board said something."""
        lines, is_lost = self.board.hear(frame)
        self._tell(lines)
        if is_lost:
            self._join()

    def close(self) -> None:
        self._is_wanted = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _join(self) -> None:
        is_under_way = self.board.is_joined or self._is_asked or self._timer is not None
        if is_under_way or not self._is_wanted or not self._connection.is_connected:
            return
        self._is_asked = True
        try:
            self._connection.post(BoardJoin(id=self._connection.new_id()), self._take)
        except (Unreachable, UsageError) as failed:
            self._take(failed)

    def _take(self, outcome: Answer | InterlockError) -> None:
        self._is_asked = False
        if isinstance(outcome, BoardJoined):
            self._failures = 0
            self._tell(self.board.join(outcome))
        elif self._is_wanted and self._connection.is_connected:
            self._failures += 1
            delay = delay_before(self._failures, self._chance, self._patience)
            self._timer = asyncio.get_running_loop().call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._join()

    def _tell(self, lines: Iterable[TaskSummary]) -> None:
        lines = tuple(lines)
        if lines:
            self._on_lines(lines)
