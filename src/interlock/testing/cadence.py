"""Recordings as a slower, rougher watcher would have made them: fewer frames, at odd times, some lost, some twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from msgspec import structs

from interlock.monitor.scoring.recording import Frame, Header, Record
from interlock.vocabulary.errors import UsageError


@dataclass(frozen=True, slots=True)
class Cadence:
    """`hz` looks a second; each may come up to `jitter_seconds` late, be lost, or be seen twice."""

    hz: float = 5.0
    jitter_seconds: float = 0.0
    drop: float = 0.0
    duplicate: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("hz", 0.01, 1000), ("jitter_seconds", 0, 600), ("drop", 0, 1), ("duplicate", 0, 1)):
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"{name} is {getattr(self, name):g}; give a number from {least:g} to {most:g}")


# What a tracker must be safe under, beyond the recording as it is.
SWEEP = (
    Cadence(hz=2),
    Cadence(hz=1),
    Cadence(hz=5, jitter_seconds=0.15, drop=0.2, duplicate=0.1, seed=1),
    Cadence(hz=2, jitter_seconds=0.4, drop=0.3, duplicate=0.2, seed=2),
    Cadence(hz=1, jitter_seconds=0.7, drop=0.3, seed=3),
)


def at_cadence(records: Iterable[Record], cadence: Cadence) -> Iterator[Record]:
    """The same recording, watched differently: at each look the frame that stood then. Inputs and truths stay."""
    chance = Random(cadence.seed)
    standing: Frame | None = None
    due = 0.0
    for record in records:
        while standing is not None and not isinstance(record, Header) and due < record.t:
            if chance.random() >= cadence.drop:
                looked = structs.replace(standing, t=due)
                yield from (looked, looked) if chance.random() < cadence.duplicate else (looked,)
            due += 1 / cadence.hz + chance.random() * cadence.jitter_seconds
        if isinstance(record, Frame):
            due = record.t if standing is None else due
            standing = record
        else:
            yield record
