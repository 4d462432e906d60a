"""Real CLIs in a terminal whose model hangs: stalled by the setting, and at work again with the next progress."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.scripted_model import Gate, ScriptedModel, Shell, Step, Text, Think
from interlock.vocabulary.events.audit import Anomaly, SurfaceEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import Activity, AgentState, TurnState
from tests.contract.harness import run
from tests.real.harness import HELD_COMMAND
from tests.real.runtime_agents import CLAUDE_TERMINAL, CODEX_TERMINAL, Agent
from tests.real.runtime_harness import Bench, anomalies, conducted

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

LIMIT_SECONDS: Final = 240.0
SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    "think": (Think("Let me see."), Gate("thinking"), Text("Thought.")),
    "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text(" three.")),
    "tool": (Shell(HELD_COMMAND), Text("It ran.")),
}
each: Final = pytest.mark.parametrize("agent", [CLAUDE_TERMINAL, CODEX_TERMINAL], ids=lambda one: one.name)


def set_patience(bench: Bench, stall: float, tool: float = 1800.0) -> None:
    machine = bench.runtime.supervisor(bench.session_id).machine
    machine.policy = replace(machine.policy, stall_after_seconds=stall, stall_tool_after_seconds=tool)


def status(bench: Bench) -> Status:
    return bench.runtime.supervisor(bench.session_id).machine.status


def of_kind(events: tuple[Event, ...], kind: str) -> list[Anomaly]:
    return [one.data for one in events if isinstance(one.data, Anomaly) and one.data.kind == kind]


@each
def test_a_stream_that_hangs_is_stalled_and_gets_on_again(agent: Agent, tmp_path: Path) -> None:
    async def story(model: ScriptedModel) -> None:
        async with conducted(agent, model, tmp_path) as bench:
            set_patience(bench, 20.0)
            for number, (script, gate) in enumerate((("think", "thinking"), ("stream", "streaming")), 1):
                prompt_id = await bench.send(f"SCN:{script} now")
                await model.reached(gate)
                await bench.until(lambda events, n=number: anomalies(events).count("stalled_entered") == n, "a stall")  # type: ignore[misc]
                shown = status(bench)
                assert shown.activity is Activity.STALLED
                assert shown.evidence[0].rule == "turn.no_progress"
                assert shown.evidence[0].source is not EvidenceSource.PANE_TITLE
                entered = of_kind(await bench.events(), "stalled_entered")[-1]
                assert isinstance(entered.details, dict)
                assert 20 <= float(str(entered.details["elapsed_seconds"])) < 25
                surface = [one.data for one in await bench.events() if isinstance(one.data, SurfaceEvent)][-1]
                assert surface.activity is Activity.STALLED
                model.release(gate)
                assert (await bench.wait(prompt_id)).state is TurnState.COMPLETED
                assert anomalies(await bench.events()).count("stalled_recovered") == number

    with ScriptedModel(SCRIPTS) as model:
        run(story(model), LIMIT_SECONDS)


def test_a_tool_that_runs_is_shown_and_has_its_own_limit(tmp_path: Path) -> None:
    async def story(model: ScriptedModel) -> None:
        async with conducted(CLAUDE_TERMINAL, model, tmp_path) as bench:
            set_patience(bench, 3.0, tool=15.0)
            prompt_id, before = await tool_runs(bench)
            assert status(bench).tool == "Bash"
            await bench.until(lambda events: len(of_kind(events, "stalled_entered")) > before, "a stall of the tool")
            entered = of_kind(await bench.events(), "stalled_entered")[-1]
            assert isinstance(entered.details, dict)
            assert float(str(entered.details["elapsed_seconds"])) >= 15
            (bench.project / "go").touch()
            assert (await bench.wait(prompt_id)).state is TurnState.COMPLETED

    with ScriptedModel(SCRIPTS) as model:
        run(story(model), LIMIT_SECONDS)


def test_a_tool_of_codex_is_no_stall_until_it_is_left_in_the_background(tmp_path: Path) -> None:
    """Codex waits some ten seconds for a command, and then lets it run by itself: its call has returned."""

    async def story(model: ScriptedModel) -> None:
        async with conducted(CODEX_TERMINAL, model, tmp_path) as bench:
            set_patience(bench, 3.0)
            prompt_id, before = await tool_runs(bench)
            assert status(bench).tool
            await bench.until(lambda _: status(bench).substate is not AgentState.RUNNING_TOOL, "the end of the call")
            assert len(of_kind(await bench.events(), "stalled_entered")) == before
            (bench.project / "go").touch()
            assert (await bench.wait(prompt_id)).state is TurnState.COMPLETED

    with ScriptedModel(SCRIPTS) as model:
        run(story(model), LIMIT_SECONDS)


async def tool_runs(bench: Bench) -> tuple[PromptId, int]:
    """A tool that was allowed runs: its prompt, and how often the turn was stalled before."""
    prompt_id = await bench.send("SCN:tool now")
    await bench.decide(await bench.asked())
    await bench.until(lambda _: status(bench).substate is AgentState.RUNNING_TOOL, "a tool")
    return prompt_id, len(of_kind(await bench.events(), "stalled_entered"))
