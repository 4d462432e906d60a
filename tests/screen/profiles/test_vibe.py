"""The profile of Mistral Vibe: recorded screens at their times, and screens made to fool it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli
from interlock.screen.snapshot import EMPTY, Snapshot
from tests.screen.profiles.frames import frame_at, options_of, read, rule_of, screen, snapshot_at, snapshots

IDLE, WORKING = BusinessState.IDLE, BusinessState.WORKING
ASKED, UNKNOWN = BusinessState.AWAITING_OPERATOR, BusinessState.UNKNOWN
ALLOW = ["Allow once", "Allow for remainder of this session", "Always allow", "Deny"]
SPINNER = "⠓  Generating… (8s Esc/Ctrl+C to interrupt)"


def _screen(
    rows: Sequence[str], below: Sequence[str], title: str = "Vibe", width: int = 60, height: int = 24
) -> Snapshot:
    """A transcript with something in the place of the composer, and the bottom bar."""
    filled = [*rows, *[""] * (height - len(rows) - len(below) - 1), *below, "~/project [PID 14]   30/200k tokens (0%)"]
    return screen(filled[-height:], title=title, columns=width)


def _composer(draft: str = "", width: int = 60, mark: str = ">") -> list[str]:
    return ["─" * (width - 6) + " ask ─", f"{mark} {draft}".rstrip(), "", "", "─" * width]


def _box(*rows: str, width: int = 60) -> list[str]:
    inner = [f"│ {row:{width - 4}} │" for row in rows]
    return ["┌" + "─" * (width - 2) + "┐", *inner, "└" + "─" * (width - 2) + "┘"]


QUESTION = _box(
    "Which colour?",
    "",
    "  1. Red - a warm one",
    "  2. Blue",
    "  3. Type your answer...",
    "",
    "Enter select  Esc cancel",
)
APPROVAL = _box(
    "Permission for the file_system.bash tool", "ls", "", "  1. Allow once", "  4. Deny", "", "Enter select  Esc reject"
)


@pytest.mark.parametrize(
    ("name", "t", "state", "rule"),
    [
        ("d_shell", 1.0, UNKNOWN, "startup.initializing"),
        ("d_shell", 11.0, IDLE, "composer.ready"),
        ("d_shell", 14.0, WORKING, "title.working"),
        ("d_shell", 24.0, ASKED, "box.approval"),
        ("d_shell", 30.0, WORKING, "title.working"),
        ("d_shell", 40.0, IDLE, "composer.ready"),
        ("d_shell_80", 24.0, ASKED, "box.approval"),
        ("d_deny_120", 22.0, ASKED, "box.approval"),
        ("d_edit_120", 23.0, ASKED, "box.approval"),
        ("d_write", 28.0, ASKED, "box.approval"),
        ("d_trust", 8.0, ASKED, "screen.trust"),
        ("d_quote_loose_120", 24.0, WORKING, "title.working"),
        ("d_quote_loose_120", 30.0, IDLE, "composer.ready"),
        ("hang", 20.0, WORKING, "title.working"),
    ],
)
def test_recorded_screens_say_what_was_true(name: str, t: float, state: BusinessState, rule: str) -> None:
    surface = frame_at("vibe", name, t).assessment
    assert (surface.business_state, rule_of(surface)) == (state, rule)


@pytest.mark.parametrize(
    ("name", "t"), [("d_shell", 24.0), ("d_shell_80", 24.0), ("d_edit_120", 23.0), ("d_write", 28.0)]
)
def test_an_approval_has_its_options_and_the_chosen_one_by_its_style(name: str, t: float) -> None:
    surface = frame_at("vibe", name, t).assessment
    assert surface.block is not None
    assert surface.block.kind is BlockKind.APPROVAL
    assert options_of(surface) == ALLOW
    assert [option.is_selected for option in surface.block.options] == [True, False, False, False]
    assert surface.operator_excerpt is not None
    assert "Deny" in surface.operator_excerpt
    assert "to interrupt" not in surface.operator_excerpt
    assert surface.input_mode is InputMode.MODAL


def test_the_trust_screen_has_its_options_side_by_side() -> None:
    surface = frame_at("vibe", "d_trust", 8.0).assessment
    assert surface.block is not None
    assert surface.block.kind is BlockKind.TRUST
    assert [(option.text, option.is_selected) for option in surface.block.options] == [
        ("Trust folder", True),
        ("Don't trust", False),
    ]


@pytest.mark.parametrize(("name", "t"), [("interrupt", 34.0), ("hang", 28.0)])
def test_an_interrupted_turn_says_so(name: str, t: float) -> None:
    assert frame_at("vibe", name, t).assessment.turn_end is TurnEnd.INTERRUPTED


def test_a_turn_after_an_interrupted_one_has_no_such_mark() -> None:
    rows = ["> one", "─" * 60, "  ⎣ Interrupted · What should Vibe do instead?", "", "> two", "─" * 60, "  Done."]
    assert read("vibe", _screen(rows, _composer())).assessment.turn_end is None


@pytest.mark.parametrize(
    ("name", "t", "draft"),
    [
        ("d_shell", 11.0, ""),
        ("d_shell", 13.0, "please SCN:dshell"),
        ("d_draft", 20.0, "and then also update the readme"),
        ("d_draft", 24.0, None),
        ("d_draft", 41.0, "and then also update the readme"),
    ],
)
def test_the_draft_is_what_was_typed(name: str, t: float, draft: str | None) -> None:
    assert frame_at("vibe", name, t).draft == draft


def test_a_draft_of_several_rows_loses_the_mark_and_the_gutter() -> None:
    composer = ["─" * 54 + " ask ─", "> one", "  two", "    three", "─" * 60]
    assert read("vibe", _screen([], composer)).draft == "one\ntwo\n  three"


def test_neither_a_calm_screen_nor_a_hung_one_changes_behind_its_mask() -> None:
    for name, start, end in (("d_calm_120", 33.0, 60.0), ("hang", 14.0, 27.0), ("d_shell", 21.0, 28.0)):
        assert len({read("vibe", one).projection.key for one in snapshots("vibe", name, start, end)}) == 1, name


@pytest.mark.parametrize("title", ["Vibe", "A title of the session"])
def test_prose_that_quotes_a_dialog_does_not_block(title: str) -> None:
    quoted = [f"  {row}" for row in (*APPROVAL, SPINNER, "Trust this folder?  1. Trust folder  2. Don't trust")]
    surface = read("vibe", _screen(["> show me", "─" * 60, *quoted], _composer(), title)).assessment
    assert (surface.business_state, surface.input_mode) == (IDLE, InputMode.FREEFORM)


def test_a_draft_of_dialog_words_is_a_draft() -> None:
    reading = read("vibe", _screen([], _composer("1. Allow once  Enter select  Esc reject │")))
    assert reading.assessment.business_state is IDLE
    assert reading.draft == "1. Allow once  Enter select  Esc reject │"


def test_an_old_box_above_the_composer_is_no_dialog() -> None:
    assert read("vibe", _screen(APPROVAL, _composer())).assessment.business_state is IDLE
    assert read("vibe", _screen([*APPROVAL, SPINNER], _composer(), ">> Vibe")).assessment.business_state is WORKING


def test_a_dialog_wins_over_the_spinner_and_over_a_title_of_work() -> None:
    for title in ("? Vibe", ">> Vibe", "Vibe"):
        surface = read("vibe", _screen(["  text", SPINNER], APPROVAL, title)).assessment
        assert rule_of(surface) == "box.approval"


def test_work_is_told_without_a_title() -> None:
    for row in (SPINNER, " ⠙ Thinking… (1m4s Esc to interrupt · Enter to steer)", "⠈⠙ Loading…"):
        assert read("vibe", _screen(["  text", row], _composer(), "shell")).assessment.business_state is WORKING


def test_a_question_is_known_by_the_title_or_by_the_row_above_it() -> None:
    waiting = "⠓  User input required… (8s Esc/Ctrl+C to interrupt)"
    for title, row in (("? Vibe", ""), ("Vibe", waiting)):
        surface = read("vibe", _screen(["  text", row], QUESTION, title)).assessment
        assert surface.block is not None
        assert surface.block.kind is BlockKind.QUESTION
        assert options_of(surface) == ["Red - a warm one", "Blue", "Type your answer..."]


def test_every_other_box_is_a_picker_with_or_without_keys_that_are_known() -> None:
    for rows in (("Select Model", "", "› stub", "", "Enter save  s session only  Esc cancel"), ("Something new",)):
        surface = read("vibe", _screen(["  text"], _box(*rows))).assessment
        assert surface.block is not None
        assert (surface.block.kind, surface.input_mode) == (BlockKind.OTHER, InputMode.MODAL)


def test_settings_over_the_composer_take_the_keys() -> None:
    frame = [
        "╭─ Settings ─────────────╮",
        *["│ theme      dark        │"] * 20,
        "│ Enter edit  Esc close  │",
        "╰────────────────────────╯",
    ]
    behind = _screen(["  text"], _composer())
    for column in (30, 2):
        rows = [f"{row.text:60}"[:column] + part for row, part in zip(behind.rows, [*frame, ""], strict=False)]
        assert read("vibe", screen(rows[:24], title="Vibe", columns=60)).assessment.business_state is ASKED


def test_a_dialog_with_no_box_that_is_known_blocks_by_its_keys() -> None:
    rows = ["Something new", "", "  Red", "  Blue", "", "↑↓/jk navigate  Enter select  Esc close"]
    surface = read("vibe", screen(rows, title="Vibe")).assessment
    assert (surface.business_state, rule_of(surface)) == (ASKED, "screen.keys")


def test_boxes_and_screens_that_ask_to_sign_in_have_their_kind() -> None:
    box = _box("docs", "This connector requires authentication", "", "Enter select  Esc back")
    setup = [
        "Welcome to Mistral Vibe - Let's get you started!",
        "",
        "  Launch browser",
        *[""] * 8,
        "Enter select  Esc exit",
        *[""] * 8,
        ".",
    ]
    for made in (_screen(["  text"], box), screen(setup, title="Vibe")):
        surface = read("vibe", made).assessment
        assert surface.block is not None
        assert surface.block.kind is BlockKind.AUTH


def test_words_of_the_full_screens_in_prose_do_not_block() -> None:
    words = [
        "│ 1. Trust folder    2. Don't trust │",
        "▁" * 20,
        "Welcome to Mistral Vibe: API key",
        "Enter select  Esc exit",
        "╭─ Settings ─╮",
    ]
    assert read("vibe", _screen(words, _composer())).assessment.business_state is IDLE
    assert read("vibe", screen(["▁" * 20, "no bar"], title="Vibe")).assessment.business_state is UNKNOWN
    assert read("vibe", screen([*words[:1], "no bar"], title="Vibe")).assessment.business_state is UNKNOWN
    assert read("vibe", screen([words[2], "no bar"], title="Vibe")).assessment.business_state is UNKNOWN


def test_a_frame_to_the_right_that_takes_no_keys_leaves_the_composer_alone() -> None:
    todos = ["╭ Todos · 1/2 done ─╮", *["│ ◻ write it        │"] * 21, "│      esc to close │", "╰───────────────────╯"]
    behind = _screen(["  text"], _composer(width=40), width=40)
    rows = [f"{row.text:40}"[:40] + part for row, part in zip(behind.rows, todos, strict=True)]
    assert read("vibe", screen(rows, title="Vibe")).assessment.business_state is IDLE
    keys = read("vibe", _screen(["╭─ quoted ─╮", "│ Enter edit  Esc close │"], _composer()))
    assert keys.assessment.business_state is IDLE
    boxed = read("vibe", _screen(["  ╭─ quoted ─╮"], _composer("a │ b")))
    assert boxed.assessment.business_state is IDLE


def test_settings_that_hide_all_block_also_without_keys_that_are_known() -> None:
    rows = ["╭─ Settings ──────╮", *["│ theme      dark │"] * 9, "╰─────────────────╯", "x"]
    assert rule_of(read("vibe", screen(rows, title="Vibe")).assessment) == "drawer.settings"


def test_a_title_of_work_without_a_composer_says_nothing() -> None:
    assert read("vibe", screen(["$ ls", "a  b"], title=">> Vibe")).assessment.business_state is UNKNOWN


def test_a_queued_message_under_its_rule_is_no_composer() -> None:
    queued = ["» Queued", "─" * 60, "> later", "─" * 60]
    reading = read("vibe", _screen(queued, _box("Something new")))
    assert (reading.assessment.business_state, reading.draft) == (ASKED, None)


def test_asked_by_the_title_alone_is_not_idle() -> None:
    assert read("vibe", _screen(["  text"], _composer("typ"), "? Vibe")).assessment.business_state is UNKNOWN


def test_blank_and_torn_screens_say_nothing() -> None:
    whole = snapshot_at("vibe", "d_shell", 40.0)
    for rows in ((EMPTY,) * 50, whole.rows[:46] + (EMPTY,) * 4, (EMPTY,) * 45 + whole.rows[45:]):
        assert read("vibe", replace(whole, rows=rows)).assessment.business_state is UNKNOWN


@pytest.mark.parametrize("height", [15, 24, 60])
@pytest.mark.parametrize("width", [60, 250])
def test_other_sizes_read_alike(width: int, height: int) -> None:
    def state(below: list[str], title: str) -> BusinessState:
        return read("vibe", _screen(["  text"] * 80, below, title, width, height)).assessment.business_state

    assert state(_composer(width=width), "Vibe") is IDLE
    assert state([SPINNER, *_composer(width=width)], "Vibe") is WORKING
    assert (
        state([SPINNER, *_box("Permission for the x tool", "  1. Allow once", "Esc reject", width=width)], "? a")
        is ASKED
    )


def test_commands_and_shell_lines_have_their_own_marks() -> None:
    slash: ScreenReading = read("vibe", _screen([], _composer("model", mark="/")))
    assert (slash.assessment.business_state, slash.assessment.input_mode, slash.draft) == (
        IDLE,
        InputMode.MODAL,
        "model",
    )
    shell = read("vibe", _screen([], _composer("ls", mark="!")))
    assert (shell.assessment.business_state, shell.draft) == (IDLE, "ls")


def test_its_panes_are_recognised() -> None:
    for name, t in (("d_shell", 11.0), ("d_shell", 40.0), ("full", 27.0)):
        assert detect_cli(builtin_profiles(), snapshot_at("vibe", name, t)) == "vibe"
