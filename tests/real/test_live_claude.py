"""The real Claude Code, started, typed into and tracked by Interlock itself: each verdict against a held truth."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from interlock.agents.tmux.typing import TypingRefusal, Verified
from interlock.monitor.tracker import TrackerEvent
from interlock.testing.scripted_model import Error, Gate, RequestKind, ScriptedModel, Shell, Text, Think
from interlock.vocabulary.evidence import EvidenceSource
from tests.contract.harness import run
from tests.real.live import ENDS, blocked, event, interlock, live_agent, options, ready, reported, stands, working
from tests.real.live_sources import HOOKED, sources_of
from tests.real.recipes import CLAUDE
from tests.real.stories import FOLLOWED, LIMIT_SECONDS, LINES, LONG, QUESTION, follow_turns

pytestmark = pytest.mark.real


def test_turns_are_followed_from_the_prompt_to_their_end(claude_executable: Path, tmp_path: Path) -> None:
    async def story(model: ScriptedModel) -> None:
        async with live_agent(CLAUDE, claude_executable, model, tmp_path) as agent:
            await follow_turns(agent, model, yes="Yes")

    with ScriptedModel(FOLLOWED) as model:
        run(story(model), LIMIT_SECONDS)
        assert model.faults == ()


def test_prompts_of_every_shape_arrive_whole(claude_executable: Path, tmp_path: Path) -> None:
    async def story(model: ScriptedModel) -> None:
        async with live_agent(CLAUDE, claude_executable, model, tmp_path) as agent:
            await agent.ready()
            assert (await agent.submit(LINES)).verified in (Verified.EXACT, Verified.PLACEHOLDER)
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            await agent.ready()
            assert (await agent.submit(LONG)).verified is Verified.PLACEHOLDER
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            await agent.ready()

            await agent.command("/status")
            await agent.until(blocked, "a panel that waits")
            await agent.pane.send_keys("Escape")
            await agent.until(ready, "ready again")

            await agent.pane.send_text("half a thought")
            await agent.until(lambda verdict: verdict.draft == "half a thought", "the draft")
            assert (await agent.type("SCN:short")).refusal is TypingRefusal.DRAFT
            assert agent.last.draft == "half a thought"
            assert agent.ends == ["completed", "completed"]

    with ScriptedModel({"short": (Text("Yes."),)}) as model:
        run(story(model), LIMIT_SECONDS)
        prompts = [one.prompt for one in model.requests if one.kind is RequestKind.MAIN]
        assert LINES in prompts[0]
        assert LONG in prompts[1]


def test_ends_other_than_success_are_told_apart(claude_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said.")),
        "ask": (QUESTION, Text("Blue, then.")),
        "error": (Error(400, "the model is out"),),
        "think": (Think("Let me see."), Gate("thinking"), Text("Never said.")),
    }

    async def story(model: ScriptedModel) -> None:
        async with live_agent(CLAUDE, claude_executable, model, tmp_path) as agent:
            await agent.ready()
            await agent.submit("SCN:stream")
            await model.reached("streaming")
            await agent.until(working, "working")
            await agent.pane.send_keys("Escape")
            await agent.until(event(TrackerEvent.INTERRUPTED), "interrupted")
            await agent.ready()

            await agent.submit("SCN:ask")
            asked = await agent.until(lambda one: blocked(one) and one.attention == "question", "asking a question")
            assert [option.text.split()[0] for option in options(asked)[:2]] == ["Red", "Blue"]
            await agent.choose("Blue")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            await agent.ready()

            await agent.submit("SCN:error")
            failed = await agent.until(event(TrackerEvent.FAILED), "failed")
            assert failed.attention == "error"

            await agent.submit("SCN:think deeply")
            await model.reached("thinking")
            await agent.until(working, "working")
            os.kill(agent.info.identity.pid, signal.SIGKILL)
            gone = await agent.until(event(TrackerEvent.GONE), "gone")
            assert (gone.activity, gone.standing.basis.excerpt) == ("gone", f"signal {signal.SIGKILL.value}")
            assert (await agent.type("anybody?")).refusal is TypingRefusal.CLOSED
            assert agent.ends == ["interrupted", "completed", "failed", "gone"]

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)


def test_what_claude_says_of_itself_is_heard_through_the_shim(claude_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "think": (Think("Let me see."), Gate("thinking"), Text("Never said.")),
        "tool": (Shell("touch made.txt"), Text("The tool ran.")),
        "again": (Text("One.\n\n", "Two"), Gate("again"), Text(" three.")),
    }

    async def story(model: ScriptedModel) -> None:
        async with live_agent(CLAUDE, claude_executable, model, tmp_path, with_shim=True) as agent:
            await agent.until(stands("quiet"), "quiet")
            await agent.ready()
            await agent.submit("SCN:think")
            await model.reached("thinking")
            await agent.until(stands("working"), "working")
            await agent.stays(stands("working"), "working")
            # No hook fires on Escape, and the prompt goes back into the composer; its record says so too.
            await agent.pane.send_keys("Escape")
            assert (await agent.until(event(TrackerEvent.INTERRUPTED), "interrupted")).activity == "quiet"
            assert agent.said_by_shim() == [("idle", ""), ("working", ""), ("idle", "")]
            await agent.pane.send_keys("C-u")
            await agent.until(lambda verdict: verdict.draft == "", "without the draft")

            await agent.submit("SCN:tool")
            await agent.until(blocked, "blocked")
            await agent.choose("Yes")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            await agent.ready()
            assert ("blocked", "permission") in agent.said_by_shim()
            assert agent.said_by_shim()[-1] == ("done", "")
            assert any(b"approve Bash: touch made.txt" in line for line in agent.lines)

            await agent.hang_up_on_shim()
            await agent.submit("SCN:again")
            await model.reached("again")
            await agent.until(working, "working")
            await agent.stays(lambda one: one.standing.rung is EvidenceSource.SCREEN, "by the screen")
            model.release("again")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            assert agent.ends == ["interrupted", "completed", "completed"]

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)


def test_hooks_and_the_session_file_agree_with_the_truth(claude_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said.")),
        "tool": (Shell("touch made.txt"), Text("The tool ran.")),
        "again": (Text("One.\n\n", "Two"), Gate("again"), Text(" three.")),
    }
    hook, file = EvidenceSource.HOOK, EvidenceSource.NATIVE_FILE

    async def story(model: ScriptedModel) -> None:
        async with live_agent(HOOKED, claude_executable, model, tmp_path) as agent, sources_of(agent) as sources:
            await agent.ready()
            await agent.submit("SCN:stream")
            await model.reached("streaming")
            await agent.until(reported("working", hook), "working, by a hook")
            # No hook tells of an Escape. The screen says otherwise, and after a while it is believed.
            await agent.pane.send_keys("Escape")
            await agent.until(lambda one: one.activity == "quiet", "quiet, although the hook said working")
            assert agent.last.standing.rung is EvidenceSource.SCREEN
            assert agent.ends == ["interrupted"]
            assert [claim.rule for claim in sources.hooks] == ["hook.SessionStart", "hook.UserPromptSubmit"]

            await agent.submit("SCN:tool")
            await agent.until(blocked, "blocked")
            await agent.choose("Yes")
            await agent.until(reported("quiet", hook), "quiet, by a hook")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            assert [claim.rule.removeprefix("hook.") for claim in sources.hooks[2:]] == [
                "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop",
            ]  # fmt: skip
            assert sources.statuses == ["idle", "busy", "idle", "busy", "waiting", "busy", "idle"]

            # A file that was written before a hook fired says nothing of what came after it. So now the file alone.
            sources.feeds_hooks, sources.feeds_file = False, True
            await agent.ready()
            await agent.submit("SCN:again")
            await model.reached("again")
            await agent.until(reported("working", file), "working, by the file")
            model.release("again")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            await agent.until(reported("quiet", file), "quiet, by the file")
            assert agent.ends == ["interrupted", "completed", "completed"]

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)


def test_a_pane_of_somebody_else_is_adopted_and_recorded(claude_executable: Path, tmp_path: Path) -> None:
    scripts = {
        "turn": (Think("Let me see."), Gate("thinking"), Text("Yes.")),
        "tool": (Think("I will."), Gate("tool"), Shell("touch made.txt"), Text("The tool ran.")),
    }
    recording = tmp_path / "run.ndjson.gz"

    async def story(model: ScriptedModel) -> None:
        async with live_agent(CLAUDE, claude_executable, model, tmp_path) as agent:
            socket = agent.info.identity.socket
            adopt = ("debug", "inspect", agent.info.pane_id, "--socket", socket, "--json")
            await agent.ready()
            code, printed = await interlock(*adopt)
            found = json.loads(printed)
            assert (code, found["cli"], found["version"], found["selection"]) == (
                0,
                "claude",
                CLAUDE.version,
                "version",
            )
            assert (found["pid"], found["started"]) == (agent.info.identity.pid, agent.info.identity.started)
            assert (found["verdict"]["business_state"], found["verdict"]["activity"]) == ("idle", "quiet")

            words = ("record", "--socket", socket, "--output", str(recording), "--json")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "interlock.cli", *words,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stderr is not None
            assert b"recording" in await process.stderr.readline()
            await agent.submit("SCN:turn")
            await model.reached("thinking")
            await agent.until(working, "working")
            assert json.loads((await interlock(*adopt))[1])["verdict"]["business_state"] == "working"
            model.release("thinking")
            await agent.until(event(TrackerEvent.COMPLETED), "completed")
            await agent.ready()
            await agent.stays(ready, "ready for as long as a recording needs to be sure of it", 2.0)
            await agent.submit("SCN:tool")
            await model.reached("tool")
            await agent.until(working, "working")
            await agent.stays(working, "at work for as long as a recording needs to see it", 1.0)
            model.release("tool")
            await agent.until(lambda verdict: bool(options(verdict)), "asking")
            code, printed = await interlock(*adopt)
            verdict = json.loads(printed)["verdict"]
            assert (code, verdict["kind"], verdict["options"][0]["text"]) == (6, "approval", "Yes")
            process.send_signal(signal.SIGINT)
            printed_at_end, _ = await process.communicate()
            assert json.loads(printed_at_end)["version"] == CLAUDE.version

    with ScriptedModel(scripts) as model:
        run(story(model), LIMIT_SECONDS)
    _, printed = run(interlock("track", str(recording), "--json"))
    verdicts = [json.loads(line) for line in printed.splitlines()]
    states = [verdict["business_state"] for verdict in verdicts]
    told = [state for number, state in enumerate(states) if number == 0 or state != states[number - 1]]
    assert [state for state in told if state != "unknown"] == [
        "idle",
        "working",
        "idle",
        "working",
        "awaiting_operator",
    ]
    assert [one for verdict in verdicts for one in verdict["events"] if one in ENDS] == ["completed"]
