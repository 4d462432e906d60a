"""The real Codex, started, typed into and tracked by Interlock itself: each verdict against a held truth."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from interlock.agents.tmux.typing import TypingRefusal
from interlock.monitor.tracker import TrackerEvent
from interlock.testing.scripted_model import Error, Gate, RequestKind, ScriptedModel, Shell, Text, Think
from tests.contract.harness import run
from tests.real.live import LiveAgent, blocked, event, interlock, live_agent, stands, working
from tests.real.processes import family
from tests.real.recipes import CODEX
from tests.real.stories import FOLLOWED, LIMIT_SECONDS, LINES, LONG, follow_turns

pytestmark = pytest.mark.real


def test_turns_are_followed_from_the_prompt_to_their_end(codex_executable: Path, tmp_path: Path) -> None:
    async def story(model: ScriptedModel) -> None:
        async with live_agent(CODEX, codex_executable, model, tmp_path) as agent:
            await follow_turns(agent, model, yes="Yes, proceed")

    with ScriptedModel(FOLLOWED) as model:
        run(story(model), LIMIT_SECONDS)
        assert model.faults == ()


def test_prompts_of_every_shape_arrive_whole(codex_executable: Path, tmp_path: Path) -> None:
    async def story(model: ScriptedModel) -> None:
        async with live_agent(CODEX, codex_executable, model, tmp_path) as agent:
            await agent.ready()
            for prompt in (LINES, LONG):
                await agent.submit(prompt)
                await agent.until(event(TrackerEvent.COMPLETED), "completed")
                await agent.ready()

            await agent.command("/status")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")  # Codex answers it on the screen
            await agent.ready()

            await agent.pane.send_text("half a thought")
            await agent.until(lambda verdict: verdict.draft == "half a thought", "the draft")
            assert (await agent.type("SCN:short")).refusal is TypingRefusal.DRAFT
            assert agent.last.draft == "half a thought"
            assert agent.ends == ["completed", "completed", "completed"]

    with ScriptedModel({"short": (Text("Yes."),)}) as model:
        run(story(model), LIMIT_SECONDS)
        prompts = [one.prompt for one in model.requests if one.kind is RequestKind.MAIN]
        assert LINES in prompts[0]
        assert LONG in prompts[1]


def test_ends_other_than_success_are_told_apart(codex_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said.")),
        "deny": (Shell("touch made.txt"), Text("Never said.")),
        "error": (Error(400, "the model is out"),),
        "think": (Think("Let me see."), Gate("thinking"), Text("Never said.")),
    }

    async def story(model: ScriptedModel) -> None:
        async with live_agent(CODEX, codex_executable, model, tmp_path) as agent:
            await agent.ready()
            await agent.submit("SCN:stream")
            await model.reached("streaming")
            await agent.until(working, "working")
            await agent.pane.send_keys("Escape")
            await agent.until(event(TrackerEvent.INTERRUPTED), "interrupted")
            await agent.ready()

            await agent.submit("SCN:deny")
            await agent.until(blocked, "blocked")
            await agent.pane.send_keys("Escape")
            await agent.until(event(TrackerEvent.INTERRUPTED), "interrupted by the refusal")
            await agent.ready()

            await agent.submit("SCN:error")
            failed = await agent.until(event(TrackerEvent.FAILED), "failed")
            assert failed.attention == "error"

            await agent.submit("SCN:think deeply")
            await model.reached("thinking")
            await agent.until(working, "working")
            kill(agent)
            gone = await agent.until(event(TrackerEvent.GONE), "gone")
            assert gone.activity == "gone"
            assert gone.standing.basis.excerpt != "exit code None"
            assert (await agent.type("anybody?")).refusal is TypingRefusal.CLOSED
            assert agent.ends == ["interrupted", "interrupted", "failed", "gone"]

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)


def test_what_codex_says_of_itself_is_heard_through_the_shim(codex_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said.")),
        "tool": (Shell("touch made.txt"), Text("The tool ran.")),
        "again": (Text("One.\n\n", "Two"), Gate("again"), Text(" three.")),
    }

    async def story(model: ScriptedModel) -> None:
        async with live_agent(CODEX, codex_executable, model, tmp_path, with_shim=True) as agent:
            await agent.ready()
            code, printed = await interlock("debug", "inspect", "--socket", agent.info.identity.socket, "--json")
            found = json.loads(printed)
            assert (code, found["cli"], found["version"], found["selection"]) == (0, "codex", CODEX.version, "version")
            await agent.submit("SCN:stream")
            await model.reached("streaming")
            await agent.until(stands("working"), "working")
            await agent.pane.send_keys("Escape")
            assert (await agent.until(event(TrackerEvent.INTERRUPTED), "interrupted")).activity == "quiet"
            await agent.ready()

            await agent.submit("SCN:tool")
            await agent.until(blocked, "blocked")
            await agent.choose("Yes, proceed")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            await agent.ready()
            said = agent.said_by_shim()
            assert ("blocked", "permission") in said
            assert [state for state, _ in said][-1] == "done"

            await agent.hang_up_on_shim()
            await agent.submit("SCN:again")
            await model.reached("again")
            await agent.until(working, "working")
            await agent.stays(working, "working, by the terminal alone")
            model.release("again")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            assert agent.ends == ["interrupted", "completed", "completed"]

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)


def kill(agent: LiveAgent) -> None:
    for pid in family(agent.info.identity.pid):  # the launcher, and the native program that draws
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
