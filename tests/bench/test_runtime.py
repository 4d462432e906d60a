"""The benchmark of the runtime measures what it says, with two agents."""

from __future__ import annotations

import asyncio

import pytest

from bench import runtime as bench

LOAD = bench.Load(agents=2, pieces=3, pace_seconds=0.001)


@pytest.mark.parametrize("side", [bench.RUNTIME, bench.BARE])
def test_each_side_sees_every_piece_of_text_and_measures_it(side: str) -> None:
    figures = asyncio.run(bench.measure(side, LOAD))
    assert figures.cpu_seconds > 0
    assert 0 < figures.p50_ms <= figures.p95_ms


def test_a_piece_that_did_not_come_is_not_measured_away() -> None:
    meter = bench.Meter(LOAD, bench.resident_kib())
    meter.arrived(["0.5"] * 5)
    with pytest.raises(AssertionError, match="5 pieces"):
        meter.figures()


def test_both_sides_stand_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    ours, bare = bench.Figures(1.0, 10.0, 200.0, 2.0, 4.0), bench.Figures(0.5, 10.0, 0.0, 1.0, 2.0)
    bench.show(LOAD, ours, bench.middle([bare, bare, ours]))
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[-3:] for line in shown[3:]] == [
        ["5.00", "2.50", "2.0"],
        ["166666.67", "83333.33", "2.0"],
        ["100.00", "0.00", "-"],
        ["2.00", "1.00", "2.0"],
        ["4.00", "2.00", "2.0"],
    ]
