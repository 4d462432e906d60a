"""What the tests run in a process of its own: `python -m tests.log.child COMMAND HOME`. Answers are lines on stdout."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Final

from msgspec import json

from interlock.log.lease import LeaseLost
from interlock.log.paths import DATABASE_NAME
from interlock.log.port import LogUnavailable
from interlock.log.snapshots import FoldName, FoldSnapshot
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.replay.compaction import CompactionPlan, plan_compaction
from interlock.vocabulary.events.conversation import AssistantMessage, UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, SessionId
from tests.contract.harness import AT, batch

SESSIONS: Final = tuple(SessionId(f"ses_{name}") for name in "abc")
COMPACTED: Final = SessionId("ses_compacted")
APPENDERS: Final = 6
NOBODY: Final = 65534


def say(*words: object) -> None:
    """One line, out of this process before anything else happens."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def crash(home: Path) -> None:
    """Append without end, and acknowledge each event once it is durable."""
    log = await SqliteLog.open(home)
    say("open")
    numbers = count()

    async def appender(session_id: SessionId, size: int) -> None:
        while True:
            await told(log, session_id, [_event(session_id, f"e{os.getpid()}_{next(numbers)}") for _ in range(size)])

    async def compacter() -> None:
        """Finished turns, and after each a compaction of all but the last, at the version that was read."""
        while True:
            turn = (UserMessage(text="x" * 300), AssistantMessage(text="done"))
            await told(log, COMPACTED, [_event(COMPACTED, f"e{os.getpid()}_{next(numbers)}", data) for data in turn])
            found = await log.read(COMPACTED)
            plan = plan_compaction(found.events, keep_turns=1)
            if isinstance(plan, CompactionPlan):
                summary = _event(COMPACTED, f"e{os.getpid()}_{next(numbers)}", plan.payload)
                await told(log, COMPACTED, [summary], expected_version=found.version)

    appenders = (appender(SESSIONS[n % len(SESSIONS)], 1 + n % 3) for n in range(APPENDERS))
    await asyncio.gather(*appenders, compacter())


async def told(
    log: SqliteLog, session_id: SessionId, events: list[Event], *, expected_version: int | None = None
) -> None:
    """Append, and acknowledge."""
    version = await log.append(session_id, events, expected_version=expected_version)
    for seq, each in enumerate(events, start=version - len(events) + 1):
        say("ack", session_id, seq, each.id)


def _event(session_id: SessionId, id: str, data: Payload | None = None) -> Event:
    return new_event(data or UserMessage(text="x" * 300), id=EventId(id), session_id=session_id, ts=AT)


async def hold(home: Path) -> None:
    """Open the log, and append one event for each line on stdin."""
    try:
        log = await SqliteLog.open(home, force="force" in sys.argv, busy_timeout_seconds=60)
    except LogUnavailable as error:
        say("refused", error)
        return
    say("open")
    while await asyncio.to_thread(sys.stdin.readline):
        try:
            say("version", await log.append(SESSIONS[0], batch(1, SESSIONS[0])))
        except LeaseLost as error:
            say("lost", error)
    await log.close()


async def limit(home: Path) -> None:
    """Run into a limit of the file size, then go on without it."""
    log = await SqliteLog.open(home)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        while True:
            say("version", await log.append(SESSIONS[0], batch(20, SESSIONS[0])))
    except LogUnavailable as error:
        say("failed", error)
    say("kept", (await log.read(SESSIONS[0])).version)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say("version", await log.append(SESSIONS[0], batch(1, SESSIONS[0])))
    await log.close()


async def forbidden(home: Path) -> None:
    """Meet a file and a folder that may not be written, as somebody for whom permissions count."""
    async with await SqliteLog.open(home) as log:
        await log.append(SESSIONS[0], batch(3, SESSIONS[0]))
    for name in ("-wal", "-shm"):
        (home / f"{DATABASE_NAME}{name}").unlink(missing_ok=True)
    for mode, folder in ((0o400, 0o700), (0o400, 0o500), (0o000, 0o700)):
        _set_modes(home, mode, folder)
        await _try(home)
    _set_modes(home, 0o600, 0o700)
    async with await SqliteLog.open(home) as log:
        say("version", await log.append(SESSIONS[0], batch(1, SESSIONS[0])))


def _set_modes(home: Path, file: int, folder: int) -> None:
    home.chmod(0o700)
    (home / DATABASE_NAME).chmod(file)
    home.chmod(folder)


async def _try(home: Path) -> None:
    try:
        async with await SqliteLog.open(home, readonly=True) as log:
            say("read", (await log.read(SESSIONS[0])).version)
    except LogUnavailable as error:
        say("unreadable", error)
    try:
        await (await SqliteLog.open(home)).close()
        say("opened")
    except LogUnavailable as error:
        say("refused", error)


async def snapshots(home: Path) -> None:
    """Append without end, and keep a snapshot after each append: the ids of all events of the session."""
    async with await SqliteLog.open(home) as log:
        say("open")
        for number in count():
            session_id = SESSIONS[number % len(SESSIONS)]
            version = await log.append(session_id, [_event(session_id, f"e{os.getpid()}_{number}")])
            say("ack", session_id, version)
            payload = json.encode([one.id for one in (await log.read(session_id)).events])
            kept = FoldSnapshot(session_id=session_id, version=version, payload=payload)
            await log.snapshots.keep(FoldName("line", "1"), [kept])


COMMANDS: Final[dict[str, Callable[[Path], Awaitable[None]]]] = {
    "crash": crash,
    "hold": hold,
    "snapshots": snapshots,
    "limit": limit,
    "forbidden": forbidden,
}


async def warm_up() -> None:
    """Load what is loaded on first use: without its rights this process may not reach the interpreter's own files."""
    with tempfile.TemporaryDirectory() as folder:
        for readonly in (False, True):
            async with await SqliteLog.open(Path(folder) / "home", readonly=readonly) as log:
                await log.read(SESSIONS[0])


def main() -> None:
    command, home = sys.argv[1:3]
    if command == "forbidden" and os.geteuid() == 0:  # for root, permissions do not count
        asyncio.run(warm_up())
        os.chown(Path(home).parent, NOBODY, NOBODY)
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    async def run() -> None:
        await COMMANDS[command](Path(home))

    asyncio.run(run())


if __name__ == "__main__":
    main()
