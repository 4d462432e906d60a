"""Agents by the server's configuration: a task is opened by the name of an agent alone, and nothing of it is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec

from interlock.runtime.config.sections import Config
from interlock.server.commands.configured import ConfiguredAgents
from interlock.vocabulary.events.registry import Json
from tests.contract.harness import run
from tests.server.http_harness import PUPPET, house, problem

CONFIG: Final = msgspec.convert(
    {
        "agents": {
            "mine": {
                "driver": "puppet",
                "argv": [sys.executable, "-q"],
                "model": "small",
                "environment": {"take": ["A_KEY", "ABSENT"], "set": {"COLOUR": "red"}},
                "run": {"turn_budget_seconds": 77.0},
            },
            "gone": {"driver": "puppet", "argv": ["no-such-program-here"]},
        }
    },
    Config,
)
AGENTS: Final = ConfiguredAgents(CONFIG, {"A_KEY": "a-secret-of-the-server", "PATH": "/usr/bin:/bin"})


def test_a_task_is_opened_by_the_name_of_an_agent_and_runs_as_configured(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(agents=AGENTS) as server:
            body = {"agent": "mine", "cwd": str(tmp_path), "prompt": "hello", "title": "by name"}
            headers = {"Idempotency-Key": "ses_named"}
            answer = await server.operator.post("/api/tasks", json=body, headers=headers)
            assert (answer.status_code, answer.json()["task_id"]) == (201, "ses_named"), answer.text
            puppet = await server.prompted()
            spec = puppet.spec
            assert (spec.driver, spec.argv, spec.model) == ("puppet", (sys.executable, "-q"), "small")
            assert (spec.cwd, spec.environment) == (str(tmp_path), {"A_KEY": "a-secret-of-the-server", "COLOUR": "red"})
            again = await server.operator.post("/api/tasks", json=body, headers=headers)
            assert (again.status_code, again.json()["is_new"]) == (200, False)
            for path in ("/api/agents", "/api/tasks/ses_named", "/api/tasks/ses_named/log"):
                assert "a-secret" not in (await server.operator.get(path)).text

    run(story())


def test_what_could_not_run_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    wrong: tuple[tuple[dict[str, Json], str], ...] = (
        ({"agent": "mine"}, "no folder"),
        ({"agent": "mine", "cwd": "relative"}, "no folder"),
        ({"agent": "mine", "cwd": str(tmp_path / "none")}, "no folder"),
        ({"agent": "gone", "cwd": str(tmp_path)}, "not installed"),
        ({"agent": "mime", "cwd": str(tmp_path)}, "there is no agent 'mime'"),
        ({"agent": "mine", "cwd": str(tmp_path), "argv": ["sh"]}, "no driver"),
        ({"agent": "mine", "cwd": str(tmp_path), "environment": {"A": "b"}}, "no driver"),
    )

    async def story() -> None:
        async with house(agents=AGENTS) as server:
            for body, words in wrong:
                told = problem(await server.operator.post("/api/tasks", json=body), 422, "unfit")
                assert words in str(told["detail"]), told
                assert told["remedy"]
            assert (await server.observer.get("/api/tasks")).json()["items"] == []
            with_driver = await server.operator.post("/api/tasks", json={**PUPPET})
            assert with_driver.status_code == 201

    run(story())


def test_every_configured_agent_is_told_with_whether_it_is_installed() -> None:
    async def story() -> None:
        async with house(agents=AGENTS) as server:
            found = {one["name"]: one for one in (await server.observer.get("/api/agents")).json()["configured"]}
            assert found["mine"] == {
                "name": "mine",
                "driver": "puppet",
                "drivers": ["puppet", "terminal"],
                "model": "small",
                "is_installed": True,
            }
            assert found["gone"]["is_installed"] is False
        async with house() as server:
            built_in = (await server.observer.get("/api/agents")).json()["configured"]
            assert {"claude", "codex"} <= {one["name"] for one in built_in}

    run(story())
