"""What the tests of rooms and sockets share: an author of sessions, a client that keeps the rules, a real server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import uvicorn
from litestar import Litestar, Request, WebSocket, get, websocket
from litestar.response import Stream
from msgspec import structs
from websockets.asyncio.client import ClientConnection, connect

from interlock.agents.port import AgentSpec
from interlock.log.memory import MemoryLog
from interlock.log.port import Log
from interlock.projections.task.view import TaskView
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.runtime import Runtime
from interlock.server.commands.children import ChildCommands
from interlock.server.commands.commands import Commands
from interlock.server.commands.workflows import WorkflowCommands
from interlock.server.http.access import Tokens
from interlock.server.live.hub import Hub
from interlock.server.live.rooms import RoomName, Rooms
from interlock.server.live.searching import TranscriptSearch
from interlock.server.live.socket import serve_socket, socket_options
from interlock.server.live.sse import task_events
from interlock.server.settings import ServerSettings
from interlock.server.state import ServerState
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.events.audit import (
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    QueueEvent,
    QueueEventKind,
    RunState,
    SessionOpened,
    StreamCheckpoint,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import ReasoningDelta, Status, TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, EventId, PromptId, RunId, SessionId, StreamId, TurnId
from interlock.vocabulary.run import NATURAL_END, RunStatus, TerminationReason
from interlock.vocabulary.states import Activity, Attention, DriverKind
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatMessage,
    ChatStart,
    Push,
    QueueChanged,
    StreamPiece,
    TaskSnapshot,
    TaskStatusChanged,
    TaskSummary,
)
from interlock.vocabulary.wire.requests import (
    AccessRole,
    BoardBehind,
    BoardJoin,
    BoardJoined,
    BoardTask,
    ServerFrame,
    TaskBehind,
    TaskJoin,
    TaskJoined,
    TaskResume,
)

FoundT = TypeVar("FoundT")
SPEC: Final = AgentSpec(agent="puppet", driver="puppet")
FRAMES: Final[msgspec.json.Decoder[ServerFrame]] = msgspec.json.Decoder(ServerFrame)
PATIENCE_SECONDS: Final = 100.0


async def soon(look: Callable[[], FoundT | None]) -> FoundT:
    """Wait for something that is about to be so, but not for ever."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := look()):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        return found


