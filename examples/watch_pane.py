"""Watch an agent in a pane of your tmux, without a server: a line whenever something is certain.

    python examples/watch_pane.py work:1.0

The target is a pane as tmux names it (`%3`, `session:window.pane`). Nothing is typed into the pane. It ends with it.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from interlock.agents.identify import ask_version, identify
from interlock.agents.pane_tracker import track_pane
from interlock.agents.profiles import load_profiles
from interlock.agents.tmux.panes import adopt
from interlock.agents.tmux.server import TmuxServer
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.screen.selection import GENERIC, select_reader
from interlock.vocabulary.errors import InterlockError


def state_of(verdict: Verdict) -> str:
    """What is known of the agent, and whether it needs a person."""
    return verdict.activity if verdict.attention == "none" else f"{verdict.activity}, needs {verdict.attention}"


async def main(target: str) -> None:
    profiles = load_profiles()
    found = await adopt(TmuxServer.current(), target)
    async with found.pane.client:
        agent = identify(profiles, found.info.identity.pid, found.capture.snapshot)
        version = await ask_version(agent, profiles) if agent else None
        reader = select_reader(profiles, agent.cli if agent else GENERIC, version)
        print(f"{found.info.pane_id}: {reader.profile.title}, read by profile {reader.profile.id}", flush=True)
        shown = ""
        async with aclosing(track_pane(found.pane, TuiTrackerSession(reader, saw_start=False))) as verdicts:
            async for live in verdicts:
                events = live.verdict.events  # what became certain just now
                if events or state_of(live.verdict) != shown:
                    shown = state_of(live.verdict)
                    print(shown + (f" [{', '.join(events)}]" if events else ""), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        asyncio.run(main(sys.argv[1]))
    except KeyboardInterrupt:
        pass
    except InterlockError as error:
        sys.exit(str(error))
