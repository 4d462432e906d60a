"""The questions that commands ask the server: the path of each, and the type of its answer.

The types are those of `vocabulary/wire/json_types.py`, which is made from the structs of the wire. Only mypy sees them:
a command that looks imports neither them nor the structs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from interlock.cli.server.api import Route

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import (
        ApprovalPageJson,
        ChildPageJson,
        ExplainedTurnJson,
        HealthJson,
        LoginPageJson,
        MessagePageJson,
        RuntimeCheckJson,
        SearchPageJson,
        ServerInfoJson,
        SpawnPageJson,
        StateDocumentJson,
        TaskDetailJson,
        TaskDiffJson,
        TaskPageJson,
        TaskScreenJson,
        TaskUsageJson,
        TurnPageJson,
        TurnRecordJson,
        UsagePageJson,
        WorkflowStandingJson,
    )

PAGE: Final = 500
HEALTH: Final[Route[HealthJson]] = Route("/health")
SERVER: Final[Route[ServerInfoJson]] = Route("/api/server")
TASKS: Final[Route[TaskPageJson]] = Route("/api/tasks")
APPROVALS: Final[Route[ApprovalPageJson]] = Route("/api/approvals")
SPAWNS: Final[Route[SpawnPageJson]] = Route("/api/spawns")
SEARCH: Final[Route[SearchPageJson]] = Route("/api/search")
LOGINS: Final[Route[LoginPageJson]] = Route("/api/logins")
USAGE: Final[Route[UsagePageJson]] = Route("/api/usage")


def task_path(task_id: object) -> str:
    """The address of a session."""
    return f"/api/tasks/{quote(str(task_id), safe='')}"


def task_detail(task_id: str) -> Route[TaskDetailJson]:
    """A session: its line of the board, what waits, and what is asked."""
    return Route(task_path(task_id))


def task_approvals(task_id: str) -> Route[ApprovalPageJson]:
    """Every question of a session, those that are over too."""
    return Route(f"{task_path(task_id)}/approvals")


def task_children(task_id: str) -> Route[ChildPageJson]:
    """The children of a session."""
    return Route(f"{task_path(task_id)}/children")


def workflow_detail(workflow_id: str) -> Route[WorkflowStandingJson]:
    """A workflow with its steps."""
    return Route(f"/api/workflows/{quote(workflow_id, safe='')}")


def task_why(task_id: str) -> Route[ExplainedTurnJson]:
    """What its last turn is explained by, in words."""
    return Route(f"{task_path(task_id)}/why/lines")


def task_check(task_id: str) -> Route[RuntimeCheckJson]:
    """Whether text is being written."""
    return Route(f"{task_path(task_id)}/runtime-check")


def task_messages(task_id: str) -> Route[MessagePageJson]:
    """Its transcript, the newest page first."""
    return Route(f"{task_path(task_id)}/messages")


def task_screen(task_id: str) -> Route[TaskScreenJson]:
    """What the terminal of its agent shows."""
    return Route(f"{task_path(task_id)}/screen")


def task_spawns(task_id: str) -> Route[SpawnPageJson]:
    """Every process of its agent."""
    return Route(f"{task_path(task_id)}/spawns")


def task_state(task_id: str) -> Route[StateDocumentJson]:
    """Its state document."""
    return Route(f"{task_path(task_id)}/state")


def task_turn(task_id: str, turn_id: str) -> Route[TurnRecordJson]:
    """How one turn stands."""
    return Route(f"{task_path(task_id)}/turns/{quote(turn_id, safe='')}")


def task_diff(task_id: str) -> Route[TaskDiffJson]:
    """What a turn did to the files."""
    return Route(f"{task_path(task_id)}/diff")


def review_path(task_id: object) -> str:
    """Where a review of a file goes."""
    return f"{task_path(task_id)}/review"


def task_turns(task_id: str) -> Route[TurnPageJson]:
    """How every turn stands."""
    return Route(f"{task_path(task_id)}/turns")


def task_usage(task_id: str) -> Route[TaskUsageJson]:
    """What it used."""
    return Route(f"{task_path(task_id)}/usage")
