"""What history costs: the start of a server, its memory, and commands that look, on homes of many events.

`python bench/long.py` makes homes of 1,000 to 100,000 events; `--most 1000000` goes on to that, and
`--shape few|many|one` measures one shape. *few*: sessions of 1,000 events; *many*: of 20; *one*: all in one session,
which is open. Every session is at rest. Each row has what a start costs until it is ready, the first after the home
was written (`first`) and one of every day (`again`), by CPU and by the clock; then the memory of the server, and what
commands cost: CPU of the command and, meanwhile, of the server, so that a machine that is shared changes little.
Commands are measured once the index of words is made (`indexed`: how long that took by the clock). The last lines of a
shape have the growth exponents between its first and last row, and the ratio of its last row to an empty home. None of
them should grow with history.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import msgspec
from msgspec import structs

from interlock.log.sqlite.store import SqliteLog
from interlock.server.serving import SERVER_FILE, ServerFile
from interlock.testing.scribe import EPOCH, endless_history
from interlock.vocabulary.events.audit import SessionOpened
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.states import DriverKind

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SHAPES = {"few": 1_000, "many": 20, "one": 0}
LOOKS: dict[str, tuple[str, ...]] = {"show": (), "why": (), "turns": (), "logs": ("--last", "5")}
WAIT_SECONDS = 600.0
_BATCH = 5_000
_TICKS = os.sysconf("SC_CLK_TCK")


class Figures(NamedTuple):
    """One home. Seconds, but for `megabytes`; of CPU, but for `..._wall` and `indexed`."""

    first: float
    first_wall: float
    again: float
    again_wall: float
    megabytes: float
    ps: float
    show: float
    why: float
    turns: float
    logs: float
    search: float
    usage: float
    indexed: float


class Start(NamedTuple):
    """What a start cost until the server was ready."""

    cpu: float
    wall: float
    megabytes: float


def session(session_id: SessionId, length: int) -> Iterator[Event]:
    """One session at rest, of about that many events, cut where a turn ends."""
    opened = SessionOpened(agent="claude", driver="claude-stream", kind=DriverKind.STREAM, argv=("claude",), cwd="/")
    yield new_event(opened, id=EventId(f"evt_{session_id}"), session_id=session_id, ts=EPOCH)
    written = 1
    turn: str | None = None
    for event in endless_history():
        if event.turn_id != turn and written >= length:
            return
        turn = event.turn_id
        written += 1
        yield structs.replace(event, session_id=session_id, seq=None)


async def fill(home: Path, events: int, length: int) -> SessionId:
    """Write so many events, and return a session to look at."""
    last = SessionId("ses_0")
    async with await SqliteLog.open(home) as log:
        written = number = 0
        while written < events:
            last = SessionId(f"ses_{number:07}")
            source = session(last, length or events)
            while batch := list(islice(source, _BATCH)):
                await log.append(last, batch)
                written += len(batch)
            number += 1
    return last


def interlock(home: Path, *words: str) -> float:
    """The CPU of a command, and of the server meanwhile."""
    command = [sys.executable, "-m", "interlock.cli", *words]
    environment = os.environ | {"INTERLOCK_HOME": str(home)}
    server, spent = server_cpu(home), children_cpu()
    done = subprocess.run(command, env=environment, capture_output=True, timeout=WAIT_SECONDS, check=False)
    if done.returncode not in (0, 1):
        print(f"  {' '.join(words)}: exit {done.returncode}: {done.stderr.decode()[-300:]}", file=sys.stderr)
    return children_cpu() - spent + max(0.0, server_cpu(home) - server)


def children_cpu() -> float:
    """The CPU of the processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def server_cpu(home: Path) -> float:
    """The CPU of the server of a home since it began; nothing where none runs."""
    try:
        server = msgspec.json.decode((home / SERVER_FILE).read_bytes(), type=ServerFile)
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def start(home: Path) -> Start:
    """Start the server of a home, and wait until it is ready."""
    began = time.perf_counter()
    interlock(home, "up")
    server = msgspec.json.decode((home / SERVER_FILE).read_bytes(), type=ServerFile)
    while not is_ready(server.url) and time.perf_counter() - began < WAIT_SECONDS:
        time.sleep(0.1)
    return Start(server_cpu(home), time.perf_counter() - began, resident(server.pid))


def is_ready(url: str) -> bool:
    """Whether a server has read all of its log."""
    with urlopen(f"{url}/health", timeout=WAIT_SECONDS) as answer:
        return bool(msgspec.json.decode(answer.read())["ready"])


def until_indexed(home: Path) -> float:
    """Seconds until a search is complete."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "interlock.cli", "search", "wrong", "--limit", "1"]
    environment = os.environ | {"INTERLOCK_HOME": str(home)}
    while subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0:
        if time.perf_counter() - began > WAIT_SECONDS:
            break
        time.sleep(0.5)
    return time.perf_counter() - began


def resident(pid: int) -> float:
    """Megabytes that a process holds."""
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def measure(home: Path, session_id: SessionId | None) -> Figures:
    """Start twice, as after an upgrade and as every day, and look."""
    first = start(home)
    interlock(home, "down")
    again = start(home)
    try:
        indexed = until_indexed(home)
        looked = {one: interlock(home, one, session_id, *more) if session_id else 0.0 for one, more in LOOKS.items()}
        return Figures(
            first=first.cpu,
            first_wall=first.wall,
            again=again.cpu,
            again_wall=again.wall,
            megabytes=again.megabytes,
            ps=interlock(home, "ps"),
            search=interlock(home, "search", "wrong", "number"),
            usage=interlock(home, "usage"),
            indexed=indexed,
            **looked,
        )
    finally:
        interlock(home, "down")


def tell(name: str, figures: Sequence[float]) -> None:
    print(f"{name:>14} " + " ".join(f"{one:10.2f}" for one in figures), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    asked = parser.parse_args()
    print(f"{'':>14} " + " ".join(f"{one:>10}" for one in Figures._fields))
    with tempfile.TemporaryDirectory(prefix="interlock-long-") as folder:
        empty = measure(Path(folder, "empty"), None)
        tell("empty", empty)
        for shape in asked.shape or SHAPES:
            rows: list[tuple[int, Figures]] = []
            for size in (one for one in SIZES if one <= asked.most):
                home = Path(folder, f"{shape}{size}")
                rows.append((size, measure(home, asyncio.run(fill(home, size, SHAPES[shape])))))
                tell(f"{shape} {size}", rows[-1][1])
            (few, small), (most, large) = rows[0], rows[-1]
            if most > few:
                tell(
                    "exponent",
                    [
                        math.log(b / a) / math.log(most / few) if a * b > 0 else 0.0
                        for a, b in zip(small, large, strict=True)
                    ],
                )
            tell("/ empty", [b / a if a else 0.0 for a, b in zip(empty, large, strict=True)])


if __name__ == "__main__":
    main()
