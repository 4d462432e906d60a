"""What the server received and how far it got, shared between its thread and the test's."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.vocabulary.errors import Unreachable

MAX_KEPT: Final = 10_000


class RequestKind(StrEnum):
    MAIN = "main"  # a turn of the conversation: played from a script
    SIDE = "side"  # anything else, answered apart


class RequestOutcome(StrEnum):
    PENDING = "pending"
    ANSWERED = "answered"
    FAILED = "failed"  # a scripted error
    CUT = "cut"  # a scripted cut
    DROPPED = "dropped"  # the client hung up first, as on an interrupt
    EXPIRED = "expired"  # a gate's limit passed


@dataclass(frozen=True, slots=True)
class Received:
    """One request. `script`, `part` and `attempt` say what answered a main one; `purpose` says what a side one is.

    `received_at` and `closed_at` are by the monotonic clock; `closed_at` is 0 while the outcome is pending.
    """

    number: int
    kind: RequestKind
    path: str
    body: bytes
    purpose: str = ""
    prompt: str = ""
    script: str = ""
    part: int = 0
    attempt: int = 0
    outcome: RequestOutcome = RequestOutcome.PENDING
    received_at: float = 0.0
    closed_at: float = 0.0


class Record:
    """Everything that happened, in order. Any thread may add and wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[Received] = []
        self._reached: Counter[str] = Counter()
        self._faults: list[str] = []

    def requests(self) -> tuple[Received, ...]:
        with self._changed:
            return tuple(self._requests)

    def faults(self) -> tuple[str, ...]:
        with self._changed:
            return tuple(self._faults)

    def add(self, received: Received) -> int:
        """Keep a request and return its number, by which `close` finds it again."""
        with self._changed:
            number = len(self._requests)
            if number >= MAX_KEPT:
                raise OverflowError(f"more than {MAX_KEPT} requests: a client is caught in a loop")
            self._requests.append(replace(received, number=number, received_at=time.monotonic()))
            self._changed.notify_all()
            return number

    def close(self, number: int, outcome: RequestOutcome) -> None:
        with self._changed:
            self._requests[number] = replace(self._requests[number], outcome=outcome, closed_at=time.monotonic())
            self._changed.notify_all()

    def reach(self, gate: str) -> None:
        with self._changed:
            self._reached[gate] += 1
            self._changed.notify_all()

    def fault(self, text: str) -> None:
        with self._changed:
            self._faults.append(text)
            self._changed.notify_all()

    def wait_reached(self, gate: str, times: int, within_seconds: float) -> None:
        """Return once the gate was reached that often. Unreachable after the deadline, with what came instead."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._reached[gate] >= times, within_seconds):
                raise Unreachable(f"gate {gate!r} was not reached within {within_seconds} s{self._told()}")

    def wait_requests(self, holds: Callable[[tuple[Received, ...]], bool], within_seconds: float) -> None:
        """Return once the requests so far satisfy `holds`. Unreachable after the deadline, with the requests."""
        with self._changed:
            if not self._changed.wait_for(lambda: holds(tuple(self._requests)), within_seconds):
                raise Unreachable(f"the requests did not come to hold within {within_seconds} s{self._told()}")

    def _told(self) -> str:
        lines = [
            f"{one.number} {one.kind} {one.path} {one.script or one.purpose} part {one.part} "
            f"attempt {one.attempt}: {one.outcome}"
            for one in self._requests
        ]
        return "\n".join(["; received:", *lines, *(f"fault: {fault}" for fault in self._faults)])
