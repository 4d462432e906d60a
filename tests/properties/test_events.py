"""What holds for every event and every line."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from interlock.testing.strategies import JSON, events
from interlock.vocabulary.errors import MalformedEvent
from interlock.vocabulary.events.codec import decode_event, encode_event
from interlock.vocabulary.events.envelope import Event, audience
from interlock.vocabulary.events.registry import DECLARATIONS, Audience, Durability, Json
from interlock.vocabulary.foreign_json import scrub_text


def event_or_fault(line: bytes) -> Event | MalformedEvent:
    try:
        return decode_event(line)
    except MalformedEvent as fault:
        return fault


@given(events())
def test_every_event_reads_back_as_itself(event: Event) -> None:
    line = encode_event(event)
    assert decode_event(line) == event
    assert encode_event(decode_event(line)) == line
    assert b"\n" not in line


@given(events(), st.data())
def test_every_event_keeps_a_field_from_the_future(event: Event, data: st.DataObject) -> None:
    raw = json.loads(encode_event(event))
    place = data.draw(st.sampled_from([raw, raw["data"]]))
    place["field_from_the_future"] = data.draw(JSON)
    assert json.loads(encode_event(decode_event(json.dumps(raw).encode()))) == raw


@given(events(), st.data())
def test_a_damaged_line_is_an_event_or_a_named_fault(event: Event, data: st.DataObject) -> None:
    line = bytearray(encode_event(event))
    for _ in range(data.draw(st.integers(1, 3))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    found = event_or_fault(bytes(line))
    if isinstance(found, Event):
        assert decode_event(encode_event(found)) == found
    else:
        assert found.field


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
@example(b"null")
@example(b'{"type":null}')
def test_any_bytes_are_an_event_or_a_named_fault(line: bytes) -> None:
    assert str(event_or_fault(line))


@given(JSON)
def test_any_json_is_an_event_or_a_named_fault(value: Json) -> None:
    assert str(event_or_fault(json.dumps(value).encode()))


@given(events())
def test_what_is_ephemeral_is_for_presenters_and_the_rest_never_is(event: Event) -> None:
    is_ephemeral = DECLARATIONS[event.type].durability is Durability.EPHEMERAL
    assert is_ephemeral == (audience(event) is Audience.PRESENTER)


@given(st.text(st.characters(), max_size=20))
def test_scrubbed_text_is_clean_and_scrubbing_twice_changes_nothing(text: str) -> None:
    clean = scrub_text(text)
    clean.encode("utf-8")
    assert "\x00" not in clean
    assert scrub_text(clean) == clean
