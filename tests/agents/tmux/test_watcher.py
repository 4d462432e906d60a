"""Watching panes: pushed, paced, bounded, and honest about what is not known."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from contextlib import aclosing

import pytest

from interlock.agents.tmux import watcher
from interlock.agents.tmux.client import TmuxClient, Wake
from interlock.agents.tmux.flood import FloodControl
from interlock.agents.tmux.panes import OWN_SESSION, start_pane
from interlock.agents.tmux.process import ClientProcess
from interlock.agents.tmux.server import TmuxServer
from interlock.agents.tmux.watcher import (
    ChannelDown,
    ChannelUp,
    PaneChannelLost,
    PaneDied,
    PaneGone,
    PaneMoved,
    PaneSeen,
    PaneWatch,
    WatchEvent,
)
from interlock.monitor.observation import Arrival
from tests.agents.tmux.harness import (
    FOREVER,
    PYTHON,
    Wakes,
    control_pid,
    ends,
    private_server,
    shows,
    stage,
    text_of,
    until,
    watch_panes,
)
from tests.contract.harness import run

FLOOD = r"""
import sys, time
sys.stdin.readline()
line = b"x" * 78 + b"\r"
for _ in range(640): sys.stdout.buffer.write(line * 1024)
sys.stdout.write("\x1b]2;over\x07THE END"); sys.stdout.flush(); time.sleep(600)
"""


def is_seen(event: WatchEvent, text: str) -> bool:
    return isinstance(event, PaneSeen) and text in text_of(event.capture)


def test_a_change_is_pushed_and_the_first_look_says_that_nothing_is_known_of_before() -> None:
    async def main() -> None:
        async with stage("cat") as on, aclosing(watch_panes(on.client, [on.pane.pane_id])) as events:
            first = await anext(events)
            assert isinstance(first, PaneSeen)
            assert first.arrival is Arrival.RECONNECTED
            await on.pane.send_text("hello")
            seen = await until(events, lambda event: is_seen(event, "hello"))
            assert isinstance(seen[-1], PaneSeen)
            assert seen[-1].arrival is Arrival.PUSHED

    run(main())


def test_while_nothing_changes_no_command_is_sent() -> None:
    async def main() -> None:
        async with stage() as on, PaneWatch() as watch:
            bell = await on.start(*FOREVER)
            rings = Wakes(on.client, bell.pane_id)

            async def a_second(title: str) -> None:
                """tmux looks at what we subscribed to once a second: when it tells of this, one has gone by."""
                rings.seen.clear()
                await on.server.run(["select-pane", "-t", bell.pane_id, "-T", title])
                await rings.until(Wake.STATE)

            for pane in (on.pane, await on.start("sh", "-c", "printf READY; exec sleep 600")):
                watch.add(on.client, pane.pane_id)
            await until(watch, lambda event: is_seen(event, "READY"))
            waiting = asyncio.create_task(drain(watch))
            for title in ("tmux has told of every pane for the first time", "what that woke is over"):
                await a_second(title)
            before = on.client.commands_sent
            await a_second("and nothing followed")
            assert on.client.commands_sent == before
            assert not waiting.done()
            waiting.cancel()

    run(main())


async def drain(watch: PaneWatch) -> None:
    async for _ in watch:
        continue


def test_a_title_is_pushed_also_when_no_output_tells_of_it() -> None:
    async def main() -> None:
        async with stage() as on, PaneWatch() as watch:
            watch.add(on.client, on.pane.pane_id)
            await anext(watch)
            await on.client.command("select-pane", "-t", on.pane.pane_id, "-T", "by hand")
            await until(watch, lambda e: isinstance(e, PaneSeen) and e.capture.snapshot.title == "by hand")

    run(main())


def test_a_resize_is_pushed() -> None:
    async def main() -> None:
        async with stage() as on, PaneWatch() as watch:
            watch.add(on.client, on.pane.pane_id)
            await anext(watch)
            await on.client.command("resize-window", "-t", on.pane.pane_id, "-x", "91", "-y", "17")
            await until(watch, lambda e: isinstance(e, PaneSeen) and e.capture.snapshot.columns == 91)

    run(main())


def test_a_program_that_ends_is_told_once_with_its_status_after_its_last_screen() -> None:
    async def main() -> None:
        async with stage("sh", "-c", "printf LAST; read x; exit 7") as on, PaneWatch() as watch:
            watch.add(on.client, on.pane.pane_id)
            await until(watch, lambda event: is_seen(event, "LAST"))
            await on.pane.send_keys("Enter")
            seen = await until(watch, lambda event: isinstance(event, PaneDied))
            died, last = seen[-1], seen[-2]
            assert isinstance(died, PaneDied)
            assert (died.exit_status, died.exit_signal) == (7, None)
            assert isinstance(last, PaneSeen)
            assert last.capture.snapshot.is_dead
            assert "LAST" in text_of(last.capture)
            # tmux 3.3a may swallow the first bytes that a respawned program writes.
            words = ("sh", "-c", "printf '%20s' AGAIN; exec sleep 600")
            await on.client.command("respawn-pane", "-t", on.pane.pane_id, *words)
            again = await until(watch, lambda event: is_seen(event, "AGAIN"))
            assert not [event for event in again if isinstance(event, PaneDied)]
            os.kill((await on.pane.capture()).pid, signal.SIGKILL)
            (*_, killed) = await until(watch, lambda event: isinstance(event, PaneDied))
            assert isinstance(killed, PaneDied)
            assert (killed.exit_status, killed.exit_signal) == (None, 9)

    run(main())


def test_how_a_program_ended_is_learnt_also_when_tmux_misses_it_at_first() -> None:
    async def one() -> None:
        async with stage("sh", "-c", "printf GO; exec sleep 600") as on:
            os.kill((await shows(on.pane, "GO")).pid, signal.SIGKILL)
            assert (await ends(on.pane)).exit_signal == signal.SIGKILL

    async def main() -> None:
        # Without a reminder about one in ten is missed, until another child of the same server ends.
        await asyncio.gather(*(one() for _ in range(16)))

    run(main())


def test_a_pane_that_is_closed_is_gone_and_the_others_go_on() -> None:
    async def main() -> None:
        async with stage() as on, PaneWatch() as watch:
            second = await on.start("cat")
            for pane in (on.pane, second):
                watch.add(on.client, pane.pane_id)
            await on.pane.kill()
            await until(watch, lambda event: event == PaneGone(on.pane.pane_id))
            assert tuple(watch._panes) == (second.pane_id,)
            await second.send_text("alive")
            await until(watch, lambda event: is_seen(event, "alive"))

    run(main())


def test_a_pane_that_moves_to_another_session_is_told_and_can_be_watched_there() -> None:
    async def main() -> None:
        async with stage() as on, PaneWatch() as watch:
            moving = await on.start("cat")
            watch.add(on.client, moving.pane_id)
            await anext(watch)
            await on.server.run(["new-session", "-d", "-s", "else", *FOREVER])
            await on.server.run(["move-window", "-s", moving.pane_id, "-t", "=else:"])
            (*_, moved) = await until(watch, lambda event: isinstance(event, PaneMoved))
            assert isinstance(moved, PaneMoved)
            async with await TmuxClient.attach(on.server, moved.session_id) as client:
                watch.add(client, moving.pane_id)
                await client.command("send-keys", "-t", moving.pane_id, "h", "i")
                await until(watch, lambda event: is_seen(event, "hi"))

    run(main())


def test_a_broken_channel_is_down_then_up_and_the_next_look_says_so() -> None:
    async def main() -> None:
        async with stage("cat") as on, PaneWatch() as watch:
            second = await on.start("cat")
            panes = (on.pane.pane_id, second.pane_id)
            for pane_id in panes:
                watch.add(on.client, pane_id)
            await anext(watch)
            os.kill(control_pid(on.client), signal.SIGKILL)
            events = await until(watch, lambda event: isinstance(event, ChannelUp))
            events += [await anext(watch), await anext(watch)]
            changes = [event for event in events if isinstance(event, ChannelDown | ChannelUp)]
            assert [type(event) for event in changes] == [ChannelDown, ChannelUp]
            assert {event.pane_ids for event in changes} == {panes}
            looks = events[events.index(changes[1]) + 1 :]
            assert [event.arrival for event in looks if isinstance(event, PaneSeen)] == [Arrival.RECONNECTED] * 2

    run(main())


def test_a_killed_server_is_lost_and_no_pane_is_said_to_have_ended() -> None:
    async def main() -> None:
        async with stage() as on:
            events = watch_panes(on.client, [on.pane.pane_id])
            await anext(events)
            await on.server.kill()
            rest = [event async for event in events]
            assert [type(event) for event in rest] == [ChannelDown, PaneChannelLost]

    run(main())


def test_a_flood_is_mostly_not_heard_costs_no_memory_and_its_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, take_in = 0, FloodControl.heard

    def counted(self: FloodControl, pane_id: str, size: int) -> None:
        nonlocal heard
        heard += size
        take_in(self, pane_id, size)

    monkeypatch.setattr(FloodControl, "heard", counted)

    async def main() -> None:
        async with stage(*PYTHON, FLOOD) as on, PaneWatch() as watch:
            await on.client.command("set-option", "-g", "history-limit", "100")
            watch.add(on.client, on.pane.pane_id)
            await anext(watch)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await on.pane.send_keys("Enter")
            seen = await until(watch, lambda event: is_seen(event, "THE END"))
            assert isinstance(seen[-1], PaneSeen)
            assert seen[-1].capture.snapshot.title == "over"
            grown_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown_kilobytes < 20_000
            assert heard < 25_000_000, "the program wrote 50 MB"

    run(main(), 200)


def test_a_pane_that_nobody_watches_is_not_heard_and_not_held_back() -> None:
    program = "import sys\nfor n in range(200000): print(n)\nprint('ALL OUT'); sys.stdout.flush(); sys.stdin.readline()"

    async def main() -> None:
        async with stage() as on:
            noisy = await on.start(*PYTHON, program)
            await shows(noisy, "ALL OUT")
            before = on.client.commands_sent
            await on.client.command("display-message", "-p", "x")
            assert on.client.commands_sent == before + 1

    run(main())


def test_a_watch_that_is_cancelled_leaves_the_agent_alive_and_no_task_behind() -> None:
    async def main() -> None:
        async with private_server() as server:
            info = await start_pane(server, FOREVER)

            async def watch_it() -> None:
                async with await TmuxClient.attach(server, OWN_SESSION) as client, PaneWatch() as watch:
                    watch.add(client, info.pane_id)
                    await drain(watch)

            task = asyncio.create_task(watch_it())
            while not (await server.run(["list-clients"])):
                continue
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await server.run(["list-clients"]) == ""
            os.kill(info.identity.pid, 0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_panes_of_a_persons_server_are_watched_without_starting_or_ending_anything() -> None:
    async def main() -> None:
        async with private_server() as server:
            await server.run(["new-session", "-d", "-s", "mine", "cat"], may_start=True)
            foreign = TmuxServer(server.socket)
            async with await TmuxClient.attach(foreign, "mine") as client, PaneWatch() as watch:
                watch.add(client, "%0")
                await client.command("send-keys", "-t", "%0", "h", "i")
                await until(watch, lambda event: is_seen(event, "hi"))
            assert "mine" in await foreign.run(["list-sessions"])

    run(main())


def test_a_look_that_fails_is_raised_where_events_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its pane would seem to stand still, and nobody know why."""

    async def main() -> None:
        async with stage("cat") as on:

            async def fail(*_: object) -> None:
                raise RuntimeError("broken on purpose")

            monkeypatch.setattr(watcher, "capture_pane", fail)
            async with PaneWatch() as watch:
                watch.add(on.client, on.pane.pane_id)
                with pytest.raises(RuntimeError, match="broken on purpose"):
                    await anext(watch)

    run(main())


