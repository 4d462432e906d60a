"""A disk that is full: sessions wait as long as it lasts, say so, refuse what could not be recorded, and go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from interlock.agents.observations import TextArrived
from interlock.log.memory import MemoryLog
from interlock.log.port import LogUnavailable
from interlock.runtime.runtime import Runtime
from interlock.runtime.session import supervisor
from interlock.runtime.session.supervisor import SessionFailed
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity, Attention, TurnState
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.runtime.test_runtime import SPEC, done, events_of, first_prompt


class Disk(MemoryLog):
    """Takes nothing while it is full, or damaged."""

    is_full = False
    may_pass = True

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        if self.is_full:
            raise LogUnavailable("the disk is full", next_action="make room", may_pass=self.may_pass)
        return await super().append(session_id, events, expected_version=expected_version)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minutes are over at once."""
    monkeypatch.setattr(supervisor, "_LOG_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(supervisor, "_LOG_TOLD_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(supervisor, "_LOG_RETRY_SECONDS", 0.01)


async def said(runtime: Runtime, session_id: SessionId) -> Status:
    """What it says, once it says that the log takes nothing."""

    def told() -> Status | None:
        status = runtime.status(session_id)
        return status if any(one.rule == "log_unavailable" for one in status.evidence) else None

    return await soon(told)


def prompts(events: Sequence[Event]) -> list[str]:
    return [one.data.text for one in events if isinstance(one.data, UserMessage)]


def test_a_session_waits_as_long_as_it_lasts_says_so_and_goes_on() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Disk()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "hello")
            puppet = await soon(first_prompt(driver))
            before = runtime.status(session_id)
            log.is_full = True
            puppet.say(TextArrived(text="hi"), done("hi"))
            status = await said(runtime, session_id)
            assert (status.activity, status.attention) == (Activity.UNKNOWN, Attention.ERROR)
            assert "the disk is full; make room" in status.evidence[0].where
            assert before.attention is Attention.NONE
            log.is_full = False
            assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.COMPLETED
            assert runtime.status(session_id).activity is Activity.QUIET
            assert runtime.status(session_id).attention is Attention.NONE

    run(story())


def test_what_was_shown_before_is_shown_again_where_nothing_else_is() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Disk()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            unknown = runtime.status(session_id)
            before = await soon(lambda: found if (found := runtime.status(session_id)) != unknown else None)
            log.is_full = True
            with pytest.raises(LogUnavailable):
                await runtime.set_gate(session_id, is_open=False, reason="later", decided_by="me")
            await said(runtime, session_id)
            log.is_full = False
            await soon(lambda: True if runtime.status(session_id) == before else None)

    run(story())


def test_a_command_that_could_not_be_recorded_is_refused_and_not_done_later() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Disk()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            log.is_full = True
            with pytest.raises(LogUnavailable, match="the command is kept and recorded when it does: the disk is full"):
                await runtime.send(session_id, "first")
            with pytest.raises(LogUnavailable, match="the log takes nothing, this was not taken: the disk is full"):
                await runtime.send(session_id, "second")
            log.is_full = False
            (await soon(first_prompt(driver))).say(done())
            third = await runtime.send(session_id, "third")
            (await soon(first_prompt(driver, 2))).say(done())
            await runtime.wait_turn(session_id, third)
        assert prompts(await events_of(log, session_id)) == ["first", "third"]

    run(story())


def test_commands_that_came_together_are_kept_or_dropped_as_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_LOG_TOLD_AFTER_SECONDS", 0.2)  # so that others queue up behind the first

    async def story() -> None:
        driver, log = PuppetDriver(), Disk()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            log.is_full = True
            given = [asyncio.create_task(runtime.send(session_id, text)) for text in ("a", "b", "c")]
            told = await asyncio.gather(*given, return_exceptions=True)
            assert all(isinstance(one, LogUnavailable) for one in told)
            kept = [text for text, one in zip("abc", told, strict=True) if "is kept" in str(one)]
            log.is_full = False
            for count in range(1, len(kept) + 1):
                (await soon(first_prompt(driver, count))).say(done())
            last = await runtime.send(session_id, "last")
            (await soon(first_prompt(driver, len(kept) + 1))).say(done())
            await runtime.wait_turn(session_id, last)
        assert prompts(await events_of(log, session_id)) == [*kept, "last"]

    run(story())


def test_an_agent_can_be_stopped_while_the_disk_is_full() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Disk()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "fill the disk")
            puppet = await soon(first_prompt(driver))
            log.is_full = True
            puppet.say(TextArrived(text="hi"))
            with pytest.raises(LogUnavailable, match="is kept"):
                await runtime.stop(session_id)
            assert puppet.stops >= 1
            log.is_full = False
            record = await runtime.wait_turn(session_id, prompt_id)
            assert record.state is TurnState.INTERRUPTED

    run(story())


def test_a_runtime_closes_while_the_disk_is_full_and_leaves_no_agent() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Disk()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "hello")
            puppet = await soon(first_prompt(driver))
            log.is_full = True
        assert puppet.stops >= 1

    run(story())


def test_a_log_that_does_not_come_back_by_itself_ends_the_session_and_is_told() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), Disk()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            log.is_full, log.may_pass = True, False
            with pytest.raises((SessionFailed, LogUnavailable)):
                await runtime.send(session_id, "hello")
            rules = [one.rule for one in runtime.status(session_id).evidence]
            assert rules == ["supervisor_failed"]

    run(story())
