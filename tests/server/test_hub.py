"""The hub: what the log has and what the runtime publishes, without a gap and without a double, through failures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from interlock.agents.observations import TextArrived, TurnEnded, TurnEnding
from interlock.log.memory import MemoryLog
from interlock.log.port import LogUnavailable, SessionPage, Slice
from interlock.projections.task.fold import TaskFold
from interlock.projections.task.view import TaskView
from interlock.runtime import runtime as runtime_module
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.agent.calls import Item
from interlock.server.http.problems import NotReady, UnknownTask
from interlock.server.live import hub as hub_module
from interlock.server.live.hub import GOING_AWAY, MAX_ASIDE, SERVICE_RESTART, Hub
from interlock.server.live.outbox import Outbox
from interlock.server.live.rooms import Rooms
from interlock.server.settings import ServerSettings
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status, TextDelta
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity, TaskStatus
from interlock.vocabulary.wire.frames import TaskFrame
from interlock.vocabulary.wire.requests import BoardJoin, ServerClosing, TaskBehind, TaskJoin
from tests.contract.harness import event, run
from tests.server.socket_harness import FRAMES, SPEC, Author, Reader, digest, soon, whole

SETTINGS = ServerSettings()
ONE = SessionId("ses_one")
TWO = SessionId("ses_two")


class Fickle(MemoryLog):
    """A log that can be told to fail, to be slow, and to say what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_to_read: set[SessionId] = set()
        self.fails_to_list = False
        self.gate: asyncio.Event | None = None
        self.reads: list[tuple[SessionId, int]] = []

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        self.reads.append((session_id, after))
        found = await super().read(session_id, after=after, limit=limit)
        if self.gate is not None:
            await self.gate.wait()
        if session_id in self.fails_to_read:
            raise LogUnavailable("the disk is away", next_action="bring it back")
        return found

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 2) -> SessionPage:
        if self.fails_to_list:
            raise LogUnavailable("the disk is away", next_action="bring it back")
        return await super().sessions(prefix=prefix, after=after, limit=2)  # more than one page, always


class Living:
    """In the place of a supervisor."""

    is_over = False


class Quiet:
    """In the place of a runtime: tests publish what they like, as if it had been appended."""

    def __init__(self) -> None:
        self.watchers: list[runtime_module.EventWatcher] = []
        self.supervised: set[SessionId] = set()
        self.shown = Status(activity=Activity.UNKNOWN)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[runtime_module.EventWatcher]:
        watcher = runtime_module.EventWatcher()
        self.watchers.append(watcher)
        yield watcher

    @property
    def sessions(self) -> tuple[SessionId, ...]:
        return tuple(self.supervised)

    def supervisor(self, session_id: SessionId) -> Living:
        if session_id not in self.supervised:
            raise UsageError("no")
        return Living()

    def status(self, session_id: SessionId) -> Status:
        return self.shown

    is_settled = True

    def can_wake(self, session_id: SessionId, opened: object) -> bool:
        return False

    def publish(self, *events: Event) -> None:
        for one in events:
            self.watchers[-1].put(one)


@asynccontextmanager
async def hub_over(log: Fickle, runtime: Quiet) -> AsyncIterator[Hub]:
    hub = Hub(runtime, log, look_seconds=0.01)  # type: ignore[arg-type]
    await hub.start()
    try:
        yield hub
    finally:
        await hub.close("over")


async def keep(log: Fickle, *events: Event) -> None:
    """Append events that bear their numbers already."""
    for one in events:
        await log.append(one.session_id, [one])


def answers(outbox: Outbox) -> list[Any]:
    return [FRAMES.decode(frame) for frame in outbox._frames]


def test_every_session_of_the_log_is_there_when_it_has_started() -> None:
    async def story() -> None:
        log, runtime = Fickle(), Quiet()
        for number in range(5):
            await keep(log, *Author(f"ses_{number}").opened())
        async with hub_over(log, runtime) as hub:
            assert hub.is_ready
            assert sorted(hub.views) == [f"ses_{number}" for number in range(5)]
            assert hub.view(SessionId("ses_9")) is None

    run(story())


def test_a_history_longer_than_a_page_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "_PAGE", 3)

    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened(), *author.queued(), *author.began(), *author.called(), *author.answered())
        async with hub_over(log, runtime) as hub:
            view = hub.view(ONE)
            assert view is not None
            assert view.version == len(author.events)

    run(story())


