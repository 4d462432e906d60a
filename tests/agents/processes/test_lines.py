"""Bytes to lines: the cuts between reads change nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.processes.lines import Line, LineSplitter

some_bytes = st.lists(st.sampled_from([b"\n", b"\r", b"a", b" ", b"\xc3", b"\xa9", b"{}", b"long words"])).map(b"".join)


def split_all(pieces: list[bytes], limit: int = 1000) -> list[Line]:
    splitter = LineSplitter(limit)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    rest = splitter.end()
    return lines if rest is None else [*lines, rest]


@given(st.lists(some_bytes), st.integers(min_value=1, max_value=40))
def test_where_the_bytes_are_cut_does_not_matter(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    assert split_all(pieces, limit) == split_all([whole], limit) == split_all([bytes([b]) for b in whole], limit)


def test_line_ends_are_taken_off_and_blank_lines_left_out() -> None:
    assert split_all([b"one\r\n\n  \ntwo\n"]) == [Line(b"one"), Line(b"two")]


def test_what_has_no_end_is_marked() -> None:
    assert split_all([b"one\ntw", b"o"]) == [Line(b"one"), Line(b"two", is_whole=False)]


def test_a_line_over_the_limit_is_cut_and_the_next_one_is_not() -> None:
    assert split_all([b"abcdef", b"ghi\nxy\n"], limit=4) == [Line(b"abcd", is_cut=True), Line(b"xy")]


def test_a_line_of_just_the_limit_is_whole() -> None:
    assert split_all([b"abcd\n"], limit=4) == [Line(b"abcd")]
