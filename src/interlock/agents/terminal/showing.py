"""The last look at a pane, and whether somebody still sees it. It costs nothing: the watcher looks anyway.

Laws:
1. What is shown was captured. Nothing is asked of tmux for it.
2. From the moment that the pane cannot be seen the picture is not live, until the next capture.
"""

from __future__ import annotations

from dataclasses import replace

from interlock.agents.port import ScreenSeen
from interlock.agents.tmux.watcher import (
    ChannelDown,
    PaneChannelLost,
    PaneDied,
    PaneGone,
    PaneMoved,
    PaneSeen,
    WatchEvent,
)


def see(seen: ScreenSeen | None, event: WatchEvent | None) -> ScreenSeen | None:
    """The picture after something happened to the pane."""
    match event:
        case PaneSeen(capture):
            return ScreenSeen(snapshot=capture.snapshot, captured_at_seconds=capture.captured_at_seconds)
        case ChannelDown(reason=reason):
            return lose(seen, f"tmux cannot be reached now: {reason}")
        case PaneChannelLost(reason=reason):
            return lose(seen, f"tmux cannot be reached any more: {reason}")
        case PaneMoved():
            return lose(seen, "somebody moved the pane to another session of tmux")
        case PaneDied():
            return lose(seen, "its program has ended")
        case PaneGone():
            return lose(seen, "its pane is gone")
        case _:
            return seen


def lose(seen: ScreenSeen | None, why: str) -> ScreenSeen | None:
    """The same picture, which nobody sees to change any more. The first reason stands."""
    return seen if seen is None or seen.problem else replace(seen, problem=why)