def test_what_happens_while_the_log_is_read_is_neither_lost_nor_doubled() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened(), *author.queued())
        runtime.supervised.add(ONE)
        log.gate = asyncio.Event()
        hub = Hub(runtime, log, look_seconds=0.01)  # type: ignore[arg-type]
        starting = asyncio.create_task(hub.start())
        await soon(lambda: log.reads)
        began = author.began()
        await keep(log, *began)  # the read under way has not got them, and they are published
        runtime.publish(*began, *author.said("hel"), *author.said("lo"))
        log.gate.set()
        await starting
        view = hub.views[ONE]
        await soon(lambda: view.check().active_stream)
        assert view.version == len(author.events)
        assert view.snapshot().stream.text == "hello"  # type: ignore[union-attr]
        assert len(view.snapshot().messages) == 1
        await hub.close("over")

    run(story())


def test_live_text_from_before_what_was_read_is_not_shown_again() -> None:
    """The log was read when the turn had gone on; deltas that were published before that are of a past."""

    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        async with hub_over(log, runtime) as hub:
            log.gate = asyncio.Event()
            first = [*author.opened(), *author.queued(), *author.began()]
            await keep(log, *first)
            runtime.publish(first[-1])  # a gap: it is read
            await soon(lambda: log.reads)
            early = author.said("early")
            runtime.publish(*early)
            log.gate.set()
            await soon(lambda: hub.is_ready and ONE in hub.views)
            stream = hub.views[ONE].snapshot().stream
            assert stream is not None, "it came after what was read, and counts"
            log.gate.clear()
            said = author.commented()
            called = author.called()
            await keep(log, *said, *called)
            late = author.live(TextDelta(stream_id=author.stream_id, offset=0, text="live"))
            runtime.publish(*called, late)  # `said` came by another way
            await soon(lambda: len(log.reads) > 1)
            log.gate.set()
            await soon(lambda: hub.is_ready)
            assert hub.views[ONE].version == len(author.events)
            assert hub.views[ONE].snapshot().stream.text == "live"  # type: ignore[union-attr]

    run(story())


def test_what_an_agent_was_seen_to_do_before_is_not_what_it_does_now() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        async with hub_over(log, runtime) as hub:
            events = [*author.opened(), *author.queued(), *author.began()]
            await keep(log, *events)
            runtime.publish(*author.shown(Activity.STALLED), *events)  # it is put aside, and read past
            await soon(lambda: ONE in hub.views and hub.is_ready)
            assert hub.views[ONE].snapshot().agent is None, "of before what was read"

    run(story())


def test_what_an_agent_is_seen_to_do_is_known_from_the_start() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        runtime.shown = Status(activity=Activity.WORKING)
        await keep(log, *author.opened(), *author.queued(), *author.began())
        async with hub_over(log, runtime) as hub:
            assert hub.views[ONE].snapshot().agent == runtime.shown
        runtime.supervised.clear()
        async with hub_over(log, runtime) as hub:
            assert hub.views[ONE].snapshot().agent is None, "no server runs it"

    run(story())


def test_a_doubt_that_comes_while_the_log_is_listed_is_not_lost() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened())
        log.gate = asyncio.Event()
        hub = Hub(runtime, log, look_seconds=0.01)  # type: ignore[arg-type]
        starting = asyncio.create_task(hub.start())
        await soon(lambda: log.reads)
        early = Author("ses_a")  # its place in the list has been passed
        await keep(log, *early.opened())
        hub._doubt_everything()
        log.gate.set()
        await starting
        await soon(lambda: early.session in hub.views and hub.is_ready)
        await hub.close("over")

    run(story())


def test_a_gap_in_what_is_published_is_read_from_the_log() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened())
        async with hub_over(log, runtime) as hub:
            events = [*author.queued(), *author.queued(), *author.queued()]
            await keep(log, *events)
            runtime.publish(events[-1])
            await soon(lambda: hub.views[ONE].version == 4)
            assert hub.views[ONE].summary().queued == 3
            assert log.reads[-1] == (ONE, 1), "only what was missing is read"
            await soon(lambda: hub.is_ready)

    run(story())


