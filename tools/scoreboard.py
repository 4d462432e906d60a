"""Other detectors on the same frames, scored by the same rules: `python tools/scoreboard.py [FOLDER ...]`.

Beside Interlock's tracker: a quiet-screen baseline and a title-only baseline, always; cli-agent-orchestrator (CAO) with
`--cao PYTHON`, a Python in whose environment it is installed. It is never a dependency of this repository:

    python3 -m venv /tmp/cao && /tmp/cao/bin/pip install cli-agent-orchestrator
    python tools/scoreboard.py --cao /tmp/cao/bin/python --write

Without folders the recordings in tests/recordings are read. `--write` writes docs/reference/scoreboard.md. Nothing
checks that page: it needs a package that a checkout does not have.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import IO, Any, Final, TypeAlias, cast

from interlock.agents.profiles import builtin_profiles
from interlock.agents.recording_files import open_recording, recordings_under
from interlock.monitor.arbitration.agent_status import Standing
from interlock.monitor.scoring.readings import MIN_FRAMES, Score, score_recording
from interlock.monitor.scoring.recording import Frame, Header, Input, Record, Truth, snapshot_of
from interlock.monitor.scoring.replay import replay_timeline
from interlock.monitor.tracker import TrackerEvent, Verdict
from interlock.screen.assessment import BusinessState, SurfaceAssessment
from interlock.screen.selection import select_reader

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "reference" / "scoreboard.md"
RECORDINGS: Final = ROOT / "tests" / "recordings"
ADAPTER: Final = Path(__file__).parent / "scoreboard_cao.py"
QUIET_SECONDS: Final = 2.0
OURS: Final = "Interlock"
QUIET: Final = f"quiet screen, {QUIET_SECONDS:g} s"
TITLE: Final = "title only"
CAO: Final = "CAO, screen detector"
CAO_LATCHED: Final = "CAO, with its latch"
CODEX_INLINE: Final = "codex, inline"
CODEX_ALTERNATE: Final = "codex, alternate screen"
CLASSES: Final = ("idle", "working", "blocked")

IDLE, WORKING, BLOCKED, UNKNOWN = (
    BusinessState.IDLE,
    BusinessState.WORKING,
    BusinessState.AWAITING_OPERATOR,
    BusinessState.UNKNOWN,
)
_CAO_STATES: Final = {"idle": IDLE, "completed": IDLE, "processing": WORKING, "waiting_user_answer": BLOCKED}
Timeline: TypeAlias = list[tuple[Frame, Verdict]]


@dataclass(frozen=True, slots=True)
class Recording:
    name: str
    header: Header
    records: tuple[Record, ...]

    @property
    def frames(self) -> list[Frame]:
        return [record for record in self.records if isinstance(record, Frame)]

    @property
    def group(self) -> str:
        """The CLI, and how it was started where a detector depends on it: CAO starts Codex inline."""
        cli, frames = self.header.cli, self.frames
        if cli != "codex":
            return cli
        is_inline = sum(frame.alt for frame in frames) * 2 < len(frames)
        return CODEX_INLINE if is_inline else CODEX_ALTERNATE

    @property
    def truths(self) -> list[Truth]:
        return [record for record in self.records if isinstance(record, Truth)]


@dataclass(slots=True)
class Board:
    """A score for each detector and group of recordings. A group without one is not covered by the detector."""

    scores: dict[str, dict[str, Score]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Score)))
    recordings: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    versions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    cao_version: str = ""

    @property
    def detectors(self) -> list[str]:
        return [name for name in (OURS, CAO, CAO_LATCHED, TITLE, QUIET) if name in self.scores]


def read_recording(path: Path) -> Recording:
    with open_recording(str(path)) as records:
        read = tuple(records)
    return Recording(path.name, next(record for record in read if isinstance(record, Header)), read)


def timeline(frames: Sequence[Frame], states: Sequence[BusinessState], ends: Iterable[bool] | None = None) -> Timeline:
    """What another detector said, in the scorer's words. Without `ends` a step from working to idle is a completion."""
    if ends is None:
        ends = [False, *(before is WORKING and now is IDLE for before, now in pairwise(states))]
    return [
        (frame, Verdict(frame.t, state, SurfaceAssessment(), Standing(), None, None, None, (_COMPLETED if end else ())))
        for frame, state, end in zip(frames, states, ends, strict=True)
    ]


_COMPLETED: Final = (TrackerEvent.COMPLETED,)


def by_interlock(recording: Recording) -> Timeline:
    reader = select_reader(builtin_profiles(), recording.header.cli, recording.header.version)
    return list(replay_timeline(recording.header, recording.records, reader))


