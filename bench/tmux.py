"""What watching terminals costs: a capture, fifty busy panes, and the way from a program's write to the snapshot.

`make bench` runs this. Captures stand beside `tmux capture-pane` as a process of its own, in the same run. The panes
are painted by one process for all of them, so that the machine is not busy with fifty interpreters. Snapshots are
parsed (`read_snapshot`); no profile is applied to them, which is no part of these figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median, quantiles
from typing import Final

from interlock.agents.tmux.client import TmuxClient
from interlock.agents.tmux.panes import OWN_SESSION, Pane, start_pane
from interlock.agents.tmux.server import TmuxServer
from interlock.agents.tmux.watcher import PaneSeen, PaneWatch

PANES: Final = 50
COLUMNS: Final = 120
ROWS: Final = 40
WATCHED_SECONDS: Final = 8.0
CAPTURES: Final = 300
PROCESSES: Final = 40
STAMPS: Final = 60
CPU_BUDGET_PERCENT: Final = 25
EDGE_BUDGET_MS: Final = 150

QUIET: Final = ("sh", "-c", "stty -echo; exec sleep 600")
# Paints every terminal it is given ten times a second: a spinner, a counter, a line of new text, a title.
PAINTER: Final = r"""
import sys, time
files = [open(path, "wb", buffering=0) for path in sys.argv[1:]]
body = "".join(f"\x1b[{row};1H\x1b[3{row % 8}m{'lorem ipsum ' * 8}\x1b[0m" for row in range(3, 38))
n, due = 0, time.monotonic()
while True:
    n, due = n + 1, due + 0.1
    for index, file in enumerate(files):
        row = (n + index) % 34 + 3
        text = f"\x1b]2;{'|/-'[n % 3]} work\x07\x1b[H\x1b[1mpane {index} frame {n}\x1b[0m\x1b[{row};1H\x1b[Knew {n}"
        file.write((body + text if n % 10 == 1 else text).encode())
    time.sleep(max(0.0, due - time.monotonic()))
"""
# Prints the moment of each write, with quiet in between.
STAMPER: Final = r"""
import sys, time
for n in range(10_000):
    time.sleep(0.11)
    sys.stdout.write(f"\x1b[H\x1b[2J{time.monotonic():.6f} END"); sys.stdout.flush()
"""


@asynccontextmanager
async def stage() -> AsyncIterator[tuple[TmuxServer, TmuxClient, Pane]]:
    folder = tempfile.mkdtemp(prefix="il-bench-")
    server = TmuxServer.own(f"{folder}/tmux")
    try:
        info = await start_pane(server, QUIET, columns=COLUMNS, rows=ROWS)
        async with await TmuxClient.attach(server, OWN_SESSION) as client:
            yield server, client, Pane(client, info.pane_id)
    finally:
        await server.kill()
        shutil.rmtree(folder)


async def timed(count: int, work: Callable[[], Awaitable[object]]) -> float:
    """The median seconds of one piece of work."""
    spent = []
    for _ in range(count):
        began = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - began)
    return median(spent)


async def round_trip(server: TmuxServer, pane: Pane) -> None:
    argv = server.argv("capture-pane", "-p", "-e", "-t", pane.pane_id)

    async def process() -> None:
        subprocess.run(argv, check=True, capture_output=True)  # noqa: ASYNC221

    ours = await timed(CAPTURES, pane.capture)
    theirs = await timed(PROCESSES, process)
    ratio = theirs / ours
    print(f"capture, all fields, over the pipe   {ours * 1e3:7.2f} ms")
    print(f"text alone, one process a capture    {theirs * 1e3:7.2f} ms   {ratio:.1f}x as long")


async def stamps(watch: PaneWatch, pane: Pane, count: int) -> list[float]:
    """Milliseconds from a program's write to the snapshot that shows it; each write counts once."""
    seen, spent = "", list[float]()
    async for event in watch:
        if isinstance(event, PaneSeen) and event.capture.pane_id == pane.pane_id:
            stamp, _, end = event.capture.snapshot.rows[0].text.partition(" ")
            if end == "END" and stamp != seen:
                seen = stamp
                spent.append((event.capture.captured_at_seconds - float(stamp)) * 1e3)
                if len(spent) == count:
                    return spent
    return spent


def print_edges(name: str, spent: list[float]) -> None:
    cuts = quantiles(spent, n=20)
    verdict = "within" if cuts[18] <= EDGE_BUDGET_MS else "OVER"
    print(f"write to snapshot, {name:18}p50 {median(spent):6.1f} ms   p95 {cuts[18]:6.1f} ms", end="   ")
    print(f"{verdict} the budget of {EDGE_BUDGET_MS} ms, which has room for the verdict too")


async def busy(server: TmuxServer, client: TmuxClient) -> list[Pane]:
    infos = [await start_pane(server, QUIET, columns=COLUMNS, rows=ROWS) for _ in range(PANES)]
    return [Pane(client, info.pane_id) for info in infos]


async def fifty(server: TmuxServer, client: TmuxClient, stamper: Pane) -> None:
    panes = await busy(server, client)
    terminals = [await client.command("display-message", "-p", "-t", pane.pane_id, "#{pane_tty}") for pane in panes]
    painter = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", PAINTER, *terminals)
    try:
        async with PaneWatch() as watch:
            for pane in panes:
                watch.add(client, pane.pane_id)
            captures = 0
            cpu, began = time.process_time(), time.perf_counter()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCHED_SECONDS):
                    async for event in watch:
                        captures += isinstance(event, PaneSeen)
            elapsed = time.perf_counter() - began
            percent = (time.process_time() - cpu) / elapsed * 100
            verdict = "within" if percent <= CPU_BUDGET_PERCENT else "OVER"
            print(f"{PANES} busy panes, {COLUMNS}x{ROWS}, 10 Hz each    {percent:7.1f} % of one core", end="   ")
            print(f"{captures / elapsed:.0f} captures/s   {verdict} the budget of {CPU_BUDGET_PERCENT} %")
            watch.add(client, stamper.pane_id)
            print_edges(f"beside {PANES} busy", await stamps(watch, stamper, STAMPS))
    finally:
        painter.kill()
        await painter.wait()


async def main() -> None:
    async with stage() as (server, client, pane):
        await round_trip(server, pane)
        info = await start_pane(server, [sys.executable, "-I", "-S", "-c", STAMPER], columns=COLUMNS, rows=ROWS)
        stamper = Pane(client, info.pane_id)
        async with PaneWatch() as watch:
            watch.add(client, stamper.pane_id)
            print_edges("alone", await stamps(watch, stamper, STAMPS))
        await fifty(server, client, stamper)


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 55))
