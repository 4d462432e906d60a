"""The spawn log: one row a life, and nothing claimed that nobody saw."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given

from interlock.projections.spawns import SpawnStanding
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import EndedProcess, ProcessEvent, ProcessEventKind, SessionOpened
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, SessionId, SpawnId
from interlock.vocabulary.states import DriverKind, ExitReason
from tests.projections.logs import WILD_LOGS
from tests.projections.whole_logs import spawn_rows

KIND = ProcessEventKind
ONE, TWO = SpawnId("spawn-1"), SpawnId("spawn-2")
SPAWNED = ProcessEvent(kind=KIND.SPAWNED, pid=7, start_time="900", argv=("agent", "--api-key", "***"))
CRASHED = ProcessEvent(kind=KIND.EXITED, exit_reason=ExitReason.CRASHED, exit_code=3, stderr_tail="it broke")
DAEMON = EndedProcess(pid=8, command="daemon", found_by="environment", signal="SIGTERM")


def log(*told: tuple[Payload, SpawnId | None], session: str = "s") -> list[Event]:
    """Events of one session, a second apart."""
    numbers = count(1)
    return [
        new_event(
            data,
            id=EventId(f"{session}-{(seq := next(numbers))}"),
            session_id=SessionId(session),
            ts=EPOCH + timedelta(seconds=seq),
            spawn_id=spawn_id,
            seq=seq,
        )
        for data, spawn_id in told
    ]


def test_a_life_is_told_from_its_start_to_its_end() -> None:
    opened = SessionOpened(agent="claude", driver="claude-stream", kind=DriverKind.STREAM)
    (row,) = spawn_rows(log((opened, None), (SPAWNED, ONE), (CRASHED, ONE)), living=())
    assert (row.agent, row.session_id, row.spawn_id) == ("claude", "s", ONE)
    assert (row.argv, row.pid, row.start_time) == (SPAWNED.argv, 7, "900")
    assert (row.began, row.ended, row.duration_seconds) == (
        EPOCH + timedelta(seconds=2),
        EPOCH + timedelta(seconds=3),
        1.0,
    )
    assert (row.standing, row.reason, row.exit_code, row.signal) == (SpawnStanding.EXITED, ExitReason.CRASHED, 3, None)
    assert row.stderr_tail == "it broke"


@pytest.mark.parametrize(
    ("living", "standing"),
    [((ONE,), SpawnStanding.RUNNING), ((), SpawnStanding.UNCLEAN), (None, SpawnStanding.UNKNOWN)],
)
def test_a_life_without_an_end_is_what_the_caller_saw(
    living: tuple[SpawnId, ...] | None, standing: SpawnStanding
) -> None:
    (row,) = spawn_rows(log((SPAWNED, ONE)), living)
    assert (row.standing, row.ended, row.reason) == (standing, None, None)


def test_an_end_is_final() -> None:
    late = ProcessEvent(kind=KIND.EXITED, exit_reason=ExitReason.CLEAN, exit_code=0)
    adopted = ProcessEvent(kind=KIND.ADOPTED, pid=7)
    (row,) = spawn_rows(log((SPAWNED, ONE), (CRASHED, ONE), (late, ONE), (adopted, ONE)), living=(ONE,))
    assert (row.standing, row.reason, row.exit_code, row.is_adopted) == (
        SpawnStanding.EXITED,
        ExitReason.CRASHED,
        3,
        False,
    )


def test_what_the_census_ended_is_kept_once_also_when_it_comes_after_the_end() -> None:
    census = ProcessEvent(kind=KIND.CENSUS, ended=(DAEMON,))
    (row,) = spawn_rows(log((SPAWNED, ONE), (CRASHED, ONE), (census, ONE), (census, ONE)))
    assert row.census == (DAEMON,)


def test_a_restart_bears_its_number_and_the_first_life_none() -> None:
    due = ProcessEvent(kind=KIND.RESTART_DUE, attempt=1, delay_seconds=1.0)
    rows = spawn_rows(log((SPAWNED, ONE), (CRASHED, ONE), (due, ONE), (SPAWNED, TWO)))
    assert [(row.spawn_id, row.attempt) for row in rows] == [(ONE, None), (TWO, 1)]


def test_a_spawn_that_came_to_nothing_is_told_with_its_reason() -> None:
    failed = ProcessEvent(kind=KIND.SPAWN_FAILED, message="there is no 'agent'")
    (row,) = spawn_rows(log((failed, ONE)), living=(ONE,))
    assert (row.standing, row.message, row.began) == (SpawnStanding.FAILED, "there is no 'agent'", None)


def test_a_life_that_was_let_go_and_adopted_is_one_life() -> None:
    released, adopted = ProcessEvent(kind=KIND.RELEASED), ProcessEvent(kind=KIND.ADOPTED, pid=7, start_time="900")
    (row,) = spawn_rows(log((SPAWNED, ONE), (released, ONE), (adopted, ONE)), living=(ONE,))
    assert (row.is_adopted, row.is_released, row.argv) == (True, False, SPAWNED.argv)
    assert row.began == EPOCH + timedelta(seconds=1)


def test_a_stop_is_asked_for_once() -> None:
    stop = ProcessEvent(kind=KIND.STOP_REQUESTED)
    (row,) = spawn_rows(log((SPAWNED, ONE), (stop, ONE), (stop, ONE)))
    assert row.stop_requested == EPOCH + timedelta(seconds=2)


def test_sessions_are_kept_apart() -> None:
    due = ProcessEvent(kind=KIND.RESTART_DUE, attempt=2)
    rows = spawn_rows(
        [*log((due, None), session="a"), *log((SPAWNED, ONE), session="b"), *log((SPAWNED, ONE), session="a")]
    )
    assert [(row.session_id, row.attempt) for row in rows] == [("b", None), ("a", 2)]


def test_the_length_that_was_measured_is_believed() -> None:
    measured = ProcessEvent(kind=KIND.EXITED, exit_reason=ExitReason.CLEAN, duration_seconds=0.25)
    (row,) = spawn_rows(log((SPAWNED, ONE), (measured, ONE)))
    assert row.duration_seconds == 0.25


@given(WILD_LOGS)
def test_whatever_a_log_holds_nobody_is_said_to_run_unless_told(events: list[Event]) -> None:
    assert all(row.standing is not SpawnStanding.RUNNING for row in spawn_rows(events, living=()))
    for row in spawn_rows(events):
        assert (row.reason is not None) is (row.standing is SpawnStanding.EXITED)
        assert row.duration_seconds is None or row.duration_seconds >= 0


def test_only_what_was_taken_up_and_not_started_is_foreign() -> None:
    adopted = ProcessEvent(kind=KIND.ADOPTED, pid=7, start_time="900")
    requested = ProcessEvent(kind=KIND.SPAWN_REQUESTED)
    rows = spawn_rows(log((SPAWNED, ONE), (adopted, ONE), (adopted, TWO), (CRASHED, TWO), (adopted, TWO)), living=())
    assert [row.is_foreign for row in rows] == [False, True]
    (row,) = spawn_rows(log((requested, ONE), (adopted, ONE)), living=())
    assert not row.is_foreign
