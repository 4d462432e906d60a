"""The lines of a recording: what is read, what is left out, what is refused with its line."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.scoring.recording import (
    MAX_LINE,
    Frame,
    Header,
    Input,
    Record,
    RecordedStatus,
    Truth,
    read_records,
    snapshot_of,
)
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row

HEADER = b'{"kind":"header","format":1,"cli":"tiny","version":"1.5","cols":40,"rows":3}'


def records(*lines: bytes) -> list[Record]:
    return list(read_records(lines, "r.ndjson"))


def frames(*lines: bytes) -> list[Frame]:
    return [record for record in records(HEADER, *lines) if isinstance(record, Frame)]


def test_every_kind_of_line_is_read() -> None:
    found = records(
        HEADER,
        b'{"kind":"frame","t":0.5,"title":"x","ansi":"a","cursor":[1,2],"alt":true,"dead":false,"command":"node"}',
        b'{"kind":"input","t":1,"submit":true}',
        b'{"kind":"truth","t":1,"state":"working","detail":"submitted"}',
        b'{"kind":"status","t":2,"source":"hook","data":{"a":1}}',
    )
    assert [type(record) for record in found] == [Header, Frame, Input, Truth, RecordedStatus]
    assert found[1] == Frame(0.5, "x", "node", False, True, (1, 2), None, "a")


def test_a_frame_without_a_screen_shows_the_one_before() -> None:
    lines = (b'{"kind":"frame","t":1,"ansi":"a"}', b'{"kind":"frame","t":2}', b'{"kind":"frame","t":3,"ansi":""}')
    assert [frame.ansi for frame in frames(*lines, b'{"kind":"frame","t":4}')] == ["a", "a", "", ""]
    assert [frame.ansi for frame in frames(b'{"kind":"frame","t":1}')] == [""]


def test_what_we_do_not_know_is_left_out() -> None:
    found = records(b"\n", HEADER, b'{"kind":"weather","t":1}', b"  ", b'{"kind":"frame","t":1,"ansi":"a","mood":"x"}')
    assert [type(record) for record in found] == [Header, Frame]


@each_row(
    ("lines", "says"),
    [
        ((), "r.ndjson: there is no header line; an empty file is no recording"),
        ((b"", b"\n"), "r.ndjson: there is no header line"),
        ((b'{"kind":"weather"}',), "r.ndjson: there is no header line"),
        ((b'{"kind":"frame","t":1}',), "r.ndjson:1: a recording begins with a header"),
        ((b'{"kind":"header","format":2}',), "r.ndjson:1: a recording of format 2; this Interlock reads format 1"),
        ((b'{"kind":"header"}',), "r.ndjson:1: not a record"),
        ((HEADER, b"{"), "r.ndjson:2: not a record"),
        ((HEADER, b"[]"), "r.ndjson:2: not a record"),
        ((HEADER, b"\xff"), "r.ndjson:2: not a record"),
        ((HEADER, b'{"t":1}'), "r.ndjson:2: not a record"),
        ((HEADER, b"", b'{"kind":"frame","t":"soon"}'), "r.ndjson:3: not a record"),
        ((HEADER, b'{"kind":"frame","t":1e999}'), "r.ndjson:2: not a record"),
        ((HEADER, b'{"kind":"frame","t":1,"rows":1000000000}'), "r.ndjson:2: not a record"),
        ((b'{"kind":"header","format":1,"rows":-1}',), "r.ndjson:1: not a record"),
        ((HEADER, b" " * 5 + b"x" * (MAX_LINE + 1)), f"r.ndjson:2: the line has {MAX_LINE + 6} bytes"),
    ],
    ids=lambda value: "" if isinstance(value, tuple) else str(value)[:40],
)
def test_a_broken_line_is_refused_by_its_number(lines: tuple[bytes, ...], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        records(*lines)
    assert str(refused.value).startswith(says)


def test_what_stood_before_a_broken_line_was_already_given() -> None:
    reading = read_records((HEADER, b'{"kind":"frame","t":1,"ansi":"a"}', b"{"), "r.ndjson")
    assert isinstance(next(reading), Header)
    assert isinstance(next(reading), Frame)
    with pytest.raises(UsageError, match=r"r\.ndjson:3"):
        next(reading)


def test_the_size_of_a_frame_wins_over_the_size_of_the_header() -> None:
    header = Header(1, cols=40, rows=3)
    shown = snapshot_of(Frame(0.0, ansi="a\nb\nc\nd"), header)
    assert (shown.columns, len(shown.rows)) == (40, 3)
    resized = snapshot_of(Frame(0.0, ansi="a\nb\nc\nd", cols=20, rows=2), header)
    assert (resized.columns, len(resized.rows)) == (20, 2)


def test_a_snapshot_has_all_that_the_frame_tells() -> None:
    frame = Frame(1.0, "title", "node", True, True, (3, 1), False, "x")
    shown = snapshot_of(frame, Header(1))
    assert (shown.title, shown.command, shown.is_dead, shown.is_alternate) == ("title", "node", True, True)
    assert (shown.cursor, shown.cursor_visible) == ((3, 1), False)


TIMES = st.floats(0, 1e6)
RECORDS = st.one_of(
    st.builds(Frame, t=TIMES, title=st.text(), dead=st.booleans(), ansi=st.text(), cursor_visible=st.booleans()),
    st.builds(Input, t=TIMES, submit=st.booleans(), prompt=st.none() | st.text()),
    st.builds(Truth, t=TIMES, state=st.text(), detail=st.text()),
)


@given(st.lists(RECORDS))
def test_what_is_written_is_read_back(written: list[Record]) -> None:
    lines = [msgspec.json.encode(record) for record in (Header(1, "tiny"), *written)]
    assert list(read_records(lines, "r"))[1:] == written


@given(st.lists(st.one_of(st.binary(), st.text().map(lambda text: json.dumps({"kind": text}).encode()))))
def test_any_bytes_are_records_or_a_refusal(lines: list[bytes]) -> None:
    try:
        list(read_records((HEADER, *lines), "r"))
    except UsageError:
        return