def test_who_waits_for_a_version_is_woken_by_it_and_by_no_earlier_one() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        async with hub_over(log, runtime) as hub:
            events = [*author.opened(), *author.queued(), *author.queued()]
            await keep(log, *events)
            waits = [asyncio.create_task(hub.reached(ONE, version, 20)) for version in (1, 3, 3)]
            runtime.publish(events[0])
            assert await waits[0]
            runtime.publish(events[1])
            await soon(lambda: hub.views[ONE].version == 2)
            for _ in range(3):
                await asyncio.sleep(0)
            assert not waits[1].done()
            runtime.publish(events[2])
            assert await waits[1]
            assert await waits[2]
            assert await hub.reached(ONE, 2, 0), "what is there is not waited for"
            assert hub._awaited == {}

    run(story())


def test_a_version_that_is_read_from_the_log_is_reached_as_well() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        async with hub_over(log, runtime) as hub:
            events = [*author.opened(), *author.queued(), *author.queued()]
            await keep(log, *events)
            waits = asyncio.create_task(hub.reached(ONE, 2, 20))
            runtime.publish(events[-1])  # the others were missed
            assert await waits

    run(story())


def test_a_version_that_does_not_come_is_waited_for_until_the_deadline() -> None:
    async def story() -> None:
        async with hub_over(Fickle(), Quiet()) as hub:
            assert not await hub.reached(ONE, 1, 0.01)
            gone = asyncio.create_task(hub.reached(ONE, 1, 20))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            assert hub._awaited == {}

    run(story())


def test_a_session_that_begins_later_appears_by_its_events() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        async with hub_over(log, runtime) as hub:
            opened = author.opened("late")
            await keep(log, *opened)
            runtime.publish(*opened)
            await soon(lambda: ONE in hub.views)
            assert hub.views[ONE].summary().title == "late"
            assert not log.reads, "nothing was missing"

    run(story())


def test_a_live_event_of_a_session_that_is_not_known_makes_it_be_read() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        async with hub_over(log, runtime) as hub:
            await keep(log, *author.opened(), *author.queued(), *author.began())
            runtime.publish(*author.said("hello"))
            await soon(lambda: ONE in hub.views and hub.is_ready)
            assert hub.views[ONE].version == len(author.events)
            assert hub.views[ONE].check().active_stream is not None

    run(story())


def test_a_watcher_that_missed_something_is_replaced_and_the_log_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "MAX_UNREAD", 5)

    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened())
        async with hub_over(log, runtime) as hub:
            events = [one for _ in range(20) for one in author.queued()]
            other = Author("ses_two").opened()
            await keep(log, *events, *other)
            runtime.publish(*events, *other)  # at once: it holds five
            await soon(lambda: hub.times_missed == 1 and hub.is_ready)
            assert hub.views[ONE].version == len(author.events)
            assert SessionId("ses_two") in hub.views, "a session that began in the gap"
            assert len(runtime.watchers) == 2
            more = author.queued()
            await keep(log, *more)
            runtime.publish(*more)
            await soon(lambda: hub.views[ONE].version == len(author.events))

    run(story())


def test_a_log_that_cannot_be_listed_is_asked_again() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened())
        log.fails_to_list = True
        async with hub_over(log, runtime) as hub:
            assert not hub.is_ready
            with hub.connection(SETTINGS) as outbox:
                with pytest.raises(NotReady):
                    hub.join(outbox, TaskJoin(id="j", task_id=ONE))
                with pytest.raises(NotReady):
                    hub.join_board(outbox, BoardJoin(id="b"))
                log.fails_to_list = False
                await soon(lambda: hub.is_ready)
                hub.join(outbox, TaskJoin(id="j", task_id=ONE))
                hub.join_board(outbox, BoardJoin(id="b"))
                with pytest.raises(UnknownTask):
                    hub.join(outbox, TaskJoin(id="j", task_id=SessionId("ses_none")))
                assert len(outbox) == 2

    run(story())


def test_a_session_that_cannot_be_read_keeps_nobody_from_the_others() -> None:
    async def story() -> None:
        log, runtime = Fickle(), Quiet()
        author, other = Author(), Author("ses_two")
        await keep(log, *author.opened(), *other.opened())
        log.fails_to_read = {ONE}
        async with hub_over(log, runtime) as hub:
            assert list(hub.views) == [other.session]
            assert not hub.is_ready
            more = other.queued()
            await keep(log, *more)
            runtime.publish(*more)
            await soon(lambda: hub.views[other.session].version == 2)
            log.fails_to_read = set()
            await soon(lambda: hub.is_ready)
            assert hub.views[ONE].version == 1

    run(story())


