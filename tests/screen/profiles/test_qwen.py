"""The profile of Qwen Code: named frames of recordings, and screens that try to fool it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.selection import detect_cli
from tests.each_row import each_row
from tests.screen.profiles.frames import frame_at, options_of, read, rule_of, screen, snapshot_at, snapshots

READY, WORKING, ASKING = "Qwen - proj", "◐\ufe0e Qwen - proj", "✳\ufe0e Qwen - proj"
RULE = "─" * 60


def live(draft: str = "  Type your message or @path/to/file", *status: str) -> list[str]:
    """What stands below the transcript where no dialog is open."""
    return [
        "",
        *status,
        RULE,
        f"> {draft}",
        RULE,
        "  ➜ proj · stub-model",
        "  ⏸ Ask permissions (shift + tab to cycle)",
    ]


APPROVAL = [
    "  ? Shell touch a ←", "", "     touch a", "", "   Allow execution of: 'touch'?", "", "   › 1. Yes, allow once",
    "     2. Always allow run 'touch *' commands in this project", "     3. No, suggest changes (esc)", "", "",
    "  ⠏ Waiting for user confirmation...",
]  # fmt: skip


def boxed(*rows: str, corners: str = "╭╮╰╯") -> list[str]:
    inside = [f"  │ {row:<50} │" for row in rows]
    return [f"  {corners[0]}{'─' * 52}{corners[1]}", *inside, f"  {corners[2]}{'─' * 52}{corners[3]}"]


def surface(rows: list[str], title: str = READY) -> SurfaceAssessment:
    return read("qwen", screen(rows, title, 60)).assessment


# As 0.24.4 draws them in a terminal of 256 colours: its own cursor is an underlined cell.
CURSOR, GHOST, PLAIN = "\x1b[4m\x1b[39m", "\x1b[0m\x1b[38;5;103m", "\x1b[0m"


@each_row(
    ("composer", "draft"),
    [
        (f"{CURSOR} {GHOST} Type your message or @path/to/file", ""),
        (f"{CURSOR}r{GHOST}un the tests again", ""),
        (f"{CURSOR}r{GHOST}un\x1b[39m\x1b[38;5;103m the tests", ""),
        (f"run the tests again{CURSOR} {PLAIN}", "run the tests again"),
        (f"run the{CURSOR} {PLAIN}tests again", "run the tests again"),
        (f"{CURSOR}r{PLAIN}un the tests again", "run the tests again"),
        (f"run {CURSOR}t{GHOST}he tests again", "run"),
    ],
)
def test_a_suggestion_is_told_from_a_draft_by_its_style(composer: str, draft: str) -> None:
    found = read("qwen", screen(live(composer), READY, 60))
    assert (found.draft, rule_of(found.assessment)) == (draft, "composer.ready")
    assert found.assessment.submit_ready


@each_row(
    ("name", "t", "state", "rule"),
    [
        ("full", 6.0, BusinessState.UNKNOWN, "no_rule"),
        ("full", 8.0, BusinessState.IDLE, "composer.ready"),
        ("full", 15.0, BusinessState.WORKING, "title.working"),
        ("full", 28.0, BusinessState.AWAITING_OPERATOR, "dialog.approval"),
        ("full", 31.1, BusinessState.WORKING, "title.working"),
        ("d_edit", 35.0, BusinessState.AWAITING_OPERATOR, "dialog.approval"),
        ("d_trust_80", 14.0, BusinessState.AWAITING_OPERATOR, "dialog.trust"),
        ("d_menus_80", 13.9, BusinessState.IDLE, "composer.slash"),
        ("d_menus_80", 31.0, BusinessState.IDLE, "composer.slash"),
        ("d_menus_80", 18.0, BusinessState.AWAITING_OPERATOR, "dialog.picker"),
        ("d_menus_80", 36.0, BusinessState.AWAITING_OPERATOR, "dialog.picker"),
        ("d_quote", 20.0, BusinessState.WORKING, "title.working"),
        ("d_quote", 28.0, BusinessState.IDLE, "composer.ready"),
    ],
)
def test_a_frame_is_read(name: str, t: float, state: BusinessState, rule: str) -> None:
    seen = frame_at("qwen", name, t).assessment
    assert (seen.business_state, rule_of(seen)) == (state, rule)


@pytest.mark.parametrize(
    ("name", "t", "kind", "options"),
    [
        ("d_write_80", 22.0, "approval", ["Yes, allow once", "Yes, allow always", "No, suggest changes"]),
        (
            "d_trust_80",
            14.0,
            "trust",
            ["Trust folder (qwen24-d_trust_80)", "Trust parent folder (work)", "Don't trust"],
        ),
        ("d_menus_80", 36.0, "other", ["[openai] stub-model (Runtime)"]),
    ],
)
def test_a_dialog_gives_its_kind_and_its_options(name: str, t: float, kind: str, options: list[str]) -> None:
    seen = frame_at("qwen", name, t).assessment
    assert seen.block is not None
    assert (seen.block.kind, options_of(seen)) == (BlockKind(kind), options)
    assert [option.is_selected for option in seen.block.options] == [True] + [False] * (len(options) - 1)


def test_the_excerpt_is_the_dialog_alone() -> None:
    excerpt = frame_at("qwen", "d_write_80", 22.0).assessment.operator_excerpt or ""
    assert "Apply this change?" in excerpt
    assert "I will look at the folder" not in excerpt


@each_row(
    ("name", "t", "draft"),
    [
        ("full", 8.0, ""),
        ("full", 15.0, ""),
        ("draft", 12.0, "a typed but unsubmitted draft"),
        ("d_menus_80", 31.0, "/model"),
        ("d_write_80", 22.0, None),
    ],
)
def test_the_draft_is_what_was_typed(name: str, t: float, draft: str | None) -> None:
    assert frame_at("qwen", name, t).draft == draft


@pytest.mark.parametrize(("name", "t"), [("interrupt", 20.0), ("d_deny_120", 28.0), ("d_dialog_intr_80", 28.0)])
def test_a_turn_that_was_cancelled_or_refused_says_so(name: str, t: float) -> None:
    assert frame_at("qwen", name, t).assessment.turn_end is TurnEnd.INTERRUPTED


def test_a_refused_tool_that_was_followed_by_an_answer_is_no_end() -> None:
    assert surface(["  > go", "  - Shell ls", "  ◆\ufe0e Then not.", *live()]).turn_end is None
    assert surface(["  > go", "  ◆\ufe0e It has", "    - one", "    - two", *live()]).turn_end is None


def test_a_turn_that_the_server_cut_says_so() -> None:
    assert surface(["  > go", "  ✕ [API Error: terminated]", *live()]).turn_end is TurnEnd.FAILED


@pytest.mark.parametrize(("name", "start", "end"), [("hang", 8.5, 22.0), ("d_deny_120", 18.0, 25.0)])
def test_the_masked_text_of_a_still_screen_does_not_change(name: str, start: float, end: float) -> None:
    assert len({read("qwen", frame).projection.key for frame in snapshots("qwen", name, start, end)}) == 1


def test_a_scroll_bar_does_not_change_the_masked_text() -> None:
    rows = ["  ◆\ufe0e So it is.", "", "│ a box │"]
    barred = [f"{row:<59}│" for row in rows]
    assert len({read("qwen", screen([*above, *live()])).projection.key for above in (rows, barred)}) == 1


def test_the_screen_decides_where_the_title_is_still() -> None:
    still = (("full", 15.0, "working"), ("full", 28.0, "awaiting_operator"), ("full", 20.0, "idle"))
    for name, t, state in still:
        seen = read("qwen", replace(snapshot_at("qwen", name, t), title="host")).assessment
        assert seen.business_state is BusinessState(state)


@pytest.mark.parametrize(
    "status",
    [
        ["  ⠋ Réflexion... (3s · échap pour annuler)"],
        ["  .. 努力... (1m 2s · ↓ 3 tokens · esc)"],
        ["  ⠋ x", "  (3s · esc)"],
    ],
)
def test_work_is_told_in_every_language(status: list[str]) -> None:
    assert surface(live("  ", *status)).business_state is BusinessState.WORKING


def test_a_session_with_a_name_shows_it_in_the_title() -> None:
    assert surface(live(), "◐\ufe0e Mending the tests").business_state is BusinessState.WORKING
    assert surface(live(), "Mending the tests").business_state is BusinessState.IDLE


def test_a_prompt_in_the_queue_is_work_that_is_due() -> None:
    queued = ["  please do it", "  Ctrl+Q to queue · ↑ to edit queued messages"]
    assert rule_of(surface(live("  ", *queued))) == "status.queued"


def test_a_composer_that_stands_while_it_starts_is_not_ready() -> None:
    assert surface([*live()[:-1], "  .. Initializing..."]).business_state is BusinessState.UNKNOWN


def test_a_phrase_about_confirmation_is_work_while_the_composer_stands() -> None:
    stale = "  ⠼ Waiting for user confirmation... (0s · esc to cancel)"
    assert surface(live("  ", stale), WORKING).business_state is BusinessState.WORKING


@pytest.mark.parametrize("title", [READY, WORKING, ASKING, "host"])
def test_a_dialog_is_told_by_the_screen_alone(title: str) -> None:
    assert rule_of(surface(APPROVAL, title)) == "dialog.approval"


def test_a_dialog_whose_top_is_cut_off_is_a_dialog() -> None:
    assert rule_of(surface(APPROVAL[1:], "host")) == "dialog.cut"
    question = ["   Which name?", "   ❯ [ ] 1. One", "     [ ] 2. Two", "", "  ⠏ Waiting for user confirmation..."]
    seen = surface(question, ASKING)
    assert (rule_of(seen), options_of(seen)) == ("dialog.cut_question", ["One", "Two"])


@each_row(
    ("rows", "kind"),
    [
        (["  ? AskUserQuestion Which? ←", "   ❯ 1. Red", "     2. Blue", "  ⠏ Warten..."], BlockKind.QUESTION),
        (["  ? ExitPlanMode Plan: ←", "   › 1. Yes", "     2. No", "  ⠏ Warten..."], BlockKind.PLAN),
        (boxed("?  Shell ls ←", "› 1. Yes, allow once", "  2. No"), BlockKind.APPROVAL),
        (boxed("Connect a Provider", "› Alibaba ModelStudio", corners="┌┐└┘"), BlockKind.AUTH),
        (boxed("Session   Activity", "tab · esc", corners="┌┐└┘"), BlockKind.OTHER),
        (boxed("一个对话框", "› 1. 好"), BlockKind.OTHER),
        (["  Permissions:  Allow", "  › 1. Add a rule", "  Enter to select · Esc to cancel"], BlockKind.OTHER),
    ],
)
def test_a_dialog_that_no_recording_holds_is_a_dialog(rows: list[str], kind: BlockKind) -> None:
    seen = surface(["  > go", *rows])
    assert seen.block is not None
    assert (seen.business_state, seen.block.kind) == (BusinessState.AWAITING_OPERATOR, kind)


def test_a_question_is_told_by_its_tool() -> None:
    seen = surface(["  ? AskUserQuestion Which? ←", "   ❯ 1. Red", "     2. Blue"], "host")
    assert (rule_of(seen), options_of(seen)) == ("dialog.question", ["Red", "Blue"])


def test_the_title_alone_asks_where_nothing_else_is_known() -> None:
    assert rule_of(surface(["  something new", "  y/n"], ASKING)) == "title.asking"


def test_a_composer_that_was_half_painted_over_by_a_dialog_is_none() -> None:
    seen = surface([RULE, "> ", RULE, *boxed("Select Model", "› 1. One")])
    assert seen.business_state is BusinessState.AWAITING_OPERATOR


def test_the_footer_tells_work_while_a_shell_has_the_focus() -> None:
    rows = [*live()[:-1], "  Enter to steer · Ctrl+Q to queue · plan mode (shift + tab to cycle)"]
    assert surface(rows, "host").business_state is BusinessState.WORKING


def test_a_quoted_or_an_old_dialog_above_the_composer_is_none() -> None:
    above = ["  > go", "  ◆\ufe0e It asks:", *(f"  {row}" for row in APPROVAL), *boxed("› 1. Yes")]
    assert surface([*above, *live()]).business_state is BusinessState.IDLE
    assert surface([*above, *live()], WORKING).business_state is BusinessState.WORKING


def test_a_quoted_status_row_is_no_work() -> None:
    quoted = ["  ◆\ufe0e It shows (3s · esc to cancel) then:", "     ⠋ Thinking... (3s · esc to cancel)"]
    assert surface(["  > go", *quoted, *live()]).business_state is BusinessState.IDLE


def test_dialog_words_in_a_draft_are_a_draft() -> None:
    seen = read("qwen", screen(live("› 1. Yes, Waiting for user confirmation...\u200b"), READY))
    assert seen.assessment.business_state is BusinessState.IDLE
    assert seen.draft == "› 1. Yes, Waiting for user confirmation..."


@pytest.mark.parametrize(
    ("row", "context"), [("! ls", "shell_mode"), ("(r:) cargo", "history_search"), ("> /help", "slash_command")]
)
def test_a_composer_in_another_mode_takes_no_prompt(row: str, context: str) -> None:
    seen = surface(["", RULE, row, RULE])
    assert (seen.business_state, seen.input_mode) == (BusinessState.IDLE, InputMode.MODAL)
    assert seen.ui_context == context


def test_a_placeholder_is_no_draft() -> None:
    assert read("qwen", screen(live(), READY)).draft == ""


@pytest.mark.parametrize("rows", [["", ""], [RULE, "> ty"], boxed(">_ Qwen Code (v0.24.4)"), ["$ ls", "a.txt"]])
def test_a_blank_a_torn_or_a_starting_frame_is_unknown(rows: list[str]) -> None:
    assert surface(rows).business_state is BusinessState.UNKNOWN


def test_a_crop_of_a_screen_that_asks_is_never_idle() -> None:
    whole = snapshot_at("qwen", "d_write_80", 22.0)
    for top in range(len(whole.rows)):
        for title in (ASKING, READY, "host"):
            seen = read("qwen", replace(whole, rows=whole.rows[top:], title=title)).assessment
            assert seen.business_state is not BusinessState.IDLE


def test_qwen_is_recognised() -> None:
    assert detect_cli(builtin_profiles(), snapshot_at("qwen", "full", 15.0)) == "qwen"


def test_a_command_of_the_user_that_runs_is_work() -> None:
    running = ["  $ make", "  ⊷ Shell Command make", *live()]
    seen = surface([row.replace("> ", "! ") if row.startswith("> ") else row for row in running])
    assert (seen.business_state, rule_of(seen)) == (BusinessState.WORKING, "item.running")
    assert surface(running).business_state is BusinessState.WORKING
    over = ["  $ make", "  ✓ Shell Command make", "    ⊷ made by a tool", *live()]
    assert surface(over).business_state is BusinessState.IDLE


READER = ["User:  go", "Model:  Done.", "➜ proj · stub-model", "⏸ Ask permissions", RULE, ">    Type your message"]


def test_the_view_for_screen_readers_is_read() -> None:
    seen = surface(READER)
    assert (seen.business_state, seen.is_weak) == (BusinessState.IDLE, True)
    quoting = ["Model:  Look:", *APPROVAL, *READER[2:]]
    assert surface(quoting).business_state is BusinessState.IDLE
    busy = [*READER[:4], "responding Thinking... (2s · esc to cancel)", *READER[4:]]
    assert surface(busy).business_state is BusinessState.WORKING
    asked = [
        *READER[:4],
        "Confirming: Shell touch a ←",
        "1. Yes, allow once",
        "loading Waiting for user confirmation...",
    ]
    assert surface(asked, ASKING).business_state is BusinessState.AWAITING_OPERATOR
    assert surface(asked).business_state is not BusinessState.IDLE
    assert surface(READER, ASKING).business_state is BusinessState.AWAITING_OPERATOR
