"""The profile of pi: named frames of recordings, and screens that try to fool it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli
from tests.each_row import each_row
from tests.screen.profiles.frames import frame_at, options_of, read, rule_of, screen, snapshot_at, snapshots

RULE = "─" * 60
FOOTER = ["~/proj (main)", "↑10 ↓20 0.0%/128k (auto)                    stub-model"]
CURSOR = "\x1b[7m \x1b[0m"
GREY, TEAL, RED, OFF = "\x1b[38;2;80;80;80m", "\x1b[38;2;138;190;183m", "\x1b[38;2;204;102;102m", "\x1b[39m"
SPINNER = ["", f" {TEAL}⠙{OFF} Working...", ""]
SELECTOR = ["", " Run this?", " rm -rf build", "", " → Yes", "   No", "", " ↑↓ navigate  enter select", ""]
INPUT = ["", " Your name?", "", f"> {CURSOR}", "", " enter submit  escape/ctrl+c cancel", ""]


def framed(*rows: str) -> list[str]:
    """What stands at the bottom of the screen: a composer or a dialog, and the footer."""
    return [RULE, *rows, RULE, *FOOTER]


def reading(rows: list[str]) -> ScreenReading:
    return read("pi", screen(rows, "π - proj", 60))


def surface(rows: list[str]) -> SurfaceAssessment:
    return reading(rows).assessment


@each_row(
    ("name", "t", "state", "rule"),
    [
        ("full", 4.7, BusinessState.UNKNOWN, "no_rule"),
        ("full", 6.0, BusinessState.IDLE, "composer.ready"),
        ("full", 9.0, BusinessState.WORKING, "status.spinner"),
        ("full", 15.5, BusinessState.IDLE, "composer.ready"),
        ("full", 20.8, BusinessState.WORKING, "status.spinner"),
        ("interrupt", 11.0, BusinessState.IDLE, "composer.ready"),
        ("d_quote_loose_120", 25.0, BusinessState.WORKING, "status.spinner"),
        ("d_quote_loose_120", 33.0, BusinessState.IDLE, "composer.ready"),
    ],
)
def test_a_frame_is_read(name: str, t: float, state: BusinessState, rule: str) -> None:
    seen = frame_at("pi", name, t).assessment
    assert (seen.business_state, rule_of(seen)) == (state, rule)


@pytest.mark.parametrize(("name", "t", "draft"), [("full", 6.0, ""), ("d_tool", 13.0, "please SCN:dlong")])
def test_the_draft_is_what_was_typed(name: str, t: float, draft: str) -> None:
    assert frame_at("pi", name, t).draft == draft


@pytest.mark.parametrize(("name", "t", "end"), [("interrupt", 11.0, TurnEnd.INTERRUPTED), ("full", 15.5, None)])
def test_the_end_of_a_turn_is_told(name: str, t: float, end: TurnEnd | None) -> None:
    assert frame_at("pi", name, t).assessment.turn_end is end


def test_an_error_in_its_colour_is_the_end_of_a_turn() -> None:
    failed = ["", f" {RED}Error: Retry failed after 3 attempts: no{OFF}", ""]
    assert surface([*failed, *framed(CURSOR)]).turn_end is TurnEnd.FAILED
    assert surface(["", " Error: that is what it says.", "", *framed(CURSOR)]).turn_end is None
    assert surface([*failed, *SPINNER, *framed(CURSOR)]).turn_end is None


@pytest.mark.parametrize(("name", "start", "end"), [("d_tool", 22.0, 30.0), ("full", 14.8, 16.5)])
def test_the_masked_text_of_a_still_screen_does_not_change(name: str, start: float, end: float) -> None:
    assert len({read("pi", frame).projection.key for frame in snapshots("pi", name, start, end)}) == 1


def test_messages_of_the_user_are_told_by_their_box() -> None:
    projection = frame_at("pi", "full", 20.8).projection
    assert [projection.rows[row].strip() for row in sorted(projection.prompt_rows)] == [
        "please SCN:slow",
        "now SCN:tool",
    ]


@each_row(
    ("above", "dialog", "kind", "options"),
    [
        (SPINNER, SELECTOR, BlockKind.APPROVAL, ["Yes", "No"]),
        (SPINNER, ["", " Colour?", "", "   Red", " → Blue", ""], BlockKind.QUESTION, ["Red", "Blue"]),
        (SPINNER, INPUT, BlockKind.QUESTION, []),
        ([], SELECTOR, BlockKind.OTHER, ["Yes", "No"]),
        ([], INPUT, BlockKind.OTHER, []),
        ([], ["", " Select authentication method:", "", " → Use a key", ""], BlockKind.AUTH, ["Use a key"]),
        ([], [" Login to X", "", " https://x", " (escape to cancel)"], BlockKind.AUTH, []),
        (
            [],
            [f"> {CURSOR}", "", "→ Auto-compact   true", "  Theme          dark", "", "  Type · Esc to cancel"],
            BlockKind.OTHER,
            ["Auto-compact", "Theme"],
        ),
        ([], ["→ dark  The default", "  light"], BlockKind.OTHER, ["dark", "light"]),
        ([], ["", "  No entries found", "  (0/0)", ""], BlockKind.OTHER, []),
        ([], ["", " Etwas ganz Neues", ""], BlockKind.OTHER, []),
    ],
)
def test_what_takes_the_place_of_the_composer_is_a_dialog(
    above: list[str], dialog: list[str], kind: BlockKind, options: list[str]
) -> None:
    seen = surface([" so it is", *above, *framed(*dialog)])
    assert seen.block is not None
    assert (seen.business_state, seen.block.kind) == (BusinessState.AWAITING_OPERATOR, kind)
    assert options_of(seen) == options
    assert "so it is" not in (seen.operator_excerpt or "")


def test_a_dialog_has_no_draft() -> None:
    assert reading([*SPINNER, *framed(*SELECTOR)]).draft is None


def test_an_editor_of_an_extension_is_a_dialog() -> None:
    rows = [RULE, "", " Edit text", "", *framed(f"hello{CURSOR}")[:-2], "", " enter submit  escape cancel", "", RULE]
    assert surface([*rows, *FOOTER]).business_state is BusinessState.AWAITING_OPERATOR


def test_a_dialog_whose_top_is_cut_off_is_a_dialog() -> None:
    rows = [*SELECTOR[3:], RULE, *FOOTER]
    assert rule_of(surface(rows)) == "dialog.cut"
    rows = ["  Theme  dark", "", "  Type to search · Esc to cancel", RULE, *FOOTER]
    assert rule_of(surface(rows)) == "dialog.key_hints"


def test_work_behind_a_dialog_is_no_work() -> None:
    assert surface([*SPINNER, *framed(*SELECTOR)]).business_state is BusinessState.AWAITING_OPERATOR


def test_a_spinner_in_place_of_the_composer_is_work() -> None:
    seen = surface(framed("", " ⠋ Creating gist...", "", " escape cancel", ""))
    assert (seen.business_state, seen.input_mode) == (BusinessState.WORKING, InputMode.CLOSED)


@pytest.mark.parametrize("text", ["Retrying (1/3) in 2s... (escape to cancel)", "Auto-compacting...", "Denkt nach"])
def test_every_spinner_above_the_composer_is_work(text: str) -> None:
    assert surface(["", f" {TEAL}⠧{OFF} {text}", "", *framed(CURSOR)]).business_state is BusinessState.WORKING


def test_a_widget_between_spinner_and_composer_hides_no_work() -> None:
    widget = [f" todo {number}" for number in range(10)]
    assert rule_of(surface([*SPINNER, *widget, *framed(CURSOR)])) == "widgets.spinner"


def test_a_quoted_spinner_in_an_answer_is_no_work() -> None:
    rows = [" ⠋ Working...", " is what it shows.", "", *framed(CURSOR)]
    assert surface(rows).business_state is BusinessState.IDLE


def test_a_quoted_or_an_old_dialog_above_the_composer_is_none() -> None:
    for above in ([f" {row}" for row in framed(*SELECTOR)], framed(*SELECTOR)):
        assert surface([*above, "", *framed(CURSOR)]).business_state is BusinessState.IDLE
        assert surface([*above, *SPINNER, *framed(CURSOR)]).business_state is BusinessState.WORKING


@pytest.mark.parametrize("draft", ["enter select  escape cancel", "(escape to cancel)", "→ Yes", "Yes/No?"])
def test_dialog_words_in_a_draft_are_a_draft(draft: str) -> None:
    seen = reading(framed("so:", f"{draft}{CURSOR}"))
    assert (seen.assessment.business_state, seen.draft) == (BusinessState.IDLE, f"so:\n{draft}")


@pytest.mark.parametrize(
    ("title", "footer", "is_weak"), [("π - x", [], False), ("host", FOOTER, False), ("host", ["mine"], True)]
)
def test_title_or_footer_make_idle_sure(title: str, footer: list[str], is_weak: bool) -> None:
    seen = read("pi", screen([RULE, CURSOR, RULE, *footer], title, 60)).assessment
    assert (seen.business_state, seen.is_weak) == (BusinessState.IDLE, is_weak)


def test_a_cursor_within_the_draft_makes_idle_weak() -> None:
    rule = f"{GREY}{RULE}{OFF}"
    seen = reading([rule, "plea\x1b[7ms\x1b[0me", rule, *FOOTER])
    assert (rule_of(seen.assessment), seen.assessment.is_weak) == ("composer.within_draft", True)
    assert seen.draft == "please"


@pytest.mark.parametrize("rows", [[f"/mod{CURSOR}"], [f"!ls{CURSOR}"]])
def test_a_command_is_no_prompt(rows: list[str]) -> None:
    seen = surface(framed(*rows))
    assert (seen.business_state, seen.input_mode) == (BusinessState.IDLE, InputMode.MODAL)


def test_completions_have_the_keys() -> None:
    seen = surface([RULE, f"see @ap{CURSOR}", RULE, "→ app.py", "  apple.txt", *FOOTER])
    assert (rule_of(seen), seen.input_mode) == ("composer.completing", InputMode.MODAL)


@each_row("rows", [["", ""], [RULE, CURSOR], [" pi v0.73.1", ""], ["$ ls", "a.txt"], [RULE, "", RULE]])
def test_a_blank_a_torn_or_a_starting_frame_is_unknown(rows: list[str]) -> None:
    assert surface(rows).business_state is BusinessState.UNKNOWN


def test_what_has_a_rule_below_it_is_no_composer_and_no_dialog() -> None:
    for below in ([RULE, "so"], [RULE], ["", RULE, "so", ""]):
        assert surface([*framed(CURSOR), *below]).business_state is BusinessState.UNKNOWN
        assert surface([*framed(*SELECTOR), *below]).business_state is BusinessState.UNKNOWN


def test_a_crop_of_a_screen_that_works_is_never_idle_while_its_spinner_is_there() -> None:
    whole = snapshot_at("pi", "full", 20.8)
    spinner = next(number for number, row in enumerate(whole.rows) if "Working..." in row.text)
    for top in range(spinner + 1):
        seen = read("pi", replace(whole, rows=whole.rows[top:])).assessment
        assert seen.business_state is BusinessState.WORKING


def test_pi_is_recognised() -> None:
    for t in (6.0, 20.8):
        assert detect_cli(builtin_profiles(), snapshot_at("pi", "full", t)) == "pi"
