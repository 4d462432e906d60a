"""Recordings as a rougher watcher would have made them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.scoring.recording import Frame, Header, Input, Record, Truth
from interlock.testing.cadence import SWEEP, Cadence, at_cadence
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row

RECORDING: list[Record] = [Header(1, "tiny")]
for number in range(50):
    RECORDING.append(Frame(number / 5, ansi=f"screen {number}"))
    if number % 10 == 5:
        RECORDING += [Input(number / 5 + 0.05), Truth(number / 5 + 0.05, "working")]


def watched(cadence: Cadence) -> list[Record]:
    return list(at_cadence(RECORDING, cadence))


def looks(cadence: Cadence) -> list[Frame]:
    return [record for record in watched(cadence) if isinstance(record, Frame)]


def test_each_look_shows_the_frame_that_stood_then() -> None:
    for look in looks(Cadence(hz=1)):
        assert look.ansi == f"screen {int(look.t * 5 + 1e-9)}"


def test_a_slower_watcher_looks_less_often() -> None:
    assert [look.t for look in looks(Cadence(hz=1))] == [float(second) for second in range(10)]
    assert len(looks(Cadence(hz=2))) == 20


@each_row("cadence", [*SWEEP, Cadence()])
def test_inputs_and_truths_stay_and_times_do_not_go_back(cadence: Cadence) -> None:
    found = watched(cadence)
    rest = [record for record in RECORDING if not isinstance(record, Frame)]
    assert [record for record in found if not isinstance(record, Frame)] == rest
    times = [record.t for record in found if not isinstance(record, Header)]
    assert all(one <= other for one, other in pairwise(times))


@each_row("cadence", SWEEP)
def test_the_same_seed_gives_the_same_looks(cadence: Cadence) -> None:
    assert watched(cadence) == watched(cadence)


def test_looks_are_lost_doubled_and_late_as_asked() -> None:
    assert looks(Cadence(drop=1.0)) == []
    doubled = looks(Cadence(hz=1, duplicate=1.0))
    assert doubled[::2] == doubled[1::2]
    gaps = [other.t - one.t for one, other in pairwise(looks(Cadence(hz=1, jitter_seconds=0.5)))]
    assert all(1.0 <= gap <= 1.5 for gap in gaps)
    assert len(set(gaps)) > 1


@each_row(
    "values",
    [
        {"hz": 0},
        {"hz": -1},
        {"hz": float("nan")},
        {"hz": 1e9},
        {"jitter_seconds": -1},
        {"drop": 1.5},
        {"duplicate": -0.1},
    ],
)
def test_a_cadence_that_cannot_be_kept_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(values))):
        Cadence(**values)  # type: ignore[arg-type]


@given(st.floats(0.2, 20), st.floats(0, 2), st.floats(0, 0.9), st.floats(0, 1), st.integers(0, 9))
def test_a_look_never_shows_what_was_not_there_yet(
    hz: float, jitter: float, drop: float, duplicate: float, seed: int
) -> None:
    shown_at = {f"screen {number}": number / 5 for number in range(50)}
    for look in looks(Cadence(hz, jitter, drop, duplicate, seed)):
        assert look.ansi is not None
        assert shown_at[look.ansi] <= look.t