def test_a_fold_that_fails_is_made_again_and_its_room_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    add, failures = TaskView.add, [1]

    def fragile(self: TaskView, one: Event) -> tuple[TaskFrame, ...]:
        frames = add(self, one)
        if isinstance(one.data, UserMessage) and failures:
            failures.pop()
            raise RuntimeError("a bug")
        return frames

    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        await keep(log, *author.opened(), *author.queued())
        async with hub_over(log, runtime) as hub:
            with hub.connection(SETTINGS) as outbox:
                hub.join(outbox, TaskJoin(id="j", task_id=ONE))
                first = author.began()
                await keep(log, *first)
                runtime.publish(*first, *(one for _ in range(30) for one in author.said("word ")))
                await soon(lambda: (stream := hub.views[ONE].check().active_stream) and stream.cursor == 150)
                monkeypatch.setattr(TaskView, "add", fragile)
                tick = hub.views[ONE].tick
                began = [*author.answered(), *author.began()]
                await keep(log, *began)
                runtime.publish(*began)
                await soon(lambda: hub.times_failed)
                assert not hub.is_ready
                with pytest.raises(NotReady):
                    hub.join(outbox, TaskJoin(id="j", task_id=ONE))
                await soon(lambda: hub.is_ready)
                assert not failures
                assert hub.views[ONE].version == len(author.events)
                assert hub.views[ONE].status is TaskStatus.RUNNING
                behind = [one for one in answers(outbox) if isinstance(one, TaskBehind)]
                assert len(behind) == 1
                assert behind[0].tick > tick, "ticks never go back"
                again = TaskView(ONE)
                for one in author.events:
                    again.add(one)
                assert digest(whole(hub.views[ONE])) == digest(whole(again))
                assert hub.views[ONE].summary().agent == "puppet", "it is folded from its beginning"

    run(story())


def test_a_fold_that_always_fails_does_not_end_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    add = TaskView.add

    def broken(self: TaskView, one: Event) -> tuple[TaskFrame, ...]:
        if one.session_id == ONE:
            raise RuntimeError("a bug")
        return add(self, one)

    async def story() -> None:
        log, runtime, author, other = Fickle(), Quiet(), Author(), Author("ses_two")
        async with hub_over(log, runtime) as hub:
            monkeypatch.setattr(TaskView, "add", broken)
            events = [*author.opened(), *other.opened()]
            await keep(log, *events)
            runtime.publish(*events)
            await soon(lambda: hub.times_failed >= 3)
            assert not hub.is_ready
            assert hub.views[other.session].version == 1
            monkeypatch.setattr(TaskView, "add", add)
            await soon(lambda: hub.is_ready)
            assert hub.views[ONE].version == 1

    run(story())


def test_what_is_put_aside_is_bounded() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        await keep(log, *author.opened(), *author.queued(), *author.began())
        log.fails_to_read = {ONE}
        async with hub_over(log, runtime) as hub:
            for _ in range(3):
                for _ in range(MAX_ASIDE // 2):
                    runtime.publish(*author.said("x"))
                await soon(lambda: not runtime.watchers[-1]._unread)
                assert len(hub._aside[ONE]) <= MAX_ASIDE
            log.fails_to_read = set()
            await soon(lambda: hub.is_ready)
            assert hub.views[ONE].version == len(author.events)

    run(story())


def test_who_runs_a_session_is_looked_at_again_and_again() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened(), *author.queued(), *author.began())
        async with hub_over(log, runtime) as hub:
            assert not hub.views[ONE].is_supervised
            assert hub.views[ONE].status is TaskStatus.UNKNOWN, "nobody knows how an open turn stands that nobody runs"
            written = author.called()
            await keep(log, *written)  # by whoever took it up, before anybody published
            runtime.supervised.add(ONE)
            await soon(lambda: hub.views[ONE].is_supervised)
            assert hub.views[ONE].status is TaskStatus.RUNNING
            assert hub.views[ONE].version == len(author.events)
            runtime.supervised.clear()
            await soon(lambda: not hub.views[ONE].is_supervised)

    run(story())


