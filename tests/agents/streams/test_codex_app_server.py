"""The app-server driver against a program that talks like Codex and misbehaves on request."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from interlock.agents.observations import (
    BecameReady,
    Exited,
    MessageEnded,
    PromptReached,
    SessionNamed,
    TextArrived,
    Traced,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.port import AgentSpec, Decision, NotDelivered, StaleResume, StopReport
from interlock.agents.processes.census import Census
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.lines import Line
from interlock.agents.streams.codex.app_server import _MAX_WAITING, CodexAppServer, CodexAppServerDriver
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from tests.agents.streams.codex_talk import Talk, listening
from tests.agents.streams.fake_codex import DEAD, THREAD
from tests.held_time import clock, run_held

FAKE = str(Path(__file__).with_name("fake_codex.py"))
SPAWN = SpawnId(f"codex-test-{os.getpid()}")


def spec(resume: str = "", mode: str = "", options: dict[str, Json] | None = None) -> AgentSpec:
    environment = {"FAKE_CODEX": mode, "PYTHONPATH": ""}
    return AgentSpec(
        agent="codex",
        driver="codex-app-server",
        argv=(sys.executable, FAKE),
        environment=environment,
        resume=resume,
        options=options or {},
    )


@asynccontextmanager
async def running(resume: str = "") -> AsyncIterator[Talk]:
    async with listening(await CodexAppServerDriver().spawn(spec(resume), SPAWN)) as talk:
        yield talk


def turn_of(prompt: str) -> Talk:
    """One turn with this prompt, heard to the end of the agent."""

    async def story() -> Talk:
        async with running() as talk:
            assert await talk.turn(prompt) == TurnEnded(ending=TurnEnding.NATURAL, text=prompt)
        return talk

    return asyncio.run(story())


def texts(talk: Talk) -> list[str]:
    return [seen.text for seen in talk.heard if isinstance(seen, TextArrived)]


def living_of(spawn_id: SpawnId) -> list[int]:
    """The processes that carry the spawn id."""
    return [found.identity.pid for found in Census(None, spawn_id).look()]


async def until_living(spawn_id: SpawnId) -> None:
    async with asyncio.timeout(100):
        while not living_of(spawn_id):  # noqa: ASYNC110 - a process has no event for its birth
            await asyncio.sleep(0.01)


def test_a_spawn_names_the_session_before_it_is_ready() -> None:
    async def story() -> None:
        async with running() as talk:
            assert await talk.say("hello") is DeliveryStage.ACCEPTED
            await talk.until(TurnEnded)
        assert talk.heard[:3] == [
            SessionNamed(native_session_id=THREAD, model="m-1"),
            BecameReady(),
            PromptReached(stage=DeliveryStage.STARTED),
        ]
        assert talk.agent.argv == (sys.executable, FAKE, "app-server")

    asyncio.run(story())


def test_an_agent_that_is_asked_about_a_command_still_ends_without_a_fault() -> None:
    talk = turn_of("leave running")
    assert isinstance(talk.heard[-1], Exited)


def test_a_line_of_megabytes_is_read_whole() -> None:
    assert texts(turn_of("megabytes")) == ["x" * 3_000_000]


def test_characters_that_come_byte_by_byte_are_whole() -> None:
    assert texts(turn_of("split")) == ["blåbærgrød 🫐"]


def test_what_is_no_message_is_traced_and_ends_nothing() -> None:
    talk = turn_of("garbage")
    assert len([seen for seen in talk.heard if isinstance(seen, Traced)]) == 7


def test_words_on_standard_error_are_no_output() -> None:
    talk = turn_of("stderr")
    assert texts(talk) == ["fine"]
    assert "a warning in between" in getattr(talk.heard[-1], "stderr_tail", "")


def test_a_request_that_we_do_not_know_is_refused() -> None:
    [told] = texts(turn_of("ask"))
    answer = json.loads(told)
    assert (answer["id"], answer["error"]["code"]) == (0, -32601)


def test_other_threads_and_other_turns_do_not_end_ours() -> None:
    talk = turn_of("others")
    assert texts(talk) == ["still here"]
    assert len([seen for seen in talk.heard if isinstance(seen, TurnEnded)]) == 1


def test_a_death_in_mid_line_ends_the_turn_in_silence() -> None:
    async def story() -> None:
        async with running() as talk:
            assert (await talk.turn("die")).ending is TurnEnding.SILENT
            assert (await talk.over()).code == 9
            assert [seen.kind for seen in talk.heard if isinstance(seen, Warned)] == ["torn_line"]
            with pytest.raises(NotDelivered):
                await talk.say("hello")

    asyncio.run(story())


def test_a_flood_that_nobody_reads_is_left_in_the_pipe() -> None:
    async def story() -> None:
        agent = await CodexAppServerDriver().spawn(spec(), SPAWN)
        try:
            await agent.submit(Talk.prompt("flood"))
            async with asyncio.timeout(100):
                while agent._may_read.is_set() or agent._told.qsize() < _MAX_WAITING:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert agent._told.qsize() < _MAX_WAITING + 10
        finally:
            await agent.stop()

    asyncio.run(story())


def test_a_flood_does_not_hold_back_an_answer_and_nothing_of_it_is_lost() -> None:
    async def story() -> None:
        agent = await CodexAppServerDriver().spawn(spec(), SPAWN)
        try:
            assert await agent.submit(Talk.prompt("flood")) is DeliveryStage.ACCEPTED
            with pytest.raises(NotDelivered, match="no active turn"):
                await agent.interrupt()  # behind the flood in the pipe, and answered all the same
            async with listening(agent) as late:
                await late.until(MessageEnded)
        finally:
            await agent.stop()
        assert texts(late) == [f"{number} " for number in range(5000)]

    asyncio.run(story())


def test_a_stop_does_not_wait_for_a_reader() -> None:
    async def story() -> None:
        agent = await CodexAppServerDriver().spawn(spec(), SPAWN)
        await agent.submit(Talk.prompt("flood"))
        async with asyncio.timeout(100):
            await agent.stop()
            await agent.stop()
        assert living_of(SPAWN) == []
        last = [seen async for seen in agent.observations()][-1]
        assert isinstance(last, Exited)
        assert (last.code, last.signal) != (None, None)  # the end was seen, also by a reader that was full

    asyncio.run(story())


def test_a_stop_does_not_wait_for_lines_that_have_no_end() -> None:
    """A process that got away may hold the agent's pipe open."""

    async def lines() -> AsyncIterator[Line]:
        await asyncio.Event().wait()
        yield Line(b"")

    async def stop() -> StopReport:
        return StopReport()

    async def story() -> None:
        child = SimpleNamespace(lines=lines, stop=stop, write=None)
        agent = CodexAppServer(cast("ChildProcess", child), SPAWN, ())
        stopping = asyncio.create_task(agent.stop())
        await clock().advance_past(5)
        assert await stopping == StopReport()
        assert [seen async for seen in agent.observations()] == []

    run_held(story())


