"""The real Codex through every state that a turn has, each held by a gate of the scripted model.

While an answer streams, its screen looks idle: only the title, which shows a spinner, tells the work.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final

import pytest

from interlock.testing.scripted_model import Cut, Error, Gate, Hang, RequestKind, RequestOutcome, Shell, Text, Think
from tests.real.harness import AFTERMATH_SECONDS, DIALOG_SECONDS, HELD_COMMAND, HOLD_SECONDS, Harness
from tests.real.processes import family
from tests.real.recording import Frame
from tests.real.sessions import Session
from tests.real.stories import TOOL, TURN, Look, allow_and_run_a_tool, think_stream_and_end

pytestmark = pytest.mark.real

BRAILLE: Final = range(0x2800, 0x2900)
APPROVAL: Final = "Would you like to run the following command?"


def is_working(frame: Frame) -> bool:
    return bool(frame.title) and ord(frame.title[0]) in BRAILLE


def is_idle(frame: Frame) -> bool:
    return not is_working(frame) and "Action Required" not in frame.title and "GPT-5.5 default" in frame.text


def start_up(agent: Harness) -> None:
    # The composer is drawn before the session stands, and would swallow an Enter: the line of the model comes last.
    agent.wait_for(lambda frame: is_idle(frame) and "project" in frame.title, "a composer with the model below")
    agent.truth("idle", "ready")
    agent.watch(HOLD_SECONDS)


def see_complete(agent: Harness) -> None:
    agent.wait_for(lambda frame: "Worked for" in frame.text and is_idle(frame), "a finished turn")
    agent.truth("idle", "complete")
    assert all(is_idle(frame) for frame in agent.watch(HOLD_SECONDS))


def approve(agent: Harness) -> None:
    """See the dialog of a command, hold it, and answer yes."""
    agent.wait_for_text(APPROVAL, "› 1. Yes, proceed")
    agent.truth("blocked", "approval")
    assert all(APPROVAL in frame.text for frame in agent.watch(DIALOG_SECONDS))
    agent.truth("working", "approved")
    agent.keys("Enter")


def see_interrupted(agent: Harness) -> None:
    agent.wait_for(lambda frame: "Conversation interrupted" in frame.text and is_idle(frame), "the interrupt")
    assert all(is_idle(frame) for frame in agent.watch(AFTERMATH_SECONDS))


LOOK: Final = Look(start_up, approve, see_complete, is_working)


def test_a_turn_thinks_streams_and_ends(codex: Session) -> None:
    with codex({"turn": TURN}) as agent:
        think_stream_and_end(
            agent, LOOK, work=lambda running: running.wait_for_text("esc to interrupt"), words="• One."
        )
        assert [
            one.purpose for one in agent.model.requests if one.kind is RequestKind.SIDE and one.purpose != "list"
        ] == ["title"]


def test_an_approval_blocks_and_a_tool_runs(codex: Session) -> None:
    with codex({"tool": TOOL}) as agent:
        allow_and_run_a_tool(agent, LOOK)


def test_a_refused_approval_ends_the_turn(codex: Session) -> None:
    with codex({"tool": (Shell(HELD_COMMAND), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:tool")
        agent.wait_for_text(APPROVAL, "› 1. Yes, proceed")
        agent.truth("blocked", "approval")
        agent.watch(DIALOG_SECONDS)
        agent.truth("idle", "denied")
        agent.keys("Escape")
        see_interrupted(agent)
        assert not (agent.place.project / "made.txt").exists()


def test_an_interrupt_while_thinking_is_said(codex: Session) -> None:
    with codex({"think": (Think("Let me see."), Gate("thinking"), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:think deeply")
        agent.model.wait_reached("thinking")
        agent.truth("working", "thinking")
        agent.wait_for_text("esc to interrupt")
        agent.watch(HOLD_SECONDS)
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        agent.wait_dropped()
        see_interrupted(agent)


def test_an_interrupt_while_streaming_is_said(codex: Session) -> None:
    with codex({"stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:stream")
        agent.model.wait_reached("streaming")
        agent.truth("working", "streaming")
        agent.wait_for_text("• One.")
        assert all(is_working(frame) for frame in agent.watch(HOLD_SECONDS))
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        agent.wait_dropped()
        see_interrupted(agent)


def test_an_interrupt_while_a_tool_runs_is_said(codex: Session) -> None:
    with codex({"tool": (Shell(HELD_COMMAND), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:tool")
        approve(agent)
        agent.wait_for(is_working, "the tool at work")
        agent.truth("working", "tool_running")
        agent.watch(HOLD_SECONDS)
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        see_interrupted(agent)


def test_an_http_error_is_retried_and_then_said(codex: Session) -> None:
    with codex({"error": (Error(500, "the model is out"),)}) as agent:
        start_up(agent)
        agent.submit("SCN:error")
        agent.truth("unscored", "retrying")
        agent.wait_for(lambda frame: "■" in frame.text and is_idle(frame), "the final error")
        agent.truth("idle", "error")
        assert all(is_idle(frame) for frame in agent.watch(HOLD_SECONDS))


def test_a_cut_stream_is_asked_for_again(codex: Session) -> None:
    with codex({"cut": (Text("Half"), Cut(times=1), Text(" and whole."))}) as agent:
        start_up(agent)
        agent.submit("SCN:cut")
        agent.truth("unscored", "retrying")
        agent.wait_for_text("Half and whole.")
        see_complete(agent)
        outcomes = [one.outcome for one in agent.model.requests if one.kind is RequestKind.MAIN]
        assert outcomes == [RequestOutcome.CUT, RequestOutcome.ANSWERED]


def test_a_hanging_model_looks_like_work(codex: Session) -> None:
    with codex({"hang": (Think("Let me see."), Hang())}) as agent:
        start_up(agent)
        agent.submit("SCN:hang")
        agent.wait_for_text("esc to interrupt")
        agent.truth("working", "hang")
        assert all(is_working(frame) for frame in agent.watch(10.0))
        agent.truth("idle", "interrupted")
        agent.keys("Escape")
        agent.wait_dropped()
        see_interrupted(agent)


def test_a_killed_agent_is_gone(codex: Session) -> None:
    with codex({"think": (Think("Let me see."), Gate("thinking"), Text("Never said."))}) as agent:
        start_up(agent)
        agent.submit("SCN:think")
        agent.model.wait_reached("thinking")
        agent.truth("working", "thinking")
        agent.watch(HOLD_SECONDS)
        agent.truth("gone", "killed")
        for pid in family(agent.pid):  # The launcher, and the native program that draws. One may take the other along.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        agent.wait_for(lambda frame: frame.dead, "a dead pane")
        agent.wait_dropped()
        agent.watch(HOLD_SECONDS)
