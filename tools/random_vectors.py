"""Random runs of the client's task machine as vectors, a line each, for other implementations: `python -m
tools.random_vectors --count 300 --seed 1`. What comes in is what the properties of the machine are tested with."""

from __future__ import annotations

import argparse
import sys

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings

from interlock.client.machine.state import TaskState
from interlock.client.machine.task_machine import step
from tests.properties.test_task_client_properties import RUNS, Move, run
from tests.task_scenarios.vectors import TASK, encode_input, encode_output, view


def vector(moves: list[Move]) -> bytes:
    """One run, in the form of /vectors: each step with its outputs and the whole state after it."""
    steps = []
    state = TaskState(task_id=TASK)
    for _, given_input, _, now in run(moves):
        state, outputs = step(state, given_input, now)
        expect = {"outputs": [encode_output(one) for one in outputs], "state": view(state)}
        steps.append({"at": now, "input": encode_input(given_input), "expect": expect})
    return msgspec.json.encode({"initial": {"task_id": TASK, "is_connected": False}, "steps": steps})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given_arguments = parser.parse_args()

    @seed(given_arguments.seed)
    @settings(
        max_examples=given_arguments.count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(RUNS)
    def tell(moves: list[Move]) -> None:
        sys.stdout.buffer.write(vector(moves) + b"\n")

    tell()


if __name__ == "__main__":
    main()
