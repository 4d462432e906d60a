"""What was asked by a socket and is not answered yet. Each question is answered once: by the server, by the loss of the
connection, or by its deadline. Whoever asked is called in the loop, in the order of the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from interlock.vocabulary.errors import InterlockError, Unreachable
from interlock.vocabulary.wire.requests import Ack, BoardJoined, TaskJoined

Answer: TypeAlias = Ack | TaskJoined | BoardJoined
OnAnswer: TypeAlias = Callable[[Answer | InterlockError], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    on_answer: OnAnswer
    timer: asyncio.TimerHandle


class PendingAnswers:
    """The open questions of one connection, by the ids of their requests."""

    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}

    def __len__(self) -> int:
        return len(self._asked)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._asked

    def ask(self, request_id: str, on_answer: OnAnswer, seconds: float) -> None:
        """Note a question. Without an answer in so many seconds, that is the answer."""
        late = Unreachable(f"the server did not answer within {seconds:g} s; whether it was done is not known")
        timer = asyncio.get_running_loop().call_later(seconds, self.settle, request_id, late)
        self._asked[request_id] = _Asked(on_answer, timer)

    def settle(self, request_id: str, outcome: Answer | InterlockError) -> bool:
        """Answer a question. False if nobody waits for that."""
        asked = self._take(request_id)
        if asked is None:
            return False
        asked.on_answer(outcome)
        return True

    def lose(self, reason: str) -> None:
        """Answer them all: there will be no other answer."""
        lost = Unreachable(f"the connection was lost before the answer came: {reason}")
        for request_id in tuple(self._asked):
            self.settle(request_id, lost)

    def forget(self, request_id: str) -> None:
        """Whoever asked has gone."""
        self._take(request_id)

    def _take(self, request_id: str) -> _Asked | None:
        asked = self._asked.pop(request_id, None)
        if asked is not None:
            asked.timer.cancel()
        return asked
