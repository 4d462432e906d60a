"""The real Codex behind the terminal driver: what is told, and what becomes of each command."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChannelLost,
    Exited,
    StandingSeen,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import Decision, NotDelivered
from interlock.agents.processes.identity import is_alive
from interlock.agents.terminal.driver import TerminalDriver
from interlock.testing.scripted_model import Error, Gate, ScriptedModel, Shell, Text, Think
from interlock.vocabulary.states import Activity, Attention
from tests.agents.terminal.harness import driving, press, prompt, reading, shows
from tests.contract.harness import run
from tests.real.recipes import CODEX
from tests.real.stories import LIMIT_SECONDS
from tests.real.terminal import PATIENT, claude_or_codex, spec_of, submit

pytestmark = pytest.mark.real


def test_dialogs_interrupts_and_errors(codex_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "allow": (Shell("touch allowed.txt"), Text("It ran.")),
        "deny": (Shell("touch denied.txt"), Text("It did not run.")),
        "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said.")),
        "error": (Error(400, "the model is out"),),
    }

    async def story(model: ScriptedModel) -> None:
        async with (
            driving(PATIENT) as driver,
            claude_or_codex(driver, CODEX, codex_executable, model, tmp_path) as seen,
        ):
            handle = seen.handle
            await seen.until(BecameReady, within_seconds=60)
            await submit(seen, "SCN:allow")
            asked = await seen.until(ApprovalAsked)
            assert asked.attention is Attention.APPROVAL
            assert "touch allowed.txt" in asked.question
            label = asked.options[0].label
            assert label.startswith("Yes, proceed")
            await handle.decide(Decision(request_id=asked.request_id, is_allowed=True, option_label=label))
            assert (await seen.until(ApprovalGone)).is_answered
            ended = await seen.until(TurnEnded)
            assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "It ran.")
            assert (tmp_path / "project" / "allowed.txt").exists()
            await seen.until(BecameReady)

            await submit(seen, "SCN:deny")
            asked = await seen.until(ApprovalAsked)
            await handle.decide(Decision(request_id=asked.request_id, is_allowed=False))
            assert (await seen.until(ApprovalGone)).is_answered
            assert (await seen.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            assert not (tmp_path / "project" / "denied.txt").exists()
            await seen.until(BecameReady)

            await submit(seen, "SCN:stream")
            await model.reached("streaming")
            await handle.interrupt()
            assert (await seen.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            await seen.until(BecameReady)

            await submit(seen, "SCN:error")
            ended = await seen.until(TurnEnded)
            assert ended.ending is TurnEnding.ERROR
            assert "the model is out" in ended.error_message

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)


def test_a_draft_adoption_and_a_dead_server(codex_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "long": (Think("Let me see."), Gate("long"), Text("All done.")),
        "last": (Think("Let me see."), Gate("last"), Text("Never said.")),
    }

    async def story(model: ScriptedModel) -> None:
        async with (
            driving(PATIENT) as driver,
            claude_or_codex(driver, CODEX, codex_executable, model, tmp_path) as seen,
        ):
            handle = seen.handle
            await seen.until(BecameReady, within_seconds=60)
            await press(seen, "half a thought")
            await shows(seen, "half a thought")
            with pytest.raises(NotDelivered, match="draft of somebody"):
                await handle.submit(prompt("SCN:long"))
            await press(seen, "C-u")
            await shows(seen, "? for shortcuts")
            await submit(seen, "SCN:long")
            await model.reached("long")
            await handle.release()
            other = TerminalDriver(driver.run_folder, driver.server, PATIENT, driver.profiles)
            spec = spec_of(CODEX, codex_executable, model, tmp_path)
            adopted = await other.adopt(spec, handle.spawn_id, handle.where)
            try:
                async with reading(adopted) as again:
                    await again.until(StandingSeen, lambda one: one.standing.activity is Activity.WORKING)
                    model.release("long")
                    assert (await again.until(TurnEnded)).ending is TurnEnding.NATURAL
                    await again.until(BecameReady)
                    await submit(again, "SCN:last")
                    await model.reached("last")
                    await driver.server.kill()
                    await again.until(ChannelLost)
                    report = await adopted.stop()
                    await again.until(Exited)
                    assert report.survivors == ()
                    assert adopted.process is not None
                    assert not is_alive(adopted.process)
            finally:
                await adopted.stop()

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)
