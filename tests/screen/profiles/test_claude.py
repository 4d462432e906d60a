"""The profile of Claude Code: named frames of recordings, and screens that try to fool it."""

from __future__ import annotations

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.selection import detect_cli
from tests.each_row import each_row
from tests.screen.profiles.frames import frame_at, options_of, read, rule_of, screen, snapshots

WIDTH = 60
RULE, PANEL = "─" * WIDTH, "▔" * WIDTH
MANUAL = "  ⏸ manual mode on"
ENDED = "✻ Cooked for 8s · done 6:01 PM"
STOPPED = "  ⎿  Interrupted · What should Claude do instead?"
AGENTS = "✻ Waiting for 2 background agents to finish"
HEAD = [" ▐▛███▛█   Claude Code v2.1.325", "▝▜██████▀  Opus 5.5 · API Usage Billing", " ▝▝   ▝▝   /home/me/proj", ""]
BASH = [
    RULE, " Bash command", " Make a file", "╌" * WIDTH, " touch made.txt", "╌" * WIDTH, " Do you want to proceed?",
    " ❯ 1. Yes", "   2. Yes, and don't ask again for touch commands in", "      /home/me/proj", "   3. No", "",
    " Esc to cancel · Tab to amend",
]  # fmt: skip
PLAN = [
    PANEL, "   Ready to code?", "   1. Change it", "   Claude has written up a plan and is ready to",
    "   execute. Would you like to proceed?", "", "   ❯ 1. Yes, and use auto mode",
    "     2. Tell Claude what to change",
]  # fmt: skip
QUESTION = [
    RULE,
    " ☐ Colour",
    "",
    "Which one?",
    "",
    "❯ 1. Red",
    "     a warm one",
    "  2. Blue",
    "",
    "Enter to select · Esc to cancel",
]
VIEW = [RULE, "  Showing detailed transcript · ctrl+o to toggle · ? for shortcuts"]
LOGIN = [PANEL, "   Login", "", "   Select login method:", "", "   ❯ 1. Claude account · Team"]
QUOTA = [PANEL, "   What do you want to do?", "", "   ❯ 1. Stop and wait for limit to reset"]
SERVER = [RULE, "  New MCP server found in this project: x", "", "    Use it", "  ❯ Continue without it"]
IMPORTS = [RULE, "  Allow external CLAUDE.md file imports?", "    /etc/hostname", "", "  ❯ No", "    Yes, allow it"]
BYPASS = [RULE, "  WARNING: Claude Code running in Bypass Permissions mode", "", "  ❯ No, exit", "    Yes, I accept"]
ROOT = [RULE, "  Something new", "", "  ❯ Go on", "    Stop", "", "  Enter to confirm · Esc to cancel"]
TRUST = [RULE, " Quick safety check", "", " ❯ No, exit", "   Yes, I trust this folder"]
TRUST_NUMBERED = [
    RULE, " Accessing workspace:", " Quick safety check", "", " ❯ 1. Yes, I trust this folder", "   2. No, exit", "",
    " Enter to confirm · Esc to cancel",
]  # fmt: skip
API_KEY = [RULE, "  Do you want to use this API key?", "", "  ❯ Yes", "    No (recommended)"]
REWIND = [PANEL, "   Rewind", "", "   ❯ (current)"]
CONFIG = [PANEL, "   Settings  Status   Config", "", "   ↓ 37 more"]
HELP = [PANEL, "   Help  General", "", "   Esc to cancel"]
DIALOGS = [BASH, BASH[1:], PLAN, PLAN[1:], QUESTION, QUESTION[2:], LOGIN, QUOTA, SERVER, ROOT, REWIND, CONFIG, HELP]
STREAMING = ["❯ tell me", "", "● Here it comes.", "  - one", "  - two"]


def composer(draft: str = "", *footer: str) -> list[str]:
    return [RULE, f"❯ {draft}", RULE, *(footer or (MANUAL,))]


def surface(*rows: str, title: str = "✳ Claude Code") -> SurfaceAssessment:
    return read("claude", screen(rows, title, WIDTH)).assessment