def test_a_pane_that_flooded_is_told_of_again_without_a_look_and_its_last_change_is_known() -> None:
    program = (
        "import sys, time\nsys.stdin.readline()\nsys.stdout.write('y' * 100_000 + '\\x1b]2;over\\x07')\n"
        "sys.stdout.flush()\ntime.sleep(600)"
    )

    async def main() -> None:
        async with stage(*PYTHON, program) as on, PaneWatch() as watch:
            watch.add(on.client, on.pane.pane_id)
            pane = watch._pacer._panes[on.pane.pane_id]
            await anext(watch)
            wakes = Wakes(on.client, on.pane.pane_id)
            await on.pane.send_keys("Enter")
            ask = ("display-message", "-p", "-t", on.pane.pane_id, "#{pane_title}")
            was_paused = False
            async with asyncio.timeout(100):
                while await on.client.command(*ask) != "over" or on.client.is_paused(on.pane.pane_id):
                    was_paused = was_paused or on.client.is_paused(on.pane.pane_id)
            assert was_paused
            assert Wake.OUTPUT in wakes.seen
            async with asyncio.timeout(100):
                seen = await anext(watch)
            assert isinstance(seen, PaneSeen)
            assert seen.capture.snapshot.title == "over"
            assert seen.since_seconds < pane.begun_at

    run(main())


