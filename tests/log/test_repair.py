"""Repair: a plan first, nothing deleted, nothing hidden, and new events go on from the head that was kept."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from interlock.log.lease import LeaseHeld
from interlock.log.paths import DATABASE_NAME
from interlock.log.port import LogUnavailable
from interlock.log.repair import MakeSummary, MoveHead, Quarantine, RepairPlan, apply_repair, plan_repair
from interlock.log.sqlite import salvage as salvage_module
from interlock.log.sqlite.salvage import Salvaged, salvage
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import A, B, batch, run
from tests.log.edits import (
    EVENTS,
    copy_home,
    edit,
    found,
    lines_of,
    make_home,
    plan_of,
    report_of,
    reports,
    sql,
    write,
)
from tests.log.test_damage import EDITS, hide


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("made") / "home")


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return copy_home(made, tmp_path / "home")


def repair(home: Path) -> tuple[RepairPlan, int]:
    async def main() -> tuple[RepairPlan, int]:
        async with await SqliteLog.open(home) as log:
            plan = await plan_repair(log)
            return plan, await apply_repair(log, plan)

    return run(main())


def append(home: Path, number: int = 2) -> int:
    async def main() -> int:
        async with await SqliteLog.open(home) as log:
            return await log.append(A, batch(number))

    return run(main())


def rows(home: Path, query: str) -> list[tuple[object, ...]]:
    return edit(home, lambda connection: [tuple(row) for row in connection.execute(query)])


def all_lines(home: Path) -> list[object]:
    """Every line that the file holds anywhere."""
    return [line for (line,) in rows(home, "SELECT line FROM events UNION ALL SELECT line FROM quarantine ORDER BY 1")]


@pytest.mark.parametrize("statements", [statements for statements, _ in EDITS.values()], ids=EDITS)
def test_after_repair_nothing_is_hidden_nothing_is_gone_and_the_log_goes_on(
    home: Path, statements: tuple[str, ...]
) -> None:
    written = lines_of(home)[A]
    sql(home, *statements)
    damage, held = report_of(home).damage, all_lines(home)
    plan, changed = repair(home)
    assert {*damage} <= {*plan.damage}
    assert changed == len(plan.steps)
    assert all_lines(home) == held, "nothing is deleted"
    assert plan_of(home).steps == (), "there is nothing more to do"
    after = report_of(home)
    is_remade = any(isinstance(step, MakeSummary) for step in plan.steps)
    kept = lines_of(home)[A]
    assert {*kept} <= {*written}
    assert after.sound is (not is_remade and (after.is_purged or len(kept) == after.version)), "what is lost shows"
    assert {kind for kind, *_ in found(after.damage)} <= {"missing", "head_mismatch"}
    if not after.is_purged:
        assert append(home) == after.version + 2
        grown = report_of(home)
        assert grown.events_checked == after.events_checked + 2
        assert found(grown.damage) == found(after.damage)


def test_a_sound_log_has_an_empty_plan(home: Path) -> None:
    plan = plan_of(home)
    assert (plan.steps, plan.damage, plan.next_action) == ((), (), "nothing to do")


def test_a_plan_changes_nothing(home: Path) -> None:
    sql(home, *EDITS["two neighbours swapped"][0])
    before = rows(home, "SELECT * FROM events")
    plan = plan_of(home)
    assert [(step.seq, step.session_id) for step in plan.steps if isinstance(step, Quarantine)] == [(4, A), (3, A)]
    assert "`interlock log repair --apply`" in plan.next_action
    assert rows(home, "SELECT * FROM events") == before
    assert rows(home, "SELECT * FROM quarantine") == []


def test_a_plan_is_applied_once_however_often(home: Path) -> None:
    sql(home, *EDITS["a changed line"][0])
    plan = plan_of(home)

    async def main() -> list[int]:
        async with await SqliteLog.open(home) as log:
            return [await apply_repair(log, plan) for _ in range(3)]

    assert run(main()) == [1, 0, 0]
    ((session_id, seq, reason),) = rows(home, "SELECT session_id, seq, reason FROM quarantine")
    assert (session_id, seq) == (A, 4)
    assert "changed: its digest does not follow from its line" in str(reason)
    assert rows(home, "SELECT count(*) FROM quarantine WHERE at_unix_ms > 0") == [(1,)]


def test_a_repair_leaves_a_note(home: Path) -> None:
    sql(home, *EDITS["no summary"][0])
    plan, _ = repair(home)
    assert [type(step) for step in plan.steps] == [MakeSummary]
    ((details,),) = rows(home, "SELECT details FROM maintenance WHERE action = 'repair'")
    assert details == '{"quarantined": 0, "heads_moved": [], "summaries": ["ses_a"]}'
    (told,) = report_of(home).damage
    assert "repair made its summary anew" in told.message
    assert len(lines_of(home)[A]) == EVENTS


def test_a_repaired_hole_says_what_is_in_quarantine(home: Path) -> None:
    sql(home, *EDITS["a changed line"][0])
    repair(home)
    (hole,) = report_of(home).damage
    assert hole.message == "no such row; 1 of them in quarantine"
    sql(home, "DELETE FROM events WHERE session_id = 'ses_a' AND seq = 6")
    lost = [one for one in report_of(home).damage if one.first_seq == 6]
    assert [one.message for one in lost] == ["no such row; event 7 after it cannot be proven unchanged"]


def test_a_head_that_was_left_behind_catches_up_only_over_what_follows_from_it(home: Path) -> None:
    sql(home, *EDITS["a head set back"][0])
    sql(home, "UPDATE events SET digest = zeroblob(32) WHERE session_id = 'ses_a' AND seq = 8")
    plan, _ = repair(home)
    moved = [(step.from_version, step.version) for step in plan.steps if isinstance(step, MoveHead)]
    taken = [step.seq for step in plan.steps if isinstance(step, Quarantine)]
    assert (moved, taken) == ([(6, 7)], [8, 9])
    assert report_of(home).sound


@pytest.mark.parametrize(("text", "removed"), [("x2", 1), ("a2", 4)], ids=["the first is forged", "they are the same"])
def test_the_better_of_two_rows_stays(home: Path, text: str, removed: int) -> None:
    """Two rows of one number, and one of them is to stay."""
    sql(
        home,
        "CREATE TABLE loose AS SELECT * FROM events",
        f"INSERT INTO loose SELECT 0, session_id, seq, CAST(replace(line, 'a2', '{text}') AS BLOB), digest, 1 "
        "FROM events WHERE session_id = 'ses_a' AND seq = 3",
        "DROP TABLE events",
        "CREATE TABLE events (position INTEGER PRIMARY KEY, session_id, seq, line, digest, schema_version)",
        "INSERT INTO events SELECT position + 1, session_id, seq, line, digest, schema_version FROM loose",
    )
    plan, _ = repair(home)
    assert [(step.seq, step.position) for step in plan.steps if isinstance(step, Quarantine)] == [(3, removed)]
    assert report_of(home).sound


def test_rows_of_a_garbled_name_are_quarantined(home: Path) -> None:
    sql(home, "UPDATE events SET session_id = 'no/name' WHERE session_id = 'ses_b'")
    plan, changed = repair(home)
    assert changed == 4
    assert {step.reason for step in plan.steps if isinstance(step, Quarantine)} == {"its session id was changed"}
    assert {one.session_id: found(one.damage) for one in reports(home)} == {A: set(), B: {("missing", 1, 4)}}
    assert all("no/name" not in action.command for one in plan.damage for action in one.next_actions)


def test_an_anchor_does_not_vouch_across_a_hole(home: Path) -> None:
    """Its digest stands where it stood, and whoever made the hole could have rewritten all that is before it."""
    anchor = report_of(home).anchor
    sql(home, *EDITS["a changed line"][0])
    repair(home)
    append(home)
    after = report_of(home, anchor=anchor)
    assert after.is_anchored is None
    assert found(after.damage) == {("missing", 4, 4)}


def test_a_broken_file_is_not_repaired_row_by_row(home: Path) -> None:
    hide(home, "session_id = 'ses_a' AND seq = 4")
    plan = plan_of(home)
    assert plan.needs_salvage
    assert "--salvage" in plan.next_action

    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            await apply_repair(log, plan)

    with pytest.raises(UsageError, match="--salvage"):
        run(main())


def rescue(home: Path, *, force: bool = False) -> Salvaged:
    return run(salvage(home, force=force, clock=lambda: 1.5))


def test_salvage_brings_hidden_rows_back_and_keeps_the_broken_file(home: Path) -> None:
    hide(home, "session_id = 'ses_a' AND seq = 4")
    lines, broken = all_lines(home), (home / DATABASE_NAME).read_bytes()
    salvaged = rescue(home)
    assert (salvaged.events, salvaged.sessions, salvaged.quarantined) == (EVENTS + 4, 2, 0)
    assert Path(salvaged.broken) == home / f"{DATABASE_NAME}.broken-1500"
    assert Path(salvaged.broken).read_bytes() == broken
    assert all_lines(home) == lines
    assert [one.sound for one in reports(home)] == [True, True]
    assert (home / DATABASE_NAME).stat().st_mode & 0o777 == 0o600
    assert rows(home, "SELECT at_unix_ms, action FROM maintenance") == [(1500, "salvage")]
    assert append(home) == EVENTS + 2


@pytest.mark.parametrize("purged", [(B,), (A, B)], ids=["the last", "all"])
def test_after_a_salvage_positions_are_not_used_again(home: Path, purged: tuple[SessionId, ...]) -> None:
    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            for session_id in purged:
                await log.purge(session_id)

    run(main())
    rescue(home)
    run(write(home, {SessionId("ses_c"): ["new"]}))
    assert rows(home, "SELECT max(position) FROM events") == [(EVENTS + 4 + 1,)]


def big_home(home: Path) -> Path:
    run(write(home, {A: [f"a{n} " + "x" * 900 for n in range(60)], B: [f"b{n}" for n in range(400)]}))
    return home


def wipe(home: Path, tree: str) -> None:
    """Overwrite one page in the middle of a tree."""
    leaves = rows(home, f"SELECT pageno FROM dbstat WHERE name = '{tree}' AND pagetype = 'leaf' ORDER BY path")
    ((page,),) = leaves[len(leaves) // 2 :][:1]
    assert len(leaves) > 1
    assert isinstance(page, int)
    data = bytearray((home / DATABASE_NAME).read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    (home / DATABASE_NAME).write_bytes(data)


@pytest.mark.parametrize(("tree", "most_lost"), [("events", 40), ("sqlite_autoindex_events_1", 0)])
def test_salvage_loses_only_the_lost_page(tmp_path: Path, tree: str, most_lost: int) -> None:
    home = big_home(tmp_path / "home")
    written = lines_of(home)
    wipe(home, tree)
    broken = (home / DATABASE_NAME).read_bytes()
    assert plan_of(home).needs_salvage
    salvaged = rescue(home)
    assert Path(salvaged.broken).read_bytes() == broken
    assert salvaged.highest_position == 460
    assert plan_of(home).steps == ()
    kept = lines_of(home)
    assert all({*kept[key]} <= {*lines} for key, lines in written.items())
    lost = 460 - sum(map(len, kept.values()))
    assert bool(most_lost) <= lost <= most_lost
    assert all(one.sound for one in reports(home)) is (lost == 0)
    assert append(home) == 62
    assert rows(home, "SELECT max(position) FROM events") == [(462,)], "positions are never used again"


def test_a_list_of_sessions_whose_table_is_damaged_is_paged_as_ever(tmp_path: Path) -> None:
    """What the summaries do not tell any more is told from the events; a name that is no id cannot be asked for."""
    home = tmp_path / "home"
    names = [SessionId(f"{'a' if number < 20 else 'b'}_{number:03}") for number in range(200)]

    async def main(*, is_read: bool) -> dict[str, list[SessionId]]:
        async with await SqliteLog.open(home, readonly=is_read) as log:
            if not is_read:
                await asyncio.gather(*(log.append(name, batch(1, name)) for name in names))
            asked = {
                "all": await log.sessions(limit=300),
                "after one": await log.sessions(after=names[9], limit=300),
                "a page": await log.sessions(limit=150),
                "of a prefix": await log.sessions(prefix="b", limit=300),
            }
        return {name: [one.session_id for one in page.sessions] for name, page in asked.items()}

    sound = run(main(is_read=False))
    sql(home, "INSERT INTO events SELECT NULL, 'b_1 0', 1, line, digest, 1 FROM events WHERE session_id = 'b_100'")
    wipe(home, "sessions")
    assert run(main(is_read=True)) == sound


def test_salvage_takes_summaries_from_both_sides_of_a_lost_page(tmp_path: Path) -> None:
    home, names = tmp_path / "home", [SessionId(f"ses_{number:03}") for number in range(200)]

    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            await asyncio.gather(*(log.append(name, batch(1, name)) for name in names))

    run(main())
    wipe(home, "sessions")
    salvaged = rescue(home)
    assert (salvaged.events, 0 < salvaged.sessions < 200) == (200, True)
    kept = {str(name) for (name,) in rows(home, "SELECT session_id FROM sessions")}
    assert {names[0], names[-1]} <= kept
    plan, changed = repair(home)
    assert {type(step) for step in plan.steps} == {MakeSummary}
    assert changed == 200 - len(kept)
    assert {one.session_id for one in reports(home) if one.sound} == kept


@pytest.mark.parametrize("is_first_page_lost", [False, True])
def test_salvage_takes_what_is_only_in_the_wal(tmp_path: Path, is_first_page_lost: bool) -> None:
    home = tmp_path / "crashed"

    async def main() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await log.append(A, batch(5))
            await log.maintain("let go", {}, lambda c: c.execute("UPDATE lease SET holder = ''").fetchall())
            copy_home(tmp_path / "home", home)

    run(main())
    wal = (home / f"{DATABASE_NAME}-wal").read_bytes()
    if is_first_page_lost:
        path = home / DATABASE_NAME
        path.write_bytes(b"\xff" * 4096 + path.read_bytes()[4096:])
    salvaged = rescue(home)
    assert salvaged.events == 5
    # As it was, with one more transaction behind it: the lease that keeps writers out meanwhile.
    assert Path(f"{salvaged.broken}-wal").read_bytes().startswith(wal)
    assert report_of(home).sound


def test_salvage_refuses_while_another_writes(home: Path) -> None:
    async def main() -> None:
        async with await SqliteLog.open(home):
            await salvage(home, force=True)

    with pytest.raises(LeaseHeld, match="is writing to this log"):
        run(main())
    assert sorted(path.name for path in home.iterdir() if "." in path.name.removeprefix(DATABASE_NAME)) == []


def test_salvage_of_an_unreadable_lease_needs_force(home: Path) -> None:
    sql(home, "UPDATE lease SET holder = 'scrambled'")
    with pytest.raises(LeaseHeld, match="with force"):
        rescue(home)
    assert rescue(home, force=True).events == EVENTS + 4


@pytest.mark.parametrize("mapped", [True, False], ids=["gives room back in steps", "of an older version"])
def test_salvage_gets_over_a_lost_first_page(home: Path, mapped: bool) -> None:
    written, path = lines_of(home), home / DATABASE_NAME
    if not mapped:
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM")
    broken = b"\xff" * 4096 + path.read_bytes()[4096:]
    path.write_bytes(broken)
    with pytest.raises(LogUnavailable):
        reports(home)
    salvaged = rescue(home)
    assert Path(salvaged.broken).read_bytes() == broken
    assert lines_of(home) == written
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchall() == [(2,)]  # in steps, whatever it was
    assert not [each.name for each in home.iterdir() if "salvage" in each.name or "graft" in each.name]


@pytest.mark.parametrize("size", [100, 4096, 40960])
def test_salvage_of_a_file_without_a_single_event_changes_nothing(home: Path, size: int) -> None:
    path = home / DATABASE_NAME
    path.write_bytes(b"\xff" * size)
    before = {each.name for each in home.iterdir()}
    with pytest.raises(LogUnavailable, match=r"import an export|force"):
        rescue(home)
    with pytest.raises(LogUnavailable, match="import an export"):
        rescue(home, force=True)
    assert path.read_bytes() == b"\xff" * size
    assert {each.name for each in home.iterdir()} == before


def test_nobody_can_begin_to_write_while_a_file_is_salvaged(home: Path) -> None:
    salvage_module._keep_writers_out(home / DATABASE_NAME, False, 0)
    command = (sys.executable, "-m", "tests.log.child", "hold", str(home))
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("refused")
    assert "is writing to this log" in done.stdout
