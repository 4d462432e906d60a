"""Calls beside the loop of a supervisor, and hooks: what goes wrong in them is told, and nothing stands still."""

from __future__ import annotations

import asyncio

import pytest

from interlock.agents.evidence.hooks import HookHeard
from interlock.agents.observations import BecameReady
from interlock.agents.port import AgentSpec
from interlock.log.memory import MemoryLog
from interlock.runtime.policy import RunPolicy
from interlock.runtime.runtime import EventWatcher, Runtime
from interlock.runtime.session.agent.calls import AgentCalls
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session.supervisor import SessionFailed
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.runtime.test_runtime import SPEC, first_prompt


class Peculiar(Puppet):
    """An agent whose driver has a fault of its own."""

    async def is_attended(self) -> bool:
        raise RuntimeError("the terminal speaks in riddles")

    def hear_hook(self, heard: HookHeard) -> None:
        raise KeyError(heard.event)


class PeculiarDriver(PuppetDriver):
    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        self.puppets.append(puppet := Peculiar(spec, spawn_id, self.capabilities))
        puppet.say(BecameReady())
        return puppet


async def next_anomaly(watcher: EventWatcher) -> tuple[str, str]:
    async for event in watcher:
        if isinstance(event.data, Anomaly):
            return event.data.kind, event.data.message
    raise AssertionError("the runtime ended")


def has_agent(machine: SessionMachine) -> bool | None:
    return True if machine.agent is not None and machine.agent.is_ready else None


def test_who_cannot_tell_whether_a_person_is_there_says_so_and_ends_nothing() -> None:
    async def story() -> None:
        driver, policy = PeculiarDriver(), RunPolicy(idle_ttl_seconds=0.01)
        async with Runtime(MemoryLog(), [driver], policy=policy) as runtime, runtime.watch() as watcher:
            await runtime.start(await runtime.open_session(SPEC))
            assert await next_anomaly(watcher) == ("attendance_unknown", "the terminal speaks in riddles")
            assert not driver.latest.stops

    run(story())


def test_a_hook_that_its_agent_fails_over_is_told_and_the_next_one_is_heard() -> None:
    async def story() -> None:
        driver = PeculiarDriver()
        async with Runtime(MemoryLog(), [driver]) as runtime, runtime.watch() as watcher:
            session_id = await runtime.open_session(SPEC)
            await runtime.start(session_id)
            await runtime.until(session_id, has_agent)
            heard = HookHeard(driver.latest.spawn_id, {"hook_event_name": "Stop"}, 0.0)
            for _ in range(2):
                assert runtime.supervisor(session_id).agent.hear_hook(heard)
                assert await next_anomaly(watcher) == ("hook_failed", "KeyError: 'Stop'")

    run(story())


def test_a_call_that_fails_itself_ends_the_supervision_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the machine would wait for its answer, and the error be known to nobody."""

    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "hello")
            await soon(first_prompt(driver))

            async def fail(*_: object) -> None:
                raise RuntimeError("broken on purpose")

            monkeypatch.setattr(AgentCalls, "_interrupt", fail)
            await runtime.cancel(session_id)
            supervisor = runtime.supervisor(session_id)
            await soon(lambda: supervisor.is_over or None)
            assert (supervisor.status.activity, supervisor.status.attention) == (Activity.UNKNOWN, Attention.ERROR)
            with pytest.raises(SessionFailed, match="broken on purpose"):
                await runtime.send(session_id, "are you there?")
            await soon(lambda: driver.latest.stops or None)

    run(story())


def test_a_start_that_fails_itself_ends_the_supervision_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async def fail(*_: object) -> None:
            raise RuntimeError("broken on purpose")

        monkeypatch.setattr(AgentCalls, "_spawn", fail)
        async with Runtime(MemoryLog(), [PuppetDriver()]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "hello")
            supervisor = runtime.supervisor(session_id)
            await soon(lambda: supervisor.is_over or None)
            with pytest.raises(SessionFailed, match="broken on purpose"):
                await runtime.send(session_id, "are you there?")

    run(story())


def test_a_look_that_raises_ends_the_wait_of_its_caller_only() -> None:
    async def story() -> None:
        driver = PuppetDriver()
        async with Runtime(MemoryLog(), [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            looks = 0

            def look(_: SessionMachine) -> None:
                nonlocal looks
                looks += 1
                if looks > 1:
                    raise ValueError("not what was expected")

            failing: asyncio.Task[object] = asyncio.create_task(runtime.until(session_id, look))
            waiting = asyncio.create_task(runtime.until(session_id, has_agent))
            await asyncio.sleep(0)
            await runtime.start(session_id)
            with pytest.raises(ValueError, match="not what was expected"):
                await failing
            assert await waiting
            assert not runtime.supervisor(session_id).is_over

    run(story())
