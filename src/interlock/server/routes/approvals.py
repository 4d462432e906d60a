"""Questions: what agents ask, of all tasks and of one, and the answer."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get, post
from litestar.exceptions import ValidationException
from litestar.params import FromPath, JSONBody, QueryParameter

from interlock.server.http.problems import PROBLEM_TYPE, NotReady, Unfit, problem_of, what_is_wrong
from interlock.server.http.shapes import ApprovalPage, Decide
from interlock.server.peer_process import connection_of
from interlock.server.routes.common import (
    DEFAULT_PAGE,
    After,
    Key,
    Limit,
    Server,
    TaskPath,
    Who,
    WireResponse,
    read_key,
    read_number,
    task_of,
)
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.requests import ApprovalDecide, Problem
from interlock.vocabulary.wire.resources import ApprovalStanding

_SEPARATOR = "~"


@get("/approvals")
async def list_open_approvals(server: Server, after: After = None, limit: Limit = DEFAULT_PAGE) -> ApprovalPage:
    """Everything that somebody is asked now, over all tasks, the oldest question first. `is_answerable` is false for
    one of a task that nobody runs."""
    hub = server.hub
    if not hub.is_listed or not (hub.views or hub.is_ready):
        raise NotReady("the server has not read its log yet")
    asked = sorted((one for view in hub.views.values() for one in view.snapshot(limit=1).approvals), key=_order)
    place = ("", "", "") if after is None else _read_cursor(after)
    rest = [one for one in asked if _order(one) > place]
    shown = rest[:limit]
    return ApprovalPage(items=tuple(shown), next=_SEPARATOR.join(_order(shown[-1])) if len(rest) > limit else None)


def _order(approval: Approval) -> tuple[str, str, str]:
    return approval.asked_at.isoformat(timespec="microseconds"), approval.session_id, approval.approval_id


def _read_cursor(cursor: str) -> tuple[str, str, str]:
    at, session_id, approval_id = (*cursor.split(_SEPARATOR, 2), "", "")[:3]
    if not approval_id:
        raise Unfit("that is no cursor", remedy="use the `next` of a page")
    return at, session_id, approval_id


@get("/tasks/{task_id:str}/approvals")
async def list_approvals(
    server: Server,
    task_id: TaskPath,
    approval_state: Annotated[
        ApprovalState | None, QueryParameter(name="state", description="Only those that stand so.", required=False)
    ] = None,
    after: After = None,
    limit: Limit = DEFAULT_PAGE,
) -> ApprovalPage:
    """Every question of a task, oldest first."""
    view = await task_of(server, task_id)
    # A question of a turn that is over is not open, whatever the log last said of it.
    still_open = {one.approval_id for one in view.snapshot(limit=1).approvals}
    first = 0 if after is None else read_number(after)
    # Numbered among all of them: what is decided meanwhile moves nobody else's place.
    known = [
        (number, one)
        for number, one in enumerate(view.questions(), start=1)
        if number > first
        and approval_state in (None, one.state)
        and (approval_state is not ApprovalState.OPEN or one.approval_id in still_open)
    ]
    shown = known[:limit]
    following = str(shown[-1][0]) if len(known) > limit else None
    return ApprovalPage(items=tuple(one for _, one in shown), next=following)


def _undecided(request: Request[Any, Any, Any], error: ValidationException) -> WireResponse[Problem]:
    """A body that names no verdict decides nothing."""
    unfit = Unfit(f"not a decision: {what_is_wrong(error)}", remedy="name the verdict: is_allowed true or false")
    problem = problem_of(unfit, instance=request.scope["path"])
    return WireResponse(problem, status_code=problem.status, media_type=PROBLEM_TYPE)


@post(
    "/tasks/{task_id:str}/approvals/{approval_id:str}/decision",
    status_code=200,
    exception_handlers={ValidationException: _undecided},
)
async def decide_approval(
    request: Request[Any, Any, Any],
    server: Server,
    who: Who,
    task_id: TaskPath,
    approval_id: FromPath[str],
    data: JSONBody[Decide],
    key: Key = None,
) -> ApprovalStanding:
    """Answer a question: `is_allowed` is required. The key is the decision's id. The same decision again has the same
    answer; another one is refused (409 `already_decided`) with what was decided."""
    await task_of(server, task_id)
    asked = ApprovalDecide(
        id="http",
        task_id=SessionId(task_id),
        approval_id=approval_id,
        is_allowed=data.is_allowed,
        option=data.option,
        text=data.text,
        data=data.data,
        decision_id=read_key(key, data.decision_id) or "",
        from_spawn=data.from_spawn,
    )
    return await server.commands.decide(asked, decided_by=who, connection=connection_of(request.scope))


ROUTES = (list_open_approvals, list_approvals, decide_approval)
