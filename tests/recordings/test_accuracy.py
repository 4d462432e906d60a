"""How right the tracker is on recordings of real CLIs: the gates of the design, at every cadence.

A fifth of each CLI's recordings is held out: nobody looked at it while the rules were written. Both parts have to hold.
The quick suite reads each recording as it is, and those held out or live as the roughest watcher saw them, too;
the deep one reads all of them at every cadence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.agents.recording_files import open_recording
from interlock.cli.terminals.score import score_files, summary
from interlock.monitor.scoring.readings import Score, score_recording
from interlock.monitor.scoring.recording import Header, Record, Truth
from interlock.monitor.scoring.replay import replay_timeline
from interlock.screen import selection
from interlock.screen.assessment import ParserMetadata, SurfaceAnomaly
from interlock.screen.engine import ScreenReading, read_screen
from interlock.screen.profile import Profile
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import Snapshot
from interlock.testing.cadence import SWEEP, Cadence, at_cadence
from tests.each_row import each_row
from tools.accuracy import PAGE, page

HERE = Path(__file__).parent
CLIS = ("aider", "claude", "cline", "codex", "continue", "copilot", "gemini", "kimi", "opencode", "pi", "qwen", "vibe")
PARTS = ("tui", "heldout", "live")
LEAST_RECALL = 0.995
# Ends whose kind the screen does not tell: the refused call scrolled out of a low pane (Claude Code, Qwen Code), Escape
# took the prompt out of an empty session (Claude Code 2.1.120), Ctrl-C in a dialog left no word (Gemini CLI). Of 263.
ENDS_OUT_OF_SIGHT = {"claude": 2, "gemini": 1, "qwen": 1}


def recordings(part: str, cli: str) -> list[Path]:
    return sorted((HERE / part / cli).glob("*.ndjson.gz"))


def every_recording(cli: str) -> list[Path]:
    return [path for part in PARTS for path in recordings(part, cli)]


ROUGHEST = max(SWEEP, key=lambda one: (one.drop + one.duplicate, one.jitter_seconds))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[object, ScreenReading]:
    """What a screen was read as, for as long as a test keeps it. Reading is pure, and most frames show what was shown
    before: nine of ten readings would be repetitions."""
    known: dict[object, ScreenReading] = {}

    def read_once(
        screen: Snapshot, profile: Profile, metadata: ParserMetadata, anomalies: tuple[SurfaceAnomaly, ...]
    ) -> ScreenReading:
        size = (screen.columns, len(screen.rows), screen.is_alternate)
        beside = (screen.title, screen.cursor, screen.cursor_visible, screen.command, screen.is_dead)
        key = (screen.raw_text, size, beside, profile.id)
        if key not in known:
            known[key] = read_screen(screen, profile, metadata, anomalies)
        return known[key]

    monkeypatch.setattr(selection, "read_screen", read_once)
    return known


def scores_of(
    cli: str,
    cadences: Sequence[Cadence | None],
    seen: dict[object, ScreenReading],
    rough_parts: Sequence[str] = PARTS,
) -> dict[Cadence | None, Score]:
    """Every recording of a CLI, as it was recorded (None); those of `rough_parts` at each other cadence as well."""
    scores: dict[Cadence | None, Score] = {cadence: Score() for cadence in cadences}
    profiles = builtin_profiles()
    for part in PARTS:
        read_at = [cadence for cadence in cadences if cadence is None or part in rough_parts]
        for path in recordings(part, cli):
            with open_recording(str(path)) as lines:
                records = list(lines)
            seen.clear()
            for cadence in read_at:
                _score_at(scores[cadence], path, records, cadence, profiles)
    return scores


def _score_at(
    score: Score, path: Path, records: list[Record], cadence: Cadence | None, profiles: Sequence[Profile]
) -> None:
    header = next(record for record in records if isinstance(record, Header))
    watched = records if cadence is None else list(at_cadence(records, cadence))
    truths = [record for record in records if isinstance(record, Truth)]
    reader = select_reader(profiles, header.cli, header.version)
    score_recording(score, str(path), truths, list(replay_timeline(header, watched, reader)))


@pytest.mark.parametrize("cli", CLIS)
def test_verdicts_are_right_on_recordings_of_a_real_cli(
    cli: str, seen: dict[object, ScreenReading], record_property: Callable[[str, object], None]
) -> None:
    scores = scores_of(cli, (None, ROUGHEST), seen, rough_parts=("heldout", "live"))
    assert scores[ROUGHEST].frames
    assert [miss for miss in scores[ROUGHEST].misses if miss.is_unsafe] == []
    found = summary(cli, len(every_recording(cli)), scores[None])
    macro = found.macro_recall or 0.0
    frames = found.idle.frames + found.working.frames + found.blocked.frames
    record_property(
        "explored", f"accuracy of {cli}: macro recall {macro:.2%} over {frames} frames, {found.unsafe} unsafe"
    )
    assert [miss for miss in found.misses if miss.is_unsafe] == []
    assert macro >= LEAST_RECALL
    assert found.ends.fabricated == 0
    assert found.ends.labelled - found.ends.right_kind <= ENDS_OUT_OF_SIGHT.get(cli, 0)


@pytest.mark.deep
@pytest.mark.parametrize("cli", CLIS)
def test_no_reading_is_unsafe_at_any_cadence(cli: str, seen: dict[object, ScreenReading]) -> None:
    for score in scores_of(cli, SWEEP, seen).values():
        assert score.frames
        assert [miss for miss in score.misses if miss.is_unsafe] == []


@pytest.mark.parametrize("cadence", [None, ROUGHEST], ids=str)
def test_what_was_read_once_is_what_would_be_read_again(
    cadence: Cadence | None, monkeypatch: pytest.MonkeyPatch, seen: dict[object, ScreenReading]
) -> None:
    remembered = scores_of("pi", (cadence,), seen)[cadence]
    assert len(seen) > 10
    monkeypatch.setattr(selection, "read_screen", read_screen)
    read, counts = score_files(every_recording("pi"), cadence)
    assert (read, counts) == ({"pi": remembered}, {"pi": len(every_recording("pi"))})


@each_row("cli", CLIS)
def test_a_fifth_of_the_recordings_is_held_out(cli: str) -> None:
    seen, held = len(recordings("tui", cli)), len(recordings("heldout", cli))
    assert held == round((seen + held) / 5)


@pytest.mark.deep
def test_the_page_of_figures_is_not_stale() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tools.accuracy"
