"""`interlock up`, `down` and `status`: one server a home, and signals for that very process only."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.processes.identity import identity_of, is_alive
from interlock.cli.look.ps_list import FoundSessions
from interlock.cli.server import presence as server_presence
from interlock.cli.server import process as server_process
from interlock.cli.server import server_log, status
from interlock.cli.server.api import ServerApi
from interlock.cli.server.process import Grip, Presence, RunningServer, held_server, look_for_server, start_server
from interlock.cli.server.up import up
from interlock.log.lease import Holder, this_process
from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.schema import CURRENT, connect
from interlock.log.sqlite.store import SqliteLog
from interlock.server import serving
from interlock.testing.scripted_agent import command
from interlock.vocabulary.errors import Unreachable
from tests.any_route import any_route
from tests.cli.harness import COMMAND, interlock, python
from tests.cli.serving import WAIT_SECONDS, end_tmux, until
from tests.log.schema_one import make_version_one


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with a tmux of its own, and short enough for sockets. Its server, if there is one at the end, is ended."""
    with tempfile.TemporaryDirectory(prefix="il-") as short:
        folder = Path(short) / "home"
        yield folder
        with held_server(folder) as (_, grip):
            if grip is not None:
                grip.send(signal.SIGKILL)
                assert grip.wait(WAIT_SECONDS)
        end_tmux(folder)  # a test that fails in the middle must not leave an agent


def run(home: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return interlock(*args, env={"INTERLOCK_HOME": str(home), "XDG_CONFIG_HOME": str(home / "none"), **env})


def test_a_server_collects_garbage_and_never_looks_at_what_it_imported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, bool]] = []

    async def serve(*_: object, **__: object) -> int:
        seen.append((gc.isenabled(), gc.get_freeze_count() > 10_000))
        return 0

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(server_log, "log_to_stderr", lambda _: None)
    home.mkdir(mode=0o700)
    gc.unfreeze()
    try:
        assert up(foreground=True, home=home) == 0
    finally:
        gc.enable()
    assert seen == [(True, True)]


def test_up_status_down(home: Path) -> None:
    first = run(home, "up")
    assert first.returncode == 0, first.stderr
    url = first.stdout.strip()
    assert first.stdout == f"{url}\n"
    assert url.startswith("http://127.0.0.1:")
    assert stat.S_IMODE((home / "server.log").stat().st_mode) == 0o600
    server = look_for_server(home)
    assert (server.presence, server.url) == (Presence.RUNS, url)
    assert os.getsid(server.pid) == server.pid  # no terminal of ours, and no Ctrl-C
    again = run(home, "up", "--json")
    assert json.loads(again.stdout) == {"url": url, "pid": server.pid, "is_new": False}
    assert "ran already" in again.stderr
    status = run(home, "status")
    assert (status.returncode, status.stderr) == (0, "")
    assert f"{url}, ready" in status.stdout
    in_place = run(home, "up", "--foreground")
    assert (in_place.returncode, in_place.stdout) == (2, "")
    assert "runs already" in in_place.stderr
    down = run(home, "down", "--json")
    assert (down.returncode, json.loads(down.stdout)["was_running"]) == (0, True)
    assert look_for_server(home).presence is Presence.ABSENT
    after = run(home, "status", "--json")
    assert (after.returncode, json.loads(after.stdout)["presence"]) == (8, "absent")
    assert run(home, "ps").returncode == 8
    nothing = run(home, "down")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no server runs" in nothing.stderr


def test_a_server_that_was_killed_is_not_taken_for_one(home: Path) -> None:
    start_server(home)
    server = look_for_server(home)
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: look_for_server(home).presence is Presence.STALE, "it is gone")
    status = run(home, "status")
    assert status.returncode == 8
    assert "ended without a word" in status.stdout
    down = run(home, "down")
    assert down.returncode == 0
    assert "ended without a word" in down.stderr
    _check_that_no_other_process_gets_a_signal(home, server)
    up = run(home, "up", "--json")
    assert json.loads(up.stdout)["is_new"]
    now = run(home, "down", "--now")
    assert (now.returncode, look_for_server(home).presence is Presence.RUNS) == (0, False)


