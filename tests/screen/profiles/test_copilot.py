"""The profile of GitHub Copilot CLI: screens as it draws them, and screens made to fool it."""

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
ASK = [" ❯ do it" + " " * 60 + "03:52", "", " $ Shell Run a scripted command           6s", "   touch made.txt"]
CALM = " ← open sidebar · Interactive · Manual Approval · / commands           gpt-4.1"


def box(*rows: str) -> list[str]:
    inner = [f"│ {row:<{WIDTH - 4}} │" for row in rows]
    return ["╭" + "─" * (WIDTH - 2) + "╮", *inner, "╰" + "─" * (WIDTH - 2) + "╯"]


def composer(draft: str = "", footer: str = CALM) -> list[str]:
    return [" ~/project", RULE, f"❯ {draft}".rstrip(), RULE, footer]


APPROVAL = box(
    "Run a scripted command",
    "─" * (WIDTH - 4),
    "╭" + "─" * (WIDTH - 6) + "╮",
    f"│ {'touch made.txt':<{WIDTH - 8}} │",
    "╰" + "─" * (WIDTH - 6) + "╯",
    "",
    "Do you want to run this command?",
    "",
    "❯ 1. Yes",
    "  2. Yes, and don't ask again for `touch` in this directory (/project)",
    "  3. No, and tell Copilot what to do differently (Esc to stop)",
    "",
    "↑/↓ to navigate · enter to select · esc to cancel",
)
TRUST = box(
    "Confirm folder trust",
    "",
    "Do you trust the files in this folder?",
    "",
    "❯ 1. Yes",
    "  2. Yes, and remember this folder for future sessions",
    "  3. No (Esc)",
    "",
    "↑/↓ to navigate · enter to select · esc to cancel",
)


def shown(rows: Sequence[str], below: Sequence[str]) -> Snapshot:
    return screen([*rows, "", *below], columns=WIDTH, title="do it - GitHub Copilot")


def seen(rows: Sequence[str], below: Sequence[str]) -> ScreenReading:
    return read("copilot", shown(rows, below))


LASTING = "Yes, and don't ask again for `touch` in this directory (/project)"
REMEMBER = "Yes, and remember this folder for future sessions"


@pytest.mark.parametrize(
    ("below", "rule", "kind", "options"),
    [
        (APPROVAL, "dialog.approval", BlockKind.APPROVAL, ["Yes", LASTING]),
        (APPROVAL[6:], "dialog.cut", BlockKind.APPROVAL, ["Yes", LASTING]),
        (TRUST, "dialog.trust", BlockKind.TRUST, ["Yes", REMEMBER, "No"]),
    ],
)
def test_a_box_in_place_of_the_composer_asks_and_a_no_that_wants_words_is_not_offered(
    below: list[str], rule: str, kind: BlockKind, options: list[str]
) -> None:
    surface = seen(ASK, below).assessment
    assert (surface.business_state, surface.input_mode, rule_of(surface)) == (ASKED, InputMode.MODAL, rule)
    assert surface.block is not None
    assert (surface.block.kind, options_of(surface)) == (kind, options)
    assert surface.block.options[0].is_selected


@pytest.mark.parametrize(
    "footer", [" ● Working esc esc edit prompt", " ◎ Working · 7 B esc esc interrupt", " ○ Cancelling"]
)
def test_the_row_below_the_composer_tells_of_work(footer: str) -> None:
    assert seen(ASK, composer(footer=footer)).assessment.business_state is WORKING
    assert seen(ASK, composer("a draft", footer)).assessment.business_state is WORKING


def test_while_it_loads_nothing_is_claimed() -> None:
    assert seen([], composer(footer=" ● Loading: 2 skills")).assessment.business_state is BusinessState.UNKNOWN


@pytest.mark.parametrize("quoted", [APPROVAL, TRUST, composer(footer=" ● Working")])
def test_an_answer_that_quotes_a_dialog_or_the_row_of_work_is_neither(quoted: list[str]) -> None:
    surface = seen([*ASK, " ● Here:", *(f"   {row}" for row in quoted)], composer()).assessment
    assert (surface.business_state, rule_of(surface)) == (IDLE, "composer.ready")


def test_the_draft_is_what_stands_behind_the_mark() -> None:
    assert seen(ASK, composer()).draft == ""
    assert seen(ASK, composer("half a thought")).draft == "half a thought"
    assert rule_of(seen(ASK, composer("/model")).assessment) == "composer.slash"


def test_how_a_turn_ended_is_told_only_of_the_latest_one() -> None:
    cut, wrong, again = " ● Operation cancelled by user", " ✗ 400 a scripted refusal", ASK[0].replace("do it", "again")
    assert seen([*ASK, cut], composer()).assessment.turn_end is TurnEnd.INTERRUPTED
    assert seen([*ASK, wrong], composer()).assessment.turn_end is TurnEnd.FAILED
    assert seen([*ASK, " ✗ Shell Run it  exit 1", " ● So."], composer()).assessment.turn_end is None
    assert seen([*ASK, cut, again, " ● Done."], composer()).assessment.turn_end is None


def test_its_title_gives_it_away() -> None:
    assert detect_cli(builtin_profiles(), shown(ASK, composer())) == "copilot"


@pytest.mark.parametrize(
    "rows",
    [
        [" ● Operation cancelled by user, as you asked."],
        [" ● Operation cancelled by user", "", "   is what a cancelled turn says."],
        [" ● Operation cancelled by user", " ● Shell Run it"],
        [" ✗ Fetch https://example.com", "   └ 404", " ● So be it."],
    ],
)
def test_an_answer_or_a_tool_that_goes_on_below_the_word_of_an_end_ends_nothing(rows: list[str]) -> None:
    assert seen([*ASK, *rows], composer()).assessment.turn_end is None
