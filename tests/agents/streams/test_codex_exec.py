"""The exec driver against a program that talks like `codex exec --json`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.agents.observations import BecameReady, SessionNamed, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec, Decision, NotDelivered, StaleResume
from interlock.agents.streams.codex.exec import CodexExec, CodexExecDriver, exec_argv
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from tests.agents.streams.codex_talk import Talk, listening
from tests.agents.streams.fake_codex import DEAD, THREAD

FAKE = str(Path(__file__).with_name("fake_codex.py"))


def spec(resume: str = "", model: str = "", options: dict[str, Json] | None = None) -> AgentSpec:
    argv = (sys.executable, FAKE)
    return AgentSpec(agent="codex", driver="codex-exec", argv=argv, resume=resume, model=model, options=options or {})


@asynccontextmanager
async def running(resume: str = "") -> AsyncIterator[Talk]:
    agent = await CodexExecDriver().spawn(spec(resume), SpawnId(f"exec-test-{os.getpid()}"))
    async with listening(agent) as talk:
        yield talk


def test_the_prompt_comes_whole_by_standard_input() -> None:
    prompt = "-- not an option, æøå 🫐\n" + "long " * 100_000

    async def story() -> None:
        async with running() as talk:
            await talk.until(BecameReady)
            assert await talk.say(prompt) is DeliveryStage.TYPED
            assert (await talk.until(SessionNamed)).native_session_id == THREAD
            ended = await talk.until(TurnEnded)
            assert json.loads(ended.text or "")["prompt"] == prompt
            assert (await talk.over()).code == 0
            assert all("not an option" not in word for word in talk.agent.argv)

    asyncio.run(story())


def test_a_second_prompt_is_not_delivered() -> None:
    async def story() -> None:
        async with running() as talk:
            await talk.say("one")
            with pytest.raises(NotDelivered):
                await talk.say("two")
            await talk.over()

    asyncio.run(story())


def test_a_death_in_mid_line_ends_the_turn_in_silence() -> None:
    async def story() -> None:
        async with running() as talk:
            assert (await talk.turn("die")).ending is TurnEnding.SILENT
            assert (await talk.over()).code == 9

    asyncio.run(story())


def test_an_error_that_nothing_follows_ends_the_turn() -> None:
    async def story() -> None:
        async with running() as talk:
            ended = await talk.turn("error")
            assert (ended.ending, ended.error_message) == (TurnEnding.ERROR, "the disk is full")
            await talk.over()

    asyncio.run(story())


def test_an_unknown_session_is_said_to_be_stale_at_the_exit() -> None:
    async def story() -> None:
        async with running(DEAD) as talk:
            await talk.say("hello")
            assert (await talk.over()).is_stale_resume

    asyncio.run(story())


def test_a_process_that_got_no_prompt_ends_no_turn() -> None:
    async def story() -> None:
        async with running() as talk:
            await talk.until(BecameReady)
            assert isinstance(talk.agent, CodexExec)
            talk.agent._child.end_input()  # as a stop does: some take that for an empty prompt, and answer it
            await talk.over()
        assert [seen for seen in talk.heard if isinstance(seen, TurnEnded)] == []

    asyncio.run(story())


def test_it_can_neither_be_interrupted_nor_asked() -> None:
    async def story() -> None:
        async with running() as talk:
            with pytest.raises(NotDelivered):
                await talk.agent.interrupt()
            with pytest.raises(NotDelivered):
                await talk.agent.decide(Decision(request_id="0", is_allowed=True))

    asyncio.run(story())


def test_what_is_started_is_told() -> None:
    made = exec_argv(spec(resume=THREAD, model="m-1", options={"sandbox": "read-only"}))[2:]
    flags = ("exec", "--json", "--skip-git-repo-check")
    assert made == (*flags, "--model", "m-1", "--sandbox", "read-only", "resume", THREAD, "-")


def test_what_is_no_session_id_is_stale_before_anything_starts() -> None:
    with pytest.raises(StaleResume):
        exec_argv(spec(resume="some name"))
