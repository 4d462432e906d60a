"""The scripted agent is what the drivers take it for: each driver, through the port, sees what the script says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.agents.acp.driver import AcpDriver
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    Exited,
    MessageEnded,
    Observation,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import AgentHandle, AgentSpec, Decision, Prompt
from interlock.agents.streams.claude.driver import ClaudeStreamDriver
from interlock.testing.scripted_agent import command, prompts_in, write_program
from interlock.vocabulary.ids import PromptId, TurnId
from tests.agents.processes.trees import new_spawn_id

LIMIT_SECONDS = 100.0
FACES = ("stream-json", "acp")
Reaction = Callable[[AgentHandle, Observation], Awaitable[None]]


async def watch(handle: AgentHandle, script: str, react: Reaction) -> list[Observation]:
    """Give the agent its prompt when it is ready, stop it when the turn is over, and return all that was seen."""
    seen: list[Observation] = []
    is_submitted = False
    async with asyncio.TaskGroup() as group:
        async for one in handle.observations():
            seen.append(one)
            if isinstance(one, BecameReady) and not is_submitted:
                is_submitted = True
                await handle.submit(Prompt(prompt_id=PromptId("prm_1"), turn_id=TurnId("trn_1"), text=script))
            elif isinstance(one, TurnEnded):
                group.create_task(handle.stop())
            else:
                await react(handle, one)
    return seen


async def nothing(_handle: AgentHandle, _one: Observation) -> None:
    """No reaction."""


async def allow(handle: AgentHandle, one: Observation) -> None:
    if isinstance(one, ApprovalAsked):
        await handle.decide(Decision(request_id=one.request_id, is_allowed=True))


async def refuse(handle: AgentHandle, one: Observation) -> None:
    if isinstance(one, ApprovalAsked):
        await handle.decide(Decision(request_id=one.request_id, is_allowed=False))


async def interrupt(handle: AgentHandle, one: Observation) -> None:
    if isinstance(one, TextArrived | ApprovalAsked):
        await handle.interrupt()


def driven(face: str, script: str, folder: Path, react: Reaction = nothing) -> list[Observation]:
    """What a driver sees of a script; the end is told once and last, and the prompt came once."""
    ledger = folder / "ledger"

    async def main() -> list[Observation]:
        driver = AcpDriver() if face == "acp" else ClaudeStreamDriver()
        program = write_program(folder / "agent", command(face, ledger=ledger))
        spec = AgentSpec(agent="scripted", driver=driver.name, argv=(program,), cwd=str(folder))
        handle = await driver.spawn(spec, new_spawn_id())
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                return await watch(handle, script, react)
        finally:
            await handle.stop()

    seen = asyncio.run(main())
    assert [type(one) for one in seen if isinstance(one, TurnEnded | Exited)] == [TurnEnded, Exited]
    assert isinstance(seen[-1], Exited)
    assert prompts_in(ledger) == [script]
    return seen


def ending(seen: list[Observation]) -> TurnEnding:
    (ended,) = [one for one in seen if isinstance(one, TurnEnded)]
    return ended.ending


@pytest.mark.parametrize("face", FACES)
def test_an_answer_and_a_tool_call_are_seen_whole(face: str, tmp_path: Path) -> None:
    seen = driven(face, "say Hello wörld; call Bash -> out; say done", tmp_path)
    assert ending(seen) is TurnEnding.NATURAL
    assert [one.text for one in seen if isinstance(one, MessageEnded)] == ["Hello wörld", "done"]
    called = [one.call_id for one in seen if isinstance(one, ToolCalled)]
    assert [(one.call_id, one.output) for one in seen if isinstance(one, ToolReturned)] == [(called[0], "out")]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("react", "is_refused"), [(allow, False), (refuse, True)])
def test_a_decision_reaches_the_agent(face: str, react: Reaction, is_refused: bool, tmp_path: Path) -> None:
    seen = driven(face, "request Bash -> out; say done", tmp_path, react)
    assert ending(seen) is TurnEnding.NATURAL
    (returned,) = [one for one in seen if isinstance(one, ToolReturned)]
    assert (returned.error is not None) == is_refused
    asked = [one.request_id for one in seen if isinstance(one, ApprovalAsked)]
    assert [one.request_id for one in seen if isinstance(one, ApprovalGone)] == asked


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("script", ["say half; hang", "request Bash; say never"])
def test_an_interrupt_reaches_the_agent(face: str, script: str, tmp_path: Path) -> None:
    assert ending(driven(face, script, tmp_path, interrupt)) is TurnEnding.INTERRUPTED


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("say half; fail 500", TurnEnding.ERROR),
        ("say half; cut", TurnEnding.SILENT),
        ("say half; crash", TurnEnding.SILENT),
        ("say half; exit 0", TurnEnding.SILENT),
        ("raw junk; garbage 300; big 200000; split wörld; say done", TurnEnding.NATURAL),
    ],
)
def test_a_bad_end_is_no_good_one_and_noise_is_no_end(face: str, script: str, how: TurnEnding, tmp_path: Path) -> None:
    assert ending(driven(face, script, tmp_path)) is how


@pytest.mark.parametrize("face", FACES)
def test_the_words_of_a_dead_attempt_are_voided(face: str, tmp_path: Path) -> None:
    seen = driven(face, "say half of; retry Overloaded; say whole", tmp_path)
    assert len([one for one in seen if isinstance(one, TextVoided)]) == 1
    assert [one.text for one in seen if isinstance(one, MessageEnded)] == ["whole"]
