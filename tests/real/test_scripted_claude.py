"""The real Claude Code through every state that a turn has, each held by a gate of the scripted model."""

from __future__ import annotations

import os
import signal
from typing import Final

import pytest

from interlock.testing.scripted_model import (
    Cut,
    End,
    Error,
    Gate,
    Hang,
    RequestKind,
    RequestOutcome,
    ScriptedCall,
    Shell,
    Text,
    Think,
)
from tests.real.harness import AFTERMATH_SECONDS, DIALOG_SECONDS, HELD_COMMAND, HOLD_SECONDS, Harness
from tests.real.recording import Frame
from tests.real.sessions import Session
from tests.real.stories import QUESTION, TOOL, TURN, Look, allow_and_run_a_tool, think_stream_and_end

pytestmark = pytest.mark.real


def start_up(agent: Harness) -> None:
    agent.wait_for_text("? for shortcuts", "manual mode on")
    agent.truth("idle", "ready")
    agent.watch(HOLD_SECONDS)


def is_working(frame: Frame) -> bool:
    return "esc to interrupt" in frame.text.rstrip().rsplit("\n", 1)[-1]


def is_idle(frame: Frame) -> bool:
    return not is_working(frame) and "? for shortcuts" in frame.text


def see_complete(agent: Harness) -> None:
    agent.wait_for(lambda frame: "· done " in frame.text and is_idle(frame), "a finished turn")
    agent.truth("idle", "complete")
    assert all(is_idle(frame) for frame in agent.watch(HOLD_SECONDS))


def approve(agent: Harness) -> None:
    """See the dialog of a command, hold it, and answer yes."""
    agent.wait_for_text("Do you want to proceed?", "❯ 1. Yes")
    agent.truth("blocked", "approval")
    assert all("Do you want to proceed?" in frame.text for frame in agent.watch(DIALOG_SECONDS))
    agent.truth("working", "approved")
    agent.keys("Enter")


LOOK: Final = Look(start_up, approve, see_complete, is_working)


def test_a_turn_thinks_streams_and_ends(claude: Session) -> None:
    with claude({"turn": TURN}) as agent:
        think_stream_and_end(agent, LOOK, work=lambda running: running.wait_for(is_working, "work"), words="● One.")


def test_an_approval_blocks_and_a_tool_runs(claude: Session) -> None:
    with claude({"tool": TOOL}) as agent:
        allow_and_run_a_tool(agent, LOOK)


