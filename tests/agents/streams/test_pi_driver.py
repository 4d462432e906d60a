"""The driver of pi, with a small program in its place."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    Exited,
    MessageEnded,
    Observation,
    PromptReached,
    SessionNamed,
    TextArrived,
    TextVoided,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import AgentSpec, Decision, DeliveryUnknown, NotDelivered
from interlock.agents.streams.pi.driver import PiDriver
from interlock.vocabulary.events.audit import DeliveryStage
from tests.agents.acp.driving import Session, prompt
from tests.agents.processes.trees import new_spawn_id

FAKE = Path(__file__).parent / "pi_fake.py"
LIMIT_SECONDS = 100.0


def run(act: Callable[[Session], Awaitable[None]], *, resume: str = "") -> list[Observation]:
    async def whole() -> list[Observation]:
        argv = (sys.executable, "-S", "-E", str(FAKE))
        async with asyncio.timeout(LIMIT_SECONDS):
            spec = AgentSpec(agent="pi", driver="pi", argv=argv, resume=resume)
            session = Session(await PiDriver().spawn(spec, new_spawn_id()))
            try:
                await act(session)
            finally:
                seen = await session.end()
            assert isinstance(seen[-1], Exited)
            return seen

    return asyncio.run(whole())


def test_the_session_is_named_and_takes_prompts_one_after_the_other() -> None:
    async def act(session: Session) -> None:
        await session.until(BecameReady)
        assert session.seen == [SessionNamed(native_session_id="s1"), BecameReady()]
        assert await session.handle.submit(prompt("hello")) is DeliveryStage.ACCEPTED
        await session.rest()
        seen = await session.turn("hello")
        assert MessageEnded(text="Hello") in seen
        assert seen[-1] == TurnEnded(ending=TurnEnding.NATURAL)

    run(act)


def test_a_prompt_that_the_agent_refuses_is_not_delivered_and_the_next_one_is() -> None:
    async def act(session: Session) -> None:
        with pytest.raises(NotDelivered, match="no key"):
            await session.handle.submit(prompt("refuse"))
        assert (await session.turn("hello"))[-1] == TurnEnded(ending=TurnEnding.NATURAL)

    run(act)


def test_an_abort_ends_the_turn_and_without_a_turn_there_is_none() -> None:
    async def act(session: Session) -> None:
        with pytest.raises(NotDelivered):
            await session.handle.interrupt()
        await session.begin("wait")
        with pytest.raises(NotDelivered):
            await session.handle.submit(prompt("hello"))
        await session.handle.interrupt()
        assert (await session.rest())[-1] == TurnEnded(ending=TurnEnding.INTERRUPTED)

    run(act)


def test_a_failed_run_ends_the_turn_once_the_agent_is_at_rest_and_a_retried_one_does_not() -> None:
    async def act(session: Session) -> None:
        ended = (await session.turn("fail"))[-1]
        assert isinstance(ended, TurnEnded)
        assert (ended.ending, ended.error_message) == (TurnEnding.ERROR, "500 boom")
        seen = await session.turn("retry")
        assert [one.ending for one in seen if isinstance(one, TurnEnded)] == [TurnEnding.NATURAL]
        assert [one for one in seen if isinstance(one, TextVoided)]

    run(act)


def test_a_question_of_an_extension_is_answered_once() -> None:
    async def act(session: Session) -> None:
        await session.begin("ask")
        await session.until(ApprovalAsked)
        await session.handle.decide(Decision(request_id="u1", is_allowed=True))
        with pytest.raises(NotDelivered):
            await session.handle.decide(Decision(request_id="u1", is_allowed=True))
        seen = await session.rest()
        assert TextArrived(text="yes") in seen
        assert ApprovalGone(request_id="u1") in seen

    run(act)


def test_a_death_in_mid_turn_ends_it_without_a_word() -> None:
    async def act(session: Session) -> None:
        await session.begin("die")
        await session.until(Exited)

    *_, ended, exited = run(act)
    assert ended == TurnEnded(ending=TurnEnding.SILENT)
    assert exited == Exited(code=3)


def test_a_death_before_the_agent_says_that_it_has_the_prompt_leaves_that_unknown() -> None:
    async def act(session: Session) -> None:
        with pytest.raises(DeliveryUnknown):
            await session.handle.submit(prompt("early"))

    seen = run(act)
    assert not [one for one in seen if isinstance(one, PromptReached)]


def test_a_session_that_is_not_known_any_more_shows_at_the_exit() -> None:
    async def act(session: Session) -> None:
        await session.until(Exited)

    exited = run(act, resume="gone")[-1]
    assert isinstance(exited, Exited)
    assert exited.is_stale_resume
