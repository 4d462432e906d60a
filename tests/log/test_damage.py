"""Damage from outside: whatever happens to the file, no event is returned that was not written, and nothing hangs.

The one exception cannot be had better from a chain: the first event after a hole has nothing to follow from, and the
hole that is told just before it says so.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw
import pytest

from interlock.log.paths import DATABASE_NAME
from interlock.log.port import LogUnavailable, SessionSummary, Slice
from interlock.log.repair import apply_repair, plan_repair
from interlock.log.sqlite.salvage import salvage
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import VerifyReport, verify
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.ids import SessionId
from tests import golden
from tests.contract.harness import A, B, event, run
from tests.log.edits import EVENTS, copy_home, edit, found, make_home, plan_of, relink, report_of, reports, sql
from tests.seeds import asked_seed, seed_of

SESSIONS: Final = tuple(SessionId(f"ses_{name}") for name in "abc")
MISSING_ALL: Final = ("missing", 1, EVENTS)
GOLDEN: Final = Path(__file__).parent / "golden" / "damage.txt"
# Its bytes are no UTF-8, so that it cannot be asked for by the name that is shown of it.
MISNAMED: Final = "UPDATE events SET session_id = CAST(x'7365735fff' AS TEXT) WHERE session_id = 'ses_b' AND seq = 2"
Found = set[tuple[str, int | None, int | None]]

EDITS: Final[dict[str, tuple[tuple[str, ...], Found]]] = {
    "a changed line": (
        ("UPDATE events SET line = CAST(replace(line, 'a3', 'b3') AS BLOB) WHERE session_id = 'ses_a' AND seq = 4",),
        {("changed", 4, 4)},
    ),
    "a changed digest": (
        ("UPDATE events SET digest = zeroblob(32) WHERE session_id = 'ses_a' AND seq = 4",),
        {("changed", 4, 4)},
    ),
    "a line that is no event": (
        ("UPDATE events SET line = x'7b7d' WHERE session_id = 'ses_a' AND seq = 4",),
        {("unreadable", 4, 4)},
    ),
    "a deleted row": (
        ("DELETE FROM events WHERE session_id = 'ses_a' AND seq = 4",),
        {("missing", 4, 4)},
    ),
    "the first rows deleted": (
        ("DELETE FROM events WHERE session_id = 'ses_a' AND seq < 4",),
        {("missing", 1, 3)},
    ),
    "a copy at the end, with its head": (
        (
            "INSERT INTO events SELECT NULL, session_id, 10, line, digest, 1 FROM events "
            "WHERE session_id = 'ses_a' AND seq = 3",
            "UPDATE sessions SET version = 10 WHERE session_id = 'ses_a'",
        ),
        {("duplicated", 10, 10)},
    ),
    "a copy at the end, without its head": (
        (
            "INSERT INTO events SELECT NULL, session_id, 10, line, digest, 1 FROM events "
            "WHERE session_id = 'ses_a' AND seq = 3",
        ),
        {("duplicated", 10, 10)},
    ),
    "a copy over another event": (
        (
            "UPDATE events SET line = (SELECT line FROM events WHERE session_id = 'ses_a' AND seq = 3) "
            "WHERE session_id = 'ses_a' AND seq = 4",
        ),
        {("duplicated", 4, 4)},
    ),
    "two neighbours swapped": (
        (
            "UPDATE events SET seq = -3 WHERE session_id = 'ses_a' AND seq = 3",
            "UPDATE events SET seq = 3 WHERE session_id = 'ses_a' AND seq = 4",
            "UPDATE events SET seq = 4 WHERE session_id = 'ses_a' AND seq = -3",
        ),
        {("reordered", 3, 4)},
    ),
    "two far ones swapped": (
        (
            "UPDATE events SET seq = -3 WHERE session_id = 'ses_a' AND seq = 3",
            "UPDATE events SET seq = 3 WHERE session_id = 'ses_a' AND seq = 7",
            "UPDATE events SET seq = 7 WHERE session_id = 'ses_a' AND seq = -3",
        ),
        {("reordered", 3, 3), ("reordered", 7, 7)},
    ),
    "a row moved away": (
        ("UPDATE events SET seq = 1000 WHERE session_id = 'ses_a' AND seq = 4",),
        {("missing", 4, 4), ("reordered", 1000, 1000)},
    ),
    "a row before the first": (
        ("UPDATE events SET seq = 0 WHERE session_id = 'ses_a' AND seq = 4",),
        {("missing", 4, 4), ("changed", 0, 0)},
    ),
    "an event deleted and the rest moved up": (
        (
            "DELETE FROM events WHERE session_id = 'ses_a' AND seq = 7",
            "UPDATE events SET seq = 7 WHERE session_id = 'ses_a' AND seq = 8",
            "UPDATE events SET seq = 8 WHERE session_id = 'ses_a' AND seq = 9",
        ),
        {("reordered", 7, 8), ("missing", 9, 9)},
    ),
    "an event of another session": (
        ("UPDATE events SET session_id = 'ses_a', seq = 10 WHERE session_id = 'ses_b' AND seq = 4",),
        {("head_mismatch", 10, 10)},
    ),
    "a cut tail, the head as it was": (
        ("DELETE FROM events WHERE session_id = 'ses_a' AND seq > 6",),
        {("missing", 7, 9)},
    ),
    "all rows deleted": (("DELETE FROM events WHERE session_id = 'ses_a'",), {MISSING_ALL}),
    "a head set back": (
        (
            "UPDATE sessions SET version = 6, head = (SELECT digest FROM events WHERE session_id = 'ses_a' AND seq = 6)"
            " WHERE session_id = 'ses_a'",
        ),
        {("head_mismatch", 7, 9)},
    ),
    "a changed head": (
        ("UPDATE sessions SET head = zeroblob(32) WHERE session_id = 'ses_a'",),
        {("head_mismatch", EVENTS, EVENTS)},
    ),
    "no summary": (("DELETE FROM sessions WHERE session_id = 'ses_a'",), {("head_mismatch", None, None)}),
    "a tombstone with events": (
        ("UPDATE sessions SET is_purged = 1 WHERE session_id = 'ses_a'",),
        {("head_mismatch", 1, EVENTS)},
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("made") / "home")


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return copy_home(made, tmp_path / "home")


@pytest.mark.parametrize(("statements", "expected"), EDITS.values(), ids=EDITS)
def test_an_edit_is_found_and_named(home: Path, statements: tuple[str, ...], expected: Found) -> None:
    sql(home, *statements)
    report = report_of(home)
    assert found(report.damage) == expected
    assert not report.sound
    assert all(one.message and one.next_actions for one in report.damage)
    assert [one.sound for one in reports(home) if one.session_id == B] == [not _touches(statements, B)]


def test_what_verify_and_repair_say_of_each_edit_is_on_file(made: Path, tmp_path: Path) -> None:
    """Sentences, places and next actions, word for word; INTERLOCK_WRITE_GOLDEN=1 writes them anew."""
    lines = list[str]()
    for name, statements in {**{name: row[0] for name, row in EDITS.items()}, "a misnamed row": (MISNAMED,)}.items():
        home = copy_home(made, tmp_path / name)
        sql(home, *statements)
        plan = plan_of(home)
        told = [one for report in reports(home) for one in report.damage]
        lines += [f"== {name}", *map(golden.told, (*told, *plan.steps)), plan.next_action]
    # The ids of the events differ from run to run, and with them the heads.
    golden.check(GOLDEN, [re.sub(r"\b[0-9a-f]{64}\b", "<head>", line) for line in lines])


def _touches(statements: tuple[str, ...], session_id: SessionId) -> bool:
    return any(str(session_id) in statement for statement in statements)


def test_two_rows_of_one_number_are_found(home: Path) -> None:
    """Only possible where the index that forbids it was taken away."""
    sql(
        home,
        "CREATE TABLE loose AS SELECT * FROM events",
        "INSERT INTO loose SELECT 99, session_id, seq, line, digest, 1 FROM events WHERE session_id='ses_a' AND seq=3",
        "DROP TABLE events",
        "ALTER TABLE loose RENAME TO events",
    )
    assert found(report_of(home).damage) == {("duplicated", 3, 3)}


def test_a_summary_whose_cells_are_nonsense_says_nothing_rather_than_something(home: Path) -> None:
    sql(
        home,
        "CREATE TABLE loose AS SELECT * FROM sessions",
        "UPDATE loose SET version = 'nine', head = 'h', first_at = 'soon', last_at = 7 WHERE session_id = 'ses_a'",
        "DROP TABLE sessions",
        "ALTER TABLE loose RENAME TO sessions",
    )

    async def main() -> list[SessionSummary]:
        async with await SqliteLog.open(home, readonly=True) as log:
            return list((await log.sessions(prefix=A)).sessions)

    assert run(main()) == [SessionSummary(session_id=A, version=0, head="")]


def test_rows_that_the_index_does_not_lead_to_are_found(home: Path) -> None:
    hide(home, "session_id = 'ses_a' AND seq = 4")
    expected = {("missing", 4, 4)}
    assert found(report_of(home).damage) == expected
    assert {one.session_id: found(one.damage) for one in reports(home)} == {A: expected, B: set()}
    assert any("does not lead" in one.message for one in report_of(home).damage)


def hide(home: Path, where: str) -> None:
    """Take rows out of the index, and leave them in the table."""

    def work(connection: apsw.Connection) -> None:
        kept = connection.execute(f"SELECT * FROM events WHERE {where}").fetchall()
        connection.execute(f"DELETE FROM events WHERE {where}")
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"""
            INSERT INTO sqlite_schema VALUES ('table', 'bare', 'bare', {root}, 'CREATE TABLE bare (position INTEGER
            PRIMARY KEY, session_id TEXT, seq INTEGER, line BLOB, digest BLOB, schema_version INTEGER)')""")
        connection.execute("PRAGMA writable_schema = RESET")
        connection.executemany("INSERT INTO bare VALUES (?, ?, ?, ?, ?, ?)", kept)
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_schema WHERE name = 'bare'")
        connection.execute("PRAGMA writable_schema = RESET")

    connection = apsw.Connection(str(home / DATABASE_NAME))
    work(connection)
    connection.close()


