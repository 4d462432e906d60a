"""opencode in a terminal, through the runtime. Its interrupt takes two Escapes; two that come together count as one.

That each prompt reached the model once is held against the log when the block is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.scripted_model import Gate, ScriptedModel, Shell, Step, Text, Think
from interlock.vocabulary.audit import ProcessEventKind
from interlock.vocabulary.states import TurnState
from tests.contract.harness import run
from tests.real.runtime_agents import OPENCODE_TERMINAL
from tests.real.runtime_harness import conducted, is_delivered, processes

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    "short": (Text("Short."),),
    "think": (Think("Let me see."), Gate("thinking"), Text("Late.")),
    "stream": (Text("One. "), Gate("streaming"), Text("Two.")),
    "allow": (Shell("touch allowed.txt"), Text("It ran.")),
    "deny": (Shell("touch denied.txt"), Text("Very well.")),
}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPTS) as model:
        yield model


def test_interrupts_approvals_and_denials_have_their_effect_and_the_agent_lives_on(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with conducted(OPENCODE_TERMINAL, model, tmp_path) as bench:
            for script, gate in (("think", "thinking"), ("stream", "streaming")):
                sent = await bench.send(f"SCN:{script} once.")
                await model.reached(gate, within_seconds=150)
                told = await bench.cancel(sent)
                assert told.state is TurnState.INTERRUPTED
            sent = await bench.send("SCN:allow once.")
            await bench.decide(await bench.asked())  # its buttons are drawn in 256 colours here
            assert (await bench.wait(sent)).state is TurnState.COMPLETED
            assert (bench.project / "allowed.txt").exists()
            sent = await bench.send("SCN:deny once.")
            await bench.decide(await bench.asked(), is_allowed=False)
            assert (await bench.wait(sent)).state in (TurnState.INTERRUPTED, TurnState.COMPLETED)
            assert not (bench.project / "denied.txt").exists()
            told = await bench.turn("SCN:short after all.")
            assert (told.state, is_delivered(told.receipts)) == (TurnState.COMPLETED, True)
            events = await bench.events()
            assert len(processes(events, ProcessEventKind.SPAWNED)) == 1
            assert processes(events, ProcessEventKind.STOP_REQUESTED) == []

    run(story(), 380)
