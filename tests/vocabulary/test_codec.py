"""Lines in, events out: strict, total, and without loss."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from interlock.testing.scribe import Scribe
from interlock.vocabulary.errors import ContractError, MalformedEvent
from interlock.vocabulary.events.audit import RunState, TurnFailed
from interlock.vocabulary.events.codec import MAX_DEPTH, MAX_LINE_BYTES, decode_event, decode_lines, encode_event
from interlock.vocabulary.events.conversation import AssistantMessage, SubagentEvent, ToolCall, UserMessage
from interlock.vocabulary.events.envelope import Event, UnknownEvent, new_event
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.foreign_json import scrub_text
from interlock.vocabulary.ids import CallId, EventId, SessionId, SubagentId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import SubagentState, TurnState
from tests.each_row import each_row


def event_of(payload: Payload) -> Event:
    (event,) = Scribe().write(payload, turn="trn_1", spawn="spn_1")
    return event


def raw_of(payload: Payload) -> dict[str, Json]:
    raw: dict[str, Json] = json.loads(encode_event(event_of(payload)))
    return raw


def data_of(raw: dict[str, Json]) -> dict[str, Json]:
    data = raw["data"]
    assert isinstance(data, dict)
    return data


def line_of(raw: object) -> bytes:
    return json.dumps(raw).encode()


MESSAGE = AssistantMessage(text="hello")
LINE = encode_event(event_of(MESSAGE))


def test_the_envelope_is_the_designs() -> None:
    raw = raw_of(MESSAGE)
    assert list(raw) == ["type", "id", "session_id", "seq", "ts", "turn_id", "spawn_id", "data"]
    assert (raw["type"], raw["ts"], raw["data"]) == ("assistant_message", "2026-01-01T00:00:01Z", {"text": "hello"})


def test_absent_fields_are_left_out() -> None:
    (event,) = Scribe().write(MESSAGE)
    assert {"turn_id", "spawn_id", "unknown_fields"}.isdisjoint(json.loads(encode_event(event)))


@each_row(
    ("broken", "field", "reason"),
    [
        (b"", "$", "not JSON"),
        (b"{", "$", "not JSON"),
        (b"[1]", "$", "expected an object"),
        (b"\xff\xfe", "$", "not UTF-8"),
        (LINE + b"x", "$", "not JSON"),
        (LINE.replace(b'"text":"hello"', b'"text":5'), "data.text", "got `int`"),
        (LINE.replace(b'"text":"hello"', b'"words":"hello"'), "data", "missing required field `text`"),
        (LINE.replace(b'"type":"assistant_message",', b""), "$", "missing required field `type`"),
        (LINE.replace(b'"assistant_message"', b"7"), "type", "got `int`"),
        (LINE.replace(b'"seq":1', b'"seq":-1'), "seq", ">= 0"),
        (LINE.replace(b'"seq":1', b'"seq":9007199254740992'), "seq", "<= 9007199254740991"),
        (LINE.replace(b'"seq":1', b'"seq":' + b"9" * 5000), "$", "out of range"),
        (LINE.replace(b'"seq":1', b'"seq":1e999'), "seq", "out of range"),
        (LINE.replace(b'"seq":1', b'"seq":NaN'), "$", "NaN"),
        (LINE.replace(b'"seq":1', b'"seq":-Infinity'), "$", "-Infinity"),
        (LINE.replace(b'"seq":1', b'"seq":1,"seq":1'), "seq", "twice"),
        (LINE.replace(b'"hello"', b'"hello","text":"bye"'), "text", "twice"),
        (LINE.replace(b"hello", b"a\x00b"), "$", "not JSON"),
        (LINE.replace(b"hello", b"a\\u0000b"), "data.text", "NUL"),
        (LINE.replace(b"hello", b"\\ud800"), "data.text", "surrogate"),
        (LINE.replace(b'"text"', b'"\\u0000":1,"text"'), "data", "NUL"),
        (LINE.replace(b"ses_scribe", b"../../etc"), "session_id", "regex"),
        (LINE.replace(b"ses_scribe", b"a\\n"), "session_id", "regex"),
        (LINE.replace(b"ses_scribe", b"a" * 129), "session_id", "regex"),
        (LINE.replace(b"01Z", b"01"), "ts", "timezone"),
        (LINE.replace(b"2026-01-01", b"2026-13-01"), "ts", "RFC3339"),
    ],
)
def test_a_malformed_line_names_its_field(broken: bytes, field: str, reason: str) -> None:
    with pytest.raises(MalformedEvent) as caught:
        decode_event(broken)
    assert caught.value.field == field
    assert reason in caught.value.reason


@pytest.mark.parametrize("depth", [MAX_DEPTH, 500, 50_000])
def test_deep_nesting_is_refused_and_never_overflows(depth: int) -> None:
    raw = raw_of(ToolCall(call_id=CallId("c"), name="n", args="DEEP"))
    with pytest.raises(MalformedEvent, match="nested more than"):
        decode_event(line_of(raw).replace(b'"DEEP"', b"[" * depth + b"]" * depth))


def test_a_huge_integer_in_free_json_is_refused() -> None:
    raw = raw_of(ToolCall(call_id=CallId("c"), name="n", args={"n": 1}))
    for number in (2**63, -(2**63), 10**30):
        data_of(raw)["args"] = {"n": number}
        with pytest.raises(MalformedEvent, match="beyond 64 bits"):
            decode_event(line_of(raw))


def test_a_duplicated_key_deep_inside_is_refused_too() -> None:
    line = encode_event(event_of(ToolCall(call_id=CallId("c"), name="n", args={"a": {"b": 1}})))
    with pytest.raises(MalformedEvent, match="twice"):
        decode_event(line.replace(b'{"b":1}', b'{"b":1,"b":1}'))


def test_an_oversized_line_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(MalformedEvent, match="at most"):
        decode_event(b" " * (MAX_LINE_BYTES + 1))


def test_unknown_fields_are_kept_wherever_they_stand() -> None:
    action: dict[str, Json] = {"kind": "send_again", "colour": "red"}
    raw = raw_of(TurnFailed(terminal_status=TurnState.FAILED, error_kind="k", error_message="m"))
    raw |= {"hue": [1, {"x": None}], "unknown_fields": [[["id"], "evil"]]}
    data_of(raw).update({"next_actions": [action], "since": 2})
    event = decode_event(line_of(raw))
    assert isinstance(event.data, TurnFailed)
    assert len(event.data.next_actions) == 1
    assert json.loads(encode_event(event)) == raw
    assert decode_event(encode_event(event)) == event


def test_an_unknown_field_survives_inside_a_struct_that_is_otherwise_default() -> None:
    raw = raw_of(MESSAGE)
    data_of(raw)["metadata"] = {"mood": "good"}
    assert json.loads(encode_event(decode_event(line_of(raw)))) == raw


def test_an_unknown_type_is_explicit_and_kept() -> None:
    raw = {**raw_of(MESSAGE), "type": "from_the_future", "data": {"anything": [1, 2]}, "extra": True}
    event = decode_event(line_of(raw))
    assert event.data == UnknownEvent(type="from_the_future", body={"anything": [1, 2]})
    assert event.type == "from_the_future"
    assert json.loads(encode_event(event)) == raw


def test_the_internal_tag_of_unknown_events_is_no_back_door() -> None:
    body: dict[str, Json] = {"type": "user_message", "body": {}}
    raw = {**raw_of(MESSAGE), "type": "__unknown__", "data": body}
    event = decode_event(line_of(raw))
    assert event.type == "__unknown__"
    assert json.loads(encode_event(event)) == raw


def test_whitespace_and_key_order_do_not_matter() -> None:
    raw = raw_of(MESSAGE)
    shuffled = json.dumps(dict(reversed(raw.items())), indent=2).encode()
    assert decode_event(shuffled) == decode_event(LINE)


@pytest.mark.parametrize(
    ("spelling", "state"), [("cancelled", SubagentState.INTERRUPTED), ("interrupted", SubagentState.INTERRUPTED)]
)
def test_both_spellings_of_the_seed_decode(spelling: str, state: SubagentState) -> None:
    raw = raw_of(SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.RUNNING))
    data_of(raw)["status"] = spelling
    event = decode_event(line_of(raw))
    assert isinstance(event.data, SubagentEvent)
    assert event.data.status is state


def test_a_struct_that_refuses_itself_is_named_with_its_path() -> None:
    raw = raw_of(RunState(run_id="run_1", status=RunStatus.RUNNING))  # type: ignore[arg-type]
    data_of(raw)["status"] = "done"
    with pytest.raises(MalformedEvent, match=r"data: .*does not follow from its reason"):
        decode_event(line_of(raw))


@each_row("args", [float("nan"), float("inf"), "\ud800", "\x00", {1: 2}, (1, 2), 2**63, {"a": {3}}])
def test_what_would_not_read_back_is_not_written(args: object) -> None:
    call = ToolCall(call_id=CallId("c"), name="n", args=args)  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="cannot be written"):
        encode_event(event_of(call))


def test_nested_too_deeply_to_write() -> None:
    deep: Json = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ContractError, match="cannot be written"):
        encode_event(event_of(ToolCall(call_id=CallId("c"), name="n", args=deep)))


def test_a_bad_line_costs_only_itself_and_is_numbered(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_bytes(LINE + b"\n" + b"{oops\r\n" + LINE + b"\n")
    with path.open("rb") as lines:
        first, bad, last = decode_lines(lines)
    assert first == last == decode_event(LINE)
    assert isinstance(bad, MalformedEvent)
    assert bad.line == 2
    assert str(bad).startswith("line 2: $: not JSON")


def test_scrubbed_text_can_always_be_written() -> None:
    assert scrub_text("a\x00b\ud800c\ud83d\ude00") == "a\ufffdb\ufffdc\U0001f600"
    encode_event(event_of(UserMessage(text=scrub_text("\x00\udfff"))))


def test_an_undeclared_payload_is_refused() -> None:
    class Stray(Payload, frozen=True):
        pass

    with pytest.raises(ContractError, match="not a declared event type"):
        new_event(Stray(), id=EventId("e"), session_id=SessionId("s"), ts=event_of(MESSAGE).ts)


def test_a_hostile_line_costs_its_own_length_and_not_a_path_for_each_value() -> None:
    raw = {**raw_of(MESSAGE), "k" * 100_000: [0] * 100_000}
    tracemalloc.start()
    decode_event(line_of(raw))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * len(line_of(raw))


def test_the_name_of_a_field_is_cut_in_an_error() -> None:
    raw = {**raw_of(MESSAGE), "k" * 100_000: ["\x00"]}
    with pytest.raises(MalformedEvent, match="NUL") as caught:
        decode_event(line_of(raw))
    assert len(caught.value.field) <= 200


def test_the_id_of_a_child_session_is_an_id() -> None:
    raw = raw_of(SubagentEvent(subagent_id=SubagentId("sub_1"), status=SubagentState.RUNNING))
    data_of(raw)["child_session_id"] = "x; touch pwned #"
    with pytest.raises(MalformedEvent) as caught:
        decode_event(line_of(raw))
    assert caught.value.field == "data.child_session_id"
