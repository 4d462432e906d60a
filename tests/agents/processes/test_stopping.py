"""Stopping real process trees: what is ended, by which signal, and what is left alone."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.port import ProcessIdentity, StopReport
from interlock.agents.processes.identity import identity_of, is_alive
from interlock.agents.processes.stopping import StopPolicy, stop_tree
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import EndedProcess
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, SpawnId
from tests.agents.processes.trees import PYTHON, QUICK, first_line, living_of, new_spawn_id, shell, started, until


def ended_pid(report: StopReport, pid: int) -> EndedProcess:
    (one,) = [ended for ended in report.ended if ended.pid == pid]
    return one


async def stopped_after_first_line(script: str, policy: StopPolicy = QUICK) -> tuple[StopReport, int]:
    """Start a script that prints the number of one of its processes; stop it; say what was reported."""
    async with started(*shell(script)) as child:
        pid = int(await first_line(child))
        there = identity_of(pid)
        assert there is not None
        report = await child.stop(policy)
        assert not is_alive(there)
        assert report.survivors == ()
        return report, pid


def test_a_tree_that_listens_is_ended_by_an_interrupt() -> None:
    async def run() -> None:
        async with started(PYTHON, "-c", "import time; print('up', flush=True); time.sleep(600)") as child:
            await first_line(child)
            report = await child.stop()
            assert ended_pid(report, child.identity.pid).signal == "SIGINT"
            assert ended_pid(report, child.identity.pid).found_by == "leader+group+environment"
            exited = await child.exited()
            assert exited.signal == signal.SIGINT or exited.code == 1

    asyncio.run(run())


def test_one_that_is_gone_before_it_can_be_woken_was_ended_by_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    signal_group = os.killpg

    def too_late_to_wake(group: int, number: int) -> None:
        if number == signal.SIGCONT:
            raise ProcessLookupError
        signal_group(group, number)

    monkeypatch.setattr(os, "killpg", too_late_to_wake)

    async def run() -> None:
        async with started("sleep", "600") as child:
            report = await child.stop()
            assert ended_pid(report, child.identity.pid).signal == "SIGINT"

    asyncio.run(run())


def test_a_child_that_ignores_interrupts_is_told_to_end() -> None:
    # The child itself tells its number: by then the shell has made it ignore interrupts, as it does for `&`.
    report, pid = asyncio.run(stopped_after_first_line("sh -c 'echo $$; exec sleep 600' & wait"))
    assert ended_pid(report, pid).signal == "SIGTERM"


def test_a_child_that_ignores_every_word_is_killed() -> None:
    deaf = "trap '' INT TERM; sleep 600 & echo $$; wait; wait; sleep 600"
    report, pid = asyncio.run(stopped_after_first_line(f'sh -c "{deaf.replace("$", chr(92) + "$")}"; sleep 600'))
    assert ended_pid(report, pid).signal == "SIGKILL"


def test_a_daemon_that_left_the_session_is_found_by_its_environment() -> None:
    script = "(setsid sh -c 'echo $$; exec sleep 600' &) ; sleep 600"
    report, pid = asyncio.run(stopped_after_first_line(script))
    daemon = ended_pid(report, pid)
    assert (daemon.found_by, daemon.signal) == ("environment", "SIGTERM")


def test_a_daemon_that_hides_is_found_by_its_parent_and_still_known_once_it_lost_it() -> None:
    # The leader ends by the first signal, so that the daemon belongs to nobody when its own turn comes.
    script = "setsid env -i sh -c 'echo $$; exec sleep 600' & wait"
    report, pid = asyncio.run(stopped_after_first_line(script))
    assert ended_pid(report, pid).found_by == "parent"


def test_a_daemon_that_ignores_every_word_is_killed() -> None:
    script = "(setsid sh -c 'trap \"\" INT TERM HUP; echo $$; while :; do sleep 600; done' &) ; sleep 600"
    report, pid = asyncio.run(stopped_after_first_line(script))
    assert ended_pid(report, pid).signal == "SIGKILL"


def test_what_a_dead_leader_left_in_its_group_is_ended_too() -> None:
    async def run() -> None:
        async with started(*shell("env -i sh -c 'echo $$; exec sleep 600' & exit 3")) as child:
            left = identity_of(int(await first_line(child)))
            assert left is not None
            assert (await child.exited()).code == 3
            report = await child.stop(QUICK)
            assert ended_pid(report, left.pid).found_by == "group"
            assert not is_alive(left)

    asyncio.run(run())


def test_a_group_that_is_not_proven_to_be_the_leaders_is_left_alone() -> None:
    async def run() -> None:
        async with started(*shell("env -i sh -c 'echo $$; exec sleep 600' & exit 0")) as child:
            left = identity_of(int(await first_line(child)))
            assert left is not None
            await child.exited()
            report = await stop_tree(child.identity, new_spawn_id(), QUICK)
            assert report == StopReport()
            assert is_alive(left)

    asyncio.run(run())


# It is a new process each millisecond, so that hardly any look at the table sees it. The lock is its own throughout.
FORKS_ON: Final = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("up", flush=True)
until = time.monotonic() + 100
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
"""


