"""Ten secrets in every channel of every driver, through a real server: none is found at any door.

The doors: the files of the home as they are, exports and replays, the server's own log, HTTP, a WebSocket, server-sent
events, and what commands print, with and without --json.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import websockets.sync.client
from websockets.exceptions import WebSocketException

from interlock.agents.drivers import DRIVERS
from interlock.agents.model.driver import ModelDriver
from interlock.cli.server_api import Body
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.testing.scripted_agent import command, read_ledger, write_program
from interlock.vocabulary.codec import encode_event
from tests.agents.model.harness import PlayedModel, calls
from tests.agents.model.harness import spec as model_spec
from tests.cli.serving import Served, serving, until
from tests.contract.harness import run
from tests.runtime.session.ledger_ways import FAKES

BY_VALUE: Final = {
    "SERVICE_PASSWORD": "hunter-2-of-many",
    "WHATEVER": "plain-looking-9",
    "BLANKS": "several words, 7 of them",
    "UMLAUT": "gr\u00fc\u00dfe-42-\u20ac",
    "A_COOKIE": "session/of=somebody",
    "SHORT_TOKEN": "x9!k2q",
}
BY_SHAPE: Final = ("ghp_abcdefghij0123456789", "sk-ant-api03-abcdefgh12345678", "AKIAIOSFODNN7EXAMPLE")
TAKEN: Final = "taken-over-from-ours-1"
ALL: Final = " + ".join((*BY_VALUE.values(), *BY_SHAPE, TAKEN))
HIDDEN: Final = (*BY_VALUE.values(), *(one[8:] for one in BY_SHAPE), TAKEN)
ENVIRONMENT: Final = {**BY_VALUE, "TAKEN_OVER": TAKEN, "FAKE_SECRETS": ALL}

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


def found_in(data: bytes) -> list[str]:
    """The secrets that stand in bytes, as they are or as JSON spells them."""
    spelled = {one: {one, json.dumps(one)[1:-1]} for one in HIDDEN}
    return [one for one, ways in spelled.items() if any(way.encode() in data for way in ways)]


def test_every_driver_is_tried() -> None:
    assert {*AGENTS, "model"} == set(DRIVERS)


class Listener:
    """Everything that one door says while the test goes on, read by a thread that ends with its connection."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.heard = bytearray()
        self._pieces = pieces
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with suppress(OSError, WebSocketException):
            for piece in self._pieces:
                self.heard += piece

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("secrets")) as one:
        yield one


def tokens_of(served: Served) -> dict[str, str]:
    tokens: dict[str, str] = json.loads((served.home / "tokens.json").read_text())
    return tokens


def open_task(served: Served, driver: str) -> str:
    argv, prompt = AGENTS[driver]
    program = (*argv(served.folder), *(() if driver in ("gemini-stream", "qwen-stream") else (f"--note={ALL}",)))
    body: Body = {"agent": "leaky", "driver": driver, "argv": program, "cwd": str(served.folder), "title": ALL}
    (served.folder / "ledger").unlink(missing_ok=True)
    environment = {**ENVIRONMENT, "FAKE_LEDGER": str(served.folder / "ledger")}
    body |= {"environment": environment, "prompt": prompt}
    return str(served.api.ask("POST", "/api/tasks", body)["task_id"])


def sse(served: Served, task_id: str) -> Iterator[bytes]:
    head = {"Authorization": f"Bearer {tokens_of(served)['operator']}"}
    request = urllib.request.Request(f"{served.api.url}/api/tasks/{task_id}/events", headers=head)
    with urllib.request.urlopen(request, timeout=20) as stream:
        assert stream.status == 200
        yield from stream


def frames(served: Served, task_id: str, over: threading.Event) -> Iterator[bytes]:
    head = {"Authorization": f"Bearer {tokens_of(served)['operator']}"}
    url = f"{served.api.url.replace('http', 'ws', 1)}/api/socket"
    with websockets.sync.client.connect(url, additional_headers=head, max_size=None) as wire:
        wire.send(json.dumps({"type": "task:join", "id": "1", "task_id": task_id}))
        wire.send(json.dumps({"type": "board:join", "id": "2"}))
        while not over.is_set():
            with suppress(TimeoutError):
                said = wire.recv(timeout=0.2)
                yield said if isinstance(said, bytes) else said.encode()


