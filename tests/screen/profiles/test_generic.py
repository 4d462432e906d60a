"""The profile for any program, which says little; and noise, on which no profile may be sure of anything idle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState, SurfaceAssessment
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import Snapshot, read_snapshot
from tests.each_row import each_row
from tests.screen.profiles.frames import RECORDINGS, frame_at, options_of, read, rule_of, screen, snapshots

CLIS = tuple(sorted({profile.cli for profile in builtin_profiles()}))
GLYPHS = "─━▔│┃╭╰╹▀❯›>!→●✻✳⏵⏸◇✦⠋░█△▣$#%:?[]()/…·↑↓ \t"
MARKS = ("? for shortcuts", "esc to interrupt", "(y/n)", "Ready", "Type your message", "1. Yes", "\x1b[7m \x1b[0m")


def surface(rows: list[str], row: int = -1, *, shown: bool | None = True) -> SurfaceAssessment:
    at = row % len(rows)
    return read("generic", replace(screen(rows, cursor=(len(rows[at]), at)), cursor_visible=shown)).assessment


@each_row(
    ("row", "kind", "options"),
    [
        ("Overwrite a.txt? [y/N] ", BlockKind.QUESTION, ["y", "N"]),
        (
            "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
            BlockKind.QUESTION,
            ["yes", "no", "fingerprint"],
        ),
        ("Proceed (Y/n): ", BlockKind.QUESTION, ["Y", "n"]),
        ("[sudo] password for me: ", BlockKind.AUTH, []),
        ("Enter passphrase for key '/home/me/.ssh/id': ", BlockKind.AUTH, []),
        ("Press any key to continue . . .", BlockKind.OTHER, []),
    ],
)
def test_an_unmistakable_question_at_the_cursor_waits_for_a_person(
    row: str, kind: BlockKind, options: list[str]
) -> None:
    seen = surface(["doing this", row])
    assert seen.block is not None
    assert (seen.block.kind, options_of(seen)) == (kind, options)


@pytest.mark.parametrize("row", ["Overwrite? [y/N] ", "Password: ", "Press enter to continue"])
def test_the_same_words_elsewhere_are_words(row: str) -> None:
    for seen in (
        surface([row, "more"]),
        surface([row, ""]),
        surface([row, "y"], 0),
        surface([row], shown=False),
        surface([row], shown=None),
        surface([f"{row} is what it asks"]),
    ):
        assert seen.business_state is BusinessState.UNKNOWN


def test_a_spinner_with_a_hint_how_to_stop_it_is_work() -> None:
    assert surface(["⠙ Thinking (3s · esc to interrupt)", "> "]).business_state is BusinessState.WORKING
    assert surface(["  ✻ Cooking… (Ctrl+C to cancel)", "> "]).business_state is BusinessState.WORKING
    for row in ("⠙ Thinking", "press esc to interrupt", "it shows ⠙ Thinking (esc to interrupt)"):
        assert surface([row, "> "]).business_state is BusinessState.UNKNOWN


def test_a_program_without_a_profile_is_read_by_it() -> None:
    reader = select_reader(builtin_profiles(), "something-new", "1.0")
    seen = reader.parse_snapshot(screen(["hello", "> "])).assessment
    assert (rule_of(seen), seen.anomalies[0].code) == ("no_rule", "no_profile")


@pytest.mark.parametrize("cli", sorted(path.name for path in RECORDINGS.iterdir()))
def test_it_never_says_ready_of_a_real_screen(cli: str) -> None:
    for path in (RECORDINGS / cli).iterdir():
        for snapshot in list(snapshots(cli, path.name.removesuffix(".ndjson.gz")))[::20]:
            assert not read("generic", snapshot).assessment.submit_ready


def test_it_sees_the_question_of_another_profile_only_if_it_is_unmistakable() -> None:
    assert frame_at("aider", "d_run", 25.0).assessment.operator_blocked
    assert rule_of(surface(["Run shell command? (Y)es/(N)o [Yes]: "])) == "no_rule"


def rows_of_noise() -> st.SearchStrategy[str]:
    """Rows of glyphs and words, among them rules or prompts; with both, it might be a screen of a real tool."""
    chrome = st.text(st.sampled_from(GLYPHS), max_size=30)
    piece = st.one_of(chrome, st.sampled_from(MARKS), st.text(max_size=12))
    row = st.lists(piece, max_size=5).map(lambda pieces: "".join(pieces).replace("\n", " "))
    rule = st.builds(str.__mul__, st.sampled_from("─━▔▀-"), st.integers(3, 120))
    prompt = st.builds(str.__add__, st.sampled_from(["❯ ", "› ", "> ", "diff> ", " > ", "┃  ", "! "]), row)
    return st.one_of(st.lists(row | rule, max_size=12), st.lists(row | prompt, max_size=12)).map("\n".join)


@st.composite
def noise(draw: st.DrawFn) -> Snapshot:
    text = draw(rows_of_noise())
    cursor = draw(st.none() | st.tuples(st.integers(0, 300), st.integers(0, 60)))
    return read_snapshot(
        text,
        columns=draw(st.integers(1, 500)),
        height=draw(st.integers(1, 60)),
        title=draw(st.text(st.sampled_from(GLYPHS) | st.characters(), max_size=20)),
        cursor=cursor,
        cursor_visible=draw(st.sampled_from([True, False, None])),
        is_alternate=draw(st.booleans()),
        command=draw(st.none() | st.sampled_from(["bash", "node", "python"])),
    )


@given(noise())
def test_the_generic_profile_is_never_ready(snapshot: Snapshot) -> None:
    seen = read("generic", snapshot).assessment
    assert seen.business_state is not BusinessState.IDLE
    assert not seen.submit_ready


@given(noise())
def test_no_profile_is_sure_of_idle_on_noise(snapshot: Snapshot) -> None:
    for cli in CLIS:
        seen = read(cli, snapshot).assessment
        assert not (seen.submit_ready and not seen.is_weak), (cli, rule_of(seen))
