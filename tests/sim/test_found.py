"""What the schedules found, each in its smallest form, so that it stays found."""

from __future__ import annotations

from msgspec import structs

from interlock.client.machine.inputs import (
    CancelAcked,
    CheckAnswered,
    CheckReason,
    CheckRequested,
    Connected,
    Join,
    JoinAcked,
    Opened,
    Output,
    PullRuntime,
    StopPressed,
    TaskInput,
)
from interlock.client.machine.task_machine import TaskStateMachine
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.ids import SessionId, StreamId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import ActiveStream, RuntimeCheck, StreamPiece, TaskSnapshot

TASK, TURN, STREAM = SessionId("ses_a"), TurnId("t1"), StreamId("s1")


def check(status: TaskStatus, cursor: int | None = None, tick: int = 0) -> RuntimeCheck:
    active = None if cursor is None else ActiveStream(stream_id=STREAM, cursor=cursor, last_activity_at=EPOCH)
    return RuntimeCheck(
        task_id=TASK,
        task_status=status,
        version=5,
        turn_id=TURN,
        status_updated_at=EPOCH,
        active_stream=active,
        tick=tick,
    )


def snapshot(text: str) -> TaskSnapshot:
    piece = StreamPiece(stream_id=STREAM, text=text, cursor=len(text), started_at=EPOCH, last_activity_at=EPOCH)
    return TaskSnapshot(
        task_id=TASK,
        task_status=TaskStatus.RUNNING,
        version=5,
        tick=9,
        turn_id=TURN,
        status_updated_at=EPOCH,
        stream=piece,
    )


class Client:
    """A machine, and the questions that it has open."""

    def __init__(self) -> None:
        self.machine = TaskStateMachine(TASK, is_connected=True)
        self.pull = self.join = 0

    def tell(self, *inputs: TaskInput) -> list[Output]:
        outputs = [output for given in inputs for output in self.machine.step(given, 0.0)]
        for output in outputs:
            if isinstance(output, PullRuntime):
                self.pull = output.generation
            elif isinstance(output, Join):
                self.join = output.generation
        return outputs

    def look(self, answer: RuntimeCheck) -> list[Output]:
        self.tell(CheckRequested(CheckReason.PAGE_VISIBLE))
        return self.tell(CheckAnswered(self.pull, answer))


def entered(text: str) -> Client:
    client = Client()
    client.tell(Opened())
    client.tell(CheckAnswered(client.pull, check(TaskStatus.RUNNING, len(text))))
    client.tell(JoinAcked(client.join, snapshot(text)))
    assert client.machine.state.stream is not None
    return client


def test_a_stop_that_was_taken_does_not_stick_to_what_runs_next() -> None:
    """Pressed while no turn was known; what it was pressed for is over, and another turn streams."""
    client = Client()
    client.tell(Opened(), StopPressed(), CancelAcked(is_delivered=True))
    client.tell(CheckAnswered(client.pull, check(TaskStatus.RUNNING, 2)))
    client.tell(JoinAcked(client.join, snapshot("ab")))
    assert client.machine.state.is_stopping is False, "this join was asked for after the stop was taken"
    assert client.machine.state.deadline is None


def test_a_check_that_was_asked_before_the_stop_was_taken_does_not_settle_it() -> None:
    client = entered("ab")
    client.tell(StopPressed(), CheckRequested(CheckReason.PAGE_VISIBLE), CancelAcked(is_delivered=True))
    client.tell(CheckAnswered(client.pull, check(TaskStatus.RUNNING, 2)))
    assert client.machine.state.is_stopping, "it may speak of a moment before the server took the stop"
    client.look(check(TaskStatus.CANCELLING, 2))
    assert client.machine.state.is_stopping, "it is being stopped"
    client.look(check(TaskStatus.RUNNING, 2))
    assert not client.machine.state.is_stopping


def test_a_stop_that_was_not_taken_yet_is_not_settled_by_a_running_task() -> None:
    client = entered("ab")
    client.tell(StopPressed())
    client.look(check(TaskStatus.RUNNING, 2))
    assert client.machine.state.is_stopping


def test_text_that_the_server_cut_is_asked_for() -> None:
    """A stream that is shorter there than here: the push that cut it did not come."""
    client = entered("abcd")
    assert [type(output) for output in client.look(check(TaskStatus.RUNNING, 2))] == [Join]
    client.tell(JoinAcked(client.join, snapshot("ab")))
    assert client.machine.state.stream is not None
    assert client.machine.state.stream.text == "ab"


def test_the_last_frames_of_a_version_that_were_lost_are_asked_for() -> None:
    """Seed 107503: the message of the end came; the patch of the state document and the status after it did not. The
    check knew of no newer version, and the client kept a document in which the run goes on."""
    client = entered("ab")
    assert client.look(check(TaskStatus.RUNNING, 2, tick=9)) == [], "all that the room said is here"
    assert [type(output) for output in client.look(check(TaskStatus.RUNNING, 2, tick=11))] == [Join]
    client.tell(JoinAcked(client.join, structs.replace(snapshot("ab"), tick=11)))
    assert client.look(check(TaskStatus.RUNNING, 2, tick=11)) == []


def test_a_new_socket_is_no_answer() -> None:
    """What was open before the socket stays open after it: only an answer verifies."""
    client = Client()
    client.tell(Opened(), Connected())
    assert not client.machine.state.is_verified
