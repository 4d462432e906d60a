"""The board as a place to work: its three panes, and keys that arrange and rename, as a person presses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.observations import MessageEnded, TurnEnded, TurnEnding
from interlock.cli.top import board
from interlock.cli.top.actions import archive
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.ids import SessionId
from tests.cli.top.stage import COLOURS, House, Seat
from tests.client.waiting import until
from tests.contract.harness import run


def _corner(seat: Seat, name: str) -> tuple[int, int]:
    region = seat.app.screen.query_one(name).region
    assert region.width >= 30
    assert region.height >= 30
    return region.x, region.y


@pytest.mark.parametrize("width", [100, 179, 180, 200])
def test_panes_stand_side_by_side_at_every_wide_size(width: int) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first")
            async with house.board((width, 50)) as seat:
                await seat.selects("first")
                await seat.sees("May I?")
                names = ["#list", "#detail", *(["#evidence"] if width >= 180 else [])]
                if width >= 180:
                    await seat.sees("evidence:")
                corners = [_corner(seat, name) for name in names]
                assert corners == sorted(corners)
                assert len({x for x, _ in corners}) == len(names)
                assert {y for _, y in corners} == {corners[0][1]}

    run(story())


@pytest.mark.parametrize("width", [100, 200])
def test_wide_boards_have_two_lines_a_session_and_a_click_on_either_selects_it(width: int) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("alpha", "beta", "gamma"):
                await house.open(title)
            async with house.board((width, 50)) as seat:
                await seat.selects("alpha")
                for part, title in enumerate(("gamma", "beta", "alpha", "beta")):
                    rows = (await seat.sees("gamma")).splitlines()
                    found = next(at for at, line in enumerate(rows) if f" {title} " in line.split("│")[0])
                    assert "new" in rows[found + 1].split("│")[0]
                    assert await seat.pilot.click(offset=(4, found + part % 2))
                    await seat.selects(title)

    run(story())


def test_the_key_beside_a_question_is_the_one_that_answers_it() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "Which colour?", options=COLOURS)
            async with house.board() as seat:
                await seat.selects("first")
                await seat.is_asked("Which colour?")
                shown = await seat.sees("reply")
                (key,) = (line.split(" reply")[0].split()[-1] for line in shown.splitlines() if "choose" in line)
                await seat.press(key)
                await seat.sees("your answer")

    run(story())


def test_sessions_are_renamed_and_grouped_by_folder_and_back() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first")
            async with house.board((120, 36)) as seat:
                await seat.selects("first")
                await seat.press("r")
                await seat.sees("first")
                await seat.press("ctrl+u")
                await seat.types("release train")
                await seat.press("enter")
                await seat.sees("release train")
                await seat.sees("renamed to release train")
                await seat.press("g")
                await seat.misses("NEEDS YOU")
                await seat.press("g")
                await seat.sees("NEEDS YOU")
                await seat.press("t")
                await seat.sees("SESSIONS AND THEIR COPIES")
                await seat.press("t")
                await seat.sees("NEEDS YOU")

    run(story())


def test_a_search_finds_messages_of_all_sessions_and_goes_to_the_one_that_is_chosen(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            house = House(log)
            async with house.serving():
                for title in ("first", "second"):
                    puppet = await house.open(title, f"prompt of {title}")
                    assert puppet is not None
                    for at in range(30):
                        puppet.say(MessageEnded(text=f"{'A giraffe' if at == 3 else 'A horse'} of {title}, no {at}."))
                    puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="Done."))
                async with house.board((120, 36)) as seat:
                    await seat.sees("first", "second", "Done.")
                    await seat.press("slash")
                    await seat.types("giraffe first")
                    await seat.sees("0 of 2 match", "A giraffe of first, no 3.")
                    await seat.misses("A giraffe of second")
                    await seat.sees("enter goes there")  # there is nothing else that it could do
                    await seat.press("enter")
                    await seat.selects("first")
                    await seat.misses("search: titles", "no 29.")
                    await seat.sees("A giraffe of first, no 3.", "second")
                    await seat.press("slash")
                    await seat.types("unheard-of")
                    await seat.sees("no transcript has these words")
                    await seat.press("escape")
                    await seat.misses("search: titles")
                    await seat.sees("first", "second")
                    await seat.selects("first")

    run(story())


def test_a_search_that_is_left_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its words leave on the board is selected while it is open: that is no look at it."""
    monkeypatch.setattr(board, "SEEN_SECONDS", 3600.0)

    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("first", "second"):
                puppet = await house.open(title, f"prompt of {title}")
                assert puppet is not None
                puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="Done."))
            async with house.board((120, 36)) as seat:
                await seat.sees("DONE  2")
                await seat.selects(seat.app.called)
                before = seat.app.called
                other = "second" if before == "first" else "first"
                await seat.press("slash")
                await seat.types(other)
                await seat.sees("1 of 2 match")
                await seat.selects(other)
                monkeypatch.setattr(board, "SEEN_SECONDS", 0.0)
                for _ in range(5):
                    await seat.is_drawn()
                monkeypatch.setattr(board, "SEEN_SECONDS", 3600.0)
                await seat.press("escape")
                await seat.selects(before)
                assert "DONE  2" in await seat.sees("first", "second")

    run(story())


