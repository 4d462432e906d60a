"""The whole way: from what a program writes to the verdict on it, and what fifty tracked panes cost.

`make bench` runs this. Four figures: a write to its verdict, where a program replays recorded screens of Claude Code
and prints the moment of each write; tmux's news to the verdict, on the real Claude Code at work if the pinned version
is installed (`tools/agent_clis.py`), else on the scripted agent; the CPU of this process while fifty panes replay
recorded screens ten times a second, each read by its profile and followed by a tracker of its own; and the time until
an idle is believed where two hundred panes work for two seconds and stop at the same moment.

Only the last figure holds a wait that belongs to a verdict: how long an idle must stand (0.6 s).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from interlock.agents.pane_tracker import LiveVerdict, PaneTracker
from interlock.agents.profiles import load_profiles
from interlock.agents.recording_files import open_recording
from interlock.agents.tmux.client import TmuxClient, Wake
from interlock.agents.tmux.panes import OWN_SESSION, Pane, start_pane
from interlock.agents.tmux.server import TmuxServer
from interlock.agents.tmux.typing import type_prompt
from interlock.agents.tmux.watcher import PaneSeen
from interlock.monitor.scoring.recording import Frame
from interlock.monitor.tracker import TuiTrackerSession
from interlock.screen.assessment import BusinessState
from interlock.screen.selection import ScreenReader, select_reader
from interlock.screen.snapshot import read_snapshot
from interlock.testing.scripted_model import Gate, ScriptedModel, Text, Think
from interlock.vocabulary.errors import UsageError

CHECKOUT: Final = Path(__file__).parent.parent
VERSION: Final = "2.1.325"
RECORDING: Final = CHECKOUT / "tests" / "recordings" / "tui" / "claude" / "d_bash_120.ndjson.gz"
PANES: Final = 50
COLUMNS: Final = 120
ROWS: Final = 30
WATCHED_SECONDS: Final = 8.0
STAMPS: Final = 80
STAMPED_SECONDS: Final = 10.0
AT_WORK_SECONDS: Final = 8.0
CPU_BUDGET_PERCENT: Final = 15
EDGE_BUDGET_MS: Final = 150
MANY_PANES: Final = 200
MANY_SECONDS: Final = 14.0
IDLE_BUDGET_MS: Final = 700

QUIET: Final = ("sh", "-c", "stty raw -echo; exec sleep 600")
# Plays the screens of a file on terminals, PERIOD seconds apart. As a TUI does, it writes the rows that changed; and in
# the first row the moment of the write.
PLAYER: Final = r"""
import json, sys, time
period, source, *paths = sys.argv[1:]
screens = json.load(open(source))
files = [open(path, "wb", buffering=0) for path in paths] or [open(1, "wb", buffering=0)]
shown = [[] for _ in files]
n, due = 0, time.monotonic()
while True:
    n, due = n + 1, due + float(period)
    for index, file in enumerate(files):
        old, new = shown[index], screens[(n + 3 * index) % len(screens)]
        changed = (row for row in range(1, len(new)) if row >= len(old) or old[row] != new[row])
        rows = "".join(f"\x1b[{row + 1};1H\x1b[0m\x1b[K{new[row]}" for row in changed)
        file.write(f"{rows}\x1b[1;1H\x1b[0m\x1b[K{time.monotonic():.6f} END".encode())
        shown[index] = new
    time.sleep(max(0.0, due - time.monotonic()))
"""
# Paints work on all terminals ten times a second for two seconds, then an idle screen, and is still for two seconds.
# It prints the moment of each idle screen.
WORKER: Final = r"""
import json, sys, time
source, *paths = sys.argv[1:]
work, idle = json.load(open(source))
files = [open(path, "wb", buffering=0) for path in paths]
def paint(screen):
    rows = "".join(f"\x1b[{row + 1};1H\x1b[0m\x1b[K{text}" for row, text in enumerate(screen)).encode()
    for file in files:
        file.write(rows)
while True:
    due = time.monotonic()
    for turn in range(20):
        paint(work[turn % len(work)])
        due += 0.1
        time.sleep(max(0.0, due - time.monotonic()))
    paint(idle)
    print(time.monotonic(), flush=True)
    time.sleep(2)
