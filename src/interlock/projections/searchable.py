"""What of an event can be found by a search: the text of a transcript, as it was said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from interlock.vocabulary.events.audit import SessionOpened, SessionRenamed, TurnFailed
from interlock.vocabulary.events.conversation import AssistantMessage, SubagentEvent, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.wire.frames import Role

MAX_TOOL_CHARACTERS: Final = 64_000
"""Of what a tool was given or gave, so much can be found."""
TYPES: Final = (
    *(SessionOpened, SessionRenamed, TurnFailed),
    *(UserMessage, AssistantMessage, ToolCall, ToolResult, SubagentEvent),
)
"""Every other type holds nothing to be found."""


def searchable(event: Event) -> tuple[Role, str] | None:
    """Who said something, and what; None: there is nothing to be found."""
    match event.data:
        case UserMessage(text=text):
            found = Role.USER, text
        case AssistantMessage(text=text, metadata=metadata):
            found = Role.COMMENTARY if metadata.intermediate else Role.ANSWER, text
        case ToolCall(name=name, args=args):
            found = Role.TOOL, _joined((name, args))
        case ToolResult(output=output, error=error):
            found = Role.TOOL, _joined((output, None if error is None else error.message))
        case SubagentEvent(agent=agent, task=task, summary=summary, reason=reason):
            found = Role.TOOL, _joined((agent, task, summary, reason))
        case TurnFailed(error_kind=kind, error_message=message):
            found = Role.END, f"{kind}\n{message}"
        case _:
            return None
    return found if found[1].strip() else None


def _joined(values: tuple[Json, ...]) -> str:
    parts: list[str] = []
    size = 0
    for part in _strings(values):
        parts.append(part[: MAX_TOOL_CHARACTERS - size])
        size += len(part) + 1
        if size >= MAX_TOOL_CHARACTERS:
            break
    return "\n".join(parts)


def _strings(value: Json | tuple[Json, ...]) -> Iterator[str]:
    """Every text and number in it, in order. The depth of an event is bounded by its codec."""
    match value:
        case str():
            yield value
        case bool() | None:
            return
        case int() | float():
            yield str(value)
        case dict():
            for one in value.values():
                yield from _strings(one)
        case _:
            for one in value:
                yield from _strings(one)
