"""A server whose disk takes no more: commands say so, and it goes on when there is room.

The files of the server may not grow, by a limit of its process: its writes fail as on a full disk, without one.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.client

from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.api import ServerApi, ServerUnavailable
from interlock.cli.server.process import look_for_server
from tests.cli.serving import Served, serving, until
from tests.cli.test_up import run


@contextmanager
def full(pid: int) -> Iterator[None]:
    """No file of that process may grow."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_commands_say_that_nothing_is_recorded_and_go_on_when_there_is_room(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        task_id = served.done("say one")
        path = f"/api/tasks/{task_id}/prompts"
        with full(look_for_server(served.home).pid):
            kept = run(served.home, "send", task_id, "say two")
            assert kept.returncode == ExitCode.UNREACHABLE, kept.stderr
            assert "the log takes nothing" in kept.stderr
            assert "not known whether it was done; repeat it with --prompt-id" in kept.stderr
            refused = run(served.home, "send", task_id, "say three")
            assert refused.returncode == ExitCode.UNREACHABLE
            assert "the log takes nothing, this was not taken" in refused.stderr
            with pytest.raises(ServerUnavailable, match="the log takes nothing, this was not taken"):
                ServerApi.of_home(served.home).ask("POST", path, {"text": "say four"})
            listed = run(served.home, "ps", "--all")
            assert listed.returncode == ExitCode.PARTIAL
            assert "the server cannot write its log" in listed.stderr
            shown = run(served.home, "show", task_id)
            assert shown.returncode == ExitCode.PARTIAL
            assert "the server cannot write its log" in shown.stderr
            assert "cannot be written, nothing is recorded" in run(served.home, "status").stdout
            assert served.task(task_id)["summary"]["live"]["attention"] == "error"
        until(lambda: served.task(task_id)["turns"] == 2, "what was kept is done")
        after = run(served.home, "send", task_id, "say five", "--wait")
        assert after.returncode == ExitCode.COMPLETED, after.stderr
        assert served.task(task_id)["turns"] == 3
        assert run(served.home, "ps", "--all").returncode == ExitCode.COMPLETED
        assert run(served.home, "show", task_id).returncode == ExitCode.COMPLETED


def test_who_waits_or_follows_is_told_and_waits_on(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        task_id = served.open("say one; gate on; say two")
        served.gates.await_reached("on")
        with (
            served.following("wait", task_id) as waiting,
            served.following("logs", task_id, "-f") as text,
            served.following("logs", task_id, "-f", "--json") as frames,
        ):
            waiting.notes("working")
            text.says("one")
            frames.says("one")
            with full(look_for_server(served.home).pid):
                served.gates.open("on")
                served.shows(task_id, attention="error")
                told = "the server cannot write its log, nothing new is recorded; still"
                waiting.notes(f"{told} waiting: ")
                text.notes(f"{told} following: ")
                frames.notes(f"{told} following: ")
                frames.says('"rule":"log_unavailable"')
            for one in (text, frames):
                one.notes("the server can write its log again")
            assert waiting.ends() == ExitCode.COMPLETED
            waiting.says(f"{task_id}  completed")
            text.says("two")
            for one in (text, frames):
                assert one.interrupted() == ExitCode.COMPLETED
            assert waiting.stderr.count("cannot write its log") == 1


def test_a_socket_refuses_a_prompt_with_the_reason(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        task_id = served.done("say one")
        with _socket(served) as wire:
            wire.send(json.dumps({"type": "task:join", "id": "room", "task_id": task_id}))
            with full(look_for_server(served.home).pid):
                kept = _answer(wire, {"type": "chat:send", "id": "1", "task_id": task_id, "text": "say two"})
                assert kept["type"] == "refused", kept
                assert "the log takes nothing, the command is kept" in kept["problem"]["detail"]
                refused = _answer(wire, {"type": "chat:send", "id": "2", "task_id": task_id, "text": "say three"})
                assert refused["type"] == "refused", refused
                problem = refused["problem"]
                assert (problem["status"], problem["code"]) == (503, "log_unavailable")
                assert "the log takes nothing, this was not taken" in problem["detail"]
                assert problem["remedy"]
                assert problem["retry_after_seconds"] > 0
            until(lambda: served.task(task_id)["turns"] == 2, "what was kept is done")
            again = _answer(wire, {"type": "chat:send", "id": "3", "task_id": task_id, "text": "say four"})
            assert again["type"] == "ack", again
        until(lambda: served.task(task_id)["turns"] == 3, "what was sent then is done, and what was refused is not")


def _socket(served: Served) -> websockets.sync.client.ClientConnection:
    tokens = json.loads((served.home / "tokens.json").read_text())
    head = {"Authorization": f"Bearer {tokens['operator']}"}
    return websockets.sync.client.connect(
        f"{served.api.url.replace('http', 'ws', 1)}/api/socket", additional_headers=head, max_size=None
    )


def _answer(wire: websockets.sync.client.ClientConnection, request: dict[str, str]) -> dict[str, Any]:
    """The answer to a request; frames of rooms that come before it are passed over."""
    wire.send(json.dumps(request))
    while True:
        frame: dict[str, Any] = json.loads(wire.recv(timeout=60))
        if frame.get("id") == request["id"]:
            return frame
