"""`docs/how-to/write-a-profile.md`: its profile is a good one, and reads what the page says."""

from __future__ import annotations

from pathlib import Path

from interlock.screen.assessment import BlockKind, BusinessState, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.profile_file import read_profile
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import read_snapshot
from tests.docs.running import blocks

PAGE = Path(__file__).parents[2] / "docs/how-to/write-a-profile.md"
RULE = "─" * 20


def read(*rows: str, title: str = "") -> ScreenReading:
    (file,) = blocks(PAGE.read_text(encoding="utf-8"), "toml")
    reader = select_reader([read_profile(file, PAGE.name)], "mytool", "1.2")
    return reader.parse_snapshot(read_snapshot("\n".join(rows), columns=80, title=title))


def test_its_profile_reads_a_dialog_with_its_options() -> None:
    found = read("thinking", "╭────────", "│ Run it?", "│ › 1. Yes", "│   2. No", "╰────────").assessment
    assert found.business_state is BusinessState.AWAITING_OPERATOR
    assert found.block is not None
    assert found.block.kind is BlockKind.APPROVAL
    assert [(option.text, option.is_selected) for option in found.block.options] == [("Yes", True), ("No", False)]


def test_a_quoted_dialog_above_the_composer_is_none() -> None:
    found = read("╭────────", "│ › 1. Yes", "╰────────", RULE, "> ", RULE, title="My Tool - ready").assessment
    assert found.submit_ready


def test_its_profile_reads_work_a_draft_and_a_placeholder() -> None:
    working = read("⠹ Thinking (3s)", RULE, "> and then", RULE)
    assert working.assessment.business_state is BusinessState.WORKING
    assert working.draft == "and then"
    assert read(RULE, "> \x1b[2mask me\x1b[0m", RULE).draft == ""


def test_a_screen_without_a_rule_is_unknown_and_an_ending_is_read() -> None:
    assert read("hello").assessment.business_state is BusinessState.UNKNOWN
    assert read("■ Stopped", RULE, ">", RULE, title="My Tool - ready").assessment.turn_end is TurnEnd.INTERRUPTED