def indented(rows: list[str]) -> list[str]:
    """The rows as they stand in an answer of the model."""
    return [f"  {row}" for row in rows]


IDLE, WORKING, ASKS = BusinessState.IDLE, BusinessState.WORKING, BusinessState.AWAITING_OPERATOR


@each_row(
    ("name", "t", "state", "rule", "context"),
    [
        ("d_bash", 1.8, IDLE, "footer.ready", "normal_prompt"),
        ("d_bash", 3.2, IDLE, "transcript.fresh", "normal_prompt"),
        ("d_bash", 7.6, WORKING, "footer.interruptible", "normal_prompt"),
        ("d_bash", 14.0, ASKS, "dialog.approval", "approval_prompt"),
        ("d_bash", 29.0, IDLE, "composer.ended", "normal_prompt"),
        ("d_draft", 11.7, WORKING, "status.spinner", "normal_prompt"),
        ("d_draft", 33.2, IDLE, "composer.ended", "normal_prompt"),
        ("d_bg", 24.0, IDLE, "composer.background", "background_task"),
        ("d_agent_120", 42.9, WORKING, "footer.interruptible", "normal_prompt"),
        ("d_compact_80", 21.2, WORKING, "footer.interruptible", "normal_prompt"),
        ("d_compact_80", 30.9, IDLE, "composer.stopped", "normal_prompt"),
        ("d_queue", 12.3, WORKING, "footer.interruptible", "normal_prompt"),
        ("d_quote", 12.0, WORKING, "footer.interruptible", "normal_prompt"),
        ("d_quote", 21.0, IDLE, "composer.ended", "normal_prompt"),
        ("d_menus_80", 4.0, IDLE, "composer.slash", "slash_command"),
        ("d_menus_80", 9.4, ASKS, "dialog.picker", "selection_menu"),
        ("d_menus_80", 26.4, ASKS, "dialog.list", "selection_menu"),
        ("error500", 13.4, WORKING, "footer.interruptible", "normal_prompt"),
        ("hang0", 40.0, WORKING, "footer.interruptible", "normal_prompt"),
        ("tmuxenv_220", 46.4, BusinessState.UNKNOWN, "no_rule", "unknown"),
    ],
)
def test_frames_of_recordings_say_what_was_the_case(
    name: str, t: float, state: BusinessState, rule: str, context: str
) -> None:
    said = frame_at("claude", name, t).assessment
    assert (said.business_state, rule_of(said), said.ui_context) == (state, rule, context)


AUTO = "Yes, and switch to auto mode · auto mode handles these prompts for you"
EDITS = "Yes, and switch to accept edits (auto-approve file edits and common file commands) for this session"


@each_row(
    ("name", "t", "kind", "options", "selected"),
    [
        ("d_dialog_esc_80", 16.8, BlockKind.APPROVAL, ["Yes", AUTO, "No"], "Yes"),
        ("d_write_80", 14.8, BlockKind.APPROVAL, ["Yes", EDITS, "No"], "Yes"),
        ("d_edit", 15.4, BlockKind.APPROVAL, ["Yes", EDITS, "No"], "Yes"),
        ("d_ask", 14.0, BlockKind.QUESTION, ["Red", "Blue", "Type something.", "Chat about this"], "Red"),
        ("d_ask_multi", 24.7, BlockKind.QUESTION, ["Submit answers", "Cancel"], "Submit answers"),
        (
            "d_plan",
            13.8,
            BlockKind.PLAN,
            ["Yes, and use auto mode", "Yes, manually approve edits", "Tell Claude what to change"],
            "Yes, and use auto mode",
        ),
        ("firstrun", 4.6, BlockKind.TRUST, ["No, exit", "Yes, I trust this folder"], "No, exit"),
        ("firstrun", 10.2, BlockKind.AUTH, ["Yes", "No (recommended)"], "No (recommended)"),
        (
            "firstrun",
            15.9,
            BlockKind.OTHER,
            ["Yes, set auto mode as my default permission mode", "No, keep manual mode"],
            "Yes, set auto mode as my default permission mode",
        ),
        ("d_menus_80", 9.4, BlockKind.OTHER, ["Default (recommended)", "Opus", "Fable"], "Default (recommended)"),
    ],
)
def test_a_dialog_tells_its_kind_and_its_options(
    name: str, t: float, kind: BlockKind, options: list[str], selected: str
) -> None:
    said = frame_at("claude", name, t).assessment
    assert said.block is not None
    assert (said.block.kind, options_of(said), said.input_mode) == (kind, options, InputMode.MODAL)
    assert [option.text for option in said.block.options if option.is_selected] == [selected]


