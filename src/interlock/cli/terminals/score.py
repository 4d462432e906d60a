"""`interlock debug score`: how right the tracker is on recordings whose truth is known, unsafe readings first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter
from msgspec import Struct

from interlock.agents.profiles import load_profiles
from interlock.agents.recording_files import open_recording, recordings_under
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag
from interlock.cli.progress import progress
from interlock.monitor.observation import Arrival
from interlock.monitor.scoring.ends import FabricatedEnd, ScoredEnd
from interlock.monitor.scoring.readings import Miss, Score, score_recording
from interlock.monitor.scoring.recording import Frame, Header, Record, Truth, snapshot_of
from interlock.monitor.scoring.replay import replay_timeline
from interlock.monitor.tracker import TrackerEvent
from interlock.screen.profile import Profile
from interlock.screen.selection import select_reader
from interlock.testing.cadence import Cadence, at_cadence

FolderArgument: TypeAlias = Annotated[Path, Parameter(help="A recording, or a folder of them.")]
ShowFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Show the frame and the rule behind each miss.")]
HzOption: TypeAlias = Annotated[float | None, Parameter(help="Look only so many times a second.")]
JitterOption: TypeAlias = Annotated[float, Parameter(help="Seconds by which a look may be late.")]
PushedFlag: TypeAlias = Annotated[
    bool, Parameter(negative="", help="Take the frames as pushed on each change, as tmux does, and not as polled.")
]
ShareOption: TypeAlias = Annotated[float, Parameter(help="Share of looks, 0 to 1.")]

_STATES: Final = ("idle", "working", "blocked")
_ROWS_SHOWN: Final = 12


class ClassScore(Struct, frozen=True):
    """One class of the truth."""

    frames: int
    episodes: int
    recall: float | None
    latency_p50_seconds: float | None
    latency_p95_seconds: float | None


class EndScore(Struct, frozen=True):
    """The ends of turns that the truth has: how many were reported, how many as what they were, how late; and how many
    were reported where the truth has none."""

    labelled: int
    reported: int
    right_kind: int
    abandoned: int
    fabricated: int
    latency_p50_seconds: float | None
    latency_p95_seconds: float | None

    @property
    def recall(self) -> float | None:
        return self.right_kind / self.labelled if self.labelled else None


class CliScore(Struct, frozen=True):
    """One CLI, as `score --json` prints it."""

    cli: str
    recordings: int
    unsafe: int
    blocked_read_as_idle: int
    working_read_as_idle: int
    false_completions: int
    fabricated_ends: int
    macro_recall: float | None
    idle: ClassScore
    working: ClassScore
    blocked: ClassScore
    ends: EndScore
    misses: tuple[Miss, ...]
    missed_ends: tuple[ScoredEnd, ...]
    extra_ends: tuple[FabricatedEnd, ...]


def score(
    folder: FolderArgument,
    /,
    *,
    show: ShowFlag = False,
    hz: HzOption = None,
    jitter: JitterOption = 0.0,
    drop: ShareOption = 0.0,
    duplicate: ShareOption = 0.0,
    seed: int = 0,
    pushed: PushedFlag = False,
    json: JsonFlag = False,
) -> int:
    """Track every recording in a folder and compare with its truth, CLI by CLI. Exit code 1: a reading was unsafe."""
    arrival = Arrival.PUSHED if pushed else Arrival.POLLED
    rough = hz is not None or any((jitter, drop, duplicate))
    cadence = Cadence(5.0 if hz is None else hz, jitter, drop, duplicate, seed) if rough else None
    scores, counts = score_files(recordings_under(folder), cadence, arrival)
    rows = [summary(cli, counts[cli], scores[cli]) for cli in sorted(scores)]
    if json:
        output.print_json({"scores": rows})
    else:
        _print_rows(rows)
        if show:
            _print_misses(rows)
    return ExitCode.FAILED if any(row.unsafe for row in rows) else ExitCode.COMPLETED


def score_files(
    paths: Sequence[Path], cadence: Cadence | None = None, arrival: Arrival = Arrival.POLLED
) -> tuple[dict[str, Score], dict[str, int]]:
    """The score of each CLI over recordings, and how many there were."""
    profiles = load_profiles()
    scores: dict[str, Score] = defaultdict(Score)
    counts: dict[str, int] = defaultdict(int)
    with progress("scoring", of_bytes=False) as report:
        for done, path in enumerate(paths):
            report(done, len(paths))
            with open_recording(str(path)) as records:
                cli = _score_one(scores, path, list(records), profiles, cadence, arrival)
            counts[cli] += 1
    return scores, counts


def _score_one(
    scores: dict[str, Score],
    path: Path,
    records: list[Record],
    profiles: Sequence[Profile],
    cadence: Cadence | None,
    arrival: Arrival,
) -> str:
    header = next(record for record in records if isinstance(record, Header))
    reader = select_reader(profiles, header.cli, header.version)
    watched = records if cadence is None else list(at_cadence(records, cadence))
    truths = [record for record in records if isinstance(record, Truth)]
    verdicts = list(replay_timeline(header, watched, reader, arrival=arrival))
    score_recording(scores[header.cli], str(path), truths, verdicts)
    return header.cli


def summary(cli: str, recordings: int, score: Score) -> CliScore:
    """A score as a row."""
    idle, working, blocked = (
        ClassScore(
            frames=score.count(state),
            episodes=score.episodes[state],
            recall=score.recall(state),
            latency_p50_seconds=_percentile(score, state, 0.5),
            latency_p95_seconds=_percentile(score, state, 0.95),
        )
        for state in _STATES
    )
    return CliScore(
        cli=cli,
        recordings=recordings,
        unsafe=score.unsafe,
        blocked_read_as_idle=score.frames["blocked", "idle"],
        working_read_as_idle=score.frames["working", "idle"],
        false_completions=score.false_completions,
        fabricated_ends=score.fabricated_ends,
        macro_recall=score.macro_recall,
        idle=idle,
        working=working,
        blocked=blocked,
        ends=_ends(score),
        misses=tuple(score.misses),
        missed_ends=tuple(end for end in score.ends if not end.is_right),
        extra_ends=tuple(score.extra_ends),
    )


def _ends(score: Score) -> EndScore:
    late = [end.latency_seconds for end in score.ends if end.is_right and end.latency_seconds is not None]
    return EndScore(
        labelled=len(score.ends),
        reported=sum(end.said is not None for end in score.ends),
        right_kind=sum(end.is_right for end in score.ends),
        abandoned=sum(end.said == TrackerEvent.ABANDONED for end in score.ends),
        fabricated=len(score.extra_ends),
        latency_p50_seconds=_share(late, 0.5),
        latency_p95_seconds=_share(late, 0.95),
    )


def _percentile(score: Score, state: str, share: float) -> float | None:
    return _share([seconds for of, seconds in score.latencies if of == state], share)


def _share(found: Sequence[float], share: float) -> float | None:
    values = sorted(found)
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def _print_rows(rows: Sequence[CliScore]) -> None:
    classes = (text for state in _STATES for text in (state.upper(), "P95 S"))
    header = ("CLI", "UNSAFE", "MACRO", *classes, "ENDS", "P95 S", "EXTRA")
    cells = [
        (
            row.cli,
            str(row.unsafe),
            _percent(row.macro_recall),
            *(text for one in (row.idle, row.working, row.blocked) for text in _class_cells(one)),
            *_end_cells(row.ends),
        )
        for row in rows
    ]
    output.print_table(header, cells)
    output.print_text(
        "\nunsafe: blocked or working read as idle, or a completion while the turn went on. For each class: recall,"
        "\n(frames/episodes), and the seconds until the first right verdict that lasts, 95 of 100 edges. Ends of turns:"
        "\nreported as what they were (reported/labelled), the seconds until then, and ends where the truth has none."
    )


def _class_cells(one: ClassScore) -> tuple[str, str]:
    latency = one.latency_p95_seconds
    return f"{_percent(one.recall)} ({one.frames}/{one.episodes})", "-" if latency is None else f"{latency:.1f}"


def _end_cells(ends: EndScore) -> tuple[str, str, str]:
    latency = ends.latency_p95_seconds
    said = f"{_percent(ends.recall)} ({ends.reported}/{ends.labelled})"
    return said, "-" if latency is None else f"{latency:.1f}", str(ends.fabricated)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _print_misses(rows: Sequence[CliScore]) -> None:
    """One block for each run of misses of the same kind, unsafe ones first."""
    groups: dict[tuple[bool, str, str, str, str, str], list[Miss]] = defaultdict(list)
    for miss in (miss for row in rows for miss in row.misses):
        key = (not miss.is_unsafe, miss.recording, miss.truth, miss.detail, miss.verdict, miss.rule)
        groups[key].append(miss)
    for row in rows:
        for end in row.missed_ends:
            told = "was never reported" if end.said is None else f"was reported as {end.said}"
            output.print_text(f"\n{end.recording}, {end.t:.2f} s: the end of a turn ({end.detail}) {told}")
        for extra in row.extra_ends:
            output.print_text(f"\n{extra.recording}, {extra.t:.2f} s: {extra.said}, and the truth has no end there")
    for key in sorted(groups):
        first, last = groups[key][0], groups[key][-1]
        unsafe = "UNSAFE: " if first.is_unsafe else ""
        output.print_text(
            f"\n{unsafe}{first.recording}, {first.t:.2f} to {last.t:.2f} s ({len(groups[key])} frames): truth "
            f"{first.truth} ({first.detail}), read as {first.verdict} by {first.rule}"
        )
        output.print_text(_screen_at(first))


def _screen_at(miss: Miss) -> str:
    with open_recording(miss.recording) as records:
        header: Header | None = None
        frame: Frame | None = None
        for record in records:
            if isinstance(record, Header):
                header = record
            elif isinstance(record, Frame) and record.t <= miss.t:
                frame = record
    if header is None or frame is None:
        return ""
    snapshot = snapshot_of(frame, header)
    rows = [f"  {number:3} {row.text}" for number, row in enumerate(snapshot.rows) if row.text]
    return "\n".join((f"      title {snapshot.title!r}, cursor {snapshot.cursor}", *rows[-_ROWS_SHOWN:]))
