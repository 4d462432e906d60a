"""One WebSocket: requests in, answers and frames out.

Laws:
1. The first frame is `hello`. Every request gets one answer: what it asked for, `ack`, or `refused` with a problem.
2. Commands on one task are done and answered in the order in which they came. Nothing else waits for them, and each has
   the server's deadline, which runs from its arrival.
3. What cannot be read is refused and changes nothing. Three such in a row, or more haste than the limits allow for
   long, end the connection; so does a ping without a pong for a heartbeat, and a client that does not read.
4. An observer looks: it joins, leaves and pings.
5. When the login of its browser is revoked, it ends at once, with 4001.
6. When it ends, no task of ours is left, and the client is in no room.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final, TypeAlias, cast

import msgspec
from litestar import WebSocket
from litestar.exceptions import WebSocketException
from msgspec import Struct

from interlock.server.browser.login_store import Login
from interlock.server.browser.pages import built_pages
from interlock.server.http.access import SUBPROTOCOL, Buckets, check_role
from interlock.server.http.problems import Deadline, ProblemKind, RequestRefusal, TooMany, problem_of
from interlock.server.live.outbox import LOGIN_OVER, TRY_AGAIN_LATER, Outbox
from interlock.server.live.socket_protocol import TOO_BIG, WIRE, BoundedSocket, SocketWire
from interlock.server.peer_process import connection_of
from interlock.server.settings import ServerSettings
from interlock.server.state import ServerState
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.encoding import encode
from interlock.vocabulary.wire.requests import (
    PROTOCOL,
    AccessRole,
    Ack,
    ApprovalDecide,
    BoardJoin,
    BoardLeave,
    ChatCancel,
    ChatSend,
    Hello,
    Ping,
    Problem,
    QueueEdit,
    QueueRemove,
    QueueSetGate,
    Refused,
    Request,
    TaskJoin,
    TaskLeave,
    TaskResume,
    TaskSeen,
)

BAD_PAYLOAD: Final = 1007
POLICY: Final = 1008
MAX_MALFORMED: Final = 3
MAX_COMMANDS: Final = 64
CLOSING_HEARTBEATS: Final = 2
_logger: Final = logging.getLogger("interlock.server")
_MAX_ID: Final = 64
_SERVER: Final = f"interlock/{version('interlock')}"

_Command: TypeAlias = ChatSend | ChatCancel | QueueEdit | QueueRemove | QueueSetGate | ApprovalDecide | TaskSeen
_Socket: TypeAlias = WebSocket[Any, Any, Any]

_decoder: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)


class _Named(Struct):
    """As much of a request as is needed to answer it."""

    id: str = ""


_name_decoder: Final = msgspec.json.Decoder(_Named)


class MalformedRequest(RequestRefusal):
    """A message that is no request."""

    kind = ProblemKind("bad_request", 400, "The request cannot be read")


def socket_options(settings: ServerSettings) -> dict[str, Any]:
    """How uvicorn is to run these sockets: it pings, and bounds what is read, before anything comes here."""
    return {
        "ws": BoundedSocket,
        "ws_max_size": settings.max_request_bytes,
        "ws_ping_interval": settings.heartbeat_seconds,
        "ws_ping_timeout": settings.heartbeat_seconds,
        # One frame is the same bytes for everybody; to deflate it for each client would cost far more than it saves.
        "ws_per_message_deflate": False,
    }


async def serve_socket(
    socket: _Socket, state: ServerState, role: AccessRole, who: str, login: Login | None = None
) -> None:
    """Serve one client until it, its login or the server goes away. Who it is, and from where, has been checked."""
    is_full = state.hub.connections >= state.settings.max_connections
    with state.hub.connection(state.settings) as outbox:
        if is_full:
            outbox.close(TRY_AGAIN_LATER, "too many connections")
        connection = SocketConnection(socket, state, role, who, outbox)
        with state.logins.watching(login, connection.log_out):
            await connection.serve()


class SocketConnection:
    """One client: a reader, a writer, and a lane of commands for each task that it commands."""

    def __init__(self, socket: _Socket, state: ServerState, role: AccessRole, who: str, outbox: Outbox) -> None:
        loop = asyncio.get_running_loop()
        self._socket = socket
        self._wire = cast("SocketWire", cast("dict[str, object]", socket.scope["extensions"])[WIRE])
        self._state = state
        self._settings = state.settings
        self._role = role
        self._who = who
        self._outbox = outbox
        self._connection = connection_of(socket.scope)
        self._now = loop.time
        self._bucket = Buckets(self._settings.requests_per_second, self._settings.request_burst, loop.time)
        self._hasty = 0
        self._malformed = 0
        self._lanes: dict[SessionId, deque[tuple[_Command, float]]] = {}
        self._lane_tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """From the handshake to the end."""
        if not await self._greet():
            return
        reader, writer = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        try:
            await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            if self._outbox.closing is not None and not writer.done():  # what waits is sent before the end
                await asyncio.wait((writer,), timeout=CLOSING_HEARTBEATS * self._settings.heartbeat_seconds)
        finally:
            tasks = (reader, writer, *self._lane_tasks)
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):  # the client sees only that its connection ends
                    _logger.error("a connection failed: %s", type(ended).__name__, exc_info=ended)

    def log_out(self) -> None:
        """End it: what it asked for and was not begun is not done."""
        for lane in self._lanes.values():
            lane.clear()
        self._outbox.close(LOGIN_OVER, "the login is over")

    async def _greet(self) -> bool:
        offered = self._socket.scope.get("subprotocols") or []
        try:
            async with asyncio.timeout(self._settings.hello_seconds):
                await self._socket.accept(subprotocols=SUBPROTOCOL if SUBPROTOCOL in offered else None)
        except (OSError, WebSocketException, RuntimeError):  # it went away meanwhile; a timeout is an OSError
            return False
        self._outbox.attach(self._wire)
        self._answer(
            Hello(
                protocol=PROTOCOL,
                server=_SERVER,
                role=self._role,
                heartbeat_seconds=self._settings.heartbeat_seconds,
                max_frame_bytes=self._settings.max_request_bytes,
                build=built_pages().build,
                at=datetime.now(UTC),
            )
        )
        return True

    # Out

    async def _write(self) -> None:
        """Send what waits, until there is no more."""
        try:
            while batch := await self._outbox.take_batch():
                await self._wire.send_texts(batch)
                if len(self._outbox):  # a long burst lets others run now and then
                    await asyncio.sleep(0)
            closing = self._outbox.closing
            assert closing is not None, "an outbox ends only when it was closed"
            await self._socket.close(closing.code, closing.reason)
        except (OSError, WebSocketException, RuntimeError):
            pass  # the client is gone: the reader hears of it too

    def _answer(self, frame: Struct) -> None:
        self._outbox.answer(encode(frame))

    def _refuse(self, request_id: str, error: BaseException) -> None:
        hide = self._state.runtime.redactor.diagnostic
        problem: Problem = problem_of(error, instance="/api/socket", hide=hide)
        self._answer(Refused(id=request_id, problem=problem))

    # In

    async def _read(self) -> None:
        while self._outbox.closing is None:
            try:
                message = await self._socket.receive()
            except (OSError, WebSocketException, RuntimeError):
                return
            if message["type"] != "websocket.receive" or self._outbox.closing is not None:
                return
            given = message.get("text")
            await self._hear(None if given is None else given.encode("utf-8", "surrogatepass"))
            # Many requests may have come at once: the writer sends the answer to one before the next is read.
            await asyncio.sleep(0)

    async def _hear(self, given: bytes | None) -> None:
        """Take one message. Whatever is wrong with it is told to the client, and nobody else notices."""
        if given is not None and len(given) > self._settings.max_request_bytes:
            self._outbox.close(TOO_BIG, "a request is too large")
            return
        request: Request | None = None
        try:
            self._check_haste()
            request = self._decoded(given)
            if isinstance(request, TaskJoin | TaskResume):
                await self._state.hub.open(request.task_id)
            self._handle(request)
        except Exception as error:
            self._refuse(_name_of(given) if request is None else request.id, error)
        if self._malformed >= MAX_MALFORMED:
            self._outbox.close(BAD_PAYLOAD, f"{MAX_MALFORMED} messages in a row were no requests")
        elif self._hasty > self._settings.request_burst:
            self._outbox.close(POLICY, "too many requests, for too long")

    def _check_haste(self) -> None:
        wait_seconds = self._bucket.take(None)
        if wait_seconds > 0:
            self._hasty += 1
            raise TooMany("you ask too fast", retry_after_seconds=wait_seconds)
        self._hasty = max(0, self._hasty - 1)

    def _decoded(self, given: bytes | None) -> Request:
        self._malformed += 1
        if given is None:
            raise MalformedRequest("a request is text, not binary", remedy="send it as a text message")
        try:
            request = _decoder.decode(given)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise MalformedRequest(f"not a request: {error}", remedy="see the schema of requests") from error
        self._malformed = 0
        return request

    def _handle(self, request: Request) -> None:
        hub = self._state.hub
        match request:
            case Ping():
                self._answer(Ack(id=request.id))
            case TaskJoin(task_id=task_id) | TaskResume(task_id=task_id):
                self._check_rooms(task_id)
                hub.join(self._outbox, request)
            case TaskLeave(task_id=task_id):
                hub.rooms.leave(self._outbox, task_id)
                self._answer(Ack(id=request.id))
            case BoardJoin():
                self._check_rooms(None)
                hub.join_board(self._outbox, request)
            case BoardLeave():
                hub.rooms.leave_board(self._outbox)
                self._answer(Ack(id=request.id))
            case _:
                self._line_up(request)

    def _check_rooms(self, room: SessionId | None) -> None:
        rooms = self._state.hub.rooms
        if rooms.rooms_of(self._outbox) >= self._settings.max_rooms and not rooms.is_in(self._outbox, room):
            raise TooMany(f"you are in {self._settings.max_rooms} rooms already", retry_after_seconds=1.0)

    # Commands

    def _line_up(self, command: _Command) -> None:
        """Do a command after those on the same task that came before it."""
        check_role(AccessRole.OPERATOR, self._role, has_token=True)
        if sum(map(len, self._lanes.values())) + len(self._lanes) >= MAX_COMMANDS:
            raise TooMany(f"{MAX_COMMANDS} of your commands are not done yet", retry_after_seconds=1.0)
        item = (command, self._now() + self._settings.command_seconds)
        lane = self._lanes.get(command.task_id)
        if lane is not None:
            lane.append(item)
            return
        self._lanes[command.task_id] = deque([item])
        task = asyncio.create_task(self._run_lane(command.task_id))
        self._lane_tasks.add(task)
        task.add_done_callback(self._lane_tasks.discard)

    async def _run_lane(self, task_id: SessionId) -> None:
        lane = self._lanes[task_id]
        try:
            while lane:
                await self._perform(*lane.popleft())
        finally:
            del self._lanes[task_id]

    async def _perform(self, command: _Command, deadline_at: float) -> None:
        try:
            self._answer(Ack(id=command.id, result=await self._result(command, deadline_at)))
        except Exception as error:
            self._refuse(command.id, error)

    async def _result(self, command: _Command, deadline_at: float) -> Json:
        if self._now() >= deadline_at:
            raise Deadline("it was not begun: what you asked for before took too long")
        try:
            async with asyncio.timeout_at(deadline_at):
                return await self._state.commands.perform(command, decided_by=self._who, connection=self._connection)
        except TimeoutError:
            raise Deadline("it was begun, and is not done yet") from None


def _name_of(given: bytes | None) -> str:
    """The id of a message that may be no request; blank where it has none."""
    try:
        name = "" if given is None else _name_decoder.decode(given).id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    return name if len(name) <= _MAX_ID else ""
