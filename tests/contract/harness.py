"""Stores to test, events to put into them, and a loop to do it in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from interlock.log.memory import MemoryLog
from interlock.log.port import Committed, Log, LogDamage
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, SessionId

T = TypeVar("T")
Opener: TypeAlias = Callable[[Path], Awaitable[Log]]

AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
A: Final = SessionId("ses_a")
B: Final = SessionId("ses_b")
_numbers: Final = count(1)


async def _memory(_: Path) -> Log:
    return MemoryLog()


async def _sqlite(home: Path) -> Log:
    return await SqliteLog.open(home)


STORES: Final[dict[str, Opener]] = {"memory": _memory, "sqlite": _sqlite}


def run(main: Coroutine[Any, Any, T], timeout_seconds: float = 100) -> T:
    """Run a test's coroutine in a loop of its own, and not for ever."""

    async def bounded() -> T:
        async with asyncio.timeout(timeout_seconds):
            return await main

    return asyncio.run(bounded())


def event(
    session_id: SessionId = A, text: str = "hello", *, seq: int | None = None, data: Payload | None = None
) -> Event:
    """An event that no log has stamped yet, with an id of its own."""
    return new_event(
        UserMessage(text=text) if data is None else data,
        id=EventId(f"evt_{next(_numbers)}"),
        session_id=session_id,
        ts=AT,
        seq=seq,
    )


def batch(size: int, session_id: SessionId = A) -> list[Event]:
    return [event(session_id, f"message {number}") for number in range(size)]


def ids(events: Iterable[Event]) -> list[str]:
    return [each.id for each in events]


async def take(source: AsyncGenerator[Event | LogDamage, None], number: int) -> list[Event]:
    """The next events of a follower, which is then ended. Damage fails the test."""
    taken: list[Event] = []
    async for item in source:
        assert isinstance(item, Event), item
        taken.append(item)
        if len(taken) == number:
            break
    await source.aclose()
    return taken


async def take_all(source: AsyncGenerator[Committed | LogDamage, None], number: int) -> list[Committed]:
    """The next commits of a follower of all sessions, which is then ended. Damage fails the test."""
    taken: list[Committed] = []
    async for item in source:
        assert isinstance(item, Committed), item
        taken.append(item)
        if len(taken) == number:
            break
    await source.aclose()
    return taken
