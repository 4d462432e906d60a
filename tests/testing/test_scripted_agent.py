"""The scripted agent does what its prompt says, in a real terminal, and its profile reads what it shows."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.agents.tmux.capture import PaneCapture
from interlock.agents.tmux.panes import Pane
from interlock.screen.assessment import BusinessState, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli, select_reader
from interlock.screen.snapshot import read_snapshot
from interlock.testing.scripted_agent import Agent, Gates, command, prompts_in, read_ledger
from interlock.testing.scripted_agent.language import VERBS, ScriptBook
from interlock.testing.scripted_agent.ledger import Ledger
from tests.agents.tmux.harness import ends, shows, stage
from tests.contract.harness import run

AGENT: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")
READER: Final = select_reader(builtin_profiles(), "scripted")


def shown(agent: Agent, now: float = 0.0) -> ScreenReading:
    """Its screen, read by its profile."""
    title = {"idle": "ready", "working": "working", "blocked": "asking"}[agent.state]
    rows = "\n".join(agent.rows(now, 60, 20))
    return READER.parse_snapshot(read_snapshot(rows, columns=60, height=20, title=f"scripted - {title}"))


def typed(*keys: str | bytes) -> Agent:
    agent = Agent()
    for key in keys:
        agent.type(key.encode() if isinstance(key, str) else key, 0.0)
        agent.tick(0.0)
    return agent


def test_it_is_idle_until_a_prompt_is_submitted() -> None:
    assert shown(Agent()).assessment.submit_ready
    assert shown(Agent()).draft == ""
    assert shown(typed("hello")).draft == "hello"
    assert shown(typed("hello", "\x7f")).draft == "hell"
    assert typed("\r").state == "idle"


def test_a_step_of_thought_lasts_as_long_as_it_says() -> None:
    agent = typed("think 5", "\r")
    assert shown(agent, 1.0).assessment.business_state is BusinessState.WORKING
    agent.tick(4.9)
    assert agent.state == "working"
    agent.tick(5.0)
    assert shown(agent).assessment.submit_ready
    assert shown(agent).assessment.turn_end is TurnEnd.COMPLETED


def test_a_question_has_options_and_waits() -> None:
    agent = typed("ask May I?; say done", "\r")
    found = shown(agent).assessment
    assert found.operator_blocked
    assert found.block is not None
    assert [(option.text, option.is_selected) for option in found.block.options] == [
        ("Yes, do it", True),
        ("No, and stop", False),
    ]
    agent.type(b"\r", 1.0)
    agent.tick(1.0)
    assert "• done" in agent.transcript
    assert shown(agent).assessment.turn_end is TurnEnd.COMPLETED


def test_no_stops_the_turn() -> None:
    assert shown(typed("ask May I?; say done", "\r", b"\x1b[B", "\r")).assessment.turn_end is TurnEnd.INTERRUPTED


@pytest.mark.parametrize("prompt", ["hang", "think 600", "ask Go on?"])
def test_escape_interrupts_whatever_runs(prompt: str) -> None:
    agent = typed(prompt, "\r", "\x1b")
    assert agent.state == "idle"
    assert shown(agent).assessment.turn_end is TurnEnd.INTERRUPTED


def test_a_failure_is_said_and_ends_the_turn() -> None:
    assert shown(typed("fail no credit; say never", "\r")).assessment.turn_end is TurnEnd.FAILED


def test_a_paste_is_a_draft_whatever_line_ends_it_has() -> None:
    assert typed(b"\x1b[200~one\ntwo\x1b[201~").draft == "one two"


def test_it_exits_as_told() -> None:
    assert typed("exit 3", "\r").exit_code == 3
    assert typed("\x04").exit_code == 0


def test_its_screen_tells_which_cli_it_is() -> None:
    snapshot = read_snapshot("\n".join(Agent().rows(0, 60, 20)), columns=60, title="scripted - ready")
    assert detect_cli(builtin_profiles(), snapshot) == "scripted"


@pytest.mark.parametrize(("columns", "height"), [(20, 8), (200, 50)])
def test_its_screen_has_as_many_rows_as_the_terminal(columns: int, height: int) -> None:
    for agent in (Agent(), typed("hang", "\r"), typed("ask Go on?", "\r")):
        rows = agent.rows(0, columns, height)
        assert len(rows) == height


def played(prompt: str, agent: Agent | None = None) -> Agent:
    """An agent that was given a prompt, and time."""
    agent = agent or Agent()
    agent.type(f"{prompt}\r".encode(), 0.0)
    for _ in range(20):
        agent.tick(0.0)
    return agent


def test_a_gate_holds_it_at_work_until_it_is_opened(tmp_path: Path) -> None:
    gates = Gates(tmp_path)
    agent = played("gate here; say after", Agent(gates=gates))
    assert shown(agent).assessment.business_state is BusinessState.WORKING
    assert gates.reached_by("here") == [os.getpid()]
    gates.open("here")
    agent.tick(0.0)
    agent.tick(0.0)
    assert "• after" in agent.transcript
    assert shown(agent).assessment.turn_end is TurnEnd.COMPLETED


def test_tools_are_shown_and_a_request_asks_first() -> None:
    assert played("call Bash -> hi").transcript[-5:] == ["• Ran Bash", "•   hi", "", "Done in 0s", ""]
    assert shown(played("begin Bash; hang")).assessment.business_state is BusinessState.WORKING
    asked = played("request Write; say done")
    assert shown(asked).assessment.operator_blocked
    asked.type(b"\r", 0.0)
    assert asked.state == "working"


def test_a_question_may_bring_its_own_options(tmp_path: Path) -> None:
    agent = played("ask Which? | Red | Blue; say thanks", Agent(ledger=Ledger(str(tmp_path / "ledger"))))
    found = shown(agent).assessment
    assert found.block is not None
    assert [option.text for option in found.block.options] == ["Red", "Blue"]
    agent.type(b"\x1b[B\r", 0.0)
    agent.tick(0.0)
    assert shown(agent).assessment.turn_end is TurnEnd.COMPLETED
    assert [entry.data["answer"] for entry in read_ledger(tmp_path / "ledger", "answer")] == ["Blue"]


def test_every_prompt_and_interrupt_is_in_its_ledger(tmp_path: Path) -> None:
    agent = played("say one", Agent(ledger=Ledger(str(tmp_path / "ledger"))))
    agent.type(b"hang\r\x1b", 0.0)
    assert prompts_in(tmp_path / "ledger") == ["say one", "hang"]
    assert len(read_ledger(tmp_path / "ledger", "interrupt")) == 1


def test_a_script_decides_what_a_prompt_does() -> None:
    assert "• one" in played("exit 3", Agent(book=ScriptBook("say one\nsay two"))).transcript


def test_a_deaf_agent_is_not_interrupted() -> None:
    agent = played("deaf")
    agent.type(b"\x1b", 0.0)
    assert agent.state == "working"


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"cut", "crash", "ignore", "spawn", "gate"}))
def test_every_verb_leaves_a_screen_that_can_be_read(verb: str) -> None:
    agent = played(f"{verb} 1; say after")
    assert len(agent.rows(0, 60, 20)) == 20
    assert shown(agent).assessment.business_state is not BusinessState.UNKNOWN


def state_of(capture: PaneCapture) -> str:
    return READER.parse_snapshot(capture.snapshot).assessment.business_state.value


async def submit(pane: Pane, prompt: str) -> None:
    await pane.send_text(prompt)
    await shows(pane, lambda capture: READER.parse_snapshot(capture.snapshot).draft == prompt)
    await pane.send_keys("Enter")


def test_in_a_real_terminal_it_works_asks_and_exits() -> None:
    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, lambda capture: state_of(capture) == "idle")
            await submit(on.pane, "think 1; ask May I?; say well; exit 4")
            await shows(on.pane, lambda capture: state_of(capture) == "working")
            await shows(on.pane, lambda capture: state_of(capture) == "awaiting_operator")
            await on.pane.send_keys("Enter")
            assert (await ends(on.pane)).exit_status == 4

    run(main())


def test_in_a_real_terminal_it_follows_its_size() -> None:
    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, lambda capture: state_of(capture) == "idle")
            await on.client.command("resize-window", "-t", on.pane.pane_id, "-x", "50", "-y", "12")
            await submit(on.pane, "say hello")
            capture = await shows(on.pane, "• hello")
            assert (capture.snapshot.columns, len(capture.snapshot.rows)) == (50, 12)
            await shows(on.pane, lambda capture: state_of(capture) == "idle")

    run(main())


@pytest.mark.parametrize(("script", "status", "killed_by"), [("cut 4", 4, None), ("crash TERM", None, 15)])
def test_in_a_real_terminal_it_dies_as_told(
    script: str, status: int | None, killed_by: int | None, tmp_path: Path
) -> None:
    async def main() -> None:
        async with stage(*command("tui", ledger=tmp_path / "ledger", start="say hello")) as on:
            await shows(on.pane, "• hello")
            await submit(on.pane, f"spawn child 5; {script}")
            ended = await ends(on.pane)
            assert (ended.exit_status, ended.exit_signal) == (status, killed_by)
        assert prompts_in(tmp_path / "ledger") == [f"spawn child 5; {script}"]
        assert len(read_ledger(tmp_path / "ledger", "spawned")) == 1

    run(main())


def test_an_interrupted_agent_in_a_terminal_ends_by_its_signal_and_leaves_no_traceback() -> None:
    """What it leaves is the last screen that a person sees of it."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command("tui"), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as agent:
        os.close(theirs)
        said = b""
        while b"Ask for something" not in said:
            said += os.read(ours, 65536)
        agent.send_signal(signal.SIGINT)
        with suppress(OSError):  # the other end is closed: it has ended
            while piece := os.read(ours, 65536):
                said += piece
        assert agent.wait(60) == -signal.SIGINT
    os.close(ours)
    assert b"Traceback" not in said
