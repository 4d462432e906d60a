"""The tool calls of one ACP session, put together by id from whatever pieces an agent gives.

Agents differ: one asks for permission before it has said a word about the call, one says `in_progress` and then asks,
one asks by the id alone, one says `pending` with empty arguments and fills them in later. So each word about a call is
merged with those before it, and the call is told once, when more than a bare announcement is known of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.agents.observations import Observation, ToolCalled, ToolReturned
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import mapping, sequence, string

MAX_OPEN_CALLS: Final = 4096
_UNNAMED: Final = "tool"


@dataclass(slots=True)
class Call:
    """What is known of one call so far."""

    call_id: str
    name: str = ""
    kind: str = ""
    title: str = ""
    raw_input: Json = None
    raw_output: Json = None
    content: Json = None
    is_told: bool = False
    is_refused: bool = False

    def merge(self, word: Mapping[str, Json]) -> None:
        """Take over what this word says; what it leaves out stays."""
        self.name = _tool_name(mapping(word.get("_meta"))) or self.name
        self.kind = string(word.get("kind")) or self.kind
        self.title = string(word.get("title")) or self.title
        self.raw_input = word.get("rawInput") or self.raw_input
        self.raw_output = word["rawOutput"] if word.get("rawOutput") is not None else self.raw_output
        self.content = word.get("content", self.content)  # it replaces what was shown before

    @property
    def tool(self) -> str:
        """The tool's own name where the agent gives it, else the kind of tool."""
        return self.name or (self.kind if self.kind != "other" else "") or self.title or _UNNAMED

    @property
    def args(self) -> Json:
        """The arguments; where the agent gives none, what it shows a person about them."""
        if self.raw_input is not None or not self.title:
            return self.raw_input
        return {"title": self.title}


class AcpCalls:
    """The calls of the current turn. Feed it each word about a call."""

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._closed: set[str] = set()

    def forget(self) -> None:
        """A new turn begins: ids may come again."""
        self._open.clear()
        self._closed.clear()

    def word(self, update: Mapping[str, Json], *, is_announcement: bool) -> list[Observation]:
        """What a `tool_call` or `tool_call_update` amounts to. A call that has returned says nothing more."""
        call_id = string(update.get("toolCallId"))
        if not call_id or call_id in self._closed:
            return []
        is_known, status = call_id in self._open, string(update.get("status"))
        call = self._merged(call_id, update)
        if call is None or (is_announcement and not is_known and status in ("", "pending")):
            return []
        told = self.tell(call)
        if status in ("completed", "failed"):
            del self._open[call_id]
            self._closed.add(call_id)
            told.append(_returned(call, is_failure=status == "failed"))
        return told

    def asked(self, update: Mapping[str, Json]) -> tuple[Call | None, list[Observation]]:
        """The call that a permission request is about, and what to say of it first."""
        call_id = string(update.get("toolCallId"))
        call = None if not call_id or call_id in self._closed else self._merged(call_id, update)
        return (call, self.tell(call)) if call is not None else (None, [])

    def refused(self, call_ids: Iterable[str]) -> list[Observation]:
        """Calls that a person refused, where the agent says nothing more of them: they will not run."""
        over = [self._open.pop(call_id) for call_id in call_ids if call_id in self._open]
        self._closed.update(call.call_id for call in over)
        return [_denied(call) for call in over]

    def refuse(self, call_id: str) -> None:
        """A person refused the call; what it returns from now on is that refusal."""
        if call_id in self._open:
            self._open[call_id].is_refused = True

    def rest(self) -> list[Observation]:
        """Calls that were announced and of which nothing more came: at the end of a turn they are told as they are."""
        return [seen for call in self._open.values() for seen in self.tell(call)]

    def tell(self, call: Call) -> list[Observation]:
        """The call, unless it has been told."""
        if call.is_told:
            return []
        call.is_told = True
        return [ToolCalled(call_id=call.call_id, name=call.tool, args=call.args)]

    def _merged(self, call_id: str, update: Mapping[str, Json]) -> Call | None:
        if call_id not in self._open and len(self._open) >= MAX_OPEN_CALLS:
            return None
        call = self._open.setdefault(call_id, Call(call_id))
        call.merge(update)
        return call


def _tool_name(meta: Mapping[str, Json]) -> str:
    nested = mapping(meta.get("claudeCode"))
    return string(meta.get("toolName")) or string(meta.get("tool_name")) or string(nested.get("toolName"))


def _returned(call: Call, *, is_failure: bool) -> ToolReturned:
    shown = content_text(call.content)
    if is_failure:
        message = shown or string(call.raw_output) or "the agent gave no reason"
        kind = "denied" if call.is_refused else "tool_failed"
        return ToolReturned(call_id=call.call_id, error=ToolError(kind=kind, message=message, details=call.raw_output))
    return ToolReturned(call_id=call.call_id, output=shown or call.raw_output or call.content or None)


def _denied(call: Call) -> ToolReturned:
    return ToolReturned(call_id=call.call_id, error=ToolError(kind="denied", message="the call was refused"))


def content_text(content: Json) -> str:
    """The text of tool content: a list of blocks, each of which may wrap another."""
    blocks = [mapping(block) for block in sequence(content)]
    inner = [mapping(block.get("content")) if block.get("type") == "content" else block for block in blocks]
    return "".join(string(block.get("text")) for block in inner)
