"""`TurnsView`: the classifier's own words, whatever way the log is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.turns import fold_turns, turn_states
from interlock.log.port import DamageKind, LogDamage, Slice
from interlock.projections.turns import TurnsView
from interlock.testing.scribe import Scribe
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from tests.projections.histories import failed_then_clean
from tests.projections.logs import LOGS


def slice_of(events: list[Event], damage: tuple[LogDamage, ...] = ()) -> Slice:
    return Slice(events=tuple(events), version=len(events), damage=damage)


@given(LOGS, st.lists(st.integers(0, 14), max_size=4), st.booleans())
def test_it_says_what_the_classifier_says_however_the_log_is_cut(
    log: list[Event], cuts: list[int], owner_alive: bool
) -> None:
    view = TurnsView()
    for cut in (*sorted(cuts), len(log)):
        again = max(0, view.version - 2)  # a reader that starts again gets some events twice
        view.feed(slice_of(log[again : min(cut, len(log))]))
        assert view.records(owner_alive=owner_alive) == turn_states(log[: view.version], owner_alive=owner_alive)
    assert view.version == len(log)
    assert view.findings == tuple(fold_turns(log).findings)


def test_a_closed_turn_is_worked_out_once() -> None:
    view = TurnsView()
    view.feed(slice_of(failed_then_clean().events))
    assert [id(record) for record in view.records()] == [id(record) for record in view.records()]


def test_a_slice_that_leaves_out_events_is_refused_and_changes_nothing() -> None:
    events = failed_then_clean().events
    view = TurnsView()
    view.feed(slice_of(events[:3]))
    before = view.records()
    with pytest.raises(ContractError, match=r"events 4\.\.5 were left out: read on after 3"):
        view.feed(slice_of(events[5:]))
    assert (view.version, view.records()) == (3, before)


def test_a_gap_that_the_store_reports_is_kept_as_damage() -> None:
    events = failed_then_clean().events
    damage = LogDamage(kind=DamageKind.MISSING, session_id=SessionId("ses_scribe"), message="gone", first_seq=4)
    view = TurnsView()
    view.feed(slice_of(events[:3] + events[4:], (damage,)))
    view.feed(slice_of([], (damage,)))
    assert view.damage == (damage,)
    assert view.version == len(events)


def test_an_event_that_no_log_has_stamped_is_refused() -> None:
    (event,) = Scribe().write(UserMessage(text="x"), turn="t1")
    with pytest.raises(ContractError, match="bears no seq"):
        TurnsView().feed(
            slice_of([type(event)(id=event.id, session_id=event.session_id, ts=event.ts, data=event.data)])
        )