def test_the_excerpt_of_an_approval_holds_the_command_and_nothing_of_the_transcript() -> None:
    excerpt = frame_at("claude", "d_bash", 14.0).assessment.operator_excerpt or ""
    assert "Bash command" in excerpt
    assert "Do you want to proceed?" in excerpt
    assert "SCN:DBASH" not in excerpt


@each_row(
    ("name", "t", "end"),
    [
        ("d_bash", 29.0, TurnEnd.COMPLETED),
        ("d_bash", 14.0, None),
        ("d_bash", 22.6, None),
        ("interrupt", 16.9, TurnEnd.INTERRUPTED),
        ("d_dialog_esc_80", 31.1, TurnEnd.INTERRUPTED),
        ("interrupt", 8.9, None),
        ("d_agent_120", 42.9, None),
    ],
)
def test_the_latest_turn_tells_its_end(name: str, t: float, end: TurnEnd | None) -> None:
    assert frame_at("claude", name, t).assessment.turn_end is end


@each_row(
    ("name", "t", "draft"),
    [
        ("d_draft", 11.7, "and then also update the readme"),
        ("d_draft", 18.0, None),
        ("interrupt", 8.9, "SCN:THINK long"),
        ("d_queue", 12.3, ""),  # a placeholder: "Press up to edit queued messages"
        ("d_bash", 1.8, ""),
    ],
)
def test_the_draft_is_what_somebody_typed(name: str, t: float, draft: str | None) -> None:
    assert frame_at("claude", name, t).draft == draft


def test_a_draft_of_several_rows_loses_the_indent_of_the_composer() -> None:
    rows = [*HEAD, RULE, "❯ line one", "  line two", RULE, MANUAL]
    assert read("claude", screen(rows, columns=WIDTH)).draft == "line one\nline two"


@pytest.mark.parametrize(("name", "start", "end"), [("hang0", 14.0, 45.0), ("d_calm", 28.0, 60.0)])
def test_the_masked_text_of_a_quiet_screen_stands_still(name: str, start: float, end: float) -> None:
    keys = {read("claude", snapshot).projection.key for snapshot in snapshots("claude", name, start, end)}
    assert len(keys) == 1


# What looks like something else


def test_a_quoted_dialog_above_the_composer_is_prose() -> None:
    answer = ["❯ how does it ask?", "", "● It shows this:", *indented(BASH), "", ENDED]
    assert rule_of(surface(*answer, *composer())) == "composer.ended"
    assert rule_of(surface(*answer[:-1], *composer("", f"{MANUAL} · esc to interrupt"))) == "footer.interruptible"


@pytest.mark.parametrize("quoted", [BASH, [row.strip() for row in BASH[6:]], PLAN])
def test_a_quoted_dialog_on_a_torn_frame_that_lost_its_composer_is_unknown(quoted: list[str]) -> None:
    said = surface("❯ how does it ask?", "", "● It shows this:", *indented(quoted), "", "", "")
    assert said.business_state is BusinessState.UNKNOWN


@each_row("hint", ["esc to interrupt", "ctrl+t to show tasks", "↓ to manage"])
@each_row("draft", ["1. Yes and then", "words"])
def test_a_torn_composer_is_no_dialog(draft: str, hint: str) -> None:
    torn = surface(*STREAMING, RULE, f"❯ {draft}", f"{MANUAL} · {hint}")
    assert torn.business_state is BusinessState.UNKNOWN


