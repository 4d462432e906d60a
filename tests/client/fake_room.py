"""One task of a fake server: a little truth that answers checks, joins and resumes, and tells what a test lets it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, TypeVar

from msgspec import structs

from interlock.lifecycle.turn import Basis
from interlock.lifecycle.turns import TurnRecord
from interlock.projections.badge import badge_of
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, StreamId, TurnId
from interlock.vocabulary.states import Attention, TaskStatus, TurnState
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import (
    ActiveStream,
    ApprovalClosed,
    ApprovalOpened,
    ChatChunk,
    ChatDone,
    ChatMessage,
    ChatStart,
    Message,
    MessageStatus,
    QueueChanged,
    QueueItem,
    QueueView,
    Role,
    RuntimeCheck,
    StreamPiece,
    TaskFrame,
    TaskSnapshot,
    TaskStatusChanged,
    TaskSummary,
)
from interlock.vocabulary.wire.requests import (
    Ack,
    BoardJoin,
    BoardJoined,
    BoardTask,
    ChatCancel,
    ChatSend,
    Problem,
    Refused,
    Request,
    TaskJoin,
    TaskJoined,
    TaskLeave,
    TaskResume,
)
from tests.client.fake_server import NO_ROUTE, Answering, FakeServer, FakeSocket, HttpAnswer, HttpCall

TASK: Final = SessionId("ses_1")
AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
FrameT = TypeVar("FrameT", bound=TaskFrame)


class FakeRoom:
    """`is_quiet`: what happens is not told. `snapshots` are all that joins were given."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.version = 1
        self.tick = 0
        self.board_tick = 0
        self.status: TaskStatus | None = None
        self.turn_id: TurnId | None = None
        self.messages: dict[int, Message] = {}
        self.limit = 200
        self.stream: StreamPiece | None = None
        self.queue = QueueView()
        self.approvals: tuple[Approval, ...] = ()
        self.records: dict[str, TurnRecord] = {}
        self.prompts: dict[PromptId, str] = {}
        self.members: list[FakeSocket] = []
        self.watchers: list[FakeSocket] = []
        self.snapshots: list[TaskSnapshot] = []
        self.is_quiet = False
        self.is_supervised = True
        self.is_gone = False
        server.on_http = self.on_http
        server.on_request = self.on_request

    # What happens

    def frame(self, kind: type[FrameT], **fields: object) -> FrameT:
        """The next frame of the room."""
        self.tick += 1
        head = {"task_id": TASK, "version": self.version, "tick": self.tick, "turn_id": self.turn_id}
        return kind(**{**head, **fields})  # type: ignore[arg-type]

    def tell(self, *frames: TaskFrame) -> None:
        if not self.is_quiet:
            for member in self.members:
                for frame in frames:
                    member.send(frame)

    def set_status(self, status: TaskStatus | None, turn_id: str | None = None) -> TaskStatusChanged:
        self.version += 1
        self.status, self.turn_id = status, None if turn_id is None else TurnId(turn_id)
        frame = self.frame(TaskStatusChanged, task_status=status, status_updated_at=AT)
        self.tell(frame)
        self.board_tick += 1
        for watcher in self.watchers:
            watcher.send(BoardTask(tick=self.board_tick, task=self.summary()))
        return frame

    def say(self, text: str, stream_id: str = "str_1") -> tuple[TaskFrame, ...]:
        frames: list[TaskFrame] = []
        if self.stream is None or self.stream.stream_id != stream_id:
            self.stream = StreamPiece(
                stream_id=StreamId(stream_id), turn_id=self.turn_id, started_at=AT, last_activity_at=AT
            )
            frames.append(self.frame(ChatStart, stream_id=stream_id, started_at=AT))
        before = self.stream.text
        self.stream = structs.replace(self.stream, text=before + text, cursor=len(before + text))
        frames.append(self.frame(ChatChunk, stream_id=stream_id, offset=len(before), text=text, at=AT))
        self.tell(*frames)
        return tuple(frames)

    def add_message(
        self,
        text: str,
        role: Role = Role.ANSWER,
        status: MessageStatus = MessageStatus.COMPLETED,
        **fields: object,
    ) -> ChatMessage:
        self.version += 1
        message = Message(
            message_id=self.version,
            version=self.version,
            role=role,
            status=status,
            text=text,
            at=AT,
            turn_id=self.turn_id,
            **fields,  # type: ignore[arg-type]
        )
        self.messages[message.message_id] = message
        frame = self.frame(ChatMessage, message=message)
        self.tell(frame)
        return frame

    def end_stream(self) -> None:
        """The stream becomes a message."""
        assert self.stream is not None
        stream, self.stream = self.stream, None
        message = self.add_message(stream.text, stream_id=stream.stream_id)
        self.tell(
            self.frame(
                ChatDone, stream_id=stream.stream_id, cursor=stream.cursor, message_id=message.message.message_id
            )
        )

    def hold(self, *prompts: tuple[str, str], is_open: bool = True, reason: str = "") -> None:
        self.version += 1
        waiting = tuple(QueueItem(prompt_id=PromptId(one), text=text) for one, text in prompts)
        self.queue = QueueView(waiting=waiting, is_open=is_open, gate_reason=reason)
        self.tell(self.frame(QueueChanged, queue=self.queue))

    def ask(self, approval_id: str, question: str = "May I?", *, is_answerable: bool = True) -> None:
        self.version += 1
        asked = Approval(
            approval_id=approval_id,
            session_id=TASK,
            turn_id=self.turn_id,
            state=ApprovalState.OPEN,
            attention=Attention.APPROVAL,
            question=question,
            asked_at=AT,
            is_answerable=is_answerable,
        )
        self.approvals += (asked,)
        self.tell(self.frame(ApprovalOpened, approval=asked))

    def close_questions(self) -> None:
        over, self.approvals = self.approvals, ()
        for one in over:
            self.tell(self.frame(ApprovalClosed, approval=structs.replace(one, state=ApprovalState.CLOSED)))

    def begin_turn(self, turn_id: str, prompt_id: str, text: str = "do it") -> None:
        """The prompt leaves the queue and a turn runs."""
        self.turn_id = TurnId(turn_id)
        self.record(turn_id, TurnState.RUNNING)
        self.add_message(text, Role.USER, prompt_id=PromptId(prompt_id))
        self.hold()
        self.set_status(TaskStatus.RUNNING, turn_id)

    def record(self, turn_id: str, state: TurnState) -> None:
        self.records[turn_id] = TurnRecord(
            session_id=TASK, turn_id=TurnId(turn_id), state=state, basis=Basis.RUN_EVENTS
        )

    def restart(self) -> None:
        """A new process over the same log: ticks begin again, live text is gone from it."""
        self.tick = self.board_tick = 0
        self.members.clear()
        self.watchers.clear()

    # What it answers

    def check(self) -> RuntimeCheck:
        live = self.stream
        return RuntimeCheck(
            task_id=TASK,
            task_status=self.status,
            version=self.version,
            turn_id=self.turn_id,
            status_updated_at=AT,
            active_stream=None
            if live is None
            else ActiveStream(stream_id=live.stream_id, cursor=live.cursor, last_activity_at=AT),
            tick=self.tick,
        )

    def summary(self) -> TaskSummary:
        summary = TaskSummary(
            task_id=TASK,
            version=self.version,
            task_status=self.status,
            turn_id=self.turn_id,
            is_supervised=self.is_supervised,
        )
        return structs.replace(summary, badge=badge_of(summary, AT))

    def snapshot(self, after: int | None = None, stream_id: str | None = None, cursor: int = 0) -> TaskSnapshot:
        found = [one for one in self.messages.values() if after is None or one.version > after]
        is_whole, before = after is None, None
        if len(found) > self.limit:
            found, is_whole, before = found[-self.limit :], True, found[-self.limit].message_id
        live = self.stream
        if live is not None and live.stream_id == stream_id and cursor <= live.cursor:
            live = structs.replace(live, offset=cursor, text=live.text[cursor:])
        return TaskSnapshot(
            task_id=TASK,
            task_status=self.status,
            version=self.version,
            tick=self.tick,
            turn_id=self.turn_id,
            status_updated_at=AT,
            is_whole=is_whole,
            messages=tuple(found),
            history_before=before,
            stream=live,
            approvals=self.approvals,
            queue=self.queue,
        )

    def on_request(self, socket: FakeSocket, request: Request) -> None:
        match request:
            case TaskJoin() | TaskResume():
                self._join(socket, request)
            case TaskLeave():
                self.members.remove(socket)
                socket.send(Ack(id=request.id))
            case BoardJoin():
                socket.send(BoardJoined(id=request.id, tick=self.board_tick, tasks=(self.summary(),)))
                self.watchers.append(socket)
            case ChatSend():
                socket.send(Ack(id=request.id, result=self._send(request.prompt_id, request.text)))
            case ChatCancel():
                socket.send(Ack(id=request.id, result={"delivered": True, "problem": ""}))
            case _:
                socket.send(Ack(id=request.id))

    def _join(self, socket: FakeSocket, request: TaskJoin | TaskResume) -> None:
        if self.is_gone:
            problem = Problem(title="There is no such task", status=404, code="unknown_task")
            socket.send(Refused(id=request.id, problem=problem))
            return
        if isinstance(request, TaskJoin):
            snapshot = self.snapshot(request.after_version)
        else:
            snapshot = self.snapshot(request.version, request.stream_id, request.cursor)
        self.snapshots.append(snapshot)
        if socket not in self.members:
            self.members.append(socket)
        socket.send(TaskJoined(id=request.id, snapshot=snapshot))

    def _send(self, prompt_id: PromptId | None, text: str) -> dict[str, Json]:
        assert prompt_id is not None
        if prompt_id not in self.prompts:
            self.prompts[prompt_id] = text
            self.set_status(TaskStatus.PENDING)
            self.hold((prompt_id, text))
        return {"prompt_id": prompt_id, "state": "queued", "stage": "queued"}

    def on_http(self, call: HttpCall) -> Answering:
        if self.is_gone:
            return HttpAnswer(404, {"title": "There is no such task", "status": 404, "code": "unknown_task"})
        match call.path.split("/")[3:]:
            case ["ses_1"]:
                body = {"summary": self.summary(), "turns": 1, "queue": self.queue, "approvals": self.approvals}
                return HttpAnswer(body=body)
            case ["ses_1", "runtime-check"]:
                return HttpAnswer(body=self.check())
            case ["ses_1", "queue"]:
                return HttpAnswer(body=self.queue)
            case ["ses_1", "messages"]:
                return self._page(call)
            case ["ses_1", "turns", turn_id]:
                return HttpAnswer(body=self.records[turn_id])
            case ["ses_1", "prompts"]:
                key = PromptId(call.headers["idempotency-key"])
                return HttpAnswer(202, self._send(key, str(call.json()["text"])))
            case ["ses_1", "cancel"]:
                return HttpAnswer(body={"delivered": False, "problem": "the agent is gone"})
            case _:
                return NO_ROUTE

    def _page(self, call: HttpCall) -> HttpAnswer:
        query = dict(one.split("=") for one in call.target.partition("?")[2].split("&") if one)
        known = [one for one in self.messages.values() if one.message_id < int(query.get("before", "1000000"))]
        shown = known[-self.limit :]
        following = str(shown[0].message_id) if len(known) > len(shown) else None
        return HttpAnswer(body={"items": shown, "next": following})
