"""Turns of real agents that do not end by themselves: cancelled in each phase, out of time, lost with the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.scripted_model import Gate, Hang, RequestKind, ScriptedModel, Shell, Step, Text, Think
from interlock.vocabulary.events.audit import AgentSession, ProcessEventKind
from interlock.vocabulary.states import ExitReason, TurnState
from tests.contract.harness import run
from tests.real.runtime_agents import (
    CLAUDE_STREAM,
    CLAUDE_TERMINAL,
    CODEX_STREAM,
    CODEX_TERMINAL,
    GEMINI_ACP,
    QWEN_ACP,
    Agent,
)
from tests.real.runtime_harness import WAIT_SECONDS, Bench, conducted, is_delivered, processes

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

LIMIT_SECONDS: Final = 150.0
BUDGET_SECONDS: Final = 5.0
AGENTS: Final = (CLAUDE_STREAM, CODEX_STREAM, CLAUDE_TERMINAL, CODEX_TERMINAL, GEMINI_ACP, QWEN_ACP)
SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    "think": (Think("Let me see."), Gate("thinking"), Text("Never said.")),
    "stream": (Text("One. ", "Two"), Gate("streaming"), Text("Never said.")),
    "tool": (Shell("touch made.txt; while [ ! -e go ]; do sleep 0.1; done"), Text("Never said.")),
    "hang": (Think("Let me see."), Hang()),
    "last": (Think("Let me see."), Gate("last"), Text("Never said.")),
    "short": (Text("Short."),),
}
each: Final = pytest.mark.parametrize("agent", AGENTS, ids=[one.name for one in AGENTS])


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPTS) as model:
        yield model


@each
def test_a_turn_is_cancelled_timed_out_or_killed_and_the_session_goes_on(
    agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with conducted(agent, model, tmp_path) as bench:
            await cancel_while_thinking(bench)
            await cancel_while_streaming(bench)
            await cancel_while_a_tool_runs(bench)
            await run_out_of_time(bench)
            await lose_the_agent(bench)

    run(story(), LIMIT_SECONDS)


async def cancel_while_thinking(bench: Bench) -> None:
    prompt_id = await bench.send("SCN:think first")
    await bench.model.reached("thinking")
    told = await bench.cancel(prompt_id)
    assert (told.state, told.text) == (TurnState.INTERRUPTED, "")
    assert told.record.cancel_requested
    assert is_delivered(told.receipts)


async def cancel_while_streaming(bench: Bench) -> None:
    """What was said stays, where it was heard."""
    prompt_id = await bench.send("SCN:stream second")
    await bench.model.reached("streaming")
    if bench.agent.is_live:
        async with asyncio.timeout(WAIT_SECONDS):
            await bench.runtime.supervisor(bench.session_id).until(
                lambda one: one.open_turn if one.open_turn and one.open_turn.answer.text == "One. Two" else None
            )
    told = await bench.cancel(prompt_id)
    assert (told.state, told.text) == (TurnState.INTERRUPTED, "One. Two" if bench.agent.is_live else "")
    assert is_delivered(told.receipts)


async def cancel_while_a_tool_runs(bench: Bench) -> None:
    prompt_id = await bench.send("SCN:tool third")
    await bench.decide(await bench.asked())
    await bench.made("made.txt")
    told = await bench.cancel(prompt_id)
    assert (told.state, told.text) == (TurnState.INTERRUPTED, "")
    (bench.project / "go").touch()  # Codex may let it run on, and the next prompt waits for it then


async def run_out_of_time(bench: Bench) -> None:
    bench.set_budget(BUDGET_SECONDS)
    told = await bench.turn("SCN:hang fourth")
    assert (told.state, told.text) == (TurnState.TIMED_OUT, "")
    bench.set_budget(None)
    told = await bench.turn("SCN:short fifth")
    assert (told.state, told.text) == (TurnState.COMPLETED, "Short.")
    assert is_delivered(told.receipts)


async def lose_the_agent(bench: Bench) -> None:
    """It is started again, in its own session, and answers the next prompt."""
    prompt_id = await bench.send("SCN:last sixth")
    await bench.model.reached("last")
    await bench.kill_agent()
    told = await bench.wait(prompt_id)
    assert (told.state, told.text) == (TurnState.FAILED, "")
    told = await bench.turn("SCN:short seventh")
    assert (told.state, told.text) == (TurnState.COMPLETED, "Short.")
    events = await bench.events()
    spawned = processes(events, ProcessEventKind.SPAWNED)
    (exited,) = processes(events, ProcessEventKind.EXITED)
    assert len(spawned) == 2
    # The shim of a terminal tells the signal; on a busy machine it may be too late for that.
    unseen = (ExitReason.UNCLEAN,) if bench.agent.driver == "terminal" else ()
    assert exited.exit_reason in (ExitReason.CRASHED, *unseen)
    if bench.agent.driver != "acp":
        names = {one.data.native_session_id for one in events if isinstance(one.data, AgentSession)}
        assert len(names) == 1
        last = [one.body.decode() for one in bench.model.requests if one.kind is RequestKind.MAIN][-1]
        assert "SCN:short fifth" in last