def test_a_blank_screen_is_unknown() -> None:
    assert surface("", "", "").business_state is BusinessState.UNKNOWN


@each_row("rows", [*(dialog[1:] for dialog in DIALOGS), TRUST[1:], API_KEY[1:], [" ❯ main"]])
def test_words_of_a_dialog_in_the_status_line_of_the_user_are_no_dialog(rows: list[str]) -> None:
    assert surface(*STREAMING, "", ENDED, *composer("", *rows, MANUAL)).business_state is IDLE


@pytest.mark.parametrize(
    "draft", ["1. Yes", "Do you want to proceed? Esc to cancel", "esc to interrupt", "✻ Baked for 2s"]
)
def test_words_of_a_dialog_in_a_draft_are_a_draft(draft: str) -> None:
    rows = [*STREAMING, "", ENDED, *composer(draft)]
    reading = read("claude", screen(rows, columns=WIDTH))
    assert (rule_of(reading.assessment), reading.draft) == ("composer.ended", draft)


@each_row("old", [*DIALOGS, VIEW, [*VIEW[:1], f"{VIEW[1]} · dialog waiting"], [ENDED, *VIEW]])
def test_an_old_dialog_above_a_composer_is_not_asked_again(old: list[str]) -> None:
    """As the scrollback of a pane without an alternate screen may hold it, at the left edge."""
    said = surface(*old, "", *composer("", f"{MANUAL} · ? for shortcuts"))
    assert said.business_state is IDLE
    assert said.block is None
    assert said.input_mode is InputMode.FREEFORM


def test_text_that_flows_under_a_draft_is_a_weak_idle() -> None:
    said = surface(*STREAMING, "", *composer("and then"))
    assert (said.business_state, said.is_weak, said.turn_end) == (IDLE, True, None)


@each_row(
    "footer",
    [
        ["  ctx 42% | main", MANUAL],
        ["  -- INSERT -- ⏸ manual mode on"],
        ["  ⏵⏵ accept edits on (shift+tab to cycle)"],  # so it looks with a status line that prints nothing
        ["  Press Ctrl-C again to exit"],
        ["  ! for shell mode"],
    ],
)
def test_a_footer_without_hints_proves_idle_only_with_the_end_of_the_turn(footer: list[str]) -> None:
    assert surface(*STREAMING, *composer("", *footer)).is_weak
    ended = surface(*STREAMING, "", ENDED, " " * 30 + "◐ medium · /effort", *composer("", *footer))
    assert (ended.business_state, ended.is_weak, ended.turn_end) == (IDLE, False, TurnEnd.COMPLETED)


@each_row("mark", [ENDED, f"{ENDED} · 1 shell still running", STOPPED, AGENTS])
@each_row("below", [["❯ next"], ["❯ next", "", "● So"], ["● Background command finished", "  So"]])
def test_the_end_of_an_older_turn_proves_nothing(below: list[str], mark: str) -> None:
    said = surface(*HEAD, *STREAMING, "", mark, "", *below, *composer("draft"))
    assert (rule_of(said), said.is_weak, said.turn_end) == ("composer.bare", True, None)


def test_the_end_of_a_turn_that_somebody_scrolled_to_proves_nothing() -> None:
    scrolled = surface(*STREAMING, "", f"{ENDED}      Jump to bottom (ctrl+End) ↓", *composer("draft"))
    assert (scrolled.business_state, scrolled.turn_end) == (BusinessState.UNKNOWN, None)


def test_agents_that_go_on_by_themselves_are_no_end_of_the_turn() -> None:
    waiting = [
        *STREAMING,
        "",
        AGENTS,
        *composer("", f"{MANUAL} · ? for shortcuts"),
    ]
    said = surface(*waiting)
    assert (said.business_state, said.ui_context, said.is_weak, said.turn_end) == (IDLE, "background_task", True, None)
    assert (
        rule_of(surface(*waiting[:-4], "", "● Agent finished · 3s", "* Cooking… (2s)", *composer())) == "status.spinner"
    )


