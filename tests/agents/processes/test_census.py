"""Who belongs to a spawn, on tables made by hand: the cases that real processes seldom show."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

import pytest

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.census import Census, FoundBy
from interlock.agents.processes.identity import Seen, Table, identity_of, is_alive, now_ticks, ticks_of
from interlock.vocabulary.ids import SpawnId

SPAWN: Final = SpawnId("spawn-1")
# Above every number that a system gives: a made-up process that had our own number would be taken for ourselves.
HIGH: Final = 5_000_000
LEADER: Final = ProcessIdentity(HIGH, "1000")


def seen(
    pid: int, parent: int = 1, group: int = 0, session: int = 0, *, started: int = 2000, tagged: bool = False
) -> Seen:
    identity = ProcessIdentity(pid, str(started))
    return Seen(
        identity,
        parent,
        group or pid,
        session or group or pid,
        spawn_ids=(SPAWN,) if tagged else (),
        command=f"program {pid}",
    )


def leader() -> Seen:
    return replace(seen(HIGH), identity=LEADER)


class Tables:
    """Reads one table after the other."""

    def __init__(self, *tables: list[Seen]) -> None:
        self._tables = list(tables)

    def __call__(self) -> Table:
        return {one.identity.pid: one for one in self._tables.pop(0)}


def found(census: Census) -> dict[int, frozenset[FoundBy]]:
    return {one.identity.pid: one.found_by for one in census.look()}


def test_each_way_finds_its_own() -> None:
    rows = [
        leader(),
        seen(HIGH + 1, group=HIGH),
        seen(HIGH + 2, group=HIGH + 2, session=HIGH),
        seen(HIGH + 3, tagged=True),
        seen(HIGH + 4, parent=HIGH + 3),
    ]
    stranger = seen(HIGH + 5)
    census = Census(LEADER, SPAWN, read=Tables([*rows, stranger]))
    assert found(census) == {
        HIGH: {FoundBy.LEADER, FoundBy.GROUP},
        HIGH + 1: {FoundBy.GROUP},
        HIGH + 2: {FoundBy.GROUP},
        HIGH + 3: {FoundBy.ENVIRONMENT},
        HIGH + 4: {FoundBy.PARENT},
    }


def test_who_was_ours_stays_ours_when_its_parent_is_gone() -> None:
    first, then = [leader(), seen(HIGH + 1, parent=HIGH)], [seen(HIGH + 1, parent=1), seen(HIGH + 2, parent=HIGH + 1)]
    census = Census(LEADER, SPAWN, read=Tables(first, then))
    census.look()
    assert found(census) == {HIGH + 1: {FoundBy.PARENT}, HIGH + 2: {FoundBy.PARENT}}


def test_a_known_number_with_another_start_time_is_a_stranger() -> None:
    first, then = [leader(), seen(HIGH + 1, parent=HIGH)], [seen(HIGH + 1, parent=1, started=3000)]
    census = Census(LEADER, SPAWN, read=Tables(first, then))
    census.look()
    assert found(census) == {}


def test_a_stranger_with_the_leaders_number_proves_nothing() -> None:
    rows = [replace(leader(), identity=ProcessIdentity(HIGH, "9000")), seen(HIGH + 1, group=HIGH, started=1500)]
    assert found(Census(LEADER, SPAWN, leader_seen_ticks=1800, read=Tables(rows))) == {}


@pytest.mark.parametrize(("started", "is_ours"), [(1500, True), (1900, False)])
def test_the_group_of_a_dead_leader_is_proven_by_a_member_older_than_its_end(started: int, is_ours: bool) -> None:
    rows = [seen(HIGH + 1, group=HIGH, started=started)]
    census = Census(LEADER, SPAWN, leader_seen_ticks=1800, read=Tables(rows))
    assert found(census) == ({HIGH + 1: {FoundBy.GROUP}} if is_ours else {})


def test_a_group_is_not_claimed_when_nobody_knows_when_its_leader_ended() -> None:
    assert found(Census(LEADER, SPAWN, read=Tables([seen(HIGH + 1, group=HIGH, started=1500)]))) == {}


def test_a_group_that_was_the_leaders_a_moment_ago_still_is() -> None:
    census = Census(LEADER, SPAWN, read=Tables([leader()], [seen(HIGH + 1, group=HIGH, started=9000)]))
    census.look()
    assert found(census) == {HIGH + 1: {FoundBy.GROUP}}


def test_we_and_what_we_run_in_are_never_ours_and_hide_what_we_started() -> None:
    us = os.getpid()
    rows = [
        leader(),
        seen(HIGH + 100, parent=HIGH, tagged=True),
        seen(us, parent=HIGH + 100, tagged=True),
        seen(us + 1, parent=us),
    ]
    census = Census(ProcessIdentity(HIGH - 3, "1"), SPAWN, read=Tables(rows))
    assert found(census) == {}
    assert {0, 1, us, HIGH + 100, HIGH} <= census.protected


def test_parents_in_a_circle_end_the_walk() -> None:
    rows = [
        seen(os.getpid(), parent=HIGH + 100),
        seen(HIGH + 100, parent=os.getpid()),
        leader(),
        seen(HIGH + 1, parent=HIGH),
    ]
    assert set(found(Census(LEADER, SPAWN, read=Tables(rows)))) == {HIGH, HIGH + 1}


def test_the_leader_comes_first() -> None:
    rows = [seen(HIGH - 2, parent=HIGH), leader(), seen(HIGH - 1, parent=HIGH)]
    assert [one.identity.pid for one in Census(LEADER, SPAWN, read=Tables(rows)).look()] == [HIGH, HIGH - 2, HIGH - 1]


def test_commands_are_cut_and_masked() -> None:
    rows = [replace(leader(), command="run --token=abcdefgh " + "x" * 5000)]
    (one,) = Census(LEADER, SPAWN, read=Tables(rows)).look()
    assert one.command.startswith("run --token=*** x")
    assert len(one.command) == 200


def test_start_times_and_the_clock_have_one_unit() -> None:
    us, now = identity_of(os.getpid()), now_ticks()
    assert us is not None
    began = ticks_of(us)
    assert now is not None
    assert began is not None
    assert now >= began
    assert is_alive(us)


@pytest.mark.parametrize("pid", [0, -1, -500])
def test_numbers_that_name_no_single_process_have_no_identity(pid: int) -> None:
    assert identity_of(pid) is None