def test_over_a_real_runtime_the_view_is_the_log() -> None:
    async def story() -> None:
        log, driver = Fickle(), PuppetDriver()
        async with Runtime(log, [driver]) as runtime:
            hub = Hub(runtime, log, look_seconds=0.01)
            await hub.start()
            task_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(task_id, "hello")
            puppet = await soon(lambda: next((one for one in driver.puppets if one.prompts), None))
            puppet.say(TextArrived(text="hi"), TurnEnded(ending=TurnEnding.NATURAL, text="hi"))
            await runtime.wait_turn(task_id, prompt_id)
            version = (await log.read(task_id)).version
            await soon(lambda: hub.views[task_id].version >= version)
            again = TaskView(task_id)
            for one in (await log.read(task_id)).events:
                again.add(one)
            live = whole(hub.views[task_id])
            assert (live.task_status, live.messages) == (TaskStatus.COMPLETED, whole(again).messages)
            await hub.close("over")
            assert not hub.is_ready

    run(story())


def test_when_the_runtime_ends_the_hub_is_not_ready() -> None:
    async def story() -> None:
        log = Fickle()
        async with Runtime(log, [PuppetDriver()]) as runtime:
            hub = Hub(runtime, log, look_seconds=0.01)
            await hub.start()
            assert hub.is_ready
        await soon(lambda: not hub.is_ready)
        await hub.close("over")

    run(story())


def test_closing_tells_every_connection_first_and_waits_for_it() -> None:
    async def story(is_restart: bool, code: int) -> None:
        async with hub_over(Fickle(), Quiet()) as hub:

            async def client() -> tuple[list[Any], int]:
                taken = []
                with hub.connection(SETTINGS) as outbox:
                    while (frame := await outbox.take()) is not None:
                        taken.append(FRAMES.decode(frame))
                    assert outbox.closing is not None
                    return taken, outbox.closing.code

            clients = [asyncio.create_task(client()) for _ in range(3)]
            await soon(lambda: hub.connections == 3)
            await hub.close("a new version", is_restart=is_restart)
            assert hub.connections == 0
            for taken, closed in await asyncio.gather(*clients):
                assert [type(one) for one in taken] == [ServerClosing]
                assert taken[0].reason == "a new version"
                assert closed == code
            assert hub.is_closing

    run(story(True, SERVICE_RESTART))
    run(story(False, GOING_AWAY))


def test_closing_does_not_wait_for_ever() -> None:
    async def story() -> None:
        async with hub_over(Fickle(), Quiet()) as hub:
            with hub.connection(SETTINGS):
                await hub.close("now", patience_seconds=0.01)
                assert hub.connections == 1
            assert hub.connections == 0

    run(story())


def test_a_hub_is_started_once() -> None:
    async def story() -> None:
        async with hub_over(Fickle(), Quiet()) as hub:
            with pytest.raises(UsageError):
                await hub.start()

    run(story())


def test_a_connection_that_ends_is_in_no_room() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened())
        async with hub_over(log, runtime) as hub:
            with hub.connection(SETTINGS) as outbox:
                hub.join(outbox, TaskJoin(id="j", task_id=ONE))
                assert hub.rooms.rooms_of(outbox) == 1
            assert hub.rooms.rooms_of(outbox) == 0
            assert hub.connections == 0

    run(story())


def test_damage_in_a_log_is_passed_over() -> None:
    class Damaged(Fickle):
        async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
            found = await super().read(session_id, after=after, limit=limit)
            return Slice(events=tuple(one for one in found.events if one.seq != 2), version=found.version)

    async def story() -> None:
        log, runtime = Damaged(), Quiet()
        await log.append(ONE, [event(ONE), event(ONE), event(ONE)])
        async with hub_over(log, runtime) as hub:
            assert hub.is_ready
            assert hub.views[ONE].version == 3

    run(story())


def test_a_digest_says_what_it_should() -> None:
    """The measure of these tests itself: two folds of different histories do not look alike."""
    one, two = TaskView(ONE), TaskView(ONE)
    author = Author()
    for written in [*author.opened(), *author.queued(), *author.began()]:
        one.add(written)
    assert digest(whole(one)) != digest(whole(two))


def test_a_flood_of_events_lets_others_run_in_between() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        await keep(log, *author.opened(), *author.queued(), *author.began())
        async with hub_over(log, runtime) as hub:
            pieces = [one for _ in range(2_000) for one in author.said("word ")]
            runtime.publish(*pieces)
            seen: list[int] = []
            while not seen or seen[-1] < 2_000 * 5:
                await asyncio.sleep(0)
                stream = hub.views[ONE].check().active_stream
                seen.append(0 if stream is None else stream.cursor)
            assert len(set(seen)) > 20, "whoever else has something to do waits for some of them, not for all"

    run(story())


