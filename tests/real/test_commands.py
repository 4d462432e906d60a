"""The README's next line with real CLIs: one person at a shell, `interlock` and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.port import AgentSpec
from interlock.testing.scripted_model import ScriptedModel, Shell, Step, Text
from tests.real.runtime_agents import CLAUDE_STREAM, CLAUDE_TERMINAL, CODEX_STREAM, CODEX_TERMINAL, Agent
from tests.real.runtime_harness import left_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

AGENTS: Final = (CLAUDE_TERMINAL, CODEX_TERMINAL, CLAUDE_STREAM, CODEX_STREAM)
COMMAND_SECONDS: Final = 90.0
SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    "short": (Text("Short."),),
    "allow": (Text("I will look."), Shell("touch allowed.txt; echo made"), Text("It ran.")),
}


@dataclass(frozen=True, slots=True)
class Shellful:
    """A shell with an empty home of its own. Its commands end, or the test does."""

    environment: Mapping[str, str]

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            (sys.executable, "-m", "interlock.cli", *words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@contextmanager
def shell_for(spec: AgentSpec) -> Iterator[Shellful]:
    """Where the agent's own program and environment are all that is configured."""
    folder = Path(tempfile.mkdtemp(prefix="il-"))  # a short path: those of sockets are bounded
    mode = "driver" if spec.driver == "terminal" else "stream_driver"
    settings = [
        f"[agents.{spec.agent}]",
        f"{mode} = {json.dumps(spec.driver)}",
        f"argv = {json.dumps(spec.argv)}",
        f"cwd = {json.dumps(spec.cwd)}",
        *(f"options.{name} = {json.dumps(value)}" for name, value in spec.options.items() if mode == "driver"),
        *(f"environment.set.{name} = {json.dumps(value)}" for name, value in spec.environment.items()),
    ]
    (folder / "config.toml").write_text("\n".join(settings), encoding="utf-8")
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    environment = {**kept, "HOME": str(folder), "INTERLOCK_CONFIG": str(folder / "config.toml")}
    environment |= {"INTERLOCK_HOME": str(folder / "home"), "TMUX_TMPDIR": str(folder)}
    shell = Shellful(environment)
    try:
        yield shell
    finally:
        shell.run("down", "--stop-agents")
        left = left_of(folder)
        shutil.rmtree(folder)
    assert left == []


@pytest.mark.parametrize("agent", AGENTS, ids=[one.name for one in AGENTS])
def test_a_person_runs_asks_approves_and_goes_on_after_a_restart(agent: Agent, tmp_path: Path) -> None:
    mode = "--tui" if agent.driver == "terminal" else "--stream"
    with ScriptedModel(SCRIPTS) as model, shell_for(agent.spec(model, tmp_path)) as shell:
        assert shell.run("run", agent.cli, mode, "--title", "job", "--wait", "SCN:short one") == "Short.\n"
        if agent.driver == "terminal":
            ended = json.loads(shell.run("why", "job", "--json"))["surface"][-1]["ended"]
            assert (ended["result"], ended["basis"]) == ("completed", "completion_observer"), ended
            assert ended["observer"] in ("transcript", "native_status")
            assert "Short." in ended["tail"]
        shell.run("send", "job", "SCN:allow please")
        assert "approval" in shell.run("wait", "job", "--until", "blocked", "--timeout", "60")
        (line,) = json.loads(shell.run("ps", "--json"))["sessions"]
        assert (line["title"], line["badge"]["attention"]) == ("job", "approval"), line
        assert not Path(tmp_path, "project", "allowed.txt").exists()
        shell.run("approve", "job")
        assert "completed" in shell.run("wait", "job", "--timeout", "60")
        assert Path(tmp_path, "project", "allowed.txt").exists()
        assert "It ran." in shell.run("logs", "job", "--last", "1")
        shell.run("down")
        shell.run("up")
        assert shell.run("send", "job", "--wait", "--timeout", "80", "SCN:short two") == "Short.\n"
        assert shell.run("turns", "job", "--json").count('"completed"') >= 3
        assert model.faults == ()
