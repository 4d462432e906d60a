"""The profile of Gemini CLI: named frames of recordings, and screens that try to fool it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.selection import detect_cli
from interlock.screen.snapshot import Snapshot
from tests.each_row import each_row
from tests.screen.profiles.frames import frame_at, options_of, read, rule_of, screen, snapshot_at, snapshots

READY, WORKING, ASKING = "◇  Ready (proj)", "✦  Working… (proj)", "✋  Action Required (proj)"
WIDTH = 60


def prompt(text: str) -> list[str]:
    """A message of the user in the transcript, and the composer: they look the same."""
    return ["▄" * WIDTH, f" > {text}", "▀" * WIDTH]


def live(draft: str = "  Type your message or @path/to/file", status: str = "") -> list[str]:
    """What stands below the transcript where no dialog is open."""
    mode = [status, "─" * WIDTH, " Shift+Tab to accept edits", ""]
    return [*mode, *prompt(draft), " workspace (/directory)      /model", " /home/me/proj                 Auto"]


def box(*rows: str) -> list[str]:
    inside = [f"│ {row:<{WIDTH - 4}} │" for row in rows]
    return [f"╭{'─' * (WIDTH - 2)}╮", *inside, f"╰{'─' * (WIDTH - 2)}╯"]


APPROVAL = box(
    "? Shell  ls", "Allow execution of [Shell]?", "", "● 1. Allow once", "  2. Allow for this session",
    "  3. No, suggest changes (esc)",
)  # fmt: skip


def surface(rows: list[str], title: str = READY) -> SurfaceAssessment:
    return read("gemini", screen(rows, title, WIDTH)).assessment


def untitled(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, title="Gemini CLI (proj)")


@each_row(
    ("name", "t", "state", "rule"),
    [
        ("full", 3.0, BusinessState.IDLE, "composer.ready"),
        ("full", 8.0, BusinessState.WORKING, "title.working"),
        ("full", 18.0, BusinessState.AWAITING_OPERATOR, "dialog.approval"),
        ("d_shell_80", 28.0, BusinessState.WORKING, "title.working"),
        ("d_ask", 20.0, BusinessState.AWAITING_OPERATOR, "dialog.question"),
        ("d_edit_120", 20.0, BusinessState.AWAITING_OPERATOR, "dialog.approval"),
        ("d_trust", 12.0, BusinessState.AWAITING_OPERATOR, "dialog.trust"),
        ("d_trust", 22.0, BusinessState.UNKNOWN, "startup.restarting"),
        ("d_trust", 29.0, BusinessState.IDLE, "composer.ready"),
        ("d_menus_80", 9.0, BusinessState.IDLE, "composer.slash"),
        ("d_menus_80", 14.0, BusinessState.AWAITING_OPERATOR, "dialog.picker"),
        ("d_menus_80", 30.0, BusinessState.AWAITING_OPERATOR, "dialog.picker"),
        ("d_quote_loose_120", 20.0, BusinessState.WORKING, "title.working"),
        ("d_quote_loose_120", 26.0, BusinessState.IDLE, "composer.ready"),
    ],
)
def test_a_frame_is_read(name: str, t: float, state: BusinessState, rule: str) -> None:
    seen = frame_at("gemini", name, t).assessment
    assert (seen.business_state, rule_of(seen)) == (state, rule)


@pytest.mark.parametrize(
    ("name", "t", "kind", "options"),
    [
        ("full", 18.0, "approval", ["Allow once", "Allow for this session", "No, suggest changes"]),
        ("d_ask", 20.0, "question", ["Red", "Blue", "Enter a custom value"]),
        ("d_trust", 12.0, "trust", ["Trust folder (gemini-d_trust)", "Trust parent folder (work)", "Don't trust"]),
        ("d_menus_80", 30.0, "other", ["Auto", "Manual"]),
    ],
)
def test_a_dialog_gives_its_kind_and_its_options(name: str, t: float, kind: str, options: list[str]) -> None:
    seen = frame_at("gemini", name, t).assessment
    assert seen.block is not None
    assert (seen.block.kind, options_of(seen)) == (BlockKind(kind), options)
    assert [option.is_selected for option in seen.block.options] == [True] + [False] * (len(options) - 1)


def test_the_key_of_an_option_is_not_part_of_its_text() -> None:
    block = surface(APPROVAL, ASKING).block
    assert block is not None
    assert (block.options[-1].text, block.options[-1].key) == ("No, suggest changes", "esc")


def test_the_excerpt_is_the_dialog_alone() -> None:
    excerpt = frame_at("gemini", "d_shell_80", 20.0).assessment.operator_excerpt or ""
    assert "Allow execution of [Shell]?" in excerpt
    assert "I will look at the folder" not in excerpt


@each_row(
    ("name", "t", "draft"),
    [
        ("full", 3.0, ""),
        ("full", 4.4, "please SCN:slow"),
        ("d_draft", 15.0, "and then also update the readme"),
        ("d_draft", 23.0, None),
        ("d_draft", 37.0, "and then also update the readme"),
        ("d_menus_80", 9.0, "/theme"),
    ],
)
def test_the_draft_is_what_was_typed(name: str, t: float, draft: str | None) -> None:
    assert frame_at("gemini", name, t).draft == draft


@pytest.mark.parametrize(("name", "t"), [("interrupt", 14.0), ("deny", 8.0), ("d_dialog_intr_80", 27.0)])
def test_a_cancelled_turn_says_so(name: str, t: float) -> None:
    assert frame_at("gemini", name, t).assessment.turn_end is TurnEnd.INTERRUPTED


def test_a_cancelled_turn_whose_prompt_is_out_of_sight_says_so_unless_something_was_said_since() -> None:
    word = "ℹ Request cancelled."
    assert surface(["  some words", "", word, *live()]).turn_end is TurnEnd.INTERRUPTED
    assert surface([word, "✦ Fine.", *live()]).turn_end is None
    assert surface([*prompt("one"), "ℹ A potential loop was detected. The", *live()]).turn_end is TurnEnd.INTERRUPTED


def test_a_turn_that_the_server_cut_says_so_and_the_next_one_does_not() -> None:
    failed = [*prompt("one"), "✦ So", "✕ [API Error: terminated]"]
    assert surface([*failed, *live()]).turn_end is TurnEnd.FAILED
    assert surface([*failed, *prompt("two"), "✦ Fine.", *live()]).turn_end is None


@pytest.mark.parametrize(("name", "start", "end"), [("d_calm_120", 21.5, 99.0), ("d_ask", 19.0, 26.0)])
def test_the_masked_text_of_a_still_screen_does_not_change(name: str, start: float, end: float) -> None:
    assert len({read("gemini", frame).projection.key for frame in snapshots("gemini", name, start, end)}) == 1


def test_a_thought_in_the_title_is_work() -> None:
    assert surface(live(), "✦  Reading the tests").business_state is BusinessState.WORKING


def test_the_screen_decides_where_the_title_is_still() -> None:
    for name, t in (("full", 8.0), ("d_shell_80", 28.0), ("d_quote_loose_120", 20.0)):
        seen = read("gemini", untitled(snapshot_at("gemini", name, t))).assessment
        assert rule_of(seen) == "status.interruptible"
    idle = read("gemini", untitled(snapshot_at("gemini", "full", 13.0))).assessment
    assert (idle.business_state, idle.is_weak) == (BusinessState.IDLE, True)
    asked = read("gemini", untitled(snapshot_at("gemini", "full", 18.0))).assessment
    assert asked.business_state is BusinessState.AWAITING_OPERATOR


def test_a_ready_title_with_a_spinner_below_it_is_work() -> None:
    assert surface(live(status=" ⠙ Thinking... (esc to cancel, 3s)")).business_state is BusinessState.WORKING


def test_a_prompt_in_the_queue_is_work_that_is_due() -> None:
    queued = ["  Queued (press ↑ to edit):", "    please do it"]
    assert rule_of(surface([*queued, *live()])) == "status.queued"


def test_a_silent_command_is_work_though_the_title_asks_for_action() -> None:
    tool = box("⊶  Shell echo started; sleep 70", "started")
    seen = surface([*tool, *live(status=" ! Shell awaiting input (Tab to focus)")], ASKING)
    assert (seen.business_state, rule_of(seen)) == (BusinessState.WORKING, "title.silent_tool")


def test_an_approval_beside_a_composer_that_stayed_is_a_dialog() -> None:
    seen = surface([*prompt("go"), *APPROVAL, *live()], ASKING)
    assert rule_of(seen) == "dialog.beside_composer"
    assert options_of(seen)[0] == "Allow once"


def test_a_dialog_right_below_a_prompt_is_a_dialog_and_the_prompt_is_no_composer() -> None:
    for title in (READY, WORKING, ASKING, "host"):
        seen = read("gemini", screen([*prompt("go"), "", *APPROVAL], title, WIDTH))
        assert seen.assessment.business_state is BusinessState.AWAITING_OPERATOR
        assert seen.draft is None


def test_a_dialog_whose_top_is_cut_off_is_a_dialog() -> None:
    assert rule_of(surface(APPROVAL[1:], ASKING)) == "dialog.cut"
    trust = ["│ Trusting a folder allows much │", "│ ● 1. Trust folder (proj)  │", "│   3. Don't trust   │", "╰──────╯"]
    assert surface([f" {row}" for row in trust]).block is not None
    assert rule_of(surface([f" {row}" for row in trust])) == "dialog.cut_trust"


@each_row(
    ("rows", "kind"),
    [
        (["Usage limit reached for pro.", "● 1. Switch to flash", "  2. Stop"], BlockKind.QUOTA),
        (["? Get started", "  ● 1. Sign in with Google", "How would you like to authenticate?"], BlockKind.AUTH),
        (["⠙ Waiting for authentication... (Press Esc or Ctrl+C to cancel)"], BlockKind.AUTH),
        (["Ready to start implementation?", "● 1.  Yes, automatically accept edits"], BlockKind.PLAN),
        (["? A potential loop was detected", "● 1. Keep loop detection enabled (esc)"], BlockKind.QUESTION),
        (["Do you want to allow this read?", "● 1. Yes", "  2. No"], BlockKind.APPROVAL),
        (["> Some new picker", "● 1. One", "  2. Two"], BlockKind.OTHER),
        (["A new form", "", "(Press Enter to submit, Esc to cancel)"], BlockKind.OTHER),
    ],
)
def test_a_dialog_that_no_recording_holds_is_a_dialog(rows: list[str], kind: BlockKind) -> None:
    seen = surface([*prompt("go"), *box(*rows)])
    assert seen.block is not None
    assert (seen.business_state, seen.block.kind) == (BusinessState.AWAITING_OPERATOR, kind)


def test_a_question_whose_top_is_cut_off_is_a_question() -> None:
    rows = box("Which name?", "● 4. [ ] Enter a custom value", "", "Enter to submit · Tab to switch questions · Esc to")
    seen = surface([*rows[1:-1], "│ cancel │", rows[-1]], "host")
    assert (rule_of(seen), options_of(seen)) == ("dialog.cut_question", ["Enter a custom value"])


def test_a_page_without_a_box_is_a_dialog() -> None:
    rows = ["  No auto-saved conversations found.", "  Press q to exit"]
    assert surface(["✦ So.", *rows]).business_state is BusinessState.AWAITING_OPERATOR


def test_the_title_alone_asks_where_nothing_else_is_known() -> None:
    seen = surface(["Allow execution of [Shell]?", "(checked) 1. Allow once", "2. No, suggest changes"], ASKING)
    assert rule_of(seen) == "title.action_required"


def test_a_slash_command_at_work_is_work_though_the_title_says_ready() -> None:
    busy = ["⠙ Compressing chat history", "", "─" * WIDTH, " Shift+Tab to accept edits", " workspace (/directory)"]
    seen = surface([*prompt("/compress"), *busy])
    assert (seen.business_state, seen.input_mode) == (BusinessState.WORKING, InputMode.CLOSED)


def test_the_session_browser_is_no_composer() -> None:
    browser = [" Chat Sessions (1 total)", " Navigate: ↑/↓   Resume: Enter   Quit: q", " ❯ #1  │ 3  │ a session"]
    assert surface([*prompt("/resume"), "", *browser]).business_state is not BusinessState.IDLE


def test_a_quoted_or_an_old_dialog_above_the_composer_is_none() -> None:
    quoted = [*prompt("go"), "✦ It asks:", *(f"  {row}" for row in APPROVAL)]
    assert surface([*quoted, *live()]).business_state is BusinessState.IDLE
    assert surface([*quoted, *live()], WORKING).business_state is BusinessState.WORKING
    assert surface([*APPROVAL, "✦ Done.", *live()]).business_state is BusinessState.IDLE


def test_a_quoted_status_row_is_no_work() -> None:
    quoted = ["✦ It shows (esc to cancel, 3s) then:", "  ⠙ Thinking... (esc to cancel, 3s)"]
    assert surface([*prompt("go"), *quoted, *live()]).business_state is BusinessState.IDLE


def test_dialog_words_in_a_draft_are_a_draft() -> None:
    seen = read("gemini", screen(live("● 1. Allow once (esc to cancel, 3s)"), READY, WIDTH))
    assert seen.assessment.business_state is BusinessState.IDLE
    assert seen.draft == "● 1. Allow once (esc to cancel, 3s)"


def test_a_draft_may_have_blank_rows() -> None:
    rows = [*live()[:4], "▄" * WIDTH, " > one", "", "   two", "▀" * WIDTH]
    assert read("gemini", screen(rows, READY, WIDTH)).draft == "one\n\ntwo"


@pytest.mark.parametrize("mark", [">", "*"])
def test_the_composer_of_lines_is_a_composer(mark: str) -> None:
    rows = [*live()[:4], "─" * WIDTH, f" {mark} hello", "─" * WIDTH]
    seen = read("gemini", screen(rows, READY, WIDTH))
    assert (seen.assessment.business_state, seen.draft) == (BusinessState.IDLE, "hello")


@pytest.mark.parametrize(
    ("row", "context"),
    [
        (" !   Type your shell command", "shell_mode"),
        (" (r:) cargo", "history_search"),
        (" *   Press 'i' for INSERT mode.", "vim_normal"),
        (" > /model", "slash_command"),
    ],
)
def test_a_composer_in_another_mode_takes_no_prompt(row: str, context: str) -> None:
    seen = surface([*live()[:4], "▄" * WIDTH, row, "▀" * WIDTH])
    assert (seen.business_state, seen.input_mode) == (BusinessState.IDLE, InputMode.MODAL)
    assert seen.ui_context == context


def test_copy_mode_takes_no_prompt() -> None:
    seen = surface(["In Copy Mode. Use Page Up/Down to scroll. Press Ctrl+S or any other key to exit.", *live()])
    assert (seen.ui_context, seen.input_mode) == ("copy_mode", InputMode.MODAL)


def test_a_background_process_is_told() -> None:
    rows = live()
    rows[2] = " Shift+Tab to accept edits             1 Background process"
    seen = surface(rows)
    assert (seen.business_state, seen.ui_context) == (BusinessState.IDLE, "background_task")


def test_placeholders_and_ghost_text_are_no_draft() -> None:
    assert read("gemini", screen(live(), READY, WIDTH)).draft == ""
    ghost = read("gemini", screen(live("hel\x1b[38;2;175;175;175mlo there\x1b[39m"), READY, WIDTH))
    assert ghost.draft == "hel"


def test_a_hung_screen_that_ticks_does_not_change_its_masked_text() -> None:
    ticks = [" ⠙ Thinking... (esc to cancel, 3s)", " ⠹ Reading files (esc to cancel, 1m 4s)"]
    tools = ["⊶  Shell sleep 9", "⊷  Shell sleep 9"]
    screens = [
        screen([*box(tool), *live(status=tick)], WORKING, WIDTH) for tool, tick in zip(tools, ticks, strict=True)
    ]
    assert len({read("gemini", seen).projection.key for seen in screens}) == 1


def test_the_view_for_screen_readers_is_read() -> None:
    rows = ["User:  hello", "Model:  Yes.", "? for shortcuts", "Shift+Tab to accept edits", ">    Type your message"]
    seen = surface(rows)
    assert (seen.business_state, seen.is_weak) == (BusinessState.IDLE, True)
    assert surface(rows, WORKING).business_state is BusinessState.WORKING


def test_a_terminal_without_true_colour_is_read() -> None:
    flat = [*live()[:4], "", " >   Type your message or @path/to/file", ""]
    assert rule_of(surface(flat)) == "flat.ready"
    rows = [*flat, " workspace (/directory)"]
    assert rule_of(surface(rows)) == "composer.ready"
    assert surface(rows, WORKING).business_state is BusinessState.WORKING
    assert read("gemini", screen(rows, READY, WIDTH)).draft == ""
    rows[5] = " > two lines of a draft, with"
    rows[6:6] = ["", "   one that is empty between them"]
    assert (
        read("gemini", screen(rows, READY, WIDTH)).draft
        == "two lines of a draft, with\n\none that is empty between them"
    )
    assert surface(["", " > go", "", *APPROVAL]).business_state is BusinessState.AWAITING_OPERATOR


def test_what_is_left_of_a_taller_composer_below_it_does_not_hide_it() -> None:
    left = ["", "▀" * WIDTH, " workspace (/directory)      /model", " /home/me/proj                 Auto"]
    assert rule_of(surface([*live(), *left])) == "composer.ready"
    assert surface([*live(), *left], WORKING).business_state is BusinessState.WORKING
    assert surface([*prompt("go"), *APPROVAL, "▀" * WIDTH]).business_state is BusinessState.AWAITING_OPERATOR


def test_the_cursor_tells_the_composer_above_the_wreck_of_a_resize() -> None:
    rows = ["✦ Over.", "", *live(), "", "ndbox        /model", " /home/me/proj      no"]
    at_home = screen(rows, READY, WIDTH, cursor=(3, rows.index(live()[5])))
    assert rule_of(read("gemini", at_home).assessment) == "aimed.ready"
    assert (
        read("gemini", replace(at_home, cursor=(0, len(rows) - 1))).assessment.business_state is BusinessState.UNKNOWN
    )


def test_half_blocks_stood_the_other_way_up_in_older_versions() -> None:
    turned = {"▄" * WIDTH: "▀" * WIDTH, "▀" * WIDTH: "▄" * WIDTH}
    rows = [turned.get(row, row) for row in [*prompt("go"), "✦ Done.", *live("a draft")]]
    seen = read("gemini", screen(rows, READY, WIDTH))
    assert (rule_of(seen.assessment), seen.draft) == ("composer.ready", "a draft")


def test_a_dialog_above_a_footer_that_stayed_is_not_part_of_a_composer() -> None:
    footer = ["", "─" * WIDTH, " shift+tab to accept edits", " /home/me/proj    no sandbox (see /docs)   /model Auto"]
    seen = surface(["", " > go", *APPROVAL, *footer], ASKING)
    assert seen.business_state is BusinessState.AWAITING_OPERATOR


def test_the_session_browser_asks() -> None:
    page = [
        *prompt("/resume"), " Chat Sessions (1 total)", " Navigate: ↑/↓   Resume: Enter   Search: /   Quit: q",
        " Sort: s         Reverse: r      First/Last: g/G", "   Index │ Msgs │ Age  │ Name",
        " ❯ #1    │ 3    │ 16s  │ Empty conversation (current)", " ▼",
    ]  # fmt: skip
    assert rule_of(surface(page)) == "dialog.sessions"


def test_the_question_about_a_loop_is_a_question() -> None:
    rows = [f" {row}" for row in box(
        "?  A potential loop was detected", "● 1. Keep loop detection enabled (esc)", "  2. Disable loop detection",
    )]  # fmt: skip
    asked = surface(["✦ Again.", *rows])
    assert asked.block is not None
    assert (asked.block.kind, options_of(asked)[1]) == (BlockKind.QUESTION, "Disable loop detection")


@pytest.mark.parametrize("rows", [["", "", ""], ["▄" * WIDTH, " > ty"], ["│ ● 1. Allow once"], ["$ ls", "a.txt"]])
def test_a_blank_or_torn_frame_is_unknown(rows: list[str]) -> None:
    assert surface(rows).business_state is BusinessState.UNKNOWN


def test_a_crop_of_a_working_screen_is_never_idle() -> None:
    whole = snapshot_at("gemini", "d_quote_loose_120", 20.0)
    for top in range(len(whole.rows)):
        for title in (WORKING, "host"):
            cropped = replace(whole, rows=whole.rows[top:], title=title)
            status_is_gone = not any("esc to cancel" in row.text for row in cropped.rows)
            seen = read("gemini", cropped).assessment
            assert seen.business_state is not BusinessState.IDLE or (status_is_gone and seen.is_weak)


def test_gemini_is_recognised() -> None:
    assert detect_cli(builtin_profiles(), snapshot_at("gemini", "full", 8.0)) == "gemini"