def test_who_asks_is_told_by_whom_a_session_is_run_at_that_moment() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        runtime.supervised.add(ONE)
        await keep(log, *author.opened(), *author.queued(), *author.began())
        hub = Hub(runtime, log, look_seconds=60.0)  # type: ignore[arg-type]
        await hub.start()
        with hub.connection(SETTINGS) as outbox:
            assert hub.views[ONE].status is TaskStatus.RUNNING
            runtime.supervised.clear()
            hub.join(outbox, TaskJoin(id="j", task_id=ONE))
            assert answers(outbox)[0].snapshot.task_status is TaskStatus.UNKNOWN
            runtime.supervised.add(ONE)
            hub._look_who_runs()
            await soon(lambda: hub.views[ONE].is_supervised)
            runtime.supervised.clear()
            view = hub.view(ONE)
            assert view is not None
            assert view.check().task_status is TaskStatus.UNKNOWN, "no server runs it: its open turn is not known"
            runtime.supervised.add(ONE)
            hub._look_who_runs()
            await soon(lambda: hub.views[ONE].is_supervised)
            runtime.supervised.clear()
            hub.join_board(outbox, BoardJoin(id="b"))
            assert answers(outbox)[-1].tasks[0].task_status is TaskStatus.UNKNOWN
        await hub.close("over")

    run(story())


def test_a_supervisor_that_fails_is_known_by_what_it_says_last() -> None:
    async def story() -> None:
        log, driver = Fickle(), PuppetDriver()
        async with Runtime(log, [driver]) as runtime:
            hub = Hub(runtime, log, look_seconds=60.0)
            await hub.start()
            task_id = await runtime.open_session(SPEC)
            await runtime.send(task_id, "hello")
            await soon(lambda: task_id in hub.views and hub.views[task_id].status is TaskStatus.RUNNING)
            supervisor = runtime.supervisor(task_id)
            supervisor._mailbox.put_nowait(Item(object()))  # type: ignore[arg-type]  # its loop breaks on this
            await soon(lambda: supervisor.is_over)
            await soon(lambda: hub.views[task_id].status is TaskStatus.UNKNOWN)
            assert not hub.views[task_id].is_supervised
            await hub.close("over")

    run(story())


def test_a_session_that_is_taken_up_again_loses_no_word() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened(), *author.queued(), *author.began())
        hub = Hub(runtime, log, look_seconds=60.0)  # type: ignore[arg-type]
        await hub.start()
        assert not hub.views[ONE].is_supervised
        runtime.supervised.add(ONE)
        runtime.publish(*author.said("hello "), *author.said("world"))
        stream = await soon(lambda: hub.views[ONE].check().active_stream)
        assert stream.cursor == 11
        assert hub.views[ONE].status is TaskStatus.RUNNING
        await hub.close("over")

    run(story())


def test_idle_sessions_are_not_asked_for_one_by_one() -> None:
    class Counting(Quiet):
        asked = 0

        def supervisor(self, session_id: SessionId) -> Living:
            self.asked += 1
            return super().supervisor(session_id)

    async def story() -> None:
        log, runtime = Fickle(), Counting()
        await keep(log, *(one for n in range(50) for one in Author(f"ses_{n}").opened()))
        async with hub_over(log, runtime) as hub:
            await soon(lambda: hub.is_ready)
            runtime.asked = 0
            for _ in range(20):
                hub._look_who_runs()
            assert runtime.asked == 0

    run(story())


