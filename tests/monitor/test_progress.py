"""Progress: what shows that an agent gets on with its turn, and what only shows that its program lives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.agents.recording_files import open_recording
from interlock.monitor import progress
from interlock.monitor.arbitration.claims import ChildNews, Claim
from interlock.monitor.progress import AgentProgress, ProgressState
from interlock.monitor.scoring.recording import Header, Input
from interlock.monitor.scoring.replay import replay_timeline
from interlock.screen.projection import DialogProjection, project_dialog
from interlock.screen.selection import select_reader
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity, Attention

TOKENS = (re.compile(r"^\* .*↓ (\S+) tokens"),)
VOLATILE = (re.compile(r"^\* .*$"), re.compile(r"\b\d+s\b"))
LIVE = Path(__file__).parents[1] / "recordings" / "live"


def screen(*rows: str, draft: str = "", footer: str = "") -> DialogProjection:
    text = "\n".join((*rows, f"> {draft}", footer))
    return project_dialog(text, text, volatile=VOLATILE, composer_rows=[len(rows)])


def seen(*screens: DialogProjection) -> list[tuple[float, str]]:
    """When progress was seen after a submit at 0 into the first screen, one screen a second, and by what."""
    state = progress.begin(ProgressState(), screens[0], 0, "turn.submitted")
    told: list[AgentProgress] = []
    for now, shown in enumerate(screens):
        state = progress.see(state, shown, TOKENS, now)
        assert state.last is not None
        if not told or state.last != told[-1]:
            told.append(state.last)
    return [(one.at_seconds, one.rule) for one in told[1:]]


BASE = ("hello", "> do it")


def test_new_text_is_progress_and_the_same_text_is_none() -> None:
    assert seen(screen(*BASE), screen(*BASE, "one"), screen(*BASE, "one"), screen(*BASE, "one two")) == [
        (1, "screen.new_text"),
        (3, "screen.new_text"),
    ]


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(screen(*BASE, "* Working (3s)"), id="a spinner that comes"),
        pytest.param(screen("> do it"), id="a row that goes"),
        pytest.param(screen(*BASE, draft="half a thought"), id="what is typed"),
        pytest.param(screen(*BASE, footer="ctrl+t to hide tasks"), id="what stands below the composer"),
        pytest.param(screen(*BASE, "", "───"), id="a line that is drawn"),
    ],
)
def test_what_shows_only_that_the_program_lives_is_no_progress(shown: DialogProjection) -> None:
    assert seen(screen(*BASE), shown, screen(*BASE), shown) == []


def test_an_elapsed_counter_is_no_progress() -> None:
    assert seen(*(screen(*BASE, f"* Working ({second}s)", f"  running {second}s") for second in range(9)))[1:] == []


def test_a_row_that_comes_back_is_no_progress() -> None:
    assert seen(screen(*BASE), screen("~logo~", *BASE), screen(*BASE), screen("~logo~", *BASE)) == [
        (1, "screen.new_text")
    ]


def test_tokens_that_grow_are_progress_and_tokens_that_stand_are_none() -> None:
    rows = ["* Working (1s · ↓ 8 tokens)", "* Working (2s · ↓ 8 tokens)", "* Thinking (3s · ↓ 1.2k tokens)"]
    assert seen(screen(*BASE), *(screen(*BASE, row) for row in rows)) == [
        (1, "screen.new_tokens"),
        (3, "screen.new_tokens"),
    ]


def test_a_turn_of_many_rows_remembers_those_of_its_last_screens() -> None:
    long = [screen(*(f"row {number}" for number in range(at, at + 50))) for at in range(0, 2000, 25)]
    assert len(seen(*long)) == len(long) - 1
    assert seen(*long, long[-1]) == seen(*long)


def claim(rung: EvidenceSource, activity: Activity | None = None, children: ChildNews | None = None) -> Claim:
    return Claim(rung=rung, at_seconds=0, rule=f"{rung.value}.rule", activity=activity, children=children)


def heard(*claims: Claim) -> list[float]:
    state, told = ProgressState(), []
    for now, one in enumerate(claims):
        before, state = state, progress.hear(state, one, now)
        if state.last != before.last:
            told.append(float(now))
    return told


def test_every_hook_is_progress_a_file_only_where_it_says_something_else_and_a_native_status_never() -> None:
    hook = claim(EvidenceSource.HOOK)
    assert heard(hook, hook) == [0, 1]
    working = claim(EvidenceSource.NATIVE_FILE, Activity.WORKING)
    child = claim(EvidenceSource.NATIVE_FILE, Activity.WORKING, ChildNews(opened=frozenset({"a"})))
    assert heard(working, working, child, child, working) == [0, 2, 4]
    assert heard(claim(EvidenceSource.NATIVE_STATUS, Activity.WORKING)) == []
    asked = Claim(
        rung=EvidenceSource.NATIVE_FILE, at_seconds=0, rule="r", attention=Attention.APPROVAL, activity=Activity.WORKING
    )
    assert heard(claim(EvidenceSource.NATIVE_FILE, Activity.WORKING), asked, asked) == [0, 1]


@pytest.mark.parametrize("rung", [EvidenceSource.PANE_TITLE, EvidenceSource.SCREEN])
def test_a_title_that_spins_and_a_reading_of_the_screen_are_no_progress(rung: EvidenceSource) -> None:
    assert heard(claim(rung, Activity.WORKING), claim(rung), claim(rung, Activity.QUIET)) == []


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_a_real_cli_whose_model_hangs_shows_no_progress_while_its_counters_and_tips_go_on(cli: str) -> None:
    with open_recording(str(LIVE / cli / "hang_120x40.ndjson.gz")) as lines:
        records = list(lines)
    header = records[0]
    assert isinstance(header, Header)
    submitted = next(record.t for record in records if isinstance(record, Input))
    reader = select_reader(builtin_profiles(), header.cli, header.version)
    verdicts = [verdict for _, verdict in replay_timeline(header, records, reader)]
    last = verdicts[-1]
    assert last.activity is Activity.WORKING
    assert last.at_seconds > submitted + 60
    assert last.progress is not None
    assert last.progress.at_seconds < submitted + 5
