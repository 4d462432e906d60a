"""The scripted agent does what its prompt says, in a real terminal, and its profile reads what it shows."""

from __future__ import annotations

import sys
from typing import Final

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.agents.tmux.capture import PaneCapture
from interlock.agents.tmux.panes import Pane
from interlock.screen.assessment import BusinessState, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli, select_reader
from interlock.screen.snapshot import read_snapshot
from interlock.testing.scripted_agent import Agent
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
            await on.pane.resize(50, 12)
            await submit(on.pane, "say hello")
            capture = await shows(on.pane, "• hello")
            assert (capture.snapshot.columns, len(capture.snapshot.rows)) == (50, 12)
            await shows(on.pane, lambda capture: state_of(capture) == "idle")

    run(main())