def bodies(served: Served, task_id: str) -> Iterator[tuple[str, bytes]]:
    head = {"Authorization": f"Bearer {tokens_of(served)['operator']}"}
    own = ("", "/messages", "/turns", "/queue", "/approvals", "/state", "/runtime-check", "/spawns", "/usage", "/why")
    for path in (*(f"/api/tasks/{task_id}{one}" for one in own), "/api/tasks", "/api/approvals", "/metrics", "/health"):
        request = urllib.request.Request(f"{served.api.url}{path}", headers=head)
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200, path
            yield path, answer.read()


COMMANDS: Final = (
    *("show {id}", "logs {id}", "spawns {id}", "usage {id}", "turns {id}", "why {id}", "diagnose {id}", "replay {id}"),
    *("ps --all", "status", "approvals", "log show {id}", "log export {id}"),
)


def printed(served: Served, task_id: str) -> Iterator[tuple[str, bytes]]:
    for line in COMMANDS:
        for more in ("", " --json"):
            if line.startswith("log export") and more:
                continue
            done = served.cli(*(line + more).format(id=task_id).split())
            assert done.returncode in (0, 1, 3, 4, 6), (line, done.stderr)
            assert "Traceback" not in done.stderr
            yield line + more, (done.stdout + done.stderr).encode()


def ended(served: Served, task_id: str) -> Body | None:
    """The task once its first turn is over."""
    task = served.task(task_id)
    over = ("COMPLETED", "FAILED", "CANCELLED")
    return task if task["summary"].get("task_status") in over else None


@pytest.mark.parametrize("driver", AGENTS)
def test_no_secret_is_found_at_any_door(driver: str, served: Served) -> None:
    task_id, over = open_task(served, driver), threading.Event()
    events, socket = Listener(sse(served, task_id)), Listener(frames(served, task_id, over))
    if driver in (*ASKING, "terminal"):
        asked: list[Any] = until(lambda: served.task(task_id)["approvals"], f"{driver} asks")
        label = next(one["label"] for one in asked[0]["options"] if one["label"].startswith("use "))
        assert found_in(label.encode()) == []
        assert "*" in label
        # What a person is shown is enough to choose it.
        if driver != "terminal":
            told = served.cli("answer", task_id, "--option", label)
            assert told.returncode == 0, told.stderr
            heard = until(lambda: read_ledger(served.folder / "ledger", "answer"), f"{driver} hears")
            assert f"use {ALL}" in json.dumps(heard[0].data, ensure_ascii=False), "the agent is told its own words"
        else:
            served.cli("interrupt", task_id, "--wait")
    until(lambda: ended(served, task_id), f"{driver} ends its turn", lambda: str(served.task(task_id)))
    places = dict(bodies(served, task_id)) | dict(printed(served, task_id))
    served.api.ask("POST", f"/api/tasks/{task_id}/stop")
    over.set()
    socket.join()
    places["websocket"], places["sse"] = bytes(socket.heard), bytes(events.heard)
    assert task_id.encode() in places["websocket"]
    assert b"event" in places["sse"]
    for file in (one for folder in (served.home, served.home / "logs") for one in folder.glob("*") if one.is_file()):
        if file.name != "tokens.json":
            places[file.name] = file.read_bytes()
    assert any(name.startswith("log") or ".db" in name or "sqlite" in name for name in places)
    places["server's words"] = (served.folder / "server-stderr").read_bytes()
    assert {place: found_in(body) for place, body in places.items() if found_in(body)} == {}
    masked = "*" * len(TAKEN)  # so that what is not found was said, and is masked
    assert all(masked in places[name].decode() for name in (f"/api/tasks/{task_id}", "logs {id}", "log export {id}"))
    known = tokens_of(served).values()
    assert [place for place, body in places.items() for one in known if one.encode() in body] == []


def test_no_secret_of_a_model_is_in_its_log(tmp_path: Path) -> None:
    async def story() -> bytes:
        log, model = MemoryLog(), PlayedModel([calls("shell", command=f"echo '{ALL}'")])
        async with Runtime(log, [ModelDriver(caller=model)]) as runtime:
            runtime.redactor.learn(ENVIRONMENT)
            session_id = await runtime.open_session(model_spec(str(tmp_path), permissions=["allow shell"]))
            prompt_id = await runtime.send(session_id, f"use {ALL}")
            await runtime.wait_turn(session_id, prompt_id)
            return b"\n".join(encode_event(event) for event in (await log.read(session_id)).events)

    said = run(story())
    assert b"tool_result" in said
    assert found_in(said) == []
