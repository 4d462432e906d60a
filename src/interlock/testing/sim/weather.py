"""How bad a schedule is: drawn from its seed, once, so that some schedules are mild and some are not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    """What can go wrong. Each is counted when it happens to something, not when it was tossed for."""

    PUSH_DROPPED = "push dropped"
    PUSH_DOUBLED = "push doubled"
    PUSH_OVERTAKEN = "push overtaken"
    ANSWER_DROPPED = "answer dropped"
    ANSWER_DOUBLED = "answer doubled"
    REQUEST_DROPPED = "request dropped"
    REQUEST_DOUBLED = "request doubled"
    CHECK_LOST = "check lost"
    CHECK_FAILED = "check failed"
    CHECK_DOUBLED = "check doubled"
    CHECK_OVERTAKEN = "check overtaken"
    PARTITION = "partition"
    SOCKET_CUT = "socket cut"
    SOCKET_HALF_OPEN = "socket half-open"
    CONNECT_REFUSED = "connect refused"
    CLIENT_SLEPT = "client slept"
    SLEEP_LOST_FRAMES = "sleep lost frames"
    FELL_BEHIND = "fell behind"
    SERVER_KILLED = "server killed"
    KILLED_BEFORE_PUBLISH = "killed before publish"
    TURN_ABANDONED = "turn abandoned"
    TURN_ADOPTED = "turn adopted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Chances per message, and mean seconds between events of a kind (0: never).

    `is_tcp`: messages of a socket keep their order and none is lost without the socket, as on a real one. Without it
    a push may be lost alone, doubled or overtaken, which no socket does and every client must survive. `check_seconds`
    is what an HTTP request or its answer takes at most, `delay_seconds` a message of a socket.
    """

    is_tcp: bool
    delay_seconds: float
    drop: float
    double: float
    cut_every: float
    half_open_every: float
    partition_every: float
    sleep_every: float
    kill_every: float
    is_slow: bool
    check_seconds: float


CALM: Final = Weather(
    is_tcp=True,
    delay_seconds=0.02,
    drop=0,
    double=0,
    cut_every=0,
    half_open_every=0,
    partition_every=0,
    sleep_every=0,
    kill_every=0,
    is_slow=False,
    check_seconds=0.02,
)
# The end of a storm: nothing is lost any more, and what is on its way takes its time.
SLUGGISH: Final = replace(CALM, delay_seconds=4.0, check_seconds=4.0)


def draw_weather(chance: Random) -> Weather:
    """A weather by chance."""

    def often(seconds: float) -> float:
        return chance.choice((0, seconds, seconds, seconds * 3))

    is_tcp = chance.random() < 0.4
    return Weather(
        is_tcp=is_tcp,
        delay_seconds=chance.choice((0.02, 0.2, 1.5, 6.0)),
        drop=0 if is_tcp else chance.choice((0, 0.05, 0.2, 0.5)),
        double=0 if is_tcp else chance.choice((0, 0.05, 0.2)),
        cut_every=often(8),
        half_open_every=often(15),
        partition_every=often(15),
        sleep_every=often(15),
        kill_every=often(15),
        is_slow=chance.random() < 0.4,
        check_seconds=chance.choice((0.05, 1.5, 6.0, 30.0)),
    )
