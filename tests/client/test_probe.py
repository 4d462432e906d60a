"""The probe: one window, doubled while looking fails, never extended."""

from __future__ import annotations

from math import inf

import pytest

from interlock.client.machine.probe import PROBE, Probe, RuntimeStabilityProbe
from interlock.vocabulary.errors import ContractError


def test_it_is_armed_once_and_events_do_not_extend_it() -> None:
    armed = PROBE.resync(Probe(), is_unstable=True, is_awaiting=False, now=10)
    assert armed.due_at == 13
    assert PROBE.resync(armed, is_unstable=True, is_awaiting=False, now=12.9) == armed


def test_it_is_disarmed_where_nothing_is_doubtful_or_something_is_awaited() -> None:
    armed = Probe(due_at=13, failures=2)
    assert PROBE.resync(armed, is_unstable=False, is_awaiting=False, now=11) == Probe(failures=2)
    assert PROBE.resync(armed, is_unstable=True, is_awaiting=True, now=11) == Probe(failures=2)


def test_the_window_doubles_up_to_the_cap() -> None:
    probe, windows = Probe(), []
    for _ in range(6):
        windows.append(PROBE.window_seconds(probe.failures))
        probe = PROBE.fail(probe)
    assert windows == [3, 6, 12, 24, 30, 30]
    assert PROBE.succeed(probe) == Probe()


def test_a_year_of_failures_is_no_large_number() -> None:
    probe = Probe()
    for _ in range(5000):
        probe = PROBE.fail(probe)
    assert PROBE.window_seconds(probe.failures) == 30
    assert probe.failures < 100


@pytest.mark.parametrize(("grace", "cap"), [(0, 30), (-1, 30), (5, 3), (3, inf)])
def test_a_window_is_a_while_and_not_for_ever(grace: float, cap: float) -> None:
    with pytest.raises(ContractError, match="waits a while"):
        RuntimeStabilityProbe(grace, cap)
