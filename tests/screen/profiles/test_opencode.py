"""The profile of opencode: recorded screens at their times, and screens made to fool it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli
from interlock.screen.snapshot import EMPTY, Snapshot, Style
from tests.each_row import each_row
from tests.screen.profiles.frames import frame_at, options_of, read, rule_of, screen, snapshot_at, snapshots

IDLE, WORKING = BusinessState.IDLE, BusinessState.WORKING
ASKED, UNKNOWN = BusinessState.AWAITING_OPERATOR, BusinessState.UNKNOWN
ALLOW = ["Allow once", "Allow always", "Reject"]

CWD = "   ~/project                      105 (0%)  ctrl+p commands"
BUSY = "   ⬝⬝⬝■■■■■  esc interrupt       105 (0%)  ctrl+p commands"
ANSWER = ["  ┃", "  ┃  do it", "  ┃", "", "     I did.", "", "     ▣  Build · Stub Model · 1.2s", ""]
PERMISSION = [
    "  ┃", "  ┃  △ Permission required", "  ┃    # Shell command", "  ┃", "  ┃  $ ls", "  ┃",
    "  ┃   Allow once   Allow always   Reject", "  ┃", "  ┃  ctrl+f fullscreen  ⇆ select  enter confirm", "  ┃",
]  # fmt: skip
QUESTION = [
    "  ┃",
    "  ┃  Which?",
    "  ┃",
    "  ┃  1. [✓] Red",
    "  ┃     warm",
    "  ┃  2. [ ] Blue",
    "  ┃",
    "  ┃  enter toggle",
    "  ┃",
]


def _composer(draft: str = "", status: str = CWD) -> list[str]:
    text = [f"  ┃  {row}".rstrip() for row in draft.split("\n")]
    return ["  ┃", *text, "  ┃", "  ┃  Build · Stub Model Stub", "  ╹" + "▀" * 55, status, ""]


def _read(rows: Sequence[str], *, cursor: str | None = "composer", title: str = "OC | A title") -> ScreenReading:
    """The cursor stands in the row of the draft, in the given row (and is shown), or nowhere (and is hidden)."""
    at = (
        len(rows) - 6
        if cursor == "composer"
        else next((n for n, row in enumerate(rows) if cursor and cursor in row), -1)
    )
    made = screen(rows, title=title, columns=60, cursor=(5, at) if at >= 0 else (59, len(rows) - 1))
    return read("opencode", replace(made, cursor_visible=at >= 0))


def _state(rows: Sequence[str], *, cursor: str | None = "composer") -> BusinessState:
    return _read(rows, cursor=cursor).assessment.business_state


def _kind(surface: SurfaceAssessment) -> BlockKind | None:
    return surface.block.kind if surface.block else None


@each_row(
    ("name", "t", "state", "rule"),
    [
        ("full", 3.0, UNKNOWN, "screen.blank"),
        ("full", 10.0, IDLE, "composer.ready"),
        ("full", 16.0, WORKING, "status.busy"),
        ("full", 26.4, IDLE, "composer.ready"),
        ("full", 32.0, ASKED, "dialog.permission"),
        ("full", 34.0, WORKING, "status.busy"),
        ("hang", 25.0, WORKING, "status.busy"),
        ("hang", 29.8, WORKING, "status.busy"),
        ("d_ask", 28.0, ASKED, "dialog.question"),
        ("d_dialog_intr_80", 24.0, ASKED, "dialog.permission"),
        ("d_dialog_intr_80", 32.0, IDLE, "composer.unended"),
        ("d_menus", 30.0, IDLE, "composer.slash"),
        ("d_menus", 35.0, ASKED, "menu.over_transcript"),
        ("d_menus", 52.0, ASKED, "menu.over_floor"),
        ("interrupt", 25.0, IDLE, "composer.ready"),
    ],
)
def test_recorded_screens_say_what_was_true(name: str, t: float, state: BusinessState, rule: str) -> None:
    surface = frame_at("opencode", name, t).assessment
    assert (surface.business_state, rule_of(surface)) == (state, rule)


@pytest.mark.parametrize(
    ("name", "t"), [("full", 32.0), ("d_dialog_intr_80", 24.0), ("d_shell_120", 0.0), ("d_draft", 72.0)]
)
def test_an_approval_has_its_buttons_as_options(name: str, t: float) -> None:
    surface = frame_at("opencode", name, t or _first_asked("opencode", name)).assessment
    assert surface.block is not None
    assert surface.block.kind is BlockKind.APPROVAL
    assert [(option.text, option.is_selected) for option in surface.block.options] == list(
        zip(ALLOW, (1, 0, 0), strict=True)
    )
    assert surface.operator_excerpt is not None
    assert surface.operator_excerpt.startswith("┃  △ Permission required")


# As 1.18.33 draws its theme without COLORTERM; the last is the nearest colour, and was not seen.
IN_256_COLOURS = {
    "128,128,128": "8", "10,10,10": "232", "20,20,20": "233", "30,30,30": "234", "245,167,66": "215",
    "224,108,117": "168",
}  # fmt: skip


def _in_256_colours(seen: Snapshot) -> Snapshot:
    def drawn(style: Style) -> Style:
        return style._replace(
            fg=None if style.fg is None else IN_256_COLOURS.get(style.fg, style.fg),
            bg=None if style.bg is None else IN_256_COLOURS.get(style.bg, style.bg),
        )

    rows = (
        replace(row, spans=tuple(span._replace(style=drawn(span.style)) for span in row.spans)) for row in seen.rows
    )
    return replace(seen, rows=tuple(rows))


@each_row(
    ("name", "t"),
    [("full", 10.0), ("full", 16.0), ("full", 26.4), ("full", 32.0), ("d_ask", 28.0), ("interrupt", 25.0)],
)
def test_a_terminal_of_256_colours_is_read_as_one_of_all_colours(name: str, t: float) -> None:
    seen = snapshot_at("opencode", name, t)
    drawn = _in_256_colours(seen)
    assert drawn != seen
    assert read("opencode", drawn) == read("opencode", seen)


def _first_asked(cli: str, name: str) -> float:
    return next(t / 5 for t in range(600) if frame_at(cli, name, t / 5 + 1).assessment.block) + 1


def test_a_question_has_its_answers_without_what_describes_them() -> None:
    surface = frame_at("opencode", "d_ask", 28.0).assessment
    assert surface.block is not None
    assert surface.block.kind is BlockKind.QUESTION
    assert [(option.text, option.is_selected) for option in surface.block.options] == [
        ("Red", True),
        ("Blue", False),
        ("Type your own answer", False),
    ]
    assert surface.operator_excerpt is not None
    assert "Which colour do you want?" in surface.operator_excerpt


@each_row(
    ("name", "t", "end"),
    [
        ("full", 26.4, TurnEnd.COMPLETED),
        ("full", 34.0, None),
        ("interrupt", 25.0, TurnEnd.INTERRUPTED),
        ("hang", 32.0, TurnEnd.INTERRUPTED),
        ("d_dialog_intr_80", 32.0, None),
    ],
)
def test_the_row_of_the_latest_answer_says_how_it_ended(name: str, t: float, end: TurnEnd | None) -> None:
    assert frame_at("opencode", name, t).assessment.turn_end is end


def test_an_answer_that_failed_has_a_block_with_a_red_edge() -> None:
    red = "  \x1b[38;2;224;108;117m┃\x1b[0m"
    rows = ["  ┃  do it", "", red, f"{red}  bad request", red, "", "     ▣  Build · Stub Model", "", *_composer()]
    assert _read(rows).assessment.turn_end is TurnEnd.FAILED


@each_row(
    ("name", "t", "draft"),
    [
        ("d_menus", 27.0, ""),
        ("d_menus", 30.0, "/models"),
        ("full", 12.0, "please SCN:slow"),
        ("full", 26.4, ""),
        ("draft", 12.0, "a typed but unsubmitted draft"),
        ("d_draft", 72.0, None),
        ("d_draft", 90.0, "and then also update the readme"),
    ],
)
def test_the_draft_is_what_was_typed(name: str, t: float, draft: str | None) -> None:
    assert frame_at("opencode", name, t).draft == draft


def test_a_draft_of_several_rows_is_kept_and_the_placeholder_is_known_by_its_words_too() -> None:
    assert _read(_composer("one\n  two\n\nthree")).draft == "one\n  two\n\nthree"
    assert _read(_composer('Ask anything… "Fix broken tests"')).draft == ""
    assert _read(_composer("Ask anything of him")).draft == "Ask anything of him"


def test_what_nobody_typed_is_told_by_its_colours() -> None:
    ghost = "\x1b[38;2;128;128;128m\x1b[48;2;30;30;30mSay something new\x1b[0m"
    assert _read(_composer(ghost)).draft == ""
    sidebar = "\x1b[48;2;30;30;30mtyped\x1b[0m\x1b[48;2;20;20;20m     a list to the right\x1b[0m"
    assert _read(_composer(sidebar)).draft == "typed"


def test_neither_a_calm_screen_nor_a_hung_one_changes_behind_its_mask() -> None:
    for name, start, end in (("hang", 16.0, 29.0), ("d_ask", 25.0, 32.0), ("full", 26.5, 27.7)):
        assert len({read("opencode", one).projection.key for one in snapshots("opencode", name, start, end)}) == 1, name


def test_prose_that_quotes_dialogs_menus_and_the_bar_does_not_fool() -> None:
    quoted = [f"   {row}" for row in (*PERMISSION, *QUESTION, "  ╹▀▀▀▀", BUSY, "Commands                esc")]
    rows = [*ANSWER[:4], *quoted, *ANSWER[4:]]
    surface = _read([*rows, *_composer()]).assessment
    assert (surface.business_state, surface.input_mode) == (IDLE, InputMode.FREEFORM)
    assert _state([*rows, *_composer(status=BUSY)]) is WORKING


def test_an_old_dialog_above_the_composer_is_no_dialog() -> None:
    assert _state([*PERMISSION, "", *_composer()]) is IDLE


def test_a_draft_of_dialog_words_is_a_draft() -> None:
    draft = "△ Permission required\nAllow once   Allow always   Reject\nesc interrupt  enter confirm"
    reading = _read([*ANSWER, *_composer(draft)])
    assert (reading.assessment.business_state, reading.draft) == (IDLE, draft)


def test_a_folder_named_interrupt_is_no_work() -> None:
    assert _state([*ANSWER, *_composer(status="   ~/work/interrupt                 ctrl+p commands")]) is IDLE


@each_row(
    "status",
    [
        BUSY,
        "   [⋯]  esc interrupt",
        "   ■⬝⬝⬝⬝⬝⬝⬝  esc again to interrupt",
        "   ⬝⬝⬝⬝⬝⬝⬝⬝ overloaded [retrying in 4s attempt #2]     esc interrupt",
        "   ⬝⬝⬝⬝⬝⬝⬝⬝ overloaded [retrying in 4s attempt #2] esc",  # `interrupt` is in the next row
    ],
)
def test_every_shape_of_the_bar_is_work(status: str) -> None:
    assert _state([*ANSWER, *_composer(status=status)]) is WORKING


def test_dialogs_take_the_place_of_the_composer() -> None:
    approval = _read([*ANSWER, *PERMISSION, ""], cursor=None).assessment
    assert (_kind(approval), options_of(approval)) == (BlockKind.APPROVAL, ALLOW)
    question = _read([*ANSWER, *QUESTION, ""], cursor=None).assessment
    assert question.operator_excerpt is not None
    assert "I did." not in question.operator_excerpt
    assert (_kind(question), options_of(question)) == (BlockKind.QUESTION, ["Red", "Blue"])


def test_a_dialog_that_fills_the_screen_or_lost_its_keys_still_blocks() -> None:
    always = [
        "  ┃  △ Always allow",
        "  ┃",
        "  ┃  - ls *",
        "  ┃",
        "  ┃   Confirm   Cancel",
        "  ┃",
        "  ┃  ⇆ select  enter confirm",
    ]
    surface = _read(always, cursor=None).assessment
    assert (_kind(surface), options_of(surface)) == (BlockKind.APPROVAL, ["Confirm", "Cancel"])
    assert _state(PERMISSION[:5], cursor=None) is ASKED
    assert _state(["  ┃  Something new", "  ┃", "  ┃  esc dismiss", ""], cursor=None) is ASKED


@pytest.mark.parametrize("status", [CWD, BUSY])
def test_a_menu_takes_the_keys_of_a_calm_and_of_a_busy_session(status: str) -> None:
    menu = ["     Something new                    esc", "", "     Search", "", "     One"]
    assert _state([*menu, "", *_composer(status=status)], cursor="Search") is ASKED
    assert _state([menu[0].replace("esc", "esc/enter"), "     ok", *_composer(status=status)], cursor=None) is ASKED


def test_a_menu_over_the_composer_is_never_idle() -> None:
    low = [
        "     Commands                    esc",
        "  ┃",
        "  ┃  Ask     Search",
        "  ┃",
        "  ┃  Buil    One",
        "  ╹▀▀▀",
        CWD,
        "",
    ]
    assert _state(low, cursor="Search") is UNKNOWN
    inside = [
        "     Hello",
        "  ┃     Commands            esc",
        "  ┃  Ask",
        "  ┃     Search",
        "  ┃  Buil",
        "  ╹▀▀▀",
        CWD,
        "",
    ]
    assert _state(inside, cursor="Search") is UNKNOWN
    assert _state([*low[:5], "  ╹▀▀▀    Two           ▀▀▀", CWD, ""], cursor="Search") is ASKED
    assert _state(["  ┃", "     Commands           esc", "     Search", CWD], cursor="Search") is ASKED


def test_a_composer_without_the_cursor_is_not_ready() -> None:
    unended = [*ANSWER[:6], "     ▣  Build · Stub Model"]
    for rows in ([*ANSWER, *_composer()], [*unended, *_composer()], [*ANSWER[:6], *_composer("/models")]):
        assert _state(rows, cursor=None) is UNKNOWN
        assert _state(rows, cursor="I did.") is UNKNOWN
    assert _state([*ANSWER[:4], *_composer()], cursor=None) is UNKNOWN


def test_work_is_told_also_where_the_cursor_is_elsewhere() -> None:
    assert _state([*ANSWER, *_composer(status=BUSY)], cursor=None) is WORKING


@pytest.mark.parametrize("end", ["1.2s", "interrupted"])
def test_the_end_of_an_earlier_answer_is_none_of_the_prompt_below_it(end: str) -> None:
    """On a busy machine the prompt stood for 5 s below the mark, before anything showed that it was taken up."""
    answered = [*ANSWER[:6], f"     ▣  Build · Stub Model · {end}", ""]
    assert _read([*answered, *_composer()]).assessment.turn_end is not None
    for blank in ([""], [""] * 12):
        asked = _read([*answered, "  ┃", "  ┃  more", "  ┃", *blank, *_composer()]).assessment
        assert (asked.business_state, asked.is_weak, asked.turn_end) == (IDLE, True, None)
    first = _read([*ANSWER[:3], *[""] * 12, *_composer()]).assessment
    assert (first.business_state, first.is_weak, first.turn_end) == (IDLE, True, None)


def test_a_prompt_without_an_answer_is_a_weak_proof_of_idle() -> None:
    assert _read([*ANSWER, "  ┃", "  ┃  more", "  ┃", "", *_composer()]).assessment.is_weak
    assert _read([*ANSWER[:6], "     ▣  Build · Stub Model", "", *_composer()]).assessment.is_weak
    assert not _read([*ANSWER, *_composer()]).assessment.is_weak


def test_a_session_of_a_subagent_says_nothing() -> None:
    assert (
        _state([*ANSWER, "  ┃", "  ┃  General (1 of 1)       Parent up  Prev left", "  ┃", ""], cursor=None) is UNKNOWN
    )


def test_blank_and_torn_screens_say_nothing() -> None:
    whole = snapshot_at("opencode", "full", 26.4)
    for rows in ((EMPTY,) * 45, whole.rows[:42] + (EMPTY,) * 3, whole.rows[:41] + (EMPTY,) * 4):
        assert read("opencode", replace(whole, rows=rows)).assessment.business_state is UNKNOWN


def test_menus_that_ask_for_a_key_or_an_update_have_their_kind() -> None:
    for title, kind in (("Connect a provider", BlockKind.AUTH), ("Update Available", BlockKind.UPDATE)):
        surface = _read(
            [f"     {title}                 esc", "", "     Search", "", *_composer()], cursor="Search"
        ).assessment
        assert _kind(surface) is kind


def test_its_panes_are_recognised() -> None:
    for name, t in (("d_menus", 27.0), ("full", 26.4), ("hang", 25.0)):
        assert detect_cli(builtin_profiles(), snapshot_at("opencode", name, t)) == "opencode"
