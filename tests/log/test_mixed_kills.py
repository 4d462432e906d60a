"""A writer that grows, archives, restores, purges, vacuums and keeps snapshots, killed at any moment: nothing that it
told is lost, nothing is half done, and no snapshot is read by another fold than the one that made it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
import pytest

from interlock.log.archive.reading import FOLDER
from interlock.log.port import SessionSummary
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import verify
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import run
from tests.log.mixed_work import FOLD, OLD_FOLD, nth
from tests.seeds import seed_of

ROOT: Final = Path(__file__).parents[2]


class Told:
    """What the writers said that is durable."""

    def __init__(self) -> None:
        self.versions: dict[SessionId, int] = {}
        self.purging: set[SessionId] = set()
        self.purged: set[SessionId] = set()

    def hear(self, line: str) -> None:
        match line.split():
            case ["grew", session_id, version]:
                self.versions[SessionId(session_id)] = int(version)
            case ["purging", session_id]:
                self.purging.add(SessionId(session_id))
            case ["purged", session_id]:
                self.purged.add(SessionId(session_id))
            case _:
                pass


def kill_one(home: Path, seed: str, seconds: float) -> list[str]:
    """Start a writer, kill it after so long, and give what it told."""
    command = [sys.executable, "-m", "tests.log.mixed_work", str(home), seed]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        time.sleep(seconds)  # not waiting for anything: the moment of death is the input
        child.send_signal(signal.SIGKILL)
        return [one for one in child.stdout.read().decode().splitlines(keepends=True) if one.endswith("\n")]


async def check(home: Path, told: Told) -> None:
    async with await SqliteLog.open(home) as log:
        await log.sweep()  # as the next purge does
        found = {one.session_id: one for one in (await log.sessions(limit=100_000)).sessions}
        assert told.versions.keys() <= found.keys()
        assert all([one.sound async for one in verify(log)])
        for session_id, one in found.items():
            await check_session(log, one, told)
            assert one.is_purged or one.version >= told.versions.get(session_id, 0)
        for fold in (FOLD, OLD_FOLD):
            for kept in await log.snapshots.page(fold, limit=100_000):
                assert msgspec.json.decode(kept.payload) == [fold.version, found[kept.session_id].version]
    gone = [one.session_id for one in found.values() if one.is_purged]
    assert not [path for path in (home / FOLDER).glob("*") if any(path.name.startswith(f"{one}.") for one in gone)]


async def check_session(log: SqliteLog, one: SessionSummary, told: Told) -> None:
    """It is there whole, to the last event, or it is purged, because that was asked for."""
    read = await log.read(one.session_id)
    if one.is_purged:
        assert one.session_id in told.purging
        assert read.events == ()
        return
    assert one.session_id not in told.purged
    assert (read.version, read.damage) == (one.version, ())
    assert [(event.seq, event.id, event.data) for event in read.events] == [
        (number, expected.id, expected.data)
        for number, expected in ((number, nth(one.session_id, number)) for number in range(1, one.version + 1))
    ]


def play(home: Path, name: str, kills: int) -> None:
    seed, told = seed_of(name), Told()
    chance = random.Random(seed)
    for played in range(kills):
        try:
            for line in kill_one(home, f"{seed} {played}", chance.uniform(0, 0.5)):
                told.hear(line)
            run(check(home, told))
        except BaseException as error:
            error.add_note(f"round {played} of seed {seed}")
            raise
    assert told.versions


def test_a_kill_amid_all_kinds_of_work_leaves_nothing_half_done(tmp_path: Path) -> None:
    play(tmp_path / "home", "mixed kill", 2)


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_many_kills_amid_all_kinds_of_work_leave_nothing_half_done(tmp_path: Path) -> None:
    play(tmp_path / "home", "mixed kills", 40)
