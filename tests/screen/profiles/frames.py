"""Screens for the tests of profiles: frames of recordings, and screens made by hand."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from interlock.agents.profiles import builtin_profiles
from interlock.monitor.scoring.recording import Frame, Header, Record, read_records, snapshot_of
from interlock.screen.assessment import SurfaceAssessment
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import Snapshot, read_snapshot

RECORDINGS = Path(__file__).parents[2] / "recordings" / "tui"


def snapshots(cli: str, name: str, start: float = 0.0, end: float = 1e9) -> Iterator[Snapshot]:
    """The screens of a recording between two times."""
    header, frames = _recording(cli, name)
    return (snapshot_of(frame, header) for frame in frames if start <= frame.t <= end)


def snapshot_at(cli: str, name: str, t: float) -> Snapshot:
    """The screen of a recording at a time: its last frame up to then."""
    header, frames = _recording(cli, name)
    return snapshot_of(max((frame for frame in frames if frame.t <= t), key=lambda frame: frame.t), header)


def frame_at(cli: str, name: str, t: float) -> ScreenReading:
    """That screen, read by the profile of its CLI."""
    return read(cli, snapshot_at(cli, name, t))


def screen(
    rows: Sequence[str],
    title: str = "",
    columns: int = 80,
    height: int | None = None,
    cursor: tuple[int, int] | None = None,
    command: str | None = None,
) -> Snapshot:
    """A screen made by hand."""
    text = "\n".join(rows)
    return read_snapshot(text, columns=columns, height=height or len(rows), title=title, cursor=cursor, command=command)


def read(cli: str, snapshot: Snapshot) -> ScreenReading:
    return select_reader(builtin_profiles(), cli).parse_snapshot(snapshot)


def rule_of(surface: SurfaceAssessment) -> str:
    return surface.evidence[0].rule


def options_of(surface: SurfaceAssessment) -> list[str]:
    return [] if surface.block is None else [option.text for option in surface.block.options]


@cache
def _recording(cli: str, name: str) -> tuple[Header, tuple[Frame, ...]]:
    with gzip.open(RECORDINGS / cli / f"{name}.ndjson.gz") as lines:
        records: list[Record] = list(read_records(lines, name))
    header = records[0]
    assert isinstance(header, Header)
    return header, tuple(record for record in records if isinstance(record, Frame))