class Author:
    """Writes a session as a runtime would publish it: events with numbers, and live ones without."""

    def __init__(self, session: str = "ses_one") -> None:
        self.session = SessionId(session)
        self._scribe = Scribe(session)
        self._live = 0
        self.turn = 0
        self.streams = 0
        self.prompts = 0
        self.calls = 0
        self.text = ""

    @property
    def turn_id(self) -> str:
        return f"trn_{self.turn}"

    @property
    def stream_id(self) -> StreamId:
        return StreamId(f"str_{self.streams}")

    @property
    def events(self) -> list[Event]:
        return self._scribe.events

    def log(self, *payloads: Payload, of_turn: bool = True) -> list[Event]:
        return self._scribe.write(*payloads, turn=self.turn_id if of_turn and self.turn else None)

    def live(self, data: Payload) -> Event:
        self._live += 1
        return new_event(
            data,
            id=EventId(f"live.{self._live}"),
            session_id=self.session,
            ts=EPOCH,
            turn_id=TurnId(self.turn_id) if self.turn else None,
        )

    def opened(self, title: str = "") -> list[Event]:
        return self.log(
            SessionOpened(agent="puppet", driver="puppet", kind=DriverKind.STREAM, title=title), of_turn=False
        )

    def queued(self) -> list[Event]:
        self.prompts += 1
        prompt_id = PromptId(f"prm_{self.prompts}")
        return self.log(QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=prompt_id, text="do it"), of_turn=False)

    def began(self) -> list[Event]:
        self.turn += 1
        self.streams += 1
        self.text = ""
        prompt_id = PromptId(f"prm_{self.turn}")
        gone = self.log(QueueEvent(kind=QueueEventKind.DISPATCHED, prompt_id=prompt_id), of_turn=False)
        run_id = RunId(f"run_{self.turn}")
        return gone + self.log(
            UserMessage(text=f"prompt {self.turn}"),
            TurnStarted(driver=DriverKind.STREAM),
            RunState(run_id=run_id, status=RunStatus.RUNNING),
        )

    def said(self, text: str) -> list[Event]:
        offset, self.text = len(self.text), self.text + text
        return [self.live(TextDelta(stream_id=self.stream_id, offset=offset, text=text))]

    def thought(self) -> list[Event]:
        return [self.live(ReasoningDelta(stream_id=self.stream_id, offset=0, text="hm"))]

    def checkpoint(self) -> list[Event]:
        return self.log(StreamCheckpoint(stream_id=self.stream_id, offset=len(self.text), text=self.text))

    def commented(self) -> list[Event]:
        metadata = MessageMetadata(intermediate=True, stream_id=self.stream_id)
        events = self.log(AssistantMessage(text=self.text or "well", metadata=metadata))
        self.streams += 1
        self.text = ""
        return events

    def called(self) -> list[Event]:
        self.calls += 1
        return self.log(ToolCall(call_id=CallId(f"call_{self.calls}"), name="read", args={"path": "a"}))

    def returned(self) -> list[Event]:
        return self.log(ToolResult(call_id=CallId(f"call_{self.calls}"), ok=True, output="x")) if self.calls else []

    def asked(self) -> list[Event]:
        return self.log(
            DialogOpened(dialog_id=f"dlg_{len(self.events)}", attention=Attention.APPROVAL, question="may I?")
        )

    def closed(self) -> list[Event]:
        open_ones = [one.data.dialog_id for one in self.events if isinstance(one.data, DialogOpened)]
        return self.log(DialogClosed(dialog_id=open_ones[-1], outcome=DialogOutcome.WITHDRAWN)) if open_ones else []

    def shown(self, activity: Activity) -> list[Event]:
        return [self.live(Status(activity=activity))]

    def answered(self) -> list[Event]:
        message = AssistantMessage(text=self.text or "done", metadata=MessageMetadata(stream_id=self.stream_id))
        done = RunState(run_id=RunId(f"run_{self.turn}"), status=RunStatus.DONE, reason=NATURAL_END)
        return self.log(message, done)

    def failed(self) -> list[Event]:
        reason = TerminationReason.error("it broke")
        return self.log(RunState(run_id=RunId(f"run_{self.turn}"), status=RunStatus.DONE, reason=reason))

    def act(self, number: int) -> list[Event]:
        """One of many things, by number. Some make no sense where they stand: a fold must bear that."""
        acts: tuple[Callable[[], list[Event]], ...] = (
            self.queued,
            self.began,
            lambda: self.said(f"piece {number} \u00e9\U0001f600"),
            lambda: self.said("more"),
            self.thought,
            self.checkpoint,
            self.commented,
            self.called,
            self.returned,
            self.asked,
            self.closed,
            lambda: self.shown(Activity.WORKING),
            lambda: self.shown(Activity.QUIET),
            self.answered,
            self.failed,
            lambda: [self.live(TextDelta(stream_id=self.stream_id, offset=len(self.text) + 3, text="lost"))],
        )
        return acts[number % len(acts)]()


@dataclass(slots=True)
class Known:
    """What a client knows of one task, and the version up to which it is sure to have every message."""

    snapshot: TaskSnapshot
    synced: int
    tick: int
    is_behind: bool = False


def digest(snapshot: TaskSnapshot) -> object:
    """What must be the same at both ends. An event without a frame moves the version, which a client hears later."""
    stream = snapshot.stream
    return (
        snapshot.task_status,
        snapshot.turn_id,
        snapshot.messages,
        None if stream is None else (stream.stream_id, stream.text, stream.cursor),
        snapshot.approvals,
        snapshot.queue,
        snapshot.agent if snapshot.agent is not None else Status(activity=Activity.UNKNOWN),
    )


