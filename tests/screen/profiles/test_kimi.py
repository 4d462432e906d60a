"""The profile of Kimi Code: screens as it draws them, and screens made to fool it."""

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
RULE = " " + "─" * (WIDTH - 2)
FOOTER = [
    " stub-model  ~/project                           /init: generate AGENTS.md",
    f"{'context: 1% (110/195k)':>80}",
]
ASK = [" ✨ do it", "", " ● Running a command · $ touch made.txt"]
APPROVAL = [
    RULE,
    "   ▶ Run this command?",
    "",
    "   cwd: /project",
    "   $ touch made.txt",
    "",
    "   ▶ 1. Approve once",
    "     2. Approve for this session",
    "     3. Reject",
    "     4. Reject with feedback",
    "",
    "   ↑/↓ select · 1/2/3/4 choose · ↵ confirm",
    RULE,
]
QUESTION = [
    RULE,
    "  question",
    "",
    "   Colour    Submit",
    "",
    "  ? Which colour shall it be?",
    "",
    "   → [1] Red",
    "         a warm one",
    "     [2] Blue",
    "         a cold one",
    "     [3] Other",
    "",
    "   ↑↓ select  1-3 / ↵ choose  ←/→/tab switch  esc cancel",
    RULE,
]
REVIEW = [
    RULE,
    "  question",
    "",
    "  (✓) Colour   Submit",
    "",
    "  Review your answer before submit",
    "",
    "   Q  Which colour shall it be?",
    "   →  Blue",
    "",
    "  Ready to submit your answers?",
    "",
    "   → [1] Submit",
    "     [2] Cancel",
    "",
    "   ↑↓ select  1/2 choose  ↵ confirm  ←/→/tab switch  esc cancel",
    RULE,
]
PICKER = [
    RULE,
    "  Select a model  (type to search)",
    "  Tab toggle provider · ↑↓ navigate · Enter select · Alt+S session-only · Esc cancel",
    "",
    "   ❯ stub-model  stubp ← current",
    RULE,
]
TRUST = [
    RULE,
    "  Trust this folder?",
    "  ↑↓ navigate · Enter select · Esc exit",
    "",
    "   ❯ Trust this folder",
    "     Enable project MCP servers. Remembered for this folder.",
    "     Don't trust",
    "     Exit Kimi Code. Asked again next launch.",
    RULE,
]


def composer(*drafts: str, mark: str = ">") -> list[str]:
    rows = [f" │ {f'{mark} ' if at == 0 else '  '}{draft}" for at, draft in enumerate(drafts or ("",))]
    head = " ╭ ! shell mode " + "─" * 62 + "╮" if mark == "!" else " ╭" + "─" * (WIDTH - 4) + "╮"
    return [head, *(f"{row:<{WIDTH - 2}}│" for row in rows), " ╰" + "─" * (WIDTH - 4) + "╯"]


def shown(rows: Sequence[str], below: Sequence[str]) -> Snapshot:
    return screen([*rows, "", *below, *FOOTER], columns=WIDTH)


def seen(rows: Sequence[str], below: Sequence[str]) -> ScreenReading:
    return read("kimi", shown(rows, below))


@pytest.mark.parametrize(
    ("below", "rule", "kind", "options"),
    [
        (
            APPROVAL,
            "dialog.approval",
            BlockKind.APPROVAL,
            ["Approve once", "Approve for this session", "Reject", "Reject with feedback"],
        ),
        (APPROVAL[2:], "dialog.cut", BlockKind.APPROVAL, ["Approve once", "Approve for this session", "Reject"]),
        (QUESTION, "dialog.question", BlockKind.QUESTION, ["Red", "Blue", "Other"]),
        (REVIEW, "dialog.question", BlockKind.QUESTION, ["Submit", "Cancel"]),
        (PICKER, "dialog.other", BlockKind.OTHER, ["stub-model  stubp ← current"]),
        (TRUST, "dialog.trust", BlockKind.TRUST, ["Trust this folder", "Don't trust"]),
    ],
)
def test_a_dialog_is_known_by_its_place_with_its_options(
    below: list[str], rule: str, kind: BlockKind, options: list[str]
) -> None:
    surface = seen(ASK, below).assessment
    assert (surface.business_state, surface.input_mode, rule_of(surface)) == (ASKED, InputMode.MODAL, rule)
    assert surface.block is not None
    assert (surface.block.kind, options_of(surface)[: len(options)]) == (kind, options)
    assert surface.block.options[0].is_selected


@pytest.mark.parametrize("row", ["  🌑 · Tip: @: mention files", "  🌔", "  ⠹ Thinking…", "  ⠋ Working… · Tip: x"])
def test_the_row_above_the_composer_tells_of_work_also_above_a_queue(row: str) -> None:
    queue = [RULE, "   ❯ a later prompt", "   ↑ to edit · ctrl-s to steer immediately"]
    assert seen([*ASK, "", row], composer()).assessment.business_state is WORKING
    assert seen([*ASK, "", row, *queue], composer("a draft")).assessment.business_state is WORKING


def test_a_swarm_of_agents_is_work() -> None:
    assert seen([*ASK, " 🌓 Orchestrating… ━━━━━━━━ 1/3", "   a task"], composer()).assessment.business_state is WORKING


def test_a_compaction_is_work_until_it_is_complete() -> None:
    for bullet in "● ":
        assert seen([" ✨ /compact", f" {bullet} Compacting context…"], composer()).assessment.business_state is WORKING
    done = [" ✨ /compact", " ● Compaction complete (100 → 20 tokens)"]
    assert seen(done, composer()).assessment.business_state is IDLE


@pytest.mark.parametrize("quoted", [APPROVAL, QUESTION, TRUST, ["🌑", "⠹ Thinking…"]])
def test_an_answer_or_a_draft_that_quotes_a_dialog_or_the_row_of_work_is_neither(quoted: list[str]) -> None:
    surface = seen([" ✨ quote it", *(f"   {row}" for row in quoted)], composer()).assessment
    assert (surface.business_state, rule_of(surface)) == (IDLE, "composer.ready")
    surface = seen([" ✨ hello", " ● Hi."], composer(*(row[:70] for row in quoted))).assessment
    assert (surface.business_state, rule_of(surface)) == (IDLE, "composer.ready")


def test_the_frame_of_the_composer_is_no_part_of_the_draft() -> None:
    assert seen(ASK, composer()).draft == ""
    assert seen(ASK, composer("one │ two", "three")).draft == "one │ two\nthree"


def test_shell_mode_and_slash_commands_take_no_prompt() -> None:
    assert rule_of(seen(ASK, composer("ls", mark="!")).assessment) == "composer.shell_mode"
    assert rule_of(seen(ASK, composer("/model")).assessment) == "composer.slash"


def test_how_a_turn_ended_is_told_only_of_the_latest_one() -> None:
    cut, wrong = "   Interrupted by user", "   Error: [provider.api_error] 400 a scripted refusal"
    assert seen([*ASK, cut], composer()).assessment.turn_end is TurnEnd.INTERRUPTED
    assert seen([*ASK, wrong], composer()).assessment.turn_end is TurnEnd.FAILED
    assert seen([*ASK, cut, " ✨ again", " ● Done."], composer()).assessment.turn_end is None


def test_the_banner_gives_it_away() -> None:
    banner = [" ╭────────────╮", " │  ▐█▛█▛█▌  Welcome to Kimi Code!   │", " ╰────────────╯"]
    assert detect_cli(builtin_profiles(), shown(banner, composer())) == "kimi"
