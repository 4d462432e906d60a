"""The index of turns: it changes no answer, whatever is done to its rows, and says so when it cannot be used."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import apsw
import pytest
from msgspec import structs

from interlock.log.chain import Head, start
from interlock.log.port import Slice, TurnSlice
from interlock.log.repair import RebuildIndex, apply_repair, plan_repair
from interlock.log.sqlite.salvage import salvage
from interlock.log.sqlite.schema import Schema
from interlock.log.sqlite.store import SqliteLog
from interlock.log.sqlite.turn_index import TurnIndex, process_of, whole_slice
from interlock.log.verify import verify
from interlock.projections.turn_evidence import Dossier, dossiers_in, dossiers_of
from interlock.projections.why import why, why_last
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import ProviderUsage
from interlock.vocabulary.events.codec import decode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import A, batch, run
from tests.lifecycle.test_lost_events import turn
from tests.log.edits import copy_home, edit, sql
from tests.log.schema_one import make_version_one
from tests.log.turn_logs import random_session

SESSIONS: Final = 6
Answers: TypeAlias = tuple[object, ...]


def unstamped(events: list[Event]) -> list[Event]:
    return [structs.replace(event, seq=None) for event in events]


async def fill(log: SqliteLog, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(SESSIONS):
        events = unstamped(random_session(chance, f"ses_{number}", chance.randint(1, 60)))
        while events:
            size = chance.randint(1, 9)
            await log.append(SessionId(f"ses_{number}"), events[:size])
            events = events[size:]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made") / "home"

    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            await fill(log, 7)

    run(main())
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return copy_home(made, tmp_path / "home")


def answers_of(part: TurnSlice, last: int) -> Answers:
    """All that is asked of a part of a log."""
    found = dossiers_in(part, owner_alive=False)[-last:]
    return (found, why_last(part), why_last(part, owner_alive=False), part.process, part.found.damage)


def answers_by_all(found: Slice) -> tuple[list[Dossier], Answers]:
    """The same, without an index and without the functions that read a part: of every turn, and what follows it."""
    explained = why(found.events, found.damage), why(found.events, found.damage, owner_alive=False)
    dossiers = dossiers_of(found.events, found.damage, owner_alive=False)
    return dossiers, (*explained, process_of(found.events), found.damage)


async def compare(log: SqliteLog, *, by_index: bool | None = None) -> int:
    """Ask everything both ways, and return how many answers came by the index."""
    used = 0
    for number in range(SESSIONS):
        session_id = SessionId(f"ses_{number}")
        found = await log.read(session_id)
        dossiers, others = answers_by_all(found)
        for last in (1, 2, 5, 100):
            part = await log.read_turns(session_id, last=last)
            used += part.turns is not None
            assert answers_of(part, last) == (dossiers[-last:], *others), (session_id, last)
            assert by_index is None or not found.events or (part.turns is not None) is by_index
    return used


def compare_home(home: Path, *, by_index: bool | None = None) -> int:
    async def main() -> int:
        async with await SqliteLog.open(home, readonly=True) as log:
            return await compare(log, by_index=by_index)

    return run(main())


@pytest.mark.parametrize("seed", range(4))
def test_the_index_gives_the_answers_of_the_whole_session(tmp_path: Path, seed: int) -> None:
    async def main() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await fill(log, seed)
            assert await compare(log) > SESSIONS * 3

    run(main())


def test_a_part_begins_where_its_turn_does(home: Path) -> None:
    async def main() -> None:
        async with await SqliteLog.open(home, readonly=True) as log:
            sizes = []
            for number in range(SESSIONS):
                part = await log.read_turns(SessionId(f"ses_{number}"))
                assert part.after == (part.found.events[0].seq or 0) - 1
                sizes.append((len(part.found.events), part.found.version))
            assert sum(size for size, _ in sizes) < sum(version for _, version in sizes) / 2

    run(main())


# What may be done to the rows of the index. Each takes a source of chance and one session that has a row.


def _pick(chance: random.Random, connection: apsw.Connection) -> tuple[str, int]:
    rows = connection.execute("SELECT session_id, number FROM turns").fetchall()
    session_id, number = chance.choice(rows)
    return str(session_id), int(str(number))


def change_a_value(chance: random.Random, connection: apsw.Connection) -> None:
    place = _pick(chance, connection)
    column = chance.choice(["first_seq", "prompts", "turn_id", "digest", "number"])
    new = {"turn_id": "'t1'", "digest": "x'00'"}.get(column)
    spelled = new or f"{column} + {chance.choice([-3, -1, 1, 2, 50])}"
    connection.execute(f"UPDATE OR REPLACE turns SET {column} = {spelled} WHERE session_id = ? AND number = ?", place)


def change_a_seal(chance: random.Random, connection: apsw.Connection) -> None:
    """One byte of each: of the digest, of the last row's, or of the counts; or all of it is something else."""
    for number in range(SESSIONS):
        seal = _seal(connection, f"ses_{number}")
        if seal and len(seal) > 1:
            at = chance.choice([0, 31, 32, 63, *range(64, len(seal)), *range(64, len(seal))])
            changed = seal[:at] + bytes([seal[at] ^ 1]) + seal[at + 1 :]
            new = changed if chance.randrange(9) else chance.choice([b"", b"x", seal + b"9"])
            connection.execute("UPDATE sessions SET turns = ? WHERE session_id = ?", (new, f"ses_{number}"))


