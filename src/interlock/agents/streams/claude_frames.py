"""The parts of a frame of Claude Code's stream-json that need no memory to be read."""

from __future__ import annotations

from typing import Final

from interlock.agents.observations import ToolReturned
from interlock.vocabulary.conversation import ToolError
from interlock.vocabulary.foreign_json import Fields, inner, members, text
from interlock.vocabulary.registry import Json

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
