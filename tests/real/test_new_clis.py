"""Further CLIs through the runtime, one session each: prompts, an approval, an interrupt, and one more prompt.

That each prompt reached the model once is held against the log when the block is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.scripted_model import Gate, ScriptedModel, Shell, Step, Text
from interlock.vocabulary.events.audit import ProcessEventKind
from interlock.vocabulary.states import TurnState
from tests.contract.harness import run
from tests.real.runtime_agents import Agent
from tests.real.runtime_harness import conducted, is_delivered, processes

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

LIMIT_SECONDS: Final = 280.0
SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    "short": (Text("Short."),),
    "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text(" three.")),
    "allow": (Shell("touch allowed.txt; echo made"), Text("It ran.")),
}
in_a_terminal: Final = pytest.mark.parametrize("cli", ["kimi", "continue", "copilot", "cline"])
by_acp: Final = pytest.mark.parametrize("cli", ["kimi", "copilot", "cline", "droid"])


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPTS) as model:
        yield model


@in_a_terminal
def test_in_a_terminal_prompts_an_approval_and_an_interrupt_have_their_effect(
    cli: str, model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with conducted(Agent(cli, "terminal"), model, tmp_path) as bench:
            sent = await bench.send("SCN:allow once.")
            asked = await bench.asked()
            assert not (bench.project / "allowed.txt").exists()
            await bench.decide(asked)
            assert (await bench.wait(sent)).state is TurnState.COMPLETED
            assert (bench.project / "allowed.txt").exists()
            sent = await bench.send("SCN:stream once.")
            await model.reached("streaming", within_seconds=120)
            assert (await bench.cancel(sent)).state is TurnState.INTERRUPTED
            told = await bench.turn("SCN:short after all.")
            assert (told.state, is_delivered(told.receipts)) == (TurnState.COMPLETED, True)
            events = await bench.events()
            assert len(processes(events, ProcessEventKind.SPAWNED)) == 1
            assert processes(events, ProcessEventKind.STOP_REQUESTED) == []

    run(story(), LIMIT_SECONDS)


@by_acp
def test_by_acp_a_turn_with_a_tool_that_is_allowed_is_told_as_it_was(
    cli: str, model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with conducted(Agent(cli, "acp"), model, tmp_path) as bench:
            sent = await bench.send("SCN:allow once.")
            asked = await bench.asked()
            assert not (bench.project / "allowed.txt").exists()
            await bench.decide(asked)
            told = await bench.wait(sent)
            assert (told.state, told.text) == (TurnState.COMPLETED, "It ran.")
            assert (bench.project / "allowed.txt").exists()

    run(story(), LIMIT_SECONDS)
