"""The room of a task as server-sent events, for curl and scripts: `id:`, `event:` the frame's type, `data:` the frame.

Laws:
1. The first event is `task:joined`, then every frame, in order. It is the same stream that a socket gets.
2. An id is where its event leads: `<version>`, or `<version>:<stream_id>:<cursor>` after a piece of a stream. One event
   of the log may make several frames, and whoever comes back may have had only the first: `Last-Event-ID` therefore
   brings again what bears that version. `after` brings what is later, and no more.
3. A reader that is too slow gets `task:behind`, then what it lacks as another `task:joined`, and nothing in between: an
   id of there would claim what it has not got.
4. Something is sent each heartbeat. A reader that has not taken it two heartbeats later holds nothing here any more; it
   comes back with the id that it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self, TypeAlias

import msgspec
from litestar.background_tasks import BackgroundTask
from litestar.response import Stream
from msgspec import Struct

from interlock.server.browser.login_store import Login
from interlock.server.http.problems import NotReady, TooMany, Unfit
from interlock.server.live.hub import Hub
from interlock.server.live.outbox import LOGIN_OVER, Outbox
from interlock.server.settings import ServerSettings
from interlock.server.state import ServerState
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.wire.requests import TaskJoin, TaskResume

EVENT_STREAM: Final = "text/event-stream"
LoginWatch: TypeAlias = "Callable[[Callable[[], None]], AbstractContextManager[None]]"
_REQUEST_ID: Final = "events"
_MAX_DIGITS: Final = 15
_RETRY_MS: Final = 1_000
_TAKING_HEARTBEATS: Final = 2


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a reader stands: a version, and how much it has of the stream that is open."""

    version: int
    stream_id: StreamId | None = None
    cursor: int = 0

    def spelled(self) -> str:
        is_fit = self.stream_id is not None and not any(sign in self.stream_id for sign in "\r\n\x00")
        return f"{self.version}:{self.stream_id}:{self.cursor}" if is_fit else str(self.version)


class _Piece(Struct):
    stream_id: StreamId
    cursor: int


class _SnapshotHead(Struct):
    version: int
    stream: _Piece | None = None


class _Head(Struct):
    """As much of a frame as its id needs."""

    type: str
    version: int = 0
    stream_id: StreamId | None = None
    offset: int = 0
    text: str = ""
    snapshot: _SnapshotHead | None = None


_head_decoder: Final = msgspec.json.Decoder(_Head)


def parse_cursor(spelled: str) -> Cursor:
    """Read an id that was sent before. The name of a stream may hold anything but a line's end."""
    version, is_more, rest = spelled.strip().partition(":")
    stream_id, is_whole, cursor = rest.rpartition(":")
    numbers = (version, cursor) if is_more else (version,)
    is_readable = all(number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS for number in numbers)
    if not is_readable or (is_more and not (is_whole and stream_id)):
        raise Unfit("that is no id of an event", remedy="send back an id as it came, or none")
    return Cursor(int(version), StreamId(stream_id), int(cursor)) if is_more else Cursor(int(version))


def task_events(
    state: ServerState,
    task_id: SessionId,
    *,
    last_event_id: str = "",
    after: int | None = None,
    login: Login | None = None,
) -> Stream:
    """The answer to `GET /api/tasks/{id}/events`. `last_event_id` is the header, and comes before `after`. It ends with
    the `login` of a browser that asks."""
    hub = state.hub
    hub.check_known(task_id)
    if hub.is_closing:
        raise NotReady("the server is closing")
    if hub.connections >= state.settings.max_connections:
        raise TooMany("too many connections", retry_after_seconds=1.0)
    events = EventStream(
        hub, state.settings, _request(task_id, last_event_id, after), partial(state.logins.watching, login)
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(events, media_type=EVENT_STREAM, headers=headers, background=BackgroundTask(events.aclose))


def _request(task_id: SessionId, last_event_id: str, after: int | None) -> TaskJoin | TaskResume:
    if not last_event_id:
        return TaskJoin(id=_REQUEST_ID, task_id=task_id, after_version=after)
    return _resume(task_id, parse_cursor(last_event_id))


def _resume(task_id: SessionId, cursor: Cursor) -> TaskResume:
    return TaskResume(
        id=_REQUEST_ID,
        task_id=task_id,
        version=cursor.version,
        stream_id=cursor.stream_id,
        cursor=cursor.cursor,
    )


class EventStream:
    """The events of one reader. It is in the room from its first event until it is closed."""

    def __init__(
        self, hub: Hub, settings: ServerSettings, request: TaskJoin | TaskResume, watching: LoginWatch | None = None
    ) -> None:
        self._hub = hub
        self._watching = watching
        self._settings = settings
        self._request: TaskJoin | TaskResume = request
        self._held = ExitStack()
        self._outbox: Outbox | None = None
        self._cursor = Cursor(0)
        self._has_to_join = True
        self._is_joining = False
        self._is_over = False
        self._patience: asyncio.TimerHandle | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._rest()
        try:
            async with asyncio.timeout(self._settings.heartbeat_seconds):
                event = await self._next_event()
        except TimeoutError:
            event = b": still here\n\n"
        except NotReady:  # it comes back, and is told more then
            event = None
        except BaseException:
            self._end()
            raise
        if event is None:
            self._end()
            raise StopAsyncIteration
        patience_seconds = _TAKING_HEARTBEATS * self._settings.heartbeat_seconds
        self._patience = asyncio.get_running_loop().call_later(patience_seconds, self._end)
        return event

    async def aclose(self) -> None:
        """Leave the room. Safe to call twice."""
        self._end()

    def _end(self) -> None:
        self._rest()
        self._is_over = True
        self._held.close()

    def _rest(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    async def _next_event(self) -> bytes | None:
        if self._has_to_join:
            await self._hub.open(self._request.task_id)
        while not self._is_over and (frame := await self._joined().take()) is not None:
            head = _head_decoder.decode(frame)
            self._is_joining &= head.type != "task:joined"
            if not self._is_joining or head.type == "server:closing":
                return self._rendered(head, frame)
        return None

    def _joined(self) -> Outbox:
        """In the room, and told what this reader lacks."""
        if self._outbox is None:
            self._outbox = outbox = self._held.enter_context(self._hub.connection(self._settings))
            if self._watching is not None:
                self._held.enter_context(self._watching(lambda: outbox.close(LOGIN_OVER, "the login is over")))
        if self._has_to_join:
            self._hub.join(self._outbox, self._request)
            self._has_to_join, self._is_joining = False, True
        return self._outbox

    def _rendered(self, head: _Head, frame: bytes) -> bytes:
        lines = [f"event: {head.type}".encode(), b"data: " + frame, b"\n"]
        if head.type == "server:closing":
            lines.insert(0, f"retry: {_RETRY_MS}".encode())
        elif head.type == "task:behind":
            self._has_to_join, self._request = True, _resume(self._request.task_id, self._cursor)
        else:
            after = _cursor_after(head)
            lines.insert(0, f"id: {after.spelled()}".encode())
            # An id names a stream only with its text; we remember it longer. One that is over is no hindrance.
            self._cursor = replace(self._cursor, version=after.version) if after.stream_id is None else after
        return b"\n".join(lines)


def _cursor_after(head: _Head) -> Cursor:
    """Where a reader stands that has this frame."""
    if head.snapshot is not None:
        stream = head.snapshot.stream
        version = head.snapshot.version
        return Cursor(version) if stream is None else Cursor(version, stream.stream_id, stream.cursor)
    if head.type == "chat:chunk":
        return Cursor(head.version, head.stream_id, head.offset + len(head.text))
    return Cursor(head.version)
