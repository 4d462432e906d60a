"""The harness itself, over a shell script in place of an agent CLI: what it records, and how it ends."""

from __future__ import annotations

import gzip
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from interlock.testing.scripted_model import ScriptedModel
from tests.real.harness import Harness
from tests.real.processes import family, is_alive
from tests.real.recipes import Recipe

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not on the PATH")

ECHO = r"""#!/bin/sh
nohup sleep 600 >/dev/null 2>&1 &
printf '\033]2;a title\007\033[1mready\033[0m\n'
while read -r line; do printf 'heard %s\n' "$line"; done
"""
RECIPE = Recipe("claude", lambda place, url: None, lambda place, url: {"NAMED": url})


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "echo.sh"
    path.write_text(ECHO, encoding="utf-8")
    path.chmod(0o755)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_a_run_becomes_a_recording(script: Path, tmp_path: Path) -> None:
    with ScriptedModel() as model, Harness(RECIPE, script, model, tmp_path / "run", scenario="echo") as agent:
        frame = agent.wait_for_text("ready")
        agent.truth("idle", "ready")
        agent.submit("hello there")
        agent.wait_for_text("heard hello there")
        agent.save(tmp_path / "out" / "echo.ndjson.gz")
    assert (frame.title, frame.command, frame.dead, frame.alternate) == ("a title", "sh", False, False)
    assert "\x1b[1mready" in frame.ansi
    header, *lines = read(tmp_path / "out" / "echo.ndjson.gz")
    assert (header["kind"], header["format"], header["cli"], header["cols"], header["rows"]) == (
        "header", 1, "claude", 120, 40,
    )  # fmt: skip
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)
    said = [(line.get("state"), line.get("detail")) for line in lines if line["kind"] != "frame"]
    assert said == [("unscored", "starting"), ("idle", "ready"), (None, None), ("working", "submitted")]
    shown = [line["ansi"] for line in lines if "ansi" in line]
    assert all(one != other for one, other in pairwise(shown))


def test_a_failure_carries_the_last_screens(script: Path, tmp_path: Path) -> None:
    def fail() -> None:
        with ScriptedModel() as model, Harness(RECIPE, script, model, tmp_path / "run", scenario="echo") as agent:
            agent.wait_for_text("ready")
            agent.wait_for_text("never there", within_seconds=0.01)

    with pytest.raises(AssertionError, match="never there") as failed:
        fail()
    assert "ready" in failed.value.__notes__[0]


def test_the_end_leaves_no_process_and_no_server(script: Path, tmp_path: Path) -> None:
    with ScriptedModel() as model, Harness(RECIPE, script, model, tmp_path / "run", scenario="echo") as agent:
        agent.wait_for_text("ready")
        started = [int(agent._tmux("display-message", "-p", "#{pid}")), *family(agent.pid)]
    assert len(started) == 3
    assert [pid for pid in started if is_alive(pid)] == []


def test_what_a_dead_agent_leaves_behind_is_ended(script: Path, tmp_path: Path) -> None:
    with ScriptedModel() as model, Harness(RECIPE, script, model, tmp_path / "run", scenario="echo") as agent:
        agent.wait_for_text("ready")
        agent.keys("C-d")
        agent.wait_for(lambda frame: frame.dead, "the end")
        left = family(agent.pid)
    assert len(left) == 1
    assert not is_alive(left[0])
