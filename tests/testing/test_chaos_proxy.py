"""The chaos proxy: harm as TCP allows it and no other, as often as asked, written down, and over after `heal`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import pytest

from interlock.testing.chaos_proxy import CALM, ChaosProxy, Deed, ProxyFault, ProxyWeather, Way
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row

SECONDS = 100.0
NOISE = bytes(range(256)) * 300

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await story()

    asyncio.run(bounded())


async def hang_up(writer: Writer) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


class Echo:
    """A server that says back what it hears, and remembers how each connection ended."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ends: list[str] = []
        self.ended = asyncio.Event()
        self.is_done: list[asyncio.Event] = []

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        at = len(self.heard)
        self.heard.append(b"")
        self.is_done.append(asyncio.Event())
        try:
            while piece := await reader.read(4096):
                self.heard[at] += piece
                writer.write(piece)
                await writer.drain()
            self.ends.append("end")
        except ConnectionError:
            self.ends.append("reset")
        finally:
            self.ended.set()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.is_done[at].set()


@asynccontextmanager
async def world(
    weather: ProxyWeather = CALM, seed: int = 1, sleep: Callable[[float], Awaitable[object]] | None = None
) -> AsyncIterator[tuple[ChaosProxy, Echo]]:
    echo = Echo()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        target = ("127.0.0.1", server.sockets[0].getsockname()[1])
        async with ChaosProxy(target, seed=seed, weather=weather, sleep=sleep or asyncio.sleep) as proxy:
            yield proxy, echo
        for done in echo.is_done:
            await done.wait()


async def connect(proxy: ChaosProxy) -> tuple[Reader, Writer]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def talk(proxy: ChaosProxy, said: bytes) -> bytes:
    """Say all of it, hear what comes back until the end, however it comes."""
    heard = b""
    reader, writer = await connect(proxy)
    try:
        writer.write(said)
        writer.write_eof()
        while piece := await reader.read(4096):
            heard += piece
    except ConnectionError:
        pass
    finally:
        await hang_up(writer)
    return heard


async def exchange_directly(target: tuple[str, int], times: int) -> None:
    """Something to measure silence by: so many questions and answers past the proxy."""
    reader, writer = await asyncio.open_connection(*target)
    for _ in range(times):
        writer.write(b"?")
        await reader.readexactly(1)
    await hang_up(writer)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the condition is the proxy's, and the story as a whole is bounded
        await asyncio.sleep(0)


def test_in_calm_weather_every_byte_passes_and_nothing_is_logged() -> None:
    async def story() -> None:
        async with world() as (proxy, echo):
            assert await talk(proxy, NOISE) == NOISE
            assert echo.heard == [NOISE]
            assert (echo.ends, list(proxy.log), proxy.connections) == (["end"], [], 1)
            await until(lambda: proxy.open_connections == 0)

    run(story)


@each_row("seed", range(12))
def test_what_arrives_is_always_a_beginning_of_what_was_sent(seed: int) -> None:
    weather = ProxyWeather(
        delay=0.5, delay_seconds=0.001, pause=0.1, pause_seconds=0.001, cut=0.04, close=0.02, reset=0.02
    )

    async def story() -> None:
        async with world(weather, seed) as (proxy, echo):
            heard = await talk(proxy, NOISE)
            assert NOISE.startswith(heard)
            assert all(NOISE.startswith(one) for one in echo.heard)
            assert heard == NOISE or proxy.counts.total() > 0

    run(story)


@pytest.mark.parametrize(("fault", "end"), [(ProxyFault.CLOSED, "end"), (ProxyFault.RESET, "reset")])
def test_a_strike_ends_both_sides_in_its_own_way(fault: ProxyFault, end: str) -> None:
    async def story() -> None:
        async with world() as (proxy, echo):
            reader, writer = await connect(proxy)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            assert proxy.strike(fault) == 1
            try:
                assert await reader.read() == b""
                seen = "end"
            except ConnectionResetError:
                seen = "reset"
            await echo.ended.wait()
            await hang_up(writer)
            assert (seen, echo.ends) == (end, [end])
            assert list(proxy.log) == [Deed(1, fault)]

    run(story)


def test_a_silenced_connection_says_nothing_until_heal_resets_it() -> None:
    async def story() -> None:
        async with world() as (proxy, echo):
            reader, writer = await connect(proxy)
            writer.write(b"one")
            assert await reader.readexactly(3) == b"one"
            assert proxy.strike(ProxyFault.SILENCED) == 1
            assert proxy.strike(ProxyFault.RESET) == 0, "what is silent cannot be told that it is over"
            writer.write(b"two")
            assert await talk(proxy, b"another") == b"another"
            await until(lambda: proxy.open_connections == 1)
            assert echo.heard[0] == b"one"
            proxy.heal()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            await hang_up(writer)
            assert echo.heard == [b"one", b"another"]
            assert proxy.counts == {ProxyFault.SILENCED: 1, ProxyFault.RESET: 1}

    run(story)


