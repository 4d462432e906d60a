"""Answers to the reads that are asked for all the time, without the router and the middleware of the framework.

Laws:
1. The door comes first: host, origin, rate, token and role are checked where they are for every other request.
2. What is answered here is what the route would answer, byte for byte. In doubt (another method, a query, a task whose
   view is not here, any failure) nothing is answered here, and the route does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from litestar.types import Send

from interlock.server.routes.server import health_of
from interlock.server.state import ServerState
from interlock.vocabulary.ids import SessionId, is_valid_id
from interlock.vocabulary.wire.encoding import encode

_TASKS: Final = "/api/tasks/"
_CHECK: Final = "/runtime-check"


def short_answer(head: Mapping[str, Any], state: ServerState) -> bytes | None:
    """The body of an answer; None: the route answers."""
    if head["type"] != "http" or head["method"] != "GET" or head.get("query_string"):
        return None
    try:
        return _body(head["path"], state)
    except Exception:
        return None  # the route meets it again, and knows how to tell it


def _body(path: str, state: ServerState) -> bytes | None:
    if path == "/health":
        return encode(health_of(state))
    if not (path.startswith(_TASKS) and path.endswith(_CHECK)):
        return None
    task_id = path[len(_TASKS) : -len(_CHECK)]
    view = state.hub.opened(SessionId(task_id)) if is_valid_id(task_id) else None
    return None if view is None else encode(view.check())


async def send_json(send: Send, body: bytes) -> None:
    """Send an answer as the framework would."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start: Any = {"type": "http.response.start", "status": 200, "headers": headers}
    end: Any = {"type": "http.response.body", "body": body, "more_body": False}
    await send(start)
    await send(end)
