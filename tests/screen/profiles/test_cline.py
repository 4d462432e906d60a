"""The profile of Cline: screens as it draws them, and screens made to fool it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli
from interlock.screen.snapshot import Snapshot
from tests.screen.profiles.frames import options_of, read, rule_of, screen

IDLE, WORKING, ASKED = BusinessState.IDLE, BusinessState.WORKING, BusinessState.AWAITING_OPERATOR
WIDTH = 80
RULE = "─" * WIDTH
PLACEHOLDER = "\x1b[38;5;102mAsk anything...\x1b[39m"
FOOTER = [
    " stub-model (100) $0.00                                      ○ Plan ● Act (Tab)",
    " project",
    " Auto-approve all disabled (Shift+Tab)",
]
ASK = [" ❯ do it", ""]
CALLED = " ⠇ run_commands(touch made.txt)"
RED, GREY = "\x1b[38;5;203m", "\x1b[39m"
APPROVAL = [
    " Cline needs permission",
    "",
    " Approve tool call?",
    " run_commands",
    "",
    "   $ touch made.txt",
    " \x1b[48;5;111m \x1b[38;5;0m[y] Approve\x1b[39m \x1b[49m  [n] Deny",
]
QUESTION = [
    " Cline is asking a question",
    "",
    " A warm colour, or a cold one?",
    "",
    "  > Red",
    "    Blue",
    "    Type a response...",
]
NOTICE = [
    "                Try ClinePass",
    "",
    "          ────                                                    ────",
    "          ❯ Wh   Open ClinePass",
    "          ────                                                    ────",
    "                Press Enter to open, any other key to close",
]
SIGN_IN = [
    "                               Welcome to Cline",
    "                  Connect a model provider to get started.",
    "      ╭──────────────────────────────────────────────────────────────────╮",
    "      │ ☺ Sign in with Cline                                           → │",
    "      ╰──────────────────────────────────────────────────────────────────╯",
    "                ↑/↓ navigate, Enter to select, Ctrl+C to exit",
]
PALETTE = [
    " * Done.          Open Settings                          Opt+S",
    "────────────────                                                ────────────────",
    "❯ Ask anything.. Type to search, arrow keys navigate, Enter to",
    "──────────────── run, Esc to close                              ────────────────",
    *FOOTER,
]


def composer(draft: str = PLACEHOLDER) -> list[str]:
    return [RULE, f"❯ {draft}", RULE, *FOOTER]


def shown(rows: Sequence[str], below: Sequence[str]) -> Snapshot:
    return screen([*rows, "", *below], columns=WIDTH, title="> do it")


def seen(rows: Sequence[str], below: Sequence[str]) -> ScreenReading:
    return read("cline", shown(rows, below))


@pytest.mark.parametrize(
    ("below", "rule", "kind", "options"),
    [
        ([*APPROVAL, "", *FOOTER], "dialog.approval", BlockKind.APPROVAL, ["Approve", "Deny"]),
        ([*QUESTION, "", *FOOTER], "dialog.question", BlockKind.QUESTION, ["Red", "Blue", "Type a response..."]),
    ],
)
def test_a_dialog_in_place_of_the_composer_asks_although_the_glyph_above_it_turns(
    below: list[str], rule: str, kind: BlockKind, options: list[str]
) -> None:
    surface = seen([*ASK, CALLED], below).assessment
    assert (surface.business_state, surface.input_mode, rule_of(surface)) == (ASKED, InputMode.MODAL, rule)
    assert surface.block is not None
    assert (surface.block.kind, options_of(surface)[: len(options)]) == (kind, options)
    assert surface.block.options[0].is_selected


@pytest.mark.parametrize(
    ("rows", "rule", "kind"),
    [
        (SIGN_IN, "screen.sign_in", BlockKind.AUTH),
        ([*NOTICE, "", *FOOTER], "menu.open", BlockKind.OTHER),
        (PALETTE, "menu.open", BlockKind.OTHER),
    ],
)
def test_what_covers_the_composer_takes_the_keys(rows: list[str], rule: str, kind: BlockKind) -> None:
    surface = seen([], rows).assessment
    assert (surface.business_state, rule_of(surface)) == (ASKED, rule)
    assert surface.block is not None
    assert surface.block.kind is kind


@pytest.mark.parametrize(
    "work",
    [" ⠋ Thinking... (esc to cancel)", CALLED, " ⠙ Line 51 of a long answer", " ⠹ Thinking...\n   Let me see."],
)
def test_a_glyph_in_the_second_column_is_work_whatever_stands_in_the_composer(work: str) -> None:
    for below in (composer(), composer("half a thought")):
        assert seen([*ASK, *work.split("\n")], below).assessment.business_state is WORKING


@pytest.mark.parametrize("quoted", [APPROVAL, QUESTION, SIGN_IN, [" ⠋ Thinking... (esc to cancel)"]])
def test_an_answer_that_quotes_a_dialog_or_the_row_of_work_is_neither(quoted: list[str]) -> None:
    surface = seen([*ASK, " * Here:", *(f"   {row}" for row in quoted)], composer()).assessment
    assert (surface.business_state, rule_of(surface)) == (IDLE, "composer.ready")


def test_the_composer_of_an_empty_session_stands_in_the_middle() -> None:
    middle = [f"      {'─' * 68}", "      ❯ \x1b[38;5;102mWhat can I do for you?\x1b[39m", f"      {'─' * 68}", *FOOTER]
    reading = seen(["                   What can I do for you?"], middle)
    assert (reading.assessment.submit_ready, reading.draft) == (True, "")


def test_the_draft_is_what_stands_behind_the_mark() -> None:
    assert seen(ASK, composer()).draft == ""
    assert seen(ASK, composer("half a thought")).draft == "half a thought"
    listed = ["╭" + "─" * 78 + "╮", "│ ❯ /settings" + " " * 66 + "│", "╰" + "─" * 78 + "╯", *composer("/")]
    surface = seen(ASK, listed).assessment
    assert (rule_of(surface), surface.submit_ready) == ("composer.command", False)


def test_an_error_ends_the_latest_turn_and_an_answer_that_begins_with_that_word_does_not() -> None:
    wrong = f" {RED}* Error: a scripted refusal{GREY}"
    assert seen([*ASK, wrong], composer()).assessment.turn_end is TurnEnd.FAILED
    assert seen([*ASK, " * Error: that is what I would say"], composer()).assessment.turn_end is None
    assert seen([*ASK, wrong, "", " ❯ again", "", " * Done."], composer()).assessment.turn_end is None


def test_its_footer_gives_it_away() -> None:
    assert detect_cli(builtin_profiles(), shown(ASK, composer())) == "cline"
