"""The main ways of a user on a system without /proc: the portable twin is forced for the server and every command."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.exit_codes import ExitCode
from interlock.log.host import HOST_VARIABLE
from interlock.testing.scripted_agent import command
from tests.cli.harness import interlock
from tests.cli.serving import end_tmux


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="il-") as made:
        config = Path(made, "config.toml")
        config.write_text(f"[agents.scripted]\nargv = {json.dumps(list(command('tui')))}\ndriver = 'terminal'\n")
        monkeypatch.setenv(HOST_VARIABLE, "portable")
        monkeypatch.setenv("INTERLOCK_HOME", f"{made}/home")
        monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
        yield Path(made, "home")
        assert interlock("down", "--stop-agents").returncode == 0
        end_tmux(Path(made, "home"))


def sessions() -> dict[str, dict[str, object]]:
    return {one["title"]: one for one in json.loads(interlock("ps", "--all", "--json").stdout)["sessions"]}


def test_run_send_stop_adopt_after_a_crash_and_leftovers(home: Path) -> None:
    for title in ("kept", "stopped"):
        done = interlock("run", "scripted", f"say {title}", "--title", title, "--wait", "--timeout", "90")
        assert done.returncode == 0, done.stderr
    ids = {title: str(one["session_id"]) for title, one in sessions().items()}
    assert interlock("stop", ids["stopped"]).returncode == 0

    # The server is killed, its agent lives on in tmux, and the next server goes on with it.
    told = json.loads((home / "server.json").read_text())
    os.kill(told["pid"], signal.SIGKILL)
    while interlock("status").returncode != ExitCode.UNREACHABLE:
        pass
    assert interlock("up").returncode == 0
    spawns = json.loads(interlock("session", "history", ids["kept"], "--json").stdout)["spawns"]
    done = interlock("send", ids["kept"], "say again", "--wait", "--timeout", "90")
    assert done.returncode == 0, done.stderr
    assert json.loads(interlock("session", "history", ids["kept"], "--json").stdout)["spawns"] == spawns

    # Agents that outlived their server are known, and ended when asked.
    left = interlock("down")
    assert (left.returncode, "1 of 1 agents go on" in left.stderr) == (0, True), left.stderr
    ended = interlock("down", "--stop-agents")
    assert (ended.returncode, "was stopped" in ended.stderr) == (0, True), ended.stderr
