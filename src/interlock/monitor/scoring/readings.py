"""Score verdicts against the truth of recordings, by the rules under which the recordings were made.

A frame counts if its truth is idle, working or blocked, is old enough, and does not end soon: truth leads the paint,
and some screens are ahead of the label. Unsafe, counted apart: blocked read as idle, working read as idle, a completed
event while the truth is working or blocked, and a fabricated end: one of a turn that nobody submitted, and for which
the truth has no work since the end before it. Ends count at any time, the others on scored frames.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.monitor.debounce import BelievedTurn, TurnSource
from interlock.monitor.scoring.ends import FabricatedEnd, ScoredEnd, score_ends
from interlock.monitor.scoring.recording import Frame, Truth
from interlock.monitor.tracker import TrackerEvent, Verdict
from interlock.screen.assessment import BusinessState, InputMode

_SCORED: Final = {"idle": 1.2, "working": 1.2, "blocked": 2.0}
_AFTER_A_STOP: Final = 3.0
_STOPS: Final = ("interrupted", "denied")
_GUARD: Final = 0.7
_LASTS: Final = 0.4
_READS_AS: Final = {
    BusinessState.IDLE: "idle",
    BusinessState.WORKING: "working",
    BusinessState.AWAITING_OPERATOR: "blocked",
}
_ENDS: Final = (TrackerEvent.COMPLETED, TrackerEvent.INTERRUPTED, TrackerEvent.FAILED)
_IN_A_TURN: Final = ("working", "blocked")
_OWN_MENU: Final = (InputMode.MODAL, InputMode.CLOSED)
MIN_FRAMES: Final = 30


@dataclass(frozen=True, slots=True)
class Episode:
    """A time in which the state of the truth did not change; its details may have, each with its time."""

    state: str
    start: float
    end: float
    details: tuple[tuple[float, str], ...]

    def detail_at(self, t: float) -> str:
        return self.details[max(0, bisect_right(self.details, (t, "\U0010ffff")) - 1)][1]


@dataclass(frozen=True, slots=True)
class Miss:
    """A frame that was read wrongly."""

    recording: str
    t: float
    truth: str
    detail: str
    verdict: str
    rule: str
    is_unsafe: bool


@dataclass(slots=True)
class Score:
    """Counts over recordings. Keys are (truth, verdict)."""

    frames: Counter[tuple[str, str]] = field(default_factory=Counter)
    episodes: Counter[str] = field(default_factory=Counter)
    false_completions: int = 0
    fabricated_ends: int = 0
    misses: list[Miss] = field(default_factory=list)
    latencies: list[tuple[str, float]] = field(default_factory=list)
    ends: list[ScoredEnd] = field(default_factory=list)
    extra_ends: list[FabricatedEnd] = field(default_factory=list)

    @property
    def unsafe(self) -> int:
        misread = self.frames["blocked", "idle"] + self.frames["working", "idle"]
        return misread + self.false_completions + self.fabricated_ends

    def count(self, truth: str) -> int:
        return sum(count for (state, _), count in self.frames.items() if state == truth)

    def recall(self, truth: str) -> float | None:
        count = self.count(truth)
        return self.frames[truth, truth] / count if count else None

    @property
    def macro_recall(self) -> float | None:
        """The mean recall of the classes that have enough frames to say something."""
        recalls = [self.recall(truth) or 0.0 for truth in _SCORED if self.count(truth) >= MIN_FRAMES]
        return sum(recalls) / len(recalls) if recalls else None


def episodes_of(truths: Iterable[Truth], end: float) -> list[Episode]:
    """The truth, joined where only its detail changed."""
    found: list[Episode] = []
    for truth in truths:
        detail = (truth.t, truth.detail)
        if found and found[-1].state == truth.state:
            found[-1] = Episode(truth.state, found[-1].start, end, (*found[-1].details, detail))
            continue
        if found:
            last = found[-1]
            found[-1] = Episode(last.state, last.start, truth.t, last.details)
        found.append(Episode(truth.state, truth.t, end, (detail,)))
    return found


def score_recording(
    score: Score, name: str, truths: Sequence[Truth], verdicts: Sequence[tuple[Frame, Verdict]]
) -> None:
    """Add one recording to a score."""
    if not verdicts:
        return
    episodes = episodes_of(truths, math.inf)
    starts = [episode.start for episode in episodes]
    for frame, verdict in verdicts:
        at = bisect_right(starts, frame.t) - 1
        if at < 0:
            continue
        _score_frame(score, name, episodes[at], frame, verdict)
    _score_ends(score, name, episodes, verdicts)
    ends, extra = score_ends(name, truths, verdicts)
    score.ends += ends
    score.extra_ends += extra
    for episode in episodes:
        _score_edge(score, episode, verdicts)


def _score_ends(
    score: Score, name: str, episodes: Sequence[Episode], verdicts: Sequence[tuple[Frame, Verdict]]
) -> None:
    """The end of a turn that nobody submitted needs work that began after the end before it. A dialog is no work.

    Where the truth is not idle it says nothing against an end: too early is counted by itself, unscored is unknown.
    """
    starts = [episode.start for episode in episodes]
    works = [episode.start for episode in episodes if episode.state == "working" or _may_hide_work(episode)]
    ended = 0
    turn: BelievedTurn | None = None
    for frame, verdict in verdicts:
        ends = [event for event in verdict.events if event in _ENDS]
        at = bisect_right(starts, frame.t) - 1
        is_inferred = turn is not None and turn.source is TurnSource.INFERRED
        turn = verdict.turn
        if not ends or at < 0 or episodes[at].state in _IN_A_TURN:
            continue
        begun = bisect_right(works, frame.t)
        if is_inferred and begun == ended and episodes[at].state == "idle":
            score.fabricated_ends += 1
            detail = episodes[at].detail_at(frame.t)
            said = f"{ends[0].value} (no turn)"
            score.misses.append(Miss(name, frame.t, episodes[at].state, detail, said, verdict.rule, is_unsafe=True))
        ended = begun


def _may_hide_work(episode: Episode) -> bool:
    return episode.state == "unscored" and any(detail != "starting" for _, detail in episode.details)


def _score_frame(score: Score, name: str, episode: Episode, frame: Frame, verdict: Verdict) -> None:
    detail = episode.detail_at(frame.t)
    if TrackerEvent.COMPLETED in verdict.events and episode.state in _IN_A_TURN:
        score.false_completions += 1
        score.misses.append(Miss(name, frame.t, episode.state, detail, "completed", verdict.rule, is_unsafe=True))
    if not _counts(episode, frame.t):
        return
    read = read_as(verdict, episode.state, detail)
    score.frames[episode.state, read] += 1
    if read != episode.state:
        is_unsafe = read == "idle" and episode.state in _IN_A_TURN
        score.misses.append(Miss(name, frame.t, episode.state, detail, read, verdict.rule, is_unsafe))


def read_as(verdict: Verdict, truth: str, detail: str) -> str:
    """The verdict in the words of the truth. A picker that the user opened may be read as idle that takes no text."""
    read = _READS_AS.get(verdict.business_state, "unknown")
    is_own_menu = truth == "blocked" and detail == "menu" and read == "idle" and verdict.surface.input_mode in _OWN_MENU
    return "blocked" if is_own_menu else read


def _counts(episode: Episode, t: float) -> bool:
    if episode.state not in _SCORED:
        return False
    stopped = episode.state == "idle" and episode.detail_at(t) in _STOPS
    age = _AFTER_A_STOP if stopped else _SCORED[episode.state]
    return t - episode.start >= age and t <= episode.end - _GUARD


def _score_edge(score: Score, episode: Episode, verdicts: Sequence[tuple[Frame, Verdict]]) -> None:
    """How long it took until the first right verdict that lasted."""
    if episode.state not in _SCORED:
        return
    score.episodes[episode.state] += 1
    since: float | None = None
    for frame, verdict in verdicts:
        if frame.t < episode.start:
            continue
        if frame.t >= episode.end:
            return
        if read_as(verdict, episode.state, episode.detail_at(frame.t)) != episode.state:
            since = None
            continue
        since = frame.t if since is None else since
        if frame.t - since >= _LASTS:
            score.latencies.append((episode.state, since - episode.start))
            return
