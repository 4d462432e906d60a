"""Scores, clause by clause of the rules under which recordings are scored, on timelines made by hand."""

from __future__ import annotations

import math

import pytest

from interlock.monitor.arbitration.agent_status import Standing
from interlock.monitor.debounce import BelievedTurn, TurnSource
from interlock.monitor.scoring.readings import MIN_FRAMES, Score, episodes_of, score_recording
from interlock.monitor.scoring.recording import Frame, Truth
from interlock.monitor.tracker import TrackerEvent, Verdict
from interlock.screen.assessment import BusinessState, InputMode, SurfaceAssessment, SurfaceEvidence
from tests.each_row import each_row

STATES = {
    "idle": BusinessState.IDLE,
    "working": BusinessState.WORKING,
    "blocked": BusinessState.AWAITING_OPERATOR,
    "unknown": BusinessState.UNKNOWN,
}


def said(
    t: float,
    state: str,
    *events: TrackerEvent,
    mode: InputMode = InputMode.FREEFORM,
    turn: TurnSource | None = None,
) -> tuple[Frame, Verdict]:
    surface = SurfaceAssessment(input_mode=mode, evidence=(SurfaceEvidence("a.rule"),))
    open_turn = None if turn is None else BelievedTurn(turn, 0.0)
    return Frame(t), Verdict(t, STATES[state], surface, Standing(), None, open_turn, None, events)


def scored(truths: list[tuple[float, str] | tuple[float, str, str]], verdicts: list[tuple[Frame, Verdict]]) -> Score:
    score = Score()
    score_recording(score, "r", [Truth(*truth) for truth in truths], verdicts)
    return score


def counted(truths: list[tuple[float, str] | tuple[float, str, str]], *times: float) -> list[float]:
    """Which of these times count."""
    return [t for t in times if scored(truths, [said(t, "unknown")]).frames]


@each_row(
    ("state", "detail", "age"),
    [
        ("idle", "ready", 1.2),
        ("working", "thinking", 1.2),
        ("blocked", "approval", 2.0),
        ("idle", "interrupted", 3.0),
        ("idle", "denied", 3.0),
        ("working", "interrupted", 1.2),
    ],
)
def test_a_frame_counts_once_its_truth_is_old_enough(state: str, detail: str, age: float) -> None:
    assert counted([(0.0, state, detail)], age - 0.01, age) == [age]


@pytest.mark.parametrize("state", ["gone", "unscored", "starting"])
def test_other_truths_never_count(state: str) -> None:
    assert counted([(0.0, state)], 1, 5, 50) == []


def test_a_frame_shortly_before_the_next_change_does_not_count() -> None:
    assert counted([(0.0, "idle"), (10.0, "working")], 9.2, 9.3, 9.31, 9.9) == [9.2, 9.3]
    assert counted([(0.0, "idle"), (10.0, "unscored")], 9.31) == []


def test_age_and_guard_count_from_changes_of_the_state_not_of_its_detail() -> None:
    truths: list[tuple[float, str] | tuple[float, str, str]] = [
        (0.0, "working", "submitted"),
        (5.0, "working", "streaming"),
        (9.0, "idle", "complete"),
    ]
    assert counted(truths, 4.9, 5.1) == [4.9, 5.1]
    stopped: list[tuple[float, str] | tuple[float, str, str]] = [(0.0, "idle", "interrupted"), (1.0, "idle", "ready")]
    assert counted(stopped, 1.2) == [1.2]


def test_a_frame_before_the_first_truth_counts_for_nothing() -> None:
    assert scored([(10.0, "idle")], [said(5, "working", TrackerEvent.COMPLETED)]) == Score(
        episodes=scored([(10.0, "idle")], [said(5, "working")]).episodes
    )


@each_row(
    ("truth", "verdict", "is_right", "is_unsafe"),
    [
        ("idle", "idle", True, False),
        ("working", "working", True, False),
        ("blocked", "blocked", True, False),
        ("blocked", "idle", False, True),
        ("working", "idle", False, True),
        ("idle", "working", False, False),
        ("idle", "blocked", False, False),
        ("working", "blocked", False, False),
        ("blocked", "working", False, False),
        ("idle", "unknown", False, False),
        ("working", "unknown", False, False),
        ("blocked", "unknown", False, False),
    ],
)
def test_what_is_right_what_is_a_miss_and_what_is_unsafe(
    truth: str, verdict: str, is_right: bool, is_unsafe: bool
) -> None:
    found = scored([(0.0, truth)], [said(5, verdict)])
    assert found.recall(truth) == float(is_right)
    assert [(miss.verdict, miss.rule, miss.is_unsafe) for miss in found.misses] == (
        [] if is_right else [(verdict, "a.rule", is_unsafe)]
    )
    assert found.unsafe == is_unsafe


@each_row("mode", list(InputMode))
@each_row("detail", ["menu", "approval"])
def test_a_picker_of_the_user_may_be_read_as_idle_that_takes_no_text(mode: InputMode, detail: str) -> None:
    found = scored([(0.0, "blocked", detail)], [said(5, "idle", mode=mode)])
    is_lenient = detail == "menu" and mode in (InputMode.MODAL, InputMode.CLOSED)
    assert found.recall("blocked") == float(is_lenient)
    assert found.unsafe == (not is_lenient)


