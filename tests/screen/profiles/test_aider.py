"""The profile of aider: named frames of recordings, and screens that try to fool it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.selection import detect_cli
from tests.each_row import each_row
from tests.screen.profiles.frames import frame_at, options_of, read, rule_of, screen, snapshot_at, snapshots

RULE = "─" * 60
RUN = "Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]:"
TURN = [RULE, "diff> go", "", "So it is.", "", "Tokens: 2.3k sent, 21 received.", ""]


def reading(rows: list[str], row: int | None = -1, *, shown: bool | None = True) -> ScreenReading:
    """The rows with the cursor at the end of one of them (counted from the last where negative)."""
    at = None if row is None else row % len(rows)
    cursor = None if at is None else (len(rows[at]), at)
    return read("aider", replace(screen(rows, columns=60, height=15, cursor=cursor), cursor_visible=shown))


def surface(rows: list[str], row: int | None = -1, *, shown: bool | None = True) -> SurfaceAssessment:
    return reading(rows, row, shown=shown).assessment


@each_row(
    ("name", "t", "state", "rule"),
    [
        ("d_add_120", 5.0, BusinessState.UNKNOWN, "no_rule"),
        ("d_run", 13.0, BusinessState.IDLE, "composer.ready"),
        ("d_run", 16.5, BusinessState.WORKING, "prompt.left"),
        ("d_run", 19.0, BusinessState.WORKING, "cursor.hidden"),
        ("d_run", 25.0, BusinessState.AWAITING_OPERATOR, "question.approval"),
        ("d_run", 33.0, BusinessState.WORKING, "prompt.left"),
        ("d_run", 38.0, BusinessState.AWAITING_OPERATOR, "question.approval"),
        ("d_run", 46.0, BusinessState.IDLE, "composer.ready"),
        ("d_quote", 20.0, BusinessState.WORKING, "cursor.hidden"),
        ("d_quote", 28.0, BusinessState.IDLE, "composer.ready"),
        ("d_quote_loose_120", 33.0, BusinessState.WORKING, "cursor.hidden"),
        ("interrupt", 13.8, BusinessState.WORKING, "cursor.hidden"),
    ],
)
def test_a_frame_is_read(name: str, t: float, state: BusinessState, rule: str) -> None:
    seen = frame_at("aider", name, t).assessment
    assert (seen.business_state, rule_of(seen)) == (state, rule)


@pytest.mark.parametrize(
    ("name", "t", "subject", "options"),
    [
        ("d_run", 25.0, "touch made.txt; sleep 3; echo hi", ["Yes", "No", "Don't ask again"]),
        ("d_add_120", 25.0, "app.py", ["Yes", "No", "Don't ask again"]),
        ("d_edit_a", 20.0, "app.py", ["Yes", "No"]),
    ],
)
def test_a_question_gives_its_options_and_what_it_is_about(
    name: str, t: float, subject: str, options: list[str]
) -> None:
    seen = frame_at("aider", name, t).assessment
    assert seen.block is not None
    assert (seen.block.kind, options_of(seen)) == (BlockKind.APPROVAL, options)
    excerpt = (seen.operator_excerpt or "").split("\n")
    assert (excerpt[0], len(excerpt)) == (subject, 2)


@pytest.mark.parametrize(
    ("name", "t", "draft"), [("d_run", 13.0, ""), ("d_run", 15.4, "please SCN:arun"), ("d_run", 25.0, None)]
)
def test_the_draft_is_what_was_typed(name: str, t: float, draft: str | None) -> None:
    assert frame_at("aider", name, t).draft == draft


@pytest.mark.parametrize(
    ("name", "t", "end"),
    [
        ("interrupt", 18.0, TurnEnd.INTERRUPTED),
        ("d_dialog_intr_a_120", 32.0, TurnEnd.INTERRUPTED),
        ("d_run", 46.0, TurnEnd.COMPLETED),
        ("d_run", 13.0, None),
    ],
)
def test_the_end_of_a_turn_is_told(name: str, t: float, end: TurnEnd | None) -> None:
    assert frame_at("aider", name, t).assessment.turn_end is end


def test_a_turn_that_the_provider_refused_failed() -> None:
    rows = [RULE, "ask> go", "litellm.AuthenticationError: bad key", "The API provider is not able", RULE, "ask>"]
    assert surface(rows).turn_end is TurnEnd.FAILED


@pytest.mark.parametrize(("name", "start", "end"), [("d_run", 23.0, 30.0), ("d_run", 45.0, 50.0), ("deny", 22.7, 23.6)])
def test_the_masked_text_of_a_still_screen_does_not_change(name: str, start: float, end: float) -> None:
    assert len({read("aider", frame).projection.key for frame in snapshots("aider", name, start, end)}) == 1


@each_row("prompt", [">", "ask>", "architect>", "diff multi>", "multi>", "editor-diff-fenced>"])
@each_row("files", [[], ["app.py b.txt"], ["Readonly: x.md", "", "Editable: app.py", "  b.txt"]])
def test_a_prompt_of_every_mode_below_a_rule_is_ready(prompt: str, files: list[str]) -> None:
    seen = reading([*TURN, RULE, *files, prompt])
    assert (rule_of(seen.assessment), seen.draft) == ("composer.ready", "")
    assert seen.assessment.submit_ready


def test_a_draft_of_several_rows_is_one_draft() -> None:
    seen = reading([RULE, "app.py", "ask multi> one", "ask multi> two", "ask multi>"])
    assert (rule_of(seen.assessment), seen.draft) == ("composer.ready", "one\ntwo")


def test_dialog_words_in_a_draft_are_a_draft() -> None:
    seen = reading([*TURN, RULE, f"diff> {RUN}"])
    assert (seen.assessment.business_state, seen.draft) == (BusinessState.IDLE, RUN)


@pytest.mark.parametrize("row", ["diff> /add app.py", "diff> !ls", "(reverse-i-search)`pl': please"])
def test_what_is_typed_after_a_mark_of_a_command_is_no_prompt(row: str) -> None:
    seen = surface([RULE, row])
    assert (seen.business_state, seen.input_mode) == (BusinessState.IDLE, InputMode.MODAL)


def test_completions_below_a_draft_leave_it_idle() -> None:
    seen = reading([RULE, "diff> /a", "          /add", "          /architect >"], 1)
    assert (seen.assessment.business_state, seen.draft) == (BusinessState.IDLE, "/a")


@pytest.mark.parametrize(
    "rows",
    [
        ["Run shell command? (Y)es/(N)o/(S)kip all/(D)on't ask again [", "Yes]:"],
        ["Add command output to the chat? (Y)es/(N)o/(D)on't ask again", "[Yes]:"],
        ["Run shell command? (Y)es/(N)o/(D)on't ask", " again [Yes]: y"],
        ["Create new file? (Y)es/(N)o [Yes]", ":"],
    ],
)
def test_a_question_that_wraps_is_a_question(rows: list[str]) -> None:
    seen = surface([*TURN, "some/file.py", *rows])
    assert rule_of(seen) == "question.approval"
    assert options_of(seen)[:2] == ["Yes", "No"]


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Add .aider* to .gitignore (recommended)?", BlockKind.OTHER),
        ("Login to OpenRouter or create a free account?", BlockKind.AUTH),
        ("Attempt to fix lint errors?", BlockKind.QUESTION),
        ("Etwas ganz anderes?", BlockKind.QUESTION),
    ],
)
def test_a_question_that_no_recording_holds_is_a_question(question: str, kind: BlockKind) -> None:
    seen = surface(["", f"{question} (Y)es/(N)o [Yes]:"])
    assert seen.block is not None
    assert (seen.block.kind, options_of(seen)) == (kind, ["Yes", "No"])


def test_an_answered_question_is_none() -> None:
    rows = [*TURN, "ls", f"{RUN} y", "", "Running ls", ""]
    assert surface(rows).business_state is BusinessState.WORKING
    assert surface([*TURN, "ls", f"{RUN} n", ""]).business_state is BusinessState.WORKING


def test_a_quoted_question_is_none_while_the_cursor_is_hidden() -> None:
    assert surface([RULE, "diff> go", "", RUN], shown=False).business_state is BusinessState.WORKING
    assert surface([*TURN, RUN, "", RULE, "diff>"]).business_state is BusinessState.IDLE


def test_a_quoted_prompt_is_none() -> None:
    for quoted in (["It shows", "", "diff>"], [RULE, "", "> "]):
        seen = surface([RULE, "diff> go", "", *quoted], shown=False)
        assert seen.business_state is not BusinessState.IDLE


@pytest.mark.parametrize("prompt", ["> ", "sqlite> ", "ask> "])
def test_a_prompt_of_a_program_that_aider_runs_is_not_its_own(prompt: str) -> None:
    command = [*TURN, "prog", f"{RUN} y", "", "Running prog", "hello", ""]
    for above in (command, command[3:], command[-3:], [RULE, "diff> /run prog", ""], ["> !prog", ""]):
        assert surface([*above, prompt]).business_state is not BusinessState.IDLE


def test_a_program_that_asks_is_not_aider_asking() -> None:
    rows = [*TURN, "prog", f"{RUN} y", "", "Running prog", "Which one [1]:"]
    assert surface(rows).business_state is BusinessState.WORKING


def test_a_command_whose_prompt_scrolled_away_is_work() -> None:
    assert rule_of(surface(["Running make", "cc -c a.c", "cc -c b.c", ""])) == "command.running"


def test_without_pretty_idle_is_weak_and_a_quote_is_not_idle() -> None:
    seen = surface(["> go", "", "So it is.", "", "Tokens: 1 sent, 2 received.", "", ">"])
    assert (rule_of(seen), seen.is_weak) == ("composer.plain", True)
    assert surface(["> go", "", "It says", "", "> so"]).business_state is BusinessState.UNKNOWN


def test_without_a_word_about_the_cursor_the_last_row_proves_less() -> None:
    assert rule_of(surface([*TURN, RULE, "diff>"], None, shown=None)) == "last_row.prompt"
    assert surface([*TURN, RULE, "diff>"], None, shown=None).is_weak
    assert surface([*TURN, RULE, "diff> go"], None, shown=None).business_state is BusinessState.UNKNOWN
    assert surface([*TURN, "ls", RUN], None, shown=None).business_state is BusinessState.AWAITING_OPERATOR
    assert surface([RULE, "diff> go", "", RUN], None, shown=None).business_state is BusinessState.WORKING
    assert surface([RULE, "diff> go", "", "░█  Waiting"], None, shown=None).business_state is BusinessState.WORKING


@pytest.mark.parametrize("end", ["me@host:~/proj$ ", "% ", "➜", "❯ "])
def test_a_shell_after_aider_has_ended_is_unknown(end: str) -> None:
    assert surface([RULE, "diff> /exit", "", end]).business_state is BusinessState.UNKNOWN


@pytest.mark.parametrize("rows", [["", ""], [RULE], [RULE, "di"], ["$ ls", "a.txt"]])
def test_a_blank_or_a_torn_frame_is_unknown(rows: list[str]) -> None:
    assert surface(rows).business_state is BusinessState.UNKNOWN


@pytest.mark.parametrize("t", [19.0, 25.0, 33.0, 38.0])
def test_a_crop_of_a_screen_that_is_not_idle_is_never_idle(t: float) -> None:
    whole = snapshot_at("aider", "d_run", t)
    column, row = whole.cursor or (0, 0)
    for top in range(row):
        crop = replace(whole, rows=whole.rows[top:], cursor=(column, row - top))
        assert read("aider", crop).assessment.business_state is not BusinessState.IDLE


def test_aider_is_recognised() -> None:
    for t in (13.0, 25.0, 46.0):
        assert detect_cli(builtin_profiles(), snapshot_at("aider", "d_run", t)) == "aider"