class Reader:
    """A member of rooms with a small inbox, which keeps the rules of the protocol, and asserts those of the server."""

    def __init__(self, rooms: Rooms, capacity: int = 10**9) -> None:
        self._rooms = rooms
        self.capacity = capacity
        self.inbox: deque[bytes] = deque()
        self.raw: list[bytes] = []
        self.tasks: dict[SessionId, Known] = {}
        self.board: dict[SessionId, TaskSummary] | None = None
        self.board_tick = 0
        self.is_board_behind = False
        self.lines = 0
        self.times_behind = 0
        self.has_refused = False

    def offer(self, frame: bytes, room: RoomName) -> bool:
        if len(self.inbox) >= self.capacity:
            self.has_refused = True
            return False
        self.inbox.append(frame)
        return True

    def answer(self, frame: bytes) -> None:
        self.inbox.append(frame)

    def join(self, task_id: SessionId) -> None:
        self._rooms.join(self, TaskJoin(id="j", task_id=task_id))

    def resume(self, task_id: SessionId) -> None:
        known = self.tasks[task_id]
        stream = known.snapshot.stream
        self._rooms.join(
            self,
            TaskResume(
                id="r",
                task_id=task_id,
                version=known.synced,
                stream_id=None if stream is None else stream.stream_id,
                cursor=0 if stream is None else stream.cursor,
            ),
        )

    def leave(self, task_id: SessionId) -> None:
        self._rooms.leave(self, task_id)
        self.read()
        self.tasks.pop(task_id, None)

    def read(self, count: int = 10**9) -> None:
        """Take frames from the inbox. With place again, it is told where it fell behind."""
        while self.inbox and count:
            count -= 1
            self._take(self.inbox.popleft())
            if self.has_refused and 2 * len(self.inbox) <= self.capacity:
                self.has_refused = False
                self._rooms.catch_up(self)

    def _take(self, raw: bytes) -> None:
        self.raw.append(raw)
        match FRAMES.decode(raw):
            case TaskJoined(snapshot=snapshot):
                self._stand(snapshot)
            case TaskBehind(task_id=task_id):
                self.times_behind += 1
                if task_id in self.tasks:
                    self.resume(task_id)
                    self.tasks[task_id].is_behind = True
            case BoardJoined(tick=tick, tasks=tasks):
                self.board_tick, self.board = tick, {one.task_id: one for one in tasks}
                self.is_board_behind = False
            case BoardTask() if self.is_board_behind:
                pass  # the answer to come holds it
            case BoardTask(tick=tick, task=task):
                assert self.board is not None
                assert tick == self.board_tick + 1, "a line of the board was lost"
                self.board_tick = tick
                self.board[task.task_id] = task
                self.lines += 1
            case BoardBehind():
                self.times_behind += 1
                self.is_board_behind = True
                self._rooms.join_board(self, BoardJoin(id="b"))
            case Push() as frame:
                known = self.tasks.get(frame.task_id)
                if known is not None and not (known.is_behind or frame.tick <= known.tick):
                    assert frame.tick == known.tick + 1, "a frame was lost, and nobody was told"
                    apply(known, frame)
            case other:
                raise AssertionError(f"rooms do not say {other}")

    def _stand(self, given: TaskSnapshot) -> None:
        known = self.tasks.get(given.task_id)
        messages = {} if given.is_whole or known is None else {one.message_id: one for one in known.snapshot.messages}
        messages |= {one.message_id: one for one in given.messages}
        stream = given.stream
        if stream is not None and stream.offset and known is not None and known.snapshot.stream is not None:
            had = known.snapshot.stream
            assert had.stream_id == stream.stream_id, "a piece of a stream that we did not have"
            stream = structs.replace(stream, offset=0, text=had.text[: stream.offset] + stream.text)
        kept = structs.replace(given, messages=tuple(messages[key] for key in sorted(messages)), stream=stream)
        self.tasks[given.task_id] = Known(kept, given.version, given.tick)


