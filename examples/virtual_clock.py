"""A tracker on a virtual clock: time is an argument, so that two minutes of a terminal are tested at once.

python examples/virtual_clock.py
"""

from __future__ import annotations

from interlock.agents.profiles import load_profiles
from interlock.monitor.observation import Arrival
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import Snapshot, read_snapshot

RULE = "─" * 40


def screen(title: str, *above: str) -> Snapshot:
    """What `capture-pane -e` printed; here it is made up, as a test would."""
    return read_snapshot("\n".join([*above, RULE, "> ", RULE]), columns=40, height=12, title=f"scripted - {title}")


READY = screen("ready", "Scripted agent 1.0")
WORKING = screen("working", "> fix it", "", "⠋ Working (1s)", "")
DONE = screen("ready", "> fix it", "", "• Fixed.", "", "Done in 3s")
# (seconds, what happened then): a snapshot, or a prompt that was submitted
STORY: list[tuple[float, Snapshot | str]] = [(0.0, READY), (5.0, "fix it"), (5.2, WORKING), (8.0, DONE)]


def show(verdict: Verdict) -> None:
    print(f"{verdict.at_seconds:5.1f}  {verdict.activity:8} {', '.join(verdict.events)}".rstrip())


def run_timers(session: TuiTrackerSession, until_seconds: float) -> None:
    """What an event loop does with one timer: `deadline` says when, and nothing happens in between."""
    while session.deadline is not None and session.deadline <= until_seconds:
        show(session.on_timer(session.deadline))


def main() -> None:
    session = TuiTrackerSession(select_reader(load_profiles(), "scripted"))
    for at_seconds, happened in STORY:
        run_timers(session, at_seconds)
        if isinstance(happened, str):
            show(session.on_submit(at_seconds, happened))
        else:
            show(session.on_snapshot(happened, at_seconds, Arrival.PUSHED))
    run_timers(session, 120.0)


if __name__ == "__main__":
    main()
