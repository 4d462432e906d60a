"""Answers of the server that tests read as plain JSON, to look at one field of them."""

from __future__ import annotations

from typing import Any

from interlock.cli.server.api import Route, ServerApi
from tests.bodies import Body


def any_route(path: str) -> Route[Any]:
    """The route at a path."""
    return Route(path)


def first_snapshot(api: ServerApi, task_id: str) -> Body:
    """What who follows a task by server-sent events is told first."""
    first: Body = next(iter(api.events(task_id))).data
    return first["snapshot"]