def apply(known: Known, frame: Push) -> None:
    """Apply one frame to what a client knows, by the rules of `frames.py`."""
    now = known.snapshot
    known.tick = frame.tick
    # Another frame of the same event may follow: only what is older than it is known to be complete.
    known.synced = max(known.synced, frame.version - 1)
    changes: dict[str, Any] = {"version": frame.version}
    match frame:
        case ChatStart() | ChatChunk():
            changes["stream"] = _streamed(now, frame)
        case ChatDone() | ChatError() | ChatCancelled():
            changes["stream"] = None
        case ChatMessage(message=message):
            by_id = {one.message_id: one for one in now.messages} | {message.message_id: message}
            changes["messages"] = tuple(by_id[key] for key in sorted(by_id))
        case QueueChanged(queue=queue):
            changes["queue"] = queue
        case TaskStatusChanged(task_status=status, turn_id=turn_id):
            changes |= {"task_status": status, "turn_id": turn_id}
        case AgentStatusChanged(status=status_shown):
            changes["agent"] = status_shown
        case ApprovalOpened(approval=approval):
            changes["approvals"] = (*_without(now, approval), approval)
        case ApprovalDecided(approval=approval) | ApprovalClosed(approval=approval):
            changes["approvals"] = _without(now, approval)
        case _:
            pass
    known.snapshot = structs.replace(now, **changes)


def _without(now: TaskSnapshot, approval: Approval) -> tuple[Approval, ...]:
    return tuple(one for one in now.approvals if one.approval_id != approval.approval_id)


def _streamed(now: TaskSnapshot, frame: ChatStart | ChatChunk) -> StreamPiece:
    if isinstance(frame, ChatStart):
        return StreamPiece(
            stream_id=frame.stream_id,
            turn_id=frame.turn_id,
            started_at=frame.started_at,
            last_activity_at=frame.started_at,
        )
    stream = now.stream
    assert stream is not None
    assert stream.stream_id == frame.stream_id
    assert frame.offset <= len(stream.text), "a hole in the text"
    text = stream.text[: frame.offset] + frame.text
    return structs.replace(stream, text=text, cursor=len(text), last_activity_at=frame.at)


def whole(view: TaskView) -> TaskSnapshot:
    return view.snapshot(limit=10**6)


# A real server


TOKENS: Final = Tokens("operator-token", "observer-token")
QUICK: Final = ServerSettings(heartbeat_seconds=60.0, command_seconds=60.0)
BEAT_SECONDS: Final = 16.0  # the clock is moved by quarters of it: no lateness of a busy machine comes near


@dataclass(slots=True)
class Bench:
    """A running server, its runtime, its puppets, and the connections that it has not let go."""

    state: ServerState
    driver: PuppetDriver
    port: int
    protocols: set[Any]

    @property
    def hub(self) -> Hub:
        return self.state.hub

    @property
    def runtime(self) -> Runtime:
        return self.state.runtime

    async def open_task(self) -> SessionId:
        """A session that the hub knows."""
        task_id = await self.runtime.open_session(SPEC)
        await soon(lambda: self.hub.view(task_id))
        return task_id

    async def at_work(self, task_id: SessionId, text: str = "hello") -> Puppet:
        """Its agent, with a prompt."""
        known = len(self.driver.puppets)
        await self.runtime.send(task_id, text)
        await soon(lambda: len(self.driver.puppets) > known)
        puppet = self.driver.latest
        await soon(lambda: puppet.prompts)
        return puppet

    @asynccontextmanager
    async def client(self, role: AccessRole = AccessRole.OPERATOR, **options: Any) -> AsyncIterator[Client]:  # noqa: ANN401
        async with connect(
            f"ws://127.0.0.1:{self.port}/api/socket/{role.value}",
            compression=None,
            proxy=None,
            ping_interval=None,
            close_timeout=2,
            max_size=None,
            **options,
        ) as raw:
            yield Client(raw)


