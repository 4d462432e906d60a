"""Many censuses at once read the process table a few times, and each sees a table that was read after it asked."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

import pytest

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes import census as census_file
from interlock.agents.processes.census import Census, FoundProcess, look_soon
from interlock.agents.processes.identity import Seen, Table
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import SpawnId

# Above every number that a system gives: a made-up process that had our own number would be taken for ourselves.
FIRST: Final = 5_000_000
A_THOUSAND: Final = range(FIRST, FIRST + 1000)


class Machine:
    """Processes that come and go; a reading of their table waits until it may end."""

    def __init__(self) -> None:
        self.processes: list[Seen] = []
        self.readings = 0
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def read(self) -> Table:
        self.readings += 1
        table = {one.identity.pid: one for one in self.processes}
        self.begun.set()
        assert self.may_end.wait(60)
        return table

    def start(self, pid: int, spawn_id: str) -> None:
        self.processes = [
            *self.processes,
            Seen(ProcessIdentity(pid, "1"), 1, pid, pid, (spawn_id,), command=f"program {pid}"),
        ]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(census_file, "read_table", machine.read)
    return machine


def numbers(found: tuple[FoundProcess, ...]) -> list[int]:
    return [one.identity.pid for one in found]


def census(spawn_id: str) -> Census:
    return Census(None, SpawnId(spawn_id))


def test_a_thousand_looks_share_two_readings_and_find_each_its_own(machine: Machine) -> None:
    async def run() -> None:
        for pid in A_THOUSAND:
            machine.start(pid, f"spawn-{pid}")
        machine.may_end.clear()
        first = asyncio.create_task(look_soon(census(f"spawn-{FIRST}")))
        await asyncio.to_thread(machine.begun.wait, 60)
        others = [asyncio.create_task(look_soon(census(f"spawn-{pid}"))) for pid in A_THOUSAND[1:]]
        await asyncio.sleep(0)
        machine.may_end.set()
        assert [numbers(found) for found in await asyncio.gather(first, *others)] == [[pid] for pid in A_THOUSAND]
        assert machine.readings == 2

    asyncio.run(run())


def test_what_began_before_a_look_was_asked_for_is_seen_though_a_reading_was_under_way(machine: Machine) -> None:
    async def run() -> None:
        machine.may_end.clear()
        early = asyncio.create_task(look_soon(census("spawn-1")))
        await asyncio.to_thread(machine.begun.wait, 60)
        machine.start(FIRST, "spawn-1")
        late = asyncio.create_task(look_soon(census("spawn-1")))
        await asyncio.sleep(0)
        machine.may_end.set()
        assert numbers(await early) == []
        assert numbers(await late) == [FIRST]

    asyncio.run(run())


def test_one_who_gives_up_keeps_nobody_from_the_others(machine: Machine) -> None:
    async def run() -> None:
        machine.start(FIRST, "spawn-1")
        machine.may_end.clear()
        given_up = asyncio.create_task(look_soon(census("spawn-1")))
        kept = asyncio.create_task(look_soon(census("spawn-1")))
        await asyncio.to_thread(machine.begun.wait, 60)
        given_up.cancel()
        machine.may_end.set()
        assert numbers(await kept) == [FIRST]
        await asyncio.wait((given_up,))
        assert numbers(await look_soon(census("spawn-1"))) == [FIRST]

    asyncio.run(run())


def test_a_table_that_cannot_be_read_is_told_to_each_and_read_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        def refuse() -> Table:
            raise Unreachable("ps failed")

        with monkeypatch.context() as broken:
            broken.setattr(census_file, "read_table", refuse)
            found = await asyncio.gather(*(look_soon(census("spawn-1")) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in found] == [Unreachable] * 3
        assert numbers(await look_soon(census("spawn-1"))) == []

    asyncio.run(run())


def test_a_failing_census_fails_alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        machine.start(FIRST, "spawn-1")
        failing = census("spawn-1")

        def fail(_: Table) -> tuple[FoundProcess, ...]:
            raise OSError("gone")

        monkeypatch.setattr(failing, "look_at", fail)
        found = await asyncio.gather(look_soon(failing), look_soon(census("spawn-1")), return_exceptions=True)
        assert isinstance(found[0], OSError)
        assert isinstance(found[1], tuple)
        assert numbers(found[1]) == [FIRST]

    asyncio.run(run())
