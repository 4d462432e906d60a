"""How an agent stands whose screen nobody sees: what it says of itself, or unknown."""

from __future__ import annotations

from dataclasses import replace

from interlock.agents.observed.reading import CONTRADICTION_SECONDS, SILENT_SECONDS, TranscriptSeen, standing_of
from interlock.monitor.arbitration.claims import Claim
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity, Attention

IDLE = Claim(rung=EvidenceSource.NATIVE_FILE, at_seconds=100.0, rule="status.idle", activity=Activity.QUIET, where="s")
BUSY = replace(IDLE, rule="status.busy", activity=Activity.WORKING)
ASKS = replace(IDLE, rule="status.waiting", activity=None, attention=Attention.APPROVAL, is_dialog=True)
OPEN = TranscriptSeen(path="t", is_open=True, written_at=90.0)
ENDED = replace(OPEN, is_open=False)


def told(status: Claim | None, transcript: TranscriptSeen | None, now: float = 101.0) -> tuple[str, str, list[str]]:
    standing = standing_of(status, transcript, now)
    return standing.activity.value, standing.attention.value, [one.rule for one in standing.evidence]


def test_nothing_known_is_unknown_and_never_quiet() -> None:
    assert told(None, None) == ("unknown", "none", [])


def test_the_status_file_decides_and_is_named() -> None:
    assert told(IDLE, None) == ("quiet", "none", ["status.idle"])
    assert told(BUSY, OPEN) == ("working", "none", ["status.busy"])
    assert told(ASKS, OPEN) == ("working", "approval", ["status.waiting"])


def test_a_later_transcript_that_says_otherwise_for_long_enough_leaves_it_unknown() -> None:
    later = replace(OPEN, written_at=102.0)
    assert told(IDLE, later, 103.0)[0] == "quiet"
    after = 102.0 + CONTRADICTION_SECONDS
    assert told(IDLE, later, after) == ("unknown", "none", ["status.idle", "transcript.contradicts_status"])
    assert told(BUSY, replace(later, is_open=False), after)[0] == "unknown"
    assert told(IDLE, replace(later, is_open=False), after)[0] == "quiet"
    assert told(IDLE, OPEN, 1000.0)[0] == "quiet", "an older transcript does not contradict a newer status"


def test_a_transcript_alone_tells_of_turns_but_not_of_silence() -> None:
    assert told(None, OPEN, 90.0 + SILENT_SECONDS) == ("working", "none", ["transcript.turn_open"])
    assert told(None, OPEN, 91.0 + SILENT_SECONDS) == ("unknown", "none", ["transcript.silent_in_turn"])
    assert told(None, ENDED, 10_000.0) == ("quiet", "none", ["transcript.turn_ended"])