def by_quiet_screen(recording: Recording) -> Timeline:
    """Idle once nothing changed for two seconds, else working: it knows no dialogs."""
    states: list[BusinessState] = []
    shown, since = "", 0.0
    for frame in recording.frames:
        if frame.ansi != shown:
            shown, since = frame.ansi or "", frame.t
        states.append(IDLE if frame.t - since >= QUIET_SECONDS else WORKING)
    return timeline(recording.frames, states)


def by_title(recording: Recording) -> Timeline:
    """The marks that our profile knows in the title of the terminal, and nothing else."""
    marks = select_reader(builtin_profiles(), recording.header.cli, recording.header.version).profile.titles
    order = ((marks.asking, BLOCKED), (marks.working, WORKING), (marks.calm, IDLE))
    states = [
        next((state for mark, state in order if mark is not None and mark.search(frame.title)), UNKNOWN)
        for frame in recording.frames
    ]
    return timeline(recording.frames, states)


class CaoReader:
    """cli-agent-orchestrator in a process of its own, one recording at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._out, self._in = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        told = self._answer()
        self.version, self.clis = str(told["version"]), frozenset(told["clis"])

    def read(self, recording: Recording) -> tuple[Timeline, Timeline]:
        self._out.write(json.dumps({"cli": recording.header.cli, "steps": [*steps_of(recording)]}) + "\n")
        self._out.flush()
        said = self._answer()
        return self._timeline(recording, said["alone"]), self._timeline(recording, said["latched"])

    def _answer(self) -> dict[str, Any]:
        line = self._in.readline()
        if not line:
            raise SystemExit("cli-agent-orchestrator could not be run; what it printed stands above")
        return cast("dict[str, Any]", json.loads(line))

    @staticmethod
    def _timeline(recording: Recording, said: Sequence[str]) -> Timeline:
        ends = [False, *(now == "completed" != before for before, now in pairwise(said))]
        return timeline(recording.frames, [_CAO_STATES.get(word, UNKNOWN) for word in said], ends)


def steps_of(recording: Recording) -> Iterator[dict[str, object]]:
    """A recording for CAO: frames; submits, with the prompt that stood in the composer; the end of each dialog, which
    it would have answered itself."""
    reader = select_reader(builtin_profiles(), recording.header.cli, recording.header.version)
    was_blocked, draft = False, ""
    for record in recording.records:
        if isinstance(record, Frame):
            screen = snapshot_of(record, recording.header)
            draft = reader.parse_snapshot(screen).draft or draft
            rows = [row.text for row in screen.rows]
            yield {"t": record.t, "rows": rows, "columns": screen.columns, "dead": record.dead}
        elif isinstance(record, Input) and record.submit:
            yield {"t": record.t, "prompt": record.prompt or draft}
        elif isinstance(record, Truth):
            if was_blocked and record.state != "blocked":
                yield {"t": record.t}
            was_blocked = record.state == "blocked"


@contextmanager
def cao_reader(python: str | None) -> Iterator[CaoReader | None]:
    if python is None:
        yield None
        return
    with subprocess.Popen(
        [python, str(ADAPTER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            yield CaoReader(process)
        finally:
            process.kill()


def score_board(paths: Iterable[Path], cao: CaoReader | None = None) -> Board:
    """Every detector on every recording."""
    board = Board(cao_version="" if cao is None else cao.version)
    ways: dict[str, Callable[[Recording], Timeline]] = {OURS: by_interlock, TITLE: by_title, QUIET: by_quiet_screen}
    for path in paths:
        recording = read_recording(path)
        group = recording.group
        board.recordings[group] += 1
        board.versions[group].add(recording.header.version or "unknown")
        said = {name: way(recording) for name, way in ways.items()}
        if cao is not None and recording.header.cli in cao.clis and group != CODEX_ALTERNATE:
            said[CAO], said[CAO_LATCHED] = cao.read(recording)
        for name, verdicts in said.items():
            score_recording(board.scores[name][group], recording.name, recording.truths, verdicts)
    return board


def page(board: Board) -> str:
    """The page, from one run."""
    parts = [_HEAD, _method(board)]
    for group in sorted(board.recordings):
        versions = ", ".join(sorted(board.versions[group]))
        count = board.recordings[group]
        parts.append(f"## {group}\n\n{count} recordings of {versions}.\n\n{_table(board, group)}\n")
    parts.append("## Where another detector reads better\n\n" + _better(board))
    return "\n".join(parts)


_HEAD: Final = """\
# Scoreboard

Other detectors on the same frames as Interlock's tracker, in one run, scored by the rules of [accuracy](accuracy.md).
Written by `python tools/scoreboard.py --write`; its first lines say how to run it again. The recordings are those of
this repository, which Interlock's profiles were written with or have been held to since: that is an advantage, and no
other detector here had it.