def test_sessions_at_work_are_not_looked_at_again_for_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What every session costs twice a second is most of what a server with many of them does."""
    looked: list[SessionId] = []
    found = vars(TaskFold)["is_at_rest"].fget

    def counted(view: TaskView) -> bool:
        looked.append(view.task_id)
        return bool(found(view))

    monkeypatch.setattr(TaskView, "is_at_rest", property(counted))

    async def story() -> None:
        log, runtime = Fickle(), Quiet()
        authors = [Author(f"ses_{number}") for number in range(50)]
        await keep(log, *(one for author in authors for one in [*author.opened(), *author.began()]))
        async with hub_over(log, runtime) as hub:
            await soon(lambda: hub.is_ready)
            await hub._let_rest()
            looked.clear()
            for _ in range(20):
                await hub._let_rest()
            assert not looked
            (event,) = authors[7].called()
            await keep(log, event)
            runtime.publish(event)
            await soon(lambda: bool(looked))
            assert set(looked) == {"ses_7"}

    run(story())


def test_a_session_that_nobody_runs_is_not_said_to_be_run_when_it_appears() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        hub = Hub(runtime, log, look_seconds=60.0)  # type: ignore[arg-type]
        await hub.start()
        events = [*author.opened(), *author.queued(), *author.began()]
        await keep(log, *events)
        runtime.publish(*events)
        await soon(lambda: ONE in hub.views and hub.views[ONE].version == len(events))
        assert hub.views[ONE].status is TaskStatus.UNKNOWN
        await hub.close("over")

    run(story())


def test_a_log_that_does_not_list_its_sessions_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "READ_SECONDS", 0.02)

    class Stuck(Fickle):
        async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 2) -> SessionPage:
            if self.fails_to_list:
                await asyncio.Event().wait()
            return await super().sessions(prefix=prefix, after=after, limit=limit)

    async def story() -> None:
        log, author = Stuck(), Author()
        await keep(log, *author.opened())
        log.fails_to_list = True
        async with asyncio.timeout(100), hub_over(log, Quiet()) as hub:
            assert not hub.is_ready
            log.fails_to_list = False
            await soon(lambda: hub.is_ready)

    run(story())


def test_who_comes_while_the_hub_closes_is_let_go_at_once() -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        await keep(log, *author.opened())
        async with hub_over(log, runtime) as hub:
            await hub.close("over")
            with hub.connection(SETTINGS) as outbox:
                async with asyncio.timeout(100):
                    assert await outbox.take() is None

    run(story())


def test_a_log_that_does_not_answer_for_one_session_keeps_nobody_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "READ_SECONDS", 0.02)

    class Stuck(Fickle):
        async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
            if session_id == ONE and self.fails_to_read:
                await asyncio.Event().wait()
            self.reads.append((session_id, after))
            return await MemoryLog.read(self, session_id, after=after, limit=limit)

    async def story() -> None:
        log, runtime = Stuck(), Quiet()
        author, other = Author(), Author("ses_two")
        await keep(log, *author.opened(), *other.opened())
        log.fails_to_read = {ONE}
        async with asyncio.timeout(100), hub_over(log, runtime) as hub:
            assert list(hub.views) == [other.session]
            log.fails_to_read = set()
            await soon(lambda: hub.is_ready)

    run(story())


class Unreliable(MemoryLog):
    """A log that now and then cannot be read."""

    def __init__(self, chance: random.Random, rate: float) -> None:
        super().__init__()
        self.chance = chance
        self.rate = rate

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        await asyncio.sleep(0)
        if self.chance.random() < self.rate:
            raise LogUnavailable("the disk is away", next_action="bring it back")
        return await super().read(session_id, after=after, limit=limit)


async def disturb(runtime: Runtime, driver: PuppetDriver, chance: random.Random, tasks: list[SessionId]) -> None:
    """One of the things that happen to sessions. What is refused did not happen."""
    task_id = chance.choice(tasks)
    puppets = [one for one in driver.puppets[-8:] if not one.is_gone]
    with suppress(InterlockError):
        match chance.randrange(9):
            case 0:
                tasks.append(await runtime.open_session(SPEC))
            case 1 | 2:
                await runtime.send(task_id, "hello")
            case 3 | 4 if puppets:
                chance.choice(puppets).say(*[TextArrived(text="word ")] * chance.randrange(1, 60))
            case 5 if puppets:
                chance.choice(puppets).say(TurnEnded(ending=TurnEnding.NATURAL))
            case 6:
                runtime.supervisor(task_id)._mailbox.put_nowait(Item(object()))  # type: ignore[arg-type]
            case 7:
                await runtime.reopen(task_id)
                await runtime.send(task_id, "again")
            case 8 if chance.random() < 0.3:
                await runtime.delete(task_id)
            case _:
                pass


async def live_through(seed: int, steps: int = 100) -> None:
    chance = random.Random(seed)
    log, driver = Unreliable(chance, 0.0), PuppetDriver()
    async with Runtime(log, [driver]) as runtime:
        hub = Hub(runtime, log, look_seconds=0.005)
        await hub.start()
        log.rate = 0.1 if seed % 3 == 0 else 0.0
        tasks, readers = [await runtime.open_session(SPEC)], list[Reader]()
        for _ in range(steps):
            await disturb(runtime, driver, chance, tasks)
            if chance.random() < 0.1:
                readers.append(Reader(hub.rooms, capacity=chance.choice((5, 50, 10**9))))
                with suppress(InterlockError):
                    hub.join(readers[-1], TaskJoin(id="j", task_id=chance.choice(tasks)))  # type: ignore[arg-type]
            for reader in readers:
                reader.read(chance.randrange(20))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        log.rate = 0.0
        await soon(lambda: all(task_id in hub.views for task_id in tasks) and hub.is_ready)
        for task_id in tasks:
            await until_it_is_the_log(hub, runtime, log, task_id)
        for reader in readers:
            for _ in range(20):
                reader.read()
            for task_id, known in reader.tasks.items():
                assert digest(known.snapshot) == digest(whole(hub.views[task_id])), seed
        await hub.close("over")


async def until_it_is_the_log(hub: Hub, runtime: Runtime, log: MemoryLog, task_id: SessionId) -> None:
    """Wait until a view says what the log says, and no more than is proven."""
    async with asyncio.timeout(100):
        while True:
            again = TaskView(task_id)
            for one in (await log.read(task_id)).events:
                again.add(one)
            is_run = task_id in runtime.sessions and not runtime.supervisor(task_id).is_over
            again.set_supervised(is_run)
            now, then = whole(hub.views[task_id]), whole(again)
            shown = now.agent or Status(activity=Activity.UNKNOWN)
            if (
                (now.version, now.task_status, now.turn_id, now.messages, now.approvals, now.queue)
                == (then.version, then.task_status, then.turn_id, then.messages, then.approvals, then.queue)
                and hub.views[task_id].is_supervised is is_run
                and (not is_run or shown == runtime.status(task_id))
            ):
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_to_sessions_the_hub_ends_where_the_log_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "MAX_UNREAD", 40 if seed % 2 else 10_000)
    run(live_through(seed))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4, 100))
def test_whatever_happens_for_long(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "MAX_UNREAD", 40 if seed % 2 else 10_000)
    run(live_through(seed))


def test_a_round_that_fails_is_told_and_the_next_one_is_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the first: whoever starts the hub waits for it."""

    async def story() -> None:
        log, author = Fickle(), Author()
        await keep(log, *author.opened())
        broken = iter([RuntimeError("broken on purpose")])

        def refresh(_: object) -> None:
            for error in broken:
                raise error

        monkeypatch.setattr(Rooms, "refresh", refresh)
        async with hub_over(log, Quiet()) as hub:
            await soon(lambda: hub.is_ready)
            assert hub.times_failed == 1
            author = Author(TWO)
            await keep(log, *author.opened())
            hub._doubt_everything()
            await soon(lambda: TWO in hub.views)
        assert "broken on purpose" in caplog.text

    run(story())