"""


def screens() -> list[list[str]]:
    """The different screens of a recorded session: ready, at work, a dialog, a tool, the end of the turn."""
    with open_recording(str(RECORDING)) as records:
        shown = [record.ansi for record in records if isinstance(record, Frame) and record.ansi]
    return [text.split("\n")[:ROWS] for text in shown]


def claude_reader() -> ScreenReader:
    return select_reader(load_profiles(), "claude", VERSION)


@asynccontextmanager
async def stage() -> AsyncIterator[tuple[TmuxServer, TmuxClient, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="il-bench-"))
    server = TmuxServer.own(f"{folder}/tmux")
    (folder / "screens.json").write_text(json.dumps(screens()), "utf-8")
    try:
        await start_pane(server, QUIET, columns=COLUMNS, rows=ROWS)
        async with await TmuxClient.attach(server, OWN_SESSION) as client:
            yield server, client, folder
    finally:
        await server.kill()
        shutil.rmtree(folder)


def player(folder: Path, period_seconds: float, *terminals: str) -> list[str]:
    words = [str(period_seconds), str(folder / "screens.json"), *terminals]
    return [sys.executable, "-I", "-S", "-c", PLAYER, *words]


def print_edges(name: str, spent: list[float]) -> None:
    cuts = quantiles(spent, n=20)
    verdict = "within" if cuts[18] <= EDGE_BUDGET_MS else "OVER"
    print(f"{name:44} p50 {median(spent):6.1f} ms   p95 {cuts[18]:6.1f} ms   {len(spent)} changes", end="   ")
    print(f"{verdict} the budget of {EDGE_BUDGET_MS} ms")


async def stamps(tracker: PaneTracker, pane: Pane) -> list[float]:
    """Milliseconds from a write to the verdict on the screen that shows it; each write counts once."""
    seen, spent = "", list[float]()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STAMPED_SECONDS):
            async for live in tracker:
                if isinstance(live.cause, PaneSeen) and live.pane_id == pane.pane_id:
                    stamp, _, end = live.cause.capture.snapshot.rows[0].text.partition(" ")
                    if end == "END" and stamp != seen:
                        seen = stamp
                        spent.append((time.monotonic() - float(stamp)) * 1e3)
                if len(spent) == STAMPS:
                    break
    return spent


async def replayed(server: TmuxServer, client: TmuxClient, folder: Path) -> Pane:
    info = await start_pane(server, player(folder, 0.11), columns=COLUMNS, rows=ROWS)
    pane = Pane(client, info.pane_id)
    async with PaneTracker() as tracker:
        tracker.add(pane, TuiTrackerSession(claude_reader()))
        print_edges("write to verdict, replayed Claude, alone", await stamps(tracker, pane))
    return pane


async def fifty(server: TmuxServer, client: TmuxClient, folder: Path, stamper: Pane) -> None:
    infos = [await start_pane(server, QUIET, columns=COLUMNS, rows=ROWS) for _ in range(PANES)]
    ask = ("display-message", "-p", "-t")
    terminals = [await client.command(*ask, info.pane_id, "#{pane_tty}") for info in infos]
    painter = await asyncio.create_subprocess_exec(*player(folder, 0.1, *terminals))
    try:
        async with PaneTracker() as tracker:
            for info in infos:
                tracker.add(Pane(client, info.pane_id), TuiTrackerSession(claude_reader()))
            verdicts, states = 0, set[str]()
            cpu, began = time.process_time(), time.perf_counter()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCHED_SECONDS):
                    async for live in tracker:
                        verdicts += 1
                        states.add(live.verdict.business_state)
            elapsed = time.perf_counter() - began
            percent = (time.process_time() - cpu) / elapsed * 100
            verdict = "within" if percent <= CPU_BUDGET_PERCENT else "OVER"
            print(f"{PANES} tracked panes, {COLUMNS}x{ROWS}, 10 Hz each {percent:13.1f} % of one core", end="   ")
            print(f"{verdicts / elapsed:.0f} verdicts/s ({', '.join(sorted(states))})", end="   ")
            print(f"{verdict} the budget of {CPU_BUDGET_PERCENT} %")
            tracker.add(stamper, TuiTrackerSession(claude_reader()))
            print_edges(f"write to verdict, beside {PANES} tracked", await stamps(tracker, stamper))
    finally:
        painter.kill()
        await painter.wait()


def work_and_idle() -> tuple[list[list[str]], list[str]]:
    """The screens of the recording on which the agent works, and the last one on which it is idle."""
    reader, shown = claude_reader(), screens()
    texts = ["\n".join(screen) for screen in shown]
    states = [
        reader.parse_snapshot(read_snapshot(text, columns=COLUMNS, height=ROWS)).assessment.business_state
        for text in texts
    ]
    work = [screen for screen, state in zip(shown, states, strict=True) if state is BusinessState.WORKING]
    return work, [screen for screen, state in zip(shown, states, strict=True) if state is BusinessState.IDLE][-1]


async def two_hundred(server: TmuxServer, client: TmuxClient, folder: Path) -> None:
    (folder / "work.json").write_text(json.dumps(work_and_idle()), "utf-8")
    infos = [await start_pane(server, QUIET, columns=COLUMNS, rows=ROWS) for _ in range(MANY_PANES)]
    ask = ("display-message", "-p", "-t")
    terminals = [await client.command(*ask, info.pane_id, "#{pane_tty}") for info in infos]
    argv = [sys.executable, "-I", "-S", "-c", WORKER, str(folder / "work.json"), *terminals]
    painter = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    believed: dict[str, BusinessState] = {}
    idles: list[float] = []
    try:
        async with PaneTracker() as tracker:
            for info in infos:
                tracker.add(Pane(client, info.pane_id), TuiTrackerSession(claude_reader()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MANY_SECONDS):
                    async for live in tracker:
                        before = believed.get(live.pane_id)
                        believed[live.pane_id] = now = live.verdict.business_state
                        if now is BusinessState.IDLE and before is BusinessState.WORKING:
                            idles.append(time.monotonic())
    finally:
        painter.kill()
        stopped, _ = await painter.communicate()
    ends = [float(line) for line in stopped.split()]
    spent = [(at - max(end for end in ends if end <= at)) * 1e3 for at in idles if ends and at >= ends[0]]
    if len(spent) < 2:
        print(f"idle known, {MANY_PANES} panes: too few ends were seen; the machine is too busy")
        return
    cuts = quantiles(spent, n=20)
    verdict = "within" if cuts[18] <= IDLE_BUDGET_MS else "OVER"
    print(f"idle known, {MANY_PANES} panes that stop together {median(spent):16.0f} ms", end="   ")
    print(f"p95 {cuts[18]:.0f} ms   {len(spent)} ends   {verdict} the budget of {IDLE_BUDGET_MS} ms")


async def news_to_verdict(pane: Pane, reader: ScreenReader, act: Callable[[], object], prompt: str) -> list[float]:
    """Milliseconds from the first news of a change to its verdict, from the prompt on and while the agent works."""
    woken: list[float] = []
    loop = asyncio.get_running_loop()
    stop = pane.client.watch(pane.pane_id, lambda wake: woken.append(loop.time()) if wake is Wake.OUTPUT else None)
    spent: list[float] = []
    typing: asyncio.Task[object] | None = None

    def note(live: LiveVerdict) -> None:
        if isinstance(live.cause, PaneSeen) and woken:
            spent.append((loop.time() - woken[0]) * 1e3)
            woken[:] = [at for at in woken if at > live.cause.capture.captured_at_seconds]

    with contextlib.suppress(TimeoutError):
        async with PaneTracker() as tracker, asyncio.timeout(30) as limit:
            tracker.add(pane, TuiTrackerSession(reader))
            async for live in tracker:
                note(live)
                if typing is None and live.verdict.standing.is_ready:
                    limit.reschedule(loop.time() + AT_WORK_SECONDS)
                    typing = asyncio.create_task(type_prompt(pane, prompt, reader.parse_snapshot))
    stop()
    act()
    if typing is not None:
        await typing
    return spent


async def real(server: TmuxServer, client: TmuxClient, folder: Path) -> None:
    sys.path.insert(0, str(CHECKOUT))  # how a real CLI is started is known to its tests alone
    from tests.real.recipes import CLAUDE, LabFolder, command_line
    from tools.agent_clis import installed

    with ScriptedModel({"work": (Think("Let me see."), Text("One.\n\n", "Two"), Gate("held"), Text("."))}) as model:
        place = LabFolder(folder / "claude")
        place.make()
        CLAUDE.seed(place, model.url)
        argv = ["sh", "-c", command_line(CLAUDE, installed("claude"), place, model.url)]
        info = await start_pane(server, argv, cwd=str(place.project), columns=COLUMNS, rows=ROWS)
        pane = Pane(client, info.pane_id)
        spent = await news_to_verdict(pane, claude_reader(), lambda: model.release("held"), "SCN:work")
        print_edges(f"news to verdict, Claude Code {CLAUDE.version}", spent)
        await pane.kill()


async def scripted(server: TmuxServer, client: TmuxClient) -> None:
    argv = [sys.executable, "-m", "interlock.testing.scripted_agent"]
    pane = Pane(client, (await start_pane(server, argv, columns=COLUMNS, rows=ROWS)).pane_id)
    reader = select_reader(load_profiles(), "scripted")
    print_edges("news to verdict, scripted agent", await news_to_verdict(pane, reader, bool, "think 4; say Yes."))


async def main() -> None:
    async with stage() as (server, client, folder):
        stamper = await replayed(server, client, folder)
        try:
            await real(server, client, folder)
        except UsageError:  # it is not installed
            await scripted(server, client)
        await fifty(server, client, folder, stamper)
        await two_hundred(server, client, folder)


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 170))