def test_a_refused_approval_ends_the_turn(claude: Session) -> None:
    with claude({"tool": (Shell(HELD_COMMAND), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:tool")
        agent.wait_for_text("Do you want to proceed?", "❯ 1. Yes")
        agent.truth("blocked", "approval")
        agent.watch(DIALOG_SECONDS)
        agent.truth("idle", "denied")
        agent.keys("Escape")
        agent.wait_for(lambda frame: "Interrupted" in frame.text and is_idle(frame), "the refusal")
        assert all(is_idle(frame) for frame in agent.watch(AFTERMATH_SECONDS))
        assert not (agent.place.project / "made.txt").exists()


def test_a_question_blocks_until_it_is_answered(claude: Session) -> None:
    with claude({"ask": (QUESTION, Text("A fine colour."))}) as agent:
        start_up(agent)
        agent.submit("SCN:ask")
        agent.wait_for_text("Which colour shall it be?", "❯ 1. Red", "Enter to select")
        agent.truth("blocked", "question")
        assert all("❯ 1. Red" in frame.text for frame in agent.watch(DIALOG_SECONDS))
        agent.truth("working", "answered")
        agent.keys("Enter")
        see_complete(agent)


def test_an_interrupt_while_thinking_gives_the_prompt_back(claude: Session) -> None:
    with claude({"think": (Think("Let me see."), Gate("thinking"), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:think deeply")
        agent.model.wait_reached("thinking")
        agent.truth("working", "thinking")
        agent.wait_for(is_working, "work")
        agent.watch(HOLD_SECONDS)
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        agent.wait_for(
            lambda frame: not is_working(frame) and "❯ SCN:think deeply" in frame.text, "the prompt as a draft"
        )
        agent.wait_dropped()
        assert not any(is_working(frame) for frame in agent.watch(AFTERMATH_SECONDS))


def test_an_interrupt_while_streaming_is_said(claude: Session) -> None:
    with claude({"stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:stream")
        agent.model.wait_reached("streaming")
        agent.truth("working", "streaming")
        agent.wait_for_text("● One.")
        agent.watch(HOLD_SECONDS)
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        agent.wait_for(lambda frame: "Interrupted" in frame.text and is_idle(frame), "the interrupt")
        agent.wait_dropped()
        assert all(is_idle(frame) for frame in agent.watch(AFTERMATH_SECONDS))


def test_an_interrupt_while_a_tool_runs_is_said(claude: Session) -> None:
    with claude({"tool": (Shell(HELD_COMMAND), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:tool")
        approve(agent)
        agent.wait_for(is_working, "the tool at work")
        agent.truth("working", "tool_running")
        agent.watch(HOLD_SECONDS)
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        agent.wait_for(lambda frame: "Interrupted" in frame.text and is_idle(frame), "the interrupt")
        assert all(is_idle(frame) for frame in agent.watch(AFTERMATH_SECONDS))


def test_an_http_error_is_retried_and_then_said(claude: Session) -> None:
    with claude({"error": (Error(500, "the model is out"),)}) as agent:
        start_up(agent)
        agent.submit("SCN:error")
        agent.truth("unscored", "retrying")
        agent.wait_for_text("Retrying in")
        agent.wait_for(lambda frame: "API Error: 500" in frame.text and is_idle(frame), "the final error")
        agent.truth("idle", "error")
        assert all(is_idle(frame) for frame in agent.watch(HOLD_SECONDS))


def test_a_cut_stream_is_asked_for_again(claude: Session) -> None:
    with claude({"cut": (Text("Half"), Cut(times=1), Text(" and whole."))}) as agent:
        start_up(agent)
        agent.submit("SCN:cut")
        agent.truth("unscored", "retrying")
        agent.wait_for_text("Half and whole.")
        see_complete(agent)
        outcomes = [one.outcome for one in agent.model.requests if one.kind is RequestKind.MAIN]
        assert outcomes == [RequestOutcome.CUT, RequestOutcome.ANSWERED]


def test_a_hanging_model_looks_like_work(claude: Session) -> None:
    with claude({"hang": (Think("Let me see."), Hang())}) as agent:
        start_up(agent)
        agent.submit("SCN:hang")
        agent.wait_for(is_working, "work")
        agent.truth("working", "hang")
        assert all(is_working(frame) for frame in agent.watch(10.0))
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        agent.wait_for(lambda frame: not is_working(frame), "the end of the turn")
        agent.wait_dropped()
        agent.watch(AFTERMATH_SECONDS)


def test_a_background_shell_outlives_its_turn(claude: Session) -> None:
    call = ScriptedCall("Bash", {"command": HELD_COMMAND, "description": "Wait", "run_in_background": True})
    script = (call, Text("It runs in the background."), End(), Gate("notice"), Text("It is over."))
    with claude({"background": script}) as agent:
        start_up(agent)
        agent.submit("SCN:background")
        approve(agent)
        agent.wait_for(
            lambda frame: "1 shell" in frame.text and "· done " in frame.text, "a shell beside a finished turn"
        )
        agent.truth("idle", "background_task")
        assert not any(is_working(frame) for frame in agent.watch(HOLD_SECONDS))
        agent.let_tool_end()
        # Its end is told to the model in the user's name: a turn that nobody submitted.
        agent.truth("unscored", "background_ended")
        agent.model.wait_reached("notice")
        agent.truth("working", "background_ended")
        agent.wait_for(is_working, "work")
        assert all(is_working(frame) for frame in agent.watch(HOLD_SECONDS))
        agent.model.release("notice")
        agent.wait_for_text("It is over.")
        see_complete(agent)


def test_a_killed_agent_is_gone(claude: Session) -> None:
    with claude({"think": (Think("Let me see."), Gate("thinking"), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:think")
        agent.model.wait_reached("thinking")
        agent.truth("working", "thinking")
        agent.watch(HOLD_SECONDS)
        agent.truth("gone", "killed")
        os.kill(agent.pid, signal.SIGKILL)
        agent.wait_for(lambda frame: frame.dead, "a dead pane")
        agent.wait_dropped()
        agent.watch(HOLD_SECONDS)
