"""A prompt that holds a secret: the agent gets it whole, the log does not, and a restart does not send stars."""

from __future__ import annotations

import asyncio

import pytest

from interlock.agents.observations import TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import PromptId
from tests.server.socket_harness import soon

SECRET = "hunter-2-of-many"
SPEC = AgentSpec(agent="puppet", driver="puppet", environment={"PASSWORD": SECRET})
PROMPT = PromptId("prm_1")


def test_the_agent_gets_the_prompt_whole() -> None:
    async def story() -> None:
        puppets = PuppetDriver()
        async with Runtime(MemoryLog(), [puppets]) as runtime:
            session = await runtime.open_session(SPEC)
            await runtime.send(session, f"use {SECRET}")
            await soon(lambda: puppets.puppets and puppets.puppets[0].prompts)
            assert puppets.puppets[0].prompts[0].text == f"use {SECRET}"

    asyncio.run(story())


def test_after_a_restart_a_queued_prompt_whose_secret_is_lost_holds_the_queue() -> None:
    async def story() -> None:
        log, puppets = MemoryLog(), PuppetDriver()
        async with Runtime(log, [puppets]) as runtime:
            session = await runtime.open_session(SPEC)
            await runtime.set_gate(session, is_open=False)
            await runtime.send(session, f"use {SECRET}", prompt_id=PROMPT)
            await runtime.set_gate(session, is_open=False, reason="later")
        assert SECRET not in str((await log.read(session)).events)
        async with Runtime(log, [puppets], specs=lambda *_: SPEC) as runtime:
            queue = runtime.supervisor(session).book.queue
            assert await runtime.send(session, f"use {SECRET}", prompt_id=PROMPT) == PROMPT, "the same prompt"
            with pytest.raises(UsageError, match="other words"):
                await runtime.send(session, f"say {SECRET}", prompt_id=PROMPT)
            with pytest.raises(UsageError, match="held a secret"):
                await runtime.set_gate(session, is_open=True)
            assert not queue.is_open
            assert not puppets.puppets
            await runtime.edit(session, PROMPT, f"use {SECRET}")
            await runtime.set_gate(session, is_open=True)
            await soon(lambda: puppets.puppets and puppets.puppets[-1].prompts)
            assert puppets.puppets[-1].prompts[0].text == f"use {SECRET}"

    asyncio.run(story())


def test_a_restart_closes_the_gate_for_such_a_prompt_and_says_why() -> None:
    async def story() -> None:
        log, puppets = MemoryLog(), PuppetDriver(is_ready_at_once=False)
        async with Runtime(log, [puppets]) as runtime:
            session = await runtime.open_session(SPEC)
            await runtime.send(session, f"use {SECRET}", prompt_id=PROMPT)
        async with Runtime(log, [puppets], specs=lambda *_: SPEC) as runtime:
            queue = runtime.supervisor(session).book.queue
            assert not queue.is_open
            assert "held a secret" in queue.gate_reason

    asyncio.run(story())


def test_what_an_agent_says_after_a_restart_is_masked_as_before() -> None:
    async def story() -> None:
        log, puppets = MemoryLog(), PuppetDriver()
        async with Runtime(log, [puppets]) as runtime:
            session = await runtime.open_session(SPEC)
        async with Runtime(log, [puppets], specs=lambda *_: SPEC) as runtime:
            prompt = await runtime.send(session, "say it")
            await soon(lambda: puppets.puppets and puppets.latest.prompts)
            puppets.latest.say(TurnEnded(ending=TurnEnding.NATURAL, text=f"it is {SECRET}"))
            await runtime.wait_turn(session, prompt)
        events = str((await log.read(session)).events)
        assert ("it is" in events, SECRET in events) == (True, False)

    asyncio.run(story())
