"""What it costs to read a screen, and to track a stream of them. `make bench` runs this.

Each figure stands beside a loop that only splits the same captures and strips their SGR sequences, in the same run and
taken in turns with it: absolute figures of a shared machine mean little. Times are those of our own process.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

from interlock.agents.profiles import builtin_profiles
from interlock.agents.recording_files import open_recording, recordings_under
from interlock.monitor.scoring.recording import Frame, Header, Record, snapshot_of
from interlock.monitor.scoring.replay import StreamStateReducer
from interlock.screen import engine, projection, snapshot
from interlock.screen.selection import GENERIC, ScreenReader, select_reader

RECORDINGS: Final = Path(__file__).parents[1] / "tests" / "recordings" / "tui"
SIZE: Final = (220, 50)
SAMPLES: Final = 400
ROUNDS: Final = 3
MEDIAN_GOAL_MS: Final = 1.0
P95_GOAL_MS: Final = 3.0
_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")


class Shot(NamedTuple):
    """One recorded capture, and who reads it."""

    cli: str
    header: Header
    frame: Frame
    reader: ScreenReader


def main() -> None:
    recordings = [(path, [*_records(path)]) for path in recordings_under(RECORDINGS)]
    shots = [shot for _, records in recordings for shot in _shots(records)]
    wide = [shot for shot in shots if (shot.header.cols, shot.header.rows) == SIZE]
    print(
        f"one screen of {SIZE[0]}x{SIZE[1]}, parsed and read{'median ms':>26}{'p95 ms':>9}{'plain ms':>10}{'goal':>9}"
    )
    for cli in sorted({shot.cli for shot in wide}):
        of_cli = _spread([shot for shot in wide if shot.cli == cli])
        _report(f"{cli}, rows seen before", of_cli, prepare=_warm)
        _report(f"{cli}, rows never seen", of_cli, prepare=_forget)
    print(f"\nthe goal is a median of {MEDIAN_GOAL_MS:g} ms and a p95 of {P95_GOAL_MS:g} ms\n")
    _report_stream([records for _, records in recordings])


def _records(path: Path) -> Iterator[Record]:
    with open_recording(str(path)) as records:
        yield from records


def _reader_of(header: Header) -> ScreenReader:
    profiles = builtin_profiles()
    known = any(profile.cli == header.cli for profile in profiles)
    return select_reader(profiles, header.cli if known else GENERIC, header.version)


def _shots(records: Sequence[Record]) -> Iterator[Shot]:
    header = next(record for record in records if isinstance(record, Header))
    reader = _reader_of(header)
    return (Shot(header.cli, header, record, reader) for record in records if isinstance(record, Frame))


def _spread(shots: Sequence[Shot]) -> Sequence[Shot]:
    """Samples from all over the recordings, so that no single screen decides."""
    return shots[:: max(1, len(shots) // SAMPLES)][:SAMPLES]


def _warm(shot: Shot) -> None:
    _read(shot)


def _forget(_: Shot) -> None:
    """As if no row had ever been seen."""
    for module in (snapshot, projection, engine):
        for remembered in vars(module).values():
            if hasattr(remembered, "cache_clear"):
                remembered.cache_clear()


def _read(shot: Shot) -> object:
    return shot.reader.parse_snapshot(snapshot_of(shot.frame, shot.header))


def _plain(shot: Shot) -> object:
    return [_SGR.sub("", row).rstrip() for row in (shot.frame.ansi or "").split("\n")]


def _report(name: str, shots: Sequence[Shot], prepare: Callable[[Shot], None]) -> None:
    ours: list[float] = []
    plain: list[float] = []
    for shot in shots:
        prepare(shot)
        ours.append(_milliseconds(_read, shot))
        plain.append(_milliseconds(_plain, shot))
    p95 = quantiles(ours, n=20)[-1]
    is_kept = median(ours) <= MEDIAN_GOAL_MS and p95 <= P95_GOAL_MS
    verdict = "kept" if is_kept else "missed"
    print(f"  {name:<45}{median(ours):>17.3f}{p95:>9.3f}{median(plain):>10.3f}{verdict:>9}")


def _milliseconds(work: Callable[[Shot], object], shot: Shot) -> float:
    begun = time.process_time_ns()
    work(shot)
    return (time.process_time_ns() - begun) / 1e6


def _report_stream(recordings: Sequence[Sequence[Record]]) -> None:
    frames = sum(isinstance(record, Frame) for records in recordings for record in records)
    pairs = [(_timed(_track, recordings), _timed(_strip, recordings)) for _ in range(ROUNDS)]
    ours, plain = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    print(
        f"all {len(recordings)} recordings, tracker included: {frames / ours:,.0f} frames a second; only split and "
        f"stripped: {frames / plain:,.0f}; ratio {plain / ours:.3f}"
    )


def _timed(work: Callable[[Sequence[Sequence[Record]]], None], recordings: Sequence[Sequence[Record]]) -> float:
    begun = time.process_time()
    work(recordings)
    return time.process_time() - begun


def _track(recordings: Sequence[Sequence[Record]]) -> None:
    for records in recordings:
        header = next(record for record in records if isinstance(record, Header))
        reducer = StreamStateReducer(header, _reader_of(header))
        for record in records:
            reducer.reduce(record)


def _strip(recordings: Sequence[Sequence[Record]]) -> None:
    for records in recordings:
        for shot in _shots(records):
            _plain(shot)


if __name__ == "__main__":
    main()
