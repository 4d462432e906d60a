"""`interlock attach`: the pane of the agent that runs now, and nothing else in its place."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from interlock.agents.terminal.launch import Where
from interlock.cli.work.attach import check_pane, find_pane, tmux_command
from interlock.log.home_identity import HomeStanding, NotOurs, look_at_home
from interlock.vocabulary.errors import Unreachable
from tests.cli.harness import COMMAND
from tests.cli.serving import WAIT_SECONDS, Served, serving, until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as running:
        yield running


def test_the_window_comes_to_the_front_and_only_that_pane_is_meant() -> None:
    own = tmux_command(Where(socket="/h/run/tmux", pane_id="%7", is_own=True))
    assert own == [
        *("tmux", "-u", "-S", "/h/run/tmux", "-f", "/dev/null", "-N", "select-window", "-t", "%7", ";"),
        *("select-pane", "-t", "%7", ";", "attach-session", "-t", "%7"),
    ]
    assert tmux_command(Where(socket="mine", pane_id="%7"))[:4] == ["tmux", "-u", "-L", "mine"]


@pytest.mark.deep
def test_a_person_comes_to_the_terminal_of_the_agent_and_to_no_other(served: Served) -> None:
    other = served.open(face="tui", title="other")
    task_id = served.open(face="tui", title="wanted")
    for one in (task_id, other):
        assert served.cli("start", one).returncode == 0
    argv = served.json("attach", task_id)["argv"]
    printed = served.cli("attach", task_id, "--print")
    assert shlex.split(printed.stdout) == ["env", "-u", "TMUX", "-u", "TMUX_PANE", *argv]
    assert served.json("attach", other)["argv"][-1] != argv[-1]

    piped = served.cli("attach", task_id)
    assert (piped.returncode, piped.stdout) == (2, "")
    assert "no terminal to attach from" in piped.stderr

    environment = {**os.environ, "INTERLOCK_HOME": str(served.home), "TERM": "xterm", "TMUX": "/nowhere,1,0"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        (*COMMAND, "attach", task_id), stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    try:
        listing = [*argv[:6], "list-clients", "-F", "#{client_pid} #{pane_id}"]

        def is_there() -> bool:
            told = subprocess.run(listing, capture_output=True, encoding="utf-8", timeout=WAIT_SECONDS, check=False)
            return f"{process.pid} {argv[-1]}" in told.stdout.splitlines()

        until(is_there, "the person is at the pane")
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)
        os.close(ours)

    where = find_pane(served.api, task_id)
    home = look_at_home(served.home)
    check_pane(where, home)
    with pytest.raises(NotOurs, match="another home"):
        check_pane(where, HomeStanding("hom_other", frozenset({"hom_other"})))
    with pytest.raises(Unreachable, match="another process"):
        check_pane(structs.replace(where, pane_pid=where.pane_pid + 1), home)
    with pytest.raises(Unreachable, match="cannot be reached"):
        check_pane(structs.replace(where, socket=f"{where.socket}-none"), home)

    assert served.cli("stop", task_id).returncode == 0
    gone = served.cli("attach", task_id)
    assert gone.returncode == 2
    assert f"interlock start {task_id}" in gone.stderr

    stream = served.open()
    refused = served.cli("attach", stream, "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"interlock logs -f {stream}" in refused.stderr
    assert json.loads(served.cli("attach", other, "--json").stdout)["session_id"] == other
