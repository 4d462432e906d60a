"""Folds over long logs: 100,000 and 1,000,000 events into turn states and into provider input, and the next event.

The baseline of each is a plain loop over the same events that only counts them by type, in the same run: the ratio says
how many such loops a fold costs. The next event's cost is compared between the two lengths: it should not grow.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from statistics import median
from typing import Final

from interlock.lifecycle.turns import TurnFold
from interlock.projections.replay.provider_input import ReplayFold
from interlock.testing.scribe import endless_history
from interlock.vocabulary.events.envelope import Event

LENGTHS: Final = (100_000, 1_000_000)
MORE: Final = 5_000
ROUNDS: Final = 3
FOLDS: Final[dict[str, Callable[[], TurnFold | ReplayFold]]] = {"turn states": TurnFold, "provider input": ReplayFold}


def main() -> None:
    events = list(islice(endless_history(), LENGTHS[-1] + MORE))
    gc.collect()
    gc.freeze()  # the events are the input; walking them over and over is not the folds' cost
    print(f"{'fold':<16}{'events':>12}{'seconds':>10}{'x count':>9}{'next event, microseconds':>27}")
    for name, make in FOLDS.items():
        for length in LENGTHS:
            rounds = [measure(make, events, length) for _ in range(ROUNDS)]
            seconds, plain, following = (median(column) for column in zip(*rounds, strict=True))
            print(f"{name:<16}{length:>12,}{seconds:>10.2f}{seconds / plain:>9.1f}{following * 1e6:>27.2f}")


def measure(make: Callable[[], TurnFold | ReplayFold], events: list[Event], length: int) -> tuple[float, float, float]:
    """Seconds to fold, seconds to count, and seconds for one more event after that."""
    fold = make()
    folding = timed(lambda: add_all(fold, events[:length]))
    counting = timed(lambda: Counter(event.type for event in islice(events, length)))
    following = timed(lambda: add_all(fold, events[length : length + MORE])) / MORE
    return folding, counting, following


def add_all(fold: TurnFold | ReplayFold, events: list[Event]) -> None:
    for event in events:
        fold.add(event)


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