def _check_that_no_other_process_gets_a_signal(home: Path, dead: RunningServer) -> None:
    """The number of a dead server is given to somebody else."""
    with subprocess.Popen(("sleep", "60")) as innocent:
        told = json.loads((home / "server.json").read_text())
        (home / "server.json").write_text(json.dumps({**told, "pid": innocent.pid}))
        assert look_for_server(home).presence is Presence.STALE
        assert run(home, "down", "--now").returncode == 0
        assert dead.holder is not None
        # The same number, another start: a grip on it sends nothing where there is no handle on the process.
        grip = Grip(replace(dead, pid=innocent.pid, holder=replace_pid(dead, innocent.pid)))
        grip.close()
        grip._descriptor = None
        grip.send(signal.SIGKILL)
        assert not grip.lives
        assert innocent.poll() is None
        innocent.terminate()


def replace_pid(server: RunningServer, pid: int) -> Holder:
    assert server.holder is not None
    fields = {name: getattr(server.holder, name) for name in server.holder.__struct_fields__}
    return Holder(**{**fields, "pid": pid})


def test_a_log_that_another_process_has(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "_OTHER_SECONDS", 0.0)

    async def hold() -> None:
        async with await SqliteLog.open(home):
            assert look_for_server(home).presence is Presence.HELD
            with pytest.raises(Unreachable, match=f"process {os.getpid()} .*is writing"):
                await asyncio.to_thread(start_server, home)
            down = await asyncio.to_thread(run, home, "down")
            assert down.returncode == 8
            assert "nothing was done" in down.stderr
            status = await asyncio.to_thread(run, home, "status")
            assert (status.returncode, f"held by {this_process()}" in status.stdout) == (8, True)
            # A file that a dead server left names somebody else: that nobody is signalled for it.
            (home / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": os.getppid()}))
            (home / "server.json").chmod(0o600)
            assert look_for_server(home).presence is Presence.HELD
            with held_server(home) as (_, grip):
                assert grip is None

    asyncio.run(hold())


def test_a_server_that_does_not_answer_is_not_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_server(home)
    monkeypatch.setattr(server_presence, "HEALTH_SECONDS", 0.2)
    server = look_for_server(home)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert server_process.health_of(server.url) is None
        with pytest.raises(Unreachable, match="not ready after"):
            start_server(home, within_seconds=0.3)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    monkeypatch.setattr(server_presence, "HEALTH_SECONDS", WAIT_SECONDS)
    assert server_process.health_of(server.url) is not None
    with held_server(home) as (_, grip):
        assert grip is not None
        assert (grip._descriptor is not None) == (sys.platform == "linux")
        assert not grip.wait(0.0)
        grip.send(signal.SIGTERM)
        assert grip.wait(WAIT_SECONDS)
        grip.send(signal.SIGTERM)  # to nobody


def test_an_older_log_that_is_being_upgraded_is_named_while_it_is_waited_for(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_version_one(home)
    for is_upgraded in (False, True):
        with pytest.raises(Unreachable) as told:
            server_process._until_ready(home, home / "server.log", None, within_seconds=0)
        assert (f"(upgrading the log from schema 1 to {CURRENT.version}, once)" in str(told.value)) is not is_upgraded
        with closing(connect(home / DATABASE_NAME, readonly=False)) as connection, connection:
            CURRENT.migrate(connection)


def test_two_at_once_have_one_server(home: Path) -> None:
    env = {**os.environ, "INTERLOCK_HOME": str(home)}
    both = [
        subprocess.Popen((*COMMAND, "up", "--json"), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=100) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert len({json.loads(out)["pid"] for out, _ in said}) == 1


@pytest.mark.parametrize("case", ["port", "host", "config", "range"])
def test_what_cannot_be_started_says_why(home: Path, case: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        args, env, said = {
            "port": (("--port", port), {}, f"127.0.0.1:{port} cannot be bound"),
            "host": (("--host", "0.0.0.0"), {}, "--allow-remote"),
            "config": ((), {"INTERLOCK_SERVER_PORT": "many"}, "INTERLOCK_SERVER_PORT"),
            "range": (("--port", "70000"), {}, "0 to 65535"),
        }[case]
        done = run(home, "up", *args, **env)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert look_for_server(home).presence is Presence.ABSENT


def test_in_place_until_ctrl_c(home: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {**os.environ, "INTERLOCK_HOME": str(home), "INTERLOCK_SERVER_PORT": str(port)}
    with (tmp_path / "stderr").open("wb") as stderr:
        process = subprocess.Popen((*COMMAND, "up", "--foreground"), env=env, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == f"http://127.0.0.1:{port}\n".encode()  # as it is configured
            assert until(lambda: ServerApi.of_home(home).get(any_route("/health"))["ready"], "it is ready")
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_SECONDS) == 0
        finally:
            process.kill()
    assert not (home / "server.json").exists()
    assert "Traceback" not in (tmp_path / "stderr").read_text()


def test_a_server_that_cannot_write_its_log_is_said_to_be_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = RunningServer(presence=Presence.RUNS, url="http://127.0.0.1:1", pid=1)
    for problem in ("", "the disk is full"):
        answer = server, {"ready": True, "version": "1"}, FoundSessions([], is_complete=True, log_problem=problem)
        monkeypatch.setattr(status, "_answering", lambda _, answer=answer: answer)
        assert status.status(home=home) == 0
        assert ("nothing is recorded: the disk is full" in capsys.readouterr().out) is bool(problem)
        assert status.status(home=home, json=True) == 0
        assert json.loads(capsys.readouterr().out)["log_problem"] == problem


def pids_of(api: ServerApi, *tasks: str) -> dict[str, int]:
    """The processes of these tasks, as far as they have started: a start is confirmed before its agent is there."""
    found = {one: api.get(any_route(f"/api/tasks/{one}/spawns"))["items"] for one in tasks}
    return {one: spawns[0]["pid"] for one, spawns in found.items() if spawns and spawns[0].get("pid")}


def test_agents_in_tmux_go_on_without_the_server(home: Path, tmp_path: Path) -> None:
    start_server(home)
    api = ServerApi.of_home(home)
    body = {"agent": "scripted", "driver": "terminal", "argv": command("tui"), "cwd": str(tmp_path)}
    task_id = str(api.ask("POST", "/api/tasks", body)["task_id"])
    api.ask("POST", f"/api/tasks/{task_id}/start")
    piped = str(api.ask("POST", "/api/tasks", {**body, "driver": "acp", "argv": command("acp")})["task_id"])
    api.ask("POST", f"/api/tasks/{piped}/start")
    until(lambda: len(pids_of(api, task_id, piped)) == 2, "both agents have started")
    left = run(home, "down", "--json")
    assert left.returncode == 0, left.stderr
    assert json.loads(left.stdout)["left_running"] == [task_id]
    assert "1 of 2 agents go on" in left.stderr
    start_server(home)
    try:
        (spawn,) = ServerApi.of_home(home).get(any_route(f"/api/tasks/{task_id}/spawns"))["items"]
        assert (spawn["standing"], spawn["is_adopted"]) == ("running", True)
    finally:
        stopped = run(home, "down", "--stop-agents", "--json")
    assert (stopped.returncode, json.loads(stopped.stdout)["left_running"]) == (0, [])


def test_agents_that_a_killed_server_left_are_found_and_stopped(home: Path, tmp_path: Path) -> None:
    start_server(home)
    api = ServerApi.of_home(home)
    body = {"agent": "scripted", "driver": "terminal", "argv": command("tui"), "cwd": str(tmp_path)}
    task_id = str(api.ask("POST", "/api/tasks", body)["task_id"])
    api.ask("POST", f"/api/tasks/{task_id}/start")
    # An agent on pipes that does not end with them, and hears no signal but the last.
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\ntrap '' INT TERM HUP PIPE\nwhile :; do sleep 0.1; done\n")
    program.chmod(0o755)
    piped = str(api.ask("POST", "/api/tasks", {**body, "driver": "claude-stream", "argv": [str(program)]})["task_id"])
    api.ask("POST", f"/api/tasks/{piped}/start")

    until(lambda: len(pids_of(api, task_id, piped)) == 2, "both agents have started")
    pids = pids_of(api, task_id, piped).values()
    agents, server = [one for pid in pids if (one := identity_of(pid)) is not None], look_for_server(home)
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: look_for_server(home).presence is Presence.STALE, "it is gone")
    assert [is_alive(one) for one in agents] == [True, True]
    told = run(home, "down")
    assert told.returncode == 0
    assert "interlock down --stop-agents" in told.stderr
    stopped = run(home, "down", "--stop-agents", "--json")
    assert stopped.returncode == 0, stopped.stderr
    assert set(json.loads(stopped.stdout)["stopped"]) == {task_id, piped}
    assert json.loads(stopped.stdout)["left_running"] == []
    assert [is_alive(one) for one in agents] == [False, False]
    again = run(home, "down", "--stop-agents", "--json")
    assert (again.returncode, json.loads(again.stdout)["stopped"]) == (0, [])


def test_an_agent_that_cannot_be_stopped_is_named(home: Path, tmp_path: Path) -> None:
    """The command runs inside of the agent that it is to stop: it does not end itself, and says so by exit code 3."""
    start_server(home)
    api = ServerApi.of_home(home)
    done, asked = tmp_path / "done", tmp_path / "asked"
    program = tmp_path / "agent"
    program.write_text(
        f"#!/bin/sh\ntrap '' INT TERM HUP PIPE\nwhile ! test -e {asked}; do sleep 0.1; done\n"
        f"{' '.join(COMMAND)} down --stop-agents --home {home} >{done}.text 2>&1\n"
        f"echo $? >{done}.new; mv {done}.new {done}\n"
        "while :; do sleep 0.1; done\n"
    )
    program.chmod(0o755)
    body = {"agent": "scripted", "driver": "claude-stream", "argv": [str(program)], "cwd": str(tmp_path)}
    task_id = str(api.ask("POST", "/api/tasks", body)["task_id"])
    api.ask("POST", f"/api/tasks/{task_id}/start")
    until(lambda: api.get(any_route(f"/api/tasks/{task_id}/spawns"))["items"], "it has started")
    os.kill(look_for_server(home).pid, signal.SIGKILL)
    until(lambda: look_for_server(home).presence is Presence.STALE, "it is gone")
    asked.touch()
    try:
        until(done.exists, "it was tried")
        said = done.with_name("done.text").read_text()
        assert done.read_text().strip() == "3", said
        assert f"the agent of {task_id} could not be stopped: we run inside of process" in said
    finally:
        assert run(home, "down", "--stop-agents").returncode == 0


def test_the_log_of_a_server_is_private_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    code = (
        "import logging, os, sys\nfrom pathlib import Path\nfrom interlock.cli.server import server_log\n"
        f"server_log.MAX_BYTES = 300\nserver_log.log_to_stderr(Path({str(path)!r}))\n"
        "for number in range(50): logging.getLogger('x').warning('line %d %s', number, 'y' * 40)\n"
        "os.write(2, b'raw words\\n')\nprint('to stdout')\n"
    )
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    files = sorted(tmp_path.iterdir())
    assert [one.name for one in files] == ["server.log", "server.log.1"]
    for one in files:
        assert one.stat().st_size < 300 + 200
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
    said = path.read_text()
    assert "line 49" in said
    assert "raw words" in said
    assert "to stdout" in said
