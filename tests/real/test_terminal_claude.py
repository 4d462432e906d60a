"""The real Claude Code behind the terminal driver: what is told, and what becomes of each command."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    Exited,
    SessionNamed,
    StandingSeen,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import Decision, NotDelivered
from interlock.agents.processes.identity import is_alive
from interlock.agents.terminal.driver import TerminalDriver
from interlock.testing.scripted_model import Gate, RequestKind, ScriptedModel, Shell, Step, Text, Think
from interlock.vocabulary.states import Activity, Attention
from tests.agents.terminal.harness import driving, press, prompt, reading, shows
from tests.contract.harness import run
from tests.real.recipes import CLAUDE
from tests.real.stories import LIMIT_SECONDS, QUESTION
from tests.real.terminal import PATIENT, claude_or_codex, spec_of, submit

pytestmark = pytest.mark.real


def test_dialogs_are_answered_by_their_text(claude_executable: Path, tmp_path: Path) -> None:
    scripts: dict[str, tuple[Step, ...]] = {
        "allow": (Shell("touch allowed.txt"), Text("It ran.")),
        "deny": (Shell("touch denied.txt"), Text("It did not run.")),
        "ask": (QUESTION, Text("Blue, then.")),
    }

    async def story(model: ScriptedModel) -> None:
        async with (
            driving(PATIENT) as driver,
            claude_or_codex(driver, CLAUDE, claude_executable, model, tmp_path) as seen,
        ):
            handle = seen.handle
            await seen.until(BecameReady, within_seconds=60)
            await submit(seen, "SCN:allow")
            asked = await seen.until(ApprovalAsked)
            assert asked.attention is Attention.APPROVAL
            assert "touch allowed.txt" in asked.question
            labels = [one.label for one in asked.options]
            assert labels[0] == "Yes"
            with pytest.raises(NotDelivered, match="dialog"):
                await handle.submit(prompt("not into a dialog"))
            await handle.decide(Decision(request_id=asked.request_id, is_allowed=True, option_label="Yes"))
            assert (await seen.until(ApprovalGone)).is_answered
            ended = await seen.until(TurnEnded)
            assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "It ran.")
            await seen.until(BecameReady)
            assert (tmp_path / "project" / "allowed.txt").exists()

            await submit(seen, "SCN:deny")
            asked = await seen.until(ApprovalAsked)
            await handle.decide(Decision(request_id=asked.request_id, is_allowed=False))
            assert (await seen.until(ApprovalGone)).is_answered
            await seen.until(TurnEnded)
            await seen.until(BecameReady)
            assert not (tmp_path / "project" / "denied.txt").exists()

            await submit(seen, "SCN:ask")
            asked = await seen.until(ApprovalAsked)
            assert asked.attention is Attention.QUESTION
            assert "Which colour shall it be?" in asked.question
            await handle.decide(Decision(request_id=asked.request_id, is_allowed=True, option_label="Blue"))
            assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL
            await seen.until(BecameReady)

            await submit(seen, "SCN:ask for another one")
            asked = await seen.until(ApprovalAsked)
            await handle.decide(Decision(request_id=asked.request_id, is_allowed=True, text="Green of the woods"))
            assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL
            assert [named.transcript_path[-6:] for named in seen.of(SessionNamed)] == [".jsonl"]
            assert len(seen.of(ApprovalAsked)) == len(seen.of(ApprovalGone)) == 4

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)
        bodies = str([one.body for one in model.requests if one.kind is RequestKind.MAIN])
        assert "Blue" in bodies
        assert "Green of the woods" in bodies


def test_interrupts_drafts_adoption_and_a_kill(claude_executable: Path, tmp_path: Path) -> None:
    scripts: dict[str, tuple[Step, ...]] = {
        "think": (Think("Let me see."), Gate("thinking"), Text("Never said.")),
        "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said.")),
        "long": (Think("Let me see."), Gate("long"), Text("All done.")),
        "last": (Think("Let me see."), Gate("last"), Text("Never said.")),
    }

    async def story(model: ScriptedModel) -> None:
        async with (
            driving(PATIENT) as driver,
            claude_or_codex(driver, CLAUDE, claude_executable, model, tmp_path) as seen,
        ):
            handle = seen.handle
            await seen.until(BecameReady, within_seconds=60)
            await press(seen, "half a thought")
            await shows(seen, "half a thought")
            with pytest.raises(NotDelivered, match="draft of somebody"):
                await handle.submit(prompt("SCN:think"))
            await press(seen, "C-u")
            await shows(seen, "? for shortcuts")

            await submit(seen, "SCN:think")
            await model.reached("thinking")
            await handle.interrupt()
            assert (await seen.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            # Claude puts the prompt back into its composer: that draft is ours, and does not stand in the way.
            await submit(seen, "SCN:stream")
            await model.reached("streaming")
            await handle.interrupt()
            assert (await seen.until(TurnEnded)).ending is TurnEnding.INTERRUPTED

            await seen.until(BecameReady)
            await submit(seen, "SCN:long")
            await model.reached("long")
            await handle.release()
            other = TerminalDriver(driver.run_folder, driver.server, PATIENT, driver.profiles)
            spec = spec_of(CLAUDE, claude_executable, model, tmp_path)
            adopted = await other.adopt(spec, handle.spawn_id, handle.where)
            try:
                async with reading(adopted) as again:
                    await again.until(StandingSeen, lambda one: one.standing.activity is Activity.WORKING)
                    model.release("long")
                    ended = await again.until(TurnEnded)
                    # Nobody who saw the prompt being sent is left, so nobody can tell whose answer stands there.
                    assert (ended.ending, ended.text) == (TurnEnding.NATURAL, None)
                    await again.until(BecameReady)
                    await submit(again, "SCN:last")
                    await model.reached("last")
                    assert adopted.process is not None
                    os.kill(adopted.process.pid, signal.SIGKILL)
                    exited = await again.until(Exited)
                    assert (exited.code, exited.signal) == (None, signal.SIGKILL)
                    assert not is_alive(adopted.process)
            finally:
                await adopted.stop()

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)


def test_a_turn_that_ended_while_nobody_watched_is_told_by_its_transcript(
    claude_executable: Path, tmp_path: Path
) -> None:
    scripts: dict[str, tuple[Step, ...]] = {"long": (Think("Let me see."), Gate("long"), Text("All done."))}

    async def story(model: ScriptedModel) -> None:
        async with (
            driving(PATIENT) as driver,
            claude_or_codex(driver, CLAUDE, claude_executable, model, tmp_path) as seen,
        ):
            handle = seen.handle
            await seen.until(BecameReady, within_seconds=60)
            await submit(seen, "SCN:long")
            await model.reached("long")
            await handle.release()
            model.release("long")
            await shows(seen, "All done.")
            await shows(seen, "? for shortcuts")
            spec = spec_of(CLAUDE, claude_executable, model, tmp_path)
            adopted = await driver.adopt(spec, handle.spawn_id, handle.where)
            adopted.expect("SCN:long")
            try:
                async with reading(adopted) as again:
                    ended = await again.until(TurnEnded)
                    assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "All done.")
                    await again.until(BecameReady)
                    assert len(again.of(TurnEnded)) == 1
                    assert not await adopted.is_attended()
            finally:
                await adopted.stop()

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)
