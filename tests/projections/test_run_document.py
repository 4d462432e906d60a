"""The state document of a session: a fold of its run events by the reducer, by patches, and total."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.envelope import run_lifecycle_from_state
from interlock.lifecycle.patch import apply_patch
from interlock.projections.checks.case import CheckStatus
from interlock.projections.checks.diagnose import diagnose
from interlock.projections.task.run_document import OVERTAKEN, RunDocument, fold_run_event
from interlock.projections.task.view import TaskView
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.events.audit import RunState, TurnStarted
from interlock.vocabulary.ids import RunId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind
from interlock.vocabulary.wire.frames import StatePatched
from interlock.vocabulary.wire.patch import Patch
from tests.projections.histories import ANSWER, Story, clean


def running(run: str = "run_t1") -> RunState:
    return RunState(run_id=RunId(run), status=RunStatus.RUNNING)


def ended(reason: TerminationReason = NATURAL_END, run: str = "run_t1") -> RunState:
    return RunState(run_id=RunId(run), status=reason.to_run_status()[0], reason=reason)


def milliseconds(seq: int) -> int:
    return int(EPOCH.timestamp() + seq) * 1000


def view_of(story: Scribe) -> tuple[TaskView, Any]:
    """The server's view, and the document of a client that heard every patch and nothing else."""
    view = TaskView(story.session)
    heard: Any = {}
    for event in story.events:
        for frame in view.add(event):
            if isinstance(frame, StatePatched):
                assert (frame.version, frame.turn_id) == (event.seq, event.turn_id)
                heard = apply_patch(heard, Patch(frame.ops))
    return view, heard


def test_a_session_without_a_run_has_an_empty_document() -> None:
    view, heard = view_of(Scribe())
    assert view.document().state == heard == {}
    assert (view.document().version, view.document().turn_id) == (0, None)


def test_the_document_follows_the_run_and_bears_the_version_of_the_log() -> None:
    story = Story()
    story.begin()
    view, heard = view_of(story)
    assert heard == {"__run": {"id": "run_t1", "status": "running", "updated_at": milliseconds(3)}}
    story.tell(ended(SUSPENDED))
    view, heard = view_of(story)
    assert heard == {"__run": {"id": "run_t1", "status": "waiting", "updated_at": milliseconds(4)}}
    story.tell(running())
    story.end(NATURAL_END, text=ANSWER)
    view, heard = view_of(story)
    assert heard == {
        "__run": {"id": "run_t1", "status": "done", "done_reason": "natural", "updated_at": milliseconds(7)}
    }
    assert view.document().state == view.snapshot().document == heard
    assert (view.document().version, view.document().turn_id) == (len(story.events), "t1")


def test_the_next_turn_begins_another_record() -> None:
    story = clean()
    story.begin("t2")
    view, heard = view_of(story)
    run = run_lifecycle_from_state(view.document().state)
    assert run is not None
    assert (run.id, run.status, run.done_reason) == ("run_t2", RunStatus.RUNNING, None)
    assert heard == view.document().state


@pytest.mark.parametrize("late", [running(), ended(SUSPENDED), ended(CANCELLED)])
def test_done_never_reopens_and_diagnose_says_that_somebody_tried(late: RunState) -> None:
    story = clean()
    before, _ = view_of(story)
    story.tell(late)
    view, heard = view_of(story)
    assert view.document().state == before.document().state == heard
    assert seqs_of(story) == {len(story.events)}


def test_a_run_that_ended_in_one_turn_does_not_go_on_in_another_and_diagnose_says_so() -> None:
    story = clean()
    before, _ = view_of(story)
    story.tell(TurnStarted(driver=DriverKind.MODEL), running("run_t1"), turn="t2")
    view, heard = view_of(story)
    assert view.document().state == before.document().state == heard
    report = diagnose(story.events, owner_alive=True)
    issues = [issue for check in report.checks for issue in check.issues if issue.kind == "run_refused"]
    assert [(issue.severity, issue.seqs, issue.turn_id) for issue in issues] == [
        (CheckStatus.FAILED, (len(story.events),), "t2")
    ]


def seqs_of(story: Scribe) -> set[int]:
    """Every place that the evidence check names."""
    report = diagnose(story.events, owner_alive=True)
    return {
        seq for check in report.checks if check.id == "turn_evidence" for issue in check.issues for seq in issue.seqs
    }


def test_a_run_without_an_end_is_cleared_away_by_the_run_of_a_newer_turn_and_does_not_come_back() -> None:
    story = Story()
    story.begin()
    story.begin("t2")
    view, heard = view_of(story)
    assert heard == view.document().state
    assert heard["__run"]["id"] == "run_t2"
    story.tell(ended(), turn="t1")  # the older turn may still end: that is its own affair
    view, heard = view_of(story)
    assert heard == view.document().state
    assert heard["__run"]["id"] == "run_t2"


def test_an_overtaken_run_is_cleared_by_a_patch_of_its_own() -> None:
    story = Story()
    story.begin()
    story.begin("t2")
    document, sources = RunDocument(), []
    for event in story.events:
        document, patches, refusal = fold_run_event(document, event)
        sources += [patch.source for patch in patches]
        assert refusal == ""
    assert sources == ["run_state", OVERTAKEN, "run_state"]


def test_a_stop_code_stands_in_the_document_as_it_was_given() -> None:
    story = Story()
    story.begin()
    story.tell(ended(TerminationReason.stopped_with_detail("timeout_reached", "60 s")))
    run = run_lifecycle_from_state(view_of(story)[0].document().state)
    assert run is not None
    assert (run.done_reason, run.stopped and run.stopped.known) == ("stopped:timeout_reached", "timeout")


REASONS = st.sampled_from(
    (NATURAL_END, CANCELLED, SUSPENDED, TerminationReason.error("no"), TerminationReason.stopped("timeout"))
)
RUN_EVENTS = st.builds(running, st.sampled_from(("a", "b"))) | st.builds(ended, REASONS, st.sampled_from(("a", "b")))


@given(st.lists(st.tuples(RUN_EVENTS, st.sampled_from((None, "t1", "t2", "t3")), st.sampled_from(("s1", "s2")))))
def test_whatever_a_log_says_the_patches_lead_where_the_fold_stands(
    told: list[tuple[RunState, str | None, str]],
) -> None:
    scribe = Scribe()
    for event, turn, spawn in told:
        scribe.write(event, turn=turn, spawn=spawn)
    view, heard = view_of(scribe)
    assert heard == view.document().state == view.snapshot().document
    run = run_lifecycle_from_state(heard)
    assert (run is None) == (heard == {})
    diagnose(scribe.events, owner_alive=False)
