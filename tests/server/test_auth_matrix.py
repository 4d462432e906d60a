"""Who may do what: every route that there is, asked by a stranger, with a bad token, as observer and as operator."""

from __future__ import annotations

import asyncio

import httpx
from litestar.routes import HTTPRoute, WebSocketRoute

from interlock.server.http.access import OPEN_PATHS
from interlock.server.http.app import create_app
from interlock.server.http.openapi import operations
from tests.contract.harness import run
from tests.server.http_harness import client, house

REFUSED = (401, 403)

# Every route by hand, so that a new one cannot be forgotten: open to all, to observers, to operators only.
OPEN = {"GET /health", "GET /docs", "GET /api/openapi.json", "GET /api/frames.schema.json"}
# Needs a page of the server instead of a token: `test_browser_logins` holds it.
PAGE = {"POST /api/login"}
OBSERVERS = {
    "GET /api/server",
    "GET /api/agents",
    "GET /api/pool",
    "GET /api/approvals",
    "GET /api/logins",
    "GET /api/search",
    "GET /api/spawns",
    "GET /api/usage",
    "GET /api/tasks",
    "GET /api/tasks/{task_id}",
    "GET /api/tasks/{task_id}/runtime-check",
    "GET /api/tasks/{task_id}/state",
    "GET /api/tasks/{task_id}/screen",
    "GET /api/tasks/{task_id}/turns",
    "GET /api/tasks/{task_id}/turns/{turn_id}",
    "GET /api/tasks/{task_id}/messages",
    "GET /api/tasks/{task_id}/messages/{message_id}/output",
    "GET /api/tasks/{task_id}/queue",
    "GET /api/tasks/{task_id}/prompts/{prompt_id}",
    "GET /api/tasks/{task_id}/approvals",
    "GET /api/tasks/{task_id}/children",
    "GET /api/workflows",
    "GET /api/workflows/{workflow_id}",
    "GET /api/tasks/{task_id}/changes",
    "GET /api/tasks/{task_id}/diff",
    "GET /api/tasks/{task_id}/why",
    "GET /api/tasks/{task_id}/why/lines",
    "GET /api/tasks/{task_id}/diagnostics",
    "GET /api/tasks/{task_id}/spawns",
    "GET /api/tasks/{task_id}/usage",
    "GET /api/tasks/{task_id}/log",
    "GET /api/tasks/{task_id}/events",
    "GET /metrics",
}
OPERATORS = {
    "POST /api/login/tickets",
    "DELETE /api/logins/{login_id}",
    "POST /api/tasks",
    "POST /api/tasks/{task_id}/archive",
    "POST /api/tasks/{task_id}/restore",
    "POST /api/log/vacuum",
    "DELETE /api/tasks/{task_id}",
    "POST /api/tasks/{task_id}/prompts",
    "PATCH /api/tasks/{task_id}/prompts/{prompt_id}",
    "DELETE /api/tasks/{task_id}/prompts/{prompt_id}",
    "PUT /api/tasks/{task_id}/queue/gate",
    "POST /api/tasks/{task_id}/cancel",
    "POST /api/tasks/{task_id}/seen",
    "POST /api/tasks/{task_id}/start",
    "POST /api/tasks/{task_id}/stop",
    "POST /api/tasks/{task_id}/resume",
    "POST /api/tasks/{task_id}/rename",
    "POST /api/tasks/{task_id}/review",
    "POST /api/tasks/{task_id}/worktree/merge",
    "POST /api/tasks/{task_id}/worktree/remove",
    "POST /api/adoptions",
    "POST /api/tasks/{task_id}/children",
    "POST /api/tasks/{task_id}/children/{subagent_id}/cancel",
    "POST /api/workflows",
    "POST /api/workflows/{workflow_id}/stop",
    "POST /api/workflows/{workflow_id}/steps/{step_id}/release",
    "POST /api/workflows/{workflow_id}/steps/{step_id}/give-up",
    "POST /api/workflows/{workflow_id}/steps/{step_id}/answer",
    "POST /api/tasks/{task_id}/approvals/{approval_id}/decision",
}


async def ask(caller: httpx.AsyncClient, operation: str) -> int:
    """The status that an operation answers on a task that is not there: whoever is let in gets no 401 or 403."""
    method, _, path = operation.partition(" ")
    for name in (
        "task_id",
        "turn_id",
        "prompt_id",
        "approval_id",
        "subagent_id",
        "workflow_id",
        "step_id",
        "login_id",
        "message_id",
    ):
        path = path.replace(f"{{{name}}}", f"{name}_none")
    answer = await caller.request(method, path, json=None if method in ("GET", "DELETE") else {})
    return answer.status_code


def test_the_matrix_names_every_route_that_there_is() -> None:
    async def story() -> None:
        async with house() as server:
            app = create_app(server.state).app
            found = {f"{one.method} {one.path}" for one in operations(app)}
            assert found == OPEN | PAGE | OBSERVERS | OPERATORS
            assert {one.partition(" ")[2] for one in OPEN | PAGE} == OPEN_PATHS
            sockets = [route.path for route in app.routes if isinstance(route, WebSocketRoute)]
            assert sockets == ["/api/socket"]
            assert len(app.routes) == len([one for one in app.routes if isinstance(one, HTTPRoute)]) + 1

    run(story())


def test_every_route_lets_in_whom_it_should_and_nobody_else() -> None:
    async def story() -> None:
        async with house() as server, client(server.url, "bad" * 12) as bad:
            callers = (server.stranger, bad, server.observer, server.operator)
            for operation in sorted(OPEN | OBSERVERS | OPERATORS):
                stranger, wrong, observer, operator = await asyncio.gather(*(ask(one, operation) for one in callers))
                assert operator not in REFUSED, operation
                if operation in OPEN:
                    assert {stranger, wrong, observer, operator} == {200}, operation
                    continue
                assert (stranger, wrong) == (401, 401), operation
                if operation in OBSERVERS:
                    assert observer not in REFUSED, operation
                else:
                    assert observer == 403, operation

    run(story())


def test_what_is_no_route_is_not_told_to_strangers() -> None:
    async def story() -> None:
        async with house() as server:
            for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
                assert (await server.stranger.request(method, "/api/nothing")).status_code == 401
                assert (await server.stranger.request(method, "/api/tasks")).status_code == 401
            assert (await server.observer.get("/api/nothing")).status_code == 404
            assert (await server.observer.post("/api/nothing")).status_code == 403

    run(story())


def test_an_observer_changes_nothing() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open("ses_a")
            view = server.state.hub.views[task_id]
            version = view.version
            for operation in sorted(OPERATORS):
                await ask(server.observer, operation.replace("{task_id}", task_id))
            assert view.version == version
            assert len(server.state.hub.views) == 1

    run(story())
