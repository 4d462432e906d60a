"""The items of a Codex turn that are tool calls, for both of its interfaces.

The app-server writes `commandExecution` and `exitCode`, exec `command_execution` and `exit_code`; `item_of` makes them
one. Law: a call is told once when it begins and once when it ends; an end without a beginning tells both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.agents.observations import ChildrenChanged, Observation, ToolCalled, ToolReturned
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, inner, members, text

# What an item carries beside its arguments and its result.
_BOOKKEEPING: Final = frozenset({"id", "type", "status", "started_at_ms", "completed_at_ms", "duration_ms"})
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def snake(word: str) -> str:
    """`commandExecution` as `command_execution`: the two interfaces of Codex differ in this only."""
    return _HUMP.sub("_", word).lower()


def item_of(params: Fields) -> Fields:
    """The item of a line, with its names and its type in the one spelling."""
    item = {snake(name): value for name, value in inner(params, "item").items()}
    return {**item, "type": snake(text(item, "type"))}


def _command(item: Fields) -> ToolCalled:
    args: Fields = {"command": text(item, "command")}
    if cwd := text(item, "cwd"):
        args["cwd"] = cwd
    return ToolCalled(call_id=text(item, "id"), name="Shell", args=args)


def _edit(item: Fields) -> ToolCalled:
    return ToolCalled(call_id=text(item, "id"), name="FileChange", args={"changes": members(item, "changes")})


def _mcp(item: Fields) -> ToolCalled:
    name = ".".join(part for part in (text(item, "server"), text(item, "tool")) if part)
    return ToolCalled(call_id=text(item, "id"), name=name or "mcp", args=item.get("arguments") or None)


def _dynamic(item: Fields) -> ToolCalled:
    name = ".".join(part for part in (text(item, "namespace"), text(item, "tool")) if part)
    return ToolCalled(call_id=text(item, "id"), name=name or "tool", args=item.get("arguments") or None)


def _search(item: Fields) -> ToolCalled:
    return ToolCalled(call_id=text(item, "id"), name="WebSearch", args={"query": text(item, "query")})


def _function(item: Fields) -> ToolCalled:
    call_id = text(item, "call_id") or text(item, "id")
    return ToolCalled(call_id=call_id, name=text(item, "name") or "function", args=item.get("arguments") or None)


def _other(item: Fields) -> ToolCalled:
    args = {name: value for name, value in item.items() if name not in _BOOKKEEPING}
    return ToolCalled(call_id=text(item, "id"), name=text(item, "tool") or text(item, "type"), args=args or None)


_CALLS: Final[Mapping[str, Callable[[Fields], ToolCalled]]] = {
    "command_execution": _command,
    "file_change": _edit,
    "mcp_tool_call": _mcp,
    "dynamic_tool_call": _dynamic,
    "web_search": _search,
    "function_call": _function,
    "collab_agent_tool_call": _other,
    "collab_tool_call": _other,
    "image_view": _other,
}


def _output(item: Fields) -> Json:
    match text(item, "type"):
        case "command_execution":
            return text(item, "aggregated_output")
        case "file_change":
            return members(item, "changes")
        case "mcp_tool_call":
            return _joined(members(inner(item, "result"), "content")) or inner(item, "result") or None
        case "dynamic_tool_call":
            return _joined(members(item, "content_items")) or None
        case "web_search":
            return members(inner(item, "action"), "queries") or text(item, "query")
        case _:
            return item.get("agents_states")


def _joined(content: list[Json]) -> str:
    parts = [text(part, "text") for part in content if isinstance(part, dict)]
    return "\n".join(part for part in parts if part)


def _error(item: Fields) -> ToolError | None:
    """Why the call failed; None where it did not. Codex calls a command that ended with another code than 0 failed."""
    status, exit_code = snake(text(item, "status")), item.get("exit_code")
    said = text(inner(item, "error"), "message")
    details: Json = {"exit_code": exit_code} if isinstance(exit_code, int) else None
    if status == "declined":
        return ToolError(kind="denied", message="the call was declined", details=details)
    if isinstance(exit_code, int) and exit_code != 0:
        return ToolError(kind="exit_code", message=f"the command ended with code {exit_code}", details=details)
    if status in ("failed", "interrupted") or item.get("success") is False or said:
        return ToolError(kind=status if status == "interrupted" else "failed", message=said or "the call failed")
    return None


@dataclass(slots=True)
class CodexCalls:
    """The tool calls of a thread: which are open, and what goes on after its turn (commands and agents)."""

    open: dict[str, str] = field(default_factory=dict)
    _background: set[str] = field(default_factory=set)
    _left: set[str] = field(default_factory=set)
    _over: set[str] = field(default_factory=set)

    def began(self, item: Fields) -> list[Observation] | None:
        """What the beginning of an item tells; None if it is no tool call."""
        called = _called(item)
        if called is None:
            return None
        self._over.discard(called.call_id)
        self.open[called.call_id] = text(item, "type")
        return [called]

    def ended(self, item: Fields) -> list[Observation] | None:
        """What the end of an item tells; None if it is no tool call, or one that has ended already."""
        if text(item, "type") == "function_call_output":
            call_id = text(item, "call_id")
            return [self._close(call_id, item.get("output"), _error(item))] if call_id in self.open else None
        called = _called(item)
        if called is None or called.call_id in self._over:
            return None
        first: list[Observation] = [] if called.call_id in self.open else [called]
        return [*first, self._close(called.call_id, _output(item), _error(item))]

    def ended_late(self, item: Fields) -> list[Observation] | None:
        """What the end of a call tells whose turn was over before; None unless it was open in the background."""
        call_id = text(item, "id")
        if call_id not in self._background:
            return None
        self._background.discard(call_id)
        return [self._children()]

    @property
    def left(self) -> frozenset[str]:
        """The commands of turns that are over, as far as they are not known to have ended."""
        return frozenset(self._left & self._background)

    def only_run(self, running: frozenset[str]) -> list[Observation]:
        """What it tells that no other commands run on than these."""
        ended = self.left - running
        self._background -= ended
        return [self._children()] if ended else []

    def agent_moved(self, item: Fields) -> list[Observation] | None:
        """What an activity of a sub-agent tells: whether it is at work."""
        agent, kind = text(item, "agent_thread_id"), snake(text(item, "kind"))
        if not agent or kind not in ("started", "completed", "interrupted"):
            return None
        (self._background.add if kind == "started" else self._background.discard)(agent)
        return [self._children()]

    def leave(self, *, is_natural: bool, waiting: frozenset[str]) -> list[Observation]:
        """Close the calls of a turn that is over; a command that runs on is background work from here on.

        Neither an interrupt nor the end of a turn ends a command that Codex has started. It never started those that
        were `waiting` for an answer.
        """
        told: list[Observation] = []
        for call_id, kind in list(self.open.items()):
            is_running = kind == "command_execution" and call_id not in waiting
            if is_running:
                self._background.add(call_id)
                self._left.add(call_id)
            is_fine = is_running and is_natural
            error = None if is_fine else ToolError(kind="interrupted", message="the turn ended before the call did")
            told.append(self._close(call_id, {"is_running": True} if is_running else None, error))
        has_left = bool(self._background.intersection(self._over))
        self._over.clear()
        return [*told, self._children()] if has_left else told

    def _children(self) -> ChildrenChanged:
        return ChildrenChanged(open=frozenset(self._background))

    def _close(self, call_id: str, output: Json, error: ToolError | None) -> ToolReturned:
        self.open.pop(call_id, None)
        self._over.add(call_id)
        return ToolReturned(call_id=call_id, output=output, error=error)


def _called(item: Fields) -> ToolCalled | None:
    make = _CALLS.get(text(item, "type"))
    called = make(item) if make is not None else None
    return called if called is not None and called.call_id else None