def test_a_completion_while_the_truth_goes_on_is_unsafe_at_any_time() -> None:
    for state, unsafe in (("working", 1), ("blocked", 1), ("idle", 0), ("unscored", 0), ("gone", 0)):
        found = scored([(0.0, state), (0.9, "unscored")], [said(0.1, "unknown", TrackerEvent.COMPLETED)])
        assert (found.false_completions, found.unsafe) == (unsafe, unsafe)
        assert sum(found.frames.values()) == 0
    assert scored([(0.0, "working")], [said(5, "working", TrackerEvent.INTERRUPTED)]).unsafe == 0


def latencies(
    truths: list[tuple[float, str] | tuple[float, str, str]], *verdicts: tuple[Frame, Verdict]
) -> list[float]:
    return [seconds for _, seconds in scored(truths, list(verdicts)).latencies]


@each_row("end", [TrackerEvent.COMPLETED, TrackerEvent.INTERRUPTED, TrackerEvent.FAILED])
@each_row(
    ("source", "truths", "fabricated"),
    [
        (TurnSource.INFERRED, [(0.0, "unscored", "starting"), (0.5, "blocked", "trust"), (2.0, "idle")], 1),
        (TurnSource.INFERRED, [(0.0, "idle"), (1.0, "blocked", "menu"), (2.0, "idle")], 1),
        (TurnSource.INFERRED, [(0.0, "idle"), (1.0, "working"), (2.0, "idle")], 0),
        (TurnSource.INFERRED, [(0.0, "idle"), (1.0, "unscored", "model_error"), (2.0, "idle")], 0),
        (TurnSource.INFERRED, [(0.0, "unscored", "notified")], 0),
        (TurnSource.SUBMITTED, [(0.0, "idle"), (1.0, "blocked", "menu"), (2.0, "idle")], 0),
    ],
)
def test_the_end_of_a_turn_that_never_was_is_fabricated_and_unsafe(
    end: TrackerEvent,
    source: TurnSource,
    truths: list[tuple[float, str] | tuple[float, str, str]],
    fabricated: int,
) -> None:
    found = scored(truths, [said(1.5, "unknown", turn=source), said(4.0, "unknown", end)])
    assert (found.fabricated_ends, found.unsafe) == (fabricated, fabricated)
    assert [miss.is_unsafe for miss in found.misses if miss.verdict.endswith("(no turn)")] == [True] * fabricated


def test_work_that_ended_once_does_not_excuse_a_second_end() -> None:
    inferred, done = TurnSource.INFERRED, TrackerEvent.COMPLETED
    ends = [
        said(3, "idle", turn=inferred),
        said(4, "idle", done),
        said(5, "idle", turn=inferred),
        said(6, "idle", done),
    ]
    assert scored([(0.0, "idle"), (1.0, "working"), (2.0, "idle")], ends).fabricated_ends == 1


def test_the_latency_is_to_the_first_right_verdict_that_lasts() -> None:
    right, wrong = "working", "idle"
    assert latencies([(10.0, right)], said(10.2, right), said(10.4, right), said(10.6, right)) == pytest.approx([0.2])
    flicker = (said(10.2, right), said(10.4, wrong), said(10.6, right), said(10.8, right), said(11.0, right))
    assert latencies([(10.0, right)], *flicker) == pytest.approx([0.6])
    assert latencies([(10.0, right)], said(10.2, right), said(10.5, right)) == []
    assert latencies([(10.0, right), (10.3, "idle")], said(10.2, right), said(10.6, right)) == []
    assert latencies([(10.0, "unscored")], said(10.2, right), said(10.6, right)) == []


def test_a_verdict_that_was_right_before_the_edge_has_no_latency() -> None:
    assert latencies([(10.0, "idle")], said(9.0, "idle"), said(10.0, "idle"), said(10.4, "idle")) == [0.0]


def test_the_macro_recall_is_the_mean_of_classes_with_enough_frames() -> None:
    score = Score()
    score.frames.update({("idle", "idle"): 30, ("working", "working"): 15, ("working", "unknown"): 15})
    score.frames["blocked", "unknown"] = MIN_FRAMES - 1
    assert score.macro_recall == pytest.approx(0.75)
    score.frames["blocked", "unknown"] += 1
    assert score.macro_recall == pytest.approx(0.5)
    assert MIN_FRAMES == 30
    assert Score().macro_recall is None
    assert Score().recall("idle") is None


def test_episodes_join_where_only_the_detail_changed() -> None:
    truths = [Truth(0, "idle", "ready"), Truth(1, "idle", "draft"), Truth(2, "working"), Truth(3, "idle", "complete")]
    found = episodes_of(truths, math.inf)
    assert [(episode.state, episode.start, episode.end) for episode in found] == [
        ("idle", 0, 2),
        ("working", 2, 3),
        ("idle", 3, math.inf),
    ]
    assert [found[0].detail_at(t) for t in (-1, 0, 0.5, 1, 1.5)] == ["ready", "ready", "ready", "draft", "draft"]


def test_episodes_are_counted_by_their_state() -> None:
    found = scored([(0.0, "idle"), (1.0, "idle", "draft"), (2.0, "working"), (3.0, "gone")], [said(9, "unknown")])
    assert dict(found.episodes) == {"idle": 1, "working": 1}


def test_a_recording_without_frames_scores_nothing() -> None:
    assert scored([(0.0, "idle")], []) == Score()