def lose_a_row(chance: random.Random, connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM turns WHERE session_id = ? AND number = ?", _pick(chance, connection))


def shift_a_session(chance: random.Random, connection: apsw.Connection) -> None:
    session_id, _ = _pick(chance, connection)
    by = chance.choice([-1, 1])
    column = chance.choice(["number", "first_seq"])
    order = "number" if by < 0 else "-number"
    numbers = connection.execute(
        f"SELECT number FROM turns WHERE session_id = ? ORDER BY {order}", (session_id,)
    ).fetchall()
    for (number,) in numbers:
        connection.execute(
            f"UPDATE OR REPLACE turns SET {column} = {column} + ? WHERE session_id = ? AND number = ?",
            (by, session_id, number),
        )


def give_to_another(chance: random.Random, connection: apsw.Connection) -> None:
    """The rows and the seal of one session under the name of another: each fits the other, none fits the events."""
    names = [f"ses_{number}" for number in chance.sample(range(SESSIONS), 2)]
    connection.execute("DELETE FROM turns WHERE session_id = ?", (names[1],))
    connection.execute("UPDATE turns SET session_id = ? WHERE session_id = ?", (names[1], names[0]))
    connection.execute("UPDATE sessions SET turns = ? WHERE session_id = ?", (_seal(connection, names[0]), names[1]))


def cut_the_tail(chance: random.Random, connection: apsw.Connection) -> None:
    """The last rows are gone, and the seal is one that the index had before them: what an older copy would hold."""
    session_id, number = _pick(chance, connection)
    (first_seq,) = connection.execute(
        "SELECT first_seq FROM turns WHERE session_id = ? AND number = ?", (session_id, number)
    ).fetchall()[0]
    connection.execute("DELETE FROM turns WHERE session_id = ? AND number >= ?", (session_id, number))
    older = TurnIndex(SessionId(session_id))
    end = Head(0, start(SessionId(session_id)))
    lines = connection.execute(
        "SELECT seq, line, digest FROM events WHERE session_id = ? AND seq < ? ORDER BY seq", (session_id, first_seq)
    ).fetchall()
    for seq, line, digest in lines:
        older.add(decode_event(bytes(line)), int(str(seq)))  # type: ignore[arg-type]
        end = Head(int(str(seq)), bytes(digest))  # type: ignore[arg-type]
    connection.execute("UPDATE sessions SET turns = ? WHERE session_id = ?", (older.seal(end), session_id))


def add_a_row(chance: random.Random, connection: apsw.Connection) -> None:
    session_id, _ = _pick(chance, connection)
    most = connection.execute("SELECT max(number) FROM turns WHERE session_id = ?", (session_id,)).fetchall()
    values = (session_id, int(str(most[0][0])) + 1, chance.randint(1, 60), f"t{chance.randint(1, 9)}")
    connection.execute("INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, 0, x'00')", values)


def empty_it(chance: random.Random, connection: apsw.Connection) -> None:
    connection.execute(chance.choice(["DELETE FROM turns", "UPDATE sessions SET turns = NULL"]))


def drop_it(_: random.Random, connection: apsw.Connection) -> None:
    connection.execute("DROP TABLE turns")


def _seal(connection: apsw.Connection, session_id: str) -> bytes | None:
    ((seal,),) = connection.execute("SELECT turns FROM sessions WHERE session_id = ?", (session_id,)).fetchall()
    return seal  # type: ignore[return-value]


HARMS: Final[tuple[Callable[[random.Random, apsw.Connection], None], ...]] = (
    change_a_value,
    change_a_seal,
    lose_a_row,
    shift_a_session,
    give_to_another,
    cut_the_tail,
    add_a_row,
    empty_it,
    drop_it,
)


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 7), marks=pytest.mark.deep)], ids=["few", "more"])
def test_no_state_of_the_index_changes_an_answer(
    made: Path, tmp_path: Path, harm: Callable[..., None], seeds: range
) -> None:
    is_once = harm in (empty_it, drop_it)
    for seed in seeds:
        home = copy_home(made, tmp_path / f"home{seed}")
        chance = random.Random(seed)
        for _ in range(1 if is_once else chance.randint(1, 4)):
            edit(home, lambda connection: harm(chance, connection))  # noqa: B023 - called at once
        compare_home(home)
        go_on(home, chance)  # a writer that begins with such an index, too
        compare_home(home)
        shutil.rmtree(home)


