"""Programs for one prompt: the driver of Gemini CLI, with small programs in its place."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import pytest

from interlock.agents.observations import (
    BecameReady,
    Exited,
    MessageEnded,
    Observation,
    TextArrived,
    Traced,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.port import AgentHandle, AgentSpec, Decision, NotDelivered
from interlock.agents.streams.gemini import GeminiStreamDriver
from interlock.vocabulary.events.audit import DeliveryStage
from tests.agents.acp.driving import Session, prompt
from tests.agents.processes.trees import new_spawn_id

LIMIT_SECONDS = 100.0
HEAD = "import sys, json\nask = sys.stdin.read()\n"
ANSWER = (
    HEAD
    + "print(json.dumps({'type': 'message', 'role': 'assistant', 'content': ask.upper(), 'delta': True}))\n"
    + "print(json.dumps({'type': 'result', 'status': 'success', 'stats': {}}))\n"
)


def run(program: str, act: Callable[[Session], Awaitable[None]], *, resume: str = "") -> list[Observation]:
    """Start a program in the place of Gemini CLI, do something with it, and return all that it told."""

    async def whole() -> list[Observation]:
        spec = AgentSpec(agent="g", driver="gemini-stream", argv=(sys.executable, "-S", "-c", program), resume=resume)
        async with asyncio.timeout(LIMIT_SECONDS):
            handle: AgentHandle = await GeminiStreamDriver().spawn(spec, new_spawn_id())
            session = Session(handle)
            try:
                await act(session)
            finally:
                seen = await session.end()
            return seen

    return asyncio.run(whole())


async def ask(session: Session) -> None:
    assert await session.handle.submit(prompt("hello, ä")) is DeliveryStage.TYPED
    await session.until(Exited)


def test_the_prompt_goes_in_and_the_answer_comes_out_and_the_exit_is_last() -> None:
    seen = run(ANSWER, ask)
    assert seen[0] == BecameReady()
    assert MessageEnded(text="HELLO, Ä") in seen
    assert seen[-2:] == [TurnEnded(ending=TurnEnding.NATURAL), Exited(code=0)]


def test_an_end_without_a_result_ends_the_turn_without_a_word() -> None:
    program = HEAD + "sys.stdout.write('{\"type\": \"mess')\nsys.stdout.flush()\nsys.exit('broken')"
    *_, warned, traced, ended, exited = run(program, ask)
    assert isinstance(warned, Warned)
    assert isinstance(traced, Traced)
    assert ended == TurnEnded(ending=TurnEnding.SILENT)
    assert exited == Exited(code=1, stderr_tail="broken\n")


def test_a_second_result_is_a_warning_and_not_a_second_end() -> None:
    seen = run(ANSWER + ANSWER.splitlines()[-1], ask)
    assert [one.ending for one in seen if isinstance(one, TurnEnded)] == [TurnEnding.NATURAL]
    assert [one.kind for one in seen if isinstance(one, Warned)] == ["second_result"]


def test_a_session_that_is_not_known_any_more_shows_at_the_exit() -> None:
    program = HEAD + "sys.exit('Error resuming session: no such thing')"
    assert run(program, ask, resume="r1")[-1] == Exited(
        code=1, stderr_tail="Error resuming session: no such thing\n", is_stale_resume=True
    )
    assert run(program, ask)[-1] == Exited(code=1, stderr_tail="Error resuming session: no such thing\n")


def test_one_prompt_only_and_neither_interrupt_nor_decision() -> None:
    async def act(session: Session) -> None:
        await ask(session)
        with pytest.raises(NotDelivered):
            await session.handle.submit(prompt("again"))
        with pytest.raises(NotDelivered):
            await session.handle.interrupt()
        with pytest.raises(NotDelivered):
            await session.handle.decide(Decision(request_id="1", is_allowed=True))

    run(ANSWER, act)


def test_a_flood_that_nobody_reads_does_not_hold_up_the_stop() -> None:
    program = HEAD + "line = json.dumps({'type': 'message', 'role': 'assistant', 'content': 'x', 'delta': True})\n"
    program += "while True: print(line)\n"

    async def whole() -> None:
        spec = AgentSpec(agent="g", driver="gemini-stream", argv=(sys.executable, "-S", "-c", program))
        async with asyncio.timeout(LIMIT_SECONDS):
            handle = await GeminiStreamDriver().spawn(spec, new_spawn_id())
            await handle.submit(prompt("go"))
            first = await anext(one async for one in handle.observations() if isinstance(one, TextArrived))
            assert first.text == "x"
            await handle.stop()
            assert isinstance([one async for one in handle.observations()][-1], Exited)

    asyncio.run(whole())
