"""Who may write: one process at a time, whatever dies, restarts or lies."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import apsw
import msgspec
import pytest
from msgspec import structs

from interlock.log.lease import Holder, LeaseHeld, LeaseLost, Life, judge, process_start, this_process
from interlock.log.paths import DATABASE_NAME
from interlock.log.port import LogUnavailable
from interlock.log.sqlite.schema import CURRENT
from interlock.log.sqlite.store import SqliteLog
from tests.contract.harness import A, batch, run
from tests.each_row import each_row

ROOT: Final = Path(__file__).parents[2]
HERE: Final = this_process()
NAMELESS: Final = structs.replace(HERE, machine_id="")  # as in many containers


class Child:
    """A process that holds the log and appends one event when told to."""

    def __init__(self, home: Path, *words: str) -> None:
        command = [sys.executable, "-m", "tests.log.child", "hold", str(home), *words]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def append(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.communicate()


@contextmanager
def child(home: Path, *words: str) -> Iterator[Child]:
    made = Child(home, *words)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    async def create() -> None:
        await (await SqliteLog.open(tmp_path / "home")).close()

    run(create())
    return tmp_path / "home"


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@each_row(
    ("holder", "life"),
    [
        (HERE, Life.ALIVE),
        (structs.replace(HERE, started="1"), Life.DEAD),
        (structs.replace(HERE, pid=dead_pid()), Life.DEAD),
        (structs.replace(HERE, pid=2**31), Life.DEAD),
        (structs.replace(HERE, boot_id="an earlier boot"), Life.DEAD),
        (structs.replace(HERE, boot_id=""), Life.UNKNOWN),
        (structs.replace(HERE, host="elsewhere"), Life.UNKNOWN),
        (structs.replace(HERE, host="elsewhere", boot_id="another"), Life.UNKNOWN),
        (structs.replace(HERE, machine_id="another with the same name", boot_id="another"), Life.UNKNOWN),
        (structs.replace(HERE, pid_namespace="pid:[1]", pid=dead_pid()), Life.UNKNOWN),
    ],
)
def test_death_must_be_proven(holder: Holder, life: Life) -> None:
    assert judge(holder, HERE) is life


@pytest.mark.parametrize(
    ("holder", "life"),
    [
        (structs.replace(NAMELESS, pid=dead_pid()), Life.DEAD),
        (structs.replace(NAMELESS, boot_id="another"), Life.UNKNOWN),
    ],
)
def test_a_host_name_alone_does_not_prove_that_it_is_the_same_machine(holder: Holder, life: Life) -> None:
    assert judge(holder, NAMELESS) is life


def test_a_boot_that_cannot_be_told_proves_nothing() -> None:
    assert judge(HERE, structs.replace(HERE, boot_id="")) is Life.UNKNOWN


def test_a_zombie_writes_no_more() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read() == b""  # it has closed everything, and nobody has waited for it
    while process_start(process.pid) is not None:  # between the last write and the end there is a moment
        pass
    os.kill(process.pid, 0)
    process.wait()
    process.stdout.close()


def test_a_process_start_outlives_its_name() -> None:
    assert process_start(os.getpid()) == process_start(os.getpid()) == HERE.started
    assert process_start(1) not in (None, HERE.started)


def test_two_processes_never_both_write(home: Path) -> None:
    with child(home) as first:
        assert first.answer() == "open"
        with child(home) as second, child(home, "force") as third:
            for refused in (second.answer(), third.answer()):
                assert refused.startswith(f"refused process {first.process.pid} on {HERE.host} is writing to this log")
        assert first.append() == "version 1"
        with pytest.raises(LeaseHeld) as held:
            run(SqliteLog.open(home))
        assert held.value.holder is not None
        assert held.value.holder.pid == first.process.pid
    with child(home) as next_one:
        assert next_one.answer() == "open"
        assert next_one.append() == "version 2"
    assert actions(home) == [], "a lease that was let go needs no take-over"


def test_the_lease_in_a_copy_of_the_log_is_nobodys_while_the_holder_of_the_original_writes_on(
    home: Path, tmp_path: Path
) -> None:
    with child(home) as first:
        assert first.answer() == "open"
        assert first.append() == "version 1"
        copy = tmp_path / "copy"
        shutil.copytree(home, copy)
        with child(copy) as second:
            assert second.answer() == "open"
            assert second.append() == "version 2"
            with child(copy) as third:
                assert third.answer().startswith(f"refused process {second.process.pid} on")
        assert [action for action, _ in actions(copy)] == ["lease_of_copy"]
        moved = home.rename(home.with_name("moved"))
        with child(moved) as fourth:
            assert fourth.answer().startswith(f"refused process {first.process.pid} on")
        moved.rename(home)
        assert first.append() == "version 2"


def test_one_of_many_that_start_at_once_gets_the_log(tmp_path: Path) -> None:
    """Also on a home that does not exist yet."""
    with ExitStack() as stack:
        children = [stack.enter_context(child(tmp_path / "new")) for _ in range(5)]
        answers = [each.answer() for each in children]
        assert answers.count("open") == 1, answers
        assert sum("is writing to this log" in each for each in answers) == 4, answers


def test_a_killed_writer_is_taken_over_without_asking(home: Path) -> None:
    first = Child(home)
    assert first.answer() == "open"
    assert first.append() == "version 1"
    first.process.kill()
    first.end()
    with child(home) as second:
        assert second.answer() == "open"
        assert second.append() == "version 2"
    ((action, details),) = actions(home)
    assert action == "lease_taken_over"
    assert f'\\"pid\\":{first.process.pid}' in details


def test_a_writer_that_was_fenced_out_cannot_append(home: Path) -> None:
    """The old one believes that it still holds the log; the token says otherwise."""
    with child(home) as old:
        assert old.answer() == "open"
        assert old.append() == "version 1"
        pretend(home, structs.replace(HERE, host="elsewhere"))
        with child(home) as refused:
            answer = refused.answer()
            assert "cannot be determined from here whether it is alive" in answer
            assert "with force" in answer
        with child(home, "force") as new:
            assert new.answer() == "open"
            assert old.append().startswith("lost another process has taken over the log")
            assert new.append() == "version 2"
            assert old.append().startswith("lost")
            assert new.append() == "version 3"
    assert [action for action, _ in actions(home)] == ["lease_forced"]
    assert "elsewhere" in actions(home)[0][1]


def test_a_holder_that_cannot_be_read_is_not_believed_dead(home: Path) -> None:
    with raw(home) as connection:
        connection.execute("UPDATE lease SET holder = 'garbage'")
    with pytest.raises(LeaseHeld, match="whose name cannot be read"):
        run(SqliteLog.open(home))

    async def forced() -> None:
        await (await SqliteLog.open(home, force=True)).close()

    run(forced())
    assert [action for action, _ in actions(home)] == ["lease_forced"]


def test_the_token_only_grows(home: Path) -> None:
    tokens = []
    for _ in range(3):
        run(reopen(home))
        with raw(home) as connection:
            tokens.append(connection.execute("SELECT token FROM lease").fetchall()[0][0])
    assert tokens == [2, 3, 4]


async def reopen(home: Path) -> None:
    await (await SqliteLog.open(home)).close()


def test_a_lost_lease_is_checked_inside_the_transaction(home: Path) -> None:
    async def scenario() -> None:
        log = await SqliteLog.open(home)
        await log.append(A, batch(1))
        with raw(home) as connection:
            connection.execute("UPDATE lease SET token = token + 1")
        outcomes = await asyncio.gather(*(log.append(A, batch(1)) for _ in range(5)), return_exceptions=True)
        assert all(isinstance(each, LeaseLost) for each in outcomes)
        with pytest.raises(LeaseLost):
            await log.maintain("test", None, lambda connection: connection.execute("DELETE FROM events"))
        assert (await log.read(A)).version == 1, "reading needs no lease"
        await log.close()
        with raw(home) as connection:
            assert connection.execute("SELECT holder FROM lease").fetchall() != [("",)], "it is not ours to let go"

    run(scenario())


def test_the_heartbeat_goes_on_while_nothing_is_written(home: Path) -> None:
    async def scenario() -> None:
        now = [1000.0]
        async with await SqliteLog.open(home, clock=lambda: now[0], heartbeat_seconds=0.01) as log:
            for moment in (2000.0, 3000.0):
                now[0] = moment
                while await log.query(beat) != moment * 1000:
                    pass

    def beat(connection: apsw.Connection) -> float:
        return float(str(connection.execute("SELECT heartbeat_unix_ms FROM lease").fetchall()[0][0]))

    run(scenario())


def test_a_cancelled_open_does_not_keep_the_lease(home: Path) -> None:
    async def scenario() -> None:
        for delay in range(0, 40, 4):
            opening = asyncio.create_task(SqliteLog.open(home))
            for _ in range(delay):
                await asyncio.sleep(0.0002)
            opening.cancel()
            try:
                log = await opening
            except asyncio.CancelledError:
                log = await SqliteLog.open(home)
            await log.close()

    run(scenario())


def test_a_reader_needs_no_lease(home: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(home) as log, await SqliteLog.open(home, readonly=True) as reader:
            await log.append(A, batch(2))
            assert (await reader.read(A)).version == 2
            with pytest.raises(LogUnavailable, match="only to read"):
                await reader.append(A, batch(1))

    run(scenario())


@contextmanager
def raw(home: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(home / DATABASE_NAME))
    try:
        yield connection
    finally:
        connection.close()


def pretend(home: Path, holder: Holder) -> None:
    with raw(home) as connection:
        connection.execute("UPDATE lease SET holder = ?", (msgspec.json.encode(holder).decode(),))


def actions(home: Path) -> list[tuple[str, str]]:
    with raw(home) as connection:
        assert CURRENT.found(connection) == CURRENT.version
        found = connection.execute("SELECT action, details FROM maintenance ORDER BY id").fetchall()
        return [(str(action), str(details)) for action, details in found]