def go_on(home: Path, chance: random.Random) -> None:
    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            for number in range(SESSIONS):
                session_id = f"ses_{number}"
                await log.append(SessionId(session_id), unstamped(random_session(chance, session_id, 5)))
            await compare(log)

    run(main())


def test_a_writer_goes_on_with_its_own_index_beside_damaged_rows(home: Path) -> None:
    """What the writer knows of a session is in its memory: rows that are damaged meanwhile mislead it in nothing."""

    async def main() -> None:
        chance = random.Random(3)
        async with await SqliteLog.open(home) as log:
            for _ in range(8):
                for number in range(SESSIONS):
                    session_id = f"ses_{number}"
                    await log.append(SessionId(session_id), unstamped(random_session(chance, session_id, 3)))
                harm = chance.choice(HARMS[:6])
                await log.maintain("test", {}, lambda connection: harm(chance, connection))  # noqa: B023
                await compare(log)

    run(main())


def test_a_file_of_schema_one_is_read_whole_and_then_indexed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_version_one(home)

    async def write() -> list[tuple[Event, ...]]:
        async with await SqliteLog.open(home, schema=Schema(version=1)) as log:
            await fill(log, 5)
            return [(await log.read(SessionId(f"ses_{number}"))).events for number in range(SESSIONS)]

    before = run(write())
    assert compare_home(home) == 0, "a reader changes nothing, so there is no index yet"

    async def migrate() -> None:
        async with await SqliteLog.open(home) as log:
            assert await compare(log) > SESSIONS * 3
            assert [(await log.read(SessionId(f"ses_{n}"))).events for n in range(SESSIONS)] == before
            assert all([report.sound and not report.index_problem async for report in verify(log)])

    run(migrate())
    go_on(home, random.Random(9))


def test_a_migration_that_is_cut_off_leaves_schema_one_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    make_version_one(home)

    async def write() -> None:
        async with await SqliteLog.open(home, schema=Schema(version=1)) as log:
            await fill(log, 5)

    run(write())
    with monkeypatch.context() as patched:
        patched.setattr(
            "interlock.log.sqlite.turn_index.write", lambda *_: (_ for _ in ()).throw(apsw.FullError("full"))
        )
        with pytest.raises(Exception, match="full"):
            run(SqliteLog.open(home))
    assert edit(home, lambda connection: connection.execute("PRAGMA user_version").fetchall()) == [(1,)]
    go_on(home, random.Random(9))


def test_verify_says_that_an_index_cannot_be_used_and_repair_rebuilds_it(home: Path) -> None:
    sql(
        home,
        "UPDATE sessions SET turns = NULL WHERE session_id = 'ses_1'",
        "UPDATE turns SET first_seq = first_seq + 1",
    )

    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            reports = [report async for report in verify(log)]
            assert all(report.sound for report in reports), "a cache is no part of the log"
            problems = {report.session_id: report.index_problem for report in reports}
            assert problems[SessionId("ses_1")] == "its index of turns is missing, so all of it is read"
            assert problems[SessionId("ses_2")] == "its index of turns does not fit its events, so all of it is read"
            plan = await plan_repair(log)
            assert {type(step) for step in plan.steps} == {RebuildIndex}
            await apply_repair(log, plan)
            assert not (await plan_repair(log)).steps
            assert await compare(log) > SESSIONS * 3

    run(main())


