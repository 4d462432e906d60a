"""Who belongs to a spawn, on tables made by hand: the cases that real processes seldom show."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

import pytest

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes import table as table_module
from interlock.agents.processes.census import Census, FoundBy
from interlock.agents.processes.identity import identity_of, is_alive
from interlock.agents.processes.table import Seen, Table, from_ps, now_ticks, read_table
from interlock.vocabulary.ids import SpawnId

SPAWN: Final = SpawnId("spawn-1")
LEADER: Final = ProcessIdentity(500, "1000")


def seen(
    pid: int, parent: int = 1, group: int = 0, session: int = 0, *, started: int = 2000, tagged: bool = False
) -> Seen:
    identity = ProcessIdentity(pid, str(started))
    return Seen(identity, parent, group or pid, session or group or pid, is_tagged=tagged, command=f"program {pid}")


def leader() -> Seen:
    return replace(seen(500), identity=LEADER)


class Tables:
    """Reads one table after the other."""

    def __init__(self, *tables: list[Seen]) -> None:
        self._tables = list(tables)

    def __call__(self, spawn_id: SpawnId) -> Table:
        return {one.identity.pid: one for one in self._tables.pop(0)}


def found(census: Census) -> dict[int, frozenset[FoundBy]]:
    return {one.identity.pid: one.found_by for one in census.look()}


def test_each_way_finds_its_own() -> None:
    rows = [
        leader(),
        seen(501, group=500),
        seen(502, group=502, session=500),
        seen(503, tagged=True),
        seen(504, parent=503),
    ]
    stranger = seen(505)
    census = Census(LEADER, SPAWN, read=Tables([*rows, stranger]))
    assert found(census) == {
        500: {FoundBy.LEADER, FoundBy.GROUP},
        501: {FoundBy.GROUP},
        502: {FoundBy.GROUP},
        503: {FoundBy.ENVIRONMENT},
        504: {FoundBy.PARENT},
    }


def test_who_was_ours_stays_ours_when_its_parent_is_gone() -> None:
    first, then = [leader(), seen(501, parent=500)], [seen(501, parent=1), seen(502, parent=501)]
    census = Census(LEADER, SPAWN, read=Tables(first, then))
    census.look()
    assert found(census) == {501: {FoundBy.PARENT}, 502: {FoundBy.PARENT}}


def test_a_known_number_with_another_start_time_is_a_stranger() -> None:
    first, then = [leader(), seen(501, parent=500)], [seen(501, parent=1, started=3000)]
    census = Census(LEADER, SPAWN, read=Tables(first, then))
    census.look()
    assert found(census) == {}


def test_a_stranger_with_the_leaders_number_proves_nothing() -> None:
    rows = [replace(leader(), identity=ProcessIdentity(500, "9000")), seen(501, group=500, started=1500)]
    assert found(Census(LEADER, SPAWN, leader_seen_ticks=1800, read=Tables(rows))) == {}


@pytest.mark.parametrize(("started", "is_ours"), [(1500, True), (1900, False)])
def test_the_group_of_a_dead_leader_is_proven_by_a_member_older_than_its_end(started: int, is_ours: bool) -> None:
    rows = [seen(501, group=500, started=started)]
    census = Census(LEADER, SPAWN, leader_seen_ticks=1800, read=Tables(rows))
    assert found(census) == ({501: {FoundBy.GROUP}} if is_ours else {})


def test_a_group_is_not_claimed_when_nobody_knows_when_its_leader_ended() -> None:
    assert found(Census(LEADER, SPAWN, read=Tables([seen(501, group=500, started=1500)]))) == {}


def test_a_group_that_was_the_leaders_a_moment_ago_still_is() -> None:
    census = Census(LEADER, SPAWN, read=Tables([leader()], [seen(501, group=500, started=9000)]))
    census.look()
    assert found(census) == {501: {FoundBy.GROUP}}


def test_we_and_what_we_run_in_are_never_ours_and_hide_what_we_started() -> None:
    us = os.getpid()
    rows = [leader(), seen(600, parent=500, tagged=True), seen(us, parent=600, tagged=True), seen(us + 1, parent=us)]
    census = Census(ProcessIdentity(77, "1"), SPAWN, read=Tables(rows))
    assert found(census) == {}
    assert {0, 1, us, 600, 500} <= census.protected


def test_parents_in_a_circle_end_the_walk() -> None:
    rows = [seen(os.getpid(), parent=600), seen(600, parent=os.getpid()), leader(), seen(501, parent=500)]
    assert set(found(Census(LEADER, SPAWN, read=Tables(rows)))) == {500, 501}


def test_the_leader_comes_first() -> None:
    rows = [seen(40, parent=500), leader(), seen(41, parent=500)]
    assert [one.identity.pid for one in Census(LEADER, SPAWN, read=Tables(rows)).look()] == [500, 40, 41]


def test_commands_are_cut_and_masked() -> None:
    rows = [replace(leader(), command="run --token=abcdefgh " + "x" * 5000)]
    (one,) = Census(LEADER, SPAWN, read=Tables(rows)).look()
    assert one.command.startswith("run --token=*** x")
    assert len(one.command) == 200


def test_ps_tells_the_same_tree() -> None:
    us = os.getpid()
    told, truth = from_ps(SPAWN)[us], read_table(SPAWN)[us]
    assert (told.parent, told.group) == (truth.parent, truth.group)
    assert told.command
    assert len(told.identity.start_time) == 24


@pytest.mark.parametrize("line", ["", "12", "a b c", "1 2 3 Z Mon Nov 16 02:36:16 2026 gone", "1 2 3 S short"])
def test_a_line_of_ps_that_tells_no_living_process_is_left_out(line: str) -> None:
    assert table_module._from_line(line) is None


def test_ps_keeps_the_start_time_as_it_is_spelled() -> None:
    one = table_module._from_line("  12     1    12 Ss   Mon Nov  2 02:36:16 2026 /bin/agent  --flag")
    assert one == Seen(ProcessIdentity(12, "Mon Nov  2 02:36:16 2026"), 1, 12, command="/bin/agent  --flag")


def test_start_times_and_the_clock_have_one_unit() -> None:
    us, now = identity_of(os.getpid()), now_ticks()
    assert us is not None
    assert now is None or now - int(us.start_time) >= 0
    assert is_alive(us)


@pytest.mark.parametrize("pid", [0, -1, -500])
def test_numbers_that_name_no_single_process_have_no_identity(pid: int) -> None:
    assert identity_of(pid) is None
