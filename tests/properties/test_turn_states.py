"""`turn_states` on any log: total, prefix-monotone, incremental, blind to what is not its business."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.lifecycle.turns import TURN_PAYLOADS, TurnFold, TurnRecord, fold_turns, turn_states
from interlock.testing.strategies import events, payloads, structs_of
from interlock.vocabulary.events.audit import ProviderUsage, RunState
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import RunId, SessionId, TurnId
from interlock.vocabulary.states import TurnState

USAGE = ProviderUsage(model="m")
TURNS = st.sampled_from([None, "t1", "t2"])
SPAWNS = st.sampled_from([None, None, None, "s1", "s2"])


def _same_run(payload: Payload) -> Payload:
    # Mostly one run, or nearly every turn would be fenced and little would be tried.
    return structs.replace(payload, run_id=RunId("r")) if isinstance(payload, RunState) else payload


TURN_EVENTS = st.one_of(*(structs_of(cls) for cls in sorted(TURN_PAYLOADS, key=lambda cls: cls.__name__)))
LOGS = st.lists(
    events(TURN_EVENTS.map(_same_run) | payloads(), turn_ids=TURNS, spawn_ids=SPAWNS).map(
        lambda event: structs.replace(event, session_id=SessionId("s"))
    ),
    max_size=14,
).map(lambda log: [structs.replace(event, seq=seq) for seq, event in enumerate(log)])


def by_turn(records: list[TurnRecord]) -> dict[TurnId, TurnRecord]:
    return {record.turn_id: record for record in records}


@given(LOGS, st.booleans())
def test_it_is_total_and_names_its_evidence(log: list[Event], owner_alive: bool) -> None:
    for record in turn_states(log, owner_alive=owner_alive):
        assert record.state.is_terminal <= bool(record.evidence)
        assert (record.state is TurnState.ABANDONED) <= (record.settles_as is not None)
        assert (record.state in (TurnState.RUNNING, TurnState.WAITING)) <= owner_alive
        is_bad = record.state.is_terminal and record.state is not TurnState.COMPLETED
        assert is_bad == bool(record.error_kind)
        assert is_bad <= bool(record.next_actions)


@given(LOGS, LOGS)
def test_a_terminal_turn_never_changes_by_what_is_appended(log: list[Event], more: list[Event]) -> None:
    before = by_turn(turn_states(log))
    after = by_turn(turn_states(log + more))
    for turn_id, record in before.items():
        if record.state.is_terminal:
            assert after[turn_id] == record


@given(LOGS)
def test_folding_one_by_one_equals_folding_at_once_on_every_prefix(log: list[Event]) -> None:
    fold = TurnFold()
    for count, event in enumerate(log, start=1):
        fold.add(event)
        assert fold.records() == turn_states(log[:count])


@given(LOGS)
def test_events_that_decide_nothing_change_nothing(log: list[Event]) -> None:
    others = [event if type(event.data) in TURN_PAYLOADS else structs.replace(event, data=USAGE) for event in log]
    assert fold_turns(log).records() == fold_turns(others).records()


@given(LOGS)
def test_reading_without_an_owner_changes_no_terminal_turn(log: list[Event]) -> None:
    alive, dead = by_turn(turn_states(log)), by_turn(turn_states(log, owner_alive=False))
    assert alive.keys() == dead.keys()
    assert all(dead[turn_id] == record for turn_id, record in alive.items() if record.state.is_terminal)
