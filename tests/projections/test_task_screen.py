"""A capture of a terminal as it is told: harmless, bounded, and the same digest for the same picture only."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.cli.output import escape
from interlock.projections.task.screen import harmless, sgr_of, show_last_screen, show_screen
from interlock.screen.snapshot import PLAIN, Row, Snapshot, Span, Style, read_snapshot
from interlock.vocabulary.events.audit import LastScreen
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.task_screen import (
    MAX_PAINT,
    MAX_ROW_CHARACTERS,
    MAX_ROWS,
    MAX_SCREEN_CHARACTERS,
    Paint,
    TaskScreen,
)
from tests.each_row import each_row

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(snapshot: Snapshot, *, problem: str = "", since: str = "") -> TaskScreen:
    return show_screen(SessionId("ses_1"), snapshot, captured_at=NOW, age_seconds=1.23456, problem=problem, since=since)


def screen(captured: str, **more: Any) -> Snapshot:  # noqa: ANN401  # fields of the snapshot
    return replace(read_snapshot(captured, columns=80, height=24, cursor=(2, 1)), **more)


def test_rows_size_and_cursor_are_told() -> None:
    told = shown(screen("one\ntwo\n", title="agent"))
    assert (told.rows, told.columns, told.height, told.cursor) == (("one", "two"), 80, 24, (2, 1))
    assert (told.title, told.age_seconds, told.captured_at) == ("agent", 1.235, NOW)
    assert (told.is_live, told.problem, told.is_cut) == (True, "", False)
    assert shown(screen("one", cursor_visible=False)).cursor is None
    assert msgspec.json.decode(msgspec.json.encode(told), type=TaskScreen) == told


def test_what_is_not_live_says_why() -> None:
    told = shown(screen("one"), problem="tmux is \x1b[31mgone")
    assert (told.is_live, told.problem) == (False, "tmux is \ufffd[31mgone")


@given(st.lists(st.text(st.characters(), max_size=40), max_size=5))
def test_nothing_that_does_something_else_than_be_read_comes_through(rows: list[str]) -> None:
    told = shown(Snapshot(tuple(Row(row) for row in rows), 80, title="".join(rows)))
    assert not any(UNSAFE.search(text) for text in (*told.rows, told.title))
    assert all(len(text) == len(row) for text, row in zip(told.rows, rows, strict=False))


def test_what_is_harmless_here_is_what_the_command_line_prints_as_it_is() -> None:
    signs = "".join(map(chr, range(sys.maxunicode + 1)))
    assert [one for one in signs if harmless(one) != one] == [one for one in signs if escape(one) != one]


def test_a_character_keeps_its_place_so_that_colours_do_too() -> None:
    row = Row("a\u202eb", (Span(0, 2, PLAIN), Span(2, 9, Style(fg="1"))))
    told = shown(Snapshot((row,), 80))
    assert (told.rows, told.paint) == (("a\ufffdb",), (Paint(0, 2, 3, "38;5;1"),))
    assert harmless("日本 ok") == "日本 ok"


CUTS = st.sampled_from([0, 1, MAX_ROW_CHARACTERS - 1, MAX_ROW_CHARACTERS, MAX_ROW_CHARACTERS + 1])
STYLES = st.sampled_from([PLAIN, Style(fg="1"), Style(bold=True)])


@given(st.lists(st.tuples(CUTS, st.lists(st.tuples(CUTS, CUTS, STYLES), max_size=4)), max_size=3))
def test_every_colour_lies_on_text_that_is_told(rows: list[tuple[int, list[tuple[int, int, Style]]]]) -> None:
    spans = [tuple(Span(min(a, b), max(a, b), style) for a, b, style in found if a != b) for _, found in rows]
    told = shown(Snapshot(tuple(Row("x" * rows[at][0], one) for at, one in enumerate(spans)), 80))
    assert all(0 <= paint.start < paint.end <= len(told.rows[paint.row]) for paint in told.paint)


def test_a_picture_that_is_known_is_not_told_again() -> None:
    first = shown(screen("one"))
    again = shown(screen("one"), problem="gone", since=first.digest)
    assert (again.is_unchanged, again.rows, again.is_live, again.digest) == (True, (), False, first.digest)
    wider, taller = screen("one", columns=81), screen("one", rows=(*screen("one").rows, Row("")))
    for other in (screen("two"), screen("one", cursor=(3, 1)), wider, taller, screen("\x1b[1mone")):
        told = shown(other, since=first.digest)
        assert not told.is_unchanged
        assert told.rows
    assert not shown(screen("")).is_unchanged


def test_a_screen_that_is_too_big_is_cut_and_says_so() -> None:
    tall = shown(Snapshot((Row("x"),) * (MAX_ROWS + 1), 80))
    assert (len(tall.rows), tall.is_cut, tall.height) == (MAX_ROWS, True, MAX_ROWS + 1)
    wide = shown(Snapshot((Row("x" * (MAX_ROW_CHARACTERS + 1)),), 2_000))
    assert (len(wide.rows[0]), wide.is_cut) == (MAX_ROW_CHARACTERS, True)
    full = shown(Snapshot((Row("x" * MAX_ROW_CHARACTERS),) * 200, 2_000))
    assert (sum(map(len, full.rows)), full.is_cut) == (MAX_SCREEN_CHARACTERS, True)
    spans = tuple(Span(at, at + 1, Style(fg=str(at % 2))) for at in range(1_000))
    gaudy = shown(Snapshot((Row("x" * 1_000, spans),) * 20, 1_000))
    assert (len(gaudy.paint), gaudy.is_cut) == (MAX_PAINT, True)


@each_row(
    ("style", "sgr"),
    [
        (Style(bold=True, reverse=True), "1;7"),
        (Style(fg="12", bg="1,2,3"), "38;5;12;48;2;1;2;3"),
        (Style(fg="-1", bg="300"), ""),
        (Style(fg="1,2"), ""),
        (Style(dim=True, italic=True, underline=True), "2;3;4"),
    ],
)
def test_a_style_is_plain_numbers(style: Style, sgr: str) -> None:
    assert sgr_of(style) == sgr


def test_the_last_screen_of_an_agent_that_has_ended_is_told_as_such_and_once() -> None:
    kept, later = LastScreen(rows="one\n\x1btwo", columns=80), NOW + timedelta(seconds=3)
    told = show_last_screen(SessionId("ses_1"), kept, captured_at=NOW, now=later)
    assert told == TaskScreen(
        task_id=SessionId("ses_1"),
        is_live=False,
        has_ended=True,
        problem="the agent has ended; this is its last screen",
        captured_at=NOW,
        age_seconds=3.0,
        columns=80,
        height=2,
        digest=told.digest,
        rows=("one", "\ufffdtwo"),
    )
    again = show_last_screen(SessionId("ses_1"), kept, captured_at=NOW, now=NOW, since=told.digest)
    assert again == structs.replace(told, age_seconds=0.0, is_unchanged=True, rows=())
    assert show_last_screen(SessionId("ses_1"), kept, captured_at=NOW, now=NOW, since="other").rows == told.rows
