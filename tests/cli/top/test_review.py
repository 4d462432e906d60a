"""The review page of the board: what a turn did, file by file, and the keys that accept, send back and discard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.agents.observations import TurnEnded, TurnEnding
from interlock.cli.top.layout.changes import MAX_LINES, doubt_lines, file_lines, patch_lines
from interlock.testing.puppet import Puppet
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.wire.requests import AccessRole
from interlock.vocabulary.wire.workspace import FileDiff, TaskDiff
from tests.agents.git.repositories import new_repository
from tests.cli.top.stage import House, Seat
from tests.client.waiting import until
from tests.contract.harness import run

CLEARLY_NS = 100_000_000


def newest_change(root: Path) -> int:
    return max(one.lstat().st_ctime_ns for one in (root, *root.rglob("*")))


async def rest(root: Path) -> None:
    newest = newest_change(root)
    await until(lambda: time.time_ns() > newest + CLEARLY_NS)


@asynccontextmanager
async def working(root: Path) -> AsyncIterator[tuple[House, Puppet, Callable[[], int]]]:
    """A session in its first turn, with the tree at its start; and how many files are known to have changed."""
    house = House(records_workspaces=True)
    async with house.serving() as server:
        await rest(root)
        puppet = await house.open("work", "begin", cwd=str(root))
        assert puppet is not None

        def known() -> int:
            view = server.state.hub.view(SessionId("ses_work"))
            counts = None if view is None else view.summary().changes
            return -1 if counts is None else counts.files

        await until(lambda: known() >= 0, "the tree at the start")
        yield house, puppet, known


async def finish(root: Path, puppet: Puppet, change: Callable[[], object]) -> None:
    change()
    await rest(root)
    puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="done"))


@asynccontextmanager
async def reviewed(
    root: Path, change: Callable[[], object], size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[House, Seat]]:
    """A board over a session whose one turn changed something."""
    async with working(root) as (house, puppet, known):
        await finish(root, puppet, change)
        await until(lambda: known() > 0, "the tree at the end")
        async with house.board(size) as seat:
            await seat.selects("work")
            yield house, seat


def test_a_row_counts_what_a_turn_changed_once_that_is_recorded(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n")
        async with working(root) as (house, puppet, known):
            house.role = AccessRole.OBSERVER  # that somebody looked at it would tell the line again
            await row_counts(root, house, puppet, known)

    async def row_counts(root: Path, house: House, puppet: Puppet, known: Callable[[], int]) -> None:
        async with house.board((120, 36)) as seat:
            await seat.selects("work")
            await finish(root, puppet, lambda: (root / "a.txt").write_text("two\n"))
            await until(lambda: known() > 0, "the tree at the end")
            await seat.sees("1 file")

    run(story())


def test_files_of_a_turn_are_accepted_sent_back_and_discarded(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n", b_txt="two\n")

        def change() -> None:
            (root / "a.txt").write_text("one\nand \x1b]0;owned\x07 more\n")
            (root / "b.txt").write_text("other\n")
            (root / "c.txt").write_text("new\n")

        async with reviewed(root, change) as (house, seat):
            await seat.sees("3 files")
            await seat.press("D")
            text = await seat.sees("turn 1 of 1", "3 files +3 -1, 0 reviewed", "+and", "x discard")
            assert "\x1b" not in text
            assert "and \\x1b]0;owned\\x07 more" in text
            await seat.press("a")
            await seat.sees("a.txt: accepted", "1 reviewed")
            await seat.press("down")
            await seat.sees("-two", "+other")
            await seat.press("x")
            await seat.sees("b.txt: put it back to what it was before turn 1?")
            await seat.press("y")
            await seat.sees("to get it back: git -C", "discarded", "2 reviewed")
            assert (root / "b.txt").read_text() == "two\n"
            await seat.press("down")
            await seat.sees("+new")
            await seat.press("s")
            await seat.sees("c.txt: what is to change?")
            await seat.types("shorter")
            await seat.press("enter")
            await seat.sees("sent back: the comment is its next prompt", "3 reviewed")
            sent = 'Your change of "c.txt" in turn 1 was reviewed, and is sent back:\n\nshorter'
            await until(lambda: house.puppet(sent) is not None, "the prompt")
            await seat.press("escape")
            await seat.misses("x discard")

    run(story())


def test_a_file_that_changed_since_is_not_discarded_and_it_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n")
        async with reviewed(root, lambda: (root / "a.txt").write_text("turn\n"), (200, 50)) as (_, seat):
            await seat.press("D")
            await seat.sees("+turn")
            (root / "a.txt").write_text("by a person\n")
            await seat.press("x")
            await seat.sees("y yes")
            await seat.press("y")
            await seat.sees("not done: a.txt changed since", "0 reviewed")
            assert (root / "a.txt").read_text() == "by a person\n"

    run(story())


def test_a_session_without_trees_says_so() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("plain")
            async with house.board() as seat:
                await seat.selects("plain")
                await seat.press("D")
                await seat.sees("no turn of it has recorded files")

    run(story())


def diff_of(*files: FileDiff, patch: str = "", doubts: tuple[str, ...] = ()) -> TaskDiff:
    return TaskDiff(
        task_id=SessionId("ses_a"),
        turn_id=TurnId("trn_a"),
        number=1,
        turns=1,
        is_known=True,
        is_certain=not doubts,
        unknown="",
        root="/p",
        branch="main",
        tree_before="a",
        tree_after="b",
        start_seq=1,
        end_seq=2,
        files=files,
        between=(),
        doubts=doubts,
        patch=patch,
        is_cut=False,
        patch_problem="",
    )


def words(line: object) -> str:
    return "".join(text for text, _ in line)  # type: ignore[attr-defined]


def test_nothing_of_a_line_is_cut_and_names_are_escaped() -> None:
    long = "+" + "x" * 300 + "; rm -rf /"
    lines = [words(line) for line in patch_lines(diff_of(patch=f"{long}\n"), 60)]
    assert "".join(lines) == long
    assert max(map(len, lines)) <= 60
    file = FileDiff(path="a\x1b[2Jb\u202e.py", change="M", before="x", after="y", added=1, removed=0, is_late=True)
    (shown,) = [words(line) for line in file_lines(diff_of(file), 0, 80)]
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "in doubt" in shown
    many = patch_lines(diff_of(patch="+a\n" * (MAX_LINES + 1)), 60)
    assert "interlock diff ses_a --turn 1" in words(many[-1])
    doubts = [words(line) for line in doubt_lines(diff_of(doubts=("one", "two", "three")), 80)]
    assert doubts[:2] == ["in doubt: one", "in doubt: two"]
    assert "1 more" in doubts[2]
