"""When an idle agent is ended, and what keeps it for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.pool.pool import IdleFacts, idle_deadline_seconds
from interlock.lifecycle.process import ProcessState
from interlock.vocabulary.states import Lifecycle
from tests.each_row import each_row

STATE = ProcessState(last_active=100.0, lifecycle=Lifecycle.IDLE)
FREE = IdleFacts(has_open_work=False)


def test_the_deadline_is_the_last_sign_of_life_and_the_time_to_live() -> None:
    assert idle_deadline_seconds(STATE, 60.0, FREE) == 160.0


def test_any_sign_of_life_moves_it() -> None:
    assert idle_deadline_seconds(replace(STATE, last_active=130.0, lifecycle=Lifecycle.WORKING), 60.0, FREE) == 190.0


def test_a_long_silent_turn_does_not_count() -> None:
    assert idle_deadline_seconds(STATE, 60.0, replace(FREE, free_since_seconds=900.0)) == 960.0


@pytest.mark.parametrize(
    "facts",
    [
        replace(FREE, has_open_work=True),
        replace(FREE, is_adopted=True),
        replace(FREE, has_attached_client=True),
    ],
)
def test_what_is_used_or_not_ours_is_kept(facts: IdleFacts) -> None:
    assert idle_deadline_seconds(STATE, 60.0, facts) is None


@each_row("off", [None, 0.0, -1.0, float("inf"), float("nan")])
def test_it_can_be_switched_off(off: float | None) -> None:
    assert idle_deadline_seconds(STATE, off, FREE) is None


def test_one_that_is_gone_has_no_deadline() -> None:
    assert idle_deadline_seconds(replace(STATE, lifecycle=Lifecycle.KILLED), 60.0, FREE) is None