@each_row(
    "rows",
    [
        ["✢ Pondering… (3s · ↓ 30 tokens)", "  ⎿  Tip: a tip"],
        ["* Fixing the bug…"],
        ["✻ API error · Retrying in 1s · attempt 1/3"],
        ["✻ Waiting for API response · will retry in 3m 50s · check your network"],
        ["· Compacting conversation… (7s · ↓ 8 tokens)"],
        ["✽ Doing… (9s)", *(f"  ☐ thing {number}" for number in range(12))],
    ],
)
def test_the_spinner_line_is_work_whatever_the_footer_says(rows: list[str]) -> None:
    assert surface("❯ do it", "", *rows, *composer("a draft", "  ctx 42%", MANUAL)).business_state is WORKING


@pytest.mark.parametrize(
    "footer", [f"{MANUAL} · esc to interrupt · ← for a…", f"{MANUAL} · 2 shells · esc to int…", "  esc to interrupt"]
)
def test_a_footer_that_is_cut_still_says_that_it_can_be_interrupted(footer: str) -> None:
    assert surface(*STREAMING, *composer("", footer)).business_state is WORKING


def test_the_title_of_other_versions_spins_while_it_works() -> None:
    assert surface(*STREAMING, *composer("draft"), title="⠐ A name").business_state is WORKING
    assert surface(*STREAMING, *composer("draft"), title="✳ A name").is_weak


@pytest.mark.parametrize("mark", [STOPPED, "● User declined to answer questions"])
def test_a_turn_that_was_stopped_is_over(mark: str) -> None:
    said = surface(*STREAMING, mark, "", *composer("draft", "  ctx 42%", MANUAL))
    assert (rule_of(said), said.is_weak, said.turn_end) == ("composer.stopped", False, TurnEnd.INTERRUPTED)


def test_a_change_that_a_person_refused_ends_the_turn_unless_something_is_said_below() -> None:
    grey = "  \x1b[38;5;246m⎿ \x1b[38;5;246m User rejected write to \x1b[1mnew.py\x1b[0m"
    rows = ["❯ tell me", "", "● Write(new.py)", grey, "       1 x", ""]
    assert surface(*rows, ENDED, *composer()).turn_end is TurnEnd.INTERRUPTED
    assert surface(*rows, "● Then so.", "", ENDED, *composer()).turn_end is TurnEnd.COMPLETED
    said = ["❯ tell me", "", "● They see:", "  ⎿  User rejected write to new.py", ""]
    assert surface(*said, ENDED, *composer()).turn_end is TurnEnd.COMPLETED


@pytest.mark.parametrize(
    "error",
    [
        "● API Error: Request rejected (429) · rate limited",
        "● Please run /login · API Error: 401",
        "  ⎿  Credit balance too low",
    ],
)
def test_a_turn_that_ended_with_an_error_failed(error: str) -> None:
    rows = ["❯ tell me", "", error, "", ENDED]
    assert surface(*rows, *composer()).turn_end is TurnEnd.FAILED
    assert surface(*rows, "", "❯ again", "", "● Yes.", "", ENDED, *composer()).turn_end is TurnEnd.COMPLETED


# Dialogs that no recording holds


@each_row("cut", range(6))
def test_an_approval_that_lost_its_head_on_a_small_screen_is_still_one(cut: int) -> None:
    said = surface(*BASH[cut:])
    assert said.block is not None
    assert said.block.kind is BlockKind.APPROVAL
    assert options_of(said) == ["Yes", "Yes, and don't ask again for touch commands in /home/me/proj", "No"]


def test_an_option_loses_its_key_hint() -> None:
    rows = [
        " ❯ 1. Yes",
        "   2. Yes, and switch to accept edits for this",
        "      session",
        "      (shift+tab)",
        "   3. No, tell it why (esc)",
    ]
    assert options_of(surface("● So", RULE, " Fetch", *rows)) == [
        "Yes",
        "Yes, and switch to accept edits for this session",
        "No, tell it why",
    ]


