"""Keys that are pressed before what they are for is there: they wait, in their order, and not for ever."""

from __future__ import annotations

import pytest
from textual.events import Key

from interlock.cli.top.key_queue import HANDLED_SECONDS, HELD_SECONDS, KeyQueue
from tests.cli.top.stage import House
from tests.client.waiting import until
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


def test_keys_that_come_at_once_do_in_a_dialog_what_they_would_do_one_by_one() -> None:
    """As a slow link delivers them: letters and backspaces in one piece, and what is for the board behind them."""

    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            async with house.board() as seat:
                await seat.selects("first")
                seat.bursts("s", *"say hx", "backspace", "i", "enter", "r", "ctrl+u", *"ok", "enter")
                sent = await until(lambda: house.puppet("say hi"), "the prompt")
                assert [one.text for one in sent.prompts] == ["say hi"]
                await until(lambda: seat.app.called == "ok", "the new title")

    run(story())


def test_a_dialog_that_closes_under_the_keys_holds_up_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field may be gone before it has handled what it was sent."""
    lost: list[object] = []
    monkeypatch.setattr("interlock.cli.top.key_queue._follow", lambda way, then: lost.append((way, then)))
    now = [0.0]
    queue = KeyQueue(lambda: now[0])
    queue.put(Key("s", "s"))
    queue.hold_until_handled((), lambda: None)
    assert queue.take(lambda _: True) is None
    now[0] = HANDLED_SECONDS
    assert queue.take(lambda _: True) is not None
    assert len(lost) == 1


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
    queue.put(first)
    queue.put(second)
    now[0] = 1.9 * HELD_SECONDS
    assert queue.take(lambda _: True) is first
    now[0] = 2.8 * HELD_SECONDS
    assert queue.let_go() == 0, "a slow machine takes them up one by one"
    now[0] = 2.9 * HELD_SECONDS
    assert queue.let_go() == 1
    assert queue.take(lambda _: True) is None
    assert queue.let_go() == 0
