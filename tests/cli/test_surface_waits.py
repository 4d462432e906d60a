"""`[surface]` of the configuration, by the doors of a person: a file, a server that reads it, agents in terminals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.testing.scripted_agent import command
from tests.cli.serving import Served, serving

GENERAL = "[surface]\nunknown_to_stalled_timeout_seconds = 77\ncompletion_stability_seconds = 0.4\n"
OWN = "[agents.other.surface]\ncompletion_stability_seconds = 0.2\nwatched_gap_seconds = 9\n"


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    """Two agents in terminals, and a setting for both; one of them has settings of its own."""
    argv = json.dumps(command("tui"))
    agents = "".join(f"[agents.{name}]\nargv = {argv}\noptions.cli = 'scripted'\n" for name in ("some", "other"))
    path = tmp_path / "config.toml"
    path.write_text(GENERAL + agents + OWN)
    return {"INTERLOCK_CONFIG": str(path)}


@pytest.fixture
def served(tmp_path: Path, config: dict[str, str]) -> Iterator[Served]:
    with serving(tmp_path, **config) as running:
        yield running


def waits_of_a_turn(served: Served, agent: str, config: dict[str, str]) -> list[float]:
    """What the log says of the waits by which a turn of that agent was completed."""
    begun = served.cli("run", agent, "say hello", "--wait", "--json", **config)
    assert begun.returncode == 0, begun.stderr
    task_id = json.loads(begun.stdout.splitlines()[-1])["session_id"]
    events = map(json.loads, served.cli("log", "show", task_id, "--json").stdout.splitlines())
    (ended,) = (one["data"]["ended"] for one in events if one["data"].get("ended"))
    waits = ("unknown_to_stalled_seconds", "stability_seconds", "watched_gap_seconds")
    return [ended[name] for name in waits]


def test_a_session_takes_the_waits_of_its_own_agent_else_the_general_ones(
    served: Served, config: dict[str, str]
) -> None:
    assert waits_of_a_turn(served, "some", config) == [77, 0.4, 2]
    assert waits_of_a_turn(served, "other", config) == [77, 0.2, 9]
