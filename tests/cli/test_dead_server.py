"""A server that was killed: no command and no program takes its number for it, or asks who has it now."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.agents.tmux.server import TmuxServer
from interlock.client.sync import connect
from interlock.log.process_life import process_start
from interlock.vocabulary.errors import Unreachable
from tests.cli.harness import interlock
from tests.cli.serving import serving, until
from tests.cli.test_up import home as home


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return interlock(*args, env={"INTERLOCK_HOME": str(home)})


def check_that_no_server_is_asked(home: Path) -> None:
    for command in (("ps",), ("resume", "--all", "--json")):
        done = run(home, *command)
        assert (done.returncode, "ended without a word" in done.stderr) == (8, True), done
    with pytest.raises(Unreachable, match="ended without a word"):
        connect(home)


def test_a_server_that_was_killed_is_not_asked_while_nobody_waited_for_it_nor_who_gets_its_number(home: Path) -> None:
    up = (sys.executable, "-m", "interlock.cli", "up", "--foreground", "--home", str(home))
    with subprocess.Popen(up, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        until(lambda: (home / "server.json").exists() and run(home, "ps").returncode == 0, "it is ready")
        server.send_signal(signal.SIGKILL)
        until(lambda: process_start(server.pid) is None, "it has ended")
        os.kill(server.pid, 0)  # it has its number until we wait for it
        check_that_no_server_is_asked(home)
    with subprocess.Popen(("sleep", "60")) as other:
        told = json.loads((home / "server.json").read_text())
        assert told["pid"] == server.pid
        (home / "server.json").write_text(json.dumps({**told, "pid": other.pid}))
        check_that_no_server_is_asked(home)
        other.kill()
    again = {**told, "pid": os.getpid(), "started": process_start(os.getpid()), "boot_id": "of another boot"}
    (home / "server.json").write_text(json.dumps(again))
    check_that_no_server_is_asked(home)
    assert run(home, "up").returncode == 0
    assert run(home, "ps").returncode == 0


def test_down_with_its_agents_leaves_no_terminal_behind_and_spares_what_a_person_started(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with serving(tmp_path / "home") as one:

        def tmux(*words: str) -> subprocess.CompletedProcess[str]:
            argv = TmuxServer.of_home(one.home).argv("-N", *words)
            return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

        for is_spared in (True, False):
            task_id = one.open("say hello", face="tui")
            one.shows(task_id, status="COMPLETED")
            one.kill()
            if is_spared:
                assert tmux("new-session", "-d", "-s", "mine", "sleep 1000").returncode == 0
            assert one.cli("down", "--stop-agents").returncode == 0
            assert (tmux("has-session", "-t", "mine").returncode == 0) is is_spared
            if is_spared:
                assert tmux("kill-session", "-t", "mine").returncode == 0
                one.start()
        until(lambda: "no server running" in tmux("list-panes", "-a").stderr or None, "the tmux server is gone")
