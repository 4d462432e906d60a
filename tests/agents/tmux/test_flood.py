"""Flow control of panes that write much: what tmux is asked for, and when it counts as a change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from interlock.agents.tmux.flood import FLOOD_BYTES, FloodControl
from interlock.agents.tmux.server import Command


class Tmux:
    """Keeps what is sent; replies are given by hand."""

    def __init__(self, *watched: str) -> None:
        self.sent: asyncio.Queue[tuple[Command, Callable[[], None]]] = asyncio.Queue()
        self.woken = list[str]()
        self.control = FloodControl(lambda *sent: self.sent.put_nowait(sent), watched.__contains__, self.woken.append)

    async def next(self) -> tuple[tuple[str, ...], Callable[[], None]]:
        async with asyncio.timeout(100):
            command, reply = await self.sent.get()
        return tuple(command[2::2]), reply

    @property
    def is_counting(self) -> bool:
        return self.control._timer is not None


def play(story: Callable[[Tmux], Awaitable[None]], *watched: str) -> None:
    async def main() -> None:
        tmux = Tmux(*watched)
        await story(tmux)
        tmux.control.clear()
        assert not tmux.is_counting

    asyncio.run(main())


def test_what_floods_together_is_paused_by_one_command_and_listened_to_by_another() -> None:
    async def story(tmux: Tmux) -> None:
        for pane in ("%1", "%2"):
            tmux.control.heard(pane, FLOOD_BYTES)
            assert not tmux.control.is_paused(pane)
        for pane in ("%1", "%2", "%1"):
            tmux.control.heard(pane, 1)
            assert tmux.control.is_paused(pane)
        assert (await tmux.next())[0] == ("%1:pause", "%2:pause")
        asked, reply = await tmux.next()
        assert asked == ("%1:continue", "%2:continue")
        assert tmux.control.is_paused("%1"), "it is told of from the reply on"
        assert tmux.woken == []
        reply()
        assert tmux.woken == ["%1", "%2"]
        assert not tmux.control.is_paused("%1")
        assert not tmux.is_counting
        tmux.control.heard("%2", 1)
        assert (await tmux.next())[0] == ("%2:pause",)

    play(story, "%1", "%2")


def test_a_look_meanwhile_or_another_pause_makes_the_reply_an_old_one() -> None:
    async def story(tmux: Tmux) -> None:
        for pane in ("%1", "%2", "%3"):
            tmux.control.heard(pane, FLOOD_BYTES + 1)
        assert (await tmux.next())[0] == ("%1:pause", "%2:pause", "%3:pause")
        asked, reply = await tmux.next()
        assert asked == ("%1:continue", "%2:continue", "%3:continue")
        assert tmux.control.looked_at("%1")
        assert tmux.control.looked_at("%2")
        tmux.control.heard("%2", FLOOD_BYTES + 1)
        reply()
        assert tmux.woken == ["%3"]
        assert [tmux.control.is_paused(pane) for pane in ("%1", "%2", "%3")] == [False, True, False]

    play(story, "%1", "%2", "%3")


def test_a_pause_that_is_not_sent_yet_goes_out_before_its_resuming() -> None:
    async def story(tmux: Tmux) -> None:
        tmux.control.heard("%1", FLOOD_BYTES + 1)
        tmux.control._listen_again()
        assert [(await tmux.next())[0], (await tmux.next())[0]] == [("%1:pause",), ("%1:continue",)]

    play(story, "%1")


def test_a_pane_that_is_looked_at_before_its_pause_is_sent_is_not_paused() -> None:
    async def story(tmux: Tmux) -> None:
        tmux.control.heard("%1", FLOOD_BYTES + 1)
        assert tmux.control.looked_at("%1")
        tmux.control.heard("%2", FLOOD_BYTES + 1)
        assert (await tmux.next())[0] == ("%2:pause",)
        assert not tmux.control.looked_at("%1")

    play(story, "%1", "%2")


def test_a_pane_that_nobody_watches_stays_paused() -> None:
    async def story(tmux: Tmux) -> None:
        tmux.control.heard("%9", 1)
        assert (await tmux.next())[0] == ("%9:pause",)
        assert not tmux.is_counting
        tmux.control.was_paused("%1")  # by tmux, since we were too slow
        assert (await tmux.next())[0] == ("%1:continue",)

    play(story, "%1")
