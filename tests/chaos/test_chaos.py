"""Runtime and agents are killed at any moment: no acknowledged prompt is lost or doubled, every turn has one end, and
no process is left.

A failure names its seed; `INTERLOCK_SEED=SEED` plays that schedule again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.rounds import run_world
from tests.chaos.world import World
from tests.seeds import seed_of

DEEP_WORLDS: Final = 10
DEEP_ROUNDS: Final = 11


def play(home: Path, world_name: str, rounds: int, *, streams: int, has_terminal: bool) -> str:
    seed = seed_of(f"chaos {world_name}")
    with World(home, seed, streams, has_terminal, is_patient=rounds == DEEP_ROUNDS) as world:
        return run_world(world, rounds)


def test_deaths_lose_nothing_and_leave_nothing(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    record_property("explored", "chaos: " + play(tmp_path / "home", "quick", 3, streams=2, has_terminal=False))


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(DEEP_WORLDS))
def test_many_deaths_lose_nothing_and_leave_nothing(
    number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    told = play(tmp_path / "home", f"deep {number}", DEEP_ROUNDS, streams=3, has_terminal=number % 2 == 1)
    record_property("explored", f"chaos: {told}")
