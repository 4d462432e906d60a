"""Archive files: what goes out comes back byte by byte, is read as before meanwhile, and is never lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import closing
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.log.archive import frames
from interlock.log.archive.moving import DamagedSession, MovedSession, archive_session, restore_session
from interlock.log.archive.reading import FOLDER, archived
from interlock.log.archive.vacuum import rewrite, vacuum_step
from interlock.log.chain import ChainRow
from interlock.log.ndjson import export, import_events
from interlock.log.port import DamageKind
from interlock.log.repair import plan_repair
from interlock.log.sqlite.salvage import salvage
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import verify
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.ids import EventId, SessionId
from tests.contract.harness import AT
from tests.effort import examples
from tests.seeds import seed_of

T = TypeVar("T")
A, B = SessionId("ses_a"), SessionId("ses_b")
NOW: Final = 1_800_000_000_000


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def event(session_id: SessionId, number: int, text: str = "") -> Event:
    message = UserMessage(text=text or f"message {number}")
    return new_event(
        message, id=EventId(f"evt_{session_id}_{number}"), session_id=session_id, ts=AT + timedelta(seconds=number)
    )


async def fill(log: SqliteLog, session_id: SessionId, count: int, text: str = "") -> None:
    for first in range(0, count, 500):
        await log.append(session_id, [event(session_id, n, text) for n in range(first, min(first + 500, count))])


async def move(log: SqliteLog, session_id: SessionId = A) -> MovedSession:
    (summary,) = (await log.sessions(prefix=session_id)).sessions
    return await archive_session(log, session_id, version=summary.version, title="a title", now_unix_ms=NOW)


async def stored(log: SqliteLog, session_id: SessionId = A) -> tuple[list[ChainRow], object, object, bytes]:
    stream = BytesIO()
    await export(log, stream, [session_id])
    found, turns = await log.read(session_id), await log.read_turns(session_id)
    return await log.rows(session_id), found, turns, stream.getvalue()


def in_database(log: SqliteLog) -> Coroutine[Any, Any, int]:
    return log.query(lambda c: int(str(c.execute("SELECT count(*) FROM events").fetchall()[0][0])))


def test_an_archived_session_reads_as_before_and_comes_back_byte_by_byte(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            for part in range(3):  # positions of two sessions interleave
                for one in (A, B):
                    await log.append(one, [event(one, 1000 * part + n) for n in range(900)])
            before = await stored(log)
            summary = (await log.sessions(prefix=A)).sessions[0]
            moved = await move(log)
            assert (moved.version, moved.head) == (2700, summary.head)
            assert moved.file_bytes * 5 < moved.stored_bytes
            assert await in_database(log) == 2700
            assert await stored(log) == before
            page = await log.read(A, after=1999, limit=3)
            assert [one.seq for one in page.events] == [2000, 2001, 2002]
            assert (page.version, page.damage) == (2700, ())
            now = (await log.sessions(prefix=A)).sessions[0]
            assert (now.version, now.head, now.archive) == (2700, summary.head, moved.file)
            (report,) = [one async for one in verify(log, A)]
            assert (report.sound, report.events_checked, report.archive) == (True, 2700, moved.file)
            path = tmp_path / "home" / FOLDER / moved.file
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            with pytest.raises(UsageError, match="interlock log restore ses_a"):
                await log.append(A, [event(A, 9999)])
            with pytest.raises(UsageError, match="in an archive file"):
                await move(log)
            assert await restore_session(log, A) == summary
            assert await stored(log) == before
            assert not path.exists()
            assert await log.append(A, [event(A, 9999)]) == 2701
            with pytest.raises(UsageError, match="in no archive file"):
                await restore_session(log, A)

    run(scenario())


def test_a_file_can_be_read_and_imported_without_us(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, A, 2300)
            *_, exported = await stored(log)
            moved = await move(log)
        packed = (tmp_path / "home" / FOLDER / moved.file).read_bytes()
        plain = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()
        lines = [line for line in plain.splitlines(keepends=True) if not line.startswith(b'{"interlock_archive"')]
        assert b"".join(lines) == exported
        async with await SqliteLog.open(tmp_path / "other") as other:
            await import_events(other, BytesIO(b"".join(lines)))
            assert (await other.sessions(prefix=A)).sessions[0].head == moved.head

    run(scenario())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)


def follow_link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def swap_for_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("harm", [Path.unlink, cut, flip, follow_link, swap_for_pipe])
def test_a_file_that_is_harmed_costs_no_more_and_is_told(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, A, 2500)
            await fill(log, B, 3)
            moved = await move(log)
            path = tmp_path / "home" / FOLDER / moved.file
            kept = path.read_bytes()
            harm(path)
            found = await log.read(A)
            assert found.version == 2500
            assert {one.kind for one in found.damage} == {DamageKind.UNREADABLE}
            assert all(moved.file in one.message and "backup" in one.message for one in found.damage)
            lost = sum((one.last_seq or 0) - (one.first_seq or 0) + 1 for one in found.damage)
            assert len(found.events) + lost == 2500
            reports = {one.session_id: one async for one in verify(log)}
            assert (reports[A].sound, reports[B].sound) == (False, True)
            with pytest.raises(DamagedSession, match="is as it was"):
                await restore_session(log, A)
            plan = await plan_repair(log)
            assert (plan.steps, plan.needs_salvage) == ((), False)
            path.unlink(missing_ok=True)
            path.write_bytes(kept)  # the backup
            assert (await log.read(A)).damage == ()
            assert (await restore_session(log, A)).head == moved.head

    run(scenario())


def test_the_file_of_another_session_is_not_believed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            for one in (A, B):
                await fill(log, one, 30)
            a, b = await move(log, A), await move(log, B)
            folder = tmp_path / "home" / FOLDER
            (folder / a.file).write_bytes((folder / b.file).read_bytes())
            found = await log.read(A)
            assert (found.events, found.version) == ((), 30)
            assert "cannot be read" in found.damage[0].message

    run(scenario())


def test_what_is_damaged_or_has_grown_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, A, 20)
            with pytest.raises(UsageError, match="at event 20 now, and not at 19"):
                await archive_session(log, A, version=19, title="", now_unix_ms=NOW)
            with pytest.raises(UsageError, match="there is no session"):
                await archive_session(log, B, version=1, title="", now_unix_ms=NOW)
            await log.maintain("test", {}, lambda c: c.execute("UPDATE events SET line = x'7b7d' WHERE seq = 7"))
            before = await log.rows(A)
            with pytest.raises(DamagedSession, match="damaged at event 7"):
                await move(log)
            assert await log.rows(A) == before
            assert list((tmp_path / "home" / FOLDER).iterdir()) == []

    run(scenario())


def test_a_purge_takes_the_file_too_also_one_that_was_broken_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            for one in (A, B):
                await fill(log, one, 20)
            moved = await move(log, A)
            path = tmp_path / "home" / FOLDER / moved.file
            await log.maintain("test", {}, lambda c: c.execute("UPDATE sessions SET is_purged = 1"))
            (report,) = [one async for one in verify(log, A)]
            assert not report.sound
            assert await log.sweep() == 1
            assert not path.exists()
            (report,) = [one async for one in verify(log, A)]
            assert (report.sound, report.is_purged, report.head) == (True, True, moved.head)

    run(scenario())


def test_a_purge_that_was_broken_off_behind_its_file_is_finished_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, A, 20)
            moved = await move(log, A)
            await log.maintain("test", {}, lambda c: c.execute("UPDATE sessions SET is_purged = 1"))
            (tmp_path / "home" / FOLDER / moved.file).unlink()
            assert await log.sweep() == 1
            assert await log.sweep() == 0

    run(scenario())


def test_a_purge_takes_what_a_broken_off_move_left_behind(tmp_path: Path) -> None:
    """A kill between the commit of a restore and the end of its file, or while a draft is written."""
    folder = tmp_path / "archive"

    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            for name in ("ses_a", "ses_a.1"):
                await fill(log, SessionId(name), 3)
        folder.mkdir()
        left = ("ses_a.3.ndjson.zst", ".ses_a.2.ndjson.zst.part", "ses_a.1.3.ndjson.zst", "notes.txt")
        for name in left:
            (folder / name).write_bytes(b"what was said")
        async with await SqliteLog.open(tmp_path) as log:
            await log.purge(SessionId("ses_a"))
        assert sorted(one.name for one in folder.iterdir()) == ["notes.txt", "ses_a.1.3.ndjson.zst"]

    run(story())


def test_purges_at_the_same_time_take_what_was_left_behind_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            await fill(log, A, 3)
            await log.purge(A)
            folder = tmp_path / FOLDER
            folder.mkdir(exist_ok=True)
            for number in range(1, 41):
                (folder / f"{A}.{number}.ndjson.zst").write_bytes(b"what was said")
            await asyncio.gather(*(log.sweep() for _ in range(4)))
            assert list(folder.iterdir()) == []

    run(story())


def test_a_salvage_keeps_the_tombstones(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, A, 20)
            moved = await move(log)
        await salvage(tmp_path / "home")
        async with await SqliteLog.open(tmp_path / "home") as log:
            assert (await restore_session(log, A)).head == moved.head

    run(scenario())


# What the log takes: no NUL, and no lone surrogate.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200)


@settings(max_examples=examples(8, 100))
@given(st.lists(TEXTS, min_size=1, max_size=30), st.integers(1, 9), st.integers(50, 500))
def test_frames_hold_any_lines_whatever_their_size(texts: list[str], lines: int, size: int) -> None:
    async def scenario(home: Path) -> None:
        async with await SqliteLog.open(home) as log:
            await log.append(A, [event(A, n, text) for n, text in enumerate(texts)])
            before = await stored(log)
            await move(log)
            assert await stored(log) == before
            tombstone = await log.query(lambda c: archived(c, A))
            assert tombstone is not None
            assert all(one.last - one.after <= lines for one in tombstone.frames)
            await restore_session(log, A)
            assert await stored(log) == before

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(frames, "FRAME_LINES", lines)
        patch.setattr(frames, "FRAME_BYTES", size)
        run(scenario(Path(folder) / "home"))


# Room


def test_room_is_given_back_in_steps_while_others_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, A, 4000, text="x" * 3000)
            await fill(log, B, 10)
            await move(log)
            first = await vacuum_step(log)
            assert first.freed_bytes > 0
            assert first.left_bytes > 0
            assert await log.append(B, [event(B, 77)]) == 11
            step = first
            while step.left_bytes and step.freed_bytes:
                step = await vacuum_step(log)
            assert step.left_bytes == 0
            assert all([one.sound async for one in verify(log)])
        assert (tmp_path / "home" / "log.sqlite3").stat().st_size < 2_000_000

    run(scenario())


def test_a_log_of_an_older_kind_is_written_anew_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, A, 500, text="x" * 2000)
        with closing(apsw.Connection(str(tmp_path / "home" / "log.sqlite3"))) as old:
            old.execute("PRAGMA auto_vacuum = NONE")
            old.execute("PRAGMA journal_mode = DELETE")
            old.execute("VACUUM")
        async with await SqliteLog.open(tmp_path / "home") as log:
            before = await stored(log)
            await move(log)
            step = await vacuum_step(log)
            assert (step.freed_bytes, step.needs_rewrite) == (0, True)
            assert await rewrite(log) > 500_000
            assert not (await vacuum_step(log)).needs_rewrite
            assert await stored(log) == before

    run(scenario())


# Kills


_CHILD: Final = """
import asyncio, sys
from pathlib import Path
from tests.log.test_archive import A, move, restore_session
from interlock.log.sqlite.store import SqliteLog

