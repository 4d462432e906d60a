"""The crash of `interlock demo`: a writer that is killed in the middle of an answer, and what is left to prove then.

Run as a program (`python -m interlock.cli.demo.crash HOME`) it is that writer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from interlock.lifecycle.closing import abandoned_ending, closing_batch
from interlock.lifecycle.turns import TurnRecord, fold_turns, turn_states
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnStarted
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import RunId, SessionId, SpawnId, StreamId, TurnId, new_event_id
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import DriverKind

SESSION: Final = SessionId("ses_demo_crash")
TURN: Final = TurnId("trn_crash")
RUN: Final = RunId("run_crash")
WORDS: Final = "The test reads the clock twice, so it fails whenever a second ends between the two readings."
READY_TIMEOUT_SECONDS: Final = 30


async def crash_and_recover(home: Path) -> tuple[TurnRecord, TurnRecord, str]:
    """Let a writer be killed; return its turn as it is found, as recovery leaves it, and the text that was kept."""
    await _kill_in_the_middle(home)
    async with await SqliteLog.open(home) as log:  # takes the lease over: its holder is provably dead
        found = await log.read(SESSION)
        (before,) = turn_states(found.events, owner_alive=False)
        (facts,) = fold_turns(found.events).turns.values()
        batch = closing_batch(facts, abandoned_ending(facts, RUN, "the runtime was killed"))
        await log.append(SESSION, [_event(payload) for payload in batch], expected_version=found.version)
        (after,) = turn_states((await log.read(SESSION)).events)
    return before, after, "" if facts.checkpoint is None else facts.checkpoint.text


async def _kill_in_the_middle(home: Path) -> None:
    command = (sys.executable, "-m", "interlock.cli.demo.crash", str(home))
    writer = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us: we end it, and it has nothing to say of it
    )
    try:
        assert writer.stdout is not None
        async with asyncio.timeout(READY_TIMEOUT_SECONDS):
            for _ in range(4):  # four acknowledged checkpoints are enough of an answer to lose the rest of
                if not await writer.stdout.readline():
                    raise ContractError("the demo's writer ended before it was killed")
    finally:
        if writer.returncode is None:
            writer.send_signal(signal.SIGKILL)
        await writer.wait()


async def write_until_killed(home: Path) -> None:
    """Stream an answer, one durable checkpoint a word, and say on stdout how far the log has acknowledged it."""
    words = WORDS.split()
    async with await SqliteLog.open(home) as log:
        begin = (
            UserMessage(text="Why does this test fail now and then?"),
            TurnStarted(driver=DriverKind.STREAM),
            RunState(run_id=RUN, status=RunStatus.RUNNING),
        )
        await log.append(SESSION, [_event(payload) for payload in begin])
        for count in range(1, len(words) + 1):
            text = " ".join(words[:count])
            checkpoint = StreamCheckpoint(stream_id=StreamId("str_1"), offset=len(text), text=text)
            await log.append(SESSION, [_event(checkpoint)])
            sys.stdout.write(f"{count}\n")
            sys.stdout.flush()
            await asyncio.sleep(0.2)


def _event(payload: Payload) -> Event:
    now = datetime.now(UTC)
    return new_event(
        payload,
        id=new_event_id(int(now.timestamp() * 1000), os.urandom(10)),
        session_id=SESSION,
        ts=now,
        turn_id=TURN,
        spawn_id=SpawnId("spn_crash"),
    )


if __name__ == "__main__":
    asyncio.run(write_until_killed(Path(sys.argv[1])))
