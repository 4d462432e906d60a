"""ReactiveX from raw screens to verdicts, on a virtual clock. It needs the extra: pip install 'interlock[rx]'

    python examples/reactive.py

In a program of yours the screens come from a subject or an interval, and the scheduler is left out.
"""

from __future__ import annotations

from typing import Any

import reactivex
from reactivex import operators
from reactivex.scheduler import VirtualTimeScheduler

from interlock.agents.profiles import load_profiles
from interlock.monitor.observation import Arrival, ShadowObservation
from interlock.monitor.rx import PromptSubmitted, readiness, track
from interlock.monitor.tracker import Verdict
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import Snapshot, read_snapshot

READER = select_reader(load_profiles(), "scripted")
BOX = (RULE := "─" * 40) + f"\n> \n{RULE}"
# Seconds, the title of the terminal, and the text that `tmux capture-pane -p -e` printed.
RAW = [
    (0, "scripted - ready", f"Scripted agent 1.0\n{BOX}"),
    (5, "scripted - working", f"> ship it\n⠋ Working (0s)\n\n{BOX}"),
    (9, "scripted - asking", f"> ship it\n╭{RULE}\n│ Push to main?\n│ › 1. Yes, do it\n│   2. No, and stop\n╰{RULE}"),
    (20, "scripted - working", f"> ship it\n⠋ Working (15s)\n\n{BOX}"),
    (24, "scripted - ready", f"> ship it\n• Shipped.\n\nDone in 19s\n{BOX}"),
]


def observe(snapshot: Snapshot) -> ShadowObservation:
    reading = READER.parse_snapshot(snapshot)
    return ShadowObservation(reading.assessment, reading.projection, Arrival.PUSHED)


def line_of(verdict: Verdict) -> str:
    return f"{verdict.at_seconds:5.1f}  {verdict.activity:8} {', '.join(verdict.events)}".rstrip()


def main(clock: VirtualTimeScheduler) -> None:
    screens: reactivex.Subject[Any] = reactivex.Subject()
    verdicts = screens.pipe(track(READER, arrival=Arrival.PUSHED, scheduler=clock))
    verdicts.subscribe(lambda verdict: print(line_of(verdict)))
    snapshots = screens.pipe(operators.filter(lambda item: isinstance(item, Snapshot)))
    snapshots.pipe(operators.map(observe), readiness(scheduler=clock), operators.take(1)).subscribe(
        lambda result: print(f"{clock.clock:5.1f}  the first prompt may go in: {result.kind}")
    )
    clock.schedule_absolute(4, lambda *_: screens.on_next(PromptSubmitted("ship it")))
    for at_seconds, title, raw in RAW:
        snapshot = read_snapshot(raw, columns=40, height=12, title=title)
        clock.schedule_absolute(at_seconds, lambda *_, snapshot=snapshot: screens.on_next(snapshot))
    clock.start()


if __name__ == "__main__":
    main(VirtualTimeScheduler())
