"""The driver of opencode, with a small server in its place."""

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
    ChannelLost,
    Exited,
    MessageEnded,
    Observation,
    SessionNamed,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import AgentSpec, Decision, NotDelivered, StaleResume
from interlock.agents.streams.opencode.driver import OpencodeDriver, opencode_argv
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from tests.agents.acp.driving import Session, prompt
from tests.agents.processes.trees import new_spawn_id

FAKE = Path(__file__).parent / "opencode_fake.py"
LIMIT_SECONDS = 100.0


def spec(*more: str, resume: str = "") -> AgentSpec:
    return AgentSpec(agent="oc", driver="opencode", argv=(sys.executable, "-S", "-E", str(FAKE), *more), resume=resume)


def run(act: Callable[[Session], Awaitable[None]], *, resume: str = "") -> list[Observation]:
    async def whole() -> list[Observation]:
        async with asyncio.timeout(LIMIT_SECONDS):
            session = Session(await OpencodeDriver().spawn(spec(resume=resume), new_spawn_id()))
            try:
                await act(session)
            finally:
                seen = await session.end()
            assert isinstance(seen[-1], Exited)
            return seen

    return asyncio.run(whole())


@pytest.mark.parametrize("resume", ["", "ses_1"])
def test_a_session_is_opened_or_found_and_answers(resume: str) -> None:
    async def act(session: Session) -> None:
        await session.until(BecameReady)
        assert session.seen == [SessionNamed(native_session_id="ses_1", version="9"), BecameReady()]
        assert await session.handle.submit(prompt("hello")) is DeliveryStage.ACCEPTED
        seen = await session.rest()
        assert MessageEnded(text="Hello", message_id="prt_1") in seen
        assert seen[-1] == TurnEnded(ending=TurnEnding.NATURAL)
        assert (await session.turn("hello"))[-1] == TurnEnded(ending=TurnEnding.NATURAL)

    run(act, resume=resume)


def test_a_prompt_that_the_server_refuses_is_not_delivered_and_the_next_one_is() -> None:
    async def act(session: Session) -> None:
        with pytest.raises(NotDelivered, match="no such model"):
            await session.handle.submit(prompt("refuse"))
        assert (await session.turn("hello"))[-1] == TurnEnded(ending=TurnEnding.NATURAL)

    run(act)


@pytest.mark.parametrize(("is_allowed", "chosen"), [(True, "once"), (False, "reject")])
def test_a_question_is_told_with_its_call_and_answered_by_the_server_s_own_word(is_allowed: bool, chosen: str) -> None:
    async def act(session: Session) -> None:
        await session.begin("ask")
        await session.until(ApprovalAsked)
        with pytest.raises(UsageError):
            await session.handle.decide(Decision(request_id="per_1", is_allowed=is_allowed, option_id="other"))
        await session.handle.decide(Decision(request_id="per_1", is_allowed=is_allowed))
        seen = await session.rest()
        assert MessageEnded(text=f"chose {chosen}", message_id="prt_1") in seen
        assert ApprovalGone(request_id="per_1") in seen
        with pytest.raises(NotDelivered):
            await session.handle.decide(Decision(request_id="per_1", is_allowed=is_allowed))

    run(act)


def test_an_abort_ends_the_turn_and_takes_its_question_along() -> None:
    async def act(session: Session) -> None:
        with pytest.raises(NotDelivered):
            await session.handle.interrupt()
        await session.begin("ask")
        await session.until(ApprovalAsked)
        with pytest.raises(NotDelivered):
            await session.handle.submit(prompt("hello"))
        await session.handle.interrupt()
        seen = await session.rest()
        assert seen[-2:] == [
            ApprovalGone(request_id="per_1", is_answered=False),
            TurnEnded(ending=TurnEnding.INTERRUPTED),
        ]

    run(act)


def test_a_death_in_mid_turn_ends_it_without_a_word() -> None:
    async def act(session: Session) -> None:
        await session.begin("die")
        await session.until(Exited)

    *_, ended, exited = run(act)
    assert ended == TurnEnded(ending=TurnEnding.SILENT)
    assert exited == Exited(code=3)


def test_a_stream_that_ends_while_the_server_lives_is_a_lost_channel() -> None:
    async def act(session: Session) -> None:
        await session.begin("lose")
        await session.until(ChannelLost)

    run(act)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        (spec(resume="ses_2"), StaleResume, "knows no session 'ses_2'"),
        (spec("early"), PeerFault, "no configuration"),
    ],
)
def test_a_spawn_that_fails_says_why(how: AgentSpec, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        asyncio.run(OpencodeDriver().spawn(how, new_spawn_id()))


def test_the_server_is_started_on_loopback_with_the_port_that_was_chosen() -> None:
    plain = AgentSpec(agent="oc", driver="opencode")
    assert opencode_argv(plain, 7) == ("opencode", "serve", "--hostname", "127.0.0.1", "--port", "7")
    with pytest.raises(UsageError, match="provider/model"):
        opencode_argv(AgentSpec(agent="oc", driver="opencode", model="m"), 7)
    with pytest.raises(UsageError, match="colour"):
        opencode_argv(AgentSpec(agent="oc", driver="opencode", options={"colour": "red"}), 7)
