"""How right the tracker is on recordings of real CLIs: the gates of the design, at every cadence.

A fifth of each CLI's recordings is held out: nobody looked at it while the rules were written. Both parts have to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.cli.score import score_files, summary
from interlock.testing.cadence import SWEEP, Cadence
from tools.accuracy import PAGE, page

HERE = Path(__file__).parent
CLIS = ("aider", "claude", "codex", "gemini", "opencode", "pi", "qwen", "vibe")
PARTS = ("tui", "heldout", "live")
LEAST_RECALL = dict.fromkeys(CLIS, 0.99) | dict.fromkeys(("aider", "opencode", "pi"), 0.97)


def recordings(part: str, cli: str) -> list[Path]:
    return sorted((HERE / part / cli).glob("*.ndjson.gz"))


def every_recording(cli: str) -> list[Path]:
    return [path for part in PARTS for path in recordings(part, cli)]


@pytest.mark.parametrize("cli", CLIS)
def test_verdicts_are_right_on_recordings_of_a_real_cli(
    cli: str, record_property: Callable[[str, object], None]
) -> None:
    paths = every_recording(cli)
    scores, counts = score_files(paths)
    found = summary(cli, counts[cli], scores[cli])
    macro = found.macro_recall or 0.0
    frames = found.idle.frames + found.working.frames + found.blocked.frames
    record_property(
        "explored", f"accuracy of {cli}: macro recall {macro:.2%} over {frames} frames, {found.unsafe} unsafe"
    )
    assert [miss for miss in found.misses if miss.is_unsafe] == []
    assert macro >= LEAST_RECALL[cli]


@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize("cadence", SWEEP, ids=str)
def test_no_reading_is_unsafe_at_any_cadence(cli: str, cadence: Cadence) -> None:
    scores, _ = score_files(every_recording(cli), cadence)
    assert [miss for miss in scores[cli].misses if miss.is_unsafe] == []


@pytest.mark.parametrize("cli", CLIS)
def test_a_fifth_of_the_recordings_is_held_out(cli: str) -> None:
    seen, held = len(recordings("tui", cli)), len(recordings("heldout", cli))
    assert held == round((seen + held) / 5)


@pytest.mark.deep
def test_the_page_of_figures_is_not_stale() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python tools/accuracy.py"