def test_a_second_prompt_in_an_open_turn_is_not_sent() -> None:
    async def story() -> None:
        async with running() as talk:
            first = asyncio.create_task(talk.say("hello"))
            await asyncio.sleep(0)
            with pytest.raises(NotDelivered, match="a turn is open"):
                await talk.say("again")
            await first
            await talk.until(TurnEnded)

    asyncio.run(story())


def test_a_refused_prompt_can_be_given_again() -> None:
    async def story() -> None:
        async with running() as talk:
            with pytest.raises(NotDelivered, match="not now"):
                await talk.say("refuse")
            assert (await talk.turn("hello")).ending is TurnEnding.NATURAL

    asyncio.run(story())


def test_what_is_not_open_is_neither_interrupted_nor_answered() -> None:
    async def story() -> None:
        async with running() as talk:
            with pytest.raises(NotDelivered, match="no turn"):
                await talk.agent.interrupt()
            with pytest.raises(NotDelivered, match="no question"):
                await talk.agent.decide(Decision(request_id="0", is_allowed=True))

    asyncio.run(story())


@pytest.mark.parametrize("resume", [DEAD, "not-an-id"])
def test_an_unknown_session_is_stale_and_leaves_no_process(resume: str) -> None:
    with pytest.raises(StaleResume):
        asyncio.run(CodexAppServerDriver().spawn(spec(resume), SPAWN))
    assert living_of(SPAWN) == []


def test_a_known_session_is_resumed() -> None:
    async def story() -> None:
        async with running(THREAD) as talk:
            assert (await talk.until(SessionNamed)).native_session_id == THREAD

    asyncio.run(story())


def test_a_program_that_ends_at_once_is_a_fault_with_its_last_words() -> None:
    with pytest.raises(PeerFault, match="configuration cannot be read"):
        asyncio.run(CodexAppServerDriver().spawn(spec(mode="broken"), SPAWN))


def test_a_spawn_that_is_cancelled_leaves_no_process() -> None:
    async def story() -> None:
        spawning = asyncio.create_task(CodexAppServerDriver().spawn(spec(mode="mute"), SPAWN))
        await until_living(SPAWN)
        spawning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await spawning
        assert living_of(SPAWN) == []

    asyncio.run(story())


@pytest.mark.parametrize("options", [{"colour": "red"}, {"sandbox": "none"}, {"sandbox": 1}])
def test_an_option_that_is_not_known_is_refused(options: dict[str, Json]) -> None:
    with pytest.raises(UsageError):
        asyncio.run(CodexAppServerDriver().spawn(spec(options=options), SPAWN))


def test_a_program_that_is_not_there_is_named() -> None:
    wrong = AgentSpec(agent="codex", driver="codex-app-server", argv=("no-such-codex",))
    with pytest.raises(UsageError, match="no-such-codex"):
        asyncio.run(CodexAppServerDriver().spawn(wrong, SPAWN))
