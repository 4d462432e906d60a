"""Lines between a reader and a taker: bounded, in order, and closed without loss."""

from __future__ import annotations

import asyncio

import pytest

from interlock.agents.processes.lines import Line
from interlock.agents.processes.pipes import WaitingLines


@pytest.mark.parametrize(
    ("before", "more"), [([Line(b"x")] * 1024, Line(b"y")), ([Line(b"x" * (8 << 20))], Line(b"y"))]
)
def test_beyond_a_bound_of_lines_or_bytes_the_reader_waits(before: list[Line], more: Line) -> None:
    async def run() -> None:
        waiting = WaitingLines()
        for line in before:
            await waiting.put(line)
        putting = asyncio.create_task(waiting.put(more))
        await asyncio.sleep(0)
        assert not putting.done()
        assert await waiting.take() == before[0]
        await putting

    asyncio.run(run())


def test_a_taker_waits_for_a_line_and_hears_the_end() -> None:
    async def run() -> None:
        waiting = WaitingLines()
        taking = asyncio.create_task(waiting.take())
        await asyncio.sleep(0)
        await waiting.put(Line(b"one"))
        assert await taking == Line(b"one")
        taking = asyncio.create_task(waiting.take())
        await asyncio.sleep(0)
        waiting.close()
        assert await taking is None

    asyncio.run(run())


def test_what_waited_before_the_end_is_still_taken() -> None:
    async def run() -> None:
        waiting = WaitingLines()
        await waiting.put(Line(b"one"))
        waiting.close()
        assert [await waiting.take(), await waiting.take(), await waiting.take()] == [Line(b"one"), None, None]

    asyncio.run(run())
