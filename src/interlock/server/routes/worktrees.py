"""The git worktree of a task: how it stands, its merge and its end. It is made with the task: see `POST /api/tasks`."""

from __future__ import annotations

from litestar import post
from litestar.params import JSONBody

from interlock.server.routes.common import Key, Server, TaskPath, read_key, task_of
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.resources import MergeStanding, MergeWorktree, RemoveWorktree, WorktreeStanding


@post("/tasks/{task_id:str}/worktree/remove", status_code=200)
async def remove_worktree(
    server: Server, task_id: TaskPath, data: JSONBody[RemoveWorktree], key: Key = None
) -> WorktreeStanding:
    """Remove the worktree of a task. What would be lost with it is told, and then nothing is done, unless `force` is
    given: then it is kept aside first."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.remove_worktree(SessionId(task_id), data)


@post("/tasks/{task_id:str}/worktree/merge", status_code=200)
async def merge_worktree(
    server: Server, task_id: TaskPath, data: JSONBody[MergeWorktree], key: Key = None
) -> MergeStanding:
    """Take the work of a task's worktree into a branch: all of it, or nothing. Conflicts are told by their paths."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.merge_worktree(SessionId(task_id), data)


ROUTES = (remove_worktree, merge_worktree)