def forge(connection: apsw.Connection) -> None:
    connection.execute("UPDATE events SET line = CAST(replace(line, 'a3', 'b3') AS BLOB) WHERE session_id = 'ses_a'")
    relink(connection)


def cut(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM events WHERE session_id = 'ses_a' AND seq > 6")
    relink(connection)


@pytest.mark.parametrize("rewrite", [forge, cut])
def test_a_consistent_rewrite_shows_only_against_an_anchor(
    home: Path, rewrite: Callable[[apsw.Connection], None]
) -> None:
    before = report_of(home)
    assert before.sound
    edit(home, rewrite)
    assert report_of(home).sound, "the documented blind spot: nothing in the file itself tells"
    after = report_of(home, anchor=before.anchor)
    assert not after.sound
    assert after.is_anchored is False
    assert found(after.damage) == {("head_mismatch", EVENTS, EVENTS)}


@dataclass(frozen=True, slots=True)
class Ground:
    """Two homes to damage copies of: one closed in good order, one as a crash leaves it, with most of it in the WAL."""

    written: dict[SessionId, dict[int, bytes]]
    homes: tuple[Path, Path]
    scratch: Path


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    folder = tmp_path_factory.mktemp("ground")
    written: dict[SessionId, dict[int, bytes]] = {}

    async def main() -> None:
        async with await SqliteLog.open(folder / "open") as log:
            # The copies are mended by this same process, which would be found alive.
            await log.maintain("let go", {}, lambda c: c.execute("UPDATE lease SET holder = ''").fetchall())
            for turn in range(12):
                for session_id in SESSIONS:
                    texts = (f"{session_id} {turn} {size} " + "x" * size for size in (0, 90, 700, 7000 * (turn % 3)))
                    await log.append(session_id, [event(session_id, text) for text in texts])
            copy_home(folder / "open", folder / "crashed")
            for session_id in SESSIONS:
                events = (await log.read(session_id)).events
                written[session_id] = {each.seq or 0: encode_event(each) for each in events}

    run(main())
    assert (folder / "crashed" / f"{DATABASE_NAME}-wal").stat().st_size > 100_000
    return Ground(written, (copy_home(folder / "open", folder / "closed"), folder / "crashed"), folder / "scratch")


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def scribble(data: bytearray, rng: random.Random) -> None:
    size = rng.choice((1, 4, 64, 512, 4096))
    at = rng.randrange(len(data))
    data[at : at + size] = rng.choice((bytes, rng.randbytes))(len(data[at : at + size]))


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def misplace(data: bytearray, rng: random.Random) -> None:
    """A page written to the wrong place."""
    pages = len(data) // 4096
    source, target = rng.randrange(pages) * 4096, rng.randrange(pages) * 4096
    data[target : target + 4096] = data[source : source + 4096]


DAMAGES: Final = (flip, flip, flip, scribble, truncate, misplace)


def damage_and_look(ground: Ground, seed: str) -> str:
    """Damage a copy, look at it in every way, check what is told, and mend it. Returns what became of it, in a word."""
    rng = random.Random(seed)
    shutil.rmtree(ground.scratch, ignore_errors=True)
    home = copy_home(rng.choices(ground.homes, weights=(3, 1))[0], ground.scratch)
    files = sorted(path for path in home.iterdir() if path.stat().st_size)
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    rng.choice(DAMAGES)(data, rng)
    path.write_bytes(data)
    try:
        slices, findings = run(look(home))
    except LogUnavailable:
        outcome = "unavailable"
    else:
        outcome = judge(ground, slices, findings, seed, may_be_older=len(files) > 1)
    if rng.random() < 0.5:
        return outcome
    try:
        mended = run(mend(home))
    except LogUnavailable:
        return f"{outcome} beyond repair"
    for session_id, found_there in mended.items():
        check_slice(found_there, ground.written[session_id], seed, may_be_older=True)
    return outcome


def judge(
    ground: Ground, slices: dict[SessionId, Slice], findings: list[VerifyReport], seed: str, *, may_be_older: bool
) -> str:
    for session_id, found_there in slices.items():
        check_slice(found_there, ground.written[session_id], seed, may_be_older=may_be_older)
    for report in findings:
        if report.sound and report.session_id in slices:
            assert slices[report.session_id].damage == (), f"{seed}: verify calls it sound"
            assert len(slices[report.session_id].events) == report.events_checked == report.version, seed
    if any(one.damage for one in slices.values()) or any(not report.sound for report in findings):
        return "damaged"
    return "older" if any(one.version < len(ground.written[key]) for key, one in slices.items()) else "unharmed"


async def mend(home: Path) -> dict[SessionId, Slice]:
    """Repair, by salvage where it must be, and go on writing. Returns what is read then, but for the new events."""
    try:
        async with await SqliteLog.open(home, readonly=True) as log:
            is_broken = (await plan_repair(log)).needs_salvage
    except LogUnavailable:
        is_broken = True
    if is_broken:
        await salvage(home, force=True)
    async with await SqliteLog.open(home, force=True) as log:
        await apply_repair(log, await plan_repair(log))
        slices = {session_id: await log.read(session_id) for session_id in SESSIONS}
        for session_id, found_there in slices.items():
            version = await log.append(session_id, [event(session_id, "new")], expected_version=found_there.version)
            assert [each.seq for each in (await log.read(session_id, after=version - 1)).events] == [version]
        plan = await plan_repair(log)
        assert (plan.steps, plan.needs_salvage) == ((), False)
        return slices


async def look(home: Path) -> tuple[dict[SessionId, Slice], list[VerifyReport]]:
    """All that a person would try on a suspicious log."""
    async with await SqliteLog.open(home, readonly=True) as log:
        await log.sessions()
        slices = {session_id: await log.read(session_id) for session_id in SESSIONS}
        findings = [report async for report in verify(log)]
        plan = await plan_repair(log)
        assert bool(plan.damage) == any(report.damage for report in findings)
        return slices, findings


def check_slice(found_there: Slice, written: dict[int, bytes], seed: str, *, may_be_older: bool) -> None:
    events = {each.seq or 0: encode_event(each) for each in found_there.events}
    assert len(events) == len(found_there.events), f"{seed}: an event is returned twice"
    for seq, line in events.items():
        is_after_hole = seq > 1 and seq - 1 not in events
        assert line == written.get(seq) or is_after_hole, f"{seed}: event {seq} was not written like that"
    lost = set(written) - set(events)
    ranges = [(one.first_seq, one.last_seq) for one in found_there.damage]
    told = {seq for seq in lost for first, last in ranges if first is None or first <= seq <= (last or first)}
    # A WAL that is damaged ends where the damage begins: that is an older state, and nothing in the file tells.
    is_older = may_be_older and found_there.version == len(events) and not found_there.damage
    assert told == lost or is_older, f"{seed}: {sorted(lost - told)} are gone without a word"


QUICK_ROUNDS, DEEP_ROUNDS = 100, 2_500


def fuzz(ground: Ground, rounds: int) -> str:
    """So many rounds; says what they came to. `INTERLOCK_SEED`, as a failure names it, repeats one round."""
    only = asked_seed()
    if only is not None:
        return damage_and_look(ground, only)
    base = seed_of(f"damage {rounds}")
    outcomes = Counter(damage_and_look(ground, f"{base}/{number}") for number in range(rounds))
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return f"damaged log files: {outcomes.total()} from seed {base}: {told}"


def test_no_damage_to_the_file_makes_a_wrong_event(
    ground: Ground, record_property: Callable[[str, object], None]
) -> None:
    record_property("explored", fuzz(ground, rounds=QUICK_ROUNDS))


@pytest.mark.deep
@pytest.mark.timeout(1500)
def test_no_damage_to_the_file_makes_a_wrong_event_in_a_long_run(
    ground: Ground, record_property: Callable[[str, object], None]
) -> None:
    record_property("explored", fuzz(ground, rounds=DEEP_ROUNDS))
