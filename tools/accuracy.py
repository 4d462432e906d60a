"""Write docs/reference/accuracy.md: how right the tracker is on the recordings in tests/recordings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interlock.cli.terminals.score import ClassScore, CliScore, EndScore, score_files, summary
from interlock.testing.cadence import SWEEP
from tools.cli_table import accuracy_with_table

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "reference" / "accuracy.md"
RECORDINGS: Final = ROOT / "tests" / "recordings"
PARTS: Final = ("tui", "heldout", "live")

_HEAD: Final = """\
# Accuracy

How right the verdicts of `interlock debug track` are on recordings of real CLIs, unmodified, run against scripted model
servers, so that the truth is known. Written by `python -m tools.accuracy`; the suite fails if a figure is stale.

*Unsafe* are blocked read as idle, working read as idle, and a completed turn that went on. *Macro recall* is the mean
recall of the classes with at least 30 scored frames; `unknown` counts as a miss. *Ends* are those of turns that the
truth labels, reported as what they were: completed, interrupted, failed; *fabricated* are those where it has none.
Frames within 1.2 s after a change of the truth (2 s for a dialog, 3 s after an interrupt) or 0.7 s before one are left
out: truth leads the paint.

## Reading and acting, side by side

Reading sums up the recordings below. Acting is the last run of [`interlock debug lab`](lab.md) on the version named:
what the model itself received, which interrupts stopped the work while the agent lived, which answers took effect,
which ends of turns were reported with the right kind, and ends of turns that never were.

| |
"""
_NAMES: Final = {
    "tui": """\
## Recordings that the profiles were written with

What a profile does on these is a fit, and says little about others.
""",
    "heldout": """\
## Recordings that were held out

A fifth of each CLI's recordings, chosen by a hash of their names, which nobody looked at while the rules were written.
The first time they were scored there was one unsafe frame in them (Gemini CLI, a prompt that left the queue before the
title told of work). It is mended; since then they are a gate, and no longer unseen.
""",
    "live": """\
## Recordings made to break it

Other sizes, versions, modes, and answers that imitate dialogs and composers. What they broke was mended, so these are a
gate now as well. They are a selection, from 280 that were made on a loaded machine; on all of those nothing was unsafe,
and the macro recall was lower: Claude Code 99.5 %, Gemini CLI 98.5 %, Qwen Code 97.0 %, Codex 96.4 % (a streaming
answer without title and animations was `unknown` then; since, the missing mark of its end keeps such a turn at work).
""",
}
_TABLE: Final = """\
| CLI | recordings | unsafe | macro recall | idle | working | blocked | ends, right kind | fabricated |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def page() -> str:
    """The page, as the recordings and profiles stand now."""
    parts = [_HEAD]
    for part in PARTS:
        paths = sorted((RECORDINGS / part).rglob("*.ndjson.gz"))
        if paths:
            parts.append(f"{_NAMES[part]}\n{_table(paths)}")
    parts.append(_sweep())
    return accuracy_with_table("\n".join(parts))


def _table(paths: Sequence[Path]) -> str:
    scores, counts = score_files(paths)
    rows = [_row(summary(cli, counts[cli], scores[cli])) for cli in sorted(scores)]
    return "\n".join((_TABLE, *rows)) + "\n"


def _row(score: CliScore) -> str:
    cells = [_class(one) for one in (score.idle, score.working, score.blocked)] + [_ends(score.ends)]
    macro = "too few frames" if score.macro_recall is None else f"{score.macro_recall:.2%}"
    return f"| {score.cli} | {score.recordings} | {score.unsafe} | {macro} | {' | '.join(cells)} |"


def _ends(one: EndScore) -> str:
    right = f"{one.right_kind}/{one.labelled}" if one.labelled else "-"
    return f"{right} | {one.fabricated}"


def _class(one: ClassScore) -> str:
    return "-" if one.recall is None else f"{one.recall:.2%} ({one.frames} frames, {one.episodes} episodes)"


def _sweep() -> str:
    paths = sorted(path for part in PARTS for path in (RECORDINGS / part).rglob("*.ndjson.gz"))
    rows = []
    for cadence in SWEEP:
        unsafe = sum(score.unsafe for score in score_files(paths, cadence)[0].values())
        late, lost, twice = cadence.jitter_seconds, cadence.drop, cadence.duplicate
        rows.append(f"| {cadence.hz:g} | {late:g} s | {lost:.0%} | {twice:.0%} | {unsafe} |")
    head = "| looks a second | late by up to | lost | seen twice | unsafe |\n| --- | --- | --- | --- | --- |"
    return "\n".join(("## At other cadences, all recordings\n", head, *rows)) + "\n"


if __name__ == "__main__":
    made = page()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text("utf-8") == made else f"{PAGE} is stale; run python -m tools.accuracy")
    PAGE.write_text(made, "utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")
