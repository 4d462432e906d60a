"""The parts of a frame of Claude Code's stream-json that need no memory to be read."""

from __future__ import annotations

from typing import Final

from interlock.agents.observations import (
    TRACE_MAX_CHARACTERS,
    ChildrenChanged,
    Observation,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, inner, members, text

# How a `result` line says that a turn ended.
#
# `subtype: success` with `is_error: true` is an error, and `error_during_execution` is also what an interrupt looks
# like:
# only `terminal_reason` tells them apart, or, in versions without it, the note that the agent writes when it is
# stopped.

_STOPS: Final = {
    "error_max_turns": "max_rounds",
    "max_turns": "max_rounds",
    "error_max_budget_usd": "token_budget",
    "max_budget_usd": "token_budget",
}
_DETAILS: Final = ("subtype", "terminal_reason", "api_error_status", "api_error_type", "num_turns", "duration_ms")


def is_follow_up(result: Fields) -> bool:
    """Whether the turn was begun by something else than a prompt, such as the end of a background task."""
    return text(inner(result, "origin"), "kind") not in ("", "human", "user")


def is_good(result: Fields) -> bool:
    return result.get("is_error") is not True and not text(result, "subtype").startswith("error")


def turn_ended(result: Fields, *, error_kind: str, was_interrupted: bool) -> TurnEnded:
    """The end of a prompt's turn. `error_kind` is what the agent called the last failed model call."""
    subtype, reason = text(result, "subtype"), text(result, "terminal_reason")
    details: Json = {name: result[name] for name in _DETAILS if result.get(name) is not None}
    code = _STOPS.get(subtype) or _STOPS.get(reason)
    if reason.startswith("aborted") or (not reason and not is_good(result) and was_interrupted):
        return TurnEnded(ending=TurnEnding.INTERRUPTED, details=details)
    if code is not None:
        message = error_message(result)
        return TurnEnded(ending=TurnEnding.STOPPED, stop_code=code, error_message=message, details=details)
    if is_good(result):
        answer = result.get("result")
        answered = answer if isinstance(answer, str) else None
        return TurnEnded(ending=TurnEnding.NATURAL, text=answered, details=details)
    kind = error_kind or reason or subtype or "unknown"
    return TurnEnded(ending=TurnEnding.ERROR, error_kind=kind, error_message=error_message(result), details=details)


def error_message(result: Fields) -> str:
    """Why it failed, in the agent's words."""
    told = [one for one in members(result, "errors") if isinstance(one, str)]
    words = text(result, "result") or "; ".join(told) or text(result, "subtype") or "the agent gave no reason"
    return words[:TRACE_MAX_CHARACTERS]


# Work that Claude Code has in the background: agents and shells, by its own task ids.
#
# A task that ended is told to the model afterwards, in a turn that nobody asked for. Until that turn is over, the task
# stays in the ledger as `notice:<id>`: between the two the agent looks quiet and is not.

_MAX_TASKS: Final = 1024
_TOLD_TO_THE_MODEL: Final = frozenset({"completed", "failed"})


class Children:
    """The ledger. Each method says what changed, if something did."""

    def __init__(self) -> None:
        self._tasks: dict[str, None] = {}
        self._notices: dict[str, None] = {}
        self._calls: dict[str, str] = {}
        self._told: frozenset[str] = frozenset()

    @property
    def open(self) -> frozenset[str]:
        return frozenset(self._tasks) | {f"notice:{task}" for task in self._notices}

    def call_of(self, task_id: str) -> str:
        """The tool call that started a task: by it a sub-agent's own lines name their writer."""
        return self._calls.get(task_id, task_id)

    def system(self, frame: Fields) -> list[Observation]:
        """A `system` frame about a task."""
        task_id = text(frame, "task_id")
        match text(frame, "subtype"):
            case "background_tasks_changed":
                tasks = [task for task in members(frame, "tasks") if isinstance(task, dict)]
                self._tasks = dict.fromkeys([text(task, "task_id") for task in tasks][:_MAX_TASKS])
            case "task_started":
                self._start(frame, task_id)
            case "task_notification" if task_id in self._tasks:
                del self._tasks[task_id]
                if text(frame, "status") in _TOLD_TO_THE_MODEL:
                    self._notices[task_id] = None
        return self._changed()

    def model_has_heard(self) -> list[Observation]:
        """The agent is at rest, or gave a result: whatever ended before that needs no turn any more."""
        self._notices.clear()
        return self._changed()

    def _start(self, frame: Fields, task_id: str) -> None:
        if call_id := text(frame, "tool_use_id"):
            self._calls[task_id] = call_id
            if len(self._calls) > _MAX_TASKS:
                del self._calls[next(iter(self._calls))]
        if frame.get("is_backgrounded") is True and len(self._tasks) < _MAX_TASKS:
            self._tasks[task_id] = None

    def _changed(self) -> list[Observation]:
        if self.open == self._told:
            return []
        self._told = self.open
        return [ChildrenChanged(open=self._told)]


# What a frame says of a call that was not carried out, in our words. An interrupt is told as a refusal by the user.
_NOT_RUN: Final = {"permission-rule": "denied", "user-rejected": "interrupted"}


def label(frame: Fields) -> str:
    """What a frame is, in few words: the trace of one that is known and says nothing new."""
    event = inner(frame, "event")
    words = [text(frame, "type"), text(frame, "subtype"), text(event, "type"), text(inner(event, "delta"), "type")]
    details = [text(frame, "status"), text(frame, "state"), text(frame, "hook_name")]
    return "/".join(word[:64] for word in (*words, *details) if word)


def blocks_of(frame: Fields) -> list[Fields]:
    """The blocks of a message, in order. A message of plain text is one block."""
    content = inner(frame, "message").get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def tool_returned(frame: Fields, block: Fields, sub_agent: str, denied: frozenset[str]) -> ToolReturned:
    """The result of a call. `denied` are the calls that the agent said it did not permit."""
    call_id = text(block, "tool_use_id")
    if block.get("is_error") is not True:
        return ToolReturned(call_id=call_id, output=_output(block.get("content")), sub_agent=sub_agent)
    kind = "denied" if call_id in denied else _why_not_run(frame, call_id)
    error = ToolError(kind=kind, message=plain_text(block.get("content")))
    return ToolReturned(call_id=call_id, error=error, sub_agent=sub_agent)


def _why_not_run(frame: Fields, call_id: str) -> str:
    for meta in members(frame, "tool_result_meta"):
        if isinstance(meta, dict) and text(meta, "id") == call_id:
            return _NOT_RUN.get(text(meta, "non_execution_kind"), "tool_error")
    return "tool_error"


def _output(content: Json) -> Json:
    """Text where there is nothing but text, else the blocks as they came."""
    if isinstance(content, list) and not all(isinstance(one, dict) and one.get("type") == "text" for one in content):
        return content
    return plain_text(content)


def plain_text(content: Json) -> str:
    """The text of a content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(text(block, "text") for block in blocks if isinstance(block, dict) and "text" in block)
