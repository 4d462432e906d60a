"""The published JSON Schema, read by somebody else's validator, agrees with our own decoder."""

from __future__ import annotations

import json

from hypothesis import given
from jsonschema import Draft202012Validator

from interlock.testing.strategies import events
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.schema import json_schema

VALIDATOR = Draft202012Validator(json_schema())


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json_schema())


@given(events())
def test_every_event_is_valid(event: Event) -> None:
    VALIDATOR.validate(json.loads(encode_event(event)))


@given(events())
def test_an_event_without_a_required_field_or_of_no_known_type_is_not(event: Event) -> None:
    raw = json.loads(encode_event(event))
    for broken in ({**raw, "type": "nothing"}, {**raw, "session_id": "../x"}, {**raw, "seq": -1}):
        assert not VALIDATOR.is_valid(broken)
    assert not VALIDATOR.is_valid({key: value for key, value in raw.items() if key != "id"})
