"""Many schedules of one server and its clients in a bad network: whatever happened, they end where the server is."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from interlock.client.machine import manager
from interlock.client.machine.inputs import FrameArrived, Output, TaskInput
from interlock.client.machine.task_machine import TaskStateMachine
from interlock.testing.sim import Fault, Report, SimulationFailed, simulate
from interlock.vocabulary.wire.frames import TaskStatusChanged

QUICK, FIRST, DEEP = 34, 170, 1000  # schedules a test; with the tests below, about 2 s and 9 minutes of one core


def run_schedules(first: int, count: int, record: Callable[[str, object], None]) -> None:
    total = Report()
    for seed in range(first, first + count):
        total.add(simulate(seed))
    record("explored", total.summary())
    assert total.schedules == count
    assert set(total.faults) == set(Fault), "a fault that never happens proves nothing"
    assert min(total.joins, sum(total.checks.values())) > count
    assert {"RUNNING with a stream", "COMPLETED", "FAILED", "PENDING"} <= set(total.ends)


def test_clients_converge(record_property: Callable[[str, object], None]) -> None:
    run_schedules(0, QUICK, record_property)


@pytest.mark.deep
def test_clients_converge_in_five_times_as_many_schedules(record_property: Callable[[str, object], None]) -> None:
    run_schedules(0, FIRST, record_property)


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(10))
def test_clients_converge_in_ten_thousand_schedules(part: int, record_property: Callable[[str, object], None]) -> None:
    run_schedules(100_000 + part * DEEP, DEEP, record_property)


@pytest.mark.parametrize("seed", range(4))
def test_a_seed_replays_exactly(seed: int) -> None:
    first, second = simulate(seed, is_traced=True), simulate(seed, is_traced=True)
    assert len(first.trace) > 50
    assert first.trace == second.trace
    assert simulate(seed).summary() == first.summary(), "to be watched changes nothing"


def test_a_seed_replays_exactly_in_another_process() -> None:
    """Under another hash seed the order of sets of words is another one: nothing may depend on it."""
    digests = {
        hashlib.sha256(
            subprocess.run(
                [sys.executable, "-m", "interlock.testing.sim", "3", "11"],
                env={"PYTHONHASHSEED": hash_seed, "PYTHONUTF8": "1"},
                capture_output=True,
                check=True,
                timeout=100,
            ).stdout
        ).hexdigest()
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


def test_different_seeds_are_different_schedules() -> None:
    assert len({tuple(simulate(seed, is_traced=True).trace) for seed in range(5)}) == 5


def test_a_broken_client_is_caught_and_its_seed_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(TaskStateMachine):
        """Believes every frame but those that say how the task stands."""

        def step(self, input: TaskInput, now: float) -> tuple[Output, ...]:
            if isinstance(input, FrameArrived) and isinstance(input.frame, TaskStatusChanged):
                return ()
            return super().step(input, now)

    monkeypatch.setattr(manager, "TaskStateMachine", Deaf)
    failures = []
    for seed in range(20):
        try:
            simulate(seed)
        except SimulationFailed as failure:
            failures.append((seed, str(failure)))
    assert failures, "twenty schedules did not notice"
    seed, message = failures[0]
    assert message.endswith(f"python -m interlock.testing.sim {seed}")
    with pytest.raises(SimulationFailed) as again:
        simulate(seed, is_traced=True)
    assert str(again.value) == message
    assert again.value.__notes__[0].count("\n") > 50, "the trace comes with it"
