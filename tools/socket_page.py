"""`docs/reference/websocket.md` and `frames.schema.json`: what goes over the socket, from the words themselves."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Final, get_args

import msgspec

from interlock.projections.task.view import TaskView
from interlock.server.http.access import SUBPROTOCOL, TOKEN_SUBPROTOCOL
from interlock.server.http.frames_schema import RESULTS
from interlock.server.live import hub, outbox, socket, socket_protocol, sse, write_watch
from interlock.server.settings import ServerSettings
from interlock.vocabulary.wire import frames, requests
from interlock.vocabulary.wire.frames import TaskFrame
from interlock.vocabulary.wire.requests import (
    PROTOCOL,
    Ack,
    BoardJoin,
    BoardJoined,
    BoardLeave,
    Ping,
    Request,
    ServerFrame,
    TaskJoin,
    TaskJoined,
    TaskLeave,
    TaskResume,
)
from tools.markdown import page, table, told
from tools.wire_types import VALUES, held_types, link, section, sections

ANSWERS: Final[Mapping[type, type]] = {
    TaskJoin: TaskJoined,
    TaskResume: TaskJoined,
    BoardJoin: BoardJoined,
}
"""What answers a request, where it is not an `ack`."""
FOR_OBSERVERS: Final = (TaskJoin, TaskResume, TaskLeave, BoardJoin, BoardLeave, Ping)

_ABOUT: Final = f"""\
`GET /api/socket` is a WebSocket, one for a client, with as many rooms as it likes. A program sends
`Authorization: Bearer TOKEN`. A browser cannot, and offers two subprotocols instead: `{SUBPROTOCOL}` and
`{TOKEN_SUBPROTOCOL}TOKEN`. Whoever is not let in gets an HTTP answer with a problem, and no socket.

Each message is one JSON object in a text frame, with its `type`. [frames.schema.json](frames.schema.json) has a JSON
Schema for what a server says (`ServerFrame`), what a client asks (`Request`), the `result` of an ack to each request
(`AckResults`) and a `RuntimeCheck`. A server sends every field, also one that has its default; in a request, fields
with a default may be left out. A client ignores a frame whose type it does not know; the server refuses a field that it
does not know. The protocol is number {PROTOCOL}."""
_ROOMS: Final = """\
## Rooms

A join puts the client into the room of a task and answers with a snapshot: all that the client needs to stand where the
server stands, at one version and one tick. From there on every frame of the room follows, each with the next tick.

A client that reads too slowly is not buffered without bound: it gets `task:behind` and resumes, and its other rooms go
on. On a new connection, join or resume again: ticks of one connection say nothing about another one. To resume, name
the highest `version` that you have heard of the task, in any frame or snapshot, and keep of two copies of a message the
one with the higher `version`: messages of the named version are sent again, as you may have had only some of them.

The board is a room of its own (`board:join`), with one line for each task."""
_CLOSE_CODES: Final = (
    (str(hub.SERVICE_RESTART), "the server ends, or is ending", "come back, by chance a bit later"),
    (
        str(socket.BAD_PAYLOAD),
        f"{socket.MAX_MALFORMED} messages in a row were no requests, or text was no UTF-8",
        "fix it",
    ),
    (
        str(socket.POLICY),
        "too many requests for too long",
        "ask more slowly",
    ),
    (str(socket_protocol.TOO_BIG), "a message was larger than `max_frame_bytes`", "send less"),
    (str(outbox.TRY_AGAIN_LATER), "too many connections, or answers were not read", "come back later, and read"),
    ("1002", "the frames break the WebSocket protocol", "fix it"),
    (str(outbox.LOGIN_OVER), "the login of this browser was revoked", "do not come back: log in again"),
    (str(socket_protocol.SILENT), "a WebSocket ping was not answered within a heartbeat", "come back"),
)


def socket_page() -> str:
    """The whole page."""
    asked, pushed = get_args(Request), get_args(TaskFrame)
    own = [one for one in get_args(ServerFrame) if one not in pushed]
    of_results = [kind for kind in RESULTS.values() if kind is not None]
    held = held_types([Request, ServerFrame, *of_results])
    types = tuple(one for one in held if one not in (*asked, *own, *pushed))
    linked = frozenset(types)
    return page(
        "WebSocket and server-sent events",
        _ABOUT,
        _ROOMS,
        "## Frames, versions and ticks",
        told(frames),
        "## Requests",
        told(requests),
        table(("Request", "Role", "Answer", "What it asks"), (_request_row(one) for one in asked)),
        *(section(one, linked, name=tag(one), more=_answered(one)) for one in asked),
        "## What the server says of itself, and answers",
        *(section(one, linked, name=tag(one)) for one in own),
        "## Frames of a room",
        table(("Frame", "What it says"), ((_tag_link(one), told(one)) for one in pushed)),
        *(section(one, linked, name=tag(one)) for one in pushed),
        "## Types",
        VALUES,
        sections(types, linked),
        _ends(),
        _events(),
    )


def tag(kind: type) -> str:
    """The `type` of a frame, as it is on the wire."""
    config: msgspec.structs.StructConfig = kind.__struct_config__  # type: ignore[attr-defined]
    return str(config.tag)


def _tag_link(kind: type) -> str:
    return f"[`{tag(kind)}`](#{tag(kind).replace(':', '')})"


def role_of(request: type) -> str:
    return "observer" if request in FOR_OBSERVERS else "operator"


def _request_row(request: type) -> tuple[str, ...]:
    answer = ANSWERS.get(request, Ack)
    return _tag_link(request), role_of(request), _tag_link(answer), told(request)


def _answered(request: type) -> str:
    if request in ANSWERS:
        return f"Answered with `{tag(ANSWERS[request])}`."
    result = RESULTS[request]
    return f"Answered with `ack`; its `result` is {'null' if result is None else link(result)}."


def _ends() -> str:
    settings = ServerSettings()
    snapshot_limit = signature(TaskView.snapshot).parameters["limit"].default
    rows = (
        (
            "heartbeat",
            f"{settings.heartbeat_seconds:g} s",
            "told in `hello`; the server sends a WebSocket ping so often, and a pong is all that it needs",
        ),
        ("a ping without a pong", "1 heartbeat", f"then close code {socket_protocol.SILENT}"),
        (
            "a client that reads nothing",
            f"{write_watch.STUCK_LOOKS} heartbeats or a little more",
            "then the connection is cut off",
        ),
        ("fragments of a message", f"{socket_protocol.MAX_FRAGMENTS:,}", f"then close code {socket_protocol.TOO_BIG}"),
        ("commands that are not done yet", str(socket.MAX_COMMANDS), "more are refused as `too_many`"),
        (
            "frames that wait for a client",
            f"{settings.outbox_frames:,} or {settings.outbox_bytes:,} bytes",
            "`task:behind`",
        ),
        ("messages of a snapshot", str(snapshot_limit), "`history_before` is the cursor of the older ones"),
    )
    return "\n\n".join(
        (
            "## How a connection ends",
            table(("Close code", "Why", "What to do"), _CLOSE_CODES),
            "## Bounds",
            "Beside [those of HTTP](http.md#bounds):",
            table(("What", "How much", "And then"), rows),
        )
    )


def _events() -> str:
    return "\n\n".join(
        (
            "## Server-sent events",
            "`GET /api/tasks/{task_id}/events` ([follow_task](http.md#follow_task)) gives the same frames without a"
            " socket: see [follow a task with curl](../how-to/follow-a-task-with-curl.md).",
            told(sse),
        )
    )
