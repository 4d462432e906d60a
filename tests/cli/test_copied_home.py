"""A copied home and a moved one, by the command line, with a real tmux and agents that live meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.identity import identity_of, is_alive
from interlock.agents.tmux.server import TmuxServer
from interlock.cli.server.process import look_for_server
from tests.any_route import any_route
from tests.cli.serving import WAIT_SECONDS, Served, end_tmux, serving, until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "original").mkdir()
    with serving(tmp_path / "original") as running:
        yield running


def copy_of(served: Served, to: Path) -> None:
    """As a person copies a folder, while it is in use: with its log, its sockets, its tokens and `server.json`."""
    subprocess.run(("cp", "-a", str(served.home), str(to)), check=True, timeout=WAIT_SECONDS)


@contextmanager
def copied(served: Served, tmp_path: Path) -> Iterator[Served]:
    """A copy of a home, whose server, if there is one, is ended with its agents."""
    with tempfile.TemporaryDirectory(prefix="il-") as short:
        to = Path(short) / "home"
        copy_of(served, to)
        (tmp_path / "copy").mkdir()
        copy = Served(tmp_path / "copy", to)
        try:
            yield copy
        finally:
            copy.cli("down", "--stop-agents")
            end_tmux(to)


def agent_of(served: Served, task_id: str) -> ProcessIdentity:
    def look() -> ProcessIdentity | None:
        spawns = list(served.api.items(any_route(f"/api/tasks/{task_id}/spawns")))
        return identity_of(spawns[-1]["pid"]) if spawns and spawns[-1].get("pid") else None

    return until(look, f"the agent of {task_id} has started")


def turns_of(served: Served, task_id: str) -> list[str]:
    return [one["state"] for one in served.json("turns", task_id)["turns"]]


@pytest.mark.parametrize(
    "is_killed",
    [
        pytest.param(False, id="while-its-server-runs"),
        pytest.param(True, id="after-its-server-was-killed", marks=pytest.mark.deep),
    ],
)
def test_a_copy_says_so_and_touches_no_agent_of_its_original(served: Served, tmp_path: Path, is_killed: bool) -> None:
    task_id = served.open("gate first; say one.", face="tui", title="wanted")
    served.gates.await_reached("first", timeout_seconds=WAIT_SECONDS)
    served.send(task_id, "gate second; say two.")
    piped = served.open("gate piped; say three.", face="acp", title="piped")
    served.gates.await_reached("piped", timeout_seconds=WAIT_SECONDS)
    terminal, stream = agent_of(served, task_id), agent_of(served, piped)
    server = look_for_server(served.home)
    if is_killed:
        served.kill()
    with copied(served, tmp_path) as copy:
        # Without a server of its own: that of the original is not taken for it, and nothing is ended.
        status = copy.cli("status")
        assert status.returncode == 8
        assert f"copy of   {served.home}" in status.stdout
        ended = copy.cli("down", "--stop-agents")
        assert ended.returncode == 3
        assert f"this home is a copy of {served.home}" in ended.stderr
        assert is_alive(terminal)

        begun = copy.cli("up")
        assert begun.returncode == 0, begun.stderr
        assert f"this home is a copy of {served.home}" in begun.stderr
        assert look_for_server(copy.home).pid != server.pid
        assert copy.json("status")["copied_from"] == str(served.home)
        (shown,) = [one for one in copy.json("ps")["sessions"] if one["session_id"] == task_id]
        assert shown["badge"]["activity"] == "unknown", shown
        assert copy.cli("send", task_id, "gate third").returncode != 0
        assert copy.cli("stop", task_id).returncode != 0
        assert "copy of" in copy.cli("doctor").stdout

        # A copy is a home of its own: what it starts is its own, in a tmux of its own.
        own = copy.open("say hello.", face="tui", title="of the copy")
        copy.shows(own, status="COMPLETED")
        assert copy.json("attach", own)["argv"][3] == TmuxServer.of_home(copy.home).socket

        down = copy.cli("down", "--stop-agents")
        assert f"the server (process {server.pid}) has ended" not in down.stderr
        assert is_alive(terminal)
        if is_killed:
            served.start()
        else:
            assert is_alive(stream)
            assert look_for_server(served.home).pid == server.pid
            served.gates.open("piped")
            served.shows(piped, status="COMPLETED")

        for gate in ("first", "second"):
            served.gates.open(gate)
        until(lambda: turns_of(served, task_id) == ["completed", "completed"], "both turns of the original are over")
        assert served.gates.reached_by("second") == served.gates.reached_by("first") == [terminal.pid]
        assert served.gates.reached_by("third") == []


@pytest.mark.deep
def test_prompts_that_waited_in_the_original_are_held_in_a_copy_until_a_person_lets_them_go(
    served: Served, tmp_path: Path
) -> None:
    task_id = served.open("gate first; say one.", face="tui", title="held")
    served.gates.await_reached("first", timeout_seconds=WAIT_SECONDS)
    served.send(task_id, "gate second; say two.")
    terminal = agent_of(served, task_id)
    served.kill()
    os.kill(terminal.pid, signal.SIGKILL)
    until(lambda: not is_alive(terminal), "the agent is gone, and no server runs")
    with copied(served, tmp_path) as copy:
        assert copy.cli("up").returncode == 0
        held = copy.cli("queue", "ls", task_id)
        assert f"copy of {served.home}" in held.stdout + held.stderr
        assert served.gates.reached_by("second") == []
        served.gates.open("second")
        assert copy.cli("queue", "go", task_id).returncode == 0
        copy.shows(task_id, status="COMPLETED")
        assert len(served.gates.reached_by("second")) == 1
        # It was held once, as a copy that was new: what it takes itself goes on after a restart.
        assert copy.cli("down", "--stop-agents").returncode == 0
        assert copy.cli("queue", "ls", task_id).returncode != 0
        assert copy.cli("up").returncode == 0
        assert "copy of" not in copy.cli("queue", "ls", task_id).stdout


def test_a_home_that_was_renamed_finds_its_agents_again(served: Served) -> None:
    task_id = served.open("gate first; say one.", face="tui", title="moved")
    served.gates.await_reached("first", timeout_seconds=WAIT_SECONDS)
    terminal = agent_of(served, task_id)
    assert served.stop() == 0
    served.home = served.home.rename(served.home.with_name("moved"))
    served.start()
    assert served.json("status")["copied_from"] is None
    assert agent_of(served, task_id) == terminal
    served.gates.open("first")
    until(lambda: turns_of(served, task_id) == ["completed"], "the turn is over")
    served.send(task_id, "say two.")
    until(lambda: turns_of(served, task_id) == ["completed", "completed"], "the next one, too")
    assert served.cli("stop", task_id).returncode == 0
    assert not is_alive(terminal)


@pytest.mark.deep
def test_a_home_that_was_moved_to_another_disk_is_taken_over_when_a_person_says_so(
    served: Served, tmp_path: Path
) -> None:
    task_id = served.open("gate first; say one.", face="tui", title="moved")
    served.gates.await_reached("first", timeout_seconds=WAIT_SECONDS)
    terminal = agent_of(served, task_id)
    assert served.stop() == 0
    asked = TmuxServer.of_home(served.home).argv("display-message", "-p", "#{pid}")
    tmux = int(subprocess.run(asked, capture_output=True, check=True, timeout=WAIT_SECONDS).stdout)
    try:
        with copied(served, tmp_path) as copy:
            refused = copy.cli("up", "--take-over")
            assert refused.returncode == 2
            assert f"the original home is still at {served.home}" in refused.stderr
            assert copy.cli("up").returncode == 0
            assert copy.cli("down", "--stop-agents").returncode == 0
            assert copy.cli("down", "--stop-agents").returncode == 3
            assert is_alive(terminal)
            shutil.rmtree(served.home)  # as `mv` does when it has copied everything
            taken = copy.cli("up", "--take-over")
            assert taken.returncode == 0, taken.stderr
            assert f"takes over the agents and prompts of {served.home}" in taken.stderr
            assert "is a copy" not in taken.stderr
            assert is_alive(terminal)  # its tmux cannot be reached any more, so nobody can say what it does
            assert copy.cli("down").returncode == 0
            stopped = copy.cli("down", "--stop-agents", "--json")
            assert (stopped.returncode, json.loads(stopped.stdout)["stopped"]) == (0, [task_id]), stopped.stderr
            assert not is_alive(terminal)
    finally:
        os.kill(tmux, signal.SIGTERM)
