"""How an agent stands whose screen nobody sees, by its status file and its transcript. Pure.

Laws:
1. Only what the agent wrote while it lived counts. Without that the standing is unknown, and never quiet.
2. Where status and transcript contradict each other for `CONTRADICTION_SECONDS`, it is unknown, with both as evidence.
3. A transcript does not tell of a dialog: an open turn of which nothing was written for `SILENT_SECONDS` is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.monitor.arbitration.agent_status import Confidence, Standing, StatusBasis, basis_of
from interlock.monitor.arbitration.claims import Claim
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.states import Activity, Attention

CONTRADICTION_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSeen:
    """A transcript with turns in it. `written_at`: when it was written to last, by the clock of claims."""

    path: str
    is_open: bool
    written_at: float


def standing_of(status: Claim | None, transcript: TranscriptSeen | None, now: float) -> Standing:
    """What both amount to."""
    if status is not None and status.attention not in (None, Attention.NONE):
        basis = basis_of(status)
        is_known = transcript is not None and transcript.is_open
        activity = Activity.WORKING if is_known else Activity.QUIET
        return Standing(activity, status.attention, basis, basis)
    if status is not None and status.activity is not None:
        if transcript is not None and _contradicts(status, transcript, now):
            return _unknown(status.evidence, _evidence(transcript, "contradicts_status"))
        basis = basis_of(status)
        return Standing(status.activity, Attention.NONE, basis, basis)
    if transcript is None:
        return Standing()
    if not transcript.is_open:
        return _by_transcript(Activity.QUIET, transcript, "turn_ended")
    if now - transcript.written_at > SILENT_SECONDS:
        return _unknown(_evidence(transcript, "silent_in_turn"))
    return _by_transcript(Activity.WORKING, transcript, "turn_open")


def _contradicts(status: Claim, transcript: TranscriptSeen, now: float) -> bool:
    """Whether the transcript says otherwise, for long enough since it was written."""
    says_working = status.activity is Activity.WORKING
    is_later = transcript.written_at > status.at_seconds
    is_lasting = now - max(transcript.written_at, status.at_seconds) >= CONTRADICTION_SECONDS
    return says_working is not transcript.is_open and is_later and is_lasting


def _by_transcript(activity: Activity, transcript: TranscriptSeen, rule: str) -> Standing:
    basis = StatusBasis(
        EvidenceSource.NATIVE_FILE, Confidence.REPORTED, transcript.written_at, (_evidence(transcript, rule),)
    )
    return Standing(activity, Attention.NONE, basis)


def _unknown(*evidence: Evidence) -> Standing:
    return Standing(activity_basis=StatusBasis(EvidenceSource.NATIVE_FILE, Confidence.NONE, None, evidence))


def _evidence(transcript: TranscriptSeen, rule: str) -> Evidence:
    return Evidence(source=EvidenceSource.NATIVE_FILE, rule=f"transcript.{rule}", where=transcript.path)