def test_what_forks_while_it_is_killed_does_not_get_away(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    async def run() -> None:
        async with started(*shell(f'{PYTHON} -c "$1" "$2" & sleep 600'), "sh", FORKS_ON, str(lock)) as child:
            await first_line(child)
            assert (await child.stop(QUICK)).survivors == ()
            with lock.open("w") as mine:
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)

    asyncio.run(run())


def test_a_stopped_process_goes_on_to_hear_that_it_shall_end() -> None:
    async def run() -> None:
        async with started("sleep", "600") as child:
            os.kill(child.identity.pid, signal.SIGSTOP)
            report = await child.stop(StopPolicy(interrupt_seconds=20.0))
            assert ended_pid(report, child.identity.pid).signal == "SIGINT"

    asyncio.run(run())


def test_a_number_that_was_used_again_is_never_signalled() -> None:
    async def run() -> None:
        async with started("sleep", "600") as child:
            another = ProcessIdentity(child.identity.pid, "1")
            assert await stop_tree(another, new_spawn_id(), QUICK) == StopReport()
            assert is_alive(child.identity)

    asyncio.run(run())


def test_a_process_that_leads_no_group_is_ended_without_its_group() -> None:
    async def run() -> None:
        async with started(*shell("sh -c 'echo $$; exec sleep 600'; sleep 600")) as child:
            member = identity_of(int(await first_line(child)))
            assert member is not None
            report = await stop_tree(member, new_spawn_id(), QUICK)
            assert [(one.pid, one.signal) for one in report.ended] == [(member.pid, "SIGINT")]
            assert is_alive(child.identity)

    asyncio.run(run())


def test_we_do_not_stop_what_we_run_in() -> None:
    async def run() -> None:
        ourselves, parent = identity_of(os.getpid()), identity_of(os.getppid())
        for one in (ourselves, parent):
            with pytest.raises(UsageError, match="inside"):
                await stop_tree(one, new_spawn_id(), QUICK)

    asyncio.run(run())


def test_stopping_twice_is_the_same_as_once() -> None:
    async def run() -> None:
        async with started(*shell("sleep 600 & wait")) as child:
            assert (await child.stop(QUICK)).ended
            assert await child.stop(QUICK) == StopReport()

    asyncio.run(run())


def test_without_a_process_what_carries_the_spawn_id_is_ended() -> None:
    async def run() -> None:
        spawn_id = new_spawn_id()
        async with started("sleep", "600", spawn_id=spawn_id) as child:
            report = await stop_tree(None, spawn_id, QUICK)
            assert [(one.pid, one.found_by) for one in report.ended] == [(child.identity.pid, "environment")]

    asyncio.run(run())


def test_nothing_is_found_by_an_empty_spawn_id() -> None:
    with subprocess.Popen(["sleep", "600"], env={**os.environ, SPAWN_ID_VARIABLE: ""}) as process:
        try:
            assert asyncio.run(stop_tree(None, SpawnId(""), QUICK)) == StopReport()
            assert process.poll() is None
        finally:
            process.kill()


def test_a_zombie_is_dead_already() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        there = identity_of(process.pid)
        report = asyncio.run(stop_tree(there, new_spawn_id(), QUICK))  # nobody waits for it before the block ends
        assert [one.pid for one in report.ended] == [process.pid]
        assert report.survivors == ()


def test_a_stop_that_is_cancelled_kills_first() -> None:
    async def run() -> None:
        deaf = (
            "trap '' INT TERM; (setsid sh -c 'trap \"\" INT TERM; sleep 600; sleep 600' &); echo up; sleep 600; sleep 9"
        )
        spawn_id = new_spawn_id()
        async with started(*shell(deaf), spawn_id=spawn_id) as child:
            await first_line(child)
            stopping = asyncio.create_task(child.stop(StopPolicy(interrupt_seconds=600.0)))
            done, _ = await asyncio.wait((stopping,), timeout=0.2)
            assert not done
            stopping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stopping
            await until(lambda: living_of(spawn_id) == [])

    asyncio.run(run())


def test_a_report_masks_secrets_in_commands() -> None:
    async def run() -> None:
        async with started(PYTHON, "-c", "import time; time.sleep(600)", "--api-key=abcdefgh1234") as child:
            report = await child.stop(QUICK)
            assert "abcdefgh1234" not in ended_pid(report, child.identity.pid).command

    asyncio.run(run())
