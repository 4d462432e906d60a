"""The text of a snapshot: what is kept, what is masked, what stands for the whole."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.screen.projection import MASK, normalize_projection_text, project_dialog

VOLATILE: Final = (re.compile(r"[⠋⠙⠹]"), re.compile(r"\d+s\b"))


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("", ""),
        ("  \n \n", ""),
        ("\n\n  a  \n\nb\t\n", "a\n\nb"),
        ("a\n  indented", "a\n  indented"),
    ],
)
def test_blanks_at_the_ends_are_dropped_and_those_inside_kept(text: str, normalized: str) -> None:
    assert normalize_projection_text(text) == normalized


def test_a_counter_that_ticks_does_not_change_the_key() -> None:
    ticks = [f"⠋ Working ({seconds}s • esc to interrupt)\n› " for seconds in (1, 9, 10, 100)]
    assert len({normalize_projection_text(tick) for tick in ticks}) == len(ticks)
    assert {normalize_projection_text(tick, VOLATILE) for tick in ticks} == {
        f"{MASK} Working ({MASK} • esc to interrupt)\n›"
    }


def test_a_token_that_comes_or_goes_is_a_change() -> None:
    assert normalize_projection_text("⠋ Working", VOLATILE) != normalize_projection_text("Working", VOLATILE)


def test_a_pattern_cannot_join_rows() -> None:
    projection = project_dialog("a\nb", "a\nb", volatile=[re.compile(r"a\sb")])
    assert projection.rows == ("a", "b")


@given(st.text(alphabet="a1s \t⠋\n"))
def test_normalizing_again_changes_nothing(text: str) -> None:
    once = normalize_projection_text(text)
    assert normalize_projection_text(once) == once


@given(st.integers(0), st.integers(0), st.sampled_from("⠋⠙⠹"), st.text(alphabet="ab ⠋\n"))
def test_no_value_of_a_volatile_token_shows(first: int, second: int, glyph: str, around: str) -> None:
    before, after = (f"{around} {spin} ({count}s) {around}" for spin, count in (("⠋", first), (glyph, second)))
    assert normalize_projection_text(before, VOLATILE) == normalize_projection_text(after, VOLATILE)


@given(st.text(alphabet="ab 3s\n"))
def test_the_key_is_the_normalized_text_and_rows_keep_their_numbers(text: str) -> None:
    projection = project_dialog(text, text, volatile=VOLATILE)
    assert projection.key == normalize_projection_text(text, VOLATILE)
    assert len(projection.rows) == len(text.split("\n"))


def test_head_and_tail_are_slices_of_the_dialog() -> None:
    lines = [f"line {number}" for number in range(30)]
    projection = project_dialog("raw", "chrome", "\n".join(lines))
    assert projection.head.split("\n") == lines[:12]
    assert projection.tail.split("\n") == lines[-12:]
    assert (projection.raw_text, projection.normalized_text) == ("raw", "chrome")


def test_without_a_dialog_the_normalized_text_stands_in() -> None:
    projection = project_dialog("raw", "\n what is there \n")
    assert (projection.dialog_text, projection.head) == ("what is there", "what is there")
