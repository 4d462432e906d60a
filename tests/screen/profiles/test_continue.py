"""The profile of Continue: screens as it draws them, and screens made to fool it."""

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
ASK = ["\x1b[34m●\x1b[39m do it", "○ Bash(touch made.txt)"]
WORK = " ⠠⠈⠐  ( 2s • esc to interrupt )"
PLACEHOLDER = "\x1b[3;90m▋Ask anything, @ for context, / for slash commands\x1b[0m"


def box(*rows: str) -> list[str]:
    inner = [f"│  {row:<{WIDTH - 5}} │" for row in rows]
    return ["╭" + "─" * (WIDTH - 2) + "╮", *inner, "╰" + "─" * (WIDTH - 2) + "╯"]


def composer(*drafts: str, mark: str = "●") -> list[str]:
    rows = [f"│ {f'{mark} ' if at == 0 else '  '}{draft}" for at, draft in enumerate(drafts or (PLACEHOLDER,))]
    rows = [f"{row}{' ' * 8}│" for row in rows]
    return ["╭" + "─" * (WIDTH - 2) + "╮", *rows, "╰" + "─" * (WIDTH - 2) + "╯"]


APPROVAL = box(
    "",
    "Bash(touch made.txt)",
    "",
    "⎿ Will run: touch made.txt",
    "",
    "Would you like to continue?",
    "",
    "> Continue (tab)",
    "  Continue + don't ask again (shift+tab)",
    "  No, and tell Continue what to do differently (esc)",
    "",
)
QUESTION = box(
    "? A warm colour, or a cold one?",
    "",
    "  ❯ Red",
    "    Blue",
    "    (or start typing for custom answer)",
    "",
    "↑/↓ navigate, Enter select",
)


def shown(rows: Sequence[str], below: Sequence[str]) -> Snapshot:
    return screen([*rows, "", *below, "  ~/project                    ◉ Continue CLI"], columns=WIDTH)


def seen(rows: Sequence[str], below: Sequence[str]) -> ScreenReading:
    return read("continue", shown(rows, below))


@pytest.mark.parametrize(
    ("below", "rule", "kind", "options"),
    [
        (
            APPROVAL,
            "dialog.approval",
            BlockKind.APPROVAL,
            ["Continue", "Continue + don't ask again", "No, and tell Continue what to do differently"],
        ),
        (APPROVAL[1:], "dialog.cut", BlockKind.APPROVAL, ["Continue", "Continue + don't ask again"]),
        (QUESTION, "dialog.question", BlockKind.QUESTION, ["Red", "Blue"]),
    ],
)
def test_a_box_in_place_of_the_composer_asks_though_the_row_of_work_stays(
    below: list[str], rule: str, kind: BlockKind, options: list[str]
) -> None:
    surface = seen([*ASK, WORK], below).assessment
    assert (surface.business_state, surface.input_mode, rule_of(surface)) == (ASKED, InputMode.MODAL, rule)
    assert surface.block is not None
    assert (surface.block.kind, options_of(surface)[: len(options)]) == (kind, options)
    assert surface.block.options[0].is_selected


def test_the_row_above_the_composer_tells_of_work() -> None:
    for row in (WORK, " ⠀⠀⠀  ( 79s • esc to interrupt • ctrl+b to background )"):
        assert seen([*ASK, row], composer()).assessment.business_state is WORKING
        assert seen([*ASK, row], composer("a draft")).assessment.business_state is WORKING


@pytest.mark.parametrize("quoted", [APPROVAL, QUESTION])
def test_an_answer_that_quotes_a_dialog_is_none(quoted: list[str]) -> None:
    surface = seen(["\x1b[34m●\x1b[39m quote it", "● Here:", *(f"  {row}" for row in quoted)], composer()).assessment
    assert (surface.business_state, rule_of(surface)) == (IDLE, "composer.ready")


def test_the_placeholder_and_the_frame_are_no_draft() -> None:
    assert seen(ASK, composer()).draft == ""
    assert seen(ASK, composer("one", "two")).draft == "one\ntwo"
    assert rule_of(seen(ASK, composer("ls", mark="$")).assessment) == "composer.shell_mode"
    assert rule_of(seen(ASK, composer("/model")).assessment) == "composer.slash"


def test_how_a_turn_ended_is_told_until_there_is_another_prompt() -> None:
    cut = " Interrupted by user - Press enter to continue"
    refused = "[Tool canceled - please tell Continue what to do differently]"
    again = ["\x1b[34m●\x1b[39m again", "● Done."]
    assert seen([*ASK, cut], composer()).assessment.turn_end is TurnEnd.INTERRUPTED
    assert seen([*ASK, refused], composer()).assessment.turn_end is TurnEnd.INTERRUPTED
    assert seen([*ASK, refused, *again], composer()).assessment.turn_end is None


def test_an_answer_with_the_word_of_an_error_in_it_is_none() -> None:
    said = ASK[:1]
    assert seen([*said, "", "Error: 400 a scripted refusal"], composer()).assessment.turn_end is TurnEnd.FAILED
    assert seen([*said, "● Error: 400 a scripted refusal"], composer()).assessment.turn_end is None
    assert seen([*said, "● So:", "", "  Error: 400 a scripted refusal"], composer()).assessment.turn_end is None


def test_its_footer_gives_it_away() -> None:
    assert detect_cli(builtin_profiles(), shown(ASK, composer())) == "continue"
