"""Gemini CLI and Qwen Code by stream-json, one process a prompt, with a scripted model behind them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.observations import (
    Exited,
    MessageEnded,
    Observation,
    SessionNamed,
    TextArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
)
from interlock.agents.port import AgentSpec, Driver
from interlock.agents.streams.gemini import GeminiStreamDriver
from interlock.agents.streams.qwen import QwenStreamDriver
from interlock.testing.scripted_model import Error, ScriptedModel, Shell, Text
from interlock.vocabulary.ids import SpawnId
from tests.agents.acp.driving import Session, prompt
from tests.real.other_recipes import OtherCli, gemini, qwen

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

SCRIPTS: Final = {
    "hello": (Text("Hello", " there."),),
    "tool": (Text("I run it."), Shell("touch made.txt; echo made"), Text("It has run.")),
    "wrong": (Error(400, "a scripted error"),),
}
LIMIT_SECONDS: Final = 120.0
MADE: Final = {"gemini": gemini, "qwen": qwen}
DRIVERS: Final[dict[str, Driver]] = {"gemini": GeminiStreamDriver(), "qwen": QwenStreamDriver()}
both: Final = pytest.mark.parametrize("name", ["gemini", "qwen"])


async def one_turn(name: str, spec: AgentSpec, text: str) -> list[Observation]:
    """Start the CLI for one prompt, and wait until it has ended by itself."""
    async with asyncio.timeout(LIMIT_SECONDS):
        session = Session(await DRIVERS[name].spawn(spec, SpawnId(f"spawn-{name}")))
        try:
            await session.handle.submit(prompt(text))
            await session.until(Exited)
        finally:
            report = await session.handle.stop()
            seen = await session.end()
        assert not report.survivors
        return seen


def run(name: str, root: Path, text: str, **options: str) -> tuple[list[Observation], OtherCli]:
    with ScriptedModel(SCRIPTS) as model:
        cli = MADE[name](root, model.url)
        spec = replace(cli.spec(f"{name}-stream"), options=options)
        return asyncio.run(one_turn(name, spec, text)), cli


@both
def test_a_turn_is_told_as_it_was_scripted(name: str, tmp_path: Path) -> None:
    seen, _ = run(name, tmp_path, "SCN:hello")
    assert [one.text for one in seen if isinstance(one, MessageEnded)] == ["Hello there."]
    assert "".join(one.text for one in seen if isinstance(one, TextArrived)) == "Hello there."
    assert len([one for one in seen if isinstance(one, SessionNamed)]) == 1
    assert [one for one in seen if isinstance(one, UsageReported)]
    assert [one.ending for one in seen if isinstance(one, TurnEnded)] == [TurnEnding.NATURAL]
    exited = seen[-1]
    assert isinstance(exited, Exited)
    assert exited.code == 0


@both
def test_a_tool_that_the_mode_allows_runs_and_returns(name: str, tmp_path: Path) -> None:
    seen, cli = run(name, tmp_path, "SCN:tool", approval_mode="yolo")
    (called,) = [one for one in seen if isinstance(one, ToolCalled)]
    (returned,) = [one for one in seen if isinstance(one, ToolReturned)]
    assert called.call_id == returned.call_id
    assert "made" in str(returned.output)
    assert (cli.place.project / "made.txt").exists()
    assert [one.text for one in seen if isinstance(one, MessageEnded)] == ["I run it.", "It has run."]


@both
def test_an_error_of_the_provider_ends_the_turn_as_one(name: str, tmp_path: Path) -> None:
    seen, _ = run(name, tmp_path, "SCN:wrong")
    (ended,) = [one for one in seen if isinstance(one, TurnEnded)]
    assert ended.ending is TurnEnding.ERROR
    assert "a scripted error" in ended.error_message
    assert not [one for one in seen if isinstance(one, MessageEnded)]


@both
def test_a_session_that_never_was_is_stale(name: str, tmp_path: Path) -> None:
    with ScriptedModel(SCRIPTS) as model:
        spec = MADE[name](tmp_path, model.url).spec(f"{name}-stream", resume="00000000-1111-4222-8333-444444444444")
        seen = asyncio.run(one_turn(name, spec, "SCN:hello"))
    exited = seen[-1]
    assert isinstance(exited, Exited)
    assert exited.is_stale_resume