def test_a_cut_plan_is_a_plan() -> None:
    said = surface(*PLAN[1:])
    assert said.block is not None
    assert said.block.kind is BlockKind.PLAN
    assert options_of(said) == ["Yes, and use auto mode", "Tell Claude what to change"]


def test_a_question_that_lost_its_head_is_still_asked() -> None:
    said = surface(*QUESTION[2:])
    assert (said.business_state, options_of(said)) == (ASKS, ["Red", "Blue"])


@each_row(
    ("rows", "kind"),
    [
        (LOGIN, BlockKind.AUTH),
        (QUOTA, BlockKind.QUOTA),
        (PLAN, BlockKind.PLAN),
        (REWIND, BlockKind.OTHER),
        (CONFIG, BlockKind.OTHER),
        (HELP, BlockKind.OTHER),
        ([PANEL, "   Remove it?", "", " ❯ 1. Yes", "   2. No"], BlockKind.OTHER),
    ],
)
@each_row("head", [PANEL, "▔▔▔▔▔▔▔▔▔ ◐ medium · /effort ▔", " tmux detected · scroll with PgUp… ▔"])
def test_a_picker_hangs_under_its_rule_even_where_a_notice_stands_in_it(
    head: str, rows: list[str], kind: BlockKind
) -> None:
    said = surface("● So", "", ENDED, head, *rows[1:])
    assert said.block is not None
    assert said.block.kind is kind


@each_row(
    ("rows", "kind", "options"),
    [
        (TRUST, BlockKind.TRUST, ["No, exit", "Yes, I trust this folder"]),
        (TRUST_NUMBERED, BlockKind.TRUST, ["Yes, I trust this folder", "No, exit"]),
        (SERVER, BlockKind.TRUST, ["Use it", "Continue without it"]),
        (IMPORTS, BlockKind.TRUST, ["No", "Yes, allow it"]),
        (BYPASS, BlockKind.TRUST, ["No, exit", "Yes, I accept"]),
        (API_KEY, BlockKind.AUTH, ["Yes", "No (recommended)"]),
        (ROOT, BlockKind.OTHER, ["Go on", "Stop"]),
    ],
)
def test_a_dialog_at_the_start_has_options_without_numbers(
    rows: list[str], kind: BlockKind, options: list[str]
) -> None:
    said = surface("", *rows, title="host")
    assert said.block is not None
    assert (said.block.kind, options_of(said)) == (kind, options)


@pytest.mark.parametrize(
    "rows",
    [
        [" A server asks for your name", "", "   ❯ Name: ", "     Email:"],
        [" Something new", " words", "", " Enter to confirm · Esc to go back"],
        ["  Search prompts", "  No history yet", "  ↑/↓ to nav · Enter to use · Esc to cancel"],
    ],
)
def test_an_unknown_dialog_is_one_by_its_shape(rows: list[str]) -> None:
    said = surface("● So", "", RULE, *rows)
    assert said.block is not None
    assert said.block.kind is BlockKind.OTHER


def test_a_question_that_waits_for_a_pause_in_the_typing_is_blocked_with_an_open_composer() -> None:
    said = surface("❯ do it", "", "● So", "", "  Waiting for permission…", *composer("xx"))
    assert (said.business_state, said.input_mode) == (ASKS, InputMode.FREEFORM)


def test_the_transcript_view_is_closed_to_input() -> None:
    over = surface(*STREAMING, "", ENDED, "", *VIEW)
    assert (over.business_state, over.input_mode) == (IDLE, InputMode.CLOSED)
    for rows in (STREAMING, ["● Old.", ENDED, *STREAMING]):
        assert surface(*rows, "", *VIEW).business_state is BusinessState.UNKNOWN
    waits = surface(*STREAMING, RULE, "  Showing detailed transcript · dialog waiting · ctrl+o to toggle")
    assert waits.business_state is ASKS


