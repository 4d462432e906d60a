"""The mailbox of a session: nothing is lost, one timer, and none is left."""

from __future__ import annotations

import asyncio

from interlock.runtime.session.mailbox import Mailbox
from tests.contract.harness import run


def timers() -> int:
    """How many timers the loop would still ring, but for that which bounds the test."""
    loop = asyncio.get_running_loop()
    return sum(not timer.cancelled() for timer in loop._scheduled) - 1  # type: ignore[attr-defined]


def test_who_finds_it_full_waits_and_nothing_is_lost() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(2)
        putting = [asyncio.create_task(box.put(number)) for number in range(7)]
        taken: list[int] = []
        while len(taken) < 7:
            await box.wait(None)
            assert len(box) <= 2
            taken += box.take(1)
        await asyncio.gather(*putting)
        assert taken == list(range(7))

    run(story())


def test_one_that_gives_up_waiting_for_room_leaves_it_to_the_next() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(1)
        await box.put(0)
        gone, next_one = (asyncio.create_task(box.put(number)) for number in (1, 2))
        await asyncio.sleep(0)
        assert box.take(1) == [0]  # which gives the room to the first of the two
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await next_one
        assert box.take(9) == [2]

    run(story())


def test_a_deadline_that_moves_away_costs_no_timer_and_one_that_comes_near_is_heard() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(9)

        async def wait_and_be_told(seconds: float) -> None:
            asyncio.get_running_loop().call_soon(box.put_nowait, 1)
            await box.wait(seconds)
            box.take(9)

        await wait_and_be_told(600)
        armed = box._timer
        assert armed is not None
        await wait_and_be_told(900)
        assert box._timer is armed
        await box.wait(0)  # nothing is put: only an earlier timer ends this
        assert not len(box)
        await wait_and_be_told(600)
        assert timers() == 1
        box.close()
        assert timers() == 0

    run(story())


def test_a_taker_that_is_woken_looks_again() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(1)
        asyncio.get_running_loop().call_soon(box.wake)
        await box.wait(None)
        assert box.take(1) == []

    run(story())
