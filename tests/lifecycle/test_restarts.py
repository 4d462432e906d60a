"""Restarts: how soon, how often, and for what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.restarts import RestartDecision, RestartPolicy, Restarts, RestartVerdict
from interlock.vocabulary.states import ExitReason
from tests.each_row import each_row

FAILURES = (ExitReason.CRASHED, ExitReason.UNCLEAN)
EXPLAINED = (ExitReason.CLEAN, ExitReason.STOPPED, ExitReason.IDLE_TTL, ExitReason.REPLACED)


def crash(restarts: Restarts, now: float) -> RestartDecision:
    return restarts.after(ExitReason.CRASHED, now)


def test_each_attempt_waits_longer_and_then_it_is_given_up() -> None:
    restarts = Restarts()
    assert [crash(restarts, float(n)).restart_at for n in range(3)] == [0 + 1, 1 + 2, 2 + 4]
    last = crash(restarts, 3.0)
    assert (last.verdict, last.is_exhausted, last.restart_at) == (RestartVerdict.EXHAUSTED, True, None)


def test_the_decision_says_what_is_done_and_why() -> None:
    restarts = Restarts(RestartPolicy(max_attempts=1))
    assert crash(restarts, 0.0).message == "the agent crashed; restart 1 of 1 in 1 s"
    assert crash(restarts, 1.0).message == "the agent crashed; not restarted: 1 restart within 3600 s were of no help"
    assert restarts.after(ExitReason.STOPPED, 2.0).message == "not restarted: the end was no failure (stopped)"


@each_row("reason", ExitReason)
def test_only_what_nobody_explained_restarts(reason: ExitReason) -> None:
    decision = Restarts().after(reason, 0.0)
    assert (decision.verdict is RestartVerdict.RESTART) is (reason in FAILURES)
    assert decision.message


@pytest.mark.parametrize("reason", EXPLAINED)
def test_an_explained_end_begins_a_new_window(reason: ExitReason) -> None:
    restarts = Restarts()
    for _ in range(3):
        crash(restarts, 0.0)
    restarts.after(reason, 1.0)
    assert restarts.is_fresh
    assert crash(restarts, 2.0).attempt == 1


def test_want_of_memory_forgives_nothing() -> None:
    restarts = Restarts()
    for _ in range(3):
        crash(restarts, 0.0)
    assert restarts.after(ExitReason.OOM, 1.0).verdict is RestartVerdict.NO
    assert crash(restarts, 2.0).is_exhausted


def test_what_is_older_than_the_window_is_forgotten() -> None:
    restarts = Restarts()
    for now in (0.0, 100.0, 200.0):
        crash(restarts, now)
    assert crash(restarts, 599.0).is_exhausted
    again = crash(restarts, 3600.0)
    assert (again.attempt, again.restart_at) == (3, 3604.0)


def test_a_stale_resume_id_costs_nothing_once() -> None:
    restarts = Restarts()
    free = restarts.after(ExitReason.CRASHED, 5.0, is_stale_resume=True)
    assert (free.verdict, free.restart_at, free.attempt) == (RestartVerdict.RESTART, 5.0, 0)
    assert not restarts.is_fresh
    paid = restarts.after(ExitReason.CRASHED, 6.0, is_stale_resume=True)
    assert (paid.attempt, paid.restart_at) == (1, 7.0)


def test_a_stop_is_a_stop_also_with_a_stale_resume_id() -> None:
    assert Restarts().after(ExitReason.STOPPED, 0.0, is_stale_resume=True).verdict is RestartVerdict.NO


def test_the_delay_is_capped_however_many_attempts_there_were() -> None:
    restarts = Restarts(RestartPolicy(max_attempts=5000))
    delays = [(crash(restarts, 0.0).restart_at or 0.0) for _ in range(3000)]
    assert delays[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert delays[-1] == 60


deaths = st.lists(st.tuples(st.sampled_from(list(ExitReason)), st.floats(0.0, 400.0), st.booleans()), max_size=40)


@given(deaths)
def test_there_are_never_more_restarts_in_a_window_than_allowed(deaths: list[tuple[ExitReason, float, bool]]) -> None:
    restarts, now = Restarts(), 0.0
    made: list[tuple[float, bool]] = []
    for reason, gap, is_stale in deaths:
        now += gap
        decision = restarts.after(reason, now, is_stale_resume=is_stale)
        if reason in EXPLAINED:
            made = []
        if decision.restart_at is not None:
            assert decision.restart_at >= now
            made.append((now, decision.attempt == 0))
        recent = [is_free for at, is_free in made if at > now - 3600.0]
        assert recent.count(False) <= 3
        assert recent.count(True) <= 1


def test_a_crash_every_five_minutes_reaches_the_limit() -> None:
    restarts = Restarts()
    assert [crash(restarts, at * 300.0).verdict for at in range(4)] == [
        *[RestartVerdict.RESTART] * 3,
        RestartVerdict.EXHAUSTED,
    ]


def test_attempts_that_the_log_tells_of_count() -> None:
    restarts = Restarts()
    restarts.recall([-3_700.0, -60.0, -30.0])
    assert "restart 3 of 3" in crash(restarts, 0.0).message
    assert crash(restarts, 1.0).is_exhausted
