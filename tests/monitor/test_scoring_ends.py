"""The ends of turns, scored clause by clause on timelines made by hand."""

from __future__ import annotations

import pytest

from interlock.monitor.arbitration.agent_status import Standing
from interlock.monitor.scoring.ends import score_ends
from interlock.monitor.scoring.recording import Frame, Truth
from interlock.monitor.tracker import TrackerEvent, Verdict
from interlock.screen.assessment import BusinessState, SurfaceAssessment
from tests.each_row import each_row

DONE, CUT, LOST = TrackerEvent.COMPLETED, TrackerEvent.INTERRUPTED, TrackerEvent.ABANDONED
WORK = (1.0, "working", "submitted")
Line = tuple[float, str, str]


def said(t: float, *events: TrackerEvent, is_dead: bool = False) -> tuple[Frame, Verdict]:
    verdict = Verdict(t, BusinessState.UNKNOWN, SurfaceAssessment(), Standing(), None, None, None, events)
    return Frame(t, dead=is_dead), verdict


def scored(*truths: Line, told: list[tuple[Frame, Verdict]]) -> list[tuple[str | None, bool]]:
    ends, _ = score_ends("r", [Truth(*truth) for truth in truths], [*told, said(60.0)])
    return [(end.said, end.is_right) for end in ends]


def extra(*truths: Line, told: list[tuple[Frame, Verdict]]) -> list[str]:
    return [end.said for end in score_ends("r", [Truth(*truth) for truth in truths], [*told, said(60.0)])[1]]


@each_row(
    ("detail", "event", "is_right"),
    [
        ("complete", DONE, True),
        ("completed", DONE, True),
        ("background_task", DONE, True),
        ("interrupted", CUT, True),
        ("denied", CUT, True),
        ("complete", CUT, False),
        ("denied", DONE, False),
        ("interrupted", DONE, False),
        ("draft", DONE, True),
        ("draft", CUT, True),
        ("complete", LOST, False),
    ],
)
def test_an_end_is_right_if_its_kind_is_that_of_the_truth(detail: str, event: TrackerEvent, is_right: bool) -> None:
    assert scored(WORK, (5.0, "idle", detail), told=[said(6.0, event)]) == [(event.value, is_right)]


def test_an_end_that_nobody_reported_has_vanished() -> None:
    assert scored(WORK, (5.0, "idle", "complete"), told=[said(6.0)]) == [(None, False)]


@pytest.mark.parametrize(("t", "is_reported"), [(4.2, False), (4.3, True), (8.9, True), (9.0, False)])
def test_an_end_is_reported_from_a_moment_before_it_until_the_next_turn(t: float, is_reported: bool) -> None:
    truths: tuple[Line, ...] = (WORK, (5.0, "idle", "complete"), (9.0, "working", "submitted"))
    assert scored(*truths, told=[said(t, DONE)]) == [("completed", True) if is_reported else (None, False)]


def test_an_end_that_the_next_submit_overtook_is_reported_with_that_submit() -> None:
    truths: tuple[Line, ...] = (WORK, (5.0, "idle", "complete"), (9.0, "working", "submitted"))
    assert scored(*truths, told=[said(9.2, LOST)]) == [("turn_abandoned", False)]


def test_a_recording_that_ends_too_soon_to_prove_an_end_does_not_count_it() -> None:
    truths = [Truth(*WORK), Truth(5.0, "idle", "complete")]
    assert score_ends("r", truths, [said(7.9)])[0] == []
    assert len(score_ends("r", truths, [said(8.0)])[0]) == 1
    assert len(score_ends("r", truths, [said(6.0, DONE)])[0]) == 1


@pytest.mark.parametrize("is_dead", [False, True])
def test_an_exit_counts_where_a_frame_shows_it(is_dead: bool) -> None:
    told = [said(6.0, TrackerEvent.GONE, is_dead=is_dead)]
    assert scored(WORK, (5.0, "gone", "sigterm"), told=told) == ([("gone", True)] if is_dead else [])


def test_a_dialog_at_the_start_and_a_menu_end_no_turn() -> None:
    truths: tuple[Line, ...] = ((0.0, "blocked", "trust"), (3.0, "idle", "ready"), (9.0, "blocked", "menu"))
    assert scored(*truths, (12.0, "idle", "ready"), told=[]) == []
    assert extra(*truths, (12.0, "idle", "ready"), told=[said(13.0, DONE)]) == ["completed"]


def test_an_end_in_the_middle_of_work_and_a_second_end_are_fabricated() -> None:
    truths: tuple[Line, ...] = (WORK, (8.0, "idle", "complete"))
    assert extra(*truths, told=[said(4.0, DONE), said(9.0, DONE)]) == ["completed"]
    assert extra(*truths, (20.0, "idle", "draft"), told=[said(9.0, DONE), said(21.0, DONE)]) == ["completed"]


def test_where_the_truth_is_open_to_argument_no_end_is_fabricated() -> None:
    truths: tuple[Line, ...] = ((0.0, "idle", "ready"), (4.0, "unscored", "menu_opening"), (5.0, "idle", "ready"))
    assert extra(*truths, told=[said(6.0, DONE)]) == []
