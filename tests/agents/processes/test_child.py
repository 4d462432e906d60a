"""One child with three pipes: what it says is read whole, and its end is told whoever holds its pipes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.port import DeliveryUnknown, NotDelivered, StopReport
from interlock.agents.processes import child as child_module
from interlock.agents.processes.child import STDERR_TAIL_BYTES, ChildProcess, inherited_environment
from interlock.agents.processes.stopping import StopPolicy
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE
from tests.agents.processes.trees import (
    PATIENCE_SECONDS,
    PYTHON,
    QUICK,
    first_line,
    living_of,
    new_spawn_id,
    shell,
    started,
    until,
)

LONG: Final = "y" * 2000


async def all_lines(child: ChildProcess) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [line.data async for line in child.lines()]


async def take_slowly(child: ChildProcess) -> int:
    taken = 0
    async for _ in child.lines():
        taken += 1
        if taken % 1000 == 0:
            await asyncio.sleep(0.1)
    return taken


def test_it_says_every_line_and_then_how_it_ended() -> None:
    async def run() -> None:
        async with started(*shell("echo one; echo two >&2; printf three; exit 7")) as child:
            assert await all_lines(child) == [b"one", b"three"]
            exited = await child.exited()
            assert (exited.code, exited.signal, exited.stderr_tail) == (7, None, "two\n")
            assert not child.is_alive

    asyncio.run(run())


def test_a_stop_takes_the_childs_end_for_the_time_up_to_which_its_group_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its number may have been given to another by the time of the stop, and what began since is none of ours."""
    told = list[int | None]()

    async def stop(*given: object, leader_seen_ticks: int | None) -> StopReport:
        told.append(leader_seen_ticks)
        return StopReport()

    async def main() -> None:
        monkeypatch.setattr(child_module, "now_ticks", lambda: 1800)
        async with started(*shell("exit 0")) as child:
            await child.exited()
            monkeypatch.setattr(child_module, "now_ticks", lambda: 9000)
            await child.stop()

    monkeypatch.setattr(child_module, "stop_tree", stop)
    asyncio.run(main())
    assert told[0] == 1800


def test_a_death_by_signal_is_told_as_one() -> None:
    async def run() -> None:
        async with started(*shell("kill -9 $$")) as child:
            exited = await child.exited()
            assert (exited.code, exited.signal) == (None, signal.SIGKILL)

    asyncio.run(run())


def test_it_gets_the_environment_that_it_was_given_and_its_spawn_id() -> None:
    async def run() -> None:
        spawn_id = new_spawn_id()
        child = await ChildProcess.start(
            [PYTHON, "-c", "import os; print(sorted(os.environ.items()))"],
            cwd="/",
            environment={"GIVEN": "1", "LC_CTYPE": "C.UTF-8"},
            spawn_id=spawn_id,
        )
        expected = [("GIVEN", "1"), (SPAWN_ID_VARIABLE, spawn_id), ("LC_CTYPE", "C.UTF-8")]
        assert await first_line(child) == repr(expected)
        await child.stop(QUICK)

    asyncio.run(run())


def test_it_leads_a_session_of_its_own() -> None:
    async def run() -> None:
        async with started("sleep", "600") as child:
            assert os.getsid(child.identity.pid) == os.getpgid(child.identity.pid) == child.identity.pid

    asyncio.run(run())


def test_a_grandchild_that_holds_the_pipes_does_not_hold_back_the_end() -> None:
    async def run() -> None:
        async with started(*shell("sleep 600 & echo said; exit 4")) as child:
            assert await all_lines(child) == [b"said"]
            assert (await child.exited()).code == 4

    asyncio.run(run())


def test_a_grandchild_that_talks_on_does_not_hold_back_the_end() -> None:
    async def run() -> None:
        async with started(*shell(f"yes {LONG} & yes >&2 & sleep 0.1; exit 4")) as child:
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await child.exited()).code == 4
            lines = await all_lines(child)
            assert set(lines) == {LONG.encode()}
            assert sum(map(len, lines)) < 8_000_000

    asyncio.run(run())


def test_a_grandchild_that_drips_does_not_hold_back_the_end() -> None:
    async def run() -> None:
        async with started(*shell("while :; do echo drip; sleep 0.3; done & sleep 0.1; exit 4")) as child:
            assert set(await all_lines(child)) == {b"drip"}
            assert (await child.exited()).code == 4

    asyncio.run(run())


def test_a_slow_reader_loses_nothing_of_a_child_that_is_over() -> None:
    async def run() -> None:
        count = 60_000  # more than the lines that may wait, the stream's own buffer and the pipe together
        async with started(PYTHON, "-c", f"for n in range({count}): print(n, 'x' * 40)") as child:
            taken = 0
            async for line in child.lines():
                assert line.data.startswith(str(taken).encode())
                taken += 1
                if taken % 10_000 == 0:
                    await asyncio.sleep(0.02)
            assert taken == count

    asyncio.run(run())


