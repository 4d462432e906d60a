"""The machine, rule by rule, where a table says more than a story. The stories are in `vectors/`."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import msgspec
import pytest

from interlock.client.machine import inputs, reconcile
from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckFailed,
    CheckReason,
    CheckRequested,
    Connected,
    Disconnected,
    EnsureConnected,
    FellBehind,
    FrameArrived,
    Join,
    JoinAcked,
    JoinFailed,
    Leave,
    Opened,
    PullRuntime,
    QueueHeld,
    SendAccepted,
    StopPressed,
    TaskInput,
    TimerFired,
)
from interlock.client.machine.reconcile import ReconcileVerdict, StatusWord
from interlock.client.machine.state import SyncState, TaskState, digest_of
from interlock.client.machine.task_machine import MAX_EARLY, TaskStateMachine, step
from interlock.lifecycle.task_status import (
    RuntimePhase,
    StatusClass,
    TaskFacts,
    classify,
    runtime_phase,
    task_flags,
)
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import StreamPiece
from tests.each_row import each_row
from tests.task_scenarios import words
from tests.task_scenarios.vectors import TASK
from tests.task_scenarios.words import A, B, check, chunk, piece, said, snapshot, start

STATUSES: list[str | None] = [None, "foreign", *(status.value for status in TaskStatus)]


def in_room(status: str | None = "RUNNING", stream: StreamPiece | None = None) -> TaskStateMachine:
    """Opened, checked at version 5, and joined at tick 10."""
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check(status, 5)), 0)
    machine.step(JoinAcked(2, snapshot(status, 5, 10, stream=stream, messages=(said(2, "go"),))), 0)
    assert machine.state.sync is SyncState.JOINED
    return machine


# Derived values


@each_row(
    ("status", "has_stream", "is_joined", "is_reachable", "is_verified", "is_confirmed"),
    list(product(STATUSES, *[(False, True)] * 5)),
)
def test_flags_and_phase_are_those_of_the_one_table(
    status: str | None, has_stream: bool, is_joined: bool, is_reachable: bool, is_verified: bool, is_confirmed: bool
) -> None:
    live = in_room(stream=piece("s1", "x")).state.stream
    state = TaskState(
        task_id=TASK,
        sync=SyncState.JOINED if is_joined else SyncState.IDLE,
        status=status,
        stream=live if has_stream else None,
        tick=1 if is_joined else None,
        is_reachable=is_reachable,
        is_verified=is_verified,
        server_confirmed_no_stream=is_confirmed,
    )
    facts = TaskFacts(
        status=status,
        has_stream=has_stream,
        joined_room=is_joined,
        is_reachable=is_reachable,
        is_verified=is_verified,
        server_confirmed_no_stream=is_confirmed,
    )
    assert state.flags == task_flags(facts)
    assert state.phase is runtime_phase(status, has_stream=has_stream)
    assert state.connection == ("connected" if is_reachable else "disconnected")
    doubtful = replace(state, awaiting_after=0)
    assert doubtful.flags == task_flags(replace(facts, is_verified=False))
    assert doubtful.flags.blocks_queued_dispatch
    is_doubtful = not is_verified or (classify(status) is StatusClass.ACTIVE and not has_stream and not is_confirmed)
    if is_doubtful:
        assert state.is_unstable


@each_row(
    ("sync", "tick", "phase"),
    [
        (SyncState.IDLE, None, RuntimePhase.RUNNING),
        (SyncState.WAITING_SOCKET, None, RuntimePhase.SYNCING),
        (SyncState.JOINING, None, RuntimePhase.SYNCING),
        (SyncState.JOINING, 3, RuntimePhase.RUNNING),
        (SyncState.JOINED, 3, RuntimePhase.RUNNING),
        (SyncState.ERROR, None, RuntimePhase.ERROR),
    ],
)
def test_the_phase_shows_a_connection_that_is_not_there(sync: SyncState, tick: int | None, phase: RuntimePhase) -> None:
    assert TaskState(task_id=TASK, sync=sync, tick=tick, status="RUNNING").phase is phase


def test_a_state_has_a_hash_whatever_an_agent_asks() -> None:
    machine = in_room()
    machine.step(FellBehind(5, 11), 1)
    question = words.question("q1")
    machine.step(JoinAcked(3, snapshot("RUNNING", 5, 12, approvals=(question,), is_whole=False)), 1)
    other = replace(machine.state, approvals=())
    assert len({machine.state, other, replace(machine.state)}) == 2


def test_the_digest_of_a_state_is_that_of_its_snapshot() -> None:
    whole = snapshot(
        "RUNNING",
        5,
        10,
        messages=(said(4, "b"), said(2, "a")),
        stream=piece("s1", "Hi"),
        approvals=(words.question("q2"), words.question("q1")),
        queue=("p1",),
    )
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("RUNNING", 5)), 0)
    machine.step(JoinAcked(2, whole), 0)
    digest = machine.state.digest()
    assert digest == digest_of(whole)
    assert digest.approvals == ("q1", "q2")
    assert [one[0] for one in digest.messages] == [2, 4]
    for other in (
        msgspec.structs.replace(whole, version=6),
        msgspec.structs.replace(whole, task_status=TaskStatus.PENDING),
        msgspec.structs.replace(whole, turn_id=B),
        msgspec.structs.replace(whole, stream=piece("s1", "Ho")),
        msgspec.structs.replace(whole, stream=None),
        msgspec.structs.replace(whole, messages=whole.messages[:1]),
        msgspec.structs.replace(whole, approvals=()),
        msgspec.structs.replace(whole, queue=words.waiting("p2")),
    ):
        assert digest != digest_of(other)


# Status: every word after every word


def expected_verdict(
    old: str | None, new: str | None, turn: TurnId | None, ahead: int, is_direct: bool
) -> ReconcileVerdict:
    """The rule, said once more and in other words."""
    if ahead < 0 or (ahead == 0 and not is_direct):
        return ReconcileVerdict.OLD
    if new == "DELETE" or (new == old and turn == A):
        return ReconcileVerdict.TAKEN
    if old == "DELETE":
        return ReconcileVerdict.REFUSED
    if old not in ("COMPLETED", "FAILED", "CANCELLED"):
        return ReconcileVerdict.TAKEN
    is_other_turn = turn == B or (turn is None and new == "PENDING")
    return ReconcileVerdict.TAKEN if is_other_turn and ahead > 0 else ReconcileVerdict.REFUSED


@each_row("old", STATUSES)
def test_which_word_may_follow_which(old: str | None) -> None:
    state = TaskState(
        task_id=TASK, sync=SyncState.IDLE, status=old, turn_id=A, version=5, status_version=5, is_verified=False
    )
    for new, turn, ahead, is_direct in product(STATUSES, (A, B, None), (-1, 0, 1), (True, False)):
        word = StatusWord(new, 5 + ahead, turn, words.AT, is_direct)
        after, verdict = reconcile.take_status(state, word)
        assert verdict is expected_verdict(old, new, turn, ahead, is_direct), (old, word)
        if verdict is ReconcileVerdict.TAKEN:
            assert (after.status, after.turn_id, after.version) == (new, turn, 5 + ahead)
            assert after.is_verified == is_direct
        else:
            assert (after.status, after.turn_id, after.version) == (old, A, 5)
            assert after.anomalies == (verdict is ReconcileVerdict.REFUSED)


def test_frames_that_are_no_status_do_not_make_a_status_old() -> None:
    """A message of the new turn comes first, at the version of the status that reopens the task."""
    machine = in_room("COMPLETED")
    machine.step(FrameArrived(words.told(11, 7, said(7, "go on", turn=B), B)), 1)
    assert machine.state.version == 7
    machine.step(FrameArrived(words.status(12, 7, "RUNNING", B)), 1)
    assert machine.state.status == "RUNNING"
    assert machine.state.anomalies == 0


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED", "DELETE"])
def test_every_terminal_word_clears_what_ran(status: str) -> None:
    machine = in_room(stream=piece("s1", "Hi"))
    machine.step(StopPressed(), 1)
    machine.step(FrameArrived(words.status(11, 6, status)), 1)
    state = machine.state
    assert (state.stream, state.is_stopping, state.flags.blocks_queued_dispatch) == (None, False, False)
    assert state.deadline is None


def test_a_stop_of_a_prompt_outlives_the_birth_of_its_turn() -> None:
    machine = in_room("COMPLETED")
    machine.step(FrameArrived(words.status(11, 6, "PENDING", None)), 1)
    machine.step(StopPressed(), 1)
    machine.step(FrameArrived(words.status(12, 7, "RUNNING", B)), 1)
    assert machine.state.is_stopping


# What is closed, and what is not ours

EVERY: list[TaskInput] = [
    inputs.Closed(),
    CheckRequested(CheckReason.MANUAL_REFRESH),
    CheckAnswered(0, check("RUNNING", 5)),
    CheckFailed(0, "no"),
    JoinAcked(0, snapshot("RUNNING", 5, 10)),
    JoinFailed(0, "no"),
    FrameArrived(chunk(1, 5, "s1", 0, "Hi")),
    FellBehind(5, 9),
    inputs.DetailSynced(task_status="RUNNING", version=9),
    inputs.StatusHeard(task_status="RUNNING", version=9),
    SendAccepted(PromptId("p")),
    StopPressed(),
    inputs.CancelAcked(False),
    inputs.CancelFailed("no"),
    QueueHeld(2),
    TimerFired(),
]


@each_row("given", EVERY, ids=lambda one: type(one).__name__)
def test_a_closed_task_hears_nothing(given: TaskInput) -> None:
    closed = TaskState(task_id=TASK)
    assert step(closed, given, 1e6) == (closed, ())


def test_a_closed_task_knows_of_its_socket_and_asks_nothing() -> None:
    state, outputs = step(TaskState(task_id=TASK), Connected(), 1)
    assert (state.is_connected, state.is_reachable, outputs) == (True, True, ())
    state, outputs = step(state, Disconnected("x"), 1)
    assert (state.is_connected, state.is_reachable, outputs) == (False, False, ())


@pytest.mark.parametrize("sync", ["idle", "joining", "joined"])
def test_closing_leaves_the_room_we_are_in_or_on_our_way_to(sync: str) -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    if sync != "idle":
        machine.step(CheckAnswered(1, check("RUNNING", 5)), 0)
    if sync == "joined":
        machine.step(JoinAcked(2, snapshot("RUNNING", 5, 10)), 0)
    generation = machine.state.generation
    assert machine.step(inputs.Closed(), 1) == (() if sync == "idle" else (Leave(),))
    assert machine.state == TaskState(task_id=TASK, is_connected=True, is_reachable=True, generation=generation)


def test_a_frame_or_an_answer_of_another_task_is_not_ours() -> None:
    machine = in_room()
    before = machine.state
    other = msgspec.structs.replace(chunk(11, 5, "s1", 0, "Hi"), task_id=SessionId("other"))
    machine.step(FrameArrived(other), 0)
    assert machine.state == before
    machine.request_runtime_check(CheckReason.MANUAL_REFRESH, 1)
    wrong = msgspec.structs.replace(check("FAILED", 9), task_id=SessionId("other"))
    machine.step(CheckAnswered(3, wrong), 1)
    assert (machine.state.status, machine.state.is_verified, machine.state.anomalies) == ("RUNNING", False, 1)
    machine.step(FellBehind(9, 20), 1)
    machine.step(JoinAcked(4, msgspec.structs.replace(snapshot("FAILED", 9, 20), task_id=SessionId("other"))), 1)
    assert (machine.state.status, machine.state.sync, machine.state.anomalies) == ("RUNNING", SyncState.IDLE, 2)


def test_part_of_the_messages_is_no_answer_to_a_first_join() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("COMPLETED", 5)), 0)
    machine.step(JoinAcked(2, snapshot("COMPLETED", 5, 10, is_whole=False)), 0)
    assert (machine.state.sync, machine.state.synced_version, machine.state.anomalies) == (SyncState.IDLE, 0, 1)
    assert machine.deadline == 6


# Bounds


def test_early_frames_are_bounded_and_what_was_dropped_is_a_hole() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("RUNNING", 5)), 0)
    ticks = list(range(11, 11 + MAX_EARLY + 20))
    for tick in reversed(ticks):
        machine.step(FrameArrived(chunk(tick, 5, "s1", tick - 11, "x")), 1)
    assert [frame.tick for frame in machine.state.early] == ticks[:MAX_EARLY]
    (resume,) = machine.step(JoinAcked(2, snapshot("RUNNING", 5, 10)), 2)
    assert isinstance(resume, Join)
    assert (machine.state.tick, resume.cursor) == (ticks[MAX_EARLY - 1], MAX_EARLY)
    text = "x" * len(ticks)
    machine.step(JoinAcked(3, snapshot("RUNNING", 5, ticks[-1], stream=piece("s1", text), is_whole=False)), 3)
    assert machine.deadline is None
    assert machine.state.stream is not None
    assert machine.state.stream.text == text


def test_receipts_are_bounded() -> None:
    machine = in_room("COMPLETED")
    for number in range(200):
        machine.step(SendAccepted(PromptId(f"p{number}")), 1)
    assert len(machine.state.receipts) == 64
    assert machine.state.receipts[-1].prompt_id == "p199"


def test_a_negative_queue_is_none() -> None:
    machine = in_room()
    machine.step(QueueHeld(-3), 1)
    assert machine.state.queued_here == 0


# Versions: what counts as complete


def test_the_transcript_is_complete_only_below_the_version_of_the_last_frame() -> None:
    """The answer and the end of a turn have one version: whoever has heard one of two asks for both."""
    machine = in_room(stream=piece("s1", "Hi"))
    machine.step(FrameArrived(words.told(11, 8, said(7, "Hi", version=8, stream="s1"))), 1)
    assert (machine.state.version, machine.state.room_version, machine.state.synced_version) == (8, 8, 7)
    machine.step(Disconnected(), 2)
    machine.step(Connected(), 3)
    assert machine.state.check is not None
    (resume,) = machine.step(CheckAnswered(machine.state.check.generation, check("COMPLETED", 8)), 3)
    assert isinstance(resume, Join)
    assert resume.after_version == 7


def test_a_check_of_a_quiet_room_asks_for_nothing() -> None:
    machine = in_room()
    machine.step(FrameArrived(words.status(11, 8, "CANCELLING")), 1)
    machine.request_runtime_check(CheckReason.PAGE_VISIBLE, 2)
    assert machine.step(CheckAnswered(3, check("CANCELLING", 8)), 2) == ()
    assert machine.state.sync is SyncState.JOINED


def test_a_server_that_is_behind_is_not_asked_without_end() -> None:
    """A server that lost its last versions: not believed, not asked at once for ever, and never called verified."""
    machine = TaskStateMachine(TASK)
    machine.step(Opened(), 0)
    machine.step(inputs.StatusHeard(task_status="COMPLETED", version=9, turn_id=A), 0)
    now, asked = 0.0, 0
    for _ in range(40):
        flight = machine.state.check
        if flight is not None:
            machine.step(CheckAnswered(flight.generation, check("RUNNING", 5)), now)
            asked += 1
        elif machine.deadline is not None:
            now = machine.deadline
            machine.step(TimerFired(), now)
    assert machine.state.status == "COMPLETED"
    assert not machine.state.is_verified
    assert now > 100, "it was asked too often"


# Reachability


def test_a_second_word_of_the_same_loss_is_no_new_doubt() -> None:
    machine = in_room("COMPLETED")
    machine.step(Disconnected("cut"), 1)
    machine.step(TimerFired(), 4)
    machine.step(CheckAnswered(3, check("COMPLETED", 5)), 4)
    assert machine.state.is_verified
    machine.step(Disconnected("cut again"), 5)
    assert machine.state.is_verified
    assert machine.deadline is None


def test_a_frame_is_a_sign_of_life() -> None:
    machine = in_room()
    machine.request_runtime_check(CheckReason.MANUAL_REFRESH, 1)
    machine.step(CheckFailed(3, "no route"), 1)
    assert (machine.state.connection, machine.state.is_verified) == ("disconnected", False)
    machine.step(FrameArrived(chunk(11, 5, "s1", 0, "Hi")), 2)
    assert (machine.state.connection, machine.state.is_verified) == ("connected", False)
    machine.step(FrameArrived(words.status(12, 6, "CANCELLING")), 2)
    assert machine.state.is_verified


def test_a_socket_is_asked_for_again_by_each_check_that_needs_it() -> None:
    machine = TaskStateMachine(TASK)
    machine.step(Opened(), 0)
    assert machine.step(CheckAnswered(1, check("RUNNING", 5)), 0) == (EnsureConnected(),)
    machine.request_runtime_check(CheckReason.MANUAL_REFRESH, 1)
    assert machine.step(CheckAnswered(2, check("RUNNING", 5)), 1) == (EnsureConnected(),)
    assert machine.state.sync is SyncState.WAITING_SOCKET


def test_a_new_socket_voids_what_was_known_in_the_room() -> None:
    machine = in_room()
    machine.step(Connected(), 1)
    assert (machine.state.tick, machine.state.sync, machine.state.is_verified) == (None, SyncState.IDLE, False)


def test_an_error_is_left_by_asking_and_not_by_a_reconnect() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("RUNNING", 5)), 0)
    machine.step(JoinFailed(2, "forbidden", is_final=True), 0)
    assert (machine.state.problem, machine.deadline) == ("forbidden", None)
    for given in (Disconnected(), Connected(), TimerFired()):
        assert machine.step(given, 1e5) == ()
        assert machine.state.sync is SyncState.ERROR
    (pull,) = machine.step(Opened(), 1e5)
    assert isinstance(pull, PullRuntime)
    machine.step(CheckFailed(pull.generation, "still no"), 1e5)
    assert (machine.state.sync, machine.deadline) == (SyncState.ERROR, None)


def test_a_final_refusal_voids_the_check_beside_it() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("RUNNING", 5)), 0)
    machine.request_runtime_check(CheckReason.PAGE_VISIBLE, 0)
    machine.step(JoinFailed(2, "forbidden", is_final=True), 0)
    assert machine.step(CheckAnswered(3, check("RUNNING", 5)), 1) == ()
    assert machine.state.sync is SyncState.ERROR


# Deadlines


def test_deadlines_fall_due_in_their_order_and_only_once() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("RUNNING", 5)), 1)
    machine.request_runtime_check(CheckReason.MANUAL_REFRESH, 2)
    assert machine.deadline == 11
    machine.step(TimerFired(), 11)
    assert (machine.state.joining, machine.state.check is None) == (None, False)
    assert machine.deadline == 12
    assert machine.step(TimerFired(), 12) == ()
    assert machine.deadline == 12 + 12, "two things failed"


def test_what_is_due_comes_before_what_arrives() -> None:
    machine = in_room("COMPLETED")
    machine.step(FrameArrived(words.status(11, 6, "RUNNING", B)), 1)
    (pull,) = machine.step(FrameArrived(start(12, 6, "s1", B)), 100)
    assert isinstance(pull, PullRuntime)
    assert machine.state.check is not None
    assert machine.state.check.saw_stream


def test_the_reason_of_a_check_is_kept() -> None:
    machine = in_room("COMPLETED")
    for reason in CheckReason:
        machine.request_runtime_check(reason, 1)
        assert machine.state.last_reason is reason


def test_a_contradiction_does_not_swallow_what_was_to_follow() -> None:
    machine = in_room("COMPLETED")
    machine.step(FrameArrived(words.status(11, 9, "RUNNING", A)), 1)
    machine.request_runtime_check(CheckReason.PAGE_VISIBLE, 1)
    (pull,) = machine.step(CheckAnswered(3, check("RUNNING", 9)), 1)
    assert isinstance(pull, PullRuntime)
    assert pull.reason is CheckReason.PAGE_VISIBLE


def test_no_socket_is_waited_for_once_the_task_is_heard_to_be_deleted() -> None:
    machine = TaskStateMachine(TASK)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("RUNNING", 5)), 0)
    assert machine.state.sync is SyncState.WAITING_SOCKET
    machine.step(inputs.StatusHeard(task_status="DELETE", version=6, turn_id=A), 1)
    assert (machine.state.sync, machine.state.phase) == (SyncState.IDLE, RuntimePhase.TERMINAL)


def test_a_word_from_elsewhere_is_old_once_the_room_has_said_more() -> None:
    machine = in_room()
    machine.step(FrameArrived(words.told(11, 8, said(8, "more"))), 1)
    assert (machine.state.version, machine.state.status_version) == (8, 5)
    machine.step(inputs.DetailSynced(task_status="CANCELLING", version=7, turn_id=A), 1)
    assert machine.state.status == "RUNNING"
