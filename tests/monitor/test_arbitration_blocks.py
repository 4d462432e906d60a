"""Blocks and disagreements: what a dialog on the screen may do, what ends a block, and what is put on record."""

from __future__ import annotations

from itertools import permutations

import pytest

from interlock.monitor.arbitration.agent_status import Confidence
from interlock.monitor.arbitration.state import ProcessExited
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity
from tests.each_row import each_row
from tests.monitor.arbitrations import (
    APPROVAL,
    ERROR,
    FILE,
    HOOK,
    NATIVE,
    NONE,
    PLAN,
    QUESTION,
    SCREEN,
    TITLE,
    Q,
    R,
    Timed,
    W,
    anomalies,
    closed,
    history,
    opened,
    pushed,
    run,
    says,
    stands,
)

WATCHED = pushed(NATIVE, SCREEN, TITLE)


@pytest.mark.parametrize("rung", [FILE, HOOK, TITLE])
def test_a_dialog_on_the_screen_blocks_against_any_rung(rung: EvidenceSource) -> None:
    script = [*WATCHED, says(rung, 1, W, NONE), says(SCREEN, 2, None, APPROVAL)]
    assert stands(script, 2) == ("working", "approval")


def test_a_dialog_that_only_a_lower_rung_tells_of_does_not_overrule_a_higher_one() -> None:
    for higher in (FILE, HOOK):
        script = [*WATCHED, says(higher, 1, W, NONE), says(TITLE, 2, None, QUESTION)]
        assert stands(script, 3) == ("working", "none")


def test_the_screen_names_the_dialog_that_another_rung_told_of() -> None:
    script = [*WATCHED, says(FILE, 1, W, APPROVAL), says(TITLE, 1, None, QUESTION), says(SCREEN, 2, None, PLAN)]
    assert stands(script, 3) == ("working", "plan")


def test_while_a_dialog_hides_the_agent_it_does_what_it_did_before() -> None:
    assert stands([opened(SCREEN), says(SCREEN, 1, W, NONE), says(SCREEN, 2, None, APPROVAL)], 500) == (
        "working",
        "approval",
    )
    assert stands([opened(SCREEN), says(SCREEN, 1, Q, NONE), says(SCREEN, 2, None, QUESTION)], 500) == (
        "quiet",
        "question",
    )
    assert stands([opened(SCREEN), says(SCREEN, 2, None, APPROVAL)], 500) == ("unknown", "approval")


def test_the_screen_without_the_dialog_ends_the_block() -> None:
    script = [*WATCHED, says(SCREEN, 2, None, APPROVAL), says(SCREEN, 8, W, NONE)]
    assert history(script, 20)[-1] == (8, "working", "none")


def test_a_block_outlives_everything_that_goes_stale() -> None:
    script = [says(SCREEN, 1, W, NONE), says(SCREEN, 2, None, APPROVAL)]
    assert stands(script, 5000) == ("unknown", "approval")
    assert run(script, 5000)[0].standing.basis.confidence is Confidence.INFERRED
    assert run(script, 3)[0].standing.basis.confidence is Confidence.SEEN


def test_a_frame_that_cannot_be_read_does_not_end_a_block() -> None:
    script = [*WATCHED, says(SCREEN, 2, None, APPROVAL), says(SCREEN, 3)]
    assert stands(script, 60)[1] == "approval"


def test_what_was_said_before_the_dialog_is_no_evidence_that_it_is_gone() -> None:
    script = [*WATCHED, says(FILE, 1, W, NONE), says(SCREEN, 2, None, APPROVAL), says(SCREEN, 3)]
    assert stands(script, 60) == ("working", "approval")


@each_row(
    ("rung", "is_evidence"),
    [(NATIVE, False), (FILE, True), (HOOK, True), (SCREEN, True), (TITLE, False), (R.SILENCE, False)],
)
def test_who_can_tell_that_a_dialog_on_the_screen_is_gone(rung: EvidenceSource, is_evidence: bool) -> None:
    script = [*WATCHED, says(SCREEN, 2, None, APPROVAL), says(SCREEN, 3), says(rung, 4, W, NONE)]
    assert (stands(script, 5)[1] == "none") is is_evidence


def test_no_rung_ends_a_block_while_the_dialog_stands_on_the_screen() -> None:
    script = [*WATCHED, says(SCREEN, 2, None, APPROVAL), says(NATIVE, 3, W, NONE), says(FILE, 4, W, NONE)]
    assert stands(script, 600)[1] == "approval"
    gone = [says(SCREEN, 601)]
    assert stands([*script, *gone], 700)[1] == "approval", "both spoke while the dialog was there"
    assert stands([*script, *gone, says(FILE, 701, W, NONE)], 702)[1] == "none"


def test_a_screen_without_the_dialog_does_not_overrule_a_fresh_higher_rung() -> None:
    script = [*WATCHED, says(FILE, 1, None, APPROVAL), says(SCREEN, 2, W, NONE)]
    assert stands(script, 60) == ("working", "approval")
    assert stands([*script, closed(FILE, 61)], 61) == ("working", "none")


