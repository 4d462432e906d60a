"""A small server of one task, and a world between it and the client's machine in which anything may get lost.

The server says only what a server may say: its frames are counted without a gap, a snapshot holds all up to its tick,
a check tells what a snapshot at the same moment would.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from interlock.client.machine.inputs import (
    CancelFailed,
    CheckAnswered,
    CheckFailed,
    CheckReason,
    CheckRequested,
    Connected,
    Disconnected,
    EnsureConnected,
    FrameArrived,
    Join,
    JoinAcked,
    JoinFailed,
    Leave,
    Opened,
    Output,
    PullRuntime,
    TaskInput,
    TimerFired,
)
from interlock.client.machine.state import TaskState
from interlock.client.machine.task_machine import step
from interlock.vocabulary.ids import StreamId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import (
    ActiveStream,
    ApprovalClosed,
    ApprovalOpened,
    Message,
    MessageStatus,
    QueueChanged,
    QueueView,
    RuntimeCheck,
    TaskFrame,
    TaskSnapshot,
)
from tests.task_scenarios import words
from tests.task_scenarios.vectors import TASK

OPEN = (TaskStatus.RUNNING, TaskStatus.PENDING_CONFIRMATION, TaskStatus.CANCELLING)


@dataclass
class TaskServer:
    """The truth. Every method that changes it returns the frames that tell of it."""

    version: int = 0
    tick: int = 0
    status: TaskStatus | None = None
    turn: TurnId | None = None
    turns: int = 0
    streams: int = 0
    stream: tuple[StreamId, str] | None = None
    messages: dict[int, Message] = field(default_factory=dict)
    questions: dict[str, None] = field(default_factory=dict)
    queue: tuple[str, ...] = ()
    room: list[TaskFrame] = field(default_factory=list)

    def act(self, deed: str) -> None:
        """Do one thing, if it is possible now. Its frames are put into `room`."""
        getattr(self, f"_{deed}")()

    def _tell(self, frame: TaskFrame) -> None:
        self.room.append(frame)

    def _next(self) -> int:
        self.tick += 1
        return self.tick

    def _become(self, status: TaskStatus | None, turn: TurnId | None) -> None:
        if (status, turn) != (self.status, self.turn):
            self.status, self.turn = status, turn
            self._tell(words.status(self._next(), self.version, status, turn))

    def _log(self) -> None:
        """Something is written of which the room is not told."""
        self.version += 1

    def _accept(self) -> None:
        if self.status not in OPEN and self.status is not TaskStatus.PENDING:
            self.version += 1
            self.queue = (f"p{self.version}",)
            self._tell(QueueChanged(task_id=TASK, version=self.version, tick=self._next(), queue=self._waiting()))
            self._become(TaskStatus.PENDING, None)

    def _waiting(self) -> QueueView:
        return words.waiting(*self.queue)

    def _start(self) -> None:
        if self.status is TaskStatus.PENDING:
            self.version += 1
            self.queue = ()
            self.turns += 1
            turn = TurnId(f"turn_{self.turns}")
            self._tell(QueueChanged(task_id=TASK, version=self.version, tick=self._next(), queue=self._waiting()))
            self._say("go", MessageStatus.COMPLETED, None, turn)
            self._become(TaskStatus.RUNNING, turn)

    def _say(self, text: str, status: MessageStatus, stream: str | None, turn: TurnId | None) -> None:
        message = words.said(self.version, text, status, stream=stream, turn=turn)
        self.messages[self.version] = message
        self._tell(words.told(self._next(), self.version, message, turn))

    def _write(self) -> None:
        """More text; the first of it begins a stream."""
        if self.status not in OPEN:
            return
        if self.stream is None:
            self.streams += 1
            self.stream = (StreamId(f"s{self.streams}"), "")
            self._tell(words.start(self._next(), self.version, self.stream[0], self.turn))
        stream_id, text = self.stream
        more = f"<{self.tick}é🙂>"
        self._tell(words.chunk(self._next(), self.version, stream_id, len(text), more, self.turn))
        self.stream = (stream_id, text + more)

    def _restart(self) -> None:
        """What was written is void: another stream takes its place."""
        if self.stream is not None:
            self.streams += 1
            self.stream = (StreamId(f"s{self.streams}"), "")
            self._tell(words.start(self._next(), self.version, self.stream[0], self.turn))

    def _finish_message(self) -> None:
        if self.stream is not None:
            self.version += 1
            stream_id, text = self.stream
            self._say(text, MessageStatus.COMPLETED, stream_id, self.turn)
            self._tell(words.done(self._next(), self.version, stream_id, self.turn))
            self.stream = None

    def _ask(self) -> None:
        if self.status is TaskStatus.RUNNING:
            self.version += 1
            name = f"q{self.version}"
            self.questions[name] = None
            frame = ApprovalOpened(
                task_id=TASK,
                version=self.version,
                tick=self._next(),
                turn_id=self.turn,
                approval=words.question(name, turn=self.turn),
            )
            self._tell(frame)
            self._become(TaskStatus.PENDING_CONFIRMATION, self.turn)

    def _close_questions(self) -> None:
        for name in self.questions:
            approval = words.question(name, turn=self.turn)
            self._tell(
                ApprovalClosed(
                    task_id=TASK, version=self.version, tick=self._next(), turn_id=self.turn, approval=approval
                )
            )
        self.questions = {}

    def _reply(self) -> None:
        if self.status is TaskStatus.PENDING_CONFIRMATION:
            self.version += 1
            self._close_questions()
            self._become(TaskStatus.RUNNING, self.turn)

    def _cancel(self) -> None:
        if self.status in OPEN:
            self.version += 1
            self._become(TaskStatus.CANCELLING, self.turn)

    def _complete(self) -> None:
        self._end(TaskStatus.COMPLETED, MessageStatus.COMPLETED)

    def _break(self) -> None:
        self._end(TaskStatus.FAILED, MessageStatus.PARTIAL)

    def _end(self, status: TaskStatus, kept: MessageStatus) -> None:
        """The closing batch: several frames of one version."""
        if self.status not in OPEN:
            return
        self.version += 1
        if self.stream is not None:
            stream_id, text = self.stream
            self._say(text, kept, stream_id, self.turn)
            end = words.done if status is TaskStatus.COMPLETED else words.broke
            self._tell(end(self._next(), self.version, stream_id, self.turn))
            self.stream = None
        self.version += 1
        self._say(status.value, kept, None, self.turn)
        self._close_questions()
        self._become(status, self.turn)

    def _orphan(self) -> None:
        """Nobody runs the session any more: the same version, and no status."""
        if self.status in OPEN:
            if self.stream is not None:
                self._tell(words.broke(self._next(), self.version, self.stream[0], self.turn))
                self.stream = None
            self._become(TaskStatus.UNKNOWN, self.turn)

    def _adopt(self) -> None:
        if self.status is TaskStatus.UNKNOWN:
            self._become(TaskStatus.RUNNING, self.turn)

    def _rewrite(self) -> None:
        """The newest message turns out to be otherwise, as where its log is found to be damaged: the same version."""
        if self.messages and self.stream is None:
            newest = self.messages[max(self.messages)]
            changed = msgspec.structs.replace(newest, version=self.version, text=f"{newest.text}~")
            self.messages[newest.message_id] = changed
            self._tell(words.told(self._next(), self.version, changed, newest.turn_id))

    def check(self) -> RuntimeCheck:
        live = self.stream
        active = (
            None if live is None else ActiveStream(stream_id=live[0], cursor=len(live[1]), last_activity_at=words.AT)
        )
        check = words.check(self.status, self.version, self.turn)
        return msgspec.structs.replace(check, active_stream=active, tick=self.tick)

    def snapshot(
        self, after_version: int | None = None, stream_id: StreamId | None = None, cursor: int = 0
    ) -> TaskSnapshot:
        live = self.stream
        piece = None
        if live is not None:
            offset = cursor if live[0] == stream_id and cursor <= len(live[1]) else 0
            piece = words.piece(live[0], live[1][offset:], offset, self.turn)
        # As the server does: messages of the named version come again.
        after = -1 if after_version is None else after_version - 1
        return words.snapshot(
            self.status,
            self.version,
            self.tick,
            self.turn,
            messages=tuple(one for one in self.messages.values() if one.version > after),
            stream=piece,
            is_whole=after_version is None,
            approvals=tuple(words.question(name, turn=self.turn) for name in self.questions),
            queue=self.queue,
        )


DEEDS = (
    "accept", "start", "write", "restart", "finish_message", "ask", "reply", "cancel", "complete", "break", "orphan",
    "adopt", "log",
)  # fmt: skip


@dataclass
class World:
    """Server, network and client. `pipe` is what is on its way by the socket, `pulls` what is asked by HTTP."""

    server: TaskServer = field(default_factory=TaskServer)
    state: TaskState = field(default_factory=lambda: TaskState(task_id=TASK))
    now: float = 0.0
    pipe: list[TaskInput] = field(default_factory=list)
    pulls: list[tuple[PullRuntime, RuntimeCheck]] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    is_in_room: bool = False
    wants_socket: bool = False
    trail: list[tuple[float, TaskInput, tuple[Output, ...]]] = field(default_factory=list)

    def give(self, given: TaskInput) -> None:
        """Give an input to the machine, and do what it asks for as far as that is instant."""
        self.state, outputs = step(self.state, given, self.now)
        self.trail.append((self.now, given, outputs))
        for output in outputs:
            match output:
                case PullRuntime():
                    self.pulls.append((output, self.server.check()))
                case Join():
                    self.joins.append(output)
                case Leave():
                    self.is_in_room = False
                case EnsureConnected():
                    self.wants_socket = True

    def act(self, deed: str) -> None:
        """The server does something; those in the room are told."""
        self.server.act(deed)
        if self.is_in_room:
            self.pipe.extend(FrameArrived(frame) for frame in self.server.room)
        self.server.room.clear()

    def enter(self) -> None:
        """A join reaches the server, which puts its answer behind what it has said already."""
        if self.joins and self.state.is_connected:
            join = self.joins.pop(0)
            self.is_in_room = True
            snapshot = self.server.snapshot(join.after_version, join.stream_id, join.cursor)
            self.pipe.append(JoinAcked(join.generation, snapshot))

    def deliver(self, place: int = 0) -> None:
        """Something on its way arrives, not always in its order."""
        if self.pipe:
            self.give(self.pipe.pop(place % len(self.pipe)))

    def lose(self, place: int) -> None:
        if self.pipe:
            del self.pipe[place % len(self.pipe)]

    def double(self, place: int) -> None:
        if self.pipe:
            self.pipe.append(self.pipe[place % len(self.pipe)])

    def answer(self, *, is_fresh: bool) -> None:
        """A pull is answered, by what was true when it was asked or what is true now."""
        if self.pulls:
            pull, old = self.pulls.pop(0)
            self.give(CheckAnswered(pull.generation, self.server.check() if is_fresh else old))

    def fail(self) -> None:
        if self.pulls:
            self.give(CheckFailed(self.pulls.pop(0)[0].generation, "no route"))

    def refuse(self) -> None:
        if self.joins:
            self.give(JoinFailed(self.joins.pop(0).generation, "busy"))

    def connect(self) -> None:
        self._cut()
        self.wants_socket = False
        self.give(Connected())

    def disconnect(self) -> None:
        self._cut()
        self.give(Disconnected("cut"))

    def _cut(self) -> None:
        self.pipe.clear()
        self.joins.clear()
        self.is_in_room = False

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.give(TimerFired())

    def settle(self, rounds: int = 80) -> None:
        """From here on nothing is lost and all is answered, until nothing is left to do."""
        if not self.state.is_open:
            self.give(Opened())
        if self.state.is_stopping:  # a stop that is neither taken nor refused is not settled while text flows
            self.give(CancelFailed("lost"))
        self.give(CheckRequested(CheckReason.MANUAL_REFRESH))
        for _ in range(rounds):
            if self.wants_socket and not self.state.is_connected:
                self.connect()
            elif self.pulls:
                self.answer(is_fresh=True)
            elif self.joins:
                self.enter()
            elif self.pipe:
                self.deliver()
            elif self.state.deadline is not None:
                self.now = max(self.now, self.state.deadline)
                self.give(TimerFired())
            else:
                return
        raise AssertionError(f"not settled after {rounds} rounds: {self.state}")

    def story(self) -> str:
        """What happened, for a person."""
        return "\n".join(f"{at}: {given} -> {outputs}" for at, given, outputs in self.trail)
