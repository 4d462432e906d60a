"""Lines between a pipe and a taker: bounded, in order, and ended without loss."""

from __future__ import annotations

import asyncio
import os

import pytest

from interlock.agents.processes.lines import Line
from interlock.agents.processes.pipes import OutputPipe, WaitingLines


class Tap(asyncio.ReadTransport):
    """A pipe of which only this is known: whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._is_read = True

    def is_reading(self) -> bool:
        return self._is_read

    def pause_reading(self) -> None:
        self._is_read = False

    def resume_reading(self) -> None:
        self._is_read = True


@pytest.mark.parametrize("before", [b"x\n" * 1024, b"x" * (8 << 20) + b"\n"])
def test_beyond_a_bound_of_lines_or_bytes_the_pipe_is_left_alone(before: bytes) -> None:
    async def run() -> None:
        tap = Tap()
        waiting = WaitingLines(tap)
        waiting.feed(before[:-2])
        assert tap.is_reading()
        waiting.feed(before[-2:])
        assert not tap.is_reading()
        taken = [await waiting.take() for _ in range(before.count(b"\n"))]
        assert tap.is_reading()
        waiting.end()
        assert await waiting.take() is None
        assert b"".join(line.data + b"\n" for line in taken if line is not None) == before

    asyncio.run(run())


def test_a_taker_waits_for_a_line_and_hears_the_end() -> None:
    async def run() -> None:
        waiting = WaitingLines(Tap())
        taking = asyncio.create_task(waiting.take())
        await asyncio.sleep(0)
        waiting.feed(b"on")
        await asyncio.sleep(0)
        assert not taking.done()
        waiting.feed(b"e\n")
        assert await taking == Line(b"one")
        taking = asyncio.create_task(waiting.take())
        await asyncio.sleep(0)
        waiting.end()
        assert await taking is None

    asyncio.run(run())


def test_what_waited_before_the_end_is_still_taken_and_what_comes_after_it_is_not() -> None:
    async def run() -> None:
        tap = Tap()
        waiting = WaitingLines(tap)
        waiting.feed(b"one\ntw")
        waiting.end()
        waiting.feed(b"o\n")
        assert not tap.is_reading()
        half = Line(b"tw", is_whole=False)
        assert [await waiting.take(), await waiting.take(), await waiting.take()] == [Line(b"one"), half, None]

    asyncio.run(run())


def test_a_taker_that_gave_up_costs_no_line() -> None:
    async def run() -> None:
        waiting = WaitingLines(Tap())
        taking = asyncio.create_task(waiting.take())
        await asyncio.sleep(0)
        waiting.feed(b"one\n")
        taking.cancel()
        await asyncio.wait((taking,))
        assert await waiting.take() == Line(b"one")

    asyncio.run(run())


def test_the_last_words_of_a_child_are_bounded_and_the_time_of_a_slow_taker_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.agents.processes.pipes._LAST_WORDS_SECONDS", 0.0)

    async def run() -> None:
        held = WaitingLines(Tap())
        held.feed(b"x\n" * 1024)
        held.child_is_over()
        await asyncio.sleep(0.01)
        assert not held.ended.done()
        for _ in range(1024):
            await held.take()
        async with asyncio.timeout(100):
            await held.ended
        talking = WaitingLines(Tap())
        talking.child_is_over()
        talking.feed(b"x" * (2 << 20))
        assert talking.ended.done()

    asyncio.run(run())


def test_a_pipe_tells_its_bytes_waits_while_it_is_paused_and_closes_at_its_end() -> None:
    async def run() -> None:
        told: asyncio.Queue[bytes] = asyncio.Queue()
        pipe = OutputPipe()
        pipe.read_into(told.put_nowait, lambda: told.put_nowait(b""))
        os.write(pipe.writing, b"one")
        async with asyncio.timeout(100):
            assert await told.get() == b"one"
        pipe.pause_reading()
        os.write(pipe.writing, b"two")
        for _ in range(10):
            await asyncio.sleep(0)
        assert told.empty()
        pipe.resume_reading()
        pipe.close_writing()
        async with asyncio.timeout(100):
            assert [await told.get(), await told.get()] == [b"two", b""]
        pipe.resume_reading()  # of a pipe that is over: nothing
        pipe.close()

    asyncio.run(run())
