"""The options of a dialog, as data."""

from __future__ import annotations

import re

from interlock.screen.assessment import Option
from interlock.screen.conditions import StyleSpec
from interlock.screen.options import first_option_row, read_options, unselected
from interlock.screen.profile import OptionsSpec
from interlock.screen.snapshot import read_snapshot

NUMBERED = OptionsSpec(
    re.compile(r"^(?P<selected>>)? *(?P<key>\d)\. (?P<text>.+)$"), continued=re.compile(r"^ {5}(?P<text>\S.*)$")
)
ROW = OptionsSpec(re.compile(r"(?P<text>\S.*\S|\S)"), separator=re.compile(r" \| "), selected=StyleSpec(reverse=True))
COLUMN = OptionsSpec(re.compile(r"^ (?P<selected>❯| ) (?P<text>\S.*)$"), is_unbroken=True)


def options(spec: OptionsSpec, *rows: str) -> list[Option]:
    parsed = read_snapshot("\n".join(rows), columns=80).rows
    return list(read_options(spec, parsed, range(len(parsed))))


def test_options_have_their_text_their_key_and_which_is_selected() -> None:
    assert options(NUMBERED, "Allow?", "> 1. Yes", "  2. No") == [Option("Yes", True, "1"), Option("No", False, "2")]


def test_an_option_goes_on_in_the_row_below_it() -> None:
    assert options(NUMBERED, "  1. Yes, and do not", "     ask again", "  2. No") == [
        Option("Yes, and do not ask again", False, "1"),
        Option("No", False, "2"),
    ]


def test_a_row_that_goes_on_with_no_option_is_none() -> None:
    assert options(NUMBERED, "     a title", "  1. Yes") == [Option("Yes", False, "1")]


def test_one_row_may_hold_several_and_the_style_tells_which_is_selected() -> None:
    assert options(ROW, "Yes | \x1b[7mNo\x1b[0m | Later") == [Option("Yes"), Option("No", True), Option("Later")]
    assert options(ROW, "  | Yes") == [Option("Yes")]


def test_no_dialog_has_options_without_end() -> None:
    assert len(options(NUMBERED, *["  1. Yes"] * 500)) == 50


def test_the_mark_of_a_selection_can_be_taken_off() -> None:
    assert unselected(NUMBERED, "> 1. Yes") == unselected(NUMBERED, " 1. Yes") == " 1. Yes"
    assert unselected(NUMBERED, "> no option") == "> no option"


def test_other_words_in_the_column_of_the_options_are_none() -> None:
    rows = (
        "   rm -rf everything",
        " It would be allowed.",
        "",
        " ❯ No, exit",
        "   Yes, I trust it",
        "",
        " Enter",
    )
    found = options(COLUMN, *rows)
    assert [(one.text, one.is_selected) for one in found] == [("No, exit", True), ("Yes, I trust it", False)]


def test_words_below_the_selected_option_do_not_end_the_list() -> None:
    found = options(COLUMN, " ❯ One", " which is the first", "   Two")
    assert [one.text for one in found] == ["One", "Two"]


def test_where_the_options_begin() -> None:
    rows = ("   rm -rf everything", " It would be allowed.", " ❯ No, exit", "   Yes")
    parsed = read_snapshot("\n".join(rows), columns=80).rows
    assert first_option_row(COLUMN, parsed, range(4)) == 2
    assert first_option_row(COLUMN, parsed, range(2)) is None
