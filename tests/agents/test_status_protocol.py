"""OSC 7501: every record is found however the stream is cut, and nothing else is taken for one."""

from __future__ import annotations

from base64 import b64encode
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.status_protocol import (
    MAX_RECORD_BYTES,
    MAX_TEXT_CHARACTERS,
    ProgramState,
    StatusRecord,
    StatusScanner,
    parse_record,
)
from tests.each_row import each_row


def scan(*pieces: bytes) -> list[StatusRecord]:
    scanner = StatusScanner()
    return [record for piece in pieces for record in scanner.feed(piece)]


def states(*pieces: bytes) -> list[str]:
    return [record.state for record in scan(*pieces)]


def coded(text: str) -> str:
    return b64encode(text.encode()).decode()


@each_row("end", [b"\x07", b"\x1b\\"])
@each_row("state", ProgramState)
def test_each_state_is_read_with_either_end(state: ProgramState, end: bytes) -> None:
    [record] = scan(b"text\x1b]7501;state=" + state.encode() + b":app=codex" + end + b"more")
    assert (record.state, record.app, record.id, record.is_probe) == (state, "codex", "", False)


def test_every_field_is_read_and_kept_as_it_came() -> None:
    body = "state=blocked:kind=permission:app=claude-code:id=a/b:progress=40"
    body += f":title={coded('Tests')}:msg={coded('Run it?')}"
    [record] = scan(f"\x1b]7501;{body}\x07".encode())
    assert record[:7] == ("blocked", "claude-code", "permission", "a/b", "Tests", "Run it?", 40)
    assert ":".join("=".join(pair) for pair in record.fields) == body


def test_the_probe_is_told_from_a_record() -> None:
    assert [record.is_probe for record in scan(b"\x1b]7501;?\x1b\\\x1b[c")] == [True]


def test_records_of_subagents_come_one_by_one() -> None:
    found = scan(b"\x1b]7501;state=working:id=one\x07\x1b]7501;state=done:id=two\x07\x1b]7501;state=clear\x07")
    assert [(record.state, record.id) for record in found] == [("working", "one"), ("done", "two"), ("clear", "")]


@pytest.mark.parametrize(
    "wrapped",
    [
        b"\x1bPtmux;\x1b\x1b]7501;state=idle\x07\x1b\\",
        b"\x1bPtmux;\x1b\x1b]7501;state=idle\x1b\x1b\\\x1b\\",
        b"\x1bPtmux;\x1b\x1bPtmux;\x1b\x1b\x1b\x1b]7501;state=idle\x1b\x1b\x1b\x1b\\\x1b\x1b\\\x1b\\",
        b"\x1bP\x1b]7501;state=idle\x07\x1b\\",
    ],
)
def test_a_record_that_is_passed_through_a_multiplexer_is_read(wrapped: bytes) -> None:
    assert states(wrapped) == ["idle"]
    assert states(*(wrapped[at : at + 1] for at in range(len(wrapped)))) == ["idle"]


def test_an_unknown_state_is_kept_and_not_guessed_at() -> None:
    assert states(b"\x1b]7501;state=pondering\x07") == ["pondering"]


@each_row("body", [b"", b"app=codex", b"state=", b"state", b"STATE=idle", b"\xff\xfe", b"state=\xe9t\xe9"])
def test_what_names_no_state_is_no_record(body: bytes) -> None:
    assert parse_record(body) is None


@each_row(
    ("value", "text"),
    [
        (coded("ja"), "ja"),
        (coded("ja").rstrip("="), "ja"),
        ("not base64!", None),
        ("A", None),
        ("=AAA", None),
        ("", ""),
        (b64encode(b"\xff\xfeok").decode(), "��ok"),
        (coded("one\r\n\x1b[31mtwo\x00\x9b"), "one [31mtwo"),
        (coded("x" * 5000), "x" * MAX_TEXT_CHARACTERS),
    ],
)
def test_a_message_is_decoded_leniently_and_bounded(value: str, text: str | None) -> None:
    record = parse_record(f"state=blocked:msg={value}".encode())
    assert record is not None
    assert (record.state, record.message) == ("blocked", text)


@each_row(("value", "number"), [("0", 0), ("100", 100), ("101", None), ("-1", None), ("x", None), ("", None)])
def test_progress_is_a_percentage_or_nothing(value: str, number: int | None) -> None:
    record = parse_record(f"state=working:progress={value}".encode())
    assert record is not None
    assert record.progress == number


@each_row("broken_off", [b"\x18", b"\x1a", b"\x1b[0m", b"\x1b", b"\x1b" * 9 + b"\\"])
def test_a_record_that_is_broken_off_is_dropped_and_the_next_one_read(broken_off: bytes) -> None:
    assert states(b"\x1b]7501;state=done" + broken_off + b"\x1b]7501;state=idle\x07") == ["idle"]


def test_other_sequences_are_passed_over() -> None:
    assert states(b"\x1b]0;7501;state=idle\x07\x1b]75010;state=idle\x07]7501;state=idle\x07\x1b[7501;1m") == []


def test_an_endless_record_is_dropped_and_forgotten() -> None:
    scanner = StatusScanner()
    assert scanner.feed(b"\x1b]7501;state=done:msg=") == []
    for _ in range(100):
        assert scanner.feed(b"A" * 4096) == []
        assert len(scanner._body or b"") <= MAX_RECORD_BYTES
    assert scanner.feed(b"\x07") == []
    assert [record.state for record in scanner.feed(b"\x1b]7501;state=idle\x07")] == ["idle"]


FRAGMENTS = st.sampled_from(
    [
        *(b"\x1b", b"\x1b]7501;", b"\x1b]", b"7501;", b"state=idle", b":", b"msg=", b"SGk=", b"\x07", b"\\", b"\x1b\\"),
        *(b"?", b"\x1bPtmux;", b"\x18", b"x" * 70, b"\x1b" * 9, b"A" * (MAX_RECORD_BYTES - 10), b"\xff", b"id=a/b"),
    ]
)
STREAMS = st.lists(FRAGMENTS | st.binary(max_size=8), max_size=30).map(b"".join)


@given(STREAMS, st.data())
def test_how_the_stream_is_cut_changes_nothing(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]
    assert scan(*pieces) == scan(stream)


@given(st.lists(FRAGMENTS.filter(lambda one: len(one) < 100), max_size=25).map(b"".join))
def test_byte_by_byte_changes_nothing_either(stream: bytes) -> None:
    assert scan(*(stream[at : at + 1] for at in range(len(stream)))) == scan(stream)


@given(st.binary(max_size=200))
def test_any_bytes_parse_to_bounded_one_line_text_or_to_nothing(body: bytes) -> None:
    record = parse_record(body)
    for text in (record.title, record.message) if record is not None else ():
        assert text is None or (len(text) <= MAX_TEXT_CHARACTERS and len(text.splitlines()) <= 1)
