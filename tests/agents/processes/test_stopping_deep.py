"""Random families of processes, stopped at random moments, also while they still grow: none is left."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from interlock.agents.processes.identity import is_alive
from interlock.agents.processes.stopping import StopPolicy
from tests.agents.processes.trees import PYTHON, living_of, new_spawn_id, started

ROUNDS: Final = 60
IMPATIENT: Final = StopPolicy(interrupt_seconds=0.1, terminate_seconds=0.1, kill_seconds=10.0)

# Each member of the family leaves its group, its parent or its manners by chance. Whoever loses its parent keeps its
# environment, for without either nothing would lead to it. Nobody lives longer than a minute.
FAMILY: Final = """
import os, random, signal, sys, time
luck = random.Random(int(sys.argv[1]))
def member(depth):
    if luck.random() < 0.4:
        os.setsid() if os.getpid() != os.getpgrp() else None
    if luck.random() < 0.4:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if luck.random() < 0.4:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(60)
    for _ in range(luck.randrange(0, 4) if depth else 0):
        luck.seed(luck.random())
        if os.fork() == 0:
            if luck.random() < 0.3 and os.fork():
                os._exit(0)
            member(depth - 1)
        if luck.random() < 0.3:
            time.sleep(luck.random() / 50)
    if depth < 3 and luck.random() < 0.2:
        os._exit(0)
    if depth == 3:
        print("up", flush=True)
    while True:
        time.sleep(60)
member(3)
"""


async def play(seed: int) -> int:
    """One family; the number of its members that were seen before the stop."""
    luck, spawn_id = random.Random(seed), new_spawn_id()
    async with started(PYTHON, "-c", FAMILY, str(seed), spawn_id=spawn_id) as child:
        await asyncio.sleep(luck.random() / 4)
        seen = living_of(spawn_id)
        report = await child.stop(IMPATIENT)
        assert report.survivors == ()
        assert [one for one in seen if is_alive(one)] == []
        return len(seen)


@pytest.mark.deep
def test_no_family_outlives_its_stop() -> None:
    sizes = [asyncio.run(play(seed)) for seed in range(ROUNDS)]
    assert max(sizes) > 5
