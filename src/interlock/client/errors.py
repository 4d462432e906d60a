"""What a server said no to, as errors that name the remedy.

`Refusal`: the server answered, and did not do it. `Unavailable`: it answered that nothing is known, so nothing is. A
server that does not answer at all is `Unreachable`, as everywhere.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.wire.requests import Problem

_NOT_KNOWN: Final = frozenset({502, 503, 504})
_REMEDIES: Final = {
    401: "give the token of this server: it is in the server's home folder",
    403: "use a token that may do this: an observer's looks, an operator's acts",
    421: "use the address that the server was started with",
}


class Refusal(UsageError):
    """The server refused. `code` is one word for programs, `next_actions` is what to do about it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title, remedy=problem.remedy or _REMEDIES.get(problem.status, ""))
        self.problem = problem

    @property
    def code(self) -> str:
        return self.problem.code

    @property
    def status(self) -> int:
        return self.problem.status

    @property
    def next_actions(self) -> tuple[NextAction, ...]:
        return self.problem.next_actions

    @property
    def retry_after_seconds(self) -> float | None:
        return self.problem.retry_after_seconds


class Unavailable(Refusal, Unreachable):
    """The server answered that it cannot say, or not in time. To repeat the same command is safe."""


def refusal_of(problem: Problem) -> Refusal:
    return Unavailable(problem) if problem.status in _NOT_KNOWN else Refusal(problem)


def problem_of_body(status: int, body: bytes) -> Problem:
    """The problem of an answer. What is not in the form of one, say a proxy's, is told by its status alone."""
    try:
        return msgspec.json.decode(body, type=Problem)
    except msgspec.MsgspecError:
        return Problem(title=f"the server answered with status {status}", status=status, code=f"http_{status}")
