"""`interlock run`: the agent of the configuration, a server if there is none, and a clear word where it cannot be."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.server.api import ServerApi
from interlock.cli.server.process import Presence, held_server, look_for_server
from interlock.cli.work.run import run
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.wire.resources import OpenTask, TaskOpened
from tests.any_route import any_route
from tests.cli.harness import interlock
from tests.cli.serving import STREAM, WAIT_SECONDS, Served


class Place:
    """A home without a server, and a configuration with scripted agents."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir()
        self.config = folder / "config.toml"
        program = write_program(folder / "agent", command(STREAM))
        self.config.write_text(
            f"""
[agents.scripted]
argv = [{json.dumps(program)}]
stream_driver = "claude-stream"
driver = "claude-stream"
cwd = {json.dumps(str(self.work))}
run = {{ stall_after_seconds = 77.0 }}

[agents.scripted.environment]
take = ["TAKEN_OVER"]

[agents.absent]
argv = ["no-such-agent-cli"]
""",
            encoding="utf-8",
        )

    def cli(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return interlock(*args, env={"INTERLOCK_HOME": str(self.home), "INTERLOCK_CONFIG": str(self.config), **env})

    @property
    def api(self) -> ServerApi:
        return ServerApi.of_home(self.home)


def test_a_server_that_opens_no_session_does_not_outlast_the_timeout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, asked = [100.0], list[float]()

    class Stuck(ServerApi):
        def ask_raw(
            self, method: str, path: str, body: object = None, *, key: str = "", seconds: float = 40.0
        ) -> bytes:
            asked.append(seconds)
            clock[0] += seconds
            raise Unreachable("the server did not answer in time")

    asks_for = OpenTask(agent="scripted", driver="claude-stream")
    monkeypatch.setattr("interlock.client.opening.open_request", lambda *_, **__: asks_for)
    monkeypatch.setattr("interlock.cli.work.run.running_server", lambda *_, **__: Stuck("http://127.0.0.1:1", ""))
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert run("scripted", "hello", wait=True, timeout=7.0, home=Path()) == 5
    assert "it is not known whether it was done; see `interlock show ses_" in capsys.readouterr().err
    with pytest.raises(Unreachable):
        run("scripted", "hello", wait=True, home=Path())
    assert asked == [7.0, 40.0]
    # One that opens it late leaves less to wait.
    left = list[float]()

    def opened(*_: object) -> TaskOpened:
        clock[0] += 2.5
        return TaskOpened(is_new=True, task_id=SessionId("ses_1"), prompt_id=PromptId("prm_1"))

    monkeypatch.setattr("interlock.cli.work.run._open_session", opened)
    monkeypatch.setattr(
        "interlock.cli.work.run.wait_for_prompt", lambda _, limits, **__: left.append(limits.spent_seconds)
    )
    run("scripted", "hello", wait=True, timeout=7.0, home=Path())
    assert left == [2.5]


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="il-") as short:
        found = Place(Path(short))
        yield found
        with held_server(found.home) as (_, grip):
            if grip is not None:
                grip.send(signal.SIGTERM)
                assert grip.wait(WAIT_SECONDS)


def test_an_agent_is_run_as_configured_and_a_server_is_started_for_it(place: Place) -> None:
    refused = place.cli("run", "scripted", "say hello", "--no-up")
    assert (refused.returncode, refused.stdout) == (8, "")
    assert "interlock up" in refused.stderr
    assert look_for_server(place.home).presence is Presence.ABSENT

    answered = place.cli("run", "scripted", "say hello", "--wait", "--title", "greeting", TAKEN_OVER="x")
    assert (answered.returncode, answered.stdout) == (0, "hello\n")
    assert "starting the server" in answered.stderr
    (task,) = place.api.get(any_route("/api/tasks"))["items"]
    assert f"session {task['task_id']}" in answered.stderr
    assert (task["agent"], task["driver"], task["title"]) == ("scripted", "claude-stream", "greeting")
    opened = json.loads(next(place.api.lines(f"/api/tasks/{task['task_id']}/log")))["data"]
    assert opened["cwd"] == str(place.work)
    assert opened["environment"] == ["TAKEN_OVER"]
    assert opened["policy"]["stall_after_seconds"] == 77.0

    idle = place.cli("run", "scripted", "--cwd", str(place.home))
    assert idle.returncode == 0, idle.stderr
    task_id = idle.stdout.strip()
    (spawn,) = place.api.get(any_route(f"/api/tasks/{task_id}/spawns"))["items"]
    assert (spawn["standing"], spawn["began"] is not None) == ("running", True)
    opened = json.loads(next(place.api.lines(f"/api/tasks/{task_id}/log")))["data"]
    assert opened["cwd"] == str(place.home)

    queued = place.cli("run", "scripted", "say queued", "--json")
    told = json.loads(queued.stdout)
    assert told["prompt_id"]
    assert place.cli("send", told["session_id"], "--prompt-id", told["prompt_id"], "--wait").stdout == "queued\n"


