"""The network of a simulation: what becomes of each message, and of each connection.

Laws:
1. A message is delivered at once only by a call of the clock: whoever sends never hears of it in the same breath.
2. What belongs to a connection that is over is never delivered.
3. In TCP weather a connection's messages keep their order, and are lost only with the connection. In other weather each
   message has a fate of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import Final, Protocol

from interlock.server.live.rooms import RoomName
from interlock.testing.clock import VirtualClock
from interlock.testing.sim.weather import Fault, Weather

HEARTBEAT_SECONDS: Final = 5.0


class Freight(StrEnum):
    """What a message is, as far as its fate is concerned."""

    PUSH = "push"
    ANSWER = "answer"
    REQUEST = "request"


_DROPPED: Final = {
    Freight.PUSH: Fault.PUSH_DROPPED,
    Freight.ANSWER: Fault.ANSWER_DROPPED,
    Freight.REQUEST: Fault.REQUEST_DROPPED,
}
_DOUBLED: Final = {
    Freight.PUSH: Fault.PUSH_DOUBLED,
    Freight.ANSWER: Fault.ANSWER_DOUBLED,
    Freight.REQUEST: Fault.REQUEST_DOUBLED,
}


class LinkEnds(Protocol):
    """Both ends of a connection, as a link needs them."""

    def hear(self, link: SimulatedLink, frame: bytes) -> None: ...
    def lose(self, link: SimulatedLink, reason: str) -> None: ...
    def drain(self, link: SimulatedLink) -> None: ...
    def drop(self, link: SimulatedLink) -> None: ...


class SimulatedLink:
    """One socket between a client and the server; to the server's rooms it is a member.

    `is_up`: messages pass. Each side has an opinion of its own: `is_held_here` is the client's, `is_held_there` the
    server's. `capacity` bounds what the server may have on the way.
    """

    def __init__(self, network: Network, owner: int, ends: LinkEnds, capacity: int) -> None:
        self.owner = owner
        self.is_up = True
        self.is_held_here = True
        self.is_held_there = True
        self.was_behind = False
        self.last_due = {Freight.PUSH: 0.0, Freight.REQUEST: 0.0}
        self._network = network
        self._ends = ends
        self._capacity = capacity
        self._waiting = 0
        self._is_behind = False

    def offer(self, frame: bytes, room: RoomName) -> bool:
        """A frame of a room, for the client. False: too much is on its way."""
        if self._waiting >= self._capacity:
            if not self._is_behind:
                self._network.tally[Fault.FELL_BEHIND] += 1
            self._is_behind = self.was_behind = True
            return False
        self._waiting += 1
        self._network.carry(self, Freight.PUSH, lambda: self._ends.hear(self, frame), self._arrive)
        return True

    def answer(self, frame: bytes) -> None:
        """What the client asked for. It is never refused."""
        self._network.carry(self, Freight.ANSWER, lambda: self._ends.hear(self, frame), _nothing)

    def ask(self, deliver: Callable[[], None]) -> None:
        """A request, for the server."""
        self._network.carry(self, Freight.REQUEST, deliver, _nothing)

    def _arrive(self) -> None:
        """One less on the way, read or lost."""
        self._waiting -= 1
        if self._is_behind and self._waiting <= self._capacity // 2 and self.is_held_there:
            self._is_behind = False
            self._ends.drain(self)

    def end(self, reason: str) -> None:
        """Both sides are told: the server now, the client when the news has travelled."""
        self.is_up = False
        self.tell_server()
        self._network.later(self._network.delay(), lambda: self.tell_client(reason))

    def fall_silent(self) -> None:
        """Nobody is told. Each side notices by itself, when enough heartbeats were missed."""
        if self.is_up:
            self.is_up = False
            self._network.later(3 * HEARTBEAT_SECONDS, lambda: self.tell_client("three heartbeats were missed"))
            self._network.later(2 * HEARTBEAT_SECONDS, self.tell_server)

    def tell_server(self) -> None:
        if self.is_held_there:
            self.is_held_there = False
            self._ends.drop(self)

    def tell_client(self, reason: str) -> None:
        if self.is_held_here:
            self._ends.lose(self, reason)


class Network:
    """Carries messages. `cut_off` are the clients that nothing reaches, and from whom nothing comes."""

    def __init__(self, clock: VirtualClock, chance: Random, weather: Weather, tally: Counter[Fault]) -> None:
        self.weather = weather
        self.tally = tally
        self.cut_off: set[int] = set()
        self.messages = 0
        self._clock = clock
        self._chance = chance

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._clock.call_at(self._clock() + seconds, callback)

    def delay(self) -> float:
        """Most messages are quick; some take as long as the weather allows."""
        return self.weather.delay_seconds * self._chance.random() ** 3

    def carry(
        self, link: SimulatedLink, freight: Freight, deliver: Callable[[], None], arrive: Callable[[], None]
    ) -> None:
        """A message of a socket. `arrive` is called when it is off the wire, delivered or lost."""
        self.messages += 1
        if link.owner in self.cut_off:
            if self.weather.is_tcp:
                link.fall_silent()  # what is lost would be sent again and again, and then the socket is given up
            else:
                self.later(0.0, arrive)
            return
        if self._toss(self.weather.drop):
            self.tally[_DROPPED[freight]] += 1
            self.later(self.delay(), arrive)
            return
        self._post(link, freight, deliver, arrive)
        if self._toss(self.weather.double):
            self.tally[_DOUBLED[freight]] += 1
            self._post(link, freight, deliver, _nothing)

    def _post(
        self, link: SimulatedLink, freight: Freight, deliver: Callable[[], None], arrive: Callable[[], None]
    ) -> None:
        way = Freight.REQUEST if freight is Freight.REQUEST else Freight.PUSH
        due = self._clock() + self.delay()
        if self.weather.is_tcp:
            due = max(due, link.last_due[way])
        elif freight is Freight.PUSH and due < link.last_due[way]:
            self.tally[Fault.PUSH_OVERTAKEN] += 1
        link.last_due[way] = max(due, link.last_due[way])

        def come() -> None:
            if link.is_up:
                arrive()
                deliver()

        self._clock.call_at(due, come)

    def fetch(self, owner: int, deliver: Callable[[], None]) -> None:
        """One way of an HTTP exchange: there, or back."""
        self.messages += 1
        if owner in self.cut_off or self._toss(self.weather.drop):
            self.tally[Fault.CHECK_LOST] += 1
            return
        is_double = self._toss(self.weather.double)
        self.tally[Fault.CHECK_DOUBLED] += is_double
        for _ in range(1 + is_double):
            self.later(self.weather.check_seconds * self._chance.random() ** 2, deliver)

    def _toss(self, likely: float) -> bool:
        return likely > 0 and self._chance.random() < likely


def _nothing() -> None:
    pass
