"""Waiting in tests: for a condition, with a bound, and never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from interlock.client.timeouts import ClientTimeouts

T = TypeVar("T")

QUICK: Final = ClientTimeouts(
    open_seconds=60.0, answer_seconds=60.0, command_seconds=60.0, first_delay_seconds=0.01, max_delay_seconds=0.05
)
"""Patient enough for a slow machine, and quick to try again."""


async def until(look: Callable[[], T | None], what: str = "it", seconds: float = 100.0) -> T:
    """What `look` finds, as soon as it finds something."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := look()):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            return found
    except TimeoutError:
        raise AssertionError(f"{what} did not come to be") from None


def other_tasks() -> set[asyncio.Task[object]]:
    """What runs in this loop beside the test itself."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