def test_a_reply_that_the_first_prompt_asks_for_is_printed_or_it_is_a_failure(
    acting_server: Served, tmp_path: Path
) -> None:
    program, config, shape = write_program(tmp_path / "agent", command(STREAM)), tmp_path / "toml", tmp_path / "shape"
    config.write_text(f"[agents.scripted]\nargv = [{json.dumps(program)}]\ndriver = 'claude-stream'\n")
    shape.write_text('{"type": "object", "required": ["changed"]}')

    def asked(*args: str) -> tuple[int, str, str]:
        done = acting_server.cli("run", "scripted", *args, INTERLOCK_CONFIG=str(config))
        return done.returncode, done.stdout, done.stderr

    by_schema, marked = ("--wait", "--reply-json", str(shape)), ("--wait", "--reply-word", "w")
    assert asked('say {"changed": 3}; result success', *by_schema)[:2] == (0, '{"changed":3}\n')
    code, out, err = asked("say About three.; result success", *by_schema, "--json")
    assert (code, json.loads(out)["reply"]) == (1, None)
    assert "no JSON value" in json.loads(out)["reply_problem"], err
    assert asked("say <<<w\\nthe note\\nw>>>; result success", *marked)[:2] == (0, "the note\n")
    # The mark of a bare sentinel is made of a name that nobody knows before: no scripted answer can have it.
    code, out, err = asked("say a note; result success", "--wait", "--reply-sentinel")
    assert (code, out) == (1, "")
    assert "there is no text between the lines" in err
    for args, said in (
        (("x", "--reply-sentinel"), "add --wait"),
        (("x", *by_schema, "--reply-word", "w"), "two reply contracts"),
        (("x", "--wait", "--reply-json", "/nowhere/x"), "cannot be read"),
        (("--wait", "--reply-sentinel"), "nothing to wait for"),
    ):
        code, out, err = asked(*args)
        assert (code, out) == (2, "")
        assert said in err


def test_what_cannot_be_run_is_refused_before_a_server_is_started(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_CONFIG", str(place.config))
    monkeypatch.setenv("PATH", str(place.work))
    for args, options, says in (
        (("absent",), {}, "absent is not installed.*'no-such-agent-cli'.*interlock doctor"),
        (("claude",), {}, "claude is not installed.*npm install -g @anthropic-ai/claude-code"),
        (("claude",), {"acp": True}, "npm install -g @zed-industries/claude-code-acp"),
        (("scriptd",), {}, "did you mean 'scripted'"),
        (("scripted",), {"acp": True}, "cannot be run by --acp"),
        (("scripted",), {"tui": True, "stream": True}, "--tui and --stream exclude each other"),
        (("scripted",), {"cwd": place.work / "none"}, "there is no folder"),
        (("scripted",), {"wait": True}, "nothing to wait for"),
        (("scripted", "--titel"), {}, "there is no option --titel"),
        (("model",), {}, "which model"),
        (("model",), {"model": "x:y", "acp": True}, "cannot be run by --acp"),
    ):
        with pytest.raises(UsageError, match=says):
            run(*args, **options, home=place.home)
    assert look_for_server(place.home).presence is Presence.ABSENT


def test_the_command_says_it_in_one_line(place: Place) -> None:
    done = place.cli("run", "absent", "say hello")
    assert (done.returncode, done.stdout) == (11, "")
    assert "no-such-agent-cli" in done.stderr
    assert "Traceback" not in done.stderr
    assert not place.home.exists()
