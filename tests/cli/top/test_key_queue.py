"""Keys that are pressed before what they are for is there: they wait, in their order, and not for ever."""

from __future__ import annotations

from textual.events import Key

from interlock.cli.top.key_queue import HELD_SECONDS, KeyQueue
from tests.cli.top.stage import House
from tests.contract.harness import run


def test_keys_wait_until_the_sessions_are_known_and_then_are_for_the_dialog_that_they_open() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first")
        async with house.board() as seat:
            await seat.press("s", "h", "i")
            assert seat.app.selected_id == ""
            async with house.serving():
                await seat.sees("first: your prompt", "hi")

    run(story())


def test_a_key_for_a_session_says_so_where_there_is_none() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.board() as seat:
            for key in ("s", "X", "p", "r", "w"):
                await seat.press(key)
                await seat.sees("no session is selected")
                await seat.press("escape")
                await seat.misses("no session is selected")

    run(story())


def test_keys_for_the_board_itself_do_not_wait() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            pass
        async with house.board() as seat:
            await seat.press("question_mark")
            await seat.sees("esc closes")

    run(story())


def test_a_key_behind_one_that_waits_waits_with_it_and_what_waited_too_long_is_let_go() -> None:
    now = [0.0]
    queue = KeyQueue(lambda: now[0])
    first, second = Key("s", "s"), Key("a", "a")
    queue.put(first)
    queue.put(second)
    assert queue.take(lambda key: key is second) is None
    assert queue.let_go() == 0
    assert queue.take(lambda _: True) is first
    now[0] = HELD_SECONDS
    assert queue.let_go() == 1
    assert queue.take(lambda _: True) is None
    assert queue.let_go() == 0