def test_what_is_published_is_heard_again_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        log, runtime, author = Fickle(), Quiet(), Author()
        hear = Hub._hear
        broken = iter([RuntimeError("broken on purpose")])

        def hear_badly(hub: Hub, event: Event) -> None:
            for error in broken:
                raise error
            hear(hub, event)

        monkeypatch.setattr(Hub, "_hear", hear_badly)
        async with hub_over(log, runtime) as hub:
            opened = author.opened()
            await keep(log, *opened)
            runtime.publish(*opened)
            await soon(lambda: len(runtime.watchers) == 2)
            await soon(lambda: ONE in hub.views)
            await soon(lambda: hub.is_ready)
        assert "broken on purpose" in caplog.text

    run(story())


def test_a_start_that_reads_many_sessions_answers_meanwhile() -> None:
    """After a kill -9 a thousand turns may have to be settled: nobody waits for all of them to ask about one."""

    async def story() -> None:
        log = Fickle()
        for number in range(hub_module._MANY + 1):
            session_id = SessionId(f"ses_{number:03}")
            await log.append(session_id, [event(session_id)])
        log.gate = asyncio.Event()
        async with Runtime(MemoryLog(), []) as runtime:
            hub = Hub(runtime, log, patience_seconds=3_600)
            try:
                await hub.start()
                assert (hub.is_listed, hub.is_ready) == (True, False)
                log.gate.set()
                await soon(lambda: hub.is_ready)
                assert len(hub.views) == hub_module._MANY + 1
            finally:
                log.gate.set()
                await hub.close("over")

    run(story())