def test_of_a_paused_pane_only_the_look_itself_says_since_when() -> None:
    """While it is paused nobody tells what it writes, so the last news may be long before its last change."""

    async def main() -> None:
        async with stage() as on, PaneWatch() as watch:
            watch.add(on.client, on.pane.pane_id)
            pane = watch._pacer._panes[on.pane.pane_id]
            await anext(watch)
            for is_paused in (False, True):
                if is_paused:
                    on.client._flood._paused[on.pane.pane_id] = object()
                watch._changed(on.pane.pane_id)
                async with asyncio.timeout(100):
                    seen = await anext(watch)
                assert isinstance(seen, PaneSeen)
                assert (seen.since_seconds > pane.begun_at) is is_paused

    run(main())


def test_looks_that_are_due_together_are_asked_for_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    write = ClientProcess.write

    def noting(process: ClientProcess, data: bytes, *, is_last: bool = False) -> None:
        written.append(data)
        write(process, data, is_last=is_last)

    async def main() -> None:
        async with stage() as on, PaneWatch() as watch:
            panes = [on.pane, await on.start("sleep", "600"), await on.start("sleep", "600")]
            monkeypatch.setattr(ClientProcess, "write", noting)
            for pane in panes:
                watch.add(on.client, pane.pane_id)
            async with asyncio.timeout(100):
                seen = [await anext(watch) for _ in panes]
            assert {event.capture.pane_id for event in seen if isinstance(event, PaneSeen)} == {
                pane.pane_id for pane in panes
            }

    run(main())
    assert written[0].count(b"capture-pane") == 3
