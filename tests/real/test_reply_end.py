"""Real agents in terminals: an answer is found also after `/clear`, which begins another transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from interlock.agents.observations import BecameReady, SessionNamed, TurnEnded, TurnEnding
from interlock.testing.scripted_model import ScriptedModel, Step, Text
from tests.agents.terminal.harness import driving, press, shows
from tests.contract.harness import run
from tests.real.recipes import CLAUDE, CODEX, Recipe
from tests.real.stories import LIMIT_SECONDS
from tests.real.terminal import PATIENT, claude_or_codex, submit
from tools.agent_clis import install

pytestmark = pytest.mark.real

SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {"one": (Text("The first."),), "two": (Text("The second."),)}


@pytest.mark.parametrize("recipe", [CLAUDE, CODEX], ids=lambda recipe: recipe.cli)
def test_an_answer_after_a_clear_is_the_answer_of_the_new_session(recipe: Recipe, tmp_path: Path) -> None:
    async def story(model: ScriptedModel) -> None:
        executable = install(recipe.cli)
        async with (
            driving(PATIENT) as driver,
            claude_or_codex(driver, recipe, executable, model, tmp_path) as seen,
        ):
            await seen.until(BecameReady, within_seconds=60)
            await submit(seen, "SCN:one")
            ended = await seen.until(TurnEnded)
            assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "The first.")
            before = [one.native_session_id for one in seen.all if isinstance(one, SessionNamed)]
            await press(seen, "/clear")
            await shows(seen, "/clear")
            await press(seen, "Enter")
            await submit(seen, "SCN:two")
            ended = await seen.until(TurnEnded)
            assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "The second.")
            named = [one.native_session_id for one in seen.all if isinstance(one, SessionNamed)]
            assert len(before) == 1
            assert len(set(named)) == 2

    with ScriptedModel(SCRIPTS) as model:
        run(story(model), LIMIT_SECONDS)
