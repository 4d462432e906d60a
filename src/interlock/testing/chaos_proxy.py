"""A bad network between clients and a server on this machine: a TCP proxy that does harm on purpose, and keeps a log.

    async with ChaosProxy(("127.0.0.1", server_port), seed=7, weather=STORM) as proxy:
        ...                      # clients connect to proxy.port
        proxy.strike(Fault.RESET)
        proxy.heal()             # no more harm; what was held back flows
        assert proxy.counts[Fault.CUT]

Laws:
1. Within a connection bytes are never reordered, doubled or altered: that is TCP. They come late, or not at all.
2. What is held back (a pause) comes after all. What a dead connection held is gone, as it would be.
3. After `heal` nothing is harmed any more. Connections that were silenced are reset then: nobody could tell which of
   their bytes are missing.
4. Every chance comes from the seed and the number of the connection, so that one connection's luck does not depend on
   another's. What a chance falls on is a piece of bytes as the kernel hands it over: two runs of a seed are alike, not
   equal. For runs that are equal to the last byte there is `interlock.testing.sim`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final, Self

from interlock.vocabulary.errors import UsageError

_CHUNK: Final = 16 * 1024
_SLICES_A_SECOND: Final = 20
_LOG_ENTRIES: Final = 10_000
_FLUSH_SECONDS: Final = 1.0
_LINGER_NONE: Final = struct.pack("ii", 1, 0)  # closing then sends a reset instead of a clean end


class Way(StrEnum):
    """Which way bytes go."""

    TO_SERVER = "to_server"
    TO_CLIENT = "to_client"


class ProxyFault(StrEnum):
    """What can be done to a connection.

    `closed`: a clean end (FIN) to both sides. `reset`: RST to both. `silenced`: half-open, nothing passes any more and
    nobody is told. `cut`: a piece of bytes is passed on in part, then the connection ends. `refused`: a new connection
    is reset before a byte. `unreachable`: so is one while nobody listens behind the proxy.
    """

    DELAYED = "delayed"
    THROTTLED = "throttled"
    PAUSED = "paused"
    CLOSED = "closed"
    RESET = "reset"
    SILENCED = "silenced"
    CUT = "cut"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


_STRIKES: Final = (ProxyFault.CLOSED, ProxyFault.RESET, ProxyFault.SILENCED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyWeather:
    """How bad the network is. Chances are per piece of bytes, `refuse` per connection; seconds are at most so many."""

    delay: float = 0.0
    delay_seconds: float = 0.05
    pause: float = 0.0
    pause_seconds: float = 0.2
    close: float = 0.0
    reset: float = 0.0
    silence: float = 0.0
    cut: float = 0.0
    refuse: float = 0.0
    bytes_a_second: int | None = None

    def __post_init__(self) -> None:
        for name in ("delay", "pause", "close", "reset", "silence", "cut", "refuse"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}", remedy="a chance lies between 0 and 1")
        for name in ("delay_seconds", "pause_seconds"):
            if not 0 <= getattr(self, name) <= 60:
                raise UsageError(f"{name} is {getattr(self, name)}", remedy="give 0 to 60 seconds")
        if self.bytes_a_second is not None and self.bytes_a_second < 1:
            raise UsageError(f"bytes_a_second is {self.bytes_a_second}", remedy="give at least 1, or None for no limit")


CALM: Final = ProxyWeather()
STORM: Final = ProxyWeather(delay=0.3, pause=0.05, close=0.01, reset=0.01, silence=0.01, cut=0.02, refuse=0.2)


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that was done: to which connection, which way (None: both), and how many bytes had passed that way."""

    connection: int
    fault: ProxyFault
    way: Way | None = None
    passed: int = 0


@dataclass(slots=True)
class _Link:
    """One connection and its two halves. `gates` hold a way back while they are closed."""

    number: int
    chance: Random
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    gates: dict[Way, asyncio.Event] = field(default_factory=lambda: {way: asyncio.Event() for way in Way})
    passed: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(Way, 0))
    is_silent: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)


