"""A turn in a terminal that does not get on: stalled by the same setting as any other turn, on a virtual clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChildrenChanged,
    Progressed,
    PromptReached,
    SessionNamed,
    StandingSeen,
    ToolsSeen,
    Traced,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.pane_tracker import LiveVerdict
from interlock.agents.profiles import builtin_profiles
from interlock.agents.recording_files import open_recording
from interlock.agents.terminal.handle import TERMINAL_CAPABILITIES
from interlock.agents.terminal.translate import Translator
from interlock.monitor.arbitration.agent_status import Standing, StatusBasis
from interlock.monitor.scoring.recording import Frame, Header, Input, snapshot_of
from interlock.monitor.tracker import TuiTrackerSession
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session.inputs import Submitted
from interlock.screen.selection import select_reader
from interlock.vocabulary.events.audit import Anomaly, DeliveryStage, SurfaceEvent
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import Activity, AgentState, Attention, DriverKind, TurnState
from tests.runtime.conducting import BEGAN, Stage

SPINNER = Evidence(source=EvidenceSource.SCREEN, rule="status.spinner")
TEXT = Progressed(source=EvidenceSource.SCREEN, rule="screen.new_text")
LIVE = Path(__file__).parents[1] / "recordings" / "live"


def standing(activity: Activity, attention: Attention = Attention.NONE) -> StandingSeen:
    return StandingSeen(standing=Standing(activity, attention, StatusBasis(evidence=(SPINNER,)), since_seconds=0.0))


def at_work(policy: RunPolicy | None = None) -> Stage:
    """An agent in a terminal that began its turn."""
    policy = policy or RunPolicy(stall_after_seconds=20)
    stage = Stage(policy, kind=DriverKind.TERMINAL, capabilities=TERMINAL_CAPABILITIES)
    stage.send()
    stage.started()
    stage.see(standing(Activity.QUIET), BecameReady())
    stage.submitted()
    stage.see(PromptReached(stage=DeliveryStage.STARTED), standing(Activity.WORKING))
    return stage


def test_a_turn_without_progress_is_stalled_and_gets_on_with_the_next_progress() -> None:
    stage = at_work()
    stage.wait(5)
    stage.see(TEXT)
    stage.wait(19.9)
    assert stage.activity() is Activity.WORKING
    stage.wait(0.1)
    assert stage.activity() is Activity.STALLED
    stage.wait(300)
    stage.see(TEXT)
    assert stage.activity() is Activity.WORKING
    assert stage.state() is TurnState.RUNNING
    kinds = [one.kind for one in stage.logged(Anomaly)]
    assert kinds == ["stalled_entered", "stalled_recovered"]
    assert stage.logged(Anomaly)[1].details == {"elapsed_stalled_seconds": 300.0}


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(standing(Activity.WORKING), id="a spinner that another rule reads"),
        pytest.param(Warned(kind="evidence_disagreement"), id="a surprise of ours"),
        pytest.param(Traced(raw="?"), id="a line that nobody reads"),
        pytest.param(SessionNamed(native_session_id="abc"), id="its name"),
    ],
)
def test_what_is_no_progress_keeps_no_turn_from_stalling_and_ends_no_stall(
    sign: StandingSeen | Warned | Traced | SessionNamed,
) -> None:
    stage = at_work()
    for _ in range(4):
        stage.wait(5)
        stage.see(sign)
    assert stage.activity() is Activity.STALLED
    stage.see(sign)
    assert stage.activity() is Activity.STALLED


def test_a_stall_names_what_was_last_seen_and_when_in_status_and_log() -> None:
    stage = at_work()
    stage.wait(5)
    stage.see(TEXT)
    stage.wait(20)
    proof, *rest = stage.conductor.status.evidence
    assert (proof.source, proof.rule) == (EvidenceSource.SCREEN, "turn.no_progress")
    assert proof.at == BEGAN + timedelta(seconds=5)
    assert proof.where == "last progress at 00:00:05 UTC: new text on its screen"
    assert rest == [SPINNER]
    logged = stage.logged(SurfaceEvent)[-1]
    assert (logged.activity, logged.evidence) == (Activity.STALLED, (proof,))
    assert stage.logged(Anomaly)[-1].details == {"elapsed_seconds": 20.0, "last_progress": proof.where}
    stage.see(TEXT)
    assert stage.conductor.status.evidence == (SPINNER,)
    assert stage.logged(SurfaceEvent)[-1].activity is Activity.WORKING


def test_the_log_keeps_the_rows_the_frame_and_the_profile_that_a_change_was_read_from() -> None:
    stage = at_work()
    sight = standing(Activity.WORKING, Attention.PLAN)
    seen = replace(sight, rows="1. yes\n2. no", frame_sha256="ab" * 32, profile="claude 2.1")
    stage.see(seen)
    assert stage.logged(SurfaceEvent)[-1] == SurfaceEvent(
        activity=Activity.WORKING,
        attention=Attention.PLAN,
        evidence=(SPINNER,),
        rows="1. yes\n2. no",
        frame_sha256="ab" * 32,
        profile="claude 2.1",
    )


def test_the_end_of_a_stalled_turn_is_no_recovery() -> None:
    stage = at_work()
    stage.wait(20)
    stage.see(TurnEnded(ending=TurnEnding.INTERRUPTED), standing(Activity.QUIET), BecameReady())
    assert [one.kind for one in stage.logged(Anomaly)] == ["stalled_entered"]
    assert stage.activity() is Activity.QUIET


def test_a_tool_that_is_proven_to_run_is_shown_with_its_time_and_has_a_limit_of_its_own() -> None:
    stage = at_work(RunPolicy(stall_after_seconds=20, stall_tool_after_seconds=600))
    stage.wait(10)
    stage.see(ToolsSeen(open=(("c1", "Bash"),)))
    stage.wait(540)
    status = stage.conductor.status
    assert (status.activity, status.substate, status.tool) == (Activity.WORKING, AgentState.RUNNING_TOOL, "Bash")
    assert status.tool_since == BEGAN + timedelta(seconds=10)
    stage.wait(60)
    assert stage.activity() is Activity.STALLED
    stage.see(ToolsSeen(open=()))
    status = stage.conductor.status
    assert (status.activity, status.substate, status.tool) == (Activity.WORKING, AgentState.IDLE, "")
    stage.wait(20)
    assert stage.activity() is Activity.STALLED


def test_of_two_tools_the_one_that_stays_is_shown_and_another_call_is_progress() -> None:
    stage = at_work(RunPolicy(stall_after_seconds=20, stall_tool_after_seconds=100))
    stage.see(ToolsSeen(open=(("c1", "Bash"), ("c2", "Read"))))
    stage.wait(90)
    stage.see(ToolsSeen(open=(("c2", "Read"),)))
    stage.wait(90)
    assert (stage.activity(), stage.conductor.status.tool) == (Activity.WORKING, "Read")
    stage.wait(10)
    assert stage.activity() is Activity.STALLED


def test_an_open_question_is_no_stall_and_its_answer_is_progress() -> None:
    stage = at_work()
    stage.wait(10)
    stage.see(standing(Activity.WORKING, Attention.APPROVAL), ApprovalAsked(request_id="r1", question="May I?"))
    stage.wait(1000)
    assert stage.activity() is Activity.WORKING
    stage.see(ApprovalGone(request_id="r1"), standing(Activity.WORKING))
    stage.wait(19)
    assert stage.activity() is Activity.WORKING
    stage.wait(1)
    assert stage.activity() is Activity.STALLED


def test_an_open_turn_over_a_screen_at_rest_is_stalled_and_never_completed() -> None:
    """Its end was not proven, so it is shown at work: not for ever."""
    stage = at_work()
    stage.see(TEXT, standing(Activity.QUIET))
    stage.wait(19.9)
    assert stage.activity() is Activity.QUIET
    stage.wait(0.1)
    assert stage.activity() is Activity.STALLED
    proof, *_ = stage.conductor.status.evidence
    assert (proof.rule, proof.where) == ("turn.no_progress", "last progress at 00:00:00 UTC: new text on its screen")
    assert stage.logged(SurfaceEvent)[-1].activity is Activity.STALLED
    stage.see(standing(Activity.WORKING), standing(Activity.QUIET))
    stage.wait(10_000)
    assert (stage.activity(), stage.state()) == (Activity.STALLED, TurnState.RUNNING)
    stage.see(TEXT)
    assert stage.activity() is Activity.QUIET
    assert [one.kind for one in stage.logged(Anomaly)] == ["stalled_entered", "stalled_recovered"]
    stage.see(TurnEnded(ending=TurnEnding.NATURAL), BecameReady())
    assert stage.activity() is Activity.QUIET
    stage.wait(10_000)
    assert stage.activity() is Activity.QUIET


def test_an_agent_at_rest_that_has_children_is_not_stalled_before_they_are_given_up() -> None:
    stage = at_work(RunPolicy(stall_after_seconds=20, stall_tool_after_seconds=100))
    stage.see(standing(Activity.QUIET), ChildrenChanged(open=frozenset({"task-1"})))
    stage.wait(59.9)
    assert stage.activity() is Activity.QUIET
    stage.wait(0.1)
    assert [one.kind for one in stage.logged(Anomaly)] == ["children_never_ended", "stalled_entered"]
    assert stage.activity() is Activity.STALLED


def test_an_open_turn_over_background_work_that_is_never_over_is_stalled_after_the_time_of_a_tool() -> None:
    stage = at_work(RunPolicy(stall_after_seconds=20, stall_tool_after_seconds=600))
    stage.see(TEXT, standing(Activity.SETTLING))
    stage.wait(599.9)
    assert stage.activity() is Activity.SETTLING
    stage.wait(0.1)
    assert stage.activity() is Activity.STALLED
    stage.see(TEXT)
    assert stage.activity() is Activity.SETTLING


def test_work_of_its_own_that_keeps_a_prompt_out_and_does_not_get_on_is_stalled() -> None:
    """The prompt waits for the end of something that nobody sent. That hangs, and nothing else would ever be told."""
    stage = Stage(RunPolicy(stall_after_seconds=20), kind=DriverKind.TERMINAL, capabilities=TERMINAL_CAPABILITIES)
    stage.send()
    stage.started()
    stage.see(standing(Activity.QUIET), BecameReady())
    kept_out = Submitted(
        prompt_id=PromptId("p1"), stage=DeliveryStage.NOT_DELIVERED, message="it is working", waits_for="it is working"
    )
    stage.hear(kept_out)
    stage.see(standing(Activity.WORKING))
    for _ in range(3):
        stage.wait(5)
        stage.hear(kept_out)
    stage.wait(4.9)
    assert stage.activity() is Activity.WORKING
    stage.wait(0.1)
    assert stage.activity() is Activity.STALLED
    stage.see(TEXT)
    assert stage.activity() is Activity.WORKING
    stage.see(standing(Activity.QUIET))
    stage.wait(2)
    stage.hear(Submitted(prompt_id=PromptId("p1"), stage=DeliveryStage.STARTED))
    stage.see(standing(Activity.WORKING), TurnEnded(ending=TurnEnding.NATURAL, turn_id=stage.conductor.book.turn_id))
    assert stage.state() is TurnState.COMPLETED


def test_a_prompt_that_is_kept_out_by_a_persons_draft_is_not_stalled() -> None:
    stage = Stage(RunPolicy(stall_after_seconds=20), kind=DriverKind.TERMINAL, capabilities=TERMINAL_CAPABILITIES)
    stage.send()
    stage.started()
    stage.see(standing(Activity.QUIET), BecameReady())
    for _ in range(12):
        stage.hear(
            Submitted(
                prompt_id=PromptId("p1"), stage=DeliveryStage.NOT_DELIVERED, message="a draft", waits_for="a draft"
            )
        )
        stage.wait(2)
    assert stage.activity() is Activity.QUIET


def test_a_turn_whose_screen_says_nothing_has_the_stall_clock_of_the_screen() -> None:
    stage = at_work()
    stage.see(standing(Activity.UNKNOWN))
    stage.wait(1000)
    assert stage.activity() is Activity.UNKNOWN


def test_without_an_open_turn_nothing_is_stalled() -> None:
    stage = at_work()
    stage.see(TurnEnded(ending=TurnEnding.NATURAL), standing(Activity.QUIET), BecameReady())
    stage.see(standing(Activity.WORKING), ToolsSeen(open=(("c1", "Bash"),)))
    stage.wait(10_000)
    assert stage.activity() is Activity.WORKING
    assert stage.conductor.status.tool == ""


def test_the_setting_may_be_off_and_a_stall_may_end_the_turn() -> None:
    stage = at_work(RunPolicy(stall_after_seconds=None))
    stage.wait(100_000)
    assert stage.activity() is Activity.WORKING
    ends = at_work(RunPolicy(stall_after_seconds=20, stalled_is_terminal=True))
    ends.wait(20)
    assert (ends.turn.state, ends.turn.error_kind) == (TurnState.FAILED, "stalled")


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_a_real_cli_whose_model_hangs_is_stalled_after_the_time_that_is_set(cli: str) -> None:
    """A recording through tracker, translator and session, with nothing between: as the runtime does it."""
    with open_recording(str(LIVE / cli / "hang_120x40.ndjson.gz")) as lines:
        records = list(lines)
    header = records[0]
    assert isinstance(header, Header)
    reader = select_reader(builtin_profiles(), header.cli, header.version)
    tracker, translator = TuiTrackerSession(reader), Translator(reader, "dialog", is_adopted=False)
    stage = Stage(RunPolicy(stall_after_seconds=20), kind=DriverKind.TERMINAL, capabilities=TERMINAL_CAPABILITIES)
    stage.send()
    stage.started()
    shown: list[tuple[float, Activity]] = []
    submitted = 0.0
    for record in records:
        if not isinstance(record, Frame | Input):
            continue
        stage.wait(max(0.0, record.t - stage.seconds))
        if isinstance(record, Input):
            submitted = record.t
            translator.submitted(TurnId(stage.turn.turn_id))
            verdict = tracker.on_submit(record.t, "SCN:think")
            stage.submitted(stage=DeliveryStage.STARTED)
        else:
            verdict = tracker.on_snapshot(snapshot_of(record, header), record.t)
        stage.see(*translator.see(LiveVerdict("%1", verdict, None)))
        if not shown or shown[-1][1] is not stage.activity():
            shown.append((record.t, stage.activity()))
    assert [activity for _, activity in shown][-2:] == [Activity.WORKING, Activity.STALLED]
    assert submitted + 20 <= shown[-1][0] < submitted + 25
    assert "last progress at" in stage.conductor.status.evidence[0].where
