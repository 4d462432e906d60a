"""What a screen and a title claim, on readings and on the titles of the recordings."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.monitor.arbitration.axes import ATTENTION_OF_BLOCK
from interlock.monitor.sources.surface import claim_of_screen, claim_of_title
from interlock.screen.assessment import (
    Availability,
    BlockKind,
    BusinessState,
    InputMode,
    OperatorBlock,
    SurfaceAssessment,
    SurfaceEvidence,
    TurnEnd,
)
from interlock.screen.profile import TitleMarks
from interlock.vocabulary.states import Activity, Attention
from tests.each_row import each_row

RECORDINGS: Final = Path(__file__).parents[2] / "recordings" / "tui"
# A label is older than this on both sides before a title must agree with it: screens lag, and some are ahead.
SETTLED_SECONDS: Final = 3.0

MARKS = {profile.cli: profile.titles for profile in builtin_profiles()}


def surface(
    state: BusinessState,
    availability: Availability = Availability.SUPPORTED,
    *,
    block: BlockKind | None = None,
    turn_end: TurnEnd | None = None,
    is_weak: bool = False,
) -> SurfaceAssessment:
    return SurfaceAssessment(
        availability,
        state,
        InputMode.FREEFORM,
        evidence=(SurfaceEvidence("some.rule", (3, 4, 5)),),
        operator_excerpt="Do you want to proceed?",
        block=None if block is None else OperatorBlock(block),
        turn_end=turn_end,
        is_weak=is_weak,
    )


@each_row(
    ("assessment", "expected"),
    [
        (surface(BusinessState.IDLE), ("quiet", "none")),
        (surface(BusinessState.WORKING), ("working", "none")),
        (surface(BusinessState.UNKNOWN), (None, None)),
        (surface(BusinessState.WORKING, Availability.UNKNOWN), (None, None)),
        (surface(BusinessState.IDLE, Availability.DISCONNECTED), (None, None)),
        (surface(BusinessState.IDLE, Availability.UNSUPPORTED), (None, None)),
        (surface(BusinessState.AWAITING_OPERATOR), (None, "question")),
        (surface(BusinessState.AWAITING_OPERATOR, Availability.UNKNOWN), (None, "question")),
        (surface(BusinessState.IDLE, turn_end=TurnEnd.FAILED), ("quiet", "error")),
        (surface(BusinessState.WORKING, turn_end=TurnEnd.FAILED), ("working", "none")),
        (surface(BusinessState.IDLE, turn_end=TurnEnd.COMPLETED), ("quiet", "none")),
        (surface(BusinessState.IDLE, is_weak=True), (None, None)),
    ],
)
def test_what_a_reading_claims(assessment: SurfaceAssessment, expected: tuple[str | None, str | None]) -> None:
    claim = claim_of_screen(assessment, at_seconds=1)
    assert (claim.activity, claim.attention) == expected
    assert claim.is_dialog is assessment.operator_blocked
    assert (claim.rule, claim.where) == ("some.rule", "rows 3-5")


@each_row("kind", BlockKind)
def test_every_kind_of_block_asks_for_something(kind: BlockKind) -> None:
    claim = claim_of_screen(surface(BusinessState.AWAITING_OPERATOR, block=kind), at_seconds=1)
    assert claim.attention is ATTENTION_OF_BLOCK[kind]
    assert claim.attention is not Attention.NONE
    assert claim.excerpt == "Do you want to proceed?"


def test_kinds_of_the_design() -> None:
    expected = {"trust": "approval", "update": "question", "other": "question"}
    for kind in BlockKind:
        assert ATTENTION_OF_BLOCK[kind].value == expected.get(kind.value, kind.value)


def test_a_trackers_verdict_goes_before_the_frame_and_not_before_a_dialog() -> None:
    def claimed(state: BusinessState, verdict: BusinessState) -> str | None:
        return claim_of_screen(surface(state, is_weak=True), at_seconds=1, verdict=verdict).activity

    assert claimed(BusinessState.IDLE, BusinessState.WORKING) == "working"
    assert claimed(BusinessState.IDLE, BusinessState.IDLE) == "quiet"
    assert claimed(BusinessState.IDLE, BusinessState.UNKNOWN) is None
    asked = claim_of_screen(surface(BusinessState.AWAITING_OPERATOR), at_seconds=1, verdict=BusinessState.IDLE)
    assert (asked.activity, asked.is_dialog) == (None, True)


def test_a_stalled_surface_is_claimed_as_such() -> None:
    claim = claim_of_screen(surface(BusinessState.UNKNOWN), at_seconds=1, is_stalled=True)
    assert (claim.activity, claim.attention) == (Activity.STALLED, None)


@each_row(
    ("cli", "title", "expected"),
    [
        ("claude", "✳ Claude Code", (None, None)),
        ("claude", "◐ Claude Code", ("working", "none")),
        ("claude", "Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA", (None, None)),
        ("codex", "⠼ project", ("working", "none")),
        ("codex", "[ ! ] Action Required | project", (None, "question")),
        ("codex", "[ . ] Action Required | project", (None, "question")),
        ("codex", "project", (None, None)),
        ("gemini", "◇  Ready (project)", (None, None)),
        ("gemini", "✦  Working… (project)", ("working", "none")),
        # It says so of a tool that is only silent, too; there the screen tells.
        ("gemini", "✋  Action Required (project)", (None, None)),
        ("vibe", "? Vibe", (None, "question")),
        ("aider", "⠼ project", (None, None)),
        ("codex", "", (None, None)),
    ],
)
def test_what_a_title_claims(cli: str, title: str, expected: tuple[str | None, str | None]) -> None:
    claim = claim_of_title(title, MARKS.get(cli, TitleMarks()), at_seconds=1)
    assert (claim.activity, claim.attention) == expected


def settled_titles(path: Path) -> Iterator[tuple[str, str]]:
    """The titles of a recording with what was true, away from every change of it."""
    with gzip.open(path, "rt") as lines:
        records = [json.loads(line) for line in lines]
    truths = [(record["t"], record["state"]) for record in records if record["kind"] == "truth"]
    ends = [at for at, _ in truths[1:]] + [float("inf")]
    for record in records:
        for (at, state), end in zip(truths, ends, strict=True):
            if record["kind"] == "frame" and at + SETTLED_SECONDS <= record["t"] < end - SETTLED_SECONDS:
                yield record["title"], state


@pytest.mark.parametrize("cli", ["claude", "codex", "gemini", "qwen", "vibe"])
def test_a_title_of_the_recordings_claims_only_what_was_true(cli: str) -> None:
    claimed = 0
    for path in sorted((RECORDINGS / cli).glob("*.ndjson.gz")):
        for title, state in settled_titles(path):
            claim = claim_of_title(title, MARKS.get(cli, TitleMarks()), at_seconds=1)
            if state in ("idle", "working", "blocked") and (claim.is_dialog or claim.activity is not None):
                claimed += 1
                assert state == ("blocked" if claim.is_dialog else "working"), f"{path.name}: {title!r} while {state}"
    assert claimed > 50