def test_the_board_of_sessions_takes_no_prompt_for_this_one() -> None:
    rows = ["✻ Scripted session  Words.       0s", *composer("", "  enter to return · ? for shortcuts")]
    assert surface(*rows).input_mode is InputMode.MODAL
    assert surface(*rows[:-1], MANUAL, title="1 awaiting input · claude agents").input_mode is InputMode.MODAL


def test_rows_below_the_footer_that_have_the_keys_take_no_prompt() -> None:
    rows = composer("", "  ↑/↓ to select", "", "❯ ● main", "  ◯ general-purpose  sub task")
    said = surface(*STREAMING, "", ENDED, *rows)
    assert (said.business_state, said.input_mode) == (IDLE, InputMode.MODAL)
    assert surface(*STREAMING, *rows).is_weak


def test_the_list_of_slash_commands_hides_work_and_is_weak() -> None:
    said = surface("❯ do it", "", "  ❯ /add-dir   Add a directory", "    /agents", *composer("/a"))
    assert (said.ui_context, said.input_mode, said.is_weak) == ("slash_command", InputMode.MODAL, True)


def test_a_shell_that_runs_in_the_background_is_told_by_the_footer_alone() -> None:
    said = surface("● So", *composer("", f"{MANUAL} · 1 shell · ↓ to manage"))
    assert (said.business_state, said.ui_context, said.is_weak) == (IDLE, "background_task", False)


@pytest.mark.parametrize(
    ("rows", "title", "cli"),
    [
        (HEAD, "", "claude"),
        (composer(), "", "claude"),
        (composer("", "  ? for shortcuts"), "⠐ A name", "claude"),
        (["$ echo Claude Code v2.1.3", "Claude Code v2.1.3"], "", None),
    ],
)
def test_the_pane_is_recognised(rows: list[str], title: str, cli: str | None) -> None:
    assert detect_cli(builtin_profiles(), screen(rows, title, WIDTH)) == cli


def test_an_answer_that_begins_like_the_spinner_is_over_with_its_turn() -> None:
    rows = ["❯ show me", "", "● ✻ Churning… (3s · esc to interrupt)", "  ✶ Puttering… (12s · ↓ 38 tokens)", ""]
    assert rule_of(surface(*rows, ENDED, *composer())) == "composer.ended"
    assert rule_of(surface(*rows, STOPPED, *composer())) == "composer.stopped"


def test_a_spinner_that_tells_how_long_it_thought_is_not_the_mark_of_an_end() -> None:
    said = surface("❯ do it", "", "✻ Churning… (6s · ↓ 38 tokens · thought for 3s)", *composer())
    assert (said.business_state, said.turn_end) == (WORKING, None)


def test_a_command_of_the_user_below_the_mark_is_not_an_ended_turn() -> None:
    said = surface("● So.", "", ENDED, "", "! sleep 60", *composer())
    assert (said.is_weak, said.turn_end) == (True, None)


def test_what_the_tool_says_of_a_mode_is_no_message() -> None:
    notice = ["● Auto mode lets Claude handle permission prompts automatically — Claude checks", "  each tool call."]
    assert rule_of(surface(*HEAD, *notice, *composer())) == "transcript.fresh"
    assert surface(*HEAD, "● Auto-answer.", *composer()).is_weak


def test_a_model_that_is_not_there_fails_the_turn() -> None:
    said = surface(
        "❯ go", "", "● There's an issue with the selected model (x). It may not exist", "", ENDED, *composer()
    )
    assert (said.business_state, said.turn_end) == (IDLE, TurnEnd.FAILED)


@pytest.mark.parametrize("verb", ["Enter", "Exit"])
def test_a_plan_mode_without_a_plan_asks_too(verb: str) -> None:
    rows = ["❯ go", "", RULE, f" {verb} plan mode?", "", "  Claude wants to", "", "  ❯ 1. Yes", "    2. No", ""]
    said = surface(*rows)
    assert said.block is not None
    assert (said.block.kind, options_of(said)) == (BlockKind.PLAN, ["Yes", "No"])
