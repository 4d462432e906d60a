"""Score the ends of turns against the truth of recordings: which were reported, as what, how late, and which not.

Laws:
1. A labelled end is an edge of the truth out of a turn (work, or a dialog within it) to idle or gone. Its kind is the
   truth's detail: complete, interrupted or denied (both are interrupted), gone. Where the truth does not tell the kind
   (a draft stands there), any end is right.
2. It is reported by the first end between a moment before it (some screens are ahead of the label) and the next turn of
   the truth. `turn_abandoned` reports that there was an end, and never has the right kind; it counts also if it comes
   with the next turn.
3. An end that reports no labelled one is fabricated, unless the truth is open to argument since the end before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from interlock.monitor.scoring.recording import Frame, Truth
from interlock.monitor.tracker import TrackerEvent, Verdict

_AHEAD_SECONDS: Final = 0.7
# A recording that ends sooner after the end of a turn does not hold what proves it.
_PROVEN_WITHIN_SECONDS: Final = 3.0
_KINDS: Final = {
    "complete": TrackerEvent.COMPLETED,
    "completed": TrackerEvent.COMPLETED,
    "background_task": TrackerEvent.COMPLETED,
    "interrupted": TrackerEvent.INTERRUPTED,
    "denied": TrackerEvent.INTERRUPTED,
}
ENDS: Final = (
    TrackerEvent.COMPLETED,
    TrackerEvent.INTERRUPTED,
    TrackerEvent.FAILED,
    TrackerEvent.GONE,
    TrackerEvent.ABANDONED,
)


@dataclass(frozen=True, slots=True)
class LabelledEnd:
    """The end of a turn by the truth. `kind` is None where the truth does not say it. `until`: the next turn."""

    t: float
    detail: str
    kind: TrackerEvent | None
    until: float


@dataclass(frozen=True, slots=True)
class ScoredEnd:
    """A labelled end, and how it was reported; `said` is None where it never was."""

    recording: str
    t: float
    detail: str
    said: str | None
    is_right: bool
    latency_seconds: float | None


@dataclass(frozen=True, slots=True)
class FabricatedEnd:
    """An end that was reported where the truth has none."""

    recording: str
    t: float
    said: str


def labelled_ends(truths: Sequence[Truth], *, shows_exit: bool) -> list[LabelledEnd]:
    """Law 1. What follows an unscored time has a kind only where its detail names one. An exit is proven by the
    process: without a frame that shows it (`shows_exit`), a recording does not hold that proof."""
    found: list[LabelledEnd] = []
    in_turn = was_doubtful = False
    for at, truth in enumerate(truths):
        if truth.state == "working" or (truth.state == "blocked" and in_turn):
            was_doubtful, in_turn = was_doubtful and in_turn, True
        elif truth.state == "unscored":
            was_doubtful = True
        elif in_turn and truth.state in ("idle", "gone"):
            kind = TrackerEvent.GONE if truth.state == "gone" else _KINDS.get(truth.detail)
            is_labelled = shows_exit if kind is TrackerEvent.GONE else kind is not None or not was_doubtful
            if is_labelled:
                until = next((one.t for one in truths[at:] if one.state == "working"), math.inf)
                found.append(LabelledEnd(truth.t, truth.detail, kind, until))
            in_turn = was_doubtful = False
    return found


def score_ends(
    recording: str, truths: Sequence[Truth], verdicts: Sequence[tuple[Frame, Verdict]]
) -> tuple[list[ScoredEnd], list[FabricatedEnd]]:
    """Laws 2 and 3. What the recording ends too soon to show is left out where it was not reported."""
    told = [(frame.t, event) for frame, verdict in verdicts for event in verdict.events if event in ENDS]
    last = verdicts[-1][0].t if verdicts else -math.inf
    scored: list[ScoredEnd] = []
    for label in labelled_ends(truths, shows_exit=any(frame.dead for frame, _ in verdicts)):
        mine = next((one for one in told if _reports(label, *one)), None)
        if mine is None and label.t + _PROVEN_WITHIN_SECONDS > last:
            continue
        if mine is None:
            scored.append(ScoredEnd(recording, label.t, label.detail, None, is_right=False, latency_seconds=None))
            continue
        told.remove(mine)
        is_right = mine[1] is not TrackerEvent.ABANDONED and label.kind in (None, mine[1])
        scored.append(ScoredEnd(recording, label.t, label.detail, mine[1].value, is_right, max(0.0, mine[0] - label.t)))
    extra = [FabricatedEnd(recording, t, event.value) for t, event in told if _is_fabricated(truths, scored, t, event)]
    return scored, extra


def _reports(label: LabelledEnd, t: float, event: TrackerEvent) -> bool:
    late = label.until + (_AHEAD_SECONDS if event is TrackerEvent.ABANDONED else 0.0)
    return label.t - _AHEAD_SECONDS <= t < late


def _is_fabricated(truths: Sequence[Truth], scored: Sequence[ScoredEnd], t: float, event: TrackerEvent) -> bool:
    """Whether nothing that the truth has since the end before it may have been a turn, or it is still going on."""
    if event is TrackerEvent.ABANDONED or event is TrackerEvent.GONE:
        return False
    since = max((one.t for one in scored if one.t <= t), default=-math.inf)
    between = [one for one in truths if since < one.t <= t]
    may_hide_turn = any(one.state == "unscored" and one.detail != "starting" for one in between)
    return bool(between) and not may_hide_turn
