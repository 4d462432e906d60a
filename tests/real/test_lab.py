"""`interlock debug lab` on a real CLI: an interrupt that the model sees, and a command that outlives its turn."""

from __future__ import annotations

import json

import pytest

from tests.cli.lab_place import lab_place
from tools.agent_clis import install

pytestmark = [pytest.mark.real, pytest.mark.timeout(280)]


def test_the_lab_counts_an_interrupt_of_claude_by_what_the_model_saw() -> None:
    with lab_place() as place:
        chosen = ("--scenario", "interrupt-streaming", "--executable", str(install("claude")))
        done = place.run("claude", *chosen, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert (found["prompts"], found["delivered"]) == (2, 2)
        assert (found["interrupts"], found["interrupted"], found["killed"]) == (1, 1, 0)
        assert (found["ends"], found["ends_right"], found["fabricated"]) == (2, 2, 0)
        assert found["reading"]["unsafe"] == 0
        assert found["reading"]["frames"]["working"][1] > 0
        assert place.left() == []


def test_a_command_that_outlives_its_turn_leaves_claude_settling_and_loses_no_prompt() -> None:
    """It was called working, held the queue, and its own turn after the command was taken for that of a prompt."""
    with lab_place() as place:
        done = place.run("claude", "--scenario", "background", "--executable", str(install("claude")), "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert (found["prompts"], found["delivered"], found["ends_right"], found["fabricated"]) == (3, 3, 3, 0)
        assert found["checks"]["the agent is settling while the command runs"]
        assert place.left() == []