def test_a_child_that_nobody_reads_waits_and_can_be_stopped() -> None:
    async def run() -> None:
        async with started("yes", "x" * 500) as child, asyncio.timeout(PATIENCE_SECONDS):
            await until(lambda: len(child._waiting._lines) >= 1024)
            assert (await child.stop(QUICK)).survivors == ()
            assert b"x" * 500 in await all_lines(child)

    asyncio.run(run())


def test_what_it_says_while_it_is_stopped_is_read_whole() -> None:
    async def run() -> None:
        last_words = "\n for n in range(8000): print(n, 'x' * 40)"
        script = f"import time\ntry:\n print('up', flush=True)\n time.sleep(600)\nfinally:{last_words}"
        async with started(PYTHON, "-c", script) as child:
            assert await first_line(child) == "up"
            taking = asyncio.create_task(take_slowly(child))
            await child.stop(StopPolicy(interrupt_seconds=PATIENCE_SECONDS))
            assert await taking == 8000

    asyncio.run(run())


def test_a_line_of_megabytes_comes_whole() -> None:
    async def run() -> None:
        async with started(PYTHON, "-c", "print('x' * 9_000_000); print('y')") as child:
            assert [len(line) for line in await all_lines(child)] == [9_000_000, 1]

    asyncio.run(run())


def test_of_standard_error_the_end_is_kept() -> None:
    async def run() -> None:
        async with started(PYTHON, "-c", "import sys; sys.stderr.write('a' * 100_000 + 'the end')") as child:
            tail = (await child.exited()).stderr_tail
            assert tail.endswith("the end")
            assert len(tail) == STDERR_TAIL_BYTES

    asyncio.run(run())


def test_what_is_written_reaches_it() -> None:
    async def run() -> None:
        async with started("cat") as child:
            await asyncio.gather(*(child.write(f"line {n}\n".encode()) for n in range(20)))
            child.end_input()
            assert await all_lines(child) == [f"line {n}".encode() for n in range(20)]
            with pytest.raises(NotDelivered):
                await child.write(b"too late")

    asyncio.run(run())


def test_writing_to_one_that_is_over_is_not_delivered() -> None:
    async def run() -> None:
        async with started("true") as child:
            await child.exited()
            with pytest.raises(NotDelivered):
                await child.write(b"too late")

    asyncio.run(run())


def test_writing_to_one_that_does_not_read_may_or_may_not_have_been_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "_WRITE_SECONDS", 0.05)

    async def run() -> None:
        async with started("sleep", "600") as child:
            with pytest.raises(DeliveryUnknown):
                await child.write(b"x" * 1_000_000)

    asyncio.run(run())


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    not_a_program = tmp_path / "plain"
    not_a_program.write_text("nothing to run")
    cases: list[tuple[list[str], str, type[Exception], str]] = [
        ([], ".", UsageError, "no program"),
        (["no-such-program-at-all"], ".", UsageError, "no-such-program"),
        (["true"], "/no/such/folder", UsageError, "/no/such/folder"),
        (["true", "a\0b"], ".", UsageError, "NUL"),
        ([str(not_a_program)], ".", PeerFault, "did not start"),
    ]

    async def run() -> None:
        for argv, cwd, error, words in cases:
            before = set(os.listdir("/dev/fd"))  # noqa: PTH208 - the names are numbers
            with pytest.raises(error, match=words):
                await ChildProcess.start(argv, cwd=cwd, environment=dict(os.environ), spawn_id=new_spawn_id())
            assert set(os.listdir("/dev/fd")) == before, "its pipe is closed"  # noqa: PTH208

    asyncio.run(run())


def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    async def run() -> None:
        spawn_id = new_spawn_id()
        for pauses in range(12):
            starting = asyncio.create_task(
                ChildProcess.start(["sleep", "600"], cwd=".", environment=dict(os.environ), spawn_id=spawn_id)
            )
            for _ in range(pauses):
                await asyncio.sleep(0)
            starting.cancel()
            try:
                await (await starting).stop(QUICK)  # it was done before it could be cancelled
            except asyncio.CancelledError:
                await until(lambda: living_of(spawn_id) == [])

    asyncio.run(run())


def test_what_concerns_only_us_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INTERLOCK_HOME", "INTERLOCK_SPAWN_ID", "TMUX", "TMUX_PANE"):
        monkeypatch.setenv(name, "ours")
    monkeypatch.setenv("KEPT", "yes")
    passed = inherited_environment({"KEPT_TOO": "yes"})
    assert (passed["KEPT"], passed["KEPT_TOO"]) == ("yes", "yes")
    assert "ours" not in passed.values()


def test_a_leader_that_leaves_with_its_input_does_not_hide_what_it_left_in_its_group() -> None:
    async def run() -> None:
        # The leader ends by itself when its input is closed; what it started bears no mark, and its parent is gone.
        script = "(env -u INTERLOCK_SPAWN_ID sleep 60 & echo $!); read line"
        async with started(*shell(script)) as child:
            left = int(await first_line(child))
            report = await child.stop(QUICK)
            assert left in [one.pid for one in report.ended]

    asyncio.run(run())
