"""Secrets of `environment.set` and `environment.take` in the configuration file: no door of a real server shows one.

`interlock run` reads the file for a new session; the server reads it for the sessions that it finds in its log.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.scripted_agent import command, read_ledger, write_program
from tests.cli.serving import Served, serving, until
from tests.e2e.secret_doors import ALL, BY_VALUE, TAKEN, found_in, watching

_ARGS: Final = json.dumps({"command": ALL})
LEAKS: Final = (
    f"stderr {ALL}; say {ALL}; call Bash {_ARGS} -> {ALL}; call Bash {_ARGS} -> !{ALL}; raw {ALL}; fail {ALL}"
)


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a server to come, with a configuration that gives the agent `leaky` all secrets."""
    config, ledger = tmp_path / "config.toml", tmp_path / "ledger"
    program = write_program(tmp_path / "stream", command("stream-json", ledger=ledger))
    given = "\n".join(f"{name} = {json.dumps(value)}" for name, value in BY_VALUE.items())
    config.write_text(
        f'[agents.leaky]\ndriver = "claude-stream"\nargv = [{json.dumps(program)}, {json.dumps(f"--note={ALL}")}]\n'
        f'[agents.leaky.environment]\ntake = ["TAKEN_OVER"]\n[agents.leaky.environment.set]\n{given}\n'
    )
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    monkeypatch.setenv("TAKEN_OVER", TAKEN)
    return tmp_path


def run_leaky(served: Served, prompt: str) -> str:
    done = served.cli("run", "leaky", prompt, "--cwd", str(served.folder), "--title", ALL, "--json")
    assert done.returncode == 0, done.stderr
    assert found_in((done.stdout + done.stderr).encode()) == []
    return str(json.loads(done.stdout)["session_id"])


def await_failures(served: Served, task_id: str, count: int) -> None:
    def are_over() -> bool:
        task = served.task(task_id)
        return bool(task["turns"] == count and task["summary"]["task_status"] == "FAILED")

    until(are_over, f"{count} turns fail", lambda: str(served.task(task_id)))


def test_no_secret_of_a_configured_agent_is_found_at_any_door(configured: Path) -> None:
    with serving(configured) as served:
        task_id = run_leaky(served, LEAKS)
        with watching(served, task_id) as doors:
            await_failures(served, task_id, 1)
            doors.look()
        for words in (("config", "show"), ("config", "show", "--json"), ("config", "check")):
            done = served.cli(*words)
            doors.heard[" ".join(words)] = (done.stdout + done.stderr).encode()
        doors.check()
        heard = read_ledger(configured / "ledger", "prompt")
        assert ALL in json.dumps([one.data for one in heard], ensure_ascii=False), "the agent gets what was written"


def test_a_server_that_comes_back_hides_what_its_configuration_gives_an_agent(configured: Path) -> None:
    with serving(configured) as served:
        task_id = run_leaky(served, LEAKS)
        await_failures(served, task_id, 1)
        served.kill()
        served.start()
        with watching(served, task_id) as doors:
            served.send(task_id, LEAKS)
            await_failures(served, task_id, 2)
            doors.look()
        doors.check()


def test_an_agent_that_finds_the_secrets_of_another_one_cannot_show_them(configured: Path) -> None:
    """What the configuration gives an agent that nobody ran yet is hidden where another one reads it from the file."""
    with serving(configured) as served:
        task_id = served.open(LEAKS, title=ALL)
        with watching(served, task_id) as doors:
            await_failures(served, task_id, 1)
            doors.look()
        doors.check()