*As idle* are scored frames of an agent that works or asks, read as idle. *False ends* are completions reported while
the turn went on. Recall is per class of the truth, with its scored frames; *macro* is the mean over classes with at
least 30. *Idle after* is the median time from the true end of the work to the first idle that lasts.
"""
_CAO_IS: Final = """\
cli-agent-orchestrator {version} from PyPI, its own code: `get_status_from_screen` of the provider on each frame, the \
provider initialized at its first ready screen and told of each submit as its server tells it"""
_CAO_LACKS: Final = """\
no provider for {others}. It starts Claude Code and Codex with approvals bypassed, so it would meet few of the dialogs \
here, and Codex inline, so recordings of Codex on the alternate screen are not read by it; the two inline ones are few \
and hard, as answers in one imitate dialogs and the other is of an old version. Its launch, its reading of the raw \
bytes and its larger virtual screen were not run"""
_LATCH_IS: Final = """\
the same readings through the latch of its `StatusMonitor`, told of submits and of every answered dialog"""
_LATCH_LACKS: Final = """\
as above; keys that a person presses, such as Escape, are unknown to it. A detection on every frame stands for its \
timers (rising edge, 0.2 s of quiet)"""


def _method(board: Board) -> str:
    rows = [("Detector", "What it is", "What it does not cover"), ("---", "---", "---")]
    rows.append((OURS, "the tracker, fed frame by frame as a poll would", "a CLI without a profile"))
    if board.cao_version:
        others = set(board.recordings) - set(board.scores[CAO]) - {CODEX_ALTERNATE}
        lacks = _CAO_LACKS.format(others=", ".join(sorted(others)) or "none of these")
        rows += [(CAO, _CAO_IS.format(version=board.cao_version), lacks), (CAO_LATCHED, _LATCH_IS, _LATCH_LACKS)]
    rows.append((TITLE, "the title of the terminal, by the marks in our profiles", "all that a title does not say"))
    quiet = f"idle when the screen did not change for {QUIET_SECONDS:g} s, else working"
    rows.append((QUIET, quiet, "dialogs; work that stands still"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _table(board: Board, group: str) -> str:
    lines = [
        "| Detector | as idle | false ends | macro | idle | working | blocked | idle after |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in board.detectors:
        if group in board.scores[name]:
            lines.append(_row(name, board.scores[name][group]))
        else:
            why = "another start mode" if group == CODEX_ALTERNATE else "not covered"
            lines.append(f"| {name} | {why} | | | | | | |")
    return "\n".join(lines)


def _row(name: str, score: Score) -> str:
    misread = score.frames["blocked", "idle"] + score.frames["working", "idle"]
    classes = " | ".join(f"{_share(score.recall(state))} of {score.count(state)}" for state in CLASSES)
    seconds = idle_after(score)
    after = "-" if seconds is None else f"{seconds:.1f} s"
    ends = score.false_completions + score.fabricated_ends
    return f"| {name} | {misread} | {ends} | {_share(score.macro_recall)} | {classes} | {after} |"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def idle_after(score: Score) -> float | None:
    late = [seconds for state, seconds in score.latencies if state == "idle"]
    return median(late) if late else None


def _better(board: Board) -> str:
    """Every class in which another detector has a higher recall than ours, and every idle that it knows sooner."""
    pairs = [(group, name) for group in sorted(board.recordings) for name in board.detectors[1:]]
    lines = [line for group, name in pairs if group in board.scores[name] for line in _gains(board, group, name)]
    return "\n".join(lines or ["Nowhere, in this run."]) + "\n"


def _gains(board: Board, group: str, name: str) -> Iterator[str]:
    ours, theirs = board.scores[OURS][group], board.scores[name][group]
    for state in CLASSES:
        mine, its = ours.recall(state), theirs.recall(state)
        if mine is not None and its is not None and its > mine and ours.count(state) >= MIN_FRAMES:
            yield f"- {group}, {state}: {name} {its:.2%}, {OURS} {mine:.2%}"
    soon, late = idle_after(theirs), idle_after(ours)
    if soon is not None and late is not None and round(soon, 1) < round(late, 1):
        yield f"- {group}, idle after: {name} {soon:.1f} s, {OURS} {late:.1f} s (median of those that it found)"


def main(words: Sequence[str]) -> None:
    parser = ArgumentParser(description="Score other detectors on recordings.")
    parser.add_argument(
        "folder", nargs="*", type=Path, help="recordings, or folders of them; default: the repository's"
    )
    parser.add_argument("--cao", metavar="PYTHON", help="a Python with cli-agent-orchestrator")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)} instead of printing")
    given = parser.parse_args(words)
    folders = given.folder or [RECORDINGS / part for part in ("tui", "heldout", "live")]
    paths = [path for folder in folders for path in recordings_under(folder)]
    with cao_reader(given.cao) as cao:
        made = page(score_board(paths, cao))
    if given.write:
        PAGE.write_text(made, "utf-8")
        print(f"{PAGE.relative_to(ROOT)} written")
    else:
        print(made)


if __name__ == "__main__":
    main(sys.argv[1:])
