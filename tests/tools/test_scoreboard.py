"""The scoreboard, on recordings that the repository ships: one set of rules for every detector."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from interlock.cli.terminals.score import score_files
from interlock.monitor.scoring.recording import Frame, Header, Input, Truth
from tools.scoreboard import (
    CAO,
    CAO_LATCHED,
    CODEX_ALTERNATE,
    OURS,
    QUIET,
    TITLE,
    Recording,
    by_quiet_screen,
    by_title,
    cao_reader,
    main,
    page,
    score_board,
    steps_of,
)

TUI = Path(__file__).parents[1] / "recordings" / "tui"
SHIPPED = [TUI / "codex" / "d_calm.ndjson.gz", TUI / "pi" / "d_tool.ndjson.gz"]
HEADER = Header(format=1, cli="codex", version="0.166.0", cols=20, rows=2)


def recording(*records: Frame | Input | Truth) -> Recording:
    return Recording("made", HEADER, (HEADER, *records))


def test_interlock_is_scored_as_the_score_command_scores_it() -> None:
    board = score_board(SHIPPED)
    scores, _ = score_files(SHIPPED)
    ours = board.scores[OURS]
    assert {group: score.frames for group, score in ours.items()} == {
        CODEX_ALTERNATE: scores["codex"].frames,
        "pi": scores["pi"].frames,
    }
    assert board.detectors == [OURS, TITLE, QUIET]


def test_the_page_names_versions_and_where_another_detector_is_better(capsys: pytest.CaptureFixture[str]) -> None:
    main([str(SHIPPED[0])])
    printed = capsys.readouterr().out
    assert "1 recordings of 0.166.0." in printed
    assert f"| {QUIET} | " in printed
    board = score_board(SHIPPED[:1])
    board.scores[OURS][CODEX_ALTERNATE].frames["idle", "unknown"] += 1_000
    assert f"- {CODEX_ALTERNATE}, idle: {TITLE} " in page(board).partition("reads better")[2]


def test_the_quiet_screen_baseline_calls_everything_idle_that_stands_still() -> None:
    frames = [Frame(t=at, ansi=text) for at, text in ((0.0, "a"), (1.0, "b"), (2.9, "b"), (3.0, "b"), (3.5, "c"))]
    said = by_quiet_screen(recording(*frames))
    assert [verdict.business_state.value for _, verdict in said] == ["working", "working", "working", "idle", "working"]
    assert [len(verdict.events) for _, verdict in said] == [0, 0, 0, 1, 0]


def test_the_title_baseline_reads_nothing_but_the_title() -> None:
    frames = [Frame(t=0.0, title="\u2827 work", ansi="x"), Frame(t=1.0, title="", ansi="\u2022 Working (1s)")]
    states = [verdict.business_state.value for _, verdict in by_title(recording(*frames))]
    assert states[0] == "working"
    assert states[1] != "working"


def test_another_detector_is_told_of_submits_and_answers_and_never_of_the_truth() -> None:
    records = (
        Frame(t=0.0, ansi="one\ntwo"),
        Input(t=1.0, prompt="go"),
        Truth(t=1.0, state="working"),
        Truth(t=2.0, state="blocked", detail="approval"),
        Truth(t=3.0, state="working"),
        Frame(t=4.0, ansi="three", dead=True),
    )
    assert list(steps_of(recording(*records))) == [
        {"t": 0.0, "rows": ["one", "two"], "columns": 20, "dead": False},
        {"t": 1.0, "prompt": "go"},
        {"t": 3.0},
        {"t": 4.0, "rows": ["three", ""], "columns": 20, "dead": True},
    ]


def test_a_detector_of_another_process_is_scored_where_it_covers_the_cli(tmp_path: Path) -> None:
    """A stand-in for the other Python: it takes the adapter's place, and says that everything is completed."""
    program = tmp_path / "python"
    answer = (
        "import json, sys\n"
        "print(json.dumps({'version': '9.9', 'clis': ['pi']}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    frames = [step for step in json.loads(line)['steps'] if 'rows' in step]\n"
        "    said = ['processing'] + ['completed'] * (len(frames) - 1)\n"
        "    print(json.dumps({'alone': said, 'latched': ['error'] * len(said)}), flush=True)\n"
    )
    (tmp_path / "answer.py").write_text(answer, encoding="utf-8")
    program.write_text(f"#!/bin/sh\nexec {json.dumps(sys.executable)} {tmp_path}/answer.py\n", encoding="utf-8")
    program.chmod(0o700)
    with cao_reader(str(program)) as cao:
        board = score_board(SHIPPED, cao)
    assert set(board.scores[CAO]) == {"pi"}
    assert board.scores[CAO]["pi"].recall("idle") == 1.0
    assert board.scores[CAO]["pi"].frames["working", "idle"] > 0
    assert board.scores[CAO_LATCHED]["pi"].recall("idle") == 0.0
    made = page(board)
    assert "cli-agent-orchestrator 9.9 from PyPI" in made
    assert f"| {CAO} | another start mode | | | | | | |" in made


def test_a_python_without_it_is_an_error_and_not_an_empty_row(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o700)
    with pytest.raises(SystemExit, match="could not be run"), cao_reader(str(program)):
        pass
