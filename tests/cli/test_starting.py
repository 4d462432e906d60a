"""A server that reads its log is said to do so, by every command, and is waited for as long as it goes on.

The start is held before it has the log by another connection's lock, and later by the process, which stops itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.server.process import Presence, look_for_server, start_server
from interlock.client.client import connect_async
from interlock.log.lease import this_process
from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.schema import connect
from interlock.log.sqlite.store import SqliteLog
from interlock.log.starting_file import STARTING_FILE, StartProgress, read_start, write_start
from interlock.vocabulary.errors import StillStarting, Unreachable
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.ids import EventId, SessionId
from tests.cli.harness import COMMAND, interlock
from tests.cli.serving import WAIT_SECONDS, until
from tests.cli.terminals import at_a_terminal

SESSION = SessionId("ses_a")
EVENTS = 6_000
# A server that stops itself when it has told how much it will read, and has read nothing of it yet.
STOPS_ITSELF = """
import os, signal
from interlock.server.starting import StartReport
watch = StartReport.watch
async def watch_and_stop(report, log, *, times):
    await watch(report, log, times=times)
    report.tell()
    os.kill(os.getpid(), signal.SIGSTOP)
StartReport.watch = watch_and_stop
from interlock.cli import main
raise SystemExit(main(["up", "--foreground"]))
"""


@pytest.fixture(scope="module")
def filled() -> Iterator[Path]:
    """A log that takes a moment to read."""
    with tempfile.TemporaryDirectory(prefix="il-") as short:
        home = Path(short) / "home"
        now = datetime(2026, 1, 1, tzinfo=UTC)

        async def fill() -> None:
            async with await SqliteLog.open(home) as log:
                for page in range(0, EVENTS, 1000):
                    events = [
                        new_event(UserMessage(text="x"), id=EventId(f"evt_{n}"), session_id=SESSION, ts=now)
                        for n in range(page, page + 1000)
                    ]
                    await log.append(SESSION, events)

        asyncio.run(fill())
        yield home


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return interlock(*args, env={"INTERLOCK_HOME": str(home), "XDG_CONFIG_HOME": str(home / "none")})


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0] == "T"


@contextmanager
def held_start(home: Path, *, has_read: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is stopped in the middle of its start: before it has the log, or while it reads it."""
    environment = {**os.environ, "INTERLOCK_HOME": str(home), "XDG_CONFIG_HOME": str(home / "none")}
    with closing(connect(home / DATABASE_NAME, readonly=False)) as lock:
        if not has_read:
            lock.execute("BEGIN IMMEDIATE")
        command = [sys.executable, "-c", STOPS_ITSELF] if has_read else [*COMMAND, "up", "--foreground"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if has_read:
                until(lambda: is_stopped(process), "it stops itself")
            else:
                until(lambda: read_start(home) is not None, "it starts")
                process.send_signal(signal.SIGSTOP)
                lock.execute("ROLLBACK")
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.parametrize("has_read", [False, True])
def test_every_command_says_that_a_server_is_starting(filled: Path, has_read: bool) -> None:
    with held_start(filled, has_read=has_read) as process:
        assert stat.S_IMODE((filled / STARTING_FILE).stat().st_mode) == 0o600
        for command in ("ps", "show x", "logs x --json", "usage", "approvals", "send x y"):
            said = run(filled, *command.split())
            assert (said.returncode, said.stdout) == (10, ""), said.stderr
            assert "a server is starting" in said.stderr
            assert ("%" in said.stderr) is has_read
            assert "no server runs" not in said.stderr
        status = run(filled, "status", "--json")
        told = json.loads(status.stdout)
        assert (status.returncode, told["presence"], told["is_up"]) == (10, "starting", False)
        assert told["starting"]["pid"] == process.pid
        assert told["starting"]["events_to_read"] == (2 * EVENTS if has_read else None)
        assert "is starting" in run(filled, "status").stdout
        with pytest.raises(StillStarting):
            asyncio.run(_ask(filled))
        (filled / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": 2**22 - 1}))
        (filled / "server.json").chmod(0o600)
        try:
            assert run(filled, "ps").returncode == 10  # what a dead server left says nothing against it
        finally:
            (filled / "server.json").unlink()
    assert read_start(filled) is None
    assert not (filled / STARTING_FILE).exists()
    assert run(filled, "ps").returncode == 8


async def _ask(home: Path) -> None:
    async with connect_async(home):
        pass


def test_a_start_is_waited_for_and_a_stalled_one_given_up(filled: Path) -> None:
    with held_start(filled, has_read=True) as process:
        with pytest.raises(Unreachable, match="makes no progress"):
            start_server(filled, within_seconds=0.2)
        assert process.poll() is None
        waiting = subprocess.Popen(
            [*COMMAND, "up", "--json", "--home", str(filled)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        following = subprocess.Popen(
            [*COMMAND, "ps", "--watch", "--home", str(filled)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert following.stderr is not None
        assert b"waiting for it" in following.stderr.readline()
        process.send_signal(signal.SIGCONT)
        out, err = waiting.communicate(timeout=WAIT_SECONDS)
        assert waiting.returncode == 0, err
        assert json.loads(out)["pid"] == process.pid
        assert following.stdout is not None
        first = following.stdout.readline()
        assert b"sessions" in first, (first, following.communicate(timeout=WAIT_SECONDS))
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=WAIT_SECONDS)


def test_a_start_is_ended_by_down_and_left_by_ctrl_c(filled: Path) -> None:
    with held_start(filled, has_read=True) as process:
        waiting = subprocess.Popen(
            [*COMMAND, "up", "--home", str(filled)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert waiting.stderr is not None
        assert b"waiting for it" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=WAIT_SECONDS)
        assert waiting.returncode == 4
        assert b"the server goes on starting" in err
        assert process.poll() is None
        assert look_for_server(filled).presence is Presence.STARTING
        refused = run(filled, "down", "--stop-agents")
        assert (refused.returncode, "not known yet" in refused.stderr) == (10, True)
        process.send_signal(signal.SIGCONT)
        assert run(filled, "down").returncode == 0
        assert process.wait(WAIT_SECONDS) == 0
    assert look_for_server(filled).presence is Presence.ABSENT


def test_a_bar_is_drawn_on_a_terminal_only(filled: Path) -> None:
    environment = {**os.environ, "INTERLOCK_HOME": str(filled)}
    with held_start(filled, has_read=True) as process, at_a_terminal(("up",), environment) as terminal:
        terminal.says("reading the log")
        terminal.says(f"/{2 * EVENTS}")
        process.send_signal(signal.SIGCONT)
        terminal.says("http://127.0.0.1:")


@pytest.mark.parametrize("spelled", ["{", "[]", '{"pid": "x"}', ""])
def test_what_says_nothing_sound_of_a_start_says_nothing(tmp_path: Path, spelled: str) -> None:
    (tmp_path / STARTING_FILE).write_text(spelled)
    (tmp_path / STARTING_FILE).chmod(0o600)
    assert read_start(tmp_path) is None
    # Another process with that number, another folder, or a file that others can read.
    for process, folder in (("long ago", ""), ("", "1:2")):
        mine = _mine(tmp_path)
        write_start(tmp_path, mine._replace(process=process or mine.process, folder=folder or mine.folder))
        assert read_start(tmp_path) is None
    write_start(tmp_path, _mine(tmp_path))
    assert read_start(tmp_path) is not None
    (tmp_path / STARTING_FILE).chmod(0o644)
    assert read_start(tmp_path) is None


def _mine(folder: Path) -> StartProgress:
    here = this_process()
    key = folder.stat()
    return StartProgress(here.pid, here.started, f"{key.st_dev}:{key.st_ino}", 0.0, 5, 10)


def test_a_start_is_told_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the server is stopped before it could say anything itself."""
    home = tmp_path / "home"
    launched: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def stopped(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - what any process takes
        process: subprocess.Popen[bytes] = real(*args, **kwargs)
        process.send_signal(signal.SIGSTOP)
        launched.append(process)
        return process

    monkeypatch.setattr("interlock.cli.server.process.subprocess.Popen", stopped)
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(start_server, home)
        try:
            until(lambda: read_start(home) is not None, "it is told")
            monkeypatch.undo()
            said = run(home, "ps")
            assert (said.returncode, said.stdout) == (10, "")
            assert "a server is starting" in said.stderr
        finally:
            until(lambda: launched, "it is launched")
            launched[0].send_signal(signal.SIGCONT)
            presence = starting.result().presence
            ended = run(home, "down").returncode
    assert (presence, ended, read_start(home)) == (Presence.RUNS, 0, None)
