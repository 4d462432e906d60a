"""Replay on any log: total, blind to audit, only ever extended, paired, the same when it is folded one by one."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.projections.replay.boundaries import find_cuts
from interlock.projections.replay.explain import ReplayRule, explain
from interlock.projections.replay.items import ReasoningItem, ReplayItem, encode_items, prefix_digests
from interlock.projections.replay.provider_input import ReplayFold, fold_replay, prefix_changes, provider_items
from interlock.projections.turn_evidence import dossiers_of
from interlock.testing.scribe import Scribe
from interlock.testing.strategies import events, structs_of
from interlock.vocabulary.events.audit import RunState, TurnStarted
from interlock.vocabulary.events.codec import decode_event, encode_event
from interlock.vocabulary.events.conversation import HistoryCompaction, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event, UnknownEvent, audience
from interlock.vocabulary.events.registry import Audience, Payload
from interlock.vocabulary.ids import SpawnId, TurnId
from tests.projections.conversations import (
    ANY_LOGS,
    AUDIT,
    OTHER_EVENTS,
    REPLAY_EVENTS,
    call,
    check_rounds,
    histories,
    inserted,
    result,
    said,
    stamped,
    user,
)
from tests.projections.whole_logs import provider_input

LOGS = histories() | ANY_LOGS | ANY_LOGS.map(stamped)
PLACES = st.lists(st.tuples(st.integers(0, 99), OTHER_EVENTS), max_size=6)
NOT_REPLAYED = {
    ReplayRule.PARTIAL_MESSAGE,
    ReplayRule.UNVERIFIED_MESSAGE,
    ReplayRule.SUBAGENT_NOT_FOR_MODEL,
    ReplayRule.AUDIT_ONLY,
    ReplayRule.PRESENTER_ONLY,
    ReplayRule.UNKNOWN_TYPE,
}


def is_replay(event: Event) -> bool:
    return audience(event) is Audience.REPLAY


def without_compactions(log: list[Event]) -> list[Event]:
    return [event for event in log if not isinstance(event.data, HistoryCompaction)]


@given(LOGS, st.sampled_from(["", "m"]))
def test_it_is_total_and_every_call_is_paired(log: list[Event], model: str) -> None:
    items = provider_items(log, model=model)
    check_rounds(items)
    lines = provider_input(log, model=model).splitlines()
    assert [msgspec.json.decode(line, type=ReplayItem) for line in lines] == list(items)


@given(LOGS, st.data())
def test_removing_any_audit_or_presenter_event_changes_no_byte(log: list[Event], data: st.DataObject) -> None:
    whole = provider_input(log, model="m")
    assert provider_input(filter(is_replay, log), model="m") == whole
    lost = data.draw(st.sets(st.integers(0, len(log))))
    kept = [event for position, event in enumerate(log) if is_replay(event) or position not in lost]
    assert provider_input(kept, model="m") == whole


@given(histories(), st.sampled_from(["t0", "t1", None]))
def test_evidence_at_every_place_at_once_changes_no_byte(log: list[Event], turn: str | None) -> None:
    whole = provider_input(log, model="m")
    for payload in (*AUDIT, UnknownEvent(type="from_the_future", body=None)):
        (noise,) = Scribe().write(payload, turn=turn)
        noisy = inserted(log, [(place * 2, noise) for place in range(len(log) + 1)])
        assert [event.type for event in noisy[::2]] == [noise.type] * (len(log) + 1)
        assert provider_input(noisy, model="m") == whole


@given(histories(), PLACES)
def test_inserting_any_audit_or_presenter_event_changes_no_byte(
    log: list[Event], places: list[tuple[int, Event]]
) -> None:
    noisy = inserted(log, places)
    assert len(noisy) == len(log) + len(places)
    assert provider_input(noisy, model="m") == provider_input(log, model="m")


@given(LOGS, PLACES)
def test_events_that_are_not_stamped_change_no_byte_either(log: list[Event], places: list[tuple[int, Event]]) -> None:
    noisy = list(log)
    for place, event in places:
        noisy.insert(place % (len(noisy) + 1), event)
    assert provider_input(noisy, model="m") == provider_input(log, model="m")


@given(LOGS, REPLAY_EVENTS.filter(lambda event: isinstance(event.data, UserMessage)), ANY_LOGS)
def test_appending_a_turn_only_extends_the_input(log: list[Event], prompt: Event, rest: list[Event]) -> None:
    fold = fold_replay(log, model="m")
    before = encode_items(fold.items())
    for event in (structs.replace(prompt, turn_id=TurnId("t_next")), *without_compactions(rest)):
        fold.add(event)
        assert encode_items(fold.items()).startswith(before)


@given(LOGS, ANY_LOGS)
def test_settled_items_never_change(log: list[Event], rest: list[Event]) -> None:
    before = fold_replay(log, model="m")
    settled = before.items()[: before.settled_count]
    after = provider_input(log + without_compactions(rest), model="m")
    assert after.startswith(encode_items(settled))


@given(histories())
def test_only_what_is_reported_changes_a_prefix(log: list[Event]) -> None:
    starts = [p for p, event in enumerate(log) if isinstance(event.data, UserMessage) and _is_settled(log[: p + 1])]
    reported = {change.seq for change in prefix_changes(log, model="m")}
    for earlier, later in pairwise(starts):
        is_extended = provider_input(log[: later + 1], model="m").startswith(
            provider_input(log[: earlier + 1], model="m")
        )
        is_reported = any(event.seq in reported for event in log[earlier + 1 : later + 1])
        assert is_extended or is_reported


def _is_settled(log: list[Event]) -> bool:
    fold = fold_replay(log, model="m")
    return fold.settled_count == len(fold.items())


@given(LOGS)
def test_folding_one_by_one_equals_folding_at_once_on_every_prefix(log: list[Event]) -> None:
    fold = ReplayFold(model="m")
    for count, event in enumerate(log, start=1):
        fold.add(event)
        assert fold.items() == provider_items(log[:count], model="m")


@given(LOGS, st.sampled_from(["", "m"]))
def test_the_explanation_agrees_with_the_input(log: list[Event], model: str) -> None:
    items = provider_items(log, model=model)
    told = explain(log, model=model)
    included = [one for one in told if one.included]
    assert sorted(one.item for one in included if one.item is not None) == list(range(len(items)))
    assert all(one.item is None for one in told if not one.included)
    of_events = [one for one in told if one.rule is not ReplayRule.SYNTHETIC_RESULT]
    assert [one.seq for one in of_events] == [event.seq for event in log]
    assert all((one.rule in NOT_REPLAYED) != is_replay(event) for one, event in zip(of_events, log, strict=True))
    for one in included:
        assert one.item is not None
        tags = {"user_message": "user_text", "assistant_message": "assistant_text"}
        tags |= {"history_compaction": "compaction_memory", "subagent_event": "subagent_fact"}
        assert tags.get(one.type, one.type) == type(items[one.item]).__struct_config__.tag


@given(LOGS)
def test_the_input_is_the_same_after_a_round_trip_through_the_log(log: list[Event]) -> None:
    read = [decode_event(encode_event(event)) for event in log]
    assert provider_input(read, model="m") == provider_input(log, model="m")


@given(LOGS)
def test_another_model_only_loses_reasoning(log: list[Event]) -> None:
    with_it = provider_items(log, model="m")
    assert provider_items(log) == tuple(item for item in with_it if not isinstance(item, ReasoningItem))


@given(histories())
def test_digests_of_shared_prefixes_agree_and_the_last_is_that_of_the_input(log: list[Event]) -> None:
    items = provider_items(log)
    digests = prefix_digests(items)
    assert len(digests) == len(items) + 1 == len(set(digests))
    assert all(digests[count] == sha256(encode_items(items[:count])).hexdigest() for count in range(len(digests)))


@given(histories())
def test_at_a_boundary_nothing_later_but_a_compaction_changes_the_input(log: list[Event]) -> None:
    plain = stamped(without_compactions(log))
    whole = provider_input(plain, model="m")
    for position in find_cuts(plain).boundaries:
        assert whole.startswith(provider_input(plain[: position + 1], model="m"))


RECORDS = RunState | TurnStarted


def neighbours(payloads: st.SearchStrategy[Payload] | None = None) -> st.SearchStrategy[Event]:
    """Events of the very session and turns of a history, so that nothing but what they say keeps them from counting."""
    drawn = events(payloads, turn_ids=st.sampled_from(["t0", "t1", "t2", "t3"]))
    return drawn.map(lambda event: structs.replace(event, session_id=Scribe().session))


EVIDENCE = neighbours().filter(lambda event: not is_replay(event) and not isinstance(event.data, RECORDS))
RECORD_EVENTS = neighbours(structs_of(RunState) | structs_of(TurnStarted))
SPEECH = neighbours(st.builds(said) | st.builds(user) | st.builds(call) | st.builds(result))
SPAWNS = st.sampled_from([SpawnId("A"), SpawnId("B"), None])


@given(histories(), st.lists(st.tuples(st.integers(0, 99), EVIDENCE), max_size=6))
def test_evidence_of_the_same_turns_changes_no_byte(log: list[Event], places: list[tuple[int, Event]]) -> None:
    assert provider_input(inserted(log, places), model="m") == provider_input(log, model="m")


@given(histories(), RECORD_EVENTS, st.data())
def test_the_record_of_an_end_changes_no_byte_unless_its_turn_goes_on_after_it(
    log: list[Event], record: Event, data: st.DataObject
) -> None:
    of_turn = [place for place, event in enumerate(log, start=1) if event.turn_id == record.turn_id]
    place = data.draw(st.integers(max(of_turn, default=0), len(log)))
    assert provider_input(inserted(log, [(place, record)]), model="m") == provider_input(log, model="m")


@given(histories(), st.lists(st.tuples(st.integers(0, 99), SPEECH | RECORD_EVENTS, SPAWNS), max_size=8))
def test_what_the_classifier_refuses_in_a_logged_run_is_not_given(
    log: list[Event], places: list[tuple[int, Event, SpawnId | None]]
) -> None:
    noisy = inserted(log, [(place, structs.replace(event, spawn_id=spawn)) for place, event, spawn in places])
    told = {one.seq: one for one in explain(noisy, model="m") if one.rule is not ReplayRule.SYNTHETIC_RESULT}
    for turn in dossiers_of(noisy):
        is_logged = isinstance(turn.counted[0].data, RECORDS)  # else a turn may be closed by its messages alone
        for event, _ in turn.refused if is_logged else ():
            is_repair = isinstance(event.data, ToolResult) and event.data.synthetic
            assert is_repair or not told[event.seq].included
