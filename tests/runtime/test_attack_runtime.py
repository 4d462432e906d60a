"""Attacks on the running runtime: failing logs, drivers that hang or raise, stops and shutdowns at bad moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalOption,
    BecameReady,
    Exited,
    Observation,
    TextArrived,
)
from interlock.agents.pool.pool import PoolLimits
from interlock.agents.port import AgentSpec, Capabilities, Decision, DeliveryUnknown, StopReport
from interlock.lifecycle.turns import turn_states
from interlock.log.memory import MemoryLog
from interlock.log.port import Slice
from interlock.runtime import runtime as runtime_module
from interlock.runtime.policy import RunPolicy
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.runtime.session.supervisor import SessionFailed
from interlock.testing.puppet import EVERYTHING, Puppet, PuppetDriver
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.events.audit import Anomaly, DialogOpened, ProcessEvent, ProcessEventKind
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, SpawnId
from interlock.vocabulary.states import Activity, Attention, DriverKind, TurnState
from tests.contract.harness import run
from tests.held_time import clock, run_with_jumps
from tests.runtime.conducting import soon
from tests.runtime.test_runtime import SPEC, TERMINAL, die, done, events_of, first_prompt


class Broken(MemoryLog):
    """A log that fails in a way that no patience mends."""

    is_broken = False

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        if self.is_broken:
            raise RuntimeError("the disk is on fire")
        return await super().append(session_id, events, expected_version=expected_version)


class Pane(Puppet):
    """As a real terminal does it: who is let go says no more, and a stop ends it all the same."""

    async def observations(self) -> AsyncIterator[Observation]:
        async for one in super().observations():
            if isinstance(one, Exited) and self.is_released and not self.stops:
                return
            yield one

    async def release(self) -> None:
        self.is_released = True
        self._said.put_nowait(Exited())
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class PaneDriver(PuppetDriver):
    """Starts panes. `unreachable`: they cannot be found again, and nobody knows why."""

    unreachable = False

    def __init__(self) -> None:
        super().__init__(TERMINAL, kind=DriverKind.TERMINAL)

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        pane = Pane(spec, spawn_id, TERMINAL)
        self.puppets.append(pane)
        pane.say(BecameReady())
        return pane

    async def adopt(self, spec: AgentSpec, spawn_id: SpawnId, where: Json) -> Puppet:
        if self.unreachable:
            raise Unreachable("tmux does not answer")
        return await super().adopt(spec, spawn_id, where)


class SlowDriver(PuppetDriver):
    """A start that takes until it is let go on, or is cancelled."""

    def __init__(self, capabilities: Capabilities = EVERYTHING) -> None:
        super().__init__(capabilities)
        self.go_on = asyncio.Event()
        self.begun = self.cancelled = 0

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        self.begun += 1
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().spawn(spec, spawn_id)


def kinds(events: Sequence[Event]) -> list[ProcessEventKind]:
    return [event.data.kind for event in events if isinstance(event.data, ProcessEvent)]


def gone(driver: SlowDriver) -> Callable[[], bool | None]:
    return lambda: True if driver.cancelled else None


# A supervisor that fails


def test_whoever_waits_is_told_when_the_session_fails_and_it_is_not_shown_as_it_was() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Broken()
        async with Runtime(log, [driver]) as runtime, runtime.watch() as watcher:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "one")
            await soon(first_prompt(driver))
            waiting = asyncio.create_task(runtime.wait_turn(session_id, prompt_id))
            await asyncio.sleep(0)
            log.is_broken = True
            with pytest.raises(SessionFailed):
                await runtime.send(session_id, "two")
            with pytest.raises(SessionFailed):
                await waiting
            with pytest.raises(SessionFailed, match=f"session {session_id} is not supervised any more: "):
                await runtime.send(session_id, "three")
            status = runtime.status(session_id)
            assert (status.activity, status.attention) == (Activity.UNKNOWN, Attention.ERROR)
            shown = [event.data async for event in first_of(watcher, lambda data: data == status)]
            assert shown
            log.is_broken = False

    run(story())


async def first_of(watcher: runtime_module.EventWatcher, look: Callable[[object], bool]) -> AsyncIterator[Event]:
    async for event in watcher:
        if look(event.data):
            yield event
            return


def test_a_session_that_failed_is_opened_again_as_after_a_restart() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Broken()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            with pytest.raises(UsageError):
                await runtime.reopen(session_id)
            prompt_id = await runtime.send(session_id, "one")
            await soon(first_prompt(driver))
            log.is_broken = True
            with pytest.raises(SessionFailed):
                await runtime.send(session_id, "two")
            log.is_broken = False
            recovered = await runtime.reopen(session_id)
            assert recovered is not None
            assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.FAILED
            again = await runtime.send(session_id, "three")
            (await soon(lambda: driver.latest if driver.latest.prompts and not driver.latest.is_gone else None)).say(
                done()
            )
            assert (await runtime.wait_turn(session_id, again)).state is TurnState.COMPLETED

    run(story())


def test_one_session_that_cannot_be_recovered_keeps_nobody_from_the_others() -> None:
    async def story() -> None:
        driver, log = PaneDriver(), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        sessions = [await first.open_session(SPEC) for _ in range(2)]
        await first.send(sessions[0], "one")
        await soon(first_prompt(driver))
        await die(first)
        driver.unreachable = True
        async with Runtime(log, [driver]) as runtime:
            assert runtime.sessions == (sessions[1],)
            (problem,) = [one for one in runtime.recovered if one.problem]
            assert problem.session_id == sessions[0]
            assert turn_states(await events_of(log, sessions[0]))[0].state is TurnState.RUNNING
            assert driver.latest.stops == 0
            driver.unreachable = False
            recovered = await runtime.reopen(sessions[0])
            assert recovered is not None
            assert recovered.adopted == driver.latest.spawn_id

    run(story())


def test_an_agent_whose_driver_is_not_here_is_left_alone() -> None:
    async def story() -> None:
        driver, log = PaneDriver(), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        await first.send(session_id, "one")
        await soon(first_prompt(driver))
        await die(first)
        async with Runtime(log, [PuppetDriver(name="another")]) as runtime:
            assert runtime.recovered[0].problem
        assert turn_states(await events_of(log, session_id))[0].state is TurnState.RUNNING

    run(story())


def test_a_start_that_fails_leaves_nothing_running() -> None:
    class Half(MemoryLog):
        reads = 0

        async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
            self.reads += 1
            if self.reads > 1:
                raise RuntimeError("the disk is on fire")
            return await super().read(session_id, after=after, limit=limit)

    async def story() -> None:
        driver, log = PaneDriver(), Half()
        first = Runtime(log, [driver])
        await first.__aenter__()
        for _ in range(2):
            await first.open_session(SPEC)
        await die(first)
        runtime = Runtime(log, [driver])
        with pytest.raises(RuntimeError, match="on fire"):
            await runtime.__aenter__()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())


# Shutdowns and stops


def test_a_terminal_that_is_let_go_is_neither_stopped_nor_taken_for_dead() -> None:
    async def story() -> None:
        driver, log = PaneDriver(), MemoryLog()
        runtime = Runtime(log, [driver])
        await runtime.__aenter__()
        sessions = [await runtime.open_session(SPEC) for _ in range(3)]
        for session_id in sessions:
            await runtime.send(session_id, "one")
            await runtime.send(session_id, "two")
        await soon(lambda: True if sum(bool(pane.prompts) for pane in driver.puppets) == 3 else None)
        report = await runtime.shutdown()
        assert report.left_running == tuple(sorted(sessions))
        assert [pane.stops for pane in driver.puppets] == [0, 0, 0]
        for session_id in sessions:
            events = await events_of(log, session_id)
            assert turn_states(events)[0].state is TurnState.RUNNING
            assert kinds(events)[1:] == [ProcessEventKind.SPAWNED, ProcessEventKind.RELEASED]

    run(story())


def test_a_clean_end_starts_nothing_for_what_is_queued_which_goes_on_with_the_next_runtime() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "one")
            await soon(first_prompt(driver))
            await runtime.send(session_id, "two")
        assert len(driver.puppets) == 1
        async with Runtime(log, [driver]):
            puppet = await soon(lambda: driver.puppets[1] if len(driver.puppets) > 1 else None)
            await soon(lambda: puppet.prompts or None)
            assert [prompt.text for prompt in puppet.prompts] == ["two"]

    run(story())


def test_one_agent_that_cannot_be_stopped_keeps_nobody_else_alive() -> None:
    class Stubborn(Puppet):
        async def stop(self) -> StopReport:
            self.stops += 1
            raise OSError("no such luck")

    class StubbornDriver(PuppetDriver):
        async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
            puppet = Stubborn(spec, spawn_id, EVERYTHING)
            self.puppets.append(puppet)
            puppet.say(BecameReady())
            return puppet

    async def story() -> None:
        stubborn, driver, log = StubbornDriver(name="stubborn"), PuppetDriver(), MemoryLog()
        runtime = Runtime(log, [stubborn, driver])
        await runtime.__aenter__()
        bad = await runtime.open_session(AgentSpec(agent="stubborn", driver="stubborn"))
        good = await runtime.open_session(SPEC)
        for session_id in (bad, good):
            await runtime.start(session_id)
        await soon(lambda: True if stubborn.puppets and driver.puppets else None)
        await runtime.supervisor(bad).until(lambda conductor: conductor.agent)
        await runtime.supervisor(good).until(lambda conductor: conductor.agent)
        ending = asyncio.create_task(runtime.shutdown())
        await soon(lambda: driver.latest.is_gone or None)
        while not ending.done():
            clock().advance(5.0)
            await asyncio.sleep(0.02)
        report = await ending
        assert list(report.problems) == [bad]
        assert report.stopped == (good,)
        assert driver.latest.is_gone
        told = [event.data.kind for event in await events_of(log, bad) if isinstance(event.data, Anomaly)]
        assert "stop_failed" in told
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_with_jumps(story())


@pytest.mark.parametrize("is_shutdown", [True, False])
def test_a_stop_while_the_agent_is_starting_ends_the_start(is_shutdown: bool) -> None:
    async def story() -> None:
        driver, log = SlowDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "one")
            await soon(lambda: driver.begun or None)
            if not is_shutdown:
                await runtime.stop(session_id)
                assert driver.cancelled == 1
                assert runtime.status(session_id).activity is Activity.GONE
                driver.go_on.set()
                await runtime.set_gate(session_id, is_open=True)
                await soon(first_prompt(driver))
        assert driver.cancelled == 1
        assert ProcessEventKind.SPAWN_FAILED in kinds(await events_of(log, session_id))
        assert all(puppet.is_gone for puppet in driver.puppets)

    run(story())


def test_a_stop_reaches_an_agent_that_waits_for_a_slot() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver], limits=PoolLimits(total=1)) as runtime:
            holder, waiter = [await runtime.open_session(SPEC) for _ in range(2)]
            await runtime.send(holder, "one")
            await soon(first_prompt(driver))
            await runtime.send(waiter, "two")
            await runtime.stop(waiter)
            await runtime.stop(holder)
            assert len(driver.puppets) == 1
            await runtime.set_gate(waiter, is_open=True)
            await soon(lambda: True if len(driver.puppets) == 2 else None)

    run(story())


def test_a_start_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr("interlock.runtime.session.agent.calls._SPAWN_SECONDS", 0.05)
        driver, log = SlowDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "one")
            await soon(gone(driver))
            supervisor = runtime.supervisor(session_id)
            await supervisor.until(lambda conductor: None if conductor.running_spawn else True)
            assert ProcessEventKind.RESTART_DUE in kinds(await events_of(log, session_id))

    run(story())


# Prompts, decisions and watchers


def test_nobody_waits_for_the_turn_of_a_prompt_that_will_have_none() -> None:
    async def story() -> None:
        async with Runtime(MemoryLog(), [PuppetDriver()]) as runtime:
            session_id = await runtime.open_session(SPEC)
            with pytest.raises(UsageError):
                await runtime.wait_turn(session_id, PromptId("nobody_sent_it"))
            await runtime.set_gate(session_id, is_open=False)
            prompt_id = await runtime.send(session_id, "one")
            waiting = asyncio.create_task(runtime.wait_turn(session_id, prompt_id))
            await asyncio.sleep(0)
            await runtime.remove(session_id, prompt_id)
            with pytest.raises(UsageError):
                await waiting

    run(story())


def test_a_decision_that_may_have_arrived_is_given_once() -> None:
    class Unsure(Puppet):
        async def decide(self, decision: Decision) -> None:
            self.decisions.append(decision)
            raise DeliveryUnknown("Enter was pressed")

    class UnsureDriver(PuppetDriver):
        async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
            puppet = Unsure(spec, spawn_id, EVERYTHING)
            self.puppets.append(puppet)
            puppet.say(BecameReady())
            return puppet

    async def story() -> None:
        driver, log = UnsureDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "one")
            puppet = await soon(first_prompt(driver))
            puppet.say(ApprovalAsked(request_id="r1", question="?", options=(ApprovalOption(label="Yes"),)))
            book = runtime.supervisor(session_id).book
            await runtime.supervisor(session_id).until(lambda _: book.dialogs.open or None)
            asked = next(e.data for e in await events_of(log, session_id) if isinstance(e.data, DialogOpened))
            await runtime.decide(session_id, AnswerQuestion(approval_id=asked.dialog_id, option="Yes", is_allowed=True))
            supervisor = runtime.supervisor(session_id)
            await supervisor.until(lambda conductor: conductor.questions.problem or None)
            assert len(puppet.decisions) == 1

    run(story())


def test_a_watcher_that_falls_behind_ends_where_its_gap_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(runtime_module, "MAX_UNREAD", 3)
        async with Runtime(MemoryLog(), [PuppetDriver()]) as runtime, runtime.watch() as watcher:
            for _ in range(3):
                await runtime.open_session(SPEC)
            first = await anext(watcher)
            session_id = await runtime.open_session(SPEC)
            seen = [first, *[event async for event in watcher]]
            assert watcher.has_missed
            assert session_id not in [event.session_id for event in seen if event.type == "session_opened"][:-1]
            assert len(seen) <= 4

    run(story())


def test_a_watcher_ends_with_the_runtime() -> None:
    async def story() -> None:
        async with Runtime(MemoryLog(), [PuppetDriver()]) as runtime, runtime.watch() as watcher:
            session_id = await runtime.open_session(SPEC)
            await runtime.shutdown()
            seen = [event async for event in watcher]
        assert (seen[0].type, seen[0].session_id, seen[0].seq) == ("session_opened", session_id, 1)

    run(story())


def test_a_session_that_is_in_the_log_is_not_opened_twice() -> None:
    async def story() -> None:
        log = MemoryLog()
        async with Runtime(log, [PuppetDriver()]) as runtime:
            session_id = await runtime.open_session(SPEC)
        other = Runtime(log, [PuppetDriver()])
        with pytest.raises(UsageError):
            await other.open_session(SPEC, session_id=session_id)

    run(story())


def test_a_command_that_held_a_secret_is_not_run_with_the_mask_in_its_place() -> None:
    async def story() -> None:
        log = MemoryLog()
        spec = AgentSpec(agent="puppet", driver="puppet", argv=("agent", "--api-key", "sk-ant-0123456789abcdefghij"))
        async with Runtime(log, [PuppetDriver()]) as runtime:
            session_id = await runtime.open_session(spec)
        driver = PuppetDriver()
        async with Runtime(log, [driver]) as runtime:
            await runtime.send(session_id, "one")
            await runtime.supervisor(session_id).until(lambda conductor: conductor.book.queue.gate_reason or None)
            assert "secret" in runtime.supervisor(session_id).book.queue.gate_reason
            assert driver.puppets == []

    run(story())


def test_an_agent_is_not_run_without_the_variables_that_it_was_opened_with() -> None:
    """With the HOME or the key of whoever runs us it would act as somebody else."""

    async def story() -> None:
        log = MemoryLog()
        spec = AgentSpec(agent="puppet", driver="puppet", environment={"HOME": "/somewhere/else"})
        async with Runtime(log, [PuppetDriver()]) as runtime:
            session_id = await runtime.open_session(spec)
        driver = PuppetDriver()
        async with Runtime(log, [driver]) as runtime:
            await runtime.send(session_id, "one")
            await runtime.supervisor(session_id).until(lambda conductor: conductor.book.queue.gate_reason or None)
            assert "HOME" in runtime.supervisor(session_id).book.queue.gate_reason
            assert driver.puppets == []

    run(story())


def test_an_adopted_agent_with_prompts_behind_its_turn_is_the_only_one() -> None:
    async def story() -> None:
        driver, log = PaneDriver(), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        await first.send(session_id, "one")
        await soon(first_prompt(driver))
        await first.send(session_id, "two")
        await die(first)
        async with Runtime(log, [driver], policy=RunPolicy()) as runtime:
            driver.latest.say(TextArrived(text="at it"), done(), BecameReady())
            await soon(first_prompt(driver, 2))
            assert len(driver.puppets) == 1
            status: Status = runtime.status(session_id)
            assert status.activity is Activity.WORKING

    run(story())


def test_an_adopted_agent_takes_a_slot() -> None:
    async def story() -> None:
        driver, log = PaneDriver(), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        adopted, other = [await first.open_session(SPEC) for _ in range(2)]
        await first.send(adopted, "one")
        await soon(first_prompt(driver))
        await die(first)
        async with Runtime(log, [driver], limits=PoolLimits(total=1)) as runtime:
            await runtime.send(other, "two")
            await soon(lambda: True if dict(runtime._slots.pool.waiting) == {other: "puppet"} else None)
            await runtime.stop(adopted)
            await soon(lambda: True if len(driver.puppets) == 2 else None)

    run(story())
