"""Rows and their styles, as a terminal told them; and nothing of what a row may not hold."""

from __future__ import annotations

import tracemalloc
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.screen import snapshot as under_test
from interlock.screen.snapshot import PLAIN, Row, Snapshot, Style, read_snapshot, scrub
from tests.each_row import each_row


def row_of(line: str) -> Row:
    return read_snapshot(line, columns=80).rows[0]


def style_of(sgr: str) -> Style:
    return row_of(f"\x1b[{sgr}mx").style_at(0)


@each_row(
    ("sgr", "style"),
    [
        ("1", Style(bold=True)),
        ("2;3;4;7", Style(dim=True, italic=True, underline=True, reverse=True)),
        ("1;2;22", PLAIN),
        ("3;4;7;23;24;27", PLAIN),
        ("1;31;0", PLAIN),
        ("1;", PLAIN),
        ("", PLAIN),
        ("31", Style(fg="1")),
        ("97", Style(fg="15")),
        ("41", Style(bg="1")),
        ("107", Style(bg="15")),
        ("31;39", PLAIN),
        ("41;49", PLAIN),
        ("38;5;200", Style(fg="200")),
        ("48;2;1;2;3", Style(bg="1,2,3")),
        ("38;5;200;1", Style(fg="200", bold=True)),
        ("38;2;1;2;3;48;5;9", Style(fg="1,2,3", bg="9")),
        ("38", PLAIN),
        ("38;9;1", PLAIN),
        ("38;5", PLAIN),
        ("38:5:200", Style(fg="200")),
        ("38:2:1:2:3", Style(fg="1,2,3")),
        ("38:2::1:2:3", Style(fg="1,2,3")),
        ("5;8;9;21;999", PLAIN),
    ],
)
def test_a_style_is_what_its_parameters_say(sgr: str, style: Style) -> None:
    assert style_of(sgr) == style


def test_a_kind_of_underline_is_no_parameter_of_its_own() -> None:
    assert style_of("4:2") == style_of("4:3") == Style(underline=True)
    assert style_of("4;4:0") == PLAIN


def test_the_colour_of_an_underline_is_no_parameter_of_its_own() -> None:
    assert style_of("58;5;2") == style_of("58;2;1;7;2") == style_of("58:5:2") == PLAIN
    assert style_of("58;5;2;1") == Style(bold=True)


def test_a_parameter_too_long_to_mean_anything_changes_nothing() -> None:
    assert style_of("1;1000000") == Style(bold=True)


def test_a_style_goes_on_in_the_next_row() -> None:
    rows = read_snapshot("\x1b[1mone\ntwo\x1b[0m!\nthree", columns=80).rows
    assert [row.style_at(0).bold for row in rows] == [True, True, False]
    assert rows[1].style_at(3) == PLAIN


def test_spans_of_one_style_are_one_span() -> None:
    assert len(row_of("\x1b[1ma\x1b[1mb\x1b[31m\x1b[39mc").spans) == 1


def test_a_row_has_no_blanks_at_its_end_and_its_spans_reach_over_them() -> None:
    row = row_of("a\x1b[41m   \x1b[0m")
    assert row.text == "a"
    assert row.style_at(2).bg == "1"
    assert row.style_at(50) == PLAIN


@each_row(
    "noise",
    [
        "\x1b]0;title\x07",
        "\x1b]8;;http://example.org\x1b\\",
        "\x1b]0;torn",
        "\x1bPq#0;1\x1b\\",
        "\x1b_apc\x1b\\",
        "\x1b[2J",
        "\x1b[?25l",
        "\x1b[31",
        "\x1b[",
        "\x1b",
        "\x1b(B",
        "\x9b",
        "\r",
        "\x07",
        "\x00",
        "\x7f",
        "\x85",
        "\x1b[" + "1;" * 10_000 + "m",
    ],
)
def test_whatever_is_no_text_is_taken_out(noise: str) -> None:
    assert row_of(f"before{noise}").text == "before"
    assert scrub(f"before{noise}") == "before"


def test_a_string_that_was_torn_ends_with_the_next_escape() -> None:
    assert row_of("before\x1b]0;torn\x1b[1mafter").text == "beforeafter"


def test_odd_blanks_are_blanks() -> None:
    assert row_of("a\u00a0b\tc").text == "a b c"


def test_a_title_has_no_control_characters() -> None:
    assert read_snapshot("", columns=80, title="a\x1b[31m\nb\x07\x9c").title == "ab"


def test_the_height_cuts_and_fills() -> None:
    assert [row.text for row in read_snapshot("a\nb\nc", columns=80, height=2).rows] == ["a", "b"]
    assert [row.text for row in read_snapshot("a", columns=80, height=3).rows] == ["a", "", ""]
    assert read_snapshot("a\nb", columns=80, height=0).rows == ()


def test_blank_is_without_a_letter_whatever_its_colours() -> None:
    assert read_snapshot("\x1b[41m   \n  ", columns=80).is_blank
    assert not read_snapshot("\n x", columns=80).is_blank


def test_what_was_captured_is_kept_word_for_word_and_counts_for_nothing() -> None:
    one, other = read_snapshot("\x1b[0ma", columns=80), read_snapshot("a", columns=80)
    assert one.raw_text == "\x1b[0ma"
    assert one == other


@pytest.mark.parametrize("row", ["x" * 100_000, "\x1b[1m" + "x" * 100_000, "漢" * 100_000])
def test_a_row_is_cut_where_no_terminal_is_so_wide(row: str) -> None:
    found = row_of(row)
    assert len(found.text) == under_test._MAX_ROW
    assert found.spans[-1].end == under_test._MAX_ROW


def test_rows_of_any_size_leave_only_a_bounded_memory_behind() -> None:
    under_test._remembered_row.cache_clear()
    under_test._apply.cache_clear()
    tracemalloc.start()
    try:
        for number in range(200):
            row_of(f"{number}" + "x" * 500_000)
            row_of(f"\x1b[{number};{'1;' * 100_000}mx")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2_000_000


ESCAPES = st.sampled_from(
    ["\x1b[1m", "\x1b[38;5;9m", "\x1b[0m", "\x1b]0;t", "\x07", "\x1b\\", "\x1b[", "\x1b", "\x9b3m"]
)
PIECES = st.lists(
    st.one_of(st.text(max_size=12), ESCAPES, st.sampled_from(["漢字", "e\u0301", "שלום", "\u202e", "👩‍👩‍👧"]))
)


@given(PIECES)
@example(["\x1b]0;t", "\x1b[1m", "x"])
def test_a_row_holds_no_control_character_and_its_spans_cover_it(pieces: list[str]) -> None:
    for row in read_snapshot("".join(pieces), columns=80).rows:
        assert not any(unicodedata.category(character) == "Cc" for character in row.text)
        ends = [0, *(span.end for span in row.spans)]
        assert [span.start for span in row.spans] == ends[:-1]
        assert ends[-1] >= len(row.text)
        assert all(span.end > span.start for span in row.spans)


@given(st.lists(PIECES.map(lambda pieces: "".join(pieces).replace("\n", "")), min_size=1, max_size=6))
def test_rows_read_one_by_one_are_the_rows_read_together(lines: list[str]) -> None:
    together = read_snapshot("\n".join(lines), columns=80)
    # A row begins in the style that the one before it left open, which is all that it takes from it.
    alone: list[Row] = []
    style = PLAIN
    for line in lines:
        row, style = under_test._parse_row(line, style)
        alone.append(row)
    assert isinstance(together, Snapshot)
    assert together.rows == tuple(alone)