def test_a_paused_way_holds_bytes_back_and_loses_none() -> None:
    async def story() -> None:
        async with world() as (proxy, echo):
            reader, writer = await connect(proxy)
            writer.write(b"a")
            await reader.readexactly(1)
            proxy.pause(Way.TO_CLIENT)
            writer.write(b"bcd")
            await until(lambda: echo.heard == [b"abcd"])
            late = asyncio.create_task(talk(proxy, b"late"))
            await until(lambda: len(echo.heard) == 2 and echo.heard[1] == b"late")
            rest = asyncio.create_task(reader.readexactly(3))
            await exchange_directly(proxy.target, times=50)
            assert not late.done()
            assert not rest.done(), "others had fifty answers meanwhile"
            proxy.resume(Way.TO_CLIENT)
            assert await rest == b"bcd"
            assert await late == b"late"
            assert list(proxy.log) == [Deed(1, ProxyFault.PAUSED, Way.TO_CLIENT, 1)]
            await hang_up(writer)

    run(story)


def test_heal_also_ends_a_pause_and_the_weather() -> None:
    async def story() -> None:
        async with world(ProxyWeather(refuse=1)) as (proxy, _):
            assert await talk(proxy, b"x") == b""
            proxy.pause(Way.TO_SERVER)
            proxy.heal()
            assert await talk(proxy, b"x") == b"x"
            assert proxy.counts == {ProxyFault.REFUSED: 1}

    run(story)


def test_a_cut_passes_a_part_of_a_piece_and_then_nothing() -> None:
    async def story() -> None:
        ends = set()
        for seed in range(20):
            async with world(ProxyWeather(cut=1), seed) as (proxy, echo):
                heard = await talk(proxy, b"0123456789")
                await echo.ended.wait()
                assert (heard, proxy.counts[ProxyFault.CUT]) == (b"", 1)
                assert b"0123456789".startswith(echo.heard[0])
                assert len(echo.heard[0]) < 10
                assert proxy.log[0].fault is ProxyFault.CUT
                ends.add(proxy.log[1].fault)
        assert ends == {ProxyFault.CLOSED, ProxyFault.RESET}

    run(story)


def test_delays_and_throttles_wait_as_long_as_they_say() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    async def story() -> None:
        async with world(ProxyWeather(delay=1, delay_seconds=9), sleep=sleep) as (proxy, _):
            assert await talk(proxy, b"x") == b"x"
            assert len(waits) == 2
            assert all(0 <= wait <= 9 for wait in waits)
            proxy.weather = ProxyWeather(bytes_a_second=40)
            waits.clear()
            assert await talk(proxy, b"12345678") == b"12345678"
            assert waits == [2 / 40] * 8, "two bytes at a time, four times each way"
            proxy.weather = ProxyWeather(pause=1, pause_seconds=5)
            waits.clear()
            assert await talk(proxy, b"x") == b"x"
            assert len(waits) == 2
        assert proxy.counts == {ProxyFault.DELAYED: 2, ProxyFault.THROTTLED: 8, ProxyFault.PAUSED: 2}

    run(story)


def test_nobody_behind_the_proxy_is_a_reset_and_the_target_may_move() -> None:
    async def story() -> None:
        async with world() as (proxy, echo):
            there, proxy.target = proxy.target, ("127.0.0.1", 1)
            assert await talk(proxy, b"x") == b""
            proxy.target = there
            assert await talk(proxy, b"x") == b"x"
            assert (proxy.counts, echo.heard) == ({ProxyFault.UNREACHABLE: 1}, [b"x"])

    run(story)


def test_the_luck_of_a_connection_depends_on_the_seed_and_its_number_alone() -> None:
    async def fates(seed: int, between: int) -> list[ProxyFault]:
        weather = ProxyWeather(refuse=0.3)
        async with world(weather, seed) as (proxy, _):
            for _ in range(16):
                await talk(proxy, b"x" * between)
            return [
                next((deed.fault for deed in proxy.log if deed.connection == n), ProxyFault.CLOSED)
                for n in range(1, 17)
            ]

    async def story() -> None:
        first = await fates(3, 1)
        assert first == await fates(3, 50)
        assert first != await fates(4, 1)
        assert ProxyFault.REFUSED in first

    run(story)


def test_leaving_ends_every_connection() -> None:
    async def story() -> None:
        async with world() as (proxy, echo):
            reader, writer = await connect(proxy)
            await until(lambda: proxy.open_connections == 1)
            await proxy.__aexit__(None, None, None)
            assert await reader.read() == b""
            await echo.ended.wait()
            await hang_up(writer)

    run(story)


def test_wrong_use_is_refused_with_a_remedy() -> None:
    proxy = ChaosProxy(("127.0.0.1", 1))
    with pytest.raises(UsageError, match="does not listen"):
        _ = proxy.port
    with pytest.raises(UsageError, match="needs bytes"):
        proxy.strike(ProxyFault.CUT)
    for wrong in ({"cut": 1.5}, {"delay": -0.1}, {"pause_seconds": 61.0}, {"bytes_a_second": 0}):
        with pytest.raises(UsageError):
            ProxyWeather(**wrong)
