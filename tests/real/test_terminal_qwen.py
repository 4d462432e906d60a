"""Qwen Code in a terminal, through the runtime. It shows what one might type next in its composer, which is no draft.

The answers here are what it then suggests: it asks the model, in the words of the conversation. That each prompt
reached the model once is held against the log when the block is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.scripted_model import ScriptedModel, Step, Text
from interlock.vocabulary.audit import SurfaceEvent
from interlock.vocabulary.events import Event
from interlock.vocabulary.states import Activity, TurnState
from tests.contract.harness import run
from tests.real.runtime_agents import QWEN_TERMINAL
from tests.real.runtime_harness import conducted, is_delivered

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]

SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {"short": (Text("run the tests again"),)}


def is_quiet(events: tuple[Event, ...]) -> bool:
    return any(isinstance(one.data, SurfaceEvent) and one.data.activity is Activity.QUIET for one in events)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPTS) as model:
        yield model


def test_prompts_in_a_row_are_each_delivered_once_though_it_suggests_the_next(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with conducted(QWEN_TERMINAL, model, tmp_path) as bench:
            await bench.runtime.start(bench.session_id)  # its start alone takes long on a busy machine
            await bench.until(is_quiet, "that it is ready")
            for number in range(6):
                told = await bench.turn(f"SCN:short prompt number {number}.")
                assert (told.state, told.record.error_message) == (TurnState.COMPLETED, "")
                assert is_delivered(told.receipts)

    run(story(), 480)
