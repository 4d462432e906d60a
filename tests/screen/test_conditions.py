"""What a rule may ask of a screen, and the rows that an answer rests on."""

from __future__ import annotations

import re
from dataclasses import replace

from interlock.screen.conditions import (
    CommandMatches,
    Condition,
    CursorIs,
    DraftIs,
    RegionStands,
    RowMatches,
    ScreenScene,
    StyleSpec,
    TitleMatches,
    check,
)
from interlock.screen.regions import SCREEN, Located, RegionSpec
from interlock.screen.snapshot import Snapshot, Style, read_snapshot
from tests.each_row import each_row

REGIONS = {
    SCREEN.name: SCREEN,
    "box": RegionSpec("box", from_=re.compile("^#")),
    "none": RegionSpec("none", from_=re.compile("^!")),
}
SNAPSHOT = read_snapshot("one\n\x1b[31mtwo\x1b[0m red\n# three", columns=80, title="tool - ready", command="tool")


def ask(condition: Condition, snapshot: Snapshot = SNAPSHOT, draft: str | None = None) -> tuple[int, ...] | None:
    return check(condition, ScreenScene(snapshot, Located(snapshot.rows, REGIONS), draft))


def test_rows_that_match_are_named() -> None:
    assert ask(RowMatches("screen", re.compile("t"))) == (1, 2)
    assert ask(RowMatches("box", re.compile("t"))) == (2,)
    assert ask(RowMatches("box", re.compile("one"))) is None


def test_absent_holds_where_no_row_matches_and_where_there_is_no_region() -> None:
    assert ask(RowMatches("box", re.compile("one"), is_absent=True)) == ()
    assert ask(RowMatches("box", re.compile("three"), is_absent=True)) is None
    assert ask(RowMatches("none", re.compile("."), is_absent=True)) == ()
    assert ask(RowMatches("none", re.compile("."))) is None


def test_the_style_is_that_of_the_first_character_that_matched() -> None:
    red = StyleSpec(fg=("1",))
    assert ask(RowMatches("screen", re.compile("two"), red)) == (1,)
    assert ask(RowMatches("screen", re.compile("red"), red)) is None
    assert ask(RowMatches("screen", re.compile("red"), red, is_absent=True)) == ()


@each_row(
    ("spec", "style", "fits"),
    [
        (StyleSpec(), Style(fg="1", bold=True), True),
        (StyleSpec(fg=("1", "2")), Style(fg="2"), True),
        (StyleSpec(fg=("1", "2")), Style(fg="3"), False),
        (StyleSpec(fg=("default",)), Style(), True),
        (StyleSpec(fg=("default",)), Style(fg="1"), False),
        (StyleSpec(bg=("default", "0")), Style(bg="0"), True),
        (StyleSpec(bg=("1",)), Style(), False),
        (StyleSpec(dim=True), Style(dim=True, bold=True), True),
        (StyleSpec(dim=False), Style(dim=True), False),
        (StyleSpec(bold=True), Style(dim=True), False),
        (StyleSpec(italic=True), Style(italic=True), True),
        (StyleSpec(underline=True), Style(italic=True), False),
        (StyleSpec(reverse=True), Style(reverse=True), True),
    ],
)
def test_a_style_fits_where_all_that_is_asked_holds(spec: StyleSpec, style: Style, fits: bool) -> None:
    assert spec.fits(style) is fits


def test_a_region_stands_or_is_missing() -> None:
    assert ask(RegionStands("box")) == ()
    assert ask(RegionStands("box", is_missing=True)) is None
    assert ask(RegionStands("none")) is None
    assert ask(RegionStands("none", is_missing=True)) == ()


def test_the_title_matches_or_does_not() -> None:
    assert ask(TitleMatches(re.compile("ready$"))) == ()
    assert ask(TitleMatches(re.compile("busy"))) is None
    assert ask(TitleMatches(re.compile("busy"), is_absent=True)) == ()
    assert ask(TitleMatches(re.compile("ready"), is_absent=True)) is None


def test_a_command_that_nobody_told_matches_nothing() -> None:
    assert ask(CommandMatches(re.compile("^tool$"))) == ()
    assert ask(CommandMatches(re.compile("^other$"))) is None
    assert ask(CommandMatches(re.compile("")), replace(SNAPSHOT, command=None)) is None


def test_a_cursor_that_nobody_told_is_neither_shown_nor_hidden_nor_anywhere() -> None:
    for asked in (CursorIs(is_visible=True), CursorIs(is_visible=False), CursorIs(region="screen")):
        assert ask(asked) is None
    hidden = replace(SNAPSHOT, cursor_visible=False, cursor=(0, 2))
    assert ask(CursorIs(is_visible=False), hidden) == ()
    assert ask(CursorIs(is_visible=True), hidden) is None
    assert ask(CursorIs(region="box"), hidden) == (2,)
    assert ask(CursorIs(is_visible=False, region="box"), hidden) == (2,)
    assert ask(CursorIs(is_visible=True, region="box"), hidden) is None
    assert ask(CursorIs(region="none"), hidden) is None
    assert ask(CursorIs(region="box"), replace(hidden, cursor=(0, 0))) is None


def test_without_a_composer_there_is_neither_a_draft_nor_none() -> None:
    assert ask(DraftIs(is_empty=True)) is None
    assert ask(DraftIs(is_empty=False)) is None
    assert ask(DraftIs(is_empty=True), draft="") == ()
    assert ask(DraftIs(is_empty=False), draft="") is None
    assert ask(DraftIs(is_empty=False), draft="x") == ()
    assert ask(DraftIs(is_empty=True), draft="x") is None