class Client:
    """A socket that asks and reads. `frames` are those that were no answer to what was asked."""

    def __init__(self, raw: ClientConnection) -> None:
        self.raw = raw
        self.seen: list[ServerFrame] = []
        self.texts: list[str] = []
        self._numbers = 0

    async def send(self, kind: str, **fields: object) -> str:
        self._numbers += 1
        request_id = fields.pop("id", f"q{self._numbers}")
        await self.raw.send(msgspec.json.encode({"type": kind, "id": request_id, **fields}).decode())
        return str(request_id)

    async def read(self) -> Any:  # noqa: ANN401 (a test knows what it waits for)
        async with asyncio.timeout(PATIENCE_SECONDS):
            text = await self.raw.recv()
        assert isinstance(text, str), "every frame is text"
        self.texts.append(text)
        frame = FRAMES.decode(text)
        self.seen.append(frame)
        return frame

    async def until(self, look: Callable[[Any], bool]) -> Any:  # noqa: ANN401
        """Read until a frame is as wanted."""
        while not look(frame := await self.read()):
            pass
        return frame

    async def ask(self, kind: str, **fields: object) -> Any:  # noqa: ANN401
        """Send a request and give its answer. What comes in between is in `seen`."""
        request_id = await self.send(kind, **fields)
        return await self.until(lambda frame: getattr(frame, "id", None) == request_id)

    async def closed(self) -> tuple[int, str]:
        """How the connection ended; what came before is in `seen`."""
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                await self.read()
        except ConnectionClosed:
            return self.raw.close_code or 0, self.raw.close_reason or ""


def application(state: ServerState) -> Litestar:
    """The two ways in, without the door: who asks is in the path."""

    @websocket("/api/socket/{role:str}")
    async def by_socket(socket: WebSocket[Any, Any, Any]) -> None:
        role = AccessRole(socket.path_params["role"])
        await serve_socket(socket, state, role, f"{role.value}@test")

    @get("/api/tasks/{task_id:str}/events")
    async def by_events(request: Request[Any, Any, Any]) -> Stream:
        after = request.query_params.get("after")
        return task_events(
            state,
            SessionId(request.path_params["task_id"]),
            last_event_id=request.headers.get("last-event-id", ""),
            after=None if after is None else int(after),
        )

    return Litestar([by_socket, by_events], openapi_config=None, logging_config=None)


@asynccontextmanager
async def serving(
    settings: ServerSettings = QUICK,
    *,
    log: Log | None = None,
    commands: Callable[[Runtime, Hub], Any] | None = None,
    uvicorn_options: dict[str, Any] | None = None,
) -> AsyncIterator[Bench]:
    """A server on loopback, in this loop, over puppets."""
    log, driver = log or MemoryLog(), PuppetDriver()
    async with Runtime(log, [driver]) as runtime:
        hub = Hub(runtime, log, look_seconds=0.02)
        await hub.start()
        made = Commands(runtime, hub, settings) if commands is None else commands(runtime, hub)
        owner = ChildOwner(runtime, log)
        state = ServerState(
            runtime=runtime,
            log=log,
            hub=hub,
            commands=made,
            children=ChildCommands(runtime, hub, settings, owner),
            workflows=WorkflowCommands(runtime, hub, settings, owner, log),
            search=TranscriptSearch(log, lambda: True),
            tokens=TOKENS,
            settings=settings,
        )
        config = uvicorn.Config(
            application(state),
            host="127.0.0.1",
            port=0,
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=2,
            **(socket_options(settings) | (uvicorn_options or {})),
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup()  # without its loop, which looks for signals ten times a second
        try:
            port = server.servers[0].sockets[0].getsockname()[1]
            yield Bench(state, driver, port, server.server_state.connections)
        finally:
            await hub.close("the test is over", patience_seconds=2.0)
            await server.shutdown()
            if isinstance(made, Commands):
                await made.close()


def frames_of(raw: list[bytes]) -> Iterator[ServerFrame]:
    return (FRAMES.decode(one) for one in raw)