def test_the_session_below_one_that_is_archived_is_selected_next() -> None:
    """Not the first of the list, which would count as looked at."""

    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("first", "second", "third"):
                await house.open(title)
            async with house.board((120, 36)) as seat:
                await until(lambda: len(seat.app.arranged.ids) == 3, "all three")
                names = [str(one["title"]) for one in seat.app.arranged.tasks]
                await seat.press("home", "down")
                await seat.selects(names[1])
                for left in (names[2], names[0]):
                    await seat.press("X")
                    await seat.sees("archive it?")
                    await seat.press("y")
                    await seat.selects(left)

    run(story())


def test_what_the_board_selects_by_itself_is_not_seen_before_a_person_does_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another device archives the selected session: the next one is selected, and nobody may be at this board."""
    monkeypatch.setattr(board, "SEEN_SECONDS", 3600.0)

    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("first", "second"):
                puppet = await house.open(title, f"prompt of {title}")
                assert puppet is not None
                puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="Done."))
            async with house.board((120, 36)) as seat:
                await seat.sees("DONE  2")
                await seat.press("home")
                before = seat.app.called
                other = "second" if before == "first" else "first"
                await archive(seat.app.client.task(SessionId(f"ses_{before}")))
                await seat.selects(other)
                monkeypatch.setattr(board, "SEEN_SECONDS", 0.0)
                for _ in range(5):
                    await seat.is_drawn()
                await seat.sees("DONE  1")
                await seat.press("home")
                await seat.misses("DONE  1")

    run(story())


def test_the_session_of_a_notice_is_selected_at_first() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("first", "second", "third"):
                await house.asking(title)
            async with house.board((120, 36), first="ses_second") as seat:
                await seat.selects("second")
                await seat.press("down")
                await seat.selects("third")

    run(story())


def test_the_mouse_goes_to_a_message_that_was_found(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            house = House(log)
            async with house.serving():
                for title in ("first", "second"):
                    puppet = await house.open(title, f"a giraffe of {title}")
                    assert puppet is not None
                async with house.board((120, 36)) as seat:
                    await seat.sees("first", "second")
                    await seat.press("slash")
                    await seat.types("giraffe")
                    await seat.sees("a giraffe of first", "a giraffe of second")
                    found = seat.app.screen.query_one("#found")
                    row = next(at for at in range(6) if "second" in seat.text.splitlines()[found.region.y + at])
                    await seat.pilot.click("#found", offset=(5, row))
                    await seat.misses("search: titles")
                    await seat.selects("second")

    run(story())
