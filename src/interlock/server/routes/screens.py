"""The terminal of an agent, to be looked at from elsewhere.

Law: it is the last look of whoever watches the agent anyway. A request starts nothing and asks tmux nothing.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from interlock.projections.task.screen import show_last_screen, show_screen
from interlock.server.http.problems import REOPEN, NotFound
from interlock.server.routes.common import Server, TaskPath, task_of
from interlock.server.state import ServerState
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.task_screen import TaskScreen

_KNOWN = "The `digest` of the picture that is known already: while it is the same, it is not told again."


@get("/tasks/{task_id:str}/screen")
async def get_screen(
    server: Server,
    task_id: TaskPath,
    since: Annotated[str | None, QueryParameter(description=_KNOWN, max_length=64, required=False)] = None,
) -> TaskScreen:
    """What the terminal of the agent shows, and whether that is so now. Of an agent that has ended: its last screen."""
    view = await task_of(server, task_id)
    seen = server.runtime.screen(view.task_id) if view.task_id in server.runtime.sessions else None
    kept, left_at = view.last_screen, view.last_screen_at
    if seen is None and kept is not None and left_at is not None and not _has_agent(server, view.task_id):
        return show_last_screen(view.task_id, kept, captured_at=left_at, now=datetime.now(UTC), since=since or "")
    if seen is None:
        raise _missing(server, view.task_id)
    age_seconds = max(0.0, time.monotonic() - seen.captured_at_seconds)
    return show_screen(
        view.task_id,
        seen.snapshot,
        captured_at=datetime.now(UTC) - timedelta(seconds=age_seconds),
        age_seconds=age_seconds,
        problem=seen.problem,
        since=since or "",
    )


def _has_agent(server: ServerState, task_id: SessionId) -> bool:
    return task_id in server.runtime.sessions and server.runtime.supervisor(task_id).agent.has_agent


def _missing(server: ServerState, task_id: SessionId) -> NotFound:
    """Why there is no screen, and what to do about it."""
    start = REOPEN.format(task_id)
    view = server.hub.view(task_id)
    if task_id not in server.runtime.sessions and view is not None and view.is_supervised:
        return NotFound(f"no agent runs in task {task_id}", remedy=start)
    if task_id not in server.runtime.sessions or server.runtime.supervisor(task_id).is_over:
        return NotFound(f"no server runs task {task_id}, so its terminal cannot be seen", remedy=start)
    supervisor = server.runtime.supervisor(task_id)
    if not supervisor.agent.has_agent:
        return NotFound(f"no agent runs in task {task_id}", remedy=start)
    if not supervisor.agent.has_terminal:
        words = f"read what it says: GET /api/tasks/{task_id}/messages"
        return NotFound(f"the agent of task {task_id} has no terminal", remedy=words)
    return NotFound(f"nothing was seen of the terminal of task {task_id} yet", remedy="ask again in a moment")


ROUTES = (get_screen,)
