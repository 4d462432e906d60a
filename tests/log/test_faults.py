"""A fault is a clear error with a next action; nothing is half written, and the log goes on once it is gone."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import pytest

from interlock.log.paths import DATABASE_NAME
from interlock.log.port import LogUnavailable
from interlock.log.sqlite.faults import unavailable
from interlock.log.sqlite.store import SqliteLog
from tests.contract.harness import A, B, batch, ids, run, take
from tests.each_row import each_row
from tests.log.fault_vfs import FSYNC, FULL, WRITE, FaultVfs

ROOT: Final = Path(__file__).parents[2]
MESSAGES: Final = {FULL: "the disk is full", FSYNC: "the disk refused", WRITE: "the disk refused"}
GARBAGE: Final = (b"this is not a database" * 100, b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 4080)


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    made = FaultVfs()
    yield made
    made.unregister()


@pytest.mark.parametrize("code", MESSAGES)
def test_a_failing_disk_acknowledges_nothing(vfs: FaultVfs, tmp_path: Path, code: int) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home", vfs=vfs.name) as log:
            following = asyncio.create_task(take(log.follow(A), 4))
            first, second = batch(3), batch(1)
            await log.append(A, first)
            vfs.break_down(code)
            for _ in range(3):
                outcomes = await asyncio.gather(*(log.append(A, batch(2)) for _ in range(4)), return_exceptions=True)
                assert all(isinstance(each, LogUnavailable) for each in outcomes)
                assert all(MESSAGES[code] in str(each) for each in outcomes)
                assert (await log.read(A)).version == 3
            assert vfs.failed
            vfs.mend()
            assert await log.append(A, second, expected_version=3) == 4
            assert ids(await following) == ids(first + second)
            assert not (await log.read(A)).damage

    run(scenario())


@pytest.mark.parametrize("code", [FULL, FSYNC, WRITE])
@pytest.mark.parametrize("once", [True, False])
def test_whichever_write_fails_an_append_is_whole_or_absent(
    vfs: FaultVfs, tmp_path: Path, code: int, once: bool
) -> None:
    """Each write and fsync of an append fails in turn, until there is none left to fail."""

    async def scenario() -> int:
        failures = 0
        async with await SqliteLog.open(tmp_path / "home", vfs=vfs.name) as log:
            await log.append(A, batch(3))
            for number in range(1000):
                before = (await log.read(A)).version
                vfs.break_down(code, at=number, once=once)
                try:
                    version = await log.append(A, batch(40))
                except LogUnavailable:
                    failures += 1
                    version = before
                was_hit = vfs.failed > 0
                vfs.mend()
                found = await log.read(A)
                assert (found.version, len(found.events), found.damage) == (version, version, ())
                assert await log.append(A, batch(1), expected_version=version) == version + 1
                if not was_hit:
                    return failures
        raise AssertionError("an append has no end of writes")

    assert run(scenario()) > 0


def test_what_was_refused_does_not_come_back_after_a_crash(vfs: FaultVfs, tmp_path: Path) -> None:
    """The frames of a commit whose fsync failed are whole in the file, and SQLite believes what it finds there."""

    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home", vfs=vfs.name) as log:
            await log.append(A, batch(3))
            vfs.break_down(FSYNC)
            with pytest.raises(LogUnavailable):
                await log.append(A, batch(50))
            shutil.copytree(tmp_path / "home", tmp_path / "crashed")  # as the files would be found
            vfs.mend()
        async with await SqliteLog.open(tmp_path / "crashed", readonly=True) as found:
            assert (await found.read(A)).version == 3

    run(scenario())


@each_row(
    ("error", "message", "next_action", "may_pass"),
    [
        (apsw.FullError, "the disk is full", "free some space; nothing was half written", True),
        *(
            (
                error,
                "another process keeps the log locked",
                "close what holds it (a database browser, a backup), and try again",
                True,
            )
            for error in (apsw.BusyError, apsw.LockedError)
        ),
        *(
            (error, "the log cannot be written", "make the file and its folder writable for its owner", True)
            for error in (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError)
        ),
        (
            apsw.CantOpenError,
            "the log cannot be opened",
            "check that the file and its folder belong to you and are no symlinks",
            True,
        ),
        (apsw.NotADBError, "this is not a database", "move the file away, and import an export or a copy", False),
        *(
            (error, "the log is damaged", "run `interlock log verify`, then `interlock log repair`", False)
            for error in (apsw.CorruptError, apsw.ConstraintError, apsw.FormatError, apsw.SchemaChangeError)
        ),
        (apsw.IOError, "the disk refused to read or write", "check the disk and its space, then try again", True),
        (apsw.InterruptError, "the log cannot be used", "try again; if it stays, run `interlock log verify`", True),
    ],
)
def test_each_fault_of_the_file_says_what_is_wrong_and_what_to_do(
    error: type[apsw.Error], message: str, next_action: str, may_pass: bool
) -> None:
    told = unavailable(error("in its own words"), "/home/interlock.db")
    assert (str(told), told.next_action, told.may_pass) == (
        f"/home/interlock.db: {message} (in its own words); {next_action}",
        next_action,
        may_pass,
    )


def test_many_appends_share_one_fsync(vfs: FaultVfs, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home", vfs=vfs.name) as log:
            await log.append(A, batch(1))
            before = vfs.syncs
            await log.append(A, batch(1))
            assert vfs.syncs > before, "an acknowledged append is on the disk"
            before = vfs.syncs
            await asyncio.gather(*(log.append(A, batch(1)) for _ in range(200)))
            assert vfs.syncs - before < 20

    run(scenario())


def child(command: str, home: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.log.child", command, str(home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_real_limit_of_the_file_size(tmp_path: Path) -> None:
    answers = child("limit", tmp_path / "home")
    versions = [int(line.split()[1]) for line in answers if line.startswith("version")]
    (failed,) = (line for line in answers if line.startswith("failed"))
    assert "check the disk and its space" in failed
    assert f"kept {versions[-2]}" in answers
    assert versions == [*range(20, versions[-2] + 1, 20), versions[-2] + 1]


def test_a_file_or_folder_without_permission(tmp_path: Path) -> None:
    # Not pytest's folder: the child gives up its rights, and must still be able to reach it.
    place = Path(tempfile.mkdtemp())
    try:
        answers = child("forbidden", place / "home")
    finally:
        shutil.rmtree(place)
    kinds = [line.split()[0] for line in answers]
    assert kinds == ["read", "refused", "read", "refused", "unreadable", "refused", "version"], answers
    assert answers[0] == answers[2] == "read 3"
    assert all("make the file and its folder writable" in answers[index] for index in (1, 3)), answers
    assert "check that the file and its folder belong to you" in answers[4]
    assert answers[-1] == "version 4", "usable again once it is mended"


def test_a_file_that_somebody_keeps_locked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home", busy_timeout_seconds=0.05) as log:
            await log.append(A, batch(1))
            other = apsw.Connection(str(log.path))
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LogUnavailable, match="another process keeps the log locked") as caught:
                await log.append(A, batch(1))
            assert "close what holds it" in caught.value.next_action
            assert (await log.read(A)).version == 1
            other.execute("ROLLBACK")
            other.close()
            assert await log.append(A, batch(1)) == 2

    run(scenario())


@pytest.mark.parametrize("content", GARBAGE)
@pytest.mark.parametrize("readonly", [True, False])
def test_a_file_of_garbage_is_refused_and_kept(tmp_path: Path, content: bytes, readonly: bool) -> None:
    home = tmp_path / "home"
    home.mkdir(0o700)
    (home / DATABASE_NAME).write_bytes(content)
    with pytest.raises(LogUnavailable) as caught:
        run(SqliteLog.open(home, readonly=readonly))
    assert caught.value.next_action
    assert (home / DATABASE_NAME).read_bytes() == content


def test_a_missing_log_is_no_empty_log(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable):
        run(SqliteLog.open(tmp_path / "none", readonly=True))
    (tmp_path / "empty").mkdir(0o700)
    with pytest.raises(LogUnavailable):
        run(SqliteLog.open(tmp_path / "empty", readonly=True))
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_truncated_file_still_gives_what_is_left(tmp_path: Path, kept: float) -> None:
    async def scenario() -> None:
        home = tmp_path / "home"
        async with await SqliteLog.open(home) as log:
            for _ in range(20):
                await log.append(A, batch(20))
                await log.append(B, batch(20, B))
        path = home / DATABASE_NAME
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
        async with await SqliteLog.open(home, readonly=True) as log:
            for session_id in (A, B):
                found = await log.read(session_id)
                assert found.damage
                lost = {seq for each in found.damage for seq in range(each.first_seq or 0, (each.last_seq or -1) + 1)}
                assert lost.isdisjoint({each.seq for each in found.events})
                assert found.events or kept < 0.9

    run(scenario())


def test_one_session_whose_index_disagrees_does_not_hold_back_its_neighbours(tmp_path: Path) -> None:
    """A head that lies makes the next row collide with one that is there: only that append fails."""

    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await log.append(A, batch(3))
            await log.maintain("test", None, lambda connection: connection.execute("UPDATE sessions SET version = 1"))
            outcomes = await asyncio.gather(
                log.append(B, batch(2, B)), log.append(A, batch(2)), log.append(B, batch(2, B)), return_exceptions=True
            )
            assert (outcomes[0], outcomes[2]) == (2, 4)
            assert isinstance(outcomes[1], LogUnavailable)
            assert "interlock log verify" in outcomes[1].next_action
            assert len(await log.rows(A)) == 3
            assert (await log.read(B)).damage == ()

    run(scenario())
