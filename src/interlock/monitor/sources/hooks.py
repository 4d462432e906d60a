"""Hook payloads of Claude Code and Codex.

What they do not say: none fires on Escape, so a state that a hook began may be over; a tool's hooks run beside another
tool's dialog, so they tell nothing of a dialog; `Stop` fires while background work still runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interlock.monitor.arbitration.claims import ChildNews, Claim, SourceReading, not_understood, unknown_record
from interlock.monitor.sources.fields import Fields, decode, list_of, mapping_of, text_of
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

_HOOK: Final = "hook"
_MAX_CHILDREN: Final = 256


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What an event says. `is_of_turn`: fired by a child, it says nothing about its parent's activity."""

    activity: Activity | None = None
    attention: Attention | None = None
    is_dialog: bool = False
    is_of_turn: bool = False


_SILENT: Final = _Meaning()
_EVENTS: Final[Mapping[str, _Meaning]] = {
    "SessionStart": _SILENT,
    "SessionEnd": _SILENT,
    "UserPromptSubmit": _Meaning(Activity.WORKING, Attention.NONE),
    "PreToolUse": _Meaning(Activity.WORKING, is_of_turn=True),
    "PostToolUse": _Meaning(Activity.WORKING, is_of_turn=True),
    "Stop": _Meaning(Activity.QUIET, Attention.NONE),
    "SubagentStart": _SILENT,
    "SubagentStop": _SILENT,
}
_NOTIFICATIONS: Final[Mapping[str, _Meaning]] = {
    "permission_prompt": _Meaning(None, Attention.APPROVAL, is_dialog=True),
    "elicitation_dialog": _Meaning(None, Attention.QUESTION, is_dialog=True),
    "idle_prompt": _Meaning(Activity.QUIET, Attention.NONE),
}
_ASKING_TOOLS: Final[Mapping[str, Attention]] = {
    "AskUserQuestion": Attention.QUESTION,
    "request_user_input": Attention.QUESTION,
    "ExitPlanMode": Attention.PLAN,
}
_FAILURES: Final[Mapping[str, Attention]] = {
    "rate_limit": Attention.QUOTA,
    "billing_error": Attention.QUOTA,
    "authentication_failed": Attention.AUTH,
}
# A compaction starts the session again in the middle of a turn; its children live on.
_KEEPS_CHILDREN: Final = "compact"
_EXCERPTS: Final = ("command", "file_path", "url", "message", "error", "last_assistant_message")


def read_hook(payload: object, *, at_seconds: float, spawn_id: SpawnId | None = None) -> SourceReading:
    """What a hook's standard input claims: its bytes, or its decoded fields. `at_seconds` is when it fired."""
    fields = decode(payload)
    if fields is None:
        return not_understood(_HOOK, "not a JSON object")
    event = text_of(fields, "hook_event_name")
    meaning = _meaning(event, fields)
    claim = Claim(
        rung=EvidenceSource.HOOK,
        at_seconds=at_seconds,
        rule=f"{_HOOK}.{event}",
        activity=None if meaning is None or _is_of_child(meaning, fields) else meaning.activity,
        attention=None if meaning is None else meaning.attention,
        is_dialog=meaning is not None and meaning.is_dialog,
        where=text_of(fields, "transcript_path"),
        excerpt=_excerpt(fields),
        children=_children(event, fields),
        spawn_id=spawn_id,
        session_id=text_of(fields, "session_id"),
        turn_id=text_of(fields, "turn_id") or text_of(fields, "prompt_id"),
    )
    if meaning is None:
        detail = f"{event} {text_of(fields, 'notification_type')}".strip()
        return SourceReading((claim,), (unknown_record(_HOOK, "unknown hook", detail),))
    return SourceReading((claim,))


def _meaning(event: str, fields: Fields) -> _Meaning | None:
    match event:
        case "Notification":
            return _NOTIFICATIONS.get(text_of(fields, "notification_type"))
        case "PermissionRequest":
            tool = text_of(fields, "tool_name")
            asked_for = _ASKING_TOOLS.get(tool, Attention.APPROVAL)
            return _Meaning(Activity.WORKING, asked_for, is_dialog=True, is_of_turn=True)
        case "StopFailure":
            return _Meaning(Activity.QUIET, _FAILURES.get(text_of(fields, "error"), Attention.ERROR))
        case _:
            return _EVENTS.get(event)


def _is_of_child(meaning: _Meaning, fields: Fields) -> bool:
    return meaning.is_of_turn and bool(text_of(fields, "agent_id"))


def _children(event: str, fields: Fields) -> ChildNews | None:
    agent = text_of(fields, "agent_id")
    match event:
        case "SubagentStart" if agent:
            return ChildNews(opened=frozenset({agent}))
        case "SubagentStop" if agent:
            return ChildNews(closed=frozenset({agent}))
        case "Stop":
            tasks = list_of(fields, "background_tasks")
            return None if tasks is None else ChildNews(all_open=_names(tasks))
        case "SessionStart" | "SessionEnd" if text_of(fields, "source") != _KEEPS_CHILDREN:
            return ChildNews(all_open=frozenset())
        case _:
            return None


def _names(tasks: list[object]) -> frozenset[str]:
    """A name for each task. One that has none is open all the same, and gets its place in the list for a name."""
    return frozenset(_name(task) or f"task {number}" for number, task in enumerate(tasks[:_MAX_CHILDREN]))


def _name(task: object) -> str:
    if not isinstance(task, Mapping):
        return ""
    return text_of(task, "agent_id") or text_of(task, "task_id") or text_of(task, "id")


def _excerpt(fields: Fields) -> str:
    tool = text_of(fields, "tool_name")
    what = mapping_of(fields, "tool_input") if tool else fields
    text = next((found for name in _EXCERPTS if (found := text_of(what, name))), "")
    return f"{tool}: {text}" if tool and text else tool or text