def test_a_title_that_also_told_of_it_cannot_end_what_was_on_the_screen() -> None:
    told = [says(SCREEN, 2, None, APPROVAL), says(TITLE, 2.5, None, QUESTION), says(SCREEN, 3)]
    assert stands([*WATCHED, *told, says(TITLE, 4, W, NONE)], 5) == ("working", "question")


def test_of_one_instant_the_dialog_is_believed_against_all_but_the_next_frame() -> None:
    at_once = [*WATCHED, says(SCREEN, 2, None, APPROVAL), says(FILE, 2, W, NONE)]
    assert stands([*at_once, says(SCREEN, 2)], 60) == ("working", "approval")
    assert stands([*at_once, says(SCREEN, 2, W, NONE)], 60) == ("working", "none")


def test_what_was_seen_at_the_instant_of_the_last_word_ends_a_block_that_was_only_told() -> None:
    script = [says(FILE, 1, None, APPROVAL), says(SCREEN, 2, W, NONE), closed(FILE, 3)]
    assert stands(script, 3) == ("working", "none")


@pytest.mark.parametrize(
    ("before", "batch", "expected"),
    [
        # A hook of the same instant is an edge: the file does not count, so neither does its dialog.
        ([], [says(FILE, 5, None, APPROVAL), says(HOOK, 5, W)], ("working", "none")),
        # The activity before the dialog is that of the instant before, not of half of this one.
        (
            [says(FILE, 1, W), says(SCREEN, 2, Q)],
            [says(FILE, 5, None, APPROVAL), says(SCREEN, 5, None, APPROVAL)],
            ("working", "approval"),
        ),
    ],
)
def test_the_order_within_an_instant_does_not_matter(
    before: list[Timed], batch: list[Timed], expected: tuple[str, str]
) -> None:
    for order in permutations(batch):
        assert stands([*WATCHED, *before, *order], 6) == expected


def test_a_title_ends_the_block_that_it_told_of() -> None:
    assert stands([*WATCHED, says(TITLE, 1, None, QUESTION), says(TITLE, 5, W, NONE)], 6) == ("working", "none")


def test_a_block_told_by_a_hook_ends_after_two_seconds_without_a_dialog() -> None:
    script = [*WATCHED, says(HOOK, 1, W, APPROVAL), says(SCREEN, 2, None, APPROVAL), says(SCREEN, 9, W, NONE)]
    assert history(script, 60)[-1] == (11, "working", "none")


def test_a_dialog_is_gone_with_its_process() -> None:
    assert stands([*WATCHED, says(SCREEN, 1, None, APPROVAL), (2, ProcessExited(exit_code=1))], 3) == ("gone", "none")


def test_an_error_is_no_dialog_and_ends_with_the_evidence_for_it() -> None:
    assert stands([*WATCHED, says(FILE, 1, Q, ERROR), says(SCREEN, 2, Q, NONE)], 60) == ("quiet", "error")
    assert stands([*WATCHED, says(FILE, 1, Q, ERROR), closed(FILE, 5)], 60) == ("unknown", "none")
    assert anomalies([*WATCHED, says(FILE, 1, Q, ERROR), says(SCREEN, 2, Q, NONE)], 60) == []


# Disagreement.


def test_a_disagreement_that_lasts_is_recorded_once_with_both_sides() -> None:
    frames = [says(SCREEN, 2 + tick / 5, Q, NONE) for tick in range(50)]
    (anomaly,) = anomalies([*WATCHED, says(NATIVE, 1, W, NONE), *frames], 30)
    assert anomaly.kind == "evidence_disagreement"
    assert isinstance(anomaly.details, dict)
    higher, lower = anomaly.details["higher"], anomaly.details["lower"]
    assert isinstance(higher, dict)
    assert isinstance(lower, dict)
    assert (anomaly.details["axis"], anomaly.details["since_seconds"]) == ("activity", 2)
    assert (higher["source"], higher["activity"]) == ("native_status", "working")
    assert (lower["source"], lower["activity"]) == ("screen", "quiet")


def test_sources_that_are_only_out_of_step_are_not_on_record() -> None:
    turn = [says(NATIVE, 1, W), says(SCREEN, 2.9, W), says(NATIVE, 9, Q), says(SCREEN, 10.5, Q)]
    assert anomalies([*WATCHED, says(SCREEN, 0.5, Q), *turn], 60) == []


def test_the_next_episode_is_recorded_again() -> None:
    def episode(at: float) -> list[Timed]:
        return [says(SCREEN, at, Q), says(SCREEN, at + 5, W)]

    script = [*WATCHED, says(NATIVE, 1, W), *episode(2), *episode(20)]
    assert len(anomalies(script, 60)) == 2


def test_a_dialog_against_a_higher_rung_is_recorded() -> None:
    (anomaly,) = anomalies([*WATCHED, says(NATIVE, 1, W, NONE), says(SCREEN, 2, None, APPROVAL)], 60)
    assert isinstance(anomaly.details, dict)
    assert anomaly.details["axis"] == "attention"


def test_settling_and_quiet_are_one_answer() -> None:
    assert anomalies([*WATCHED, says(NATIVE, 1, Activity.SETTLING), says(SCREEN, 2, Q)], 60) == []
