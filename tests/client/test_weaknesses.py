"""The ten faults that were measured in the system behind the page, each by its letter: ours has none of them."""

from __future__ import annotations

import pytest

from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckReason,
    CheckRequested,
    Closed,
    DetailSynced,
    FrameArrived,
    Join,
    JoinAcked,
    Opened,
    Output,
    PullRuntime,
    QueueHeld,
    SendAccepted,
    TimerFired,
)
from interlock.client.machine.task_machine import TaskStateMachine
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.wire.frames import StreamPiece, TaskFrame
from tests.task_scenarios import words
from tests.task_scenarios.vectors import TASK
from tests.task_scenarios.words import A, B, check, chunk, done, piece, snapshot, start


class Client:
    """A machine whose questions are answered by hand."""

    def __init__(self, status: str = "RUNNING", stream: StreamPiece | None = None) -> None:
        self.machine = TaskStateMachine(TASK, is_connected=True)
        self.machine.step(Opened(), 0)
        self.answer(0, status, 5)
        assert self.machine.state.joining is not None
        ack = JoinAcked(self.machine.state.joining.generation, snapshot(status, 5, 10, stream=stream))
        self.machine.step(ack, 0)

    def answer(self, now: float, status: str | None, version: int, *more: object) -> tuple[Output, ...]:
        flight = self.machine.state.check
        assert flight is not None
        return self.machine.step(CheckAnswered(flight.generation, check(status, version, *more)), now)  # type: ignore[arg-type]

    def hear(self, now: float, *frames: TaskFrame) -> tuple[Output, ...]:
        return tuple(output for frame in frames for output in self.machine.step(FrameArrived(frame), now))

    def refresh(self, now: float) -> tuple[Output, ...]:
        return self.machine.request_runtime_check(CheckReason.MANUAL_REFRESH, now)

    def deadline(self) -> float | None:
        return self.machine.deadline

    def text(self) -> str | None:
        stream = self.machine.state.stream
        return None if stream is None else stream.text


def pulls_until(machine: TaskStateMachine, now: float, end: float) -> list[float]:
    """Let time pass, timer by timer, with nobody answering: when something was asked."""
    asked = []
    while machine.deadline is not None and machine.deadline <= end:
        now = machine.deadline
        asked += [now for output in machine.step(TimerFired(), now) if isinstance(output, PullRuntime)]
    return asked


def test_a_a_pull_that_hangs_does_not_end_all_checking() -> None:
    client = Client("RUNNING")
    client.refresh(0)
    assert len(pulls_until(client.machine, 0, 120)) >= 3
    client.machine.step(TimerFired(), 200)
    before = client.machine.state.generation
    client.refresh(201)
    assert client.machine.state.generation == before + 1 or client.machine.state.follow_up is not None


def test_b_a_join_that_hangs_is_given_up_and_tried_again() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    joins = 0
    for _ in range(20):
        state = machine.state
        if state.check is not None:
            outputs = machine.step(
                CheckAnswered(state.check.generation, check("RUNNING", 5)), state.check.deadline_at - 9
            )
        else:
            assert machine.deadline is not None
            outputs = machine.step(TimerFired(), machine.deadline)
        joins += sum(isinstance(output, Join) for output in outputs)
    assert joins >= 4


def test_c_a_check_does_not_kill_a_stream_that_began_meanwhile() -> None:
    client = Client()
    client.refresh(1)
    client.hear(1, start(11, 5, "s1"), chunk(12, 5, "s1", 0, "Hi"))
    assert [type(one) for one in client.answer(2, "RUNNING", 5)] == [PullRuntime]
    assert client.text() == "Hi"
    client.hear(3, chunk(13, 5, "s1", 2, "!"))
    assert client.text() == "Hi!"


def test_d_a_join_does_not_kill_a_stream_that_began_meanwhile() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(CheckAnswered(1, check("RUNNING", 5)), 0)
    machine.step(FrameArrived(start(11, 5, "s1")), 1)
    machine.step(FrameArrived(chunk(12, 5, "s1", 0, "Hi")), 1)
    machine.step(JoinAcked(2, snapshot("RUNNING", 5, 10)), 2)
    assert machine.state.stream is not None
    assert machine.state.stream.text == "Hi"
    assert machine.state.interrupted == ()


def test_e_nothing_that_is_answered_after_a_close_changes_anything() -> None:
    machine = TaskStateMachine(TASK, is_connected=True)
    machine.step(Opened(), 0)
    machine.step(Closed(), 1)
    closed = machine.state
    assert machine.step(CheckAnswered(1, check("RUNNING", 5)), 2) == ()
    assert machine.state == closed
    machine.step(Opened(), 3)
    opened = machine.state
    assert machine.step(CheckAnswered(1, check("RUNNING", 5)), 3) == ()
    assert machine.state == opened


def test_f_what_is_asked_during_a_check_is_asked_after_it() -> None:
    client = Client("COMPLETED")
    assert len(client.refresh(1)) == 1
    assert client.machine.step(CheckRequested(CheckReason.PAGE_VISIBLE), 1) == ()
    (again,) = client.answer(2, "COMPLETED", 5)
    assert isinstance(again, PullRuntime)
    assert again.reason is CheckReason.PAGE_VISIBLE
    assert client.answer(3, "COMPLETED", 5) == ()


def test_g_a_gap_is_never_glued() -> None:
    client = Client(stream=piece("s1", "Hel"))
    (resume,) = client.hear(1, chunk(11, 5, "s1", 9, "world"))
    assert isinstance(resume, Join)
    assert (resume.is_resume, resume.stream_id, resume.cursor) == (True, "s1", 3)
    assert client.text() == "Hel"


@pytest.mark.parametrize("is_seen_as_pending", [True, False])
def test_h_another_clients_turn_reopens_a_finished_task(is_seen_as_pending: bool) -> None:
    client = Client("COMPLETED")
    tick = 11
    if is_seen_as_pending:
        client.hear(1, words.status(tick, 6, "PENDING", None))
        tick += 1
    client.hear(1, words.status(tick, 7, "RUNNING", B), start(tick + 1, 7, "s2", B))
    state = client.machine.state
    assert (state.status, state.phase, state.flags.is_terminal, state.flags.is_streaming) == (
        "RUNNING",
        "streaming",
        False,
        True,
    )
    assert state.flags.blocks_queued_dispatch


def test_i_no_clock_orders_anything() -> None:
    client = Client("RUNNING")
    client.machine.step(SendAccepted(PromptId("p")), 1e9)
    client.hear(0, words.status(11, 9, "COMPLETED"))
    assert client.machine.state.status == "COMPLETED"
    client.machine.step(DetailSynced(task_status="RUNNING", version=8, turn_id=A), 2e9)
    assert client.machine.state.status == "COMPLETED"


def test_j_a_blocked_message_is_asked_about_until_it_is_free() -> None:
    client = Client(stream=piece("s1", "Hi"))
    client.machine.step(QueueHeld(1), 1)
    assert client.deadline() is None
    (first,) = client.hear(2, done(11, 6, "s1"))
    assert isinstance(first, PullRuntime)
    assert first.reason is CheckReason.QUEUED_MESSAGE_BLOCKED
    now = 2.0
    for _ in range(5):
        client.answer(now, "RUNNING", 6)
        assert client.deadline() == now + 3
        now += 3
        (again,) = client.machine.step(TimerFired(), now)
        assert isinstance(again, PullRuntime)
        assert again.reason is CheckReason.QUEUED_MESSAGE_BLOCKED
    client.answer(now, "COMPLETED", 8)
    assert not client.machine.state.is_blocked_here
