"""Ten secrets in every channel of every driver, through a real server: none is found at any door.

The environment of an agent comes by a request here. `test_secrets_of_configuration.py` brings it by the configuration.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.agents.drivers import DRIVERS
from interlock.testing.scripted_agent import command, read_ledger, write_program
from interlock.testing.scripted_model import Error, ScriptedCall, ScriptedModel, Text, Think
from tests.bodies import Body
from tests.cli.serving import Served, serving, until
from tests.e2e.secret_doors import ALL, BY_VALUE, ENVIRONMENT, found_in, watching
from tests.runtime.session.ledger_ways import FAKES

_QUOTED: Final = json.dumps({"command": ALL, "why": [ALL]})
_SCRIPT: Final = f"stderr {ALL}; say {ALL}; call Bash {_QUOTED} -> {ALL}; call Bash {_QUOTED} -> !{ALL}; raw {ALL}"
_ASKS: Final = f"{_SCRIPT}; ask {ALL}? | use {ALL} | no; fail {ALL}"


def _python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", str(FAKES / program))


def _scripted(folder: Path, face: str) -> tuple[str, ...]:
    return command(face, ledger=folder / "ledger")


def _lines(*lines: object) -> tuple[str, ...]:
    """A program for one prompt that writes these lines, and all secrets on standard error."""
    said = "".join(f"sys.stdout.write({json.dumps(json.dumps(line))} + '\\n')\n" for line in lines)
    noise = "secret = os.environ['FAKE_SECRETS']\nsys.stdout.write(secret + '\\n')\nsys.stderr.write(secret + '\\n')\n"
    return (sys.executable, "-S", "-c", f"import os, sys\nsys.stdin.read()\n{noise}{said}sys.exit(1)")


_GEMINI: Final = (
    {"type": "init", "session_id": "s1", "model": "m"},
    {"type": "message", "role": "assistant", "content": ALL, "delta": True},
    {"type": "tool_use", "tool_id": "c1", "tool_name": "shell", "parameters": {"command": ALL}},
    {"type": "tool_result", "tool_id": "c1", "status": "error", "output": ALL, "error": {"message": ALL}},
    {"type": "error", "severity": "error", "message": ALL},
    {"type": "result", "status": "error", "error": {"type": "x", "message": ALL}},
)
_QWEN: Final = (
    {"type": "system", "subtype": "init", "session_id": "s1", "model": "m"},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": ALL}]}},
    {"type": "result", "subtype": "error_during_execution", "is_error": True, "error": {"message": ALL}},
)
# How each driver's agent is started, and its prompt. `model` has no program: it is below.
AGENTS: Final[dict[str, tuple[Callable[[Path], tuple[str, ...]], str]]] = {
    "claude-stream": (lambda folder: (write_program(folder / "stream", _scripted(folder, "stream-json")),), _ASKS),
    "acp": (lambda folder: _scripted(folder, "acp"), _ASKS),
    "terminal": (lambda folder: _scripted(folder, "tui"), _ASKS.replace("\u20ac", "e")),
    "codex-app-server": (lambda _: _python("fake_codex.py"), "leak"),
    "codex-exec": (lambda _: _python("fake_codex.py"), "leak"),
    "opencode-serve": (lambda _: _python("opencode_fake.py"), "leak"),
    "pi-rpc": (lambda _: _python("pi_fake.py"), "leak"),
    "gemini-stream": (lambda _: _lines(*_GEMINI), "go"),
    "qwen-stream": (lambda _: _lines(*_QWEN), "go"),
}
ASKING: Final = ("claude-stream", "acp", "codex-app-server", "opencode-serve", "pi-rpc")


def test_every_driver_is_tried() -> None:
    assert {*AGENTS, "model", "observed"} == set(DRIVERS)  # the last one is given nothing, and starts nothing


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("secrets")) as one:
        yield one


def open_task(served: Served, driver: str) -> str:
    argv, prompt = AGENTS[driver]
    program = (*argv(served.folder), *(() if driver in ("gemini-stream", "qwen-stream") else (f"--note={ALL}",)))
    body: Body = {"agent": "leaky", "driver": driver, "argv": program, "cwd": str(served.folder), "title": ALL}
    (served.folder / "ledger").unlink(missing_ok=True)
    environment = {**ENVIRONMENT, "FAKE_LEDGER": str(served.folder / "ledger")}
    body |= {"environment": environment, "prompt": prompt}
    return str(served.api.ask("POST", "/api/tasks", body)["task_id"])


def await_end(served: Served, task_id: str, turns: int = 1) -> None:
    """Wait until so many turns of a task are over."""

    def is_over() -> bool:
        task = served.task(task_id)
        over = ("COMPLETED", "FAILED", "CANCELLED")
        return bool(task["summary"].get("task_status") in over and task["turns"] >= turns)

    until(is_over, f"{turns} turns end", lambda: str(served.task(task_id)))


def answer_question(served: Served, task_id: str, driver: str) -> None:
    """Choose the option with the secrets by what a person is shown of it; the agent is told its own words."""
    asked: list[Any] = until(lambda: served.task(task_id)["approvals"], f"{driver} asks")
    label = next(one["label"] for one in asked[0]["options"] if one["label"].startswith("use "))
    assert found_in(label.encode()) == []
    assert "*" in label
    if driver == "terminal":
        served.cli("interrupt", task_id, "--wait")
        return
    told = served.cli("answer", task_id, "--option", label)
    assert told.returncode == 0, told.stderr
    heard = until(lambda: read_ledger(served.folder / "ledger", "answer"), f"{driver} hears")
    assert f"use {ALL}" in json.dumps(heard[0].data, ensure_ascii=False)


@pytest.mark.parametrize("driver", AGENTS)
def test_no_secret_is_found_at_any_door(driver: str, served: Served) -> None:
    task_id = open_task(served, driver)
    with watching(served, task_id) as doors:
        if driver in (*ASKING, "terminal"):
            answer_question(served, task_id, driver)
        await_end(served, task_id)
        doors.look()
    doors.check()


_IMPORT_SECONDS: Final = 180.0  # a server imports the model library with its first model
_PIECES: Final = tuple(ALL[at : at + 5] for at in range(0, len(ALL), 5))
_MODEL_TURN: Final = (
    *(Think(ALL), Text(*_PIECES), ScriptedCall("shell", {"command": f"echo '{ALL}'; env; echo '{ALL}' >&2; exit 3"})),
    *(Error(529, ALL, times=1), Text(*_PIECES), ScriptedCall("read", {"path": ALL}), ScriptedCall(ALL, {ALL: [ALL]})),
    *(Text(*_PIECES), Error(400, ALL)),
)


def test_no_secret_of_a_model_is_found_at_any_door(served: Served) -> None:
    with ScriptedModel(queue=[_MODEL_TURN]) as model:
        options = {"base_url": model.url, "instructions": ALL, "retry": {"first_pause_seconds": 0}}
        body: Body = {"agent": "leaky", "driver": "model", "cwd": str(served.folder), "title": ALL, "options": options}
        body |= {"model": "anthropic:claude-haiku-4-5", "prompt": f"use {ALL}"}
        body |= {"environment": {**ENVIRONMENT, "ANTHROPIC_API_KEY": BY_VALUE["SERVICE_PASSWORD"]}}
        task_id = str(served.api.ask("POST", "/api/tasks", body)["task_id"])
        with watching(served, task_id) as doors:
            model.wait_requests(lambda requests: len(requests) > 0, within_seconds=_IMPORT_SECONDS)
            asked: list[Any] = until(lambda: served.task(task_id)["approvals"], "the model asks")
            assert found_in(json.dumps(asked).encode()) == []
            told = served.cli("approve", task_id)
            assert told.returncode == 0, told.stderr
            await_end(served, task_id)
            doors.look()
        assert model.faults == ()
        heard = [json.dumps(json.loads(one.body), ensure_ascii=False) for one in model.requests]
    doors.check()
    assert ALL in heard[0], "the model gets what was written"
    assert heard[1].count(ALL) > heard[0].count(ALL), "and what its command printed"
    assert len(heard) == 4
