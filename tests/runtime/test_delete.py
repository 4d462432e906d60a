"""Putting a session away, and telling whether a cancel reached the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock.agents.observations import TextArrived, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec, NotDelivered
from interlock.lifecycle.turns import turn_states
from interlock.log.memory import MemoryLog
from interlock.runtime.policy import RunPolicy
from interlock.runtime.runtime import EventWatcher, InterruptReport, Runtime
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.runtime.session_fold import SessionFold
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import PromptState, TurnState
from tests.contract.harness import run
from tests.runtime.conducting import soon

SPEC = AgentSpec(agent="puppet", driver="puppet")
PATIENT = RunPolicy(interrupt_seconds=60.0)


async def working(runtime: Runtime, driver: PuppetDriver) -> tuple[SessionId, TurnId, Puppet]:
    session_id = await runtime.open_session(SPEC)
    await runtime.send(session_id, "one")
    puppet = await soon(lambda: next((one for one in driver.puppets if one.prompts), None))
    return session_id, puppet.prompts[0].turn_id, puppet


async def book_of(log: MemoryLog, session_id: SessionId) -> SessionFold:
    return SessionFold.of(session_id, (await log.read(session_id)).events)


def test_a_deleted_session_is_over_and_its_log_stays() -> None:
    async def story() -> None:
        log, driver = MemoryLog(), PuppetDriver()
        async with Runtime(log, [driver]) as runtime, runtime.watch() as watcher:
            session_id, _, puppet = await working(runtime, driver)
            waiting = await runtime.send(session_id, "two")
            puppet.say(TextArrived(text="half"))
            await runtime.delete(session_id, decided_by="ann")
            assert puppet.is_gone
            assert session_id not in runtime.sessions
            with pytest.raises(UsageError, match="no open session"):
                await runtime.send(session_id, "three")
            published = [event async for event in _until_deleted(watcher)]
        events = (await log.read(session_id)).events
        book = await book_of(log, session_id)
        assert (book.is_deleted, book.queue.prompts[waiting].state) == (True, PromptState.REMOVED)
        assert [one.state for one in turn_states(events)] == [TurnState.INTERRUPTED]
        assert (events[-1].type, events[-1].turn_id) == ("session_deleted", None)
        assert published[-1].seq == events[-1].seq

    run(story())


async def _until_deleted(watcher: EventWatcher) -> AsyncIterator[Event]:
    async for event in watcher:
        yield event
        if event.type == "session_deleted":
            return


def test_a_deleted_session_is_not_taken_up_again() -> None:
    async def story() -> None:
        log, driver = MemoryLog(), PuppetDriver()
        async with Runtime(log, [driver]) as runtime:
            session_id, _, _ = await working(runtime, driver)
            await runtime.delete(session_id)
        async with Runtime(log, [driver]) as again:
            assert again.sessions == ()
            assert again.recovered == ()
            assert await again.reopen(session_id) is None
            assert again.sessions == ()

    run(story())


def test_a_cancel_tells_whether_the_agent_got_it() -> None:
    async def story() -> None:
        driver = PuppetDriver()
        async with Runtime(MemoryLog(), [driver], policy=PATIENT) as runtime:
            session_id, turn_id, puppet = await working(runtime, driver)
            await runtime.cancel(session_id, turn_id)
            assert await runtime.wait_interrupt(session_id, turn_id, 5.0) == InterruptReport(is_delivered=True)
            assert puppet.interrupts == 1
            assert runtime.supervisor(session_id).book.turn is not None  # delivered is not ended

    run(story())


def test_a_cancel_that_does_not_arrive_says_so_and_the_turn_still_ends() -> None:
    async def story() -> None:
        driver = PuppetDriver()
        async with Runtime(MemoryLog(), [driver], policy=PATIENT) as runtime:
            session_id, turn_id, puppet = await working(runtime, driver)
            refusals: list[int] = []

            async def refuse() -> None:
                refusals.append(1)
                raise NotDelivered("the pipe is full")

            puppet.interrupt = refuse  # type: ignore[method-assign]
            await runtime.cancel(session_id, turn_id)
            await soon(lambda: refusals or None)
            report = await runtime.wait_interrupt(session_id, turn_id, 0.2)
            assert (report.is_delivered, report.problem) == (False, "the pipe is full")
            puppet.say(TurnEnded(ending=TurnEnding.NATURAL))
            assert (await runtime.wait_interrupt(session_id, turn_id, 5.0)).is_delivered

    run(story())


def test_a_cancel_of_a_turn_that_ended_meanwhile_needs_no_delivery() -> None:
    async def story() -> None:
        driver = PuppetDriver()
        async with Runtime(MemoryLog(), [driver]) as runtime:
            session_id, turn_id, puppet = await working(runtime, driver)
            puppet.say(TextArrived(text="all"), TurnEnded(ending=TurnEnding.NATURAL))
            await soon(lambda: True if runtime.supervisor(session_id).book.turn is None else None)
            assert (await runtime.wait_interrupt(session_id, turn_id, 5.0)).is_delivered

    run(story())


def test_two_who_delete_or_take_up_at_once_do_it_once() -> None:
    async def story() -> None:
        log, driver = MemoryLog(), PuppetDriver()
        async with Runtime(log, [driver]) as runtime:
            session_id, _, _ = await working(runtime, driver)
            both = (runtime.delete(session_id), runtime.delete(session_id))
            outcomes = await asyncio.gather(*both, return_exceptions=True)
            assert [type(one) for one in outcomes] == [type(None), UsageError]
        kinds = [event.type for event in (await log.read(session_id)).events]
        assert kinds.count("session_deleted") == 1

    run(story())


@pytest.mark.parametrize("text", ["nul \x00", "half a pair \ud800"])
def test_what_the_log_could_not_keep_is_refused_and_costs_nothing_else(text: str) -> None:
    async def story() -> None:
        driver = PuppetDriver()
        async with Runtime(MemoryLog(), [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            with pytest.raises(UsageError, match="could not be kept"):
                await runtime.send(session_id, text)
            with pytest.raises(UsageError, match="could not be kept"):
                await runtime.decide(
                    session_id, AnswerQuestion(approval_id="a", is_allowed=True, data={"deep": [text]})
                )
            await runtime.send(session_id, "plain")
            await soon(lambda: next((one for one in driver.puppets if one.prompts), None))

    run(story())
