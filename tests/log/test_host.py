"""The system's word about processes: /proc and its portable twin say the same of the same process, or say nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.agents.processes.identity import identity_of, is_alive, now_ticks, read_table, ticks_of
from interlock.agents.processes.stopping import _send
from interlock.agents.terminal.tool_processes import family
from interlock.log.host import GONE_STATES, HOST_VARIABLE, Host, host, linux, portable
from interlock.log.lease import Life, judge, this_process
from interlock.log.process_life import process_start
from interlock.vocabulary.errors import Unreachable

SYSTEMS: tuple[Host, ...] = (linux, portable)


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST_VARIABLE, "portable")
    assert host() is portable


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen((sys.executable, "-c", "import time; time.sleep(999)"), start_new_session=True) as process:
        yield process
        process.kill()


def test_the_choice_is_by_system_and_by_variable(twin: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOST_VARIABLE)
    assert host() is (linux if Path("/proc/self/stat").exists() else portable)


def test_both_tell_the_same_tree(child: subprocess.Popen[bytes]) -> None:
    told = [{row.pid: row for row in system.rows("HOME")}[child.pid] for system in SYSTEMS]
    assert {(row.parent, row.group) for row in told} == {(os.getpid(), child.pid)}
    for system, row in zip(SYSTEMS, told, strict=True):
        state, started = system.state_and_start(child.pid)
        assert (state[0] in GONE_STATES, started) == (False, row.started)
        began, now = system.ticks_of(started), system.now_ticks()
        assert began is not None
        assert now is not None
        assert abs(now - began) < 100 * 300
        assert child.pid in system.child_lookup()(os.getpid())
        assert "time.sleep(999)" in (row.command or system.command_line(child.pid))
        assert (system.argv(child.pid) or ("",))[0] == sys.executable
        assert (system.running_name(child.pid) or "").startswith("python")
        assert system.foreground_group(child.pid) is None  # it has no terminal
        assert system.boot_id()
        assert system.machine_id() == linux.machine_id()
    child.kill()
    child.wait()
    assert [system.running_name(child.pid) for system in SYSTEMS] == [None, None]
    assert [system.command_line(child.pid) for system in SYSTEMS] == ["", ""]


def test_a_zombie_is_gone(twin: None) -> None:
    with subprocess.Popen(("true",)) as process:
        while process_start(process.pid) is not None:
            time.sleep(0.01)
        assert portable.running_name(process.pid) is None
        assert process.pid not in read_table()


def test_what_the_twin_cannot_tell_it_does_not_claim(child: subprocess.Popen[bytes]) -> None:
    assert (portable.hold(child.pid), portable.control_groups(), portable.folder_address(3)) == (None, None, None)
    assert (portable.pid_namespace(), list(portable.tcp_tables())) == ("", [])
    with pytest.raises(Unreachable):
        portable.signal_held(3, signal.SIGTERM)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert portable.peer_of(ours) is None
        assert linux.peer_of(ours) == (os.getpid(), os.geteuid())


def test_files_that_are_open_are_told_by_lsof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As lsof prints them; where there is none, nothing is known."""
    program = tmp_path / "lsof"
    program.write_text(
        f"#!/bin/sh\n[ \"$5\" = {os.getpid()} ] && printf 'p1\\nfcwd\\nn/here\\nf3\\nn/a/rollout-1.jsonl\\n'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(portable.open_names(os.getpid())) == ["/here", "/a/rollout-1.jsonl"]
    program.unlink()
    assert list(portable.open_names(os.getpid())) == []
    with pytest.raises(Unreachable):
        list(portable.rows("HOME"))


@pytest.mark.parametrize("line", ["", "12", "a b c", "1 2 3 Z Mon Nov 16 02:36:16 2026 gone", "1 2 3 S short"])
def test_a_line_of_ps_that_tells_no_living_process_is_left_out(line: str) -> None:
    assert portable._row(line) is None


def test_ps_keeps_the_start_time_as_it_is_spelled() -> None:
    one = portable._row("  12     1    12 Ss   Mon Nov  2 02:36:16 2026 /bin/agent  --flag")
    assert one is not None
    assert (one.pid, one.started, one.command) == (12, "Mon Nov  2 02:36:16 2026", "/bin/agent  --flag")
    assert portable.ticks_of(one.started) == 1793586976
    assert [portable.ticks_of(text) for text in ("", "12", "Mon Nox  2 02:36:16 2026")] == [None, None, None]


def test_identity_signals_families_and_leases_work_by_the_twin(twin: None, child: subprocess.Popen[bytes]) -> None:
    who = identity_of(child.pid)
    assert who is not None
    assert is_alive(who)
    assert child.pid in set(family(os.getpid()))
    began, now = ticks_of(who), now_ticks()
    assert began is not None
    assert now is not None
    here = this_process()
    assert judge(here, here) is Life.ALIVE
    assert _send(who, signal.SIGKILL)
    child.wait()
    assert not is_alive(who)
    assert not _send(who, signal.SIGKILL)
