"""What only a database has: a file to reopen, its modes, its schema, damage, and readers beside the writer."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

import apsw
import pytest
from msgspec import structs

from interlock.log import lease
from interlock.log.lease import LeaseLost
from interlock.log.paths import DATABASE_NAME, default_home
from interlock.log.port import Committed, DamageKind, LogDamage, LogUnavailable, SessionSummary
from interlock.log.sqlite import readers, turn_index
from interlock.log.sqlite.schema import CURRENT, Raw, Schema, Work
from interlock.log.sqlite.store import SqliteLog
from interlock.log.sqlite.turn_index import TurnRow
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import AT, A, B, batch, event, ids, run, take
from tests.log.schema_one import make_version_one

T = TypeVar("T")
PAGE: Final = 4096


@asynccontextmanager
async def opened(home: Path, *, readonly: bool = False, schema: Schema = CURRENT) -> AsyncIterator[SqliteLog]:
    log = await SqliteLog.open(home, readonly=readonly, schema=schema)
    try:
        yield log
    finally:
        await log.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A log with two sessions of 300 events each, closed."""

    async def fill() -> None:
        async with opened(tmp_path / "home") as log:
            for _ in range(3):
                await log.append(A, batch(100))
                await log.append(B, batch(100, B))

    run(fill())
    return tmp_path / "home"


def modes(home: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}


def database(home: Path) -> apsw.Connection:
    return apsw.Connection(str(home / DATABASE_NAME))


# Reopening


def test_a_reopened_log_goes_on_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        written: list[Event] = []
        for number in range(4):
            async with opened(tmp_path / "home") as log:
                assert (await log.read(A)).version == 3 * number
                new = batch(3)
                await log.append(A, new, expected_version=3 * number)
                written += new
                assert ids((await log.read(A)).events) == ids(written)
                assert ids(await take(log.follow(A, after=1), 3 * number + 2)) == ids(written[1:])
        async with opened(tmp_path / "home") as log:
            commits = [item async for item in closing_follow_all(log)]
            assert [each.position for each in commits if isinstance(each, Committed)] == list(range(1, 13))

    run(scenario())


async def closing_follow_all(log: SqliteLog) -> AsyncIterator[Committed | LogDamage]:
    """Everything that is there, by a follower that ends because the log is closed."""
    source = log.follow_all()
    yield await anext(source)
    await log.close()
    async for item in source:
        yield item


def test_a_line_is_stored_as_it_was_encoded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "home") as log:
            await log.append(A, batch(3))
            rows = await log.rows(A)
            assert [row.line for row in rows] == [encode_event(each) for each in (await log.read(A)).events]

    run(scenario())


# Modes and paths


