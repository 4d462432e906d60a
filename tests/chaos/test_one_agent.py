"""A session has one agent: none beside one that was adopted, and none before the last one is swept up."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.agents.observations import BecameReady, Exited, TurnEnded, TurnEnding
from interlock.agents.pool.pool import PoolLimits
from interlock.agents.port import AgentSpec, Capabilities, StopReport
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.ids import SessionId, SpawnId
from interlock.vocabulary.states import DriverKind, TurnState
from tests.contract.harness import run
from tests.runtime.conducting import soon

SPEC: Final = AgentSpec(agent="puppet", driver="puppet")
OUTLIVES: Final = Capabilities(owns_text=False, outlives_runtime=True)
DONE: Final = TurnEnded(ending=TurnEnding.NATURAL, text="done")


async def kinds_of(log: MemoryLog, session_id: SessionId) -> list[ProcessEventKind]:
    events = (await log.read(session_id)).events
    return [event.data.kind for event in events if isinstance(event.data, ProcessEvent)]


def test_beside_an_adopted_agent_none_is_started_for_the_prompts_that_wait() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(OUTLIVES, kind=DriverKind.TERMINAL, is_ready_at_once=False), MemoryLog()
        runtime = Runtime(log, [driver])
        await runtime.__aenter__()
        session_id = await runtime.open_session(SPEC)
        prompt_id = await runtime.send(session_id, "one")
        await soon(lambda: runtime.supervisor(session_id).machine.agent is not None)
        await runtime.shutdown()
        async with Runtime(log, [driver]) as again:
            driver.latest.say(BecameReady())
            await soon(lambda: bool(driver.latest.prompts))
            driver.latest.say(DONE)
            assert (await again.wait_turn(session_id, prompt_id)).state is TurnState.COMPLETED
        assert (await kinds_of(log, session_id)).count(ProcessEventKind.SPAWN_REQUESTED) == 1

    run(story())


class SlowToStop(Puppet):
    """What it started takes time to end."""

    def __init__(self, spec: AgentSpec, spawn_id: SpawnId, capabilities: Capabilities) -> None:
        super().__init__(spec, spawn_id, capabilities)
        self.swept = asyncio.Event()

    async def stop(self) -> StopReport:
        await self.swept.wait()
        return await super().stop()


class SlowDriver(PuppetDriver):
    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        puppet = SlowToStop(spec, spawn_id, self.capabilities)
        self.puppets.append(puppet)
        puppet.say(BecameReady())
        return puppet


def test_the_next_agent_is_not_started_before_the_last_one_is_swept_up_and_has_a_slot_of_its_own() -> None:
    async def story() -> None:
        driver, log = SlowDriver(), MemoryLog()
        async with Runtime(log, [driver], limits=PoolLimits(total=1)) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.start(session_id)
            conductor = runtime.supervisor(session_id).machine
            await soon(lambda: conductor.agent is not None)
            first = driver.latest
            assert isinstance(first, SlowToStop)
            first.say(Exited(code=0))
            await soon(lambda: conductor.agent is None)
            await runtime.start(session_id)
            await runtime.set_gate(session_id, is_open=True)  # whatever the start led to has been begun by now
            await asyncio.sleep(0)
            assert len(driver.puppets) == 1
            first.swept.set()
            await soon(lambda: len(driver.puppets) == 2)
            second = driver.latest
            assert isinstance(second, SlowToStop)
            assert list(runtime._slots.pool.held) == [session_id]
            second.swept.set()

    run(story())
