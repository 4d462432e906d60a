"""What a reader of frames is told: whatever is lost, doubled or read late, it ends where the server stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.client.machine.catching_up import frames_between
from interlock.client.machine.frame_feed import FrameFeed, Hole
from interlock.client.machine.growing_text import GrowingText
from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckReason,
    CheckRequested,
    Connected,
    Disconnected,
    EnsureConnected,
    FrameArrived,
    Join,
    JoinAcked,
    Opened,
    PullRuntime,
    TaskInput,
    TimerFired,
)
from interlock.client.machine.state import LocalStream, TaskState
from interlock.client.machine.task_machine import TaskStateMachine
from interlock.vocabulary.ids import StreamId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import (
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatMessage,
    ChatStart,
    Message,
    MessageStatus,
    QueueChanged,
    QueueView,
    Role,
    TaskFrame,
    TaskStatusChanged,
)
from tests.client.fake_room import AT, TASK, FakeRoom
from tests.client.fake_server import FakeServer


@dataclass
class Reader:
    """Somebody who knows nothing but the frames that they are told."""

    messages: dict[int, Message] = field(default_factory=dict)
    stream: tuple[StreamId, str] | None = None
    status: TaskStatus | None = None
    turn_id: TurnId | None = None
    queue: QueueView = field(default_factory=QueueView)
    asked: set[str] = field(default_factory=set)

    def read(self, frame: TaskFrame) -> None:
        match frame:
            case ChatMessage(message=message):
                known = self.messages.get(message.message_id)
                assert known is None or known.version < message.version, "told twice"
                self.messages[message.message_id] = message
            case ChatStart(stream_id=stream_id):
                self.stream = (stream_id, "")
            case ChatChunk(stream_id=stream_id, offset=offset, text=text):
                assert self.stream is not None
                assert self.stream[0] == stream_id
                assert offset <= len(self.stream[1]), "a hole"
                self.stream = (stream_id, self.stream[1][:offset] + text)
            case ChatDone() | ChatError() | ChatCancelled():
                self.stream = None
            case TaskStatusChanged():
                assert (self.status, self.turn_id) != (frame.task_status, frame.turn_id), "told twice"
                self.status, self.turn_id = frame.task_status, frame.turn_id
            case QueueChanged(queue=queue):
                self.queue = queue
            case ApprovalOpened(approval=approval) | ApprovalDecided(approval=approval):
                self.asked.add(approval.approval_id)
            case ApprovalClosed(approval=approval):
                self.asked.discard(approval.approval_id)
            case _:
                pass


class Network:
    """A room, a machine, a feed and its reader, with everything in between in the hands of a test."""

    def __init__(self, *, limit: int, snapshot_limit: int) -> None:
        self.room = FakeRoom(FakeServer())
        self.room.limit = snapshot_limit
        self.machine = TaskStateMachine(TASK)
        self.feed = FrameFeed(self.machine.state, has_history=True, limit=limit)
        self.reader = Reader()
        self.now = 0.0
        self.is_offline = False
        self.turns = 0
        self.wire: list[TaskFrame] = []
        self.room.tell = lambda *frames: self.wire.extend(frames)  # type: ignore[method-assign]
        self.step(Opened())

    def step(self, input: TaskInput) -> None:
        self.now += 0.001
        before = self.machine.state
        outputs = self.machine.step(input, self.now)
        self.feed.step(before, input, self.machine.state)
        for output in outputs:
            match output:
                case PullRuntime():
                    self.step(CheckAnswered(output.generation, self.room.check()))
                case Join() if self.machine.state.is_connected:
                    asked = (output.after_version, output.stream_id, output.cursor)
                    self.step(JoinAcked(output.generation, self.room.snapshot(*asked)))
                case EnsureConnected() if not (self.machine.state.is_connected or self.is_offline):
                    self.wire.clear()  # what was said before is not for this connection
                    self.step(Connected())
                case _:
                    pass

    def happen(self, what: str) -> None:
        room = self.room
        is_open = room.status is TaskStatus.RUNNING
        match what:
            case "begin" if not is_open:
                self.turns += 1
                room.set_status(TaskStatus.RUNNING, f"trn_{self.turns}")
            case "say" if is_open:
                room.say(f"{room.tick} ", f"str_{self.turns}")
            case "end" if is_open and room.stream is not None:
                room.end_stream()
                room.close_questions()
                room.set_status(TaskStatus.COMPLETED, room.turn_id)
            case "message" if is_open:
                room.add_message(f"message {room.version}")
            case "queue":
                room.hold((f"prm_{room.version}", "next"))
            case "ask" if is_open:
                room.ask(f"apr_{room.version}")
            case _:
                self.disturb(what)

    def disturb(self, what: str) -> None:
        match what:
            case "deliver":
                self.deliver()
            case "lose":
                self.wire = self.wire[1:]
            case "double":
                self.wire = self.wire[:1] + self.wire
            case "swap":
                self.wire = self.wire[1:2] + self.wire[:1] + self.wire[2:]
            case "drop":
                self.wire.clear()
                self.step(Disconnected("dropped"))
            case "read":
                self.read(3)
            case _:
                self.now += 3.0
                self.step(TimerFired())

    def deliver(self) -> None:
        frames, self.wire = self.wire, []
        for frame in frames:
            self.step(FrameArrived(frame))

    def read(self, count: int) -> None:
        for _ in range(count):
            found = self.feed.next(self.machine.state)
            if found is None:
                return
            if isinstance(found, Hole):
                for message in self.room.messages.values():
                    if found.after < message.message_id < found.before:
                        self.reader.read(ChatMessage(task_id=TASK, version=1, tick=1, message=message))
            else:
                self.reader.read(found)

    def heal(self) -> TaskState:
        self.deliver()
        self.step(CheckRequested(CheckReason.MANUAL_REFRESH))  # the last frame may be among those that were lost
        for _ in range(20):
            self.now += 31.0
            self.step(TimerFired())
            self.deliver()
            self.read(1000)
        return self.machine.state


ACTS = (
    "begin",
    "say",
    "say",
    "end",
    "message",
    "queue",
    "ask",
    "deliver",
    "lose",
    "double",
    "swap",
    "drop",
    "read",
    "-",
)


@given(
    st.lists(st.sampled_from(ACTS), min_size=10, max_size=60),
    st.integers(min_value=1, max_value=12),
    st.integers(min_value=1, max_value=20),
)
def test_a_reader_ends_where_the_server_stands(acts: list[str], limit: int, snapshot_limit: int) -> None:
    network = Network(limit=limit, snapshot_limit=snapshot_limit)
    for act in ("begin", "message", "deliver", "read", *acts):
        network.happen(act)
    state = network.heal()
    room, reader = network.room, network.reader
    assert state.version == room.version
    assert reader.messages == room.messages
    assert reader.stream == (None if room.stream is None else (room.stream.stream_id, room.stream.text))
    assert (reader.status, reader.turn_id) == (room.status, room.turn_id)
    assert reader.queue == room.queue
    assert reader.asked == {one.approval_id for one in room.approvals}


def test_what_waits_is_bounded_by_the_limit_or_one_difference() -> None:
    network = Network(limit=5, snapshot_limit=100)
    network.happen("begin")
    for _ in range(100):
        network.happen("say")
        network.happen("deliver")
    assert len(network.feed._waiting) <= 5


def test_a_check_that_is_quicker_does_not_overtake_the_room() -> None:
    """The status of a check is known before the messages that it is about: the reader is told it after them."""
    network = Network(limit=1, snapshot_limit=100)
    for act in ("begin", "say", "say", "deliver"):
        network.happen(act)
    network.is_offline = True
    network.step(Disconnected("for a moment"))
    network.happen("end")
    network.step(CheckRequested(CheckReason.MANUAL_REFRESH))
    assert network.machine.state.status == TaskStatus.COMPLETED
    network.read(100)
    assert network.reader.status == TaskStatus.RUNNING
    network.is_offline = False
    network.heal()
    statuses = [network.reader.status]
    assert statuses == [TaskStatus.COMPLETED]


def test_text_that_has_no_place_is_not_told_before_what_is_missing() -> None:
    network = Network(limit=50, snapshot_limit=100)
    for act in ("begin", "say", "deliver"):
        network.happen(act)
    room = network.room
    room.is_quiet = True
    before = room.stream
    assert before is not None
    room.stream = structs.replace(before, text=before.text + "lost and found", cursor=before.cursor + 14)
    # Its tick is the next one, and its text is not: something went wrong at the server, which a resume puts right.
    late = room.frame(ChatChunk, stream_id=before.stream_id, offset=before.cursor + 9, text="found", at=AT)
    network.step(FrameArrived(late))
    network.read(100)
    assert network.reader.stream == (before.stream_id, before.text + "lost and found")


def test_a_frame_that_was_waited_for_brings_those_that_waited() -> None:
    room = FakeRoom(FakeServer())
    first, second = (room.frame(QueueChanged, queue=QueueView(gate_reason=str(number))) for number in range(2))
    before = TaskState(task_id=TASK, tick=0, synced_version=1, early=(second,))
    feed = FrameFeed(before)
    feed.step(before, FrameArrived(first), replace(before, tick=2, early=()))
    assert [feed.next(before), feed.next(before), feed.next(before)] == [first, second, None]


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (MessageStatus.COMPLETED, ChatDone),
        (MessageStatus.CANCELLED, ChatCancelled),
        (MessageStatus.PARTIAL, ChatError),
        (MessageStatus.TIMED_OUT, ChatError),
    ],
)
def test_how_a_stream_ended_meanwhile_is_what_its_message_says(status: MessageStatus, ending: type) -> None:
    turn_id = TurnId("trn_1")
    live = LocalStream(stream_id=StreamId("str_1"), started_at=AT, turn_id=turn_id, words=GrowingText("half"))
    message = Message(
        message_id=4,
        version=4,
        role=Role.ANSWER,
        status=status,
        text="half of it",
        at=AT,
        turn_id=turn_id,
        stream_id=StreamId("str_1"),
    )
    now = TaskState(task_id=TASK, messages=(message,), room_version=4)
    told, ended = frames_between(TaskState(task_id=TASK), now, live)
    assert isinstance(told, ChatMessage)
    assert isinstance(ended, ending)
    assert isinstance(ended, ChatDone | ChatCancelled | ChatError)
    assert (ended.cursor, ended.message_id) == (10, 4)


def test_what_was_told_is_not_told_again() -> None:
    room = FakeRoom(FakeServer())
    for number in range(3):
        room.add_message(f"message {number}")
    messages = tuple(room.messages.values())
    newer = structs.replace(messages[1], version=9, text="other words")
    now = TaskState(task_id=TASK, messages=(messages[0], newer, messages[2]))
    (told,) = frames_between(TaskState(task_id=TASK, messages=messages), now, None)
    assert isinstance(told, ChatMessage)
    assert told.message == newer
