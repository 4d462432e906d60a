"""What goes on as it happens: the room of a task as server-sent events, and the socket for everything."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, WebSocket, get, websocket
from litestar.datastructures import State
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from interlock.server.live.socket import serve_socket
from interlock.server.live.sse import EVENT_STREAM, task_events
from interlock.server.routes.common import Server, TaskPath, caller_of, read_number, task_of
from interlock.vocabulary.wire.requests import AccessRole


@get("/tasks/{task_id:str}/events", media_type=EVENT_STREAM)
async def follow_task(
    server: Server,
    request: Request[Any, Any, Any],
    task_id: TaskPath,
    last_event_id: Annotated[
        str,
        HeaderParameter(
            name="Last-Event-ID",
            max_length=400,
            required=False,
            description="The `id` of the last event that was read.",
        ),
    ] = "",
    after: Annotated[
        str | None,
        QueryParameter(
            max_length=16,
            required=False,
            description="The version of a snapshot: only messages that changed later are told.",
        ),
    ] = None,
) -> Stream:
    """The room of a task as server-sent events: where it stands, then everything that happens."""
    view = await task_of(server, task_id)
    version = None if after is None else read_number(after)
    login = caller_of(request.scope).login
    return task_events(server, view.task_id, last_event_id=last_event_id, after=version, login=login)


@websocket("/socket")
async def open_socket(socket: WebSocket[str, AccessRole, State], server: Server) -> None:
    """One socket a client, for as many tasks as it likes."""
    await serve_socket(socket, server, socket.auth, socket.user, caller_of(socket.scope).login)


ROUTES = (follow_task, open_socket)
