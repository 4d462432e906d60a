"""Turns of real agents through the runtime: what the log says of each, held against what the model did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.scripted_model import Cut, Error, Gate, ScriptedModel, Shell, Step, Text, Think
from interlock.vocabulary.states import Attention, TurnState
from interlock.vocabulary.wire.approval import ApprovalState
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
from tests.real.runtime_harness import Bench, conducted, is_delivered
from tests.real.stories import QUESTION

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

LIMIT_SECONDS: Final = 150.0
AGENTS: Final = (CLAUDE_STREAM, CODEX_STREAM, CLAUDE_TERMINAL, CODEX_TERMINAL, GEMINI_ACP, QWEN_ACP)
SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    "turn": (Think("Let me see."), Text("One. ", "Two"), Gate("streaming"), Text(" three.")),
    "allow": (Text("I will look."), Shell("touch allowed.txt; echo made"), Text("It ran.")),
    "deny": (Shell("touch denied.txt"), Text("Very well.")),
    "ask": (QUESTION, Text("A fine colour.")),
    "error": (Error(400, "out of order"),),
    "cut": (Text("Half"), Cut(times=1), Text(" and whole.")),
    "short": (Text("Short."),),
}
each: Final = pytest.mark.parametrize("agent", AGENTS, ids=[one.name for one in AGENTS])


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPTS) as model:
        yield model


@each
def test_turns_questions_and_failures_are_told_as_they_were(agent: Agent, model: ScriptedModel, tmp_path: Path) -> None:
    async def story() -> None:
        async with conducted(agent, model, tmp_path) as bench:
            await queue_of_three(bench)
            await tools(bench)
            if agent.cli == "claude":
                await question(bench)
            await failures(bench)

    run(story(), LIMIT_SECONDS)


async def queue_of_three(bench: Bench) -> None:
    """The second and third wait until the first is over, and are answered in order."""
    first, second, third = [await bench.send(f"SCN:{name} number") for name in ("turn one", "short two", "short three")]
    await bench.model.reached("streaming")
    assert [one.prompt_id for one in bench.runtime.queue(bench.session_id)] == [second, third]
    bench.model.release("streaming")
    told = [await bench.wait(prompt_id) for prompt_id in (first, second, third)]
    assert [one.state for one in told] == [TurnState.COMPLETED] * 3
    assert [one.text for one in told] == ["One. Two three.", "Short.", "Short."]
    assert [one.receipts for one in told if not is_delivered(one.receipts)] == []
    seqs = [(one.record.first_seq or 0, one.record.last_seq or 0) for one in told]
    assert seqs == sorted(seqs)
    if bench.agent.has_usage:
        assert [one.usage[-1].input_tokens for one in told if one.usage[-1].output_tokens] == [100, 100, 100]
    else:
        assert not told[0].usage


async def tools(bench: Bench) -> None:
    """One that is allowed runs once it is; one that is refused does not."""
    prompt_id = await bench.send("SCN:allow please")
    asked = await bench.asked()
    assert asked.attention is Attention.APPROVAL
    assert "touch allowed.txt" in f"{asked.question} {asked.arguments}"
    assert not (bench.project / "allowed.txt").exists()
    await bench.until(
        lambda _: bench.runtime.status(bench.session_id).attention is Attention.APPROVAL, "what is shown next"
    )
    await bench.decide(asked)
    told = await bench.wait(prompt_id)
    assert (told.state, told.text) == (TurnState.COMPLETED, "It ran.")
    assert (bench.project / "allowed.txt").exists()
    assert (await bench.approval(asked.approval_id)).state is ApprovalState.CLOSED
    assert (await bench.approval(asked.approval_id)).decided_by == "the test"

    prompt_id = await bench.send("SCN:deny please")
    await bench.decide(await bench.asked(), is_allowed=False)
    told = await bench.wait(prompt_id)
    assert (told.state, told.text) == (
        bench.agent.denied,
        "Very well." if bench.agent.denied is TurnState.COMPLETED else "",
    )
    assert is_delivered(told.receipts)
    assert not (bench.project / "denied.txt").exists()


async def question(bench: Bench) -> None:
    prompt_id = await bench.send("SCN:ask please")
    asked = await bench.asked()
    assert asked.attention is Attention.QUESTION
    assert "Which colour shall it be?" in asked.question
    await bench.decide(asked, option="Blue")
    told = await bench.wait(prompt_id)
    assert (told.state, told.text) == (TurnState.COMPLETED, "A fine colour.")
    assert any("Blue" in one.body.decode().rpartition("Which colour")[2] for one in bench.model.requests[-2:])


async def failures(bench: Bench) -> None:
    """An error fails its turn and no other; a cut answer is not doubled."""
    told = await bench.turn("SCN:error please")
    assert (told.state, told.text) == (TurnState.FAILED, "")
    assert "out of order" in told.record.error_message
    assert is_delivered(told.receipts)
    told = await bench.turn("SCN:cut please")
    assert (told.state, told.text) == bench.agent.cut
    assert is_delivered(told.receipts)
