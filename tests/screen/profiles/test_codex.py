"""The profile of Codex: frames of recordings at named times, and screens made by hand that try to fool it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import msgspec
import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.monitor.scoring.readings import Score, score_recording
from interlock.monitor.scoring.recording import Frame, Header, Record, Truth, read_records
from interlock.monitor.scoring.replay import replay_timeline
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli, select_reader
from tests.screen.profiles.frames import (
    RECORDINGS,
    frame_at,
    options_of,
    read,
    rule_of,
    screen,
    snapshot_at,
    snapshots,
)

IDLE, WORKING, BLOCKED = BusinessState.IDLE, BusinessState.WORKING, BusinessState.AWAITING_OPERATOR
APPROVE = "Yes, proceed"
ALWAYS = "Yes, and don't ask again for commands that start with `{}`"
DENY = "No, and tell Codex what to do differently"
CURL = "curl -sS https:// example.com -o page.html"  # a wrapped row is joined with a blank
PERMISSIONS = ["Ask for approval (current)", "Approve for me", "Full Access", "Read Only"]

HEADER = ("", "  >_ OpenAI Codex (v0.166.0)", "     /home/dev/app", "")
OLD_HEADER = (
    "╭──────────────────────────────╮",
    "│ >_ OpenAI Codex (v0.150.0)   │",
    "╰──────────────────────────────╯",
)
PROMPT = ("", "\x1b[1;2m› \x1b[0mdo it", "")
ANSWER = ("\x1b[2m• \x1b[0mI will look at the folder first.", "  Then I change it.", "")
ENDED = ("\x1b[2m  Worked for 17s • 18:03\x1b[0m", "")
COMPOSER = ("", "\x1b[1m›\x1b[0m \x1b[2mAsk Codex to do anything\x1b[0m", "")
STATUS_LINE = ("  GPT-5.5 default · /home/dev/app",)
FOOTER = (*STATUS_LINE, "  ? for shortcuts")
DIALOG = (
    "  Would you like to run the following command?",
    "",
    "  $ touch made.txt",
    "",
    "\x1b[1;7m› 1. Yes, proceed (y)\x1b[0m",
    "  2. Yes, and don't ask again for commands that start with `touch` (p)",
    "  3. No, and tell Codex what to do differently (esc)",
    "",
    "  Press enter to confirm or esc to cancel",
)


def codex(*rows: str, title: str = "app", command: str | None = "codex", version: str = "0.166.0") -> ScreenReading:
    """Rows, read as a pane of Codex whose cursor stands in the lowest row that begins with a prompt mark."""
    plain = screen(rows).rows
    at = max((number for number, row in enumerate(plain) if row.text[:1] in ("›", "!")), default=len(rows) - 1)
    cursor = (2, at)
    reader = select_reader(builtin_profiles(), "codex", version)
    return reader.parse_snapshot(screen(rows, title=title, cursor=cursor, command=command))


@pytest.mark.parametrize(
    ("name", "t", "state", "mode", "rule"),
    [
        ("full_80", 0.9, BusinessState.UNKNOWN, InputMode.UNKNOWN, "no_rule"),  # a composer, and no session yet
        ("full_80", 2.5, IDLE, InputMode.FREEFORM, "composer.fresh"),
        ("full_80", 6.5, IDLE, InputMode.MODAL, "composer.slash"),
        ("full_80", 13.0, WORKING, InputMode.FREEFORM, "title.spinner"),
        ("full_80", 29.0, IDLE, InputMode.FREEFORM, "composer.ended"),
        ("full_80", 42.866, BusinessState.UNKNOWN, InputMode.UNKNOWN, "pane.shell"),
        ("d_quote", 15.0, WORKING, InputMode.FREEFORM, "title.spinner"),
        ("d_quote", 18.5, IDLE, InputMode.FREEFORM, "composer.ended"),
        ("d_quote_loose_120", 17.0, IDLE, InputMode.FREEFORM, "composer.ended"),
        ("d_ask", 8.0, IDLE, InputMode.FREEFORM, "composer.ready"),  # after /plan: said, but not asked
        ("d_queue", 14.0, WORKING, InputMode.FREEFORM, "title.spinner"),
        ("error500", 5.3, WORKING, InputMode.FREEFORM, "title.spinner"),
        ("error500", 7.5, IDLE, InputMode.FREEFORM, "composer.stopped"),
        ("interrupt", 24.5, IDLE, InputMode.FREEFORM, "composer.stopped"),
    ],
)
def test_a_recorded_screen_without_a_dialog(
    name: str, t: float, state: BusinessState, mode: InputMode, rule: str
) -> None:
    surface = frame_at("codex", name, t).assessment
    assert (surface.business_state, surface.input_mode, rule_of(surface)) == (state, mode, rule)


@pytest.mark.parametrize(
    ("name", "t", "kind", "options"),
    [
        ("d_bash_120", 13.0, BlockKind.APPROVAL, [APPROVE, ALWAYS.format("sleep 2"), DENY]),
        ("d_network_80", 13.0, BlockKind.APPROVAL, [APPROVE, ALWAYS.format(CURL), DENY]),
        ("d_patch_80", 13.0, BlockKind.APPROVAL, [APPROVE, "Yes, and don't ask again for these files", DENY]),
        ("d_ask", 17.0, BlockKind.QUESTION, ["Red", "Blue", "Green", "None of the above"]),
        ("d_ask", 25.0, BlockKind.QUESTION, ["File", "Table", "None of the above"]),
        ("d_trust", 5.0, BlockKind.TRUST, ["Trust and continue", "Quit"]),
        ("migration_dialog", 3.0, BlockKind.UPDATE, ["Try new model", "Use existing model"]),
        ("d_menus_80", 26.0, BlockKind.OTHER, PERMISSIONS),
    ],
)
def test_a_recorded_dialog(name: str, t: float, kind: BlockKind, options: list[str]) -> None:
    reading = frame_at("codex", name, t)
    surface = reading.assessment
    assert surface.block is not None
    assert (surface.business_state, surface.block.kind, options_of(surface)) == (BLOCKED, kind, options)
    assert surface.input_mode is InputMode.MODAL
    assert reading.draft is None


def test_the_excerpt_of_a_dialog_leaves_the_transcript_out() -> None:
    excerpt = frame_at("codex", "d_bash_120", 13.0).assessment.operator_excerpt or ""
    assert excerpt.startswith("Would you like to run the following command?")
    assert "$ sleep 2; touch made.txt; echo hi" in excerpt


def test_the_selected_option_and_the_keys_of_options_are_told() -> None:
    block = frame_at("codex", "d_prefix", 20.5).assessment.block
    assert block is not None
    assert [(option.is_selected, option.key) for option in block.options] == [(False, "y"), (True, "p"), (False, "esc")]


@pytest.mark.parametrize(
    ("name", "t", "draft"),
    [
        ("full_80", 2.5, ""),
        ("full_80", 4.0, "a draft that is not sent"),
        ("d_draft", 10.0, "and then also update the readme"),
        ("d_draft", 15.0, None),
        ("d_draft", 30.0, "and then also update the readme"),
        ("d_menus_80", 5.5, "/model"),
    ],
)
def test_the_draft_is_what_was_typed(name: str, t: float, draft: str | None) -> None:
    assert frame_at("codex", name, t).draft == draft


@pytest.mark.parametrize(
    ("name", "t", "end"),
    [
        ("full_80", 29.0, TurnEnd.COMPLETED),
        ("full_80", 33.0, None),  # the next turn streams below the mark of the first
        ("interrupt", 6.5, TurnEnd.INTERRUPTED),
        ("interrupt", 11.5, None),
        ("d_network_80", 22.0, TurnEnd.INTERRUPTED),
        ("error500", 7.5, TurnEnd.FAILED),
        ("cut", 8.0, TurnEnd.FAILED),
        ("d_calm", 30.0, TurnEnd.COMPLETED),
    ],
)
def test_how_the_latest_turn_ended(name: str, t: float, end: TurnEnd | None) -> None:
    assert frame_at("codex", name, t).assessment.turn_end is end


@pytest.mark.parametrize(
    ("name", "start", "end"), [("d_calm", 13.5, 60.0), ("d_ask", 17.0, 23.0), ("full_80", 21.0, 22.5)]
)
def test_a_screen_on_which_only_counters_and_spinners_move_keeps_its_key(name: str, start: float, end: float) -> None:
    keys = {read("codex", snapshot).projection.key for snapshot in snapshots("codex", name, start, end)}
    assert len(keys) == 1


def test_the_prompts_of_the_user_are_known_by_their_rows() -> None:
    reading = frame_at("codex", "interrupt", 24.5)
    assert [reading.projection.rows[row] for row in sorted(reading.projection.prompt_rows)] == [
        "› SCN:THINK long",
        "› SCN:SLOW long",
        "› SCN:LONGTOOL go",
    ]


@pytest.mark.parametrize(("name", "t"), [("full_80", 0.9), ("full_80", 33.0), ("d_patch_80", 12.0)])
def test_a_pane_of_codex_is_detected_at_its_start_in_a_turn_and_in_a_dialog(name: str, t: float) -> None:
    assert detect_cli(builtin_profiles(), snapshot_at("codex", name, t)) == "codex"


# Screens made by hand.


def test_a_dialog_that_an_answer_quotes_is_not_one() -> None:
    surface = codex(*HEADER, *PROMPT, *ANSWER, *DIALOG, "", *ENDED, *COMPOSER, *FOOTER).assessment
    assert rule_of(surface) == "composer.ended"


def test_an_old_dialog_above_is_not_open() -> None:
    surface = codex(*HEADER, *DIALOG, *PROMPT, *ANSWER, *ENDED, *COMPOSER, *FOOTER).assessment
    assert surface.business_state is IDLE


def test_a_draft_may_hold_the_words_of_a_dialog() -> None:
    draft = ("\x1b[1m›\x1b[0m it asks", "  1. Yes · /no", "  Press enter to confirm or esc to cancel")
    reading = codex(*HEADER, *draft, "", *STATUS_LINE)
    assert reading.assessment.business_state is not BLOCKED
    numbered = ("\x1b[1m›\x1b[0m 1. Yes, proceed", "  2. esc to cancel")
    assert codex(*HEADER, *numbered, "", *STATUS_LINE).draft == "1. Yes, proceed\n2. esc to cancel"


def test_the_shell_mode_has_a_composer_too() -> None:
    reading = codex(*HEADER, *PROMPT, *ENDED, "", "! ls", "", *STATUS_LINE, "        Shell mode")
    assert (reading.assessment.business_state, reading.draft) == (IDLE, "! ls")


@pytest.mark.parametrize("rows", range(1, 13))
def test_a_torn_frame_is_never_idle(rows: int) -> None:
    whole = (*HEADER, *PROMPT, *ANSWER, *COMPOSER, *FOOTER)
    assert codex(*whole[:rows]).assessment.business_state is BusinessState.UNKNOWN


def test_a_low_pane_cuts_options_and_keeps_the_hint() -> None:
    rows = ("", *DIALOG[:5], "  2. Yes, and don't ask again for commands that start with", "     `touch` (p)", "↓")
    surface = codex(*rows, "  Press enter to confirm or esc to", "  cancel").assessment
    assert rule_of(surface) == "dialog.approval"
    assert options_of(surface) == [APPROVE, "Yes, and don't ask again for commands that start with `touch`"]


@pytest.mark.parametrize(
    "hint",
    [
        "  enter select · esc back",
        "  enter/esc confirm · ^c quit",
        "  left/right group · / search · enter open · esc clear search/close",
        "  Press enter to select reasoning effort, or esc to dismiss.",
        "  tab or esc to clear notes | enter to submit answer",
        " enter resume   ^a archive   esc exit   ^c exit   tab focus",
    ],
)
def test_a_dialog_that_nobody_described_is_known_by_its_chrome(hint: str) -> None:
    head = ("  Something new wants an answer", "", "\x1b[1;7m› First way\x1b[0m", "  Second way", "")
    surface = codex(*HEADER, *PROMPT, *ANSWER, *head, hint).assessment
    assert (rule_of(surface), surface.business_state) == ("dialog.picker", BLOCKED)


def test_a_dialog_without_room_for_its_hint_is_known_by_its_selected_option() -> None:
    surface = codex(*DIALOG[:6]).assessment
    assert (rule_of(surface), surface.business_state) == ("dialog.cut", BLOCKED)


def test_the_title_alone_tells_that_somebody_is_awaited() -> None:
    surface = codex(*HEADER, *PROMPT, "  A form that nobody knows", title="[ . ] Action Required | a | app").assessment
    assert (rule_of(surface), surface.business_state) == ("title.action_required", BLOCKED)


def test_a_dialog_that_floats_over_the_composer_is_seen() -> None:
    floating = (
        "  • No backgro\x1b[1;7m› 1. Yes, enable\x1b[0m",
        "               2. Not now",
        "          enter select · esc back",
    )
    surface = codex(*HEADER, *floating, "", *COMPOSER, *FOOTER).assessment
    assert (rule_of(surface), surface.input_mode) == ("dialog.floating", InputMode.MODAL)
    quoted = codex(*HEADER, "  › 1. Yes, enable", "    2. Not now", "  enter select · esc back", *COMPOSER, *FOOTER)
    assert quoted.assessment.business_state is IDLE


def test_a_dialog_that_shows_a_status_line_as_its_example_is_open() -> None:
    rows = (
        "\x1b[1;7m› [x] Use theme colors\x1b[0m",
        "  [ ] model",
        "",
        *STATUS_LINE,
        "  space toggle · enter save · esc cancel",
    )
    reading = codex(*HEADER, *rows)
    assert (rule_of(reading.assessment), reading.draft) == ("dialog.picker", None)


def test_the_question_about_a_plan_stands_below_the_mark_of_its_turn() -> None:
    rows = (
        "  Implement this plan?",
        "",
        "\x1b[1;7m› 1. Yes, implement this plan   Start coding\x1b[0m",
        "  2. No, stay in Plan mode",
        "",
    )
    surface = codex(*HEADER, *PROMPT, *ENDED, *rows, "  enter select · esc back").assessment
    assert surface.block is not None
    assert (surface.block.kind, options_of(surface)) == (
        BlockKind.PLAN,
        ["Yes, implement this plan", "No, stay in Plan mode"],
    )


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("  Hooks need review", BlockKind.TRUST),
        ("  Update available · 0.166.0 → 0.167.0", BlockKind.UPDATE),
        ("  Approaching rate limits", BlockKind.QUOTA),
        ("  Do you want to approve network access to example.com?", BlockKind.APPROVAL),
    ],
)
def test_the_head_of_a_dialog_says_what_it_wants(head: str, kind: BlockKind) -> None:
    block = codex(
        *HEADER, head, "", "\x1b[1;7m› 1. Go\x1b[0m", "  2. Skip", "", "  enter confirm · esc skip"
    ).assessment.block
    assert block is not None
    assert block.kind is kind


def test_signing_in_is_known_without_its_hint() -> None:
    rows = (
        "  Welcome to Codex, OpenAI's command-line coding",
        "agent",
        "",
        "> 1. Sign in with ChatGPT",
        "     Usage included",
    )
    surface = codex(*rows, "", "  2. Use an OpenAI API key", title="host").assessment
    assert surface.block is not None
    assert surface.block.kind is BlockKind.AUTH
    assert options_of(surface) == ["Sign in with ChatGPT", "Use an OpenAI API key"]


@pytest.mark.parametrize("picture", [("   _._:=++==+,_", " _=,/*\\+/+|"), ("       /***,", "       |__||")])
def test_a_question_below_a_picture_that_moves_is_the_same_question_at_every_frame(picture: tuple[str, ...]) -> None:
    """Codex 0.120 and 0.144: the question was read as a sign-in, and as a new one at each frame of the picture."""
    asked = (
        "  Welcome to Codex, OpenAI's command-line coding agent",
        "",
        "> You are in /home/dev/app",
        "",
        "  Do you trust the contents of this directory? Working with untrusted contents comes with higher risk.",
        "",
        "\x1b[1m› 1. Yes, continue\x1b[0m",
        "  2. No, quit",
        "",
        "  Press enter to continue",
    )
    surface = codex(*picture, *asked, title="host", version="0.144.5").assessment
    assert (rule_of(surface), surface.block and surface.block.kind) == ("dialog.trust_welcome", BlockKind.TRUST)
    assert options_of(surface) == ["Yes, continue", "No, quit"]
    assert (surface.operator_excerpt or "").startswith("> You are in /home/dev/app")
    signing_in = (*picture, "  Welcome to Codex, OpenAI's command-line coding agent", "> 1. Sign in with ChatGPT")
    assert (codex(*signing_in, title="host").assessment.operator_excerpt or "").startswith("Welcome to Codex")


def test_a_killed_codex_is_not_at_work_for_ever() -> None:
    frozen = (*HEADER, *PROMPT, *ANSWER, "", "› Terminatedto do anything", "sh>", *FOOTER)
    surface = codex(*frozen, title="⠴ a title | app", command="bash").assessment
    assert (rule_of(surface), surface.business_state) == ("pane.shell", BusinessState.UNKNOWN)


def test_a_pager_takes_the_keys() -> None:
    surface = codex(
        "/ D I F F / / / / / / / /", "+ a line", "~", "──────── 100% ─", " ↑/↓ to scroll", " q close"
    ).assessment
    assert (rule_of(surface), surface.input_mode) == ("screen.pager", InputMode.MODAL)


def test_a_command_that_outlives_its_turn_is_told() -> None:
    running = "  1 background terminal running · /ps to view · /stop to close"
    surface = codex(*HEADER, *PROMPT, *ANSWER, *ENDED, running, *COMPOSER, *FOOTER).assessment
    assert (surface.business_state, surface.ui_context, surface.is_weak) == (IDLE, "background_task", False)


def test_a_composer_without_the_cursor_takes_no_prompt() -> None:
    rows = (*HEADER, *PROMPT, *ANSWER, *ENDED, *COMPOSER, *FOOTER)
    elsewhere = screen(rows, title="app", cursor=(3, len(rows) - 1), command="codex")
    assert read("codex", elsewhere).assessment.business_state is BusinessState.UNKNOWN


def test_a_status_line_that_an_answer_quotes_makes_no_composer_of_the_prompt_above_it() -> None:
    reading = codex(*HEADER, *PROMPT, *STATUS_LINE, *ANSWER, *DIALOG, title="host")
    assert (rule_of(reading.assessment), reading.draft) == ("dialog.approval", None)


def test_help_and_lists_take_the_keys_from_the_composer() -> None:
    help_ = codex(*HEADER, *PROMPT, *ENDED, "  Keyboard shortcuts", "", *COMPOSER, *STATUS_LINE, "  ? / esc close")
    mentions = codex(*HEADER, "  enter/tab insert · esc close · ↑/↓ select", "", "› @", "", *STATUS_LINE)
    for reading in (help_, mentions):
        assert (reading.assessment.business_state, reading.assessment.input_mode) == (IDLE, InputMode.MODAL)


# A title without a spinner: `animations = false`, or another `terminal_title`.


@pytest.mark.parametrize("title", ["host", "app", "a title | app", ""])
def test_an_answer_that_stands_still_is_not_idle_where_the_title_is_silent(title: str) -> None:
    streaming = codex(*HEADER, *PROMPT, *ANSWER, *COMPOSER, *FOOTER, title=title).assessment
    later = codex(*PROMPT, *ANSWER, *ENDED, *PROMPT, *ANSWER, *COMPOSER, *FOOTER, title=title).assessment
    assert (rule_of(streaming), rule_of(later)) == ("turn.unmarked", "turn.unmarked_later")
    assert streaming.business_state is later.business_state is BusinessState.UNKNOWN


def test_an_answer_whose_prompt_is_out_of_sight_is_a_weak_idle() -> None:
    surface = codex("  a line", "  another line", *COMPOSER, *FOOTER).assessment
    assert (rule_of(surface), surface.is_weak) == ("composer.ready", True)


def test_a_version_that_does_not_mark_its_turns_is_a_weak_idle() -> None:
    surface = codex(*OLD_HEADER, *PROMPT, *ANSWER, *COMPOSER, *FOOTER, version="0.150.0").assessment
    assert (rule_of(surface), surface.is_weak) == ("composer.ready", True)


@pytest.mark.parametrize(
    "rows",
    [
        ("• Working (3s • esc to interrupt)", "", *COMPOSER, *FOOTER),
        ("Weighing it (1m 03s • esc to interrupt)", "", *COMPOSER, *FOOTER),
        ("◦ I will look at the machine with one command first. I will look at the machine…", *COMPOSER, *FOOTER),
        ("", "\x1b[1m›\x1b[0m a draft", "", *STATUS_LINE, "  tab to queue message"),
        ("", "\x1b[1m›\x1b[0m a draft", "", "  tab to queue message         100% context left"),
    ],
)
def test_the_screen_tells_work_where_the_title_is_silent(rows: tuple[str, ...]) -> None:
    assert codex(*HEADER, *PROMPT, *rows, title="host").assessment.business_state is WORKING


# As they are, with their titles, the recordings are read by the test of accuracy.
@pytest.mark.parametrize(
    ("step", "is_told"),
    [
        (3, False),
        *(pytest.param(*one, marks=pytest.mark.deep) for one in ((1, False), (3, True), (5, False), (5, True))),
    ],
)
def test_no_recording_is_read_unsafely_with_or_without_its_titles(step: int, is_told: bool) -> None:
    score = Score()
    for name, records in _recordings():
        kept = list(_thinned(records, step, is_told=is_told))
        header = kept[0]
        assert isinstance(header, Header)
        verdicts = list(replay_timeline(header, kept, select_reader(builtin_profiles(), "codex", header.version)))
        score_recording(score, name, [record for record in records if isinstance(record, Truth)], verdicts)
    assert score.unsafe == 0
    assert score.recall("blocked") == 1.0
    assert (score.recall("idle") or 0.0) > 0.97
    assert not is_told or (score.recall("working") or 0.0) > 0.99


def _recordings() -> Iterator[tuple[str, list[Record]]]:
    for path in sorted((RECORDINGS / "codex").glob("*.ndjson.gz")):
        with gzip.open(path) as lines:
            yield path.name, list(read_records(lines, path.name))


def _thinned(records: list[Record], step: int, *, is_told: bool) -> Iterator[Record]:
    frames = 0
    for record in records:
        if isinstance(record, Frame):
            frames += 1
            if frames % step == 0:
                yield record if is_told else msgspec.structs.replace(record, title="host")
        else:
            yield record


def test_a_title_that_spins_before_anything_was_asked_is_no_turn() -> None:
    spinning = "⠼ app"
    assert rule_of(codex(*HEADER, *COMPOSER, *FOOTER, title=spinning).assessment) == "title.starting"
    assert codex(*HEADER, *COMPOSER, *FOOTER, title=spinning).assessment.business_state is BusinessState.UNKNOWN
    status = "\x1b[1m◦ \x1b[0mWorking (0s • esc to interrupt)"
    for shown in (PROMPT, ("", status, "")):
        assert codex(*HEADER, *shown, *COMPOSER, *FOOTER, title=spinning).assessment.business_state is WORKING


# Seen while a model said what the tool itself would say.


def test_an_answer_with_the_words_of_an_end_does_not_end_its_turn() -> None:
    quoted = ("• It looks like this:", "", "  Worked for 17s • 18:03", "")
    streaming = codex(*HEADER, *PROMPT, *quoted, *COMPOSER, *FOOTER, title="app").assessment
    assert rule_of(streaming) == "turn.unmarked"
    old = codex(*OLD_HEADER, *PROMPT, *quoted, *COMPOSER, *FOOTER, version="0.150.0").assessment
    assert (rule_of(old), old.is_weak, old.turn_end) == ("composer.ready", True, None)


def test_an_answer_that_looks_like_the_status_row_is_over_with_its_turn() -> None:
    quoted = ("• ◦ Working (3s • esc to interrupt)", "  • Working (12s • esc to interrupt)", "")
    assert rule_of(codex(*HEADER, *PROMPT, *quoted, *ENDED, *COMPOSER, *FOOTER, title="app").assessment) == (
        "composer.ended"
    )


def test_a_command_that_is_refused_while_a_turn_runs_does_not_end_it() -> None:
    refused = ("■ '/theme' is disabled while a task is in progress.", "")
    surface = codex(*HEADER, *PROMPT, *ANSWER, *refused, *COMPOSER, *FOOTER, title="app").assessment
    assert (rule_of(surface), surface.turn_end) == ("turn.unmarked", None)


@pytest.mark.parametrize(
    "rows",
    [
        ("  Configure Terminal Title", "", "› [x] activity   Spinner while working", "  [ ] app-name", "",
         "  Press space to toggle; ←/→ to move; enter to confirm and close; esc to close"),
        ("▌ Rename thread", "▌ Scripted session", "", "Press enter to confirm or esc to go back"),
    ],
)  # fmt: skip
def test_pickers_of_older_versions_take_the_keys(rows: tuple[str, ...]) -> None:
    surface = codex(*OLD_HEADER, *PROMPT, *ANSWER, *rows, version="0.150.0").assessment
    assert (surface.business_state, surface.input_mode) == (BLOCKED, InputMode.MODAL)


@pytest.mark.parametrize(
    ("rows", "mode"),
    [
        (("› /mod", "", "  /model  choose what model and reasoning effort to use"), InputMode.MODAL),
        (("› @", "", "  no matches"), InputMode.MODAL),
        (("› @", "", "  Skill Creator   Skill", "  enter insert · esc close · ←/→ switch"), InputMode.MODAL),
        (("› ", "", "  / for commands      ! for shell commands", "  @ for file paths"), InputMode.MODAL),
        (("› ", "", "  esc again to edit previous message"), InputMode.FREEFORM),
    ],
)  # fmt: skip
def test_what_older_versions_show_under_the_composer_is_a_weak_idle(rows: tuple[str, ...], mode: InputMode) -> None:
    surface = codex(*OLD_HEADER, *PROMPT, *ANSWER, *rows, version="0.150.0").assessment
    assert (surface.business_state, surface.input_mode, surface.is_weak) == (IDLE, mode, True)
