"""A person's draft in the composer of a real CLI: a prompt waits for it, by the commands, and goes on by itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from interlock.testing.scripted_model import ScriptedModel, Text
from tests.cli.serving import until
from tests.real.runtime_agents import CLAUDE_TERMINAL, CODEX_TERMINAL, Agent
from tests.real.test_commands import Shellful, shell_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

DRAFT = "a draft of somebody stands in the composer"
# The prompt has failed by then, where it is given a few times and no more.
_LONG_ENOUGH = "12"


def tmux(shell: Shellful, *words: str) -> str:
    """A command of the tmux server that runs the agent; `PANE` is its pane."""
    argv = json.loads(shell.run("attach", "job", "--json"))["argv"]
    command = [*argv[: argv.index("-N")], *(argv[-1] if word == "PANE" else word for word in words)]
    done = subprocess.run(command, env=shell.environment, capture_output=True, timeout=60, check=True)
    return done.stdout.decode("utf-8", "replace")


@pytest.mark.parametrize("agent", [CLAUDE_TERMINAL, CODEX_TERMINAL], ids=["claude", "codex"])
def test_a_prompt_waits_for_a_draft_and_goes_on_by_itself(agent: Agent, tmp_path: Path) -> None:
    scripts = {"short": (Text("Short."),), "mine": (Text("Mine."),)}
    with ScriptedModel(scripts) as model, shell_for(agent.spec(model, tmp_path)) as shell:

        def screen() -> str:
            return tmux(shell, "capture-pane", "-p", "-t", "PANE")

        shell.run("run", agent.cli, "--tui", "--title", "job", "--wait", "SCN:short one")
        tmux(shell, "send-keys", "-t", "PANE", "half a thought")
        until(lambda: "half a thought" in screen(), "the draft is drawn")
        shell.run("send", "job", "SCN:mine please", "--wait", "--timeout", _LONG_ENOUGH, code=5)
        (line,) = json.loads(shell.run("ps", "--json"))["sessions"]
        assert (line["waits_for"], line["queued"]) == (DRAFT, 1), line
        assert "half a thought" in screen()
        assert "SCN:mine" not in screen()
        tmux(shell, "send-keys", "-t", "PANE", "C-u")
        until(lambda: "Mine." in screen(), "the prompt went on by itself")
        assert "completed" in shell.run("wait", "job", "--timeout", "60")
        assert shell.run("turns", "job", "--json").count('"completed"') >= 2
        asked = str([one.body for one in model.requests])
        assert ("half a thought" in asked, "SCN:mine please" in asked) == (False, True)
        assert model.faults == ()
