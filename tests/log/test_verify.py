"""Verify: what is sound is called so, with a head to note elsewhere. What an edit leads to is in `test_damage`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import msgspec
import pytest

from interlock.log import verify as module
from interlock.log.chain import link, start
from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import Anchor, VerifyReport, check_file, parse_anchor, verify
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import A, B, batch, run
from tests.each_row import each_row
from tests.log.edits import EVENTS, copy_home, edit, found, lines_of, make_home, relink, report_of, reports, sql
from tests.log.test_damage import EDITS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("made") / "home")


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return copy_home(made, tmp_path / "home")


def test_a_sound_log_is_called_sound_with_the_heads_that_its_lines_give(made: Path) -> None:
    for report, (session_id, lines) in zip(reports(made), sorted(lines_of(made).items()), strict=True):
        head = start(session_id)
        for line in lines:
            head = link(head, line)
        assert report == VerifyReport(
            session_id=session_id, version=len(lines), head=head.hex(), sound=True, events_checked=len(lines)
        )


def test_nothing_is_written(made: Path) -> None:
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    reports(made)
    assert {path.name: path.read_bytes() for path in made.iterdir() if not path.name.endswith(("-shm", "-wal"))} == {
        name: data for name, data in before.items() if not name.endswith(("-shm", "-wal"))
    }


@pytest.mark.parametrize("page", [1, 2, 3, EVENTS])
@pytest.mark.parametrize(("statements", "expected"), EDITS.values(), ids=EDITS)
def test_the_size_of_a_page_does_not_matter(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: int,
    statements: tuple[str, ...],
    expected: set[tuple[str, int | None, int | None]],
) -> None:
    monkeypatch.setattr(module, "PAGE", page)
    sql(home, *statements)
    assert found(report_of(home).damage) == expected


def test_a_session_that_is_not_there_is_told(made: Path) -> None:
    with pytest.raises(UsageError, match="interlock log ls"):
        report_of(made, SessionId("ses_none"))


def test_an_anchor_is_printed_and_read_back(made: Path) -> None:
    anchor = report_of(made).anchor
    assert parse_anchor(f" {str(anchor).upper()}\n") == anchor
    assert report_of(made, anchor=anchor).is_anchored


@each_row("text", ["", "3", "3:", "x:ab", "3:abcd", "0:" + "ab" * 32, "-1:" + "ab" * 32, "3:" + "zz" * 32])
def test_what_is_no_anchor_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="VERSION:HEAD"):
        parse_anchor(text)


def test_every_state_that_the_log_went_through_is_a_valid_anchor(made: Path) -> None:
    digest = start(A)
    for version, line in enumerate(lines_of(made)[A], start=1):
        digest = link(digest, line)
        report = report_of(made, anchor=Anchor(version, digest.hex()))
        assert (report.is_anchored, report.sound) == (True, True)
        wrong = report_of(made, anchor=Anchor(version, "ab" * 32))
        assert (wrong.is_anchored, found(wrong.damage)) == (False, {("head_mismatch", version, version)})


def test_an_anchor_beyond_the_end_tells_a_cut_tail(made: Path) -> None:
    report = report_of(made, anchor=Anchor(EVENTS + 1, "ab" * 32))
    assert report.is_anchored is False
    assert [one.message for one in report.damage] == [
        f"the anchor is version {EVENTS + 1}, and the log ends at {EVENTS}: its tail was cut"
    ]


def test_an_anchor_does_not_vouch_for_what_is_before_a_break(home: Path) -> None:
    """A forger who rewrites the beginning and leaves the end shows by the break; the anchor does not cover it up."""
    anchor = report_of(home).anchor

    def forge_beginning(connection: apsw.Connection) -> None:
        connection.execute("UPDATE events SET line = CAST(replace(line, 'a1', 'x1') AS BLOB) WHERE seq = 2")
        kept = connection.execute("SELECT position, digest FROM events WHERE seq > 5 AND session_id = 'ses_a'")
        kept_digests = kept.fetchall()
        head = connection.execute("SELECT head FROM sessions WHERE session_id = 'ses_a'").fetchall()
        relink(connection)
        for position, digest in kept_digests:
            connection.execute("UPDATE events SET digest = ? WHERE position = ?", (digest, position))
        connection.execute("UPDATE sessions SET head = ? WHERE session_id = 'ses_a'", head[0])

    edit(home, forge_beginning)
    report = report_of(home, anchor=anchor)
    assert report.is_anchored is None
    assert found(report.damage) == {("changed", 6, 6)}


def test_an_anchor_whose_event_is_lost_cannot_be_told(home: Path) -> None:
    digest = start(A)
    for line in lines_of(home)[A][:4]:
        digest = link(digest, line)
    sql(home, *EDITS["a deleted row"][0])
    assert report_of(home, anchor=Anchor(4, digest.hex())).is_anchored is None


def test_an_anchor_of_a_session_that_vanished_tells_it(home: Path) -> None:
    anchor = report_of(home).anchor
    sql(home, "DELETE FROM events WHERE session_id = 'ses_a'", "DELETE FROM sessions WHERE session_id = 'ses_a'")
    assert [one.session_id for one in reports(home)] == [B]
    (gone, other) = reports(home, anchor=anchor)
    assert (gone.session_id, gone.version, gone.is_anchored, gone.sound, other.sound) == (A, 0, False, False, True)


def test_a_tombstone_is_sound_and_keeps_its_last_anchor_only(home: Path) -> None:
    digest = link(start(A), lines_of(home)[A][0])
    last = report_of(home).anchor

    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            await log.purge(A)

    run(main())
    report = report_of(home, anchor=last)
    assert (report.sound, report.is_purged, report.is_anchored, report.events_checked) == (True, True, True, 0)
    assert report_of(home, anchor=Anchor(1, digest.hex())).is_anchored is None, "its events are gone: unknown"
    assert report_of(home, anchor=Anchor(EVENTS + 1, "ab" * 32)).is_anchored is False


def test_what_is_appended_meanwhile_is_no_damage(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 3)

    async def main() -> list[VerifyReport]:
        async with await SqliteLog.open(home) as log:

            async def append() -> None:
                for _ in range(30):
                    await log.append(A, batch(2))

            writing = asyncio.ensure_future(append())
            seen: list[VerifyReport] = []
            while not writing.done():
                seen += [report async for report in verify(log)]
            await writing
            return seen

    seen = run(main())
    assert len({report.version for report in seen}) > 2
    assert [report.damage for report in seen if not report.sound] == []


def test_a_name_that_was_changed_is_told_without_a_command_that_a_shell_would_misread(home: Path) -> None:
    sql(home, "UPDATE events SET session_id = '$(rm -rf x)' WHERE session_id = 'ses_b' AND seq = 2")
    told = {report.session_id: report for report in reports(home)}
    assert set(told) == {A, B, "$(rm -rf x)"}
    assert found(told[B].damage) == {("missing", 2, 2)}
    assert [action.command for one in told[SessionId("$(rm -rf x)")].damage for action in one.next_actions] == [
        "interlock log repair"
    ] * len(told[SessionId("$(rm -rf x)")].damage)


def test_a_report_is_json(home: Path) -> None:
    sql(home, *EDITS["a changed line"][0])
    data = msgspec.json.decode(msgspec.json.encode(report_of(home)))
    assert (data["sound"], data["damage"][0]["kind"], data["damage"][0]["first_seq"]) == (False, "changed", 4)


def test_the_file_itself_is_checked(home: Path) -> None:
    async def main() -> tuple[str, ...]:
        async with await SqliteLog.open(home, readonly=True) as log:
            return await check_file(log)

    assert run(main()) == ()
    path = home / DATABASE_NAME
    path.write_bytes(path.read_bytes()[:-4096])
    assert run(main()) != ()
