"""A real CLI behind the terminal driver, with a home of its own and a model that plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from interlock.agents.port import AgentSpec, NotDelivered
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.terminal.handle import TerminalPolicy
from interlock.agents.tmux.typing import TypingPolicy
from interlock.testing.scripted_model import ScriptedModel
from interlock.vocabulary.events.audit import DeliveryStage
from tests.agents.terminal.harness import QUICK, Seen, new_spawn, prompt, reading
from tests.real.recipes import LabFolder, Recipe, common_environment

# Two busy cores draw late: a step that was not seen in time would not be claimed.
PATIENT: Final[TerminalPolicy] = replace(
    QUICK, typing=TypingPolicy(typed_within_seconds=20, accepted_within_seconds=20, started_within_seconds=20)
)


def spec_of(recipe: Recipe, executable: Path, model: ScriptedModel, root: Path) -> AgentSpec:
    """What to start. Its first-run questions are answered beforehand."""
    place = LabFolder(root)
    place.make()
    recipe.seed(place, model.url)
    return AgentSpec(
        agent=recipe.cli,
        driver="terminal",
        argv=(str(executable), *recipe.arguments),
        cwd=str(place.project),
        environment={**common_environment(place), **recipe.environment(place, model.url)},
    )


@asynccontextmanager
async def claude_or_codex(
    driver: TerminalDriver, recipe: Recipe, executable: Path, model: ScriptedModel, root: Path
) -> AsyncIterator[Seen]:
    """The CLI, started by the driver and stopped afterwards."""
    handle = await driver.spawn(spec_of(recipe, executable, model, root), new_spawn())
    try:
        async with reading(handle) as seen:
            yield seen
    finally:
        await handle.stop()


async def submit(seen: Seen, text: str) -> None:
    """Submit a prompt. Where nothing of it arrived it is given again, as a runtime does: a CLI that has just started
    may not be calm yet. The start of a turn that is over before a capture showed it at work is not claimed."""
    for _ in range(10):
        try:
            assert await seen.handle.submit(prompt(text)) in (DeliveryStage.ACCEPTED, DeliveryStage.STARTED)
        except NotDelivered:
            await asyncio.sleep(0.5)
        else:
            return
    raise AssertionError(f"{text!r} was never delivered")
