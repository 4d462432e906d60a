"""One screen, read by a profile."""

from __future__ import annotations

import re
from dataclasses import replace

from interlock.screen.assessment import (
    Availability,
    BlockKind,
    BusinessState,
    InputMode,
    Option,
    SurfaceEvidence,
    TurnEnd,
)
from interlock.screen.engine import holds, read_screen
from interlock.screen.snapshot import read_snapshot
from tests.each_row import each_row
from tests.screen.tiny import (
    APPROVAL,
    BLANK,
    DEAD,
    DONE,
    IDLE,
    OTHER_APPROVAL,
    RULE,
    SILENT,
    WEAK,
    WORKING,
    composer,
    profile,
    read,
    reader,
    screen,
)


def test_a_dialog_is_read_with_its_kind_its_options_and_its_text() -> None:
    found = read(APPROVAL).assessment
    assert found.operator_blocked
    assert found.input_mode is InputMode.MODAL
    assert found.evidence == (SurfaceEvidence("box.approval", (2,)),)
    assert found.block is not None
    assert found.block.kind is BlockKind.APPROVAL
    assert found.block.options == (Option("Yes", True, "1"), Option("No, and stop", False, "2"))
    assert found.operator_excerpt == "=== Allow it?\n1. Yes\n2. No, and\nstop"


def test_which_option_is_selected_makes_no_other_dialog() -> None:
    other = screen("hello", "> do it", "=== Allow it?", "  1. Yes", "> 2. No, and", "     stop")
    assert read(other).assessment.operator_excerpt == read(APPROVAL).assessment.operator_excerpt
    assert read(OTHER_APPROVAL).assessment.operator_excerpt != read(APPROVAL).assessment.operator_excerpt


def test_a_dialog_quoted_above_a_composer_is_none() -> None:
    assert read(composer("=== Allow it?", "> 1. Yes", "  2. No")).assessment.submit_ready


def test_a_dialog_wins_over_work_by_the_order_of_the_file() -> None:
    both = screen("* Working (1s)", "=== Allow it?", "> 1. Yes", "* Working (1s)")
    assert read(both).assessment.operator_blocked


def test_idle_and_working_are_told_by_their_chrome() -> None:
    assert read(IDLE).assessment.submit_ready
    assert read(IDLE).draft == ""
    assert read(WORKING).assessment.business_state is BusinessState.WORKING
    assert read(composer("prose", draft="* Working (1s)")).assessment.submit_ready
    assert read(WEAK).assessment.is_weak
    assert not read(IDLE).assessment.is_weak


def test_a_blank_screen_is_no_exit_and_nothing_else() -> None:
    for shown, rule in ((BLANK, "screen.blank"), (SILENT, "no_rule")):
        found = read(shown).assessment
        assert (found.availability, found.business_state) == (Availability.UNKNOWN, BusinessState.UNKNOWN)
        assert found.evidence == (SurfaceEvidence(rule),)
        assert found.unknown_for_stall


def test_a_dead_pane_is_disconnected_whatever_it_still_shows() -> None:
    found = read(replace(IDLE, is_dead=True)).assessment
    assert found.availability is Availability.DISCONNECTED
    assert not found.submit_ready
    assert read(DEAD).assessment.evidence[0].rule == "pane.dead"


def test_an_ending_is_read_in_the_latest_turn_only() -> None:
    assert read(DONE).assessment.turn_end is TurnEnd.COMPLETED
    assert read(composer("> old", "# Done", "> new", "answer")).assessment.turn_end is None
    found = read(composer("> new", "# Interrupted")).assessment
    assert found.turn_end is TurnEnd.INTERRUPTED
    assert found.evidence[1] == SurfaceEvidence("latest.interrupted", (1,))


def test_the_projection_masks_what_ticks_and_knows_composer_and_prompts() -> None:
    one, other = read(WORKING), read(composer("hello", "> do it", "* Working (4s)"))
    assert one.projection.key == other.projection.key
    assert one.projection.normalized_text != other.projection.normalized_text
    assert one.projection.composer_rows == {4}
    assert one.projection.prompt_rows == {1}
    assert one.projection.dialog_text == "hello\n> do it\n* Working (3s)"


def test_what_is_said_about_the_choice_of_a_profile_is_said_on_every_reading() -> None:
    assert read(IDLE).assessment.parser_metadata == reader().metadata


def test_an_excerpt_is_bounded_and_keeps_both_ends() -> None:
    long = read_snapshot("\n".join(["=== Allow", *["x" * 300] * 20, "> 1. Yes"]), columns=300)
    excerpt = read(long).assessment.operator_excerpt
    assert excerpt is not None
    assert len(excerpt) <= 2048
    assert excerpt.startswith("=== Allow")
    assert excerpt.endswith("1. Yes")


def test_conditions_can_be_asked_apart_from_rules() -> None:
    tiny = profile()
    assert holds(tiny.detect[0], screen("x", title="tiny - ready"), tiny)
    assert not holds(tiny.detect[0], screen("x", title="other"), tiny)


@each_row("columns", [1, 500])
@each_row("rows", [0, 1, 500])
def test_a_pane_of_any_size_can_be_read(columns: int, rows: int) -> None:
    snapshot = read_snapshot("\n".join(["x" * columns] * rows), columns=columns, height=rows)
    assert not read(snapshot).assessment.submit_ready


def test_a_hostile_screen_costs_a_bounded_time() -> None:
    """Sixty rows as wide as rows get, of what patterns like to try again: seconds would mean that one of them does."""
    shown = "\n".join([RULE + "> 1. " + "- > " * 1000] * 60)
    read_screen(read_snapshot(shown, columns=1000, height=60), profile(), reader().metadata)


def test_no_pattern_of_the_tiny_profile_spans_rows() -> None:
    assert all(not pattern.flags & re.DOTALL for pattern in profile().volatile)
