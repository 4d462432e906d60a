"""The ladder: what each rung last said on an axis, what of it is still fresh, and who contradicts whom.

Freshness, by rung:
- native status: from a claim on an open channel until that channel closes, or the claim is `native_status_seconds` old.
  A channel that opens again starts empty.
- native file: while it was written after the last known edge of its process.
- hook: until another rung says otherwise (the machine then takes it off the ladder), and never alone: without any
  other fresh rung it lasts as long as a capture does.
- pane title, screen, silence: for the watched gap after a capture. A pushed capture is renewed by its open channel.
- operator (our own acts): for as long as the act says.

An event says what changed, so silence on an axis leaves that axis alone. A capture or a file says all that it sees, so
its silence takes back what it said before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import Final, NamedTuple

from interlock.monitor.arbitration.axes import turn_is_open
from interlock.monitor.arbitration.claims import RANK, Claim
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity

CAPTURES: Final = frozenset({EvidenceSource.PANE_TITLE, EvidenceSource.SCREEN, EvidenceSource.SILENCE})
CHANNELS: Final = CAPTURES | {EvidenceSource.NATIVE_STATUS}
"""The rungs whose freshness hangs on an open channel."""
_SNAPSHOTS: Final = CAPTURES | {EvidenceSource.NATIVE_FILE}
# Who keeps a hook from being alone. Bytes that do not come, our own acts, and what any output can say support nothing.
_SUPPORTS: Final = frozenset({EvidenceSource.NATIVE_FILE, EvidenceSource.PANE_TITLE, EvidenceSource.SCREEN})
# What native status may cast doubt on: a file is harder to forge than a record.
_DOUBTED: Final = frozenset({EvidenceSource.HOOK, EvidenceSource.PANE_TITLE, EvidenceSource.SCREEN})


class Axis(StrEnum):
    """Which of the two questions a voice answers."""

    ACTIVITY = "activity"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class Voice:
    """What a rung last said on one axis. Two voices contradict each other when their stances differ.

    The stance on activity: a turn is open. On attention: a dialog is open. None: it does not tell.
    """

    claim: Claim
    rung: EvidenceSource
    at_seconds: float
    stance: bool | None
    expires_at_seconds: float

    @property
    def is_renewed(self) -> bool:
        """An open channel vouches for it at every instant."""
        return self.rung in CHANNELS and self.expires_at_seconds == math.inf


class Ladders(NamedTuple):
    """One ladder an axis: at most one voice a rung, best rung first."""

    activity: tuple[Voice, ...] = ()
    attention: tuple[Voice, ...] = ()


class Pair(NamedTuple):
    """Two rungs that contradict each other on an axis, the better one first."""

    axis: Axis
    higher: Voice
    lower: Voice

    @property
    def casts_doubt(self) -> bool:
        """The agent reports something else than it shows. A dialog that it shows is there, whatever it reports."""
        is_native = self.higher.rung is EvidenceSource.NATIVE_STATUS and self.lower.rung in _DOUBTED
        return is_native and (self.axis is Axis.ACTIVITY or self.higher.stance is True)


def admit(ladders: Ladders, claim: Claim, expires_at_seconds: float, *, after_seconds: float) -> Ladders:
    """Put a claim on the ladders. On activity, one from before `after_seconds` (the last submit) is too old."""
    activity, attention = ladders
    if claim.withdraws:
        return without(ladders, claim.rung)
    if claim.activity is not None:
        if claim.at_seconds >= after_seconds:
            activity = _place(activity, _voice(claim, turn_is_open(claim.activity), expires_at_seconds))
    elif claim.rung in _SNAPSHOTS:
        activity = _take_back(activity, claim)
    if claim.attention is not None:
        attention = _place(attention, _voice(claim, claim.is_dialog, expires_at_seconds))
    elif claim.rung in _SNAPSHOTS:
        attention = _take_back(attention, claim)
    return Ladders(activity, attention)


def _voice(claim: Claim, stance: bool | None, expires_at_seconds: float) -> Voice:
    return Voice(claim, claim.rung, claim.at_seconds, stance, expires_at_seconds)


def _place(ladder: tuple[Voice, ...], voice: Voice) -> tuple[Voice, ...]:
    others = []
    for held in ladder:
        if held.rung is voice.rung:
            if held.at_seconds > voice.at_seconds:
                return ladder
        elif held.rung is not EvidenceSource.OPERATOR or voice.rung is EvidenceSource.NATIVE_STATUS:
            # What the agent shows replaces what we expected of it, for good. What it reports is not shown yet.
            others.append(held)
    others.append(voice)
    others.sort(key=_rank)
    return tuple(others)


def _take_back(ladder: tuple[Voice, ...], claim: Claim) -> tuple[Voice, ...]:
    return tuple(held for held in ladder if held.rung is not claim.rung or held.at_seconds > claim.at_seconds)


def _rank(voice: Voice) -> int:
    return RANK[voice.rung]


def without(ladders: Ladders, rung: EvidenceSource) -> Ladders:
    """The ladders without a rung."""
    return Ladders(*(tuple(voice for voice in ladder if voice.rung is not rung) for ladder in ladders))


def no_longer_renewed(ladders: Ladders, rung: EvidenceSource, gap_seconds: float) -> Ladders:
    """The ladders once nobody vouches for a capture: it lasts for the gap after it was taken."""
    return Ladders(
        *(
            tuple(
                replace(voice, expires_at_seconds=voice.at_seconds + gap_seconds) if voice.rung is rung else voice
                for voice in ladder
            )
            for ladder in ladders
        )
    )


def fresh_voices(ladders: Ladders, edge_at_seconds: float, now: float, gap_seconds: float) -> Ladders:
    """The voices that count now. Everything else is stale, and as good as unsaid."""
    standing = [tuple([voice for voice in ladder if _stands(voice, edge_at_seconds, now)]) for ladder in ladders]
    for ladder in standing:
        for voice in ladder:
            if voice.rung in _SUPPORTS and voice.claim.activity is not Activity.STALLED:
                return Ladders(*standing)
    return Ladders(*(tuple(voice for voice in ladder if _stands_alone(voice, now, gap_seconds)) for ladder in standing))


def _stands(voice: Voice, edge_at_seconds: float, now: float) -> bool:
    if voice.rung is EvidenceSource.NATIVE_FILE:
        return voice.at_seconds > edge_at_seconds
    return now < voice.expires_at_seconds


def _stands_alone(voice: Voice, now: float, gap_seconds: float) -> bool:
    return voice.rung is not EvidenceSource.HOOK or now < voice.at_seconds + gap_seconds


def contradictions(fresh: Ladders) -> Iterator[Pair]:
    """Every pair of fresh voices that cannot both be right."""
    for axis, ladder in zip(Axis, fresh, strict=True):
        stances = {voice.stance for voice in ladder}
        if True not in stances or False not in stances:
            continue
        has_background = axis is Axis.ACTIVITY and any(map(_shows_background, ladder))
        for higher, lower in combinations(ladder, 2):
            if higher.rung is EvidenceSource.NATIVE_STATUS and higher.stance and has_background:
                continue  # the work that it reports may be that in the background
            if higher.stance is not None and lower.stance is not None and higher.stance is not lower.stance:
                yield Pair(axis, higher, lower)


def _shows_background(voice: Voice) -> bool:
    """Whether the screen shows an agent at its prompt, and work that goes on behind it."""
    news = voice.claim.children
    return voice.rung is EvidenceSource.SCREEN and voice.stance is False and news is not None and bool(news.opened)


def drop_voice(ladders: Ladders, axis: Axis, rung: EvidenceSource) -> Ladders:
    """The ladders without what a rung says on one axis."""
    rest = without(ladders, rung)
    return (
        Ladders(rest.activity, ladders.attention)
        if axis is Axis.ACTIVITY
        else Ladders(ladders.activity, rest.attention)
    )


def expiries(ladders: Ladders, gap_seconds: float) -> Iterator[float]:
    """When something on the ladders may go stale by itself."""
    for ladder in ladders:
        for voice in ladder:
            yield voice.at_seconds + gap_seconds if voice.rung is EvidenceSource.HOOK else voice.expires_at_seconds
