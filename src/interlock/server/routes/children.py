"""The children of a task: sessions that it started, supervised by the server and recorded in its log."""

from __future__ import annotations

from typing import Any

from litestar import Request, get, post
from litestar.params import FromPath, JSONBody

from interlock.server.peer_process import connection_of
from interlock.server.routes.common import Key, Server, TaskPath, WireResponse, read_key, task_of
from interlock.vocabulary.ids import SessionId, SubagentId
from interlock.vocabulary.wire.resources import ChildOpened, ChildPage, ChildStanding, EndChild, OpenChild


@post("/tasks/{task_id:str}/children", status_code=201)
async def open_child(
    request: Request[Any, Any, Any], server: Server, task_id: TaskPath, data: JSONBody[OpenChild], key: Key = None
) -> WireResponse[ChildOpened]:
    """Begin a child of a task. The key, if one is given, is its id. A tree that is as large as it may be refuses it
    (429 `tree_full`), and says which limit, how much of it is used and how to free it. An agent may begin children of
    its own session, and of no other."""
    await task_of(server, task_id)
    await server.children.refuse_agents(connection_of(request.scope), but=SessionId(task_id))
    opened = await server.children.open(SessionId(task_id), data, key=read_key(key) or "")
    return WireResponse(opened, status_code=201 if opened.is_new else 200)


@get("/tasks/{task_id:str}/children")
async def list_children(server: Server, task_id: TaskPath) -> ChildPage:
    """The children of a task, oldest first, each as its parent's log has it."""
    await task_of(server, task_id)
    return ChildPage(items=await server.children.list(SessionId(task_id)))


@post("/tasks/{task_id:str}/children/{subagent_id:str}/cancel", status_code=200)
async def cancel_child(
    request: Request[Any, Any, Any],
    server: Server,
    task_id: TaskPath,
    subagent_id: FromPath[str],
    data: JSONBody[EndChild],
    key: Key = None,
) -> ChildStanding:
    """End a child: its agent is stopped, and its own log says that its parent ended it."""
    await task_of(server, task_id)
    read_key(key)
    await server.children.refuse_agents(connection_of(request.scope), but=SessionId(task_id))
    return await server.children.cancel(SessionId(task_id), SubagentId(subagent_id), data.reason)


ROUTES = (open_child, list_children, cancel_child)