class ChaosProxy:
    """Listens on a free port of the loopback and stands for `target`, which may be changed when a server moves.

    `weather` may be changed at any time and holds for what passes from then on. `log` keeps the newest deeds, `counts`
    counts them all. `sleep` is what delays wait with. For one event loop.
    """

    def __init__(
        self,
        target: tuple[str, int],
        *,
        seed: int = 0,
        weather: ProxyWeather = CALM,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.target = target
        self.weather = weather
        self.log: deque[Deed] = deque(maxlen=_LOG_ENTRIES)
        self.counts: Counter[ProxyFault] = Counter()
        self.connections = 0
        self._seed = seed
        self._sleep = sleep
        self._server: asyncio.Server | None = None
        self._links: dict[int, _Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: set[Way] = set()
        self._is_leaving = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self._is_leaving = True
        for link in self._links.values():
            link.client.transport.abort()
            link.server.transport.abort()
            link.over.set()
        await asyncio.gather(*self._tasks)

    @property
    def port(self) -> int:
        if self._server is None:
            raise UsageError("the proxy does not listen yet", remedy="enter it first: async with ChaosProxy(...)")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def open_connections(self) -> int:
        return len(self._links)

    def strike(self, fault: ProxyFault) -> int:
        """Close, reset or silence every open connection; return how many there were."""
        if fault not in _STRIKES:
            raise UsageError(f"{fault.value} needs bytes to fall on", remedy="set it as weather, or use pause()")
        struck = [link for link in self._links.values() if not link.is_silent and not link.over.is_set()]
        for link in struck:
            self._strike(link, fault, None)
        return len(struck)

    def pause(self, way: Way) -> None:
        """Hold back everything that goes this way, on connections of now and later, until `resume` or `heal`."""
        self._held.add(way)
        for link in self._links.values():
            link.gates[way].clear()
            self._note(link, ProxyFault.PAUSED, way)

    def resume(self, way: Way) -> None:
        """Let flow again what `pause` holds back."""
        self._held.discard(way)
        for link in self._links.values():
            link.gates[way].set()

    def heal(self) -> None:
        """No more harm."""
        self.weather = CALM
        for way in Way:
            self.resume(way)
        for link in tuple(self._links.values()):
            if link.is_silent:
                self._strike(link, ProxyFault.RESET, None)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(self.connections, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, number: int, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        chance = Random(f"{self._seed}:{number}")
        if chance.random() < self.weather.refuse:
            await self._turn_away(number, ProxyFault.REFUSED, client)
            return
        try:
            answers, server = await asyncio.open_connection(*self.target)
        except OSError:
            await self._turn_away(number, ProxyFault.UNREACHABLE, client)
            return
        link = _Link(number, chance, client, server)
        if self._is_leaving:
            link.over.set()
        for way in set(Way) - self._held:
            link.gates[way].set()
        self._links[number] = link
        await self._run(link, reader, answers)

    async def _run(self, link: _Link, requests: asyncio.StreamReader, answers: asyncio.StreamReader) -> None:
        pumps = [
            asyncio.create_task(self._pump(link, Way.TO_SERVER, requests, link.server)),
            asyncio.create_task(self._pump(link, Way.TO_CLIENT, answers, link.client)),
        ]
        over = asyncio.create_task(link.over.wait())
        await asyncio.wait((over, asyncio.gather(*pumps)), return_when=asyncio.FIRST_COMPLETED)
        for task in (*pumps, over):
            task.cancel()
        await asyncio.gather(*pumps, over, return_exceptions=True)
        await asyncio.gather(_close(link.client), _close(link.server))
        del self._links[link.number]

    async def _pump(self, link: _Link, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(_CHUNK):
                if not await self._carry(link, way, piece, writer):
                    return
            await self._wait_for_passage(link, way)
            writer.write_eof()
        except OSError:
            link.over.set()  # one side is gone, so the other is told at once

    async def _carry(self, link: _Link, way: Way, piece: bytes, writer: asyncio.StreamWriter) -> bool:
        """Pass a piece on, if the weather lets it. False: this connection is over, or silent for ever."""
        weather = self.weather
        ended = _struck(weather, link.chance)
        if ended is ProxyFault.CUT:
            part = piece[: link.chance.randrange(len(piece))]
            await self._write(link, way, part, writer)
            self._note(link, ProxyFault.CUT, way)
            self._strike(link, link.chance.choice((ProxyFault.CLOSED, ProxyFault.RESET)), way)
            return False
        if ended is not None:
            self._strike(link, ended, way)
            if ended is not ProxyFault.SILENCED:
                return False
        if link.chance.random() < weather.delay:
            self._note(link, ProxyFault.DELAYED, way)
            await self._sleep(link.chance.random() * weather.delay_seconds)
        if link.chance.random() < weather.pause:
            self._note(link, ProxyFault.PAUSED, way)
            await self._sleep(link.chance.random() * weather.pause_seconds)
        await self._wait_for_passage(link, way)
        await self._write(link, way, piece, writer)
        return True

    async def _wait_for_passage(self, link: _Link, way: Way) -> None:
        await link.gates[way].wait()
        if link.is_silent:
            await link.over.wait()

    async def _write(self, link: _Link, way: Way, piece: bytes, writer: asyncio.StreamWriter) -> None:
        rate = self.weather.bytes_a_second
        size = len(piece) if rate is None else max(1, rate // _SLICES_A_SECOND)
        for start in range(0, len(piece), size or 1):
            if rate is not None:
                self._note(link, ProxyFault.THROTTLED, way)
                await self._sleep(size / rate)
            part = piece[start : start + size]
            writer.write(part)
            await writer.drain()
            link.passed[way] += len(part)

    def _strike(self, link: _Link, fault: ProxyFault, way: Way | None) -> None:
        self._note(link, fault, way)
        if fault is ProxyFault.SILENCED:
            link.is_silent = True
            return
        if fault is ProxyFault.RESET:
            for writer in (link.client, link.server):
                _reset(writer)
        link.over.set()

    async def _turn_away(self, number: int, fault: ProxyFault, client: asyncio.StreamWriter) -> None:
        self.log.append(Deed(number, fault))
        self.counts[fault] += 1
        _reset(client)
        await _close(client)

    def _note(self, link: _Link, fault: ProxyFault, way: Way | None) -> None:
        self.log.append(Deed(link.number, fault, way, 0 if way is None else link.passed[way]))
        self.counts[fault] += 1


def _struck(weather: ProxyWeather, chance: Random) -> ProxyFault | None:
    """What ends the connection now, if anything does."""
    luck = chance.random()
    for fault, likely in (
        (ProxyFault.CUT, weather.cut),
        (ProxyFault.CLOSED, weather.close),
        (ProxyFault.RESET, weather.reset),
        (ProxyFault.SILENCED, weather.silence),
    ):
        if luck < likely:
            return fault
        luck -= likely
    return None


def _reset(writer: asyncio.StreamWriter) -> None:
    opened: socket.socket | None = writer.get_extra_info("socket")
    if opened is not None:
        with suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Let what was written go out; a peer that does not read it is not waited for."""
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_FLUSH_SECONDS):
            await writer.wait_closed()
    writer.transport.abort()