async def main() -> None:
    async with await SqliteLog.open(Path(sys.argv[1])) as log:
        print("ready", flush=True)
        while True:
            await move(log)
            await restore_session(log, A)

asyncio.run(main())
"""


def test_a_kill_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    _check_kills(tmp_path, seed_of("archive kill"), kills=2)


@pytest.mark.deep
def test_many_kills_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    _check_kills(tmp_path, seed_of("archive kills"), kills=150)


def _check_kills(tmp_path: Path, seed: int, *, kills: int) -> None:
    home, chance = tmp_path / "home", random.Random(seed)

    async def prepare() -> tuple[list[ChainRow], object, object, bytes]:
        async with await SqliteLog.open(home) as log:
            await fill(log, A, 3000)
            return await stored(log)

    async def look() -> tuple[list[ChainRow], object, object, bytes]:
        async with await SqliteLog.open(home) as log:
            (report,) = [one async for one in verify(log)]
            assert report.sound
            found = await stored(log)
            if report.archive:
                await restore_session(log, A)
                assert await stored(log) == found
            return found

    before = run(prepare())
    for _ in range(kills):
        with subprocess.Popen((sys.executable, "-c", _CHILD, str(home)), stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            try:
                child.wait(chance.uniform(0, 0.6))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
        assert run(look()) == before
