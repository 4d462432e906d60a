"""What the turns of a task changed, file by file, and the review of it."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter, SkipValidation

from interlock.runtime.workspace.turn_diffs import WHOLE
from interlock.server.changes import TaskChanges, choose_turn, told_changes
from interlock.server.http.problems import NotFound
from interlock.server.http.shapes import TurnChangesPage
from interlock.server.peer_process import connection_of
from interlock.server.routes.common import (
    DEFAULT_PAGE,
    After,
    Key,
    Limit,
    Server,
    TaskPath,
    Who,
    page_by_number,
    read_key,
    task_of,
)
from interlock.vocabulary.wire.workspace import ReviewedFile, ReviewFile, TaskDiff

Changes: TypeAlias = NamedDependency[SkipValidation[TaskChanges]]


@get("/tasks/{task_id:str}/changes")
async def list_changes(
    server: Server, changes: Changes, task_id: TaskPath, after: After = None, limit: Limit = DEFAULT_PAGE
) -> TurnChangesPage:
    """How much each turn changed, oldest first, as the log has it. Git is not asked."""
    view = await task_of(server, task_id)
    turns, following = page_by_number(await changes.turns(view.task_id, view.version), after, limit)
    return TurnChangesPage(items=tuple(told_changes(one) for one in turns), next=following)


@get("/tasks/{task_id:str}/diff")
async def get_diff(
    server: Server,
    changes: Changes,
    task_id: TaskPath,
    turn: Annotated[
        str | None,
        QueryParameter(
            description="The turn, by id or number; else the newest with a record.", max_length=200, required=False
        ),
    ] = None,
    path: Annotated[
        str | None,
        QueryParameter(description="The patch of this file, and no other.", max_length=4096, required=False),
    ] = None,
    stat: Annotated[bool, QueryParameter(description="Files and counts, without a patch.", required=False)] = False,
) -> TaskDiff:
    """What a turn did to the files: the difference between the tree at its start and the tree at its end."""
    view = await task_of(server, task_id)
    turns = await changes.turns(view.task_id, view.version)
    found, told = await changes.diff(turns, choose_turn(turns, turn), patch_of=None if stat else path or WHOLE)
    if path and not found.unknown and not any(one.path == path for one in told.files):
        raise NotFound(f"turn {told.number} did not change {path}", remedy="ask without a path for those that it did")
    return told


@post("/tasks/{task_id:str}/review", status_code=200)
async def review_file(
    request: Request[Any, Any, Any],
    server: Server,
    changes: Changes,
    who: Who,
    task_id: TaskPath,
    data: JSONBody[ReviewFile],
    key: Key = None,
) -> ReviewedFile:
    """Accept what a turn did to a file, send it back with a comment, or discard it: then the file is as it was before
    the turn, unless it changed since (409), and the content stays in the repository. A turn that is open in the work
    tree has to end first. The key is the id of the prompt of what is sent back."""
    view = await task_of(server, task_id)
    return await server.commands.review(
        view.task_id,
        data,
        changes=changes,
        decided_by=who,
        prompt_id=read_key(key),
        connection=connection_of(request.scope),
    )


ROUTES = (list_changes, get_diff, review_file)
