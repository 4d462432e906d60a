"""Snapshots of folds are a cache: they fit one fold and one end of a session, or they are as if they were not there."""

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
from msgspec import Struct

from interlock.log.memory import MemoryLog
from interlock.log.port import Log
from interlock.log.snapshots import FoldName, FoldSnapshot
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import verify
from interlock.runtime.sleeping import fold_name
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import batch, run
from tests.seeds import seed_of

A, B, C = (SessionId(f"ses_{name}") for name in "abc")
FOLD: Final = FoldName("line", "1")
NEXT: Final = FoldName("line", "2")
ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 6


def snapshot(session_id: SessionId, version: int, payload: bytes = b"x") -> FoldSnapshot:
    return FoldSnapshot(session_id=session_id, version=version, payload=payload)


async def store(kind: str, home: Path) -> Log:
    return MemoryLog() if kind == "memory" else await SqliteLog.open(home)


KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@KINDS
def test_a_snapshot_counts_while_its_session_ends_where_it_stands(kind: str, tmp_path: Path) -> None:
    async def story() -> None:
        log = await store(kind, tmp_path / "home")
        for one in (A, B, C):
            await log.append(one, batch(2, one))
        kept = log.snapshots
        assert await kept.missing(FOLD) == (A, B, C)
        assert await kept.keep(FOLD, [snapshot(A, 2, b"a"), snapshot(B, 1), snapshot(C, 2, b"c")]) == 2, "B is at 2"
        assert await kept.missing(FOLD) == (B,)
        assert [one.payload for one in await kept.page(FOLD)] == [b"a", b"c"]
        assert [one.payload for one in await kept.page(FOLD, after=A, limit=1)] == [b"c"]
        assert {one.session_id for one in await kept.newest(FOLD, limit=5)} == {A, C}
        await log.append(A, batch(1))
        assert await kept.missing(FOLD) == (A, B)
        assert await kept.get(FOLD, A) is None
        await kept.forget()
        assert await kept.missing(FOLD) == (A, B, C)
        await log.close()

    run(story())


@KINDS
def test_a_snapshot_of_another_version_of_the_fold_is_never_read(kind: str, tmp_path: Path) -> None:
    async def story() -> None:
        log = await store(kind, tmp_path / "home")
        await log.append(A, batch(2))
        await log.snapshots.keep(FOLD, [snapshot(A, 2, b"old")])
        assert await log.snapshots.get(NEXT, A) is None
        assert await log.snapshots.page(NEXT) == []
        assert await log.snapshots.newest(NEXT, limit=5) == []
        assert await log.snapshots.missing(NEXT) == (A,)
        await log.snapshots.keep(NEXT, [snapshot(A, 2, b"new")])
        found = await log.snapshots.get(NEXT, A)
        assert found is not None
        assert found.payload == b"new"
        await log.close()

    run(story())


class Small(Struct):
    one: int


class Large(Struct):
    one: int
    two: str = ""


def test_the_version_of_a_fold_changes_with_its_shape_its_number_and_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    first = fold_name("line", Small)
    assert fold_name("line", Small) == first
    others = {fold_name("line", Large), fold_name("line", Small, number=2), fold_name("book", Small)}
    monkeypatch.setattr("interlock.runtime.sleeping.code_digest", lambda: b"other code")
    others.add(fold_name("line", Small))
    assert len(others | {first}) == 5


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE snapshots SET payload = x'00'",
        "UPDATE snapshots SET digest = x'00'",
        "UPDATE snapshots SET version = version + 1",
        "UPDATE snapshots SET head = x'00'",
        "UPDATE snapshots SET fold_version = '0'",
        "UPDATE sessions SET head = x'00'",
    ],
)
def test_a_snapshot_that_was_changed_or_has_another_head_is_as_one_that_is_not_there(tmp_path: Path, edit: str) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await log.append(A, batch(2))
            await log.snapshots.keep(FOLD, [snapshot(A, 2, b"true")])
            await log.maintain("test", {}, lambda connection: connection.execute(edit).fetchall())
            assert await log.snapshots.get(FOLD, A) is None
            is_told = log.snapshots.take_changed() == {A} or await log.snapshots.missing(FOLD) == (A,)
            assert is_told, "whoever uses them folds that session again"

    run(story())


def test_a_purged_session_leaves_no_snapshot_behind(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await log.append(A, batch(2))
            await log.snapshots.keep(FOLD, [snapshot(A, 2, b"the secret word")])
            await log.purge(A)
            assert await log.snapshots.page(FOLD) == []
            assert await log.query(lambda c: c.execute("SELECT count(*) FROM snapshots").fetchall()) == [(0,)]
        assert b"the secret word" not in (tmp_path / "home" / log.path.name).read_bytes()

    run(story())


@pytest.mark.parametrize(
    "edit",
    ["DELETE FROM events WHERE seq = 2", "UPDATE events SET line = x'7b7d' WHERE seq = 3", "DELETE FROM sessions"],
)
def test_events_that_were_changed_since_do_not_prove_the_chain(tmp_path: Path, edit: str) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await log.append(A, batch(3))
            assert await log.snapshots.proves_chain(A)
            assert not await log.snapshots.proves_chain(B)
            await log.maintain("test", {}, lambda connection: connection.execute(edit).fetchall())
            assert not await log.snapshots.proves_chain(A)

    run(story())


def test_a_writer_of_snapshots_that_is_killed_loses_no_event_and_leaves_no_false_one(tmp_path: Path) -> None:
    home, chance = tmp_path / "home", random.Random(seed_of("snapshots"))
    acknowledged: dict[str, int] = {}
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "tests.log.child", "snapshots", str(home)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"open\n"
            time.sleep(chance.uniform(0, 0.2))  # not waiting for anything: the moment of death is the input
            child.send_signal(signal.SIGKILL)
            lines = child.stdout.read().decode().splitlines(keepends=True)
        for line in (one for one in lines if one.endswith("\n")):
            _, session_id, version = line.split()
            acknowledged[session_id] = int(version)
        run(_check_after_kill(home, acknowledged))
    assert acknowledged


async def _check_after_kill(home: Path, acknowledged: dict[str, int]) -> None:
    async with await SqliteLog.open(home) as log:
        for session_id, version in acknowledged.items():
            found = await log.read(SessionId(session_id))
            assert not found.damage
            assert found.version >= version
        assert not [one for report in [each async for each in verify(log)] for one in report.damage]
        for one in await log.snapshots.page(FOLD, limit=1_000):
            found = await log.read(one.session_id)
            assert one.version == found.version
            assert msgspec.json.decode(one.payload) == [event.id for event in found.events]