def test_a_session_that_is_known_to_be_damaged_has_no_index(home: Path) -> None:
    """So each reader meets the damage, wherever it is."""
    name = "ses_3"
    sql(home, f"UPDATE events SET line = CAST(line || ' ' AS BLOB) WHERE session_id = '{name}' AND seq = 2")

    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            session_id = SessionId(name)
            assert (await log.read_turns(session_id)).turns is not None, "damage before the turn is not met"
            await apply_repair(log, await plan_repair(log))
            part = await log.read_turns(session_id)
            assert part.turns is None
            assert part.found.damage
            await log.append(session_id, batch(2, session_id))
            assert await log.read_turns(session_id) == whole_slice(await log.read(session_id))

    run(main())


def test_damage_in_the_part_that_is_read_is_met(home: Path) -> None:
    async def main() -> None:
        async with await SqliteLog.open(home, readonly=True) as log:
            for number in range(SESSIONS):
                assert (await log.read_turns(SessionId(f"ses_{number}"))).found.damage

    sql(
        home,
        "DELETE FROM events WHERE seq = (SELECT version FROM sessions AS s WHERE s.session_id = events.session_id)",
    )
    run(main())
    compare_home(home)


def test_a_purged_session_has_no_index(home: Path) -> None:
    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            await log.purge(SessionId("ses_1"))
            assert (await log.read_turns(SessionId("ses_1"))).found.events == ()

    run(main())
    count = "SELECT (SELECT count(*) FROM turns WHERE session_id = 'ses_1') + count(turns) FROM sessions"
    found = edit(home, lambda connection: connection.execute(f"{count} WHERE session_id = 'ses_1'").fetchall())
    assert found == [(0,)]


def test_salvage_makes_the_index_anew(home: Path) -> None:
    sql(home, "DELETE FROM turns", "UPDATE sessions SET turns = NULL")
    run(salvage(home, force=True))
    assert compare_home(home) > SESSIONS * 3


def test_a_session_without_a_turn_is_read_whole(tmp_path: Path) -> None:
    async def main() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            assert await log.read_turns(A) == TurnSlice(found=Slice(events=(), version=0))

    run(main())


@pytest.mark.parametrize("has_prompt", [True, False])
def test_a_loss_just_before_the_last_turn_is_met_where_its_beginning_may_be_lost(
    tmp_path: Path, has_prompt: bool
) -> None:
    """A turn that nobody prompted may have begun among the lost events. The index knows better, and decides nothing."""
    scribe = Scribe("ses_0")
    turn(scribe, "t1")
    scribe.write(ProviderUsage(model="m"))
    turn(scribe, "t2", has_prompt=has_prompt)

    async def main() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await log.append(scribe.session, unstamped(scribe.events))
        sql(tmp_path / "home", "DELETE FROM events WHERE session_id = 'ses_0' AND seq = 9")
        async with await SqliteLog.open(tmp_path / "home", readonly=True) as log:
            part, found = await log.read_turns(scribe.session), await log.read(scribe.session)
        assert answers_of(part, 1)[0] == answers_by_all(found)[0][-1:]
        assert (part.turns is None) is not has_prompt
        assert dossiers_in(part)[-1].state.value == ("completed" if has_prompt else "unknown")

    run(main())


def test_a_loss_before_the_first_turn_is_met_where_its_beginning_may_be_lost(tmp_path: Path) -> None:
    """The first event of a session is looked at, too, before a turn without a prompt is read by the index."""
    scribe = Scribe("ses_0")
    scribe.write(ProviderUsage(model="m"))
    turn(scribe, "t1", has_prompt=False)

    async def main() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await log.append(scribe.session, unstamped(scribe.events))
            assert (await log.read_turns(scribe.session)).turns is not None
        sql(tmp_path / "home", "DELETE FROM events WHERE session_id = 'ses_0' AND seq = 1")
        async with await SqliteLog.open(tmp_path / "home", readonly=True) as log:
            part = await log.read_turns(scribe.session)
        assert part.turns is None
        assert [one.first_seq for one in part.found.damage] == [1]
        assert dossiers_in(part)[-1].state.value == "unknown"

    run(main())
