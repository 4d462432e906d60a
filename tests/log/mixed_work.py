"""Everything that moves or deletes events, in any order and without end: `python -m tests.log.mixed_work HOME SEED`.

A session's n-th event is known from its name and n, so that whoever looks later knows what must be there. Each line on
stdout tells what is durable: `grew SESSION VERSION` or `purged SESSION`.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Final

from msgspec import json

from interlock.log.archive.moving import archive_session, restore_session
from interlock.log.archive.vacuum import vacuum_step
from interlock.log.port import SessionSummary
from interlock.log.snapshots import FoldName, FoldSnapshot
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.ids import EventId, SessionId
from tests.contract.harness import AT

FOLD: Final = FoldName("test", "1")
OLD_FOLD: Final = FoldName("test", "0")
_NOW: Final = 1_800_000_000_000


def nth(session_id: SessionId, number: int) -> Event:
    """The event that stands at `number` of a session."""
    at = AT + timedelta(seconds=number)
    text = f"{session_id} {number} {'x' * (number * 37 % 900)}"
    return new_event(UserMessage(text=text), id=EventId(f"evt_{session_id}_{number}"), session_id=session_id, ts=at)


class Mixed:
    """One writer at work on a home."""

    def __init__(self, log: SqliteLog, chance: random.Random) -> None:
        self._log = log
        self._chance = chance
        self._names = (SessionId(f"ses_{os.getpid()}_{number}") for number in count())

    async def step(self) -> None:
        page = (await self._log.sessions(limit=1_000)).sessions
        open_ones = [one for one in page if not one.is_purged and not one.archive]
        match self._chance.randrange(6):
            case 0 | 1:
                await self._grow(self._chance.choice(open_ones) if len(open_ones) > 3 else None)
            case 2:
                await self._snapshot(open_ones)
            case 3 if open_ones:
                one = self._chance.choice(open_ones)
                await archive_session(
                    self._log, one.session_id, version=one.version, title=one.session_id, now_unix_ms=_NOW
                )
            case 4 if archived := [one for one in page if one.archive and not one.is_purged]:
                await restore_session(self._log, self._chance.choice(archived).session_id)
            case 5 if self._chance.random() < 0.5 and (living := [one for one in page if not one.is_purged]):
                purged = self._chance.choice(living).session_id
                _say("purging", purged)
                await self._log.purge(purged)
                _say("purged", purged)
            case _:
                await vacuum_step(self._log)

    async def _grow(self, one: SessionSummary | None) -> None:
        session_id, version = (next(self._names), 0) if one is None else (one.session_id, one.version)
        last = version + self._chance.randint(1, 400)
        await self._log.append(session_id, [nth(session_id, number) for number in range(version + 1, last + 1)])
        _say("grew", session_id, last)

    async def _snapshot(self, ones: list[SessionSummary]) -> None:
        fold = self._chance.choice((FOLD, OLD_FOLD))
        kept = [
            FoldSnapshot(
                session_id=one.session_id, version=one.version, payload=json.encode([fold.version, one.version])
            )
            for one in ones
        ]
        await self._log.snapshots.keep(fold, kept)


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def work(home: Path, seed: str) -> None:
    async with await SqliteLog.open(home) as log:
        _say("open")
        mixed = Mixed(log, random.Random(seed))
        while True:
            await mixed.step()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
