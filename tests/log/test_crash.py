"""A writer that is killed at any moment loses nothing that it acknowledged."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from interlock.log.sqlite.store import SqliteLog
from interlock.projections.replay.provider_input import provider_items
from interlock.vocabulary.events.conversation import AssistantMessage, HistoryCompaction, UserMessage
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import run
from tests.log.child import COMPACTED, SESSIONS
from tests.seeds import seed_of

ROOT: Final = Path(__file__).parents[2]
WRITTEN: Final = (*SESSIONS, COMPACTED)
QUICK_ROUNDS, DEEP_ROUNDS = 6, 150


class Rounds:
    """One log, killed again and again, and what its writers acknowledged."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home = home
        self.chance = random.Random(seed)
        self.acknowledged: dict[SessionId, dict[int, str]] = {session_id: {} for session_id in WRITTEN}
        self.verified: dict[SessionId, int] = dict.fromkeys(WRITTEN, 0)
        self.kills_while_writing = 0

    def kill_one(self) -> None:
        """Start a writer, which takes the lease of the dead one over, and kill it: sometimes before it could write."""
        command = [sys.executable, "-m", "tests.log.child", "crash", str(self.home)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            if self.chance.random() < 0.8:
                first = child.stdout.readline()
                assert first == b"open\n", child.stderr.read().decode()
                self.kills_while_writing += 1
            time.sleep(self.chance.uniform(0, 0.25))  # not waiting for anything: the moment of death is the input
            child.send_signal(signal.SIGKILL)
            lines = child.stdout.read().decode().splitlines(keepends=True)
        for line in lines:
            if line.startswith("ack") and line.endswith("\n"):
                _, session_id, seq, id = line.split()
                self.acknowledged[SessionId(session_id)][int(seq)] = id

    def verify(self) -> None:
        run(self._verify())

    async def _verify(self, *, is_full: bool = False) -> None:
        async with await SqliteLog.open(self.home, readonly=True) as log:
            for session_id in WRITTEN:
                after = 0 if is_full else self.verified[session_id]
                found = await log.read(session_id, after=after)
                assert not found.damage
                assert [each.seq for each in found.events] == list(range(after + 1, found.version + 1))
                kept = {each.seq: each.id for each in found.events}
                told = {seq: id for seq, id in self.acknowledged[session_id].items() if seq > after}
                assert {seq: kept.get(seq) for seq in told} == told
                self.verified[session_id] = found.version
                if is_full and session_id == COMPACTED:
                    # Whatever was cut off, a model is given one summary and the turns that it does not stand for. How
                    # many those are is chance: each writer that is killed before it compacts leaves one more.
                    summaries = [each.data for each in found.events if isinstance(each.data, HistoryCompaction)]
                    covered = summaries[-1].range.to_seq if summaries else 0
                    said = [each for each in found.events if isinstance(each.data, UserMessage | AssistantMessage)]
                    following = [each for each in said if (each.seq or 0) > covered]
                    assert len(provider_items(found.events)) == bool(summaries) + len(following)

    def verify_all(self) -> None:
        run(self._verify(is_full=True))


def play(home: Path, wanted: int) -> str:
    """Kill so many writers; say how much that was."""
    seed = seed_of(f"crash {wanted}")
    run(_create(home))  # a reader needs a log to be there
    rounds, played = Rounds(home, seed), 0
    try:
        while played < wanted:
            rounds.kill_one()
            rounds.verify()
            played += 1
        rounds.verify_all()
    except BaseException as error:
        error.add_note(f"round {played} of seed {seed}")
        raise
    acknowledged = sum(map(len, rounds.acknowledged.values()))
    assert rounds.kills_while_writing
    assert acknowledged
    writing = rounds.kills_while_writing
    return f"crash: {played} kills, {writing} while writing, {acknowledged:,} events acknowledged (seed {seed})"


async def _create(home: Path) -> None:
    await (await SqliteLog.open(home)).close()


def test_a_killed_writer_keeps_every_acknowledged_event(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("explored", play(tmp_path / "home", QUICK_ROUNDS))


@pytest.mark.deep
@pytest.mark.timeout(1500)
def test_a_killed_writer_keeps_every_acknowledged_event_for_long(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("explored", play(tmp_path / "home", DEEP_ROUNDS))