def test_folder_and_files_are_closed_to_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "deep" / "home") as log:
            await log.append(A, batch(1))
            found = modes(tmp_path / "deep" / "home")
            assert set(found) == {DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"}
            assert set(found.values()) == {0o600}
            assert modes(tmp_path / "deep")["home"] == 0o700

    before = os.umask(0)
    try:
        run(scenario())
    finally:
        os.umask(before)


def test_files_that_were_open_to_others_are_closed(home: Path) -> None:
    (home / DATABASE_NAME).chmod(0o644)
    home.chmod(0o755)

    async def scenario() -> None:
        async with opened(home):
            assert set(modes(home).values()) == {0o600}
            assert modes(home.parent)["home"] == 0o700

    run(scenario())


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_home_that_others_can_write_to_is_refused(home: Path, mode: int, readonly: bool) -> None:
    home.chmod(mode)
    with pytest.raises(LogUnavailable, match=r"others can write to .*chmod 700"):
        run(SqliteLog.open(home, readonly=readonly))


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("name", ["", DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"])
def test_a_symlink_is_refused(home: Path, tmp_path: Path, name: str, readonly: bool) -> None:
    link = home / name if name else home
    target = tmp_path / "elsewhere"
    if link.exists():
        link.rename(target)
    else:
        target.touch()
    link.symlink_to(target)
    with pytest.raises(LogUnavailable, match="is a symlink"):
        run(SqliteLog.open(home, readonly=readonly))


def test_a_symlink_above_the_home_is_none_of_our_business(home: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(home.parent)

    async def scenario() -> None:
        async with opened(tmp_path / "way" / "home") as log:
            assert (await log.read(A)).version == 300

    run(scenario())


@pytest.mark.parametrize("name", ["with space", "ques?tion", "per%20cent", "hash#", "é"])
def test_odd_names_of_folders(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / name) as log:
            await log.append(A, batch(1))
        assert (tmp_path / name / DATABASE_NAME).exists()
        async with opened(tmp_path / name, readonly=True) as log:
            assert (await log.read(A)).version == 1

    run(scenario())


def test_the_home_comes_from_the_environment() -> None:
    assert default_home({"INTERLOCK_HOME": "/x/y"}) == Path("/x/y")
    assert default_home({"XDG_STATE_HOME": "/s"}) == Path("/s/interlock")
    assert default_home({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/interlock"
    assert default_home({}) == Path.home() / ".local/state/interlock"


# Readers beside the writer


def test_a_reader_follows_what_another_writer_commits(home: Path) -> None:
    async def scenario() -> None:
        async with opened(home) as log, opened(home, readonly=True) as reader:
            following = asyncio.create_task(take(reader.follow(A, after=299), 5))
            for each in batch(4):
                await log.append(A, [each])
            assert [each.seq for each in await following] == [300, 301, 302, 303, 304]

    run(scenario())


def test_a_reader_changes_no_byte(home: Path) -> None:
    before = (home / DATABASE_NAME).read_bytes()

    async def scenario() -> None:
        async with opened(home, readonly=True) as log:
            assert (await log.read(A)).version == 300
            with pytest.raises(LogUnavailable, match="readonly database"):
                await log.query(lambda connection: connection.execute("DELETE FROM events"))

    run(scenario())
    assert (home / DATABASE_NAME).read_bytes() == before


def test_callers_wait_for_a_place_when_the_queue_is_full(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home", max_pending=3) as log:
            is_held, may_go = asyncio.Event(), threading.Event()
            loop = asyncio.get_running_loop()

            def hold(_: apsw.Connection) -> None:
                loop.call_soon_threadsafe(is_held.set)
                may_go.wait()

            busy = asyncio.create_task(log.maintain("hold", None, hold))
            await is_held.wait()
            try:
                appends = [asyncio.create_task(log.append(A, batch(1))) for _ in range(20)]
                for _ in range(5):
                    await asyncio.sleep(0)
                assert log._writer is not None
                assert log._writer._queue.qsize() == 2, "one is at work, two are queued, the others wait outside"
                appends[0].cancel()
                appends[-1].cancel()
                await asyncio.sleep(0)
            finally:
                may_go.set()
            await busy
            assert await asyncio.gather(*appends[1:-1]) == list(range(1, 19))
            assert (await log.read(A)).version == 18, "cancelled before the writer took it up: not appended"

    run(scenario())


@pytest.mark.parametrize("is_of_all", [True, False])
def test_what_is_committed_between_looking_and_waiting_is_not_missed(tmp_path: Path, is_of_all: bool) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            look = log._readers.run

            async def look_and_append(work: Work[T]) -> T:
                found = await look(work)
                if len(written) < 5:
                    written.append(await log.append(A, batch(1)))
                return found

            written: list[int] = []
            log._readers.run = look_and_append  # type: ignore[method-assign]
            source = log.follow_all() if is_of_all else log.follow(A)
            assert len([await anext(source) for _ in range(5)]) == 5
            await source.aclose()

    run(scenario(), timeout_seconds=200)


# Schema


def version_one(home: Path) -> list[Event]:
    """A log as schema 1 wrote it."""
    make_version_one(home)

    async def fill() -> list[Event]:
        async with opened(home, schema=Schema(version=1)) as log:
            await log.append(A, batch(3))
            return list((await log.read(A)).events)

    return run(fill())


def shout(raw: Raw) -> Raw:
    data = raw["data"]
    assert isinstance(data, dict)
    return {**raw, "data": {**data, "text": str(data["text"]).upper()}}


def add_labels(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE labels (session_id TEXT PRIMARY KEY, label TEXT NOT NULL) STRICT")


def fill_labels(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO labels VALUES ('ses_a', 'x')")


def fail(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO nothing VALUES (1)")


FUTURE: Final = Schema(
    version=CURRENT.version + 1,
    migrations={1: add_labels, 2: fill_labels, **dict.fromkeys(range(3, CURRENT.version + 1), lambda _: None)},
    upcasters={("user_message", 2): shout},
)


def test_an_older_schema_is_migrated_and_its_events_are_mended_as_they_are_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    old = version_one(home)

    async def scenario() -> None:
        async with opened(home, schema=FUTURE) as log:
            await log.append(A, [event(text="written by three")])
            found = await log.read(A)
            assert not found.damage
            texts = [each.data.text for each in found.events if isinstance(each.data, UserMessage)]
            assert texts == ["MESSAGE 0", "MESSAGE 1", "MESSAGE 2", "written by three"]
            assert [row.line for row in await log.rows(A)][:3] == [encode_event(each) for each in old]
            assert await log.query(lambda c: c.execute("SELECT * FROM labels").fetchall()) == [("ses_a", "x")]
            assert FUTURE.found(database(home)) == FUTURE.version
        with pytest.raises(
            LogUnavailable, match=f"has schema {FUTURE.version}, and this program knows {CURRENT.version}; upgrade"
        ):
            await SqliteLog.open(home)

    run(scenario())


def test_a_migration_that_fails_leaves_the_old_schema(tmp_path: Path) -> None:
    version_one(tmp_path / "home")
    broken = replace(FUTURE, migrations={1: add_labels, 2: fail})
    with pytest.raises(LogUnavailable):
        run(SqliteLog.open(tmp_path / "home", schema=broken))

    async def scenario() -> None:
        async with opened(tmp_path / "home") as log:
            assert (await log.read(A)).version == 3
            assert not await log.query(
                lambda c: c.execute("SELECT 1 FROM sqlite_schema WHERE name = 'labels'").fetchall()
            )

    run(scenario())


def test_an_upcaster_that_fails_costs_only_its_event(tmp_path: Path) -> None:
    version_one(tmp_path / "home")

    def fail_on_one(raw: Raw) -> Raw:
        if "message 1" in str(raw):
            raise KeyError("a field that was not there yet")
        return raw

    async def scenario() -> None:
        schema = Schema(version=2, migrations={1: add_labels}, upcasters={("user_message", 1): fail_on_one})
        async with opened(tmp_path / "home", schema=schema) as log:
            found = await log.read(A)
            assert [each.seq for each in found.events] == [1, 3]
            assert [(each.kind, each.first_seq) for each in found.damage] == [(DamageKind.UNREADABLE, 2)]

    run(scenario())


def test_a_session_without_a_readable_summary_keeps_its_events_and_says_that_its_end_is_not_known(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mangled(connection: apsw.Connection, session_id: SessionId) -> None:
        raise apsw.CorruptError(f"the summary of session {session_id} is mangled")

    async def scenario() -> None:
        async with opened(home) as log:
            monkeypatch.setattr(readers, "head_of", mangled)
            found = await log.read(A)
            assert [each.seq for each in found.events] == list(range(1, 301))
            (lost,) = found.damage
            assert lost.message == "its summary cannot be read, so it is not known where it ends"

    run(scenario())


@pytest.mark.parametrize("readonly", [True, False])
def test_a_newer_schema_is_refused_and_not_touched(home: Path, readonly: bool) -> None:
    connection = database(home)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    before = (home / DATABASE_NAME).read_bytes()
    with pytest.raises(
        LogUnavailable, match=f"has schema 7, and this program knows {CURRENT.version}; upgrade interlock"
    ):
        run(SqliteLog.open(home, readonly=readonly))
    assert (home / DATABASE_NAME).read_bytes() == before


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    connection = database(tmp_path / "home")
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = (tmp_path / "home" / DATABASE_NAME).read_bytes()
    with pytest.raises(LogUnavailable, match="a database of another program"):
        run(SqliteLog.open(tmp_path / "home"))
    assert (tmp_path / "home" / DATABASE_NAME).read_bytes() == before


# Damage


def seqs_of(damage: tuple[LogDamage, ...]) -> set[int]:
    return {seq for each in damage for seq in range(each.first_seq or 0, (each.last_seq or -1) + 1)}


EDITS: Final = {
    "a line that is no event": ("UPDATE events SET line = x'00ff'", DamageKind.UNREADABLE),
    "an edited text": (
        "UPDATE events SET line = CAST(replace(line, 'message', 'massage') AS BLOB)",
        DamageKind.CHANGED,
    ),
    "a lost row": ("DELETE FROM events", DamageKind.MISSING),
    "another digest": ("UPDATE events SET digest = zeroblob(32)", DamageKind.CHANGED),
    "another's line": ("UPDATE events SET line = (SELECT line FROM events WHERE position = 1)", DamageKind.CHANGED),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("seq", [2, 150, 299])
def test_a_damaged_row_costs_only_itself(home: Path, edit: str, seq: int) -> None:
    sql, kind = EDITS[edit]
    connection = database(home)
    connection.execute(f"{sql} WHERE session_id = 'ses_a' AND seq = {seq}")
    assert connection.changes() == 1
    connection.close()
    sound = [each for each in range(1, 301) if each != seq]

    async def scenario() -> None:
        async with opened(home) as log:
            found = await log.read(A)
            assert [each.seq for each in found.events] == sound
            assert [(each.kind, each.first_seq, each.last_seq) for each in found.damage] == [(kind, seq, seq)]
            assert found.version == 300
            assert not (await log.read(B)).damage
            assert [each.seq for each in (await log.read(A, after=seq, limit=3)).events] == sound[seq - 1 :][:3]
            followed = [item async for item in drained(log)]
            assert [item.seq for item in followed if isinstance(item, Event)] == sound
            assert [item.first_seq for item in followed if isinstance(item, LogDamage)] == [seq]

    run(scenario())


async def drained(log: SqliteLog) -> AsyncIterator[Event | LogDamage]:
    source = log.follow(A)
    yield await anext(source)
    await log.close()
    async for item in source:
        yield item


def test_paging_passes_over_damage(home: Path) -> None:
    connection = database(home)
    connection.execute("UPDATE events SET line = x'00' WHERE session_id = 'ses_a' AND seq BETWEEN 100 AND 250")
    connection.close()

    async def scenario() -> None:
        async with opened(home, readonly=True) as log:
            found, after = [], 0
            while page := (await log.read(A, after=after, limit=7)).events:
                found += [each.seq for each in page]
                after = page[-1].seq or 0
            assert found == [*range(1, 100), *range(251, 301)]

    run(scenario())


@pytest.mark.parametrize("fill", [b"\x00", b"\xff", b"\x0d\x0a"])
def test_a_damaged_page_costs_only_its_rows(home: Path, fill: bytes) -> None:
    """Every page but the first in turn, whatever it holds: reading says what is lost, and gives the rest."""
    path = home / DATABASE_NAME
    original = path.read_bytes()

    async def scenario() -> int:
        salvaged = 0
        for number in range(1, len(original) // PAGE):
            damaged = bytearray(original)
            damaged[number * PAGE : (number + 1) * PAGE] = (fill * PAGE)[:PAGE]
            path.write_bytes(damaged)
            async with opened(home, readonly=True) as log:
                for session_id in (A, B):
                    found = await log.read(session_id)
                    seqs = {each.seq for each in found.events}
                    assert seqs.isdisjoint(seqs_of(found.damage))
                    is_end_known = all(each.first_seq is not None for each in found.damage)
                    assert seqs | seqs_of(found.damage) == set(range(1, 301)) or not is_end_known
                    salvaged += len(seqs)
                listed = await log.sessions()
                assert {each.session_id for each in listed.sessions} <= {A, B}
                source = log.follow_all()
                await asyncio.wait_for(anext(source), 100)
                await source.aclose()
        return salvaged

    pages = len(original) // PAGE - 1
    # A page of many rows is a small part of the file; only the root of the table takes everything with it.
    assert run(scenario()) > 0.9 * 600 * (pages - 1)


# By hand


def test_a_purged_session_leaves_a_tombstone(home: Path) -> None:
    async def scenario() -> None:
        async with opened(home) as log:
            before = (await log.sessions(prefix=A)).sessions[0]
            summary = await log.purge(A)
            assert summary == SessionSummary(
                session_id=A,
                version=300,
                head=before.head,
                first_at=before.first_at,
                last_at=before.last_at,
                is_purged=True,
            )
            assert (await log.sessions(prefix=A)).sessions == (summary,)
            found = await log.read(A)
            assert (found.events, found.version, found.damage) == ((), 300, ())
            with pytest.raises(UsageError, match="purged; begin a new session"):
                await log.append(A, batch(1))
            with pytest.raises(UsageError, match="no session"):
                await log.purge(SessionId("ses_none"))
            assert (await log.read(B)).version == 300
            position = (await log.rows(B))[-1].position
            await log.append(B, batch(1, B))
            assert (await log.rows(B))[-1].position > max(position, 599), "positions are not used again"

    run(scenario())


def test_maintenance_is_whole_or_absent_and_leaves_a_record(home: Path) -> None:
    def wipe(connection: apsw.Connection) -> None:
        connection.execute("DELETE FROM events")
        raise UsageError("changed my mind")

    async def scenario() -> None:
        async with opened(home) as log:
            with pytest.raises(UsageError, match="changed my mind"):
                await log.maintain("wipe", {}, wipe)
            assert (await log.read(A)).version == 300
            moved = "INSERT INTO quarantine (at_unix_ms, session_id, seq, reason) VALUES (0, 'ses_a', 1, 'a test')"
            await log.maintain("repair", {"why": "a test"}, lambda connection: connection.execute(moved))
            rows = await log.query(lambda c: c.execute("SELECT action, details FROM maintenance").fetchall())
            assert rows == [("repair", '{"why": "a test"}')]

    run(scenario())


def test_a_follower_ahead_of_the_log_waits_for_its_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "home") as log:
            following = asyncio.create_task(take(log.follow(A, after=5), 2))
            await log.append(A, batch(3))
            await log.append(A, batch(4))
            assert [each.seq for each in await following] == [6, 7]

    run(scenario())


def test_a_session_with_rows_beyond_its_head_fails_alone(home: Path) -> None:
    """An append to it meets a row that is already there; those that share its commit do not pay for that."""
    with database(home) as connection:
        connection.execute("UPDATE sessions SET version = 200 WHERE session_id = ?", (A,))

    async def scenario() -> None:
        async with opened(home) as log:
            appends = [log.append(A, batch(1)) if n % 3 == 0 else log.append(B, batch(1, B)) for n in range(12)]
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            assert len(failures) == 4
            assert all(isinstance(failure, LogUnavailable) and "verify" in str(failure) for failure in failures)
            found = await log.read(B)
            assert (found.version, found.damage) == (308, ())

    run(scenario())


def test_a_refused_append_in_a_group_uses_up_no_sequence_number(home: Path) -> None:
    async def scenario() -> None:
        async with opened(home) as log:
            appends = [log.append(A, batch(2), expected_version=1 if n % 2 else None) for n in range(10)]
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [302, 304, 306, 308, 310]
            found = await log.read(A)
            assert ([each.seq for each in found.events], found.damage) == (list(range(1, 311)), ())

    run(scenario())


def test_what_was_taken_is_written_before_other_work_in_the_same_group(home: Path) -> None:
    async def scenario() -> None:
        async with opened(home) as log:
            appends = [log.append(A, batch(1)) for _ in range(5)]
            answers = await asyncio.gather(*appends[:3], log.maintain("look", {}, lambda _: None), *appends[3:])
            assert answers == [301, 302, 303, None, 304, 305]
            assert (await log.read(A)).version == 305

    run(scenario())


def test_a_mistaken_append_costs_only_itself(home: Path) -> None:
    async def scenario() -> None:
        async with opened(home) as log:
            with pytest.raises(AttributeError):
                await log.append(A, [None])  # type: ignore[list-item]
            assert await log.append(A, batch(1)) == 301

    run(scenario())


def test_a_write_that_fails_as_nothing_provides_for_costs_only_itself(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its thread lives, and those that share its commit are written."""
    write = turn_index.write

    def fail_for_a(connection: apsw.Connection, rows: Sequence[tuple[SessionId, TurnRow]]) -> None:
        if any(session_id == A for session_id, _ in rows):
            raise RuntimeError("planted in a test")
        write(connection, rows)

    async def scenario() -> None:
        async with opened(home) as log:
            with monkeypatch.context() as patch:
                patch.setattr(turn_index, "write", fail_for_a)
                appends = [log.append(A, batch(1)) if n % 3 == 0 else log.append(B, batch(1, B)) for n in range(12)]
                outcomes = await asyncio.gather(*appends, return_exceptions=True)
            failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            assert len(failures) == 4
            assert all(isinstance(one, LogUnavailable) and "planted in a test" in str(one) for one in failures)
            assert (await log.read(B)).version == 308
            assert await log.append(A, batch(1)) == 301

    run(scenario())
    assert "planted in a test" in caplog.text


def test_a_heartbeat_that_fails_as_nothing_provides_for_costs_no_append(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()

    def fail(*_: object) -> None:
        failed.set()
        raise RuntimeError("planted in a test")

    async def scenario() -> None:
        log = await SqliteLog.open(home, heartbeat_seconds=0.01)
        with monkeypatch.context() as patch:
            patch.setattr(lease, "beat", fail)
            assert await asyncio.to_thread(failed.wait, 60)
        try:
            assert await log.append(A, batch(1)) == 301
        finally:
            await log.close()

    run(scenario())
    assert "planted in a test" in caplog.text


def test_events_beyond_a_head_that_was_set_back_are_not_passed_over_in_silence(home: Path) -> None:
    with database(home) as connection:
        connection.execute("UPDATE sessions SET version = 200 WHERE session_id = ?", (A,))

    async def scenario() -> None:
        async with opened(home, readonly=True) as log:
            found = await log.read(A)
            # The head is not the digest of event 200, so that one is not believed either.
            assert (len(found.events), [each.kind for each in found.damage][:1]) == (199, [DamageKind.HEAD_MISMATCH])

    run(scenario())


def test_a_session_that_lost_its_summary_and_its_beginning_does_not_begin_again(home: Path) -> None:
    with database(home) as connection:
        connection.execute("DELETE FROM sessions WHERE session_id = ?", (A,))
        connection.execute("DELETE FROM events WHERE session_id = ? AND seq < 4", (A,))

    async def scenario() -> None:
        async with opened(home) as log:
            with pytest.raises(LogUnavailable, match="has events and no summary"):
                await log.append(A, batch(1))
            assert await log.append(B, batch(1, B)) == 301

    run(scenario())


def test_a_writer_whose_file_was_replaced_writes_no_more(home: Path) -> None:
    async def scenario() -> None:
        async with opened(home) as log:
            await log.append(A, batch(1))
            (home / DATABASE_NAME).rename(home / "aside")
            (home / DATABASE_NAME).touch(0o600)
            with pytest.raises(LeaseLost):
                await log.append(A, batch(1))

    run(scenario())


def test_what_was_purged_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def scenario() -> None:
        async with opened(home) as log:
            await log.append(A, [event(text="a secret that must go")])
            await log.append(B, [event(B, text="what stays")])
            await log.purge(A)

    run(scenario())
    kept = b"".join(path.read_bytes() for path in home.iterdir())
    assert b"what stays" in kept
    assert b"a secret that must go" not in kept


def test_a_close_that_nobody_waits_for_still_ends_followers(home: Path) -> None:
    async def scenario() -> None:
        log = await SqliteLog.open(home)
        follower = asyncio.ensure_future(take(log.follow(A, after=300), 1))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(log.close())
        await asyncio.sleep(0)
        closing.cancel()
        assert await follower == []

    run(scenario())


def test_heads_are_not_believed_after_other_work_on_the_tables(home: Path) -> None:
    async def scenario() -> None:
        async with opened(home) as log:
            await log.append(A, batch(1))
            await log.purge(A)
            with pytest.raises(UsageError, match="was purged"):
                await log.append(A, batch(1))

    run(scenario())


def test_a_session_that_begins_with_several_appends_in_one_commit_began_with_the_first(tmp_path: Path) -> None:
    moments = [AT + timedelta(seconds=second) for second in range(20)]

    async def scenario() -> None:
        async with opened(tmp_path / "home") as log:
            await asyncio.gather(*(log.append(A, [structs.replace(event(), ts=moment)]) for moment in moments))
            (summary,) = (await log.sessions()).sessions
            assert (summary.first_at, summary.last_at) == (moments[0], moments[-1])

    run(scenario())
