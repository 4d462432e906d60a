"""The server's words for a session, put in those of the command line's JSON: see `json_shapes` for the laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.cli.wire.json_shapes import ScreenJson, SessionJson, SessionUsageJson, StateJson
    from interlock.vocabulary.wire.json_types import (
        ChildStandingJson,
        FrameJson,
        StateDocumentJson,
        TaskScreenJson,
        TaskSummaryJson,
        TaskUsageJson,
    )

_ARCHIVED: Final = "DELETE"
_CANCELLING: Final = "CANCELLING"
# Words of the HTTP API that its badge says better.
_LEFT_OUT: Final = frozenset({"task_status", "status_updated_at"})


def child_json(child: ChildStandingJson) -> dict[str, object]:
    """A child of a session."""
    return {"session_id" if name == "task_id" else name: value for name, value in child.items()}


def session_json(task: TaskSummaryJson) -> SessionJson:
    """One session."""
    live = task["live"]
    return {
        "session_id": task["task_id"],
        "agent": task["agent"],
        "driver": task["driver"],
        "title": task["title"],
        "folder": task["folder"],
        "branch": task["branch"],
        "changes": task["changes"],
        "model": task["model"],
        "badge": task["badge"],
        "is_archived": task["task_status"] == _ARCHIVED,
        "is_supervised": task["is_supervised"],
        "turn_id": task["turn_id"],
        "cancel_requested": task["task_status"] == _CANCELLING,
        "question": task["question"],
        "called_with": task["called_with"],
        "approval_id": task["approval_id"],
        "open_approvals": task["open_approvals"],
        "decided_by_rule": task["decided_by_rule"],
        "undelivered": task["undelivered"],
        "question_problem": task["question_problem"],
        "queued": task["queued"],
        "held": task["held"],
        "is_paused": task["is_paused"],
        "waits_for": task["waits_for"],
        "ending": task["ending"],
        "cost_usd": task["cost_usd"],
        "max_cost_usd": task["max_cost_usd"],
        "context_tokens": task["context_tokens"],
        "parent_id": task["parent_id"],
        "root_id": task["root_id"],
        "depth": task["depth"],
        "children": task["children"],
        "waits_below": task["waits_below"],
        "workflow": task["workflow"],
        "idle_at": None if live is None else live["idle_at"],
        "opened_at": task["opened_at"],
        "last_at": task["last_at"],
        "crashed_at": task["crashed_at"],
        "version": task["version"],
    }


def sessions_json(tasks: Iterable[TaskSummaryJson]) -> list[SessionJson]:
    """Sessions, in their order."""
    return [session_json(task) for task in tasks]


def state_json(document: StateDocumentJson) -> StateJson:
    """A state document."""
    return {
        "session_id": document["task_id"],
        "version": document["version"],
        "turn_id": document["turn_id"],
        "state": document["state"],
    }


def usage_json(used: TaskUsageJson) -> SessionUsageJson:
    """What a session used."""
    return {"session_id": used["task_id"], "total": used["total"], "turns": used["turns"]}


def screen_json(shown: TaskScreenJson) -> ScreenJson:
    """The terminal of an agent."""
    return {
        "session_id": shown["task_id"],
        "is_live": shown["is_live"],
        "problem": shown["problem"],
        "captured_at": shown["captured_at"],
        "age_seconds": shown["age_seconds"],
        "columns": shown["columns"],
        "height": shown["height"],
        "title": shown["title"],
        "cursor": shown["cursor"],
        "digest": shown["digest"],
        "is_cut": shown["is_cut"],
        "has_ended": shown.get("has_ended", False),
        "rows": shown["rows"],
        "paint": shown["paint"],
    }


def frame_json(frame: FrameJson) -> dict[str, object]:
    """A frame of a session that is followed. Frames of a newer server keep the fields that are not known here."""
    told = _renamed(cast("dict[str, object]", frame))
    snapshot = told.get("snapshot")
    if isinstance(snapshot, dict):
        told["snapshot"] = _renamed(snapshot)
        told.pop("id", None)  # of a request that nobody made here
    return told


def _renamed(told: dict[str, object]) -> dict[str, object]:
    return {"session_id" if key == "task_id" else key: value for key, value in told.items() if key not in _LEFT_OUT}
