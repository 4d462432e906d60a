"""How long a client waits, and how it tries again. Chance is an argument, so that a test can be without it.

Law: attempt after attempt the delay may be anything up to a ceiling that doubles, so that many clients which lost one
server do not come back as one. A server that said when to come back is believed, within reason, and some chance added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Chance = Callable[[], float]
"""A number from 0 up to 1, as `random.random` gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimeouts:
    """`open_seconds` is for a connection with its greeting, `answer_seconds` for one that is asked something,
    `command_seconds` for a command, which the server may take some time to do. A connection that held for
    `steady_seconds` is held for good: the next loss counts as the first."""

    open_seconds: float = 10.0
    answer_seconds: float = 10.0
    command_seconds: float = 45.0
    closing_seconds: float = 2.0
    first_delay_seconds: float = 0.5
    max_delay_seconds: float = 5.0
    max_told_delay_seconds: float = 60.0
    steady_seconds: float = 5.0
    http_attempts: int = 4


def delay_before(attempt: int, chance: Chance, patience: ClientTimeouts) -> float:
    """How long to wait before an attempt, after so many failed ones (1: one failed)."""
    ceiling = patience.first_delay_seconds * 2.0 ** min(attempt - 1, 32)
    return chance() * min(patience.max_delay_seconds, ceiling)


def told_delay(retry_after_seconds: float, chance: Chance, patience: ClientTimeouts) -> float:
    """How long to wait when the server said how long."""
    told = min(max(retry_after_seconds, 0.0), patience.max_told_delay_seconds)
    return told + chance() * max(told, patience.first_delay_seconds)
