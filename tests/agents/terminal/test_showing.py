"""What is known of a terminal's picture, and from when on it is not live any more."""

from __future__ import annotations

from interlock.agents.observations import BecameReady, ChannelLost
from interlock.agents.port import ScreenSeen, ShowsScreen
from interlock.agents.terminal.showing import lose, see
from interlock.agents.tmux import watcher
from interlock.agents.tmux.capture import PaneCapture
from interlock.monitor.observation import Arrival
from interlock.screen.snapshot import read_snapshot
from tests.agents.terminal.harness import agent, driving, press
from tests.contract.harness import run
from tests.each_row import each_row
from tests.runtime.conducting import soon


def capture(text: str, at: float) -> watcher.PaneSeen:
    snapshot = read_snapshot(text, columns=80, height=24)
    return watcher.PaneSeen(PaneCapture("%1", "@1", snapshot, 7, None, None, 0, at), Arrival.PUSHED, at)


@each_row(
    ("event", "why"),
    [
        (watcher.ChannelDown(("%1",), "no answer"), "tmux cannot be reached now: no answer"),
        (watcher.PaneChannelLost(("%1",), "it ended"), "tmux cannot be reached any more: it ended"),
        (watcher.PaneMoved("%1", "$2"), "somebody moved the pane to another session of tmux"),
        (watcher.PaneDied("%1", 7, 1, None), "its program has ended"),
        (watcher.PaneGone("%1"), "its pane is gone"),
    ],
)
def test_a_picture_that_nobody_sees_is_not_live_until_the_next_capture(event: watcher.WatchEvent, why: str) -> None:
    first = see(None, capture("one", 5.0))
    assert first is not None
    assert (first.snapshot.rows[0].text, first.captured_at_seconds, first.problem) == ("one", 5.0, "")
    lost = see(first, event)
    assert lost == ScreenSeen(snapshot=first.snapshot, captured_at_seconds=5.0, problem=why)
    assert lose(lost, "another reason") == lost
    assert see(lost, watcher.ChannelUp(("%1",))) == lost  # that the way is open says nothing of the picture yet
    assert see(lost, None) == lost
    again = see(lost, capture("two", 6.0))
    assert again is not None
    assert (again.snapshot.rows[0].text, again.problem) == ("two", "")


def test_before_the_first_capture_there_is_nothing() -> None:
    assert see(None, watcher.ChannelDown(("%1",), "no answer")) is None
    assert lose(None, "gone") is None


def _shows(seen: ScreenSeen | None, text: str) -> bool:
    return seen is not None and any(text in row.text for row in seen.snapshot.rows)


def test_the_handle_of_a_real_terminal_shows_what_it_draws_and_that_tmux_is_gone() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            handle = seen.handle
            assert isinstance(handle, ShowsScreen)
            await seen.until(BecameReady)
            await press(seen, "a few words")
            await soon(lambda: _shows(handle.screen, "a few words"))
            assert handle.screen is not None
            assert handle.screen.problem == ""
            await driver.server.kill()
            await seen.until(ChannelLost)
            assert handle.screen.problem
            assert _shows(handle.screen, "a few words")

    run(main())
